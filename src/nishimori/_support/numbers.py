"""What a single number must be: whole, positive, between two others, a temperature.

Each check returns the number in the type that the library computes with, or raises an `InputError` that names the argument.
"""

from math import inf, isfinite, nan
from numbers import Real
from typing import Any

import numpy as np

from nishimori.errors import InputError

# Beyond these, squares of intermediate results leave the range of float64.
_LEAST, _MOST = 1e-30, 1e30


def is_whole(value: Any) -> bool:
    """Whether ``value`` is an integer; True and 1.0 are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole(name: str, value: Any, least: int, most: int | None = None, *, which_is: str = "") -> int:
    """``value`` as an int, if it is a whole number from ``least`` to ``most``, ``which_is`` what the message says."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most}" + (which_is and f", {which_is}")
        raise InputError(name, f"be a whole number {wanted}", got=repr(value))
    return int(value)


def positive(name: str, value: Any) -> float:
    """``value`` as a float, if it is a positive finite number."""
    number = _real(value)
    if not (isfinite(number) and number > 0):
        raise InputError(name, "be a positive finite number", got=repr(value))
    return between(name, number, _LEAST, _MOST)


def between(name: str, value: Any, low: float, high: float) -> float:
    """``value`` as a float, if it lies between the two, both included."""
    if not low <= _real(value) <= high:
        raise InputError(name, f"lie between {low:g} and {high:g}", got=repr(value))
    return float(value)


def temperature(value: Any, name: str = "temperature") -> float:
    """``value`` as a float, if it and its inverse are finite positive numbers."""
    try:
        number = float(value) if not isinstance(value, str | bytes | bool | np.bool_) else nan
    except (TypeError, ValueError, OverflowError):
        number = nan
    if not (0 < number < inf and 1 / number < inf):
        raise InputError(name, "be a finite positive number", got=repr(value))
    return number


def _real(value: Any) -> float:
    """A number as a float, and anything else, such as the text "1" or True, as NaN."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    try:
        return float(value) if not isinstance(value, bool) and isinstance(value, Real) else nan
    except OverflowError:
        return inf
