"""The three equations of state evolution, and Newton's method for them.

An estimator in this model is described by its overlaps m and q with the teacher and with itself, and by its compliance v. For
a teacher with ρ = 1, and with η = m²/q, they solve

    √(ηq) = v m̂,    q(1 − η) = v² q̂,    1/v = λ + v̂,

where m̂, q̂ and v̂ are α times averages over a Gaussian. Penalised regression and Bayesian inference differ only in these
averages. The unknowns are x = (log η/(1 − η), log q, log v), so that none can leave its range.
"""

from collections.abc import Callable
from functools import partial
from math import exp, log
from typing import NamedTuple

import numpy as np

from nishimori.errors import NotConvergedError
from nishimori_paper.theory._quadrature import Array, slope_at_zero

# (η, q, v, step of the quadrature) -> m̂/α, q̂/α, v̂/α
Channel = Callable[[float, float, float, float], tuple[float, float, float]]

# A quadrature step that gives a few digits everywhere; it is halved until the solution no longer changes.
_COARSE = 0.1
_FINEST = 0.1 / 2**5

# Near the solution Newton's method doubles the digits per step; far from it a step changes no unknown by more than e².
_LONGEST = 2.0
_LIMIT = 60

# The unknowns are logarithms; beyond this the squares of their exponentials overflow.
_FARTHEST = 300.0


class Problem(NamedTuple):
    """The averages, the number of samples per dimension, and the strength of the penalty or prior."""

    channel: Channel
    alpha: float
    penalty: float

    def residual(self, x: Array, step: float) -> Array:
        """Difference of the logarithms of both sides of each equation."""
        eta, rest, q, v = unpack(x)
        m_hat, q_hat, v_hat = self.channel(eta, q, v, step)
        if not (m_hat > 0 and q_hat > 0):
            return np.full(3, np.nan)
        return np.array(
            [
                log(v * self.alpha * m_hat) - 0.5 * log(eta * q),
                log(v * v * self.alpha * q_hat) - log(q * rest),
                log(v * (self.penalty + self.alpha * v_hat)),
            ]
        )

    def iterate(self, x: Array, step: float = _COARSE / 2) -> Array:
        """One plain iteration: the unknowns that follow from the averages at ``x``."""
        eta, _, q, v = unpack(x)
        m_hat, q_hat, v_hat = (self.alpha * average for average in self.channel(eta, q, v, step))
        # η/(1 − η) is signal m̂² over noise q̂; in q both are divided by (λ + v̂)².
        stiff = self.penalty + v_hat
        return np.array([log(m_hat**2 / q_hat), log((q_hat + m_hat**2) / stiff**2), -log(stiff)])


class FixedPoint(NamedTuple):
    """The solution that Newton's method found, its largest residual, and the number of steps."""

    x: Array
    residual: float
    steps: int


def unpack(x: Array) -> tuple[float, float, float, float]:
    """η, 1 − η, q and v."""
    odds = float(x[0])
    return 1 / (1 + exp(-odds)), 1 / (1 + exp(odds)), exp(x[1]), exp(x[2])


def jacobian(problem: Problem, x: Array, step: float, *, at_x: Array | None = None) -> Array:
    """Derivatives of the residuals: one-sided differences if their value ``at_x`` is given, otherwise of fourth order."""

    def along(axis: Array, h: float) -> Array:
        return problem.residual(x + h * axis, step)

    if at_x is None:
        columns = [slope_at_zero(partial(along, axis)) for axis in np.eye(3)]
    else:
        columns = [(along(axis, 1e-6) - at_x) / 1e-6 for axis in np.eye(3)]
    return np.stack(columns, axis=1)


def approach(problem: Problem, x: Array, tol: float = 1e-2) -> FixedPoint:
    """Newton's method with a coarse quadrature, until its step is below ``tol``."""
    return _newton(problem, x, _COARSE, tol)


def solve(problem: Problem, x: Array, tol: float) -> FixedPoint:
    """Newton's method, until a quadrature with half the step moves the solution by a relative change below ``tol``."""
    point = _newton(problem, x, _COARSE, max(tol, 1e-7))
    steps, quadrature = point.steps, _COARSE
    while quadrature > _FINEST:
        quadrature /= 2
        residual = problem.residual(point.x, quadrature)
        change = _newton_step(problem, point.x, quadrature, residual)
        steps += 1
        x = point.x + change
        if np.abs(change).max() <= tol:
            return FixedPoint(x, float(np.abs(problem.residual(x, quadrature)).max()), steps)
        point = _newton(problem, x, quadrature, tol)
        steps += point.steps
    raise NotConvergedError(
        f"State evolution did not converge at alpha = {problem.alpha:g} and penalty = {problem.penalty:g}: the finest "
        f"quadrature still changed the solution by {np.abs(change).max():.1e}. Choose a larger `tol`."
    )


def _newton(problem: Problem, x: Array, quadrature: float, tol: float) -> FixedPoint:
    for steps in range(_LIMIT):
        residual = problem.residual(x, quadrature)
        change = _newton_step(problem, x, quadrature, residual)
        x = x + change
        if np.abs(change).max() <= tol:
            return FixedPoint(x, float(np.abs(residual).max()), steps + 1)
    raise NotConvergedError(
        f"State evolution did not converge in {_LIMIT} steps at alpha = {problem.alpha:g} and penalty = {problem.penalty:g}: "
        f"the residual is {np.abs(residual).max():.1e}. This penalty may be larger than yours, because the search starts at "
        "strong penalties. Choose less extreme values, or a larger `tol`."
    )


def _newton_step(problem: Problem, x: Array, quadrature: float, residual: Array) -> Array:
    slopes = jacobian(problem, x, quadrature, at_x=residual)
    if not (np.isfinite(slopes).all() and abs(np.linalg.det(slopes)) > 0 and np.abs(x).max() < _FARTHEST):
        raise NotConvergedError(
            f"State evolution left the range of float64 at alpha = {problem.alpha:g} and penalty = {problem.penalty:g}. "
            "Choose less extreme values."
        )
    change: Array = np.linalg.solve(slopes, -residual)
    return change / max(1.0, float(np.abs(change).max()) / _LONGEST)
