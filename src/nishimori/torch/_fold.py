"""Calibration for free: T folded into the weights that make the logits."""

from typing import Any

from torch import Tensor, nn

from nishimori.errors import InputError
from nishimori.torch._calibrated import Calibrated
from nishimori.torch._division import divide, number
from nishimori.torch._head import final_layer
from nishimori.torch._run import check_module


def fold_temperature(model_or_layer: nn.Module, T: float | Tensor, *, probe: Any = None) -> nn.Module:
    """Divide the weights and bias of the last layer by T in place, and return that layer.

    The network then gives logits / T at no cost, and keeps its class, its file format and its serving code. The layer is
    found by its name (``fc``, ``classifier``, ``head``, ``lm_head``, ``linear``, ...), at the end of a ``Sequential``, or
    passed itself; it may be a `Linear` or a convolution, say 1×1.

    Parameters
    ----------
    model_or_layer : torch.nn.Module
        A network, or the layer that gives its logits.
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
        If no single last layer is found; if it is not linear, or shared (tied embeddings), parametrised, quantised or
        adapted; if a T is folded in already; or if the probe disagrees. The network is then as it was.

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
    if any(isinstance(each, Calibrated) for each in model_or_layer.modules()):
        raise InputError(
            "`model_or_layer` must be a network or a layer, got a Calibrated, which would divide its logits once more. "
            "Call its `fold()`, which folds its own temperature."
        )
    head = final_layer(model_or_layer)
    folded = getattr(head.layer, "folded_temperature", None)
    if folded is not None:
        raise InputError(
            f"`T` must be folded once, got {temperature:.4g} for {head}, which has {folded:.4g} folded in already. If the new "
            "T was found with the folded weights, call `Calibrated(model, T).fold()`; if the weights were replaced since, "
            "delete the attribute `folded_temperature` of the layer."
        )
    return divide(model_or_layer, temperature, probe).layer
