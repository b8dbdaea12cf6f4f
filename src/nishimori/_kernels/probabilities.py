"""The softmax of rows, where a kernel computes it in one call: from the logits as they are stored to the probabilities.

Only the C kernel does. For all else `nishimori.maps.softmax` has a few lines of array operations.
"""

from typing import NamedTuple

from nishimori._kernels import native
from nishimori._kernels.kernel import LEAST_SINGLE, computes_in_c
from nishimori._support.arrays import Array, HostArray


class Softmax(NamedTuple):
    """The probabilities of rows, and whether some logit is NaN, infinite or too large.

    -inf masks a class, and its probability is zero. The rows of all others of these are not probabilities.
    """

    probabilities: HostArray
    is_unusual: bool


def softmax(logits: Array, beta: float) -> Softmax | None:
    """The softmax of ``beta * logits`` in the precision of the logits; None where no kernel computes it."""
    is_usual = LEAST_SINGLE < beta < 1 / LEAST_SINGLE
    return Softmax(*native.softmax(logits, beta)) if is_usual and computes_in_c(logits) else None
