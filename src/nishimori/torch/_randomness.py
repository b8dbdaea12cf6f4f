"""Dropout that eval mode does not switch off: a network, or a function of the user, that gives other logits each time.

Whether random numbers were drawn is told by the states of PyTorch's generators before and after a batch, so that a network
that draws none is not run twice.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nishimori._rows.fingerprint import Fingerprint
from nishimori._support.warnings import notice
from nishimori.errors import InputWarning
from nishimori.torch._batch_rows import BatchRows


def random_states(device: torch.device | None) -> list[Tensor]:
    """The states of the random number generators of the CPU and of the device of a network."""
    states = [torch.get_rng_state()]
    if device is not None and device.type in ("cuda", "xpu"):
        states.append(getattr(torch, device.type).get_rng_state(device))
    return states


def drew_numbers(before: list[Tensor], device: torch.device | None) -> bool:
    """Whether somebody has drawn random numbers since the states were those."""
    return not all(map(torch.equal, before, random_states(device)))


def warn_of_random_forward(model: nn.Module, *, has_drawn: bool) -> None:
    """Warn if the user's function ``forward`` has left modules in training mode, or has drawn random numbers."""
    switched = _in_training(model)
    if switched is None and not has_drawn:
        return
    did = [f"switched {switched} to training mode"] * (switched is not None) + ["drew random numbers"] * has_drawn
    notice(
        f"`forward` {' and '.join(did)}, as for dropout. The temperature is that of the logits that `forward` returns, but the "
        "calibrated network calls `model` itself, in eval mode and without `forward`. To calibrate an average over dropout "
        "masks, write a module whose own `forward` averages over them, and pass it as `model`. Otherwise use no dropout in "
        "`forward`.",
        InputWarning,
    )


def warn_of_random_logits(model: nn.Module, first: BatchRows, again: Callable[[], BatchRows | None]) -> None:
    """Warn if the network gives other logits for the same batch when it is run ``again``. Rounding does not count."""
    switched, second = _in_training(model), again()
    if second is None:
        return
    with first.naming_batch():
        before = Fingerprint.of(first.rows(), is_first=True)
        now = Fingerprint.of(second.rows(), is_first=False)
    if before.agrees(now):
        return
    cause = f"`forward` of the network, which switches {switched} to training mode"
    if switched is None:
        cause = "dropout that does not follow the mode, such as `torch.nn.functional.dropout` without `training=self.training`"
    notice(
        f"`model` must give the same logits for the same batch in eval mode, got others when batch {first.number} was run "
        f"again: they changed by {before.change(now):.2g} of their scale. The usual cause is {cause}. The temperature is that "
        "of single random predictions. Switch dropout off in eval mode. If the network averages over dropout masks on purpose, "
        "average over more of them, or draw the same ones in every call, with a seed inside `torch.random.fork_rng()`.",
        InputWarning,
    )


def _in_training(model: nn.Module) -> str | None:
    """A module in training mode in words, if possible one of dropout; None if there is none."""
    names = [f"{name or 'the network'} ({type(each).__name__})" for name, each in model.named_modules() if each.training]
    return next((each for each in names if "Dropout" in each), names[-1]) if names else None
