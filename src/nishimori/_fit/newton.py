"""Solve several equations with as many unknowns by damped Newton, and record the search.

Each equation says that a gap is zero, and the derivatives of the gaps are known. A step is as long as Newton's method proposes
if it brings the equations closer to their solution, else shorter. "Closer" is measured in the unknowns, as the step that the
same derivatives would propose next (the natural monotonicity test: P. Deuflhard, Newton Methods for Nonlinear Problems,
Springer 2004, section 3.3). The unit of each unknown is its own, so that neither the unit of an equation nor that of an
unknown matters. Where the gaps are the derivatives of a loss, a step is also taken if the loss falls: on the way to a minimum
the derivatives may grow first. The covariance of the solution is a `sandwich` of the same sums: nothing is assumed about how
labels come about.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori.errors import NotConvergedError

# Of gaps that are means of probabilities: exp(u) has an error of u units in the last place, and classes with u below -40 hardly
# count.
NOISE = 64 * float(np.finfo(float).eps)

# Steps double the digits once the solution is near; a search that takes longer is on its way to infinity.
LIMIT = 100

# A step as short as this, in units of the unknowns, would change no digit that matters.
TOLERANCE = 1e-10

# A search that rounding keeps from getting closer has found its solution if the next step is shorter than this.
_CLOSE = 1e-6

# A step that has to be shortened more often leads nowhere.
_SHORTEST = 2.0**-30

# A step lowers a loss enough if it brings this part of what the derivatives promise (Armijo's condition).
_ENOUGH_LOWER = 1e-4

# With a larger condition number of the derivatives, rounding decides about the step.
_LARGEST_CONDITION = 1e13


@dataclass(frozen=True)
class Equations:
    """The values that the search needs at a point.

    Attributes
    ----------
    gaps : array of shape (m,)
        Zero at the solution.
    jacobian : array of shape (m, m)
        The derivative of each gap by each unknown; it need not be symmetric.
    units : array of shape (m,)
        How large a change of each unknown is worth mentioning, such as its standard error.
    noise : array of shape (m,)
        How large a gap rounding alone can make.
    loss : float or None
        What the gaps are the derivatives of, if there is such a function and it is to be lowest.
    """

    gaps: HostArray
    jacobian: HostArray
    units: HostArray
    noise: HostArray
    loss: float | None = None


@dataclass(frozen=True)
class Solution:
    """The end of the search, and its record.

    Attributes
    ----------
    x : array of shape (m,)
        The unknowns.
    residual : float
        The largest gap in absolute value, measured at ``x``.
    n_passes : int
        How often the equations were evaluated.
    equations : Equations
        The last of them, those at ``x``.
    """

    x: HostArray
    residual: float
    n_passes: int
    equations: Equations


def solve(function: Callable[[HostArray], Equations], start: HostArray, *, enough: float = TOLERANCE) -> Solution:
    """The solution near ``start``; a rough search ends when the next step is at most ``enough``.

    Raises
    ------
    NotConvergedError
        If there is none, or if two unknowns have the same effect.
    """
    x = np.array(start, dtype=float)
    equations, n_passes = function(x), 1
    while True:
        inverse, units = _inverse(equations), equations.units
        step = inverse @ equations.gaps
        length = _length(step, units)
        if (np.abs(equations.gaps) <= equations.noise).all() or length <= enough:
            return Solution(x, float(np.abs(equations.gaps).max()), n_passes, equations)
        share = 1.0
        while True:
            if n_passes == LIMIT:
                raise _not_converged(equations, n_passes)
            there, n_passes = function(x + share * step), n_passes + 1
            left = _length(inverse @ there.gaps, units)
            if left <= (1 - share / 4) * length or _is_lower(equations, there, share * step):
                break
            if share < _SHORTEST or length <= _CLOSE:
                if length <= _CLOSE:  # rounding is larger than it was said to be
                    return Solution(x, float(np.abs(equations.gaps).max()), n_passes, equations)
                raise _not_converged(equations, n_passes)
            # What is left grows as the square of the step, which gives the best share; the limits keep it sensible.
            bend = max(left - (1 - share) * length, 0.0) / share**2
            share *= min(max(length / (2 * bend * share) if bend > 0 else 0.5, 0.1), 0.5) if np.isfinite(left) else 0.1
        x, equations = x + share * step, there


def _is_lower(before: Equations, there: Equations, step: HostArray) -> bool:
    """Whether a step has lowered the loss enough, if there is one."""
    if before.loss is None or there.loss is None:
        return False
    promised = -float(before.gaps @ step)
    return promised > 0 and before.loss - there.loss >= _ENOUGH_LOWER * promised


def sandwich(jacobian: HostArray, products: HostArray) -> HostArray:
    """The sampling covariance of the unknowns: J⁻¹ΣJ⁻ᵀ, the products of gaps and their derivatives over the same rows."""
    half = np.linalg.solve(jacobian, products)
    covariance: HostArray = np.linalg.solve(jacobian, half.T)
    return (covariance + covariance.T) / 2


def _inverse(equations: Equations) -> HostArray:
    """The matrix that turns gaps into Newton's step from a point with these derivatives."""
    matrix = equations.jacobian * equations.units
    if not (np.isfinite(matrix).all() and np.isfinite(equations.gaps).all()):
        raise NotConvergedError("The search left the range of numbers: a gap or its derivative is not finite.")
    # Each equation is divided by its largest derivative, so that the units of the gaps do not matter.
    sizes = np.abs(matrix).max(axis=1)
    if not (sizes > np.finfo(float).tiny).all():
        raise _undetermined_error()
    matrix /= sizes[:, None]
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        raise _undetermined_error() from None
    if not np.linalg.norm(matrix, 1) * np.linalg.norm(inverse, 1) <= _LARGEST_CONDITION:
        raise _undetermined_error()
    return -equations.units[:, None] * inverse / sizes


def _length(step: HostArray, units: HostArray) -> float:
    """The length of a step, in units of the unknowns."""
    return float(np.sqrt(np.mean((step / units) ** 2)))


def _not_converged(equations: Equations, n_passes: int) -> NotConvergedError:
    return NotConvergedError(
        f"The search did not converge in {n_passes} passes: the largest gap is {np.abs(equations.gaps).max():.3g}. The usual "
        "cause is that the conditions have no finite solution, as when a class never occurs or when the parameters separate "
        "right from wrong answers perfectly."
    )


def _undetermined_error() -> NotConvergedError:
    return NotConvergedError(
        "The parameters are not determined: some change of them has no effect on what is matched. Remove one of two parameters "
        "with the same effect, or a parameter without any."
    )
