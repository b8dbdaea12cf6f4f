"""The loss in the output of a network, which it has computed from the logits that are not calibrated."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

# How much a loss that is computed again may differ from that of the network: its logits may have been in half precision.
_TOLERANCE = 1e-2


def has_loss(output: Any) -> bool:
    """Whether an output holds a loss."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return isinstance(loss, Tensor)


def calibrated_loss(model: nn.Module, output: Any, logits: Tensor, calibrated: Tensor, arguments: Mapping[str, Any]) -> Any:
    """The loss of calibrated logits, by the network's own ``loss_function``; None where that cannot be known.

    It is only used if it gives the network's own loss for the logits that are not calibrated.
    """
    function, labels = getattr(model, "loss_function", None), arguments.get("labels")
    if labels is None or not callable(function):
        return None
    config = getattr(model, "config", None)
    offered = {"labels": labels, "config": config, "vocab_size": getattr(config, "vocab_size", None)}
    if arguments.get("num_items_in_batch") is not None:
        offered["num_items_in_batch"] = arguments["num_items_in_batch"]
    try:
        parameters = inspect.signature(function).parameters
        name = next(name for name in ("logits", "pooled_logits") if name in parameters)
        taken = {key: value for key, value in offered.items() if key in parameters}
        loss = output["loss"] if isinstance(output, Mapping) else output.loss
        with torch.no_grad():
            own = function(**{name: logits}, **taken)
        if not torch.allclose(own.float(), loss.detach().float(), rtol=_TOLERANCE, atol=_TOLERANCE):
            return None
        return function(**{name: calibrated}, **taken).to(loss.dtype)
    except Exception:  # a function of the network's own may want anything
        return None
