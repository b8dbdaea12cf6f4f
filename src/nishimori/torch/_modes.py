"""Eval mode for the time of a computation, and every module's own mode afterwards.

A network that is in eval mode already is not touched, so it can serve from many threads. In a network in training mode the
modes are switched for as long as somebody computes with it: the first computation switches them and the last one restores
them, so that simultaneous ones do not see each other's changes. What the network itself switches meanwhile is restored, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock

import torch
from torch import nn

from nishimori.errors import InputError


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
