"""A temperature or an affine map becomes part of the weights of a network's last layer, in place.

Where there is a probe, the new logits are compared with the calibrated ones. After any error the weights are restored.
"""

from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from nishimori.errors import InputError
from nishimori.maps.affine import Affine
from nishimori.torch._change import Change, Division
from nishimori.torch._head import INSTEAD, Head
from nishimori.torch._logits import classes_last, logits_of
from nishimori.torch._modes import evaluating
from nishimori.torch._run import AS_THEY_ARE, answer, device_of, move_to_device, short, structure

# How much folded logits may differ from the calibrated ones, relative to the largest. Rounding each weight once and each logit
# twice changes a few units in the last place, and more where large terms cancel. A wrong layer or a nonlinear function after
# it changes far more.
_TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}

_NO_PROBE = "Leave `probe` out, and compare the logits before and after folding yourself."


def fold_into(model: nn.Module, head: Head, change: Change, probe: Any = None, class_axis: int = -1) -> None:
    """Make ``change`` to ``head``, the last layer of ``model``, in place, and note it in the layer.

    ``class_axis`` is the dimension of the classes in the logits of the network.
    """
    change.fits(head.layer, str(head), is_checked=probe is not None)
    before = None if probe is None else _first_logits(model, probe, class_axis)
    if before is not None:
        _check_probe(before)
    expected = None if before is None else change.logits(before)
    layer: Any = head.layer
    weight, bias = layer.weight, layer.bias
    kept = weight.detach().clone(), None if bias is None else bias.detach().clone()
    try:
        with torch.no_grad():
            _replace(layer, *change.weights(weight, bias))
        _check_finite(layer, kept, change, head)
        if expected is not None:
            _check_logits(_logits(model, probe, class_axis), expected, change, head)
    except BaseException:
        with torch.no_grad():
            _replace(layer, *kept)
        raise
    _note(layer, change)


def _replace(layer: Any, weight: Tensor, bias: Tensor | None) -> None:
    """Give a layer other values, in the same parameters; one without a bias gets one if it needs it."""
    layer.weight.copy_(weight)
    if layer.bias is None or bias is None:
        layer.bias = None if bias is None else nn.Parameter(bias, requires_grad=layer.weight.requires_grad)
    else:
        layer.bias.copy_(bias)


def _check_finite(layer: Any, kept: tuple[Tensor, Tensor | None], change: Change, head: Head) -> None:
    """Refuse finite weights that became infinite or NaN."""
    for part, old in zip((layer.weight, layer.bias), kept, strict=True):
        if part is not None and not (part.isfinite() if old is None else part.isfinite() | ~old.isfinite()).all():
            raise InputError(
                f"The weights of {head}",
                "stay finite",
                got=f"an overflow of {part.dtype} when {change.event}",
                remedy=f"The folding was undone. Fold in a wider dtype; or {INSTEAD}.",
            )


def _note(layer: Any, change: Change) -> None:
    """Note in a layer what was folded into it; `fold_temperature` looks for it, so as not to divide twice by mistake."""
    if isinstance(change, Division):
        layer.folded_temperature = change.temperature * getattr(layer, "folded_temperature", 1.0)
    else:
        layer.folded_map = Affine.kind


def _first_logits(model: nn.Module, probe: Any, class_axis: int) -> Tensor:
    """The logits before folding; an error here is due to the probe."""
    try:
        return _logits(model, probe, class_axis)
    except AS_THEY_ARE:
        raise
    except Exception as error:
        raise InputError(
            "probe",
            "hold inputs that the network accepts",
            got=short(error),
            remedy=(
                f"The probe is {structure(probe)}. Pass a tensor, a tuple of positional arguments or a dict of "
                "keyword arguments, without labels."
            ),
        ) from error


def _logits(model: nn.Module, probe: Any, class_axis: int) -> Tensor:
    """The logits of a probe, with the classes last."""
    with evaluating(model):
        return classes_last(logits_of(answer(model, move_to_device(probe, device_of(model))), _NO_PROBE), class_axis)


def _check_probe(logits: Tensor) -> None:
    """Refuse logits that no comparison can use; -inf is allowed and masks a class."""
    live = logits[logits != -torch.inf]
    if not live.isfinite().all() or not live.any():
        what = "only zeros" if live.isfinite().all() else "NaN or +inf"
        raise InputError(
            "probe",
            "give finite logits that are not all zero",
            got=f"{what} before folding",
            remedy="Check the inputs, or run the network in a wider dtype: the largest float16 is 65,504.",
        )


def _check_logits(after: Tensor, expected: Tensor, change: Change, head: Head) -> None:
    """Refuse logits that are not those expected; -inf masks a class."""
    live = expected != -torch.inf
    off = float((after[live].double() - expected[live]).abs().max() / expected[live].abs().max())
    allowed = _tolerance(after, head.layer.weight)
    if not off <= allowed:  # also NaN
        what = (
            f"differ from {change.result} by {off:.2g} of the largest ({allowed:g} is allowed)"
            if isfinite(off)
            else "are not finite"
        )
        raise InputError(
            "The logits of the network",
            f"be the output of {head}, but after folding the logits on `probe` {what}",
            remedy=(
                "The folding was undone. If another layer computes the logits, pass that layer; if a nonlinear "
                f"function follows, {INSTEAD}. Rounding in {head.layer.weight.dtype} can also cause this: fold in a "
                "wider dtype."
            ),
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
