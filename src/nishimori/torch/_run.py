"""One call of a network: in eval mode, on inputs that are moved to the device of its weights; and its errors in words.

A network that is in eval mode already is not touched, so it can serve from many threads. In a network in training mode the
modes are switched for as long as a computation uses it: the first computation switches them and the last one restores
them, so that simultaneous ones do not see each other's changes. What the network itself switches meanwhile is restored, too.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nishimori._support.numbers import between, temperature
from nishimori.errors import InputError, NishimoriError

# Messages show the structure of ordinary batches in full, and only the start of very large ones.
_MOST_ENTRIES = 8
_MOST_LETTERS = 300

# Errors that explain themselves, or that have nothing to do with what is in a batch.
AS_THEY_ARE = (NishimoriError, MemoryError, torch.cuda.OutOfMemoryError)


def check_module(model: Any, name: str = "model") -> None:
    """Refuse anything that is not a network."""
    if not isinstance(model, nn.Module):
        got = "the class itself, not an instance" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InputError(name, "be a torch.nn.Module", got=got)


def number(value: float | Tensor, name: str) -> float:
    """A temperature that the user passed as ``name``, if float32 holds it, in which networks divide."""
    T = temperature(value.detach() if isinstance(value, Tensor) else value, name)
    return between(name, T, torch.finfo(torch.float32).smallest_normal, torch.finfo(torch.float32).max)


def device_of(model: nn.Module) -> torch.device | None:
    """The device of the weights, or None for a network without weights."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return None if first is None else first.device


def answer(model: nn.Module, inputs: Any) -> Any:
    """The output of ``model`` for a mapping of keyword arguments, a tuple or list of positional arguments, or one input."""
    with torch.inference_mode():
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


def move_to_device(value: Any, device: torch.device | None) -> Any:
    """A value with every tensor inside it on ``device``; None moves nothing."""
    if device is None:
        return value
    if hasattr(value, "to"):  # tensors, encodings, packed sequences, graphs
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: move_to_device(entry, device) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move_to_device(entry, device) for entry in value))
    return type(value)(move_to_device(entry, device) for entry in value) if isinstance(value, list | tuple) else value


def description(output: Any) -> str:
    """The type of a value and its keys or length, for messages."""
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} with the keys {list(output)}"
    if isinstance(output, tuple | list):
        return f"a {type(output).__name__} of length {len(output)}"
    return f"a {type(output).__name__}"


def structure(value: Any) -> str:
    """The types, shapes, ranges of values and keys of a batch."""
    if isinstance(value, Tensor):
        return f"tensor {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}{_range(value)}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape}{_range(value)}"
    if isinstance(value, Mapping):
        return f"{type(value).__name__} {{{join_entries(f'{key!r}: {structure(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, tuple | list):
        if value and all(isinstance(entry, str | int | float) for entry in value):
            return f"{type(value).__name__} of {len(value)} {type(value[0]).__name__}"
        return f"{type(value).__name__} ({join_entries(map(structure, value))})"
    return type(value).__name__


def join_entries(entries: Iterable[str]) -> str:
    """The first entries, separated by commas."""
    entries = list(entries)
    return ", ".join(entries[:_MOST_ENTRIES] + ["..."] * (len(entries) > _MOST_ENTRIES))


def short(error: Exception) -> str:
    """The type and the message of an error, in one line."""
    message = " ".join(str(error).split())
    cut = f"{message[:_MOST_LETTERS]}..." if len(message) > _MOST_LETTERS else message.rstrip(".")
    return f"{type(error).__name__}: {cut}" if cut else type(error).__name__


def _range(value: Any) -> str:
    """The smallest and the largest entry, which tell labels from other integers; nothing where there is no order."""
    try:
        low, high = value.min().item(), value.max().item()
        return f" from {low:.4g} to {high:.4g}" if isinstance(low, float) else f" from {low} to {high}"
    except (RuntimeError, TypeError, ValueError, AttributeError):  # empty, complex, sparse or meta tensors, arrays of objects
        return ""


@dataclass
class _Use:
    """How many computations use a network, and the modes to restore after the last one."""

    modes: list[tuple[nn.Module, bool]]
    n_computations: int = 0


_uses: dict[int, _Use] = {}  # by the id of a network, which cannot be reused while a computation holds the network
_lock = RLock()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside the ``with`` block; afterwards, also after an error, every module has its previous mode."""
    with _lock:
        if id(model) not in _uses:
            _uses[id(model)] = _Use(_enter_eval_mode(model))
        use = _uses[id(model)]
        use.n_computations += 1
    try:
        yield
    finally:
        with _lock:
            use.n_computations -= 1
            if not use.n_computations:
                del _uses[id(model)]
                _restore(use.modes)
        # Older versions of torch would use the half-precision copies made here, which have no gradients, in later training.
        torch.clear_autocast_cache()


def switch_to_eval(model: nn.Module) -> None:
    """Put the network in eval mode, if some module is not."""
    if any(module.training for module in model.modules()):
        model.eval()


def _enter_eval_mode(model: nn.Module) -> list[tuple[nn.Module, bool]]:
    """Put the network in eval mode; the modes that its modules had before."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        switch_to_eval(model)
    except Exception as error:
        _set_flags(modes)
        raise InputError(
            "model",
            "support `model.eval()`",
            got=f"a {type(model).__name__} that does not: {str(error).rstrip('.')}",
            remedy="If it was exported, calibrate it before exporting.",
        ) from error
    return modes


def _restore(modes: list[tuple[nn.Module, bool]]) -> None:
    # Parents come first. Setting the flag is not enough: some layers merge or split weights in `train`.
    for module, training in modes:
        if module.training != training:
            module.train(training)
    _set_flags(modes)  # a later parent may have changed a module that it shares with an earlier one


def _set_flags(modes: list[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        if module.training != training:
            module.training = training
