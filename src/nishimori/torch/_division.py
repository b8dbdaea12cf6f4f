"""Division of a network's last layer by T, in place.

Where there is a probe, the new logits are compared with logits / T. After any error the weights are restored.
"""

from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from nishimori.errors import InputError
from nishimori.torch._head import INSTEAD, Head
from nishimori.torch._logits import logits_of
from nishimori.torch._modes import evaluating
from nishimori.torch._run import AS_THEY_ARE, answer, device_of, moved, short, structure

# How much folded logits may differ from logits / T, relative to the largest. Rounding each weight once and each logit twice
# changes a few units in the last place, and more where large terms cancel. A wrong layer or a nonlinear function after it
# changes far more.
_TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}

_NO_PROBE = "Leave `probe` out, and compare the logits before and after folding yourself."


def divide(model: nn.Module, head: Head, temperature: float, probe: Any = None) -> None:
    """Divide ``head``, the last layer of ``model``, in place, and set its attribute ``folded_temperature``."""
    before = None if probe is None else _first_logits(model, probe)
    if before is not None:
        _check_probe(before)
    parts = [part for part in (head.layer.weight, head.layer.bias) if isinstance(part, Tensor)]
    kept = [part.detach().clone() for part in parts]
    try:
        with torch.no_grad():
            for part in parts:
                part.div_(temperature)
        if not all((part.isfinite() | ~old.isfinite()).all() for part, old in zip(parts, kept, strict=True)):
            raise InputError(
                f"The weights of {head} must stay finite, got an overflow of {parts[0].dtype} when divided by "
                f"{temperature:.4g}. The folding was undone. Fold in a wider dtype; or {INSTEAD}."
            )
        if before is not None:
            _check_division(_logits(model, probe), before, temperature, head)
    except BaseException:
        with torch.no_grad():
            for part, old in zip(parts, kept, strict=True):
                part.copy_(old)
        raise
    # `fold_temperature` looks for it, so as not to divide twice by mistake.
    head.layer.folded_temperature = temperature * getattr(head.layer, "folded_temperature", 1.0)  # type: ignore[assignment]


def _first_logits(model: nn.Module, probe: Any) -> Tensor:
    """The logits before folding; an error here is due to the probe."""
    try:
        return _logits(model, probe)
    except AS_THEY_ARE:
        raise
    except Exception as error:
        raise InputError(
            f"`probe` must hold inputs that the network accepts, got {short(error)}. The probe is {structure(probe)}. Pass a "
            "tensor, a tuple of positional arguments or a dict of keyword arguments, without labels."
        ) from error


def _logits(model: nn.Module, probe: Any) -> Tensor:
    with evaluating(model):
        return logits_of(answer(model, moved(probe, device_of(model))), _NO_PROBE)


def _check_probe(logits: Tensor) -> None:
    """Refuse logits that no comparison can use; -inf is allowed and masks a class."""
    live = logits[logits != -torch.inf]
    if not live.isfinite().all() or not live.any():
        what = "only zeros" if live.isfinite().all() else "NaN or +inf"
        raise InputError(
            f"`probe` must give finite logits that are not all zero, got {what} before folding. Check the inputs, or run the "
            "network in a wider dtype: the largest float16 is 65,504."
        )


def _check_division(after: Tensor, before: Tensor, temperature: float, head: Head) -> None:
    """Refuse logits that are not those from before, divided by the temperature."""
    live = before != -torch.inf
    expected = before[live].double() / temperature
    off = float((after[live].double() - expected).abs().max() / expected.abs().max())
    allowed = _tolerance(after, head.layer.weight)
    if not off <= allowed:  # also NaN
        what = (
            f"differ from logits / T by {off:.2g} of the largest ({allowed:g} is allowed)"
            if isfinite(off)
            else "are not finite"
        )
        raise InputError(
            f"The logits of the network must be the output of {head}, but after folding the logits on `probe` {what}. The "
            "folding was undone. If another layer computes the logits, pass that layer; if a nonlinear function follows, "
            f"{INSTEAD}. Rounding in {head.layer.weight.dtype} can also cause this: fold in a wider dtype."
        )


def _tolerance(logits: Tensor, weight: Any) -> float:
    """The largest tolerance of all dtypes that the computation uses."""
    dtypes = {logits.dtype, weight.dtype}
    kind = logits.device.type
    if torch.is_autocast_enabled(kind):
        dtypes.add(torch.get_autocast_dtype(kind))
    if kind == "cuda":
        dtypes.add(torch.float16)  # TF32, which convolutions use by default, has as many digits
    return max(_TOLERANCES.get(dtype, 1e-4) for dtype in dtypes)
