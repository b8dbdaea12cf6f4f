"""How a network is asked a question: in eval mode, without gradients, with the inputs where its weights are.

Afterwards it is as it was: every module has the mode it had, and the caller's autocast has forgotten what it learned.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from nishimori.errors import InputError


def check_module(model: Any, name: str = "model") -> None:
    """Refuse what is no network."""
    if not isinstance(model, nn.Module):
        got = "the class itself, not an instance" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InputError(f"`{name}` must be a torch.nn.Module, got {got}.")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for a while; then every module has its own mode again, also after an error."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        if any(training for _, training in modes):
            model.eval()
        yield
    finally:
        # Parents come first. Setting the flag alone would not do: some layers merge weights when their mode changes.
        for module, training in modes:
            if module.training != training:
                module.train(training)
        for module, training in modes:
            module.training = training
        # Older versions of torch would go on to train with the half-precision copies of weights made here without gradients.
        torch.clear_autocast_cache()


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
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if hasattr(value, "to"):  # encodings, packed sequences, graphs
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(each, device) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(each, device) for each in value))
    return type(value)(moved(each, device) for each in value) if isinstance(value, list | tuple) else value
