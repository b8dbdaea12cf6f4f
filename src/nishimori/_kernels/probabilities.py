"""The softmax of rows, where a kernel computes it in one call: from the logits as they are stored to the probabilities.

Only the C kernel does. For all else `nishimori.maps.softmax` has a few lines of array operations.
"""

from typing import Any, NamedTuple

import numpy as np

from nishimori._kernels import native
from nishimori._kernels.kernel import kernel_for
from nishimori._support.arrays import Array, HostArray

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))

# Float32 holds this β and its inverse, and what they are multiplied with, with all their digits.
_LEAST = 1e-15


class Softmax(NamedTuple):
    """The probabilities of rows, and whether some logit is NaN, infinite or too large.

    -inf masks a class, and its probability is zero. The rows of all others of these are not probabilities.
    """

    probabilities: HostArray
    is_unusual: bool


def softmax(logits: Array, beta: float) -> Softmax | None:
    """The softmax of ``beta * logits`` in the precision of the logits; None where no kernel computes it."""
    if not isinstance(logits, np.ndarray) or not _is_table(logits) or not _LEAST < beta < 1 / _LEAST:
        return None
    if kernel_for(logits).name != "native":
        return None
    return Softmax(*native.softmax(logits, beta))


def _is_table(logits: "np.ndarray[Any, Any]") -> bool:
    return logits.ndim == 2 and logits.dtype.newbyteorder("=") in _TYPES
