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

from nishimori._support.numbers import is_whole
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


def check_axis(class_axis: Any) -> int:
    """The dimension of the classes, as a number."""
    if not is_whole(class_axis):
        raise InputError("class_axis", "be the number of a dimension of the logits, such as 1", got=repr(class_axis))
    return int(class_axis)


def classes_last(logits: Tensor, class_axis: int) -> Tensor:
    """A view of the logits with their classes in the last dimension."""
    if class_axis == -1:
        return logits
    if not -logits.ndim <= class_axis < logits.ndim:
        raise InputError(
            "class_axis",
            "be the number of a dimension of the logits",
            got=f"{class_axis} for logits of {logits.ndim} dimension{'s' * (logits.ndim != 1)}",
        )
    return logits.movedim(class_axis, -1)


def classes_back(rows: Tensor, class_axis: int) -> Tensor:
    """A view of what has its classes last, with the classes where the network has them."""
    return rows if class_axis == -1 else rows.movedim(-1, class_axis)


def check_classes(logits: Tensor, n_classes: int | None, class_axis: int = -1) -> None:
    """Refuse logits whose classes are not in the dimension ``class_axis``, if the number of classes is known.

    With two classes there may be one score per sample instead. A softmax over another dimension, such as the width of an
    image, would have the right shape and mean nothing.
    """
    rows = classes_last(logits, class_axis)
    if n_classes is None or (n_classes == 2 and (rows.ndim < 2 or last_size(rows) == 1)):
        return
    if rows.ndim < 2 or last_size(rows) != n_classes:
        # The size of a dimension that is exported for any size is a symbol.
        sizes = [size if type(size) is int else "n" for size in logits.shape]
        raise _other_classes(sizes, n_classes, class_axis)


def _other_classes(sizes: Sequence[int | str], n_classes: int, class_axis: int) -> InputError:
    """The error that a dimension of the logits does not hold the classes, and what to do."""
    shape = f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
    got = f"shape {shape}" if len(sizes) < 2 else f"{sizes[class_axis]} in shape {shape}"
    if n_classes in sizes[1:]:
        place = sizes.index(n_classes, 1)
        remedy = f"If dimension {place} holds the classes, pass `class_axis={place}` to `calibrate` or `Calibrated`."
    elif len(sizes) == 1:
        remedy = "Return one row per sample: for a single sample, pass a batch of one."
    else:
        remedy = "Use the network that the map was fitted to, or calibrate this one."
    which = "last dimension" if class_axis == -1 else f"dimension {class_axis}"
    must = f"return logits whose {which} holds the {n_classes} classes of the map"
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


def probabilities(calibrated: Tensor, class_axis: int) -> Tensor:
    """The softmax of calibrated logits over the dimension of the classes; a score z means the logits (0, z)."""
    rows = classes_last(calibrated, class_axis)
    z = scores_in(rows)
    if z is not None:
        rows = torch.stack([torch.zeros_like(z), z], dim=-1)
    return classes_back(rows.softmax(dim=-1), class_axis)


def wide_dtype(logits: Tensor) -> torch.dtype:
    """The dtype that calibration is computed in: at least float32."""
    return torch.promote_types(logits.dtype, torch.float32)
