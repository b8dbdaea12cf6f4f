"""Division of a network's last layer by T: checked on a probe where there is one, and undone if it was wrong.

Logits are weights times features plus bias, so dividing both by T divides the logits by T, at no cost when serving.
"""

from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from nishimori._inputs import inverse
from nishimori.errors import InputError
from nishimori.torch._head import INSTEAD, Head, final_layer
from nishimori.torch._outputs import logits_of
from nishimori.torch._run import answer, device_of, evaluating

# How far folded logits may be from logits / T, relative to the largest. Rounding each weight once and each logit twice costs at
# most a few units in the last place; a wrong layer or something nonlinear costs far more.
_TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def number(temperature: float | Tensor, name: str) -> float:
    """A temperature the user passed as ``name``, as a finite positive number."""
    value = temperature.detach() if isinstance(temperature, Tensor) else temperature
    inverse(value, name)  # refuses anything else
    return float(value)


def divide(model: nn.Module, temperature: float, probe: Any = None) -> Head:
    """Divide the last layer of ``model`` in place, and say which it was."""
    head = final_layer(model)
    before = None if probe is None else _logits(model, probe)
    if before is not None:
        _check_probe(before)
    parts = [part for part in (head.layer.weight, head.layer.bias) if isinstance(part, Tensor)]
    kept = [part.detach().clone() for part in parts]
    with torch.no_grad():
        for part in parts:
            part.div_(temperature)
    if before is not None:
        try:
            _check(_logits(model, probe), before, temperature, head)
        except BaseException:
            with torch.no_grad():
                for part, old in zip(parts, kept, strict=True):
                    part.copy_(old)
            raise
    # For whoever looks at the layer, and for `fold_temperature`, which does not divide twice by mistake.
    head.layer.folded_temperature = temperature * getattr(head.layer, "folded_temperature", 1.0)  # type: ignore[assignment]
    return head


def _logits(model: nn.Module, probe: Any) -> Tensor:
    with evaluating(model):
        return logits_of(answer(model, probe, device_of(model)))


def _check_probe(logits: Tensor) -> None:
    """Refuse logits that would show nothing; -inf is allowed and masks a class."""
    live = logits[logits != -torch.inf]
    if not live.isfinite().all() or not live.any():
        what = "only zeros" if live.isfinite().all() else "NaN or +inf"
        raise InputError(
            f"`probe` must give finite logits that are not all zero, got {what} before anything was folded. Check the inputs, "
            "or run the network in a wider dtype: float16 ends at 65,504."
        )


def _check(after: Tensor, before: Tensor, temperature: float, head: Head) -> None:
    live = before != -torch.inf
    expected = before[live].double() / temperature
    off = float((after[live].double() - expected).abs().max() / expected.abs().max())
    allowed = _tolerance(after, head.layer.weight)
    if not off <= allowed:  # also NaN
        what = f"differ from logits / T by up to {off:.2g} of the largest" if isfinite(off) else "are not finite"
        raise InputError(
            f"The network must end in {head}, but after folding its logits on `probe` {what}, where {allowed:g} is allowed. "
            f"The folding is undone. If another layer gives the logits, pass that; if something nonlinear follows, {INSTEAD}."
        )


def _tolerance(logits: Tensor, weight: Any) -> float:
    """The loosest that any dtype on the way asks for."""
    dtypes = {logits.dtype, weight.dtype}
    kind = logits.device.type
    if torch.is_autocast_enabled(kind):
        dtypes.add(torch.get_autocast_dtype(kind))
    if kind == "cuda" and (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32):
        dtypes.add(torch.float16)  # TF32 has as many digits
    return max(_TOLERANCES.get(dtype, 1e-5) for dtype in dtypes)
