"""The loss in the output of a network, which it has computed from the logits that are not calibrated."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

# How much a loss that is computed again may differ from that of the network, whose logits or loss may have been rounded.
_TOLERANCE, _IN_HALF_PRECISION = 1e-4, 1e-2


def has_loss(output: Any) -> bool:
    """Whether an output holds a loss."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return isinstance(loss, Tensor)


def calibrated_loss(model: nn.Module, output: Any, logits: Tensor, calibrated: Tensor, arguments: Mapping[str, Any]) -> Any:
    """The loss of calibrated logits; None where that cannot be known.

    A network does not say how it computes its loss. So its ``loss_function`` and the cross-entropy are tried on the logits that
    are not calibrated, and the one that comes closest to the network's own loss is used, if it is that loss up to rounding.
    """
    labels = arguments.get("labels")
    if not isinstance(labels, Tensor):
        return None
    loss = (output["loss"] if isinstance(output, Mapping) else output.loss).detach()
    tolerance = _TOLERANCE if logits.dtype == loss.dtype == torch.float32 else _IN_HALF_PRECISION
    closest, function = tolerance * (1 + float(loss.abs().nan_to_num())), None
    for candidate in _loss_functions(model, labels, arguments):
        try:
            with torch.no_grad():
                distance = _distance(candidate(logits).float(), loss.float())
        except Exception:  # noqa: S112 - a function of the network's own may want anything
            continue
        if distance <= closest:
            closest, function = distance, candidate
    return None if function is None else function(calibrated).to(loss.dtype)


def _distance(loss: Tensor, other: Tensor) -> float:
    """How far two losses are apart. Without labels that count both are NaN, which is the same."""
    return float((loss - other).abs().nan_to_num()) if torch.equal(loss.isfinite(), other.isfinite()) else inf


def _loss_functions(model: nn.Module, labels: Tensor, arguments: Mapping[str, Any]) -> Iterator[Callable[[Tensor], Tensor]]:
    """The functions of logits that may be the loss of a network, with these labels."""
    yield partial(_cross_entropy, labels=labels)
    function, config = getattr(model, "loss_function", None), getattr(model, "config", None)
    if not callable(function):
        return
    offered = {"labels": labels, "config": config, "vocab_size": getattr(config, "vocab_size", None)}
    if arguments.get("num_items_in_batch") is not None:
        offered["num_items_in_batch"] = arguments["num_items_in_batch"]
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    name = next((name for name in ("logits", "pooled_logits") if name in parameters), None)
    if name is not None:
        taken = {key: value for key, value in offered.items() if key in parameters}
        yield lambda logits: function(**{name: logits}, **taken)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over all labels but -100, of logits whose classes are last."""
    return cross_entropy(logits.float().reshape(-1, logits.shape[-1]), labels.reshape(-1))
