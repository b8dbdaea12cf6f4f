"""What numbers must be, said once."""

from typing import Any

import numpy as np

from nishimori._numbers import between
from nishimori.errors import InputError
from nishimori.theory._quadrature import Array


def tolerance(value: Any) -> float:
    """``value`` as a float, if it is neither more than Newton's method can give nor less than anybody wants."""
    return between("tol", value, 1e-13, 1e-2)


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
