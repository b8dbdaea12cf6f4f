"""Regularised logistic regression with d → ∞ parameters and αd samples.

The classifier minimises Σ log(1 + exp(−y w·x)) + λ/2 |w|² over samples x ~ N(0, I/d) that a teacher labelled. In the limit
its overlaps m = w*·ŵ/d and q = |ŵ|²/d are no longer random, and solve three equations.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import asinh, exp, log, sqrt

import numpy as np
from scipy.special import expit

from nishimori._numbers import positive, whole
from nishimori.errors import InputError, NotConvergedError
from nishimori.theory._checks import tolerance
from nishimori.theory._fixed_point import Channel, FixedPoint, Problem, approach, solve, unpack
from nishimori.theory._linear_score import LinearScore
from nishimori.theory._quadrature import REACH, Array, nodes, normal
from nishimori.theory._teachers import Teacher, as_teacher, mean_slope

TOLERANCE = 1e-10


@dataclass(frozen=True)
class StateEvolution(LinearScore):
    """Asymptotic overlaps of logistic regression, and through `LinearScore` every metric that follows from them.

    Attributes
    ----------
    m, q : float
        Overlaps w*·ŵ/d and |ŵ|²/d.
    v : float
        Stiffness: how far a score moves when its own sample pulls at it.
    residual : float
        Largest relative error of the three equations.
    steps : int
        Steps of Newton's method, all continuation included.
    converged : bool
        Always true: what has not converged is raised, never returned.
    """

    teacher: Teacher
    alpha: float
    penalty: float
    m: float
    q: float
    v: float
    residual: float
    steps: int
    converged: bool = True


def state_evolution(
    teacher: Teacher | str,
    alpha: float,
    penalty: float,
    *,
    tol: float = TOLERANCE,
    start: StateEvolution | None = None,
) -> StateEvolution:
    """Logistic regression on αd samples of a teacher, with d → ∞.

    Parameters
    ----------
    teacher : Teacher or {"logit", "affine", "constant", "probit"}
        Who labels the samples; a name stands for T* = ρ = 1.
    alpha : float
        Samples per dimension.
    penalty : float
        λ of the penalty λ/2 |w|².
    tol : float
        Relative accuracy wanted of m, q and v.
    start : StateEvolution, optional
        A solution at nearby values, to save time; the answer is the same.

    Examples
    --------
    >>> from nishimori.theory import state_evolution
    >>> result = state_evolution("affine", alpha=20.0, penalty=1e-4)
    >>> round(result.temperature_ts, 3), round(result.temperature_ec, 3)
    (1.242, 1.354)
    >>> [round(100 * result.ece(T), 2) for T in (1.0, result.temperature_ts, result.temperature_ec)]
    [4.36, 2.4, 2.02]
    """
    teacher = as_teacher(teacher)
    alpha, penalty, tol = positive("alpha", alpha), positive("penalty", penalty), tolerance(tol)
    if start is not None:
        if not isinstance(start, StateEvolution):
            raise InputError(f"`start` must be what `state_evolution` returned, got {start!r}.")
        try:
            found = solve(Problem(regression(teacher), alpha, penalty), _packed(start), tol)
        except NotConvergedError:  # too far away
            start = None
    if start is None:
        found = cold(teacher, alpha, penalty, tol)
    return _result(teacher, alpha, penalty, found)


def sweep(
    teacher: Teacher | str, alphas: Iterable[float], penalty: float, *, tol: float = TOLERANCE
) -> tuple[StateEvolution, ...]:
    """`state_evolution` at each of many values of α, each starting from the one before.

    Parameters
    ----------
    teacher, penalty, tol
        As for `state_evolution`.
    alphas : iterable of float
        Samples per dimension, best in order.

    Examples
    --------
    >>> from nishimori.theory import sweep
    >>> [round(result.error, 3) for result in sweep("logit", [1.0, 2.0, 4.0], penalty=0.1)]
    [0.439, 0.419, 0.394]
    """
    if not isinstance(alphas, Iterable):
        raise InputError(f"`alphas` must be a sequence of numbers, got {alphas!r}.")
    results: list[StateEvolution] = []
    for alpha in alphas:
        results.append(state_evolution(teacher, alpha, penalty, tol=tol, start=results[-1] if results else None))
    return tuple(results)


def plain_iterations(teacher: Teacher | str, alpha: float, penalty: float, n: int) -> tuple[float, float, float]:
    """m, q and v after ``n`` plain iterations of the equations: not the solution, unless ``n`` is large.

    Near separability a thousand are too few. This is here to show what stopping early does. It starts where a strong penalty
    would lead; the other parameters are those of `state_evolution`.
    """
    teacher = as_teacher(teacher)
    alpha, penalty, n = positive("alpha", alpha), positive("penalty", penalty), whole("n", n, 0)
    problem = Problem(regression(teacher), alpha, penalty)
    x = _weak(teacher, alpha, 1.0)
    for _ in range(n):
        x = problem.iterated(x)
    eta, _, q, v = unpack(x)
    return sqrt(teacher.rho * eta * q), q, v


def cold(teacher: Teacher, alpha: float, penalty: float, tol: float) -> FixedPoint:
    """Start where the penalty rules and the solution is known, and lower it tenfold at a time."""
    channel = regression(teacher)
    level = max(penalty, 10 * alpha)
    x = _weak(teacher, alpha, level)
    before, steps = None, 0
    while level > penalty:
        found = approach(Problem(channel, alpha, level), x)
        steps += found.steps
        lower = max(penalty, level / 10)
        # Straight on in log λ from the last two levels.
        ratio = 1.0 if before is None else log(lower / level) / log(level / before[0])
        x = found.x if before is None else found.x + ratio * (found.x - before[1])
        before, level = (level, found.x), lower
    found = solve(Problem(channel, alpha, penalty), x, tol)
    return found._replace(steps=steps + found.steps)


def _weak(teacher: Teacher, alpha: float, penalty: float) -> Array:
    """The solution for a strong penalty: each sample pulls with 1/2, whatever the score."""
    slope = mean_slope(teacher)
    stiff = penalty + alpha / 4
    m, noise = alpha * slope / stiff, alpha / 4 / stiff**2
    return np.array([log(m * m / noise), log(m * m + noise), -log(stiff)])


def _packed(result: StateEvolution) -> Array:
    eta = result.correlation**2
    return np.array([log(eta / (1 - eta)), log(result.q), log(result.v)])


def _result(teacher: Teacher, alpha: float, penalty: float, found: FixedPoint) -> StateEvolution:
    eta, _, q, v = unpack(found.x)
    m = sqrt(teacher.rho * eta * q)
    return StateEvolution(teacher, alpha, penalty, m, q, v, found.residual, found.steps)


def regression(teacher: Teacher) -> Channel:
    """Averages over the score ω ~ N(0, q) of a sample left out, in terms of the score z that training moves it to.

    z minimises (z − ω)²/2v + log(1 + e^−z), so ω = z − vσ(−z): taking z for the variable, nothing has to be solved. The label
    is +1; the other one doubles everything.
    """
    signal = teacher.signal

    def averages(eta: float, q: float, v: float, step: float) -> tuple[float, float, float]:
        spread = sqrt(q)
        width = min(1.0, spread)
        centre = _moved(0.0, v)
        low, high = (asinh((_moved(end * spread, v) - centre) / width) for end in (-REACH, REACH))
        # Z changes over a distance of √(1 − η), which must be resolved once it is short.
        step *= min(1.0, 7 * sqrt(1 - eta))
        t, step = np.linspace(low, high, nodes((high - low) / step) + 1, retstep=True)
        z = centre + width * np.sinh(t)
        pull = expit(-z)
        stiff = pull * expit(z)
        s = (z - v * pull) / spread
        truth = teacher.averages(signal * sqrt(eta) * s, signal**2 * (1 - eta))
        weight = 2 * step * width / spread * np.cosh(t) * normal(s)
        moved = weight * (1 + v * stiff) * pull
        m_hat = signal * float(moved @ truth.slope)
        return m_hat, float((moved * pull) @ truth.value), float((weight * stiff) @ truth.value)

    return averages


def _moved(omega: float, v: float) -> float:
    """The z with z − vσ(−z) = ω: Newton's method inside a bracket."""
    low, high = omega, omega + v
    z = omega if omega > 0 else min(high, log((v + 1) / (1 - omega)))
    for _ in range(100):
        pull = 1 / (1 + exp(min(z, 700.0)))
        gap = z - v * pull - omega
        low, high = (low, z) if gap > 0 else (z, high)
        near = z - gap / (1 + v * pull * (1 - pull))
        near = near if low <= near <= high else (low + high) / 2
        if abs(near - z) <= 1e-12 * (1 + abs(z)):
            return near
        z = near
    return z
