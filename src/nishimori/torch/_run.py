"""One call of a network, on inputs that are moved to the device of its weights; and its inputs, outputs and errors in words."""

from collections.abc import Iterable, Mapping
from itertools import chain
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
    given = temperature(value.detach() if isinstance(value, Tensor) else value, name)
    return between(name, given, torch.finfo(torch.float32).smallest_normal, torch.finfo(torch.float32).max)


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
        return {key: move_to_device(each, device) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move_to_device(each, device) for each in value))
    return type(value)(move_to_device(each, device) for each in value) if isinstance(value, list | tuple) else value


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
        return f"{type(value).__name__} {{{join_entries(f'{key!r}: {structure(each)}' for key, each in value.items())}}}"
    if isinstance(value, tuple | list):
        if value and all(isinstance(each, str | int | float) for each in value):
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
