"""What numbers must be, said once."""

from math import inf, isfinite, nan
from numbers import Real
from typing import Any

import numpy as np

from nishimori._inputs import is_whole
from nishimori.errors import InputError
from nishimori.theory._quadrature import Array

# Beyond these, squares of what is computed on the way leave the range of floats.
_LEAST, _MOST = 1e-30, 1e30


def positive(name: str, value: Any) -> float:
    """``value`` as a float, if it is a positive finite number."""
    number = _real(value)
    if not (isfinite(number) and number > 0):
        raise InputError(f"`{name}` must be a positive finite number, got {value!r}.")
    return between(name, number, _LEAST, _MOST)


def between(name: str, value: Any, low: float, high: float) -> float:
    """``value`` as a float, if it lies between the two, both included."""
    if not low <= _real(value) <= high:
        raise InputError(f"`{name}` must lie between {low:g} and {high:g}, got {value!r}.")
    return float(value)


def tolerance(value: Any) -> float:
    """``value`` as a float, if it is neither more than Newton's method can give nor less than anybody wants."""
    return between("tol", value, 1e-13, 1e-2)


def whole(name: str, value: Any, least: int) -> int:
    """``value``, if it is a whole number of at least ``least``."""
    if not is_whole(value) or value < least:
        raise InputError(f"`{name}` must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def labelled(x: Any, y: Any) -> tuple[Array, Array]:
    """Samples as the rows of ``x`` and their labels ``y``, +1 or -1, as arrays of float64."""
    try:
        samples, labels = (np.asarray(each, dtype=np.float64) for each in (x, y))
    except (TypeError, ValueError):
        raise InputError("`x` must be numbers, and `y` labels +1 or -1, got something else.") from None
    if samples.ndim != 2 or not samples.size or labels.shape != samples.shape[:1]:
        raise InputError(
            f"`x` must have samples as rows and `y` a label for each, got shapes {samples.shape} and {labels.shape}."
        )
    if not np.isfinite(samples).all():
        raise InputError("`x` must be finite, got NaN or infinity.")
    if not (np.abs(labels) == 1).all():
        raise InputError(f"`y` must hold the labels +1 and -1, got {np.unique(labels)[:5].tolist()}.")
    return samples, labels


def _real(value: Any) -> float:
    """A number as a float, and anything else, such as the text "1" or True, as NaN."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    try:
        return float(value) if not isinstance(value, bool) and isinstance(value, Real) else nan
    except OverflowError:
        return inf
