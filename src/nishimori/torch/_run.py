"""How a network is asked a question, and where in its answer the logits are.

It is asked in eval mode, without gradients, with the inputs where its weights are. Afterwards it is as it was: every module has
the mode it had, and the caller's autocast has forgotten what it learned. It may answer with its logits, an object with
``.logits`` or a dict with the key ``"logits"``. Nothing else is guessed at.
"""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from nishimori._numbers import temperature as checked_temperature
from nishimori.errors import InputError


def check_module(model: Any, name: str = "model") -> None:
    """Refuse what is no network."""
    if not isinstance(model, nn.Module):
        got = "the class itself, not an instance" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InputError(f"`{name}` must be a torch.nn.Module, got {got}.")


def number(temperature: float | Tensor, name: str) -> float:
    """A temperature the user passed as ``name``, as a finite positive number."""
    value = temperature.detach() if isinstance(temperature, Tensor) else temperature
    return checked_temperature(value, name)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for a while; then every module has its own mode again, also after an error."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
    except Exception as error:
        _set_flags(modes)
        raise InputError(
            f"`model` must go to eval mode, got a {type(model).__name__} that cannot: {str(error).rstrip('.')}. If it was "
            "exported, calibrate before exporting."
        ) from error
    try:
        yield
    finally:
        # Parents come first. Setting the flag alone would not do: some layers merge weights when their mode changes.
        for module, training in modes:
            if module.training != training:
                module.train(training)
        _set_flags(modes)  # a later parent may have changed a module that it shares with an earlier one
        # Older versions of torch would go on to train with the half-precision copies of weights made here without gradients.
        torch.clear_autocast_cache()


def _set_flags(modes: list[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        module.training = training


def device_of(model: nn.Module) -> torch.device | None:
    """Where the weights are, or None for a network without any."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return None if first is None else first.device


def answer(model: nn.Module, inputs: Any, device: torch.device | None) -> Any:
    """What ``model`` returns for ``inputs``: keywords if they are a mapping, positions if a tuple or list, else one."""
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
    """The logits in what a network returned."""
    logits = output
    if not isinstance(output, Tensor):
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputError(
            "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got "
            f"{_described(output)}. Wrap the model in a module whose `forward` returns the logits alone."
        )
    if not logits.is_floating_point():
        raise InputError(
            f"`model` must return logits, got {logits.dtype}. Return the scores before the softmax, not the classes."
        )
    return logits


def with_logits(output: Any, logits: Tensor) -> Any:
    """A copy of what a network returned, of the same kind, with other logits; all else is kept."""
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


def _described(output: Any) -> str:
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} with the keys {list(output)}"
    if isinstance(output, tuple | list):
        return f"a {type(output).__name__} of {len(output)}"
    return f"a {type(output).__name__}"
