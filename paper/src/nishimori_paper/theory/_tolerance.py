"""The relative accuracy of a solution: the default, and the range that `tol` may have."""

from typing import Any

from nishimori._support.numbers import between

TOLERANCE = 1e-10


def tolerance(value: Any) -> float:
    """``value`` as a float, if it is neither below what rounding allows nor too coarse to be useful."""
    return between("tol", value, 1e-13, 1e-2)
