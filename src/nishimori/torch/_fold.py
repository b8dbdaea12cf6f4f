"""Calibration for free: T folded into the weights that make the logits.

Logits are weights times features plus bias, so dividing both by T divides the logits by T, at no cost when serving. The
division is checked on a probe where there is one, and undone if it was wrong.
"""

from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from nishimori.errors import InputError
from nishimori.torch._calibrated import Calibrated
from nishimori.torch._head import INSTEAD, Head, final_layer
from nishimori.torch._run import answer, check_module, device_of, evaluating, logits_of, number

# How far folded logits may be from logits / T, relative to the largest. Rounding each weight once and each logit twice costs at
# most a few units in the last place, and more where large terms cancel; a wrong layer or something nonlinear costs far more.
_TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def fold_temperature(model_or_layer: nn.Module, T: float | Tensor, *, probe: Any = None) -> nn.Module:
    """Divide the weights and bias of the last layer by T in place, and return that layer.

    The network then gives logits / T at no cost, and keeps its class, its file format and its serving code. The layer is
    found by its name (``fc``, ``classifier``, ``head``, ``lm_head``, ``linear``, ...), at the end of a ``Sequential``, or
    passed itself; it may be a `Linear` or a convolution, say 1×1.

    Parameters
    ----------
    model_or_layer : torch.nn.Module
        A network, or the layer that gives its logits. What a network does beside and after a layer cannot be seen from the
        layer alone: whether its weights are shared, say.
    T : float
        The temperature, positive and finite. For a `Calibrated`, call its `fold` instead.
    probe : optional
        Inputs on which to check that folded logits equal logits / T; if they do not, the folding is undone. A tensor is the one
        argument of the network, a tuple its positional and a mapping its keyword arguments, without labels.

    Returns
    -------
    torch.nn.Module
        The layer that was divided, with T noted in its attribute ``folded_temperature``.

    Raises
    ------
    InputError
        If no single last layer is found; if it is not linear, or shared (tied embeddings), parametrised, quantised, adapted
        or soft-capped; if a T is folded in already; if weights overflow; or if the probe disagrees. The network is then as it
        was.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import fold_temperature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> x = torch.randn(5, 4)
    >>> before = network(x)
    >>> fold_temperature(network, 2.0, probe=x)
    Linear(in_features=8, out_features=3, bias=True)
    >>> torch.allclose(network(x), before / 2)
    True
    """
    check_module(model_or_layer, "model_or_layer")
    temperature = number(T, "T")
    _check_uncalibrated(model_or_layer)
    head = final_layer(model_or_layer)
    folded = getattr(head.layer, "folded_temperature", None)
    if folded is not None:
        raise InputError(
            f"`T` must be folded once, got {temperature:.4g} for {head}, which has {folded:.4g} folded in already. If the new "
            "T was found with the folded weights, call `Calibrated(model, T).fold()`; if the weights were replaced since, "
            "delete the attribute `folded_temperature` of the layer."
        )
    divide(model_or_layer, head, temperature, probe)
    return head.layer


def divide(model: nn.Module, head: Head, temperature: float, probe: Any = None) -> None:
    """Divide ``head``, the last layer of ``model``, in place, and note it there."""
    before = None if probe is None else _logits(model, probe)
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
                f"{temperature:.4g}. The folding is undone. Fold in a wider dtype; or {INSTEAD}."
            )
        if before is not None:
            _check(_logits(model, probe), before, temperature, head)
    except BaseException:
        with torch.no_grad():
            for part, old in zip(parts, kept, strict=True):
                part.copy_(old)
        raise
    # For whoever looks at the layer, and for `fold_temperature`, which does not divide twice by mistake.
    head.layer.folded_temperature = temperature * getattr(head.layer, "folded_temperature", 1.0)  # type: ignore[assignment]


def _check_uncalibrated(model: nn.Module) -> None:
    """Refuse a network that would divide its logits once more."""
    path = next((path for path, each in model.named_modules() if isinstance(each, Calibrated)), None)
    if path is not None:
        got, owner = (f"one that contains a Calibrated at `{path}`", f"`model.{path}.") if path else ("a Calibrated", "its `")
        raise InputError(
            f"`model_or_layer` must be a network or a layer, got {got}, which would divide its logits once more. "
            f"Call {owner}fold()`, which folds its own temperature."
        )


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
            f"The folding is undone. If another layer gives the logits, pass that; if something nonlinear follows, {INSTEAD}. "
            f"Rounding in {head.layer.weight.dtype} can do this too: fold in a wider dtype."
        )


def _tolerance(logits: Tensor, weight: Any) -> float:
    """The loosest that any dtype on the way asks for."""
    dtypes = {logits.dtype, weight.dtype}
    kind = logits.device.type
    if torch.is_autocast_enabled(kind):
        dtypes.add(torch.get_autocast_dtype(kind))
    if kind == "cuda":
        dtypes.add(torch.float16)  # TF32, which convolutions use by default, has as many digits
    return max(_TOLERANCES.get(dtype, 1e-4) for dtype in dtypes)
