"""The number of samples per dimension up to which training data are linearly separable."""

from math import inf

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from nishimori.errors import InputError
from nishimori_paper.theory._quadrature import REACH, Array, composite, expected_excess, half_line, normal
from nishimori_paper.theory._teachers import Teacher, as_teacher

# The largest slope c, in units of 1 + κ; only labels without noise need a larger one.
_STEEPEST = 1e4


def separability(teacher: Teacher | str) -> float:
    """The α below which a hyperplane through the origin separates αd samples of the teacher, with d → ∞.

    Below it the weights of logistic regression grow without bound as the penalty goes to zero; above it they do not. The value
    is 1 / min_c E[max(ξ − c y g, 0)²] (Candès and Sur, arXiv:1804.09753), where ξ is standard normal, g is the teacher's
    normalised score and y the label.

    Examples
    --------
    >>> from nishimori_paper.theory import separability
    >>> [round(separability(name), 3) for name in ("logit", "affine", "constant")]
    [2.278, 3.637, 2.447]
    """
    teacher = as_teacher(teacher)
    cuts = [abs(point) / teacher.signal for point in teacher.breaks if 0 < abs(point) / teacher.signal < REACH]
    edges = sorted({*half_line(0.5, min(0.5, 0.1 / teacher.signal)), *cuts})
    g, weight = composite(np.array(edges))
    right = teacher.probability(teacher.signal * g)
    weight = 2 * weight * normal(g)

    def slope(c: float) -> float:
        """Half the derivative of the mean in c: −E[y g max(ξ − c y g, 0)]."""
        return float(weight @ (-right * g * expected_excess(-c * g) + (1 - right) * g * expected_excess(c * g)))

    if slope(0.0) > 1e-15:
        raise InputError(f"The `probability` of {type(teacher).__name__}", "not have a negative mean slope")
    high, steepest = 1.0, _STEEPEST * (1 + teacher.signal)
    while slope(high) < 0 and high < steepest:
        high *= 2
    if slope(high) <= 0 and high >= steepest:
        return inf  # labels without noise
    c = brentq(slope, 0.0, high, xtol=1e-13)
    mean = float(weight @ (right * _second_moment(-c * g) + (1 - right) * _second_moment(c * g)))
    return 1 / mean


def _second_moment(x: Array) -> Array:
    """E max(ξ + x, 0)²."""
    return np.asarray((1 + x * x) * ndtr(x) + x * normal(x))
