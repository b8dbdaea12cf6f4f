"""One call of a network, and the logits in its output.

The network runs in eval mode and without gradients, on inputs that are moved to the device of its weights. Afterwards every
module has its previous mode, and the caller's autocast cache is empty. The output may be a tensor of logits, an object with
``.logits`` or a dict with the key ``"logits"``. Anything else is refused, because guessing could pick the wrong tensor.
"""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from nishimori._numbers import temperature
from nishimori.errors import InputError


def check_module(model: Any, name: str = "model") -> None:
    """Refuse anything that is not a network."""
    if not isinstance(model, nn.Module):
        got = "the class itself, not an instance" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InputError(f"`{name}` must be a torch.nn.Module, got {got}.")


def number(value: float | Tensor, name: str) -> float:
    """A temperature that the user passed as ``name``, as a finite positive number."""
    return temperature(value.detach() if isinstance(value, Tensor) else value, name)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside the ``with`` block; afterwards, also after an error, every module has its previous mode."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
    except Exception as error:
        _set_flags(modes)
        raise InputError(
            f"`model` must support `model.eval()`, got a {type(model).__name__} that does not: {str(error).rstrip('.')}. If it "
            "was exported, calibrate it before exporting."
        ) from error
    try:
        yield
    finally:
        # Parents come first. Setting the flag is not enough: some layers merge or split weights in `train`.
        for module, training in modes:
            if module.training != training:
                module.train(training)
        _set_flags(modes)  # a later parent may have changed a module that it shares with an earlier one
        # Older versions of torch would use the half-precision copies made here, which have no gradients, in later training.
        torch.clear_autocast_cache()


def _set_flags(modes: list[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        module.training = training


def device_of(model: nn.Module) -> torch.device | None:
    """The device of the weights, or None for a network without weights."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return None if first is None else first.device


def answer(model: nn.Module, inputs: Any, device: torch.device | None) -> Any:
    """The output of ``model`` for a mapping of keyword arguments, a tuple or list of positional arguments, or one input."""
    inputs = inputs if device is None else moved(inputs, device)
    with torch.inference_mode():
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


def moved(value: Any, device: torch.device) -> Any:
    """``value`` with every tensor inside it on ``device``."""
    if hasattr(value, "to"):  # tensors, encodings, packed sequences, graphs
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(each, device) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(each, device) for each in value))
    return type(value)(moved(each, device) for each in value) if isinstance(value, list | tuple) else value


def logits_of(output: Any) -> Tensor:
    """The logits in the output of a network."""
    logits = output
    if not isinstance(output, Tensor):
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputError(
            "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got "
            f"{described(output)}. Wrap the model in a module whose `forward` returns the logits alone."
        )
    if not logits.is_floating_point():
        raise InputError(
            f"`model` must return logits, got {logits.dtype}. Return the scores before the softmax, not the predicted classes."
        )
    return logits


def with_logits(output: Any, logits: Tensor) -> Any:
    """A copy of the output of a network, of the same type, with other logits."""
    if isinstance(output, Tensor):
        return logits
    if type(output) is dict:
        return {**output, "logits": logits}
    if isinstance(output, tuple) and hasattr(output, "_replace"):
        return output._replace(logits=logits)
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return dataclasses.replace(output, logits=logits)
    changed = copy.copy(output)
    if isinstance(output, Mapping):
        changed["logits"] = logits
    else:
        changed.logits = logits
    return changed


def described(output: Any) -> str:
    """The type of a value and its keys or length, for messages."""
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} with the keys {list(output)}"
    if isinstance(output, tuple | list):
        return f"a {type(output).__name__} of length {len(output)}"
    return f"a {type(output).__name__}"
