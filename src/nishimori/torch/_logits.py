"""The logits in the output of a network, and their softmax.

The output may be a tensor of logits, an object with ``.logits`` or a dict with the key ``"logits"``. Anything else is refused,
because guessing could pick the wrong tensor. Calibration is computed in float32 at least, whatever the dtype of the logits.
"""

import copy
import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nishimori.errors import InputError
from nishimori.maps.temperature import divide
from nishimori.torch._run import description


def logits_of(output: Any, remedy: str, who: str = "model") -> Tensor:
    """The logits in the output of a network, or of another function ``who``; ``remedy`` says what to do if there are none."""
    logits = output
    if not isinstance(output, Tensor):
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputError(
            who,
            "return a tensor of logits, an object with `.logits` or a dict with the key 'logits'",
            got=description(output),
            remedy=remedy,
        )
    if not logits.is_floating_point():
        raise InputError(
            who,
            "return logits",
            got=logits.dtype,
            remedy="Return the scores before the softmax, not the predicted classes.",
        )
    return logits


def is_unit(logits: Tensor) -> bool:
    """Whether these are the outputs (..., 1) of one unit, each of which is a binary score, as those of shape (n,) are."""
    return logits.ndim > 1 and logits.shape[-1] == 1


def with_logits(output: Any, logits: Tensor) -> Any:
    """A copy of the output of a network, of the same type, with other logits."""
    if isinstance(output, Tensor):
        return logits
    if type(output) is dict:
        return {**output, "logits": logits}
    if isinstance(output, tuple) and hasattr(output, "_replace"):
        return output._replace(logits=logits)
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return dataclasses.replace(output, logits=logits)
    changed = copy.copy(output)
    if isinstance(output, Mapping):
        changed["logits"] = logits
    else:
        changed.logits = logits
    return changed


def refuse_number(logits: Tensor) -> Tensor:
    """The logits themselves, unless they are a single number, which has neither rows nor classes."""
    if not logits.ndim:
        raise InputError(
            "model",
            (
                "return logits of shape (n, n_classes), with any number of dimensions in place of n, or (n,) or (n, "
                "1) for a binary score"
            ),
            got="a single number",
            remedy="Return one row per sample.",
        )
    return logits


def check_classes(logits: Tensor, n_classes: int | None) -> None:
    """Refuse logits whose last dimension does not hold the classes, if their number is known.

    With two classes there may be one score per sample instead. A softmax over another dimension, such as the width of an
    image, would have the right shape and mean nothing.
    """
    if n_classes is None or (n_classes == 2 and (logits.ndim < 2 or last_size(logits) == 1)):
        return
    if logits.ndim < 2 or last_size(logits) != n_classes:
        # The size of a dimension that is exported for any size is a symbol.
        sizes = [size if type(size) is int else "n" for size in logits.shape]
        raise _other_classes(sizes, n_classes)


def _other_classes(sizes: Sequence[int | str], n_classes: int) -> InputError:
    """The error that the last dimension of the logits does not hold the classes, and what to do."""
    shape = f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
    got = f"shape {shape}" if len(sizes) < 2 else f"{sizes[-1]} in shape {shape}"
    if n_classes in sizes[1:]:
        place = sizes.index(n_classes, 1)
        remedy = (
            f"Move the classes last: wrap the network in a module whose `forward` returns `logits.movedim({place}, -1)`, and "
            "calibrate that module."
        )
    elif len(sizes) == 1:
        remedy = "Return one row per sample: for a single sample, pass a batch of one."
    else:
        remedy = "Use the network that the map was fitted to, or calibrate this one."
    must = f"return logits whose last dimension holds the {n_classes} classes of the map"
    return InputError("model", must, got=got, remedy=remedy)


def last_size(values: Tensor) -> int:
    """The size of the last dimension, which tracing records as an operation, with a warning where its value is needed."""
    if not torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        return values.shape[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        return int(values.shape[-1])


def scores_in(logits: Tensor) -> Tensor | None:
    """The binary scores, one per sample, if there is one number per sample: logits of shape (n,) or (..., 1)."""
    if logits.ndim == 1:
        return logits
    return logits[..., 0] if is_unit(logits) else None


def scale_logits(logits: Tensor, temperature: Tensor) -> Tensor:
    """``logits / temperature`` in float32 at least, for any shape."""
    wide, T = wide_dtype(logits), temperature
    if T.device != logits.device:  # a network spread over devices
        T = T.to(logits.device)
    result: Tensor = divide(logits.to(wide), T.to(wide))
    return result


def probabilities(calibrated: Tensor) -> Tensor:
    """The softmax (..., n_classes) of calibrated logits over their last dimension; a score z means the logits (0, z)."""
    z = scores_in(calibrated)
    if z is not None:
        calibrated = torch.stack([torch.zeros_like(z), z], dim=-1)
    return calibrated.softmax(dim=-1)


def wide_dtype(logits: Tensor) -> torch.dtype:
    """The dtype that calibration is computed in: at least float32."""
    return torch.promote_types(logits.dtype, torch.float32)
