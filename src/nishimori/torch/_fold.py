"""`fold_temperature`: calibration inside the weights, at no cost when serving.

Logits are weights times features plus a bias, so dividing weights and bias by T divides the logits by T.
"""

from typing import Any

from torch import Tensor, nn

from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature
from nishimori.torch._calibrated import Calibrated
from nishimori.torch._change import Division
from nishimori.torch._folding import fold_into
from nishimori.torch._head import Head, final_layer
from nishimori.torch._run import check_module, number
from nishimori.torch._wrappers import tell_others


def fold_temperature(model_or_layer: nn.Module, T: float | Tensor, *, probe: Any = None) -> nn.Module:
    """Divide the weights and bias of the last layer by T in place, and return that layer.

    The network then returns logits / T and keeps its class, its file format and its serving code. The last layer is found by
    its name (``fc``, ``classifier``, ``head``, ``lm_head``, ``linear``, ...), at the end of a ``Sequential``, or as the only
    submodule with weights, whatever its name; it may be a `Linear` or a convolution. If the last layer is not found, call
    ``Calibrated(model, T).fold(name, probe=x)`` with its name.

    Parameters
    ----------
    model_or_layer : torch.nn.Module
        A network, or the layer that computes its logits. Pass the network where you can: the layer alone does not show
        whether its outputs are the logits of the network, nor whether other layers use its weights too.
    T : float
        The temperature, positive and finite. For a `Calibrated`, call its `fold` instead.
    probe : optional
        Inputs without labels, on which to check that the folded logits equal logits / T. A tensor is the only argument of the
        network, a tuple holds its positional arguments, a mapping its keyword arguments. Without a probe it is not noticed if
        ``forward`` applies a nonlinear function (a tanh, a soft cap) after the last layer, or uses another layer for the
        logits: the folded network then returns wrong logits.

    Returns
    -------
    torch.nn.Module
        The layer that was divided. Its attribute ``folded_temperature`` is T.

    Raises
    ------
    InputError
        If the last layer is not found or cannot be folded, if a T is already folded in, if weights overflow, or if the logits
        on ``probe`` are wrong. The weights are then unchanged.

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
    head = final_layer(model_or_layer, fold="Calibrated(model, T).fold")
    _check_unfolded(head, temperature)
    fold_into(model_or_layer, head, Division(temperature), probe)
    tell_others(head, Temperature(temperature))
    return head.layer


def _check_uncalibrated(model: nn.Module) -> None:
    """Refuse a network that would divide its logits by another temperature as well."""
    path = next((path for path, each in model.named_modules() if isinstance(each, Calibrated)), None)
    if path is not None:
        got, owner = (f"one that contains a Calibrated at `{path}`", f"`model.{path}.") if path else ("a Calibrated", "its `")
        raise InputError(
            "model_or_layer",
            "be a network or a layer",
            got=f"{got}, which divides its logits by a temperature of its own",
            remedy=f"Call {owner}fold()`, which folds that temperature.",
        )


def _check_unfolded(head: Head, temperature: float) -> None:
    """Refuse a layer that has been folded, which is usually a mistake; `Calibrated.fold` may fold again."""
    folded = getattr(head.layer, "folded_temperature", None)
    name, what = ("folded_temperature", f"{folded:.4g}") if folded is not None else ("folded_map", "an affine map")
    if hasattr(head.layer, name):
        raise InputError(
            "T",
            "be folded only once",
            got=f"{temperature:.4g} for {head}, which already has {what} folded in",
            remedy=(
                "If the new T was found with the folded weights, call `Calibrated(model, T).fold()`. If the weights "
                f"were replaced after folding, delete the attribute `{name}` of the layer."
            ),
        )
