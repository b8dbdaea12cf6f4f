"""The penalty of least test error or least test loss.

It is found as the root of the derivative: the minimum is flat, so that comparing values gives half the digits.
"""

from collections.abc import Callable
from math import exp, log, sqrt
from typing import Literal

import numpy as np

from nishimori._support.numbers import positive
from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory._fixed_point import Problem, jacobian, solve, unpack
from nishimori_paper.theory._linear_score import Overlaps
from nishimori_paper.theory._quadrature import Array, bracketed_root, slope_at_zero
from nishimori_paper.theory._state_evolution import cold, regression
from nishimori_paper.theory._teachers import Teacher, as_teacher
from nishimori_paper.theory._tolerance import TOLERANCE, tolerance

# Where the search gives up: a smaller penalty has no effect, and a larger one outweighs all data.
_LEAST, _MOST = 1e-10, 1e8

# Derivatives are accurate to about 1e-12; above a hundred times that their sign is certain.
_CERTAIN = 1e-10

# The quadrature step for derivatives: half the step at which solutions usually converge.
_STEP = 0.025


def optimal_penalty(
    teacher: Teacher | str, alpha: float, *, minimise: Literal["error", "loss"] = "error", tol: float = TOLERANCE
) -> float:
    """The λ at which logistic regression on αd samples, with d → ∞, has the least test error or loss.

    Parameters
    ----------
    teacher, alpha, tol
        As for `state_evolution`.
    minimise : {"error", "loss"}
        What to minimise: the fraction of wrong answers, or the cross-entropy at T = 1.

    Examples
    --------
    >>> from nishimori_paper.theory import optimal_penalty
    >>> round(optimal_penalty("affine", 5.0), 4), round(optimal_penalty("affine", 5.0, minimise="loss"), 4)
    (0.1365, 0.1585)
    """
    teacher = as_teacher(teacher)
    alpha, tol = positive("alpha", alpha), tolerance(tol)
    if minimise not in ("error", "loss"):
        raise InputError("minimise", 'be "error" or "loss"', got=repr(minimise))
    channel = regression(teacher)
    x = cold(teacher, alpha, 1.0, tol).x

    def slope(log_penalty: float) -> float:
        """Derivative of the error or the loss in log λ, up to a positive factor."""
        nonlocal x
        problem = Problem(channel, alpha, exp(log_penalty))
        x = solve(problem, x, tol).x
        # F(x, λ) = 0 for all solutions x(λ), and λ occurs only in the third equation, as log v(λ + v̂).
        change = np.linalg.solve(jacobian(problem, x, _STEP), [0.0, 0.0, -problem.penalty * exp(x[2])])
        if minimise == "error":
            return -float(change[0])  # the error decreases with η and depends on nothing else
        return float(slope_at_zero(lambda h: _loss(teacher, x + h * change)))

    return exp(bracketed_root(slope, _bracket(slope, teacher, alpha, minimise)))


def _bracket(slope: Callable[[float], float], teacher: Teacher, alpha: float, minimise: str) -> dict[float, float]:
    """Two values of log λ between which the derivative changes sign, with the derivative there; the search starts at λ = 1."""
    log_penalty, slope_here = 0.0, slope(0.0)
    downhill = -np.sign(slope_here)
    while log(_LEAST) < log_penalty < log(_MOST) and abs(slope_here) > _CERTAIN:
        there = log_penalty + downhill * log(4)
        slope_there = slope(there)
        if slope_there * slope_here < 0 and abs(slope_there) > _CERTAIN:
            return {log_penalty: slope_here, there: slope_there}
        log_penalty, slope_here = there, slope_there
    raise NotConvergedError(
        f"The {minimise} of logistic regression with the {type(teacher).__name__} teacher at alpha = {alpha:g} has no minimum "
        f"above rounding errors at penalties from {_LEAST:g} to {_MOST:g}: the search ended at {exp(log_penalty):.1g}. "
        "Choose a larger `alpha` or a teacher with a lower `temperature`."
    )


def _loss(teacher: Teacher, x: Array) -> float:
    eta, _, q, _ = unpack(x)
    return Overlaps(teacher, sqrt(teacher.rho * eta * q), q).loss()
