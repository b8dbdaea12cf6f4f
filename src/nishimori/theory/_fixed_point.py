"""The three equations of state evolution, whatever is averaged, and Newton's method for them.

An estimator in this model is described by its overlaps m and q with the teacher and itself and by its stiffness v. Those
solve, with a teacher of norm one and η = m²/q,

    √(ηq) = v m̂,    q(1 − η) = v² q̂,    1/v = λ + v̂,

where m̂, q̂ and v̂ are α times averages over one Gaussian. Penalised regression and Bayesian inference differ in these
averages alone. The unknowns are x = (log η/(1 − η), log q, log v), so that none can leave its range.
"""

from collections.abc import Callable
from functools import partial
from math import exp, log
from typing import NamedTuple

import numpy as np

from nishimori.errors import NotConvergedError
from nishimori.theory._quadrature import Array, slope_at_zero

# (η, q, v, step of the quadrature) -> m̂/α, q̂/α, v̂/α
Channel = Callable[[float, float, float, float], tuple[float, float, float]]

# A quadrature step that is right to a few digits everywhere; it is halved until nothing changes.
_COARSE = 0.1
_FINEST = 0.1 / 2**5

# Newton doubles the digits once it is near; on the way it may take no more than a factor e² a step.
_LONGEST = 2.0
_LIMIT = 60

# Unknowns are logarithms, and beyond this their exponentials' squares are no float64.
_FARTHEST = 300.0


class Problem(NamedTuple):
    """What is averaged, how many samples a dimension there are, and how strong the penalty or prior is."""

    channel: Channel
    alpha: float
    penalty: float

    def residual(self, x: Array, step: float) -> Array:
        """How far each equation is from holding, in logarithms."""
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

    def iterated(self, x: Array, step: float = _COARSE / 2) -> Array:
        """The right-hand sides put in for the unknowns: one plain iteration, as the equations are often solved."""
        eta, _, q, v = unpack(x)
        m_hat, q_hat, v_hat = (self.alpha * average for average in self.channel(eta, q, v, step))
        # Signal m̂² against noise q̂; both are divided by (λ + v̂)².
        stiff = self.penalty + v_hat
        return np.array([log(m_hat**2 / q_hat), log((q_hat + m_hat**2) / stiff**2), -log(stiff)])


class FixedPoint(NamedTuple):
    """Where Newton's method ended, the largest of its residuals there, and the steps it took."""

    x: Array
    residual: float
    steps: int


def unpack(x: Array) -> tuple[float, float, float, float]:
    """η, 1 − η, q and v."""
    odds = float(x[0])
    return 1 / (1 + exp(-odds)), 1 / (1 + exp(odds)), exp(x[1]), exp(x[2])


def jacobian(problem: Problem, x: Array, step: float, *, at_x: Array | None = None) -> Array:
    """Derivatives of the residuals by differences: one-sided if their value ``at_x`` is given, else of fourth order."""

    def along(axis: Array, h: float) -> Array:
        return problem.residual(x + h * axis, step)

    if at_x is None:
        columns = [slope_at_zero(partial(along, axis)) for axis in np.eye(3)]
    else:
        columns = [(along(axis, 1e-6) - at_x) / 1e-6 for axis in np.eye(3)]
    return np.stack(columns, axis=1)


def approach(problem: Problem, x: Array, tol: float = 1e-2) -> FixedPoint:
    """Newton's method with the coarse quadrature, until the step is below ``tol``."""
    return _newton(problem, x, _COARSE, tol)


def solve(problem: Problem, x: Array, tol: float) -> FixedPoint:
    """Newton's method, until halving the quadrature's step moves the solution by less than ``tol``, relatively."""
    found = _newton(problem, x, _COARSE, max(tol, 1e-7))
    steps, quadrature = found.steps, _COARSE
    while quadrature > _FINEST:
        quadrature /= 2
        residual = problem.residual(found.x, quadrature)
        change = _newton_step(problem, found.x, quadrature, residual)
        steps += 1
        x = found.x + change
        if np.abs(change).max() <= tol:
            return FixedPoint(x, float(np.abs(problem.residual(x, quadrature)).max()), steps)
        found = _newton(problem, x, quadrature, tol)
        steps += found.steps
    raise NotConvergedError(
        f"State evolution did not settle: its integrals still changed the solution by {np.abs(change).max():.1e} at the finest "
        f"quadrature, at alpha = {problem.alpha:g} and penalty = {problem.penalty:g}. Ask for less with `tol`."
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
        f"its equations are off by {np.abs(residual).max():.1e}. Penalties are lowered step by step to the one asked for; "
        "choose values that are less extreme, or ask for less with `tol`."
    )


def _newton_step(problem: Problem, x: Array, quadrature: float, residual: Array) -> Array:
    slopes = jacobian(problem, x, quadrature, at_x=residual)
    if not (np.isfinite(slopes).all() and abs(np.linalg.det(slopes)) > 0 and np.abs(x).max() < _FARTHEST):
        raise NotConvergedError(
            f"State evolution ran out of floating-point range at alpha = {problem.alpha:g} and penalty = {problem.penalty:g}. "
            "Choose values that are less extreme."
        )
    change: Array = np.linalg.solve(slopes, -residual)
    return change / max(1.0, float(np.abs(change).max()) / _LONGEST)
