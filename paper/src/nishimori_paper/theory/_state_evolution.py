"""Penalised logistic regression in the limit of d → ∞ parameters and αd samples.

The classifier minimises Σ log(1 + exp(−y w·x)) + λ/2 |w|² over samples x ~ N(0, I/d) that a teacher labelled. In the limit
its overlaps m = w*·ŵ/d and q = |ŵ|²/d are no longer random: they solve the three equations of `_fixed_point`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import asinh, exp, log, sqrt

import numpy as np
from scipy.special import expit

from nishimori._support.numbers import positive, whole
from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory._fixed_point import Channel, FixedPoint, Problem, approach, solve, unpack
from nishimori_paper.theory._linear_score import LinearScore
from nishimori_paper.theory._quadrature import REACH, Array, nodes, normal
from nishimori_paper.theory._teachers import Teacher, as_teacher, averages_given_score, mean_slope
from nishimori_paper.theory._tolerance import TOLERANCE, tolerance


@dataclass(frozen=True)
class StateEvolution(LinearScore):
    """Overlaps of logistic regression in the limit, with every metric that `LinearScore` computes from them.

    Attributes
    ----------
    m, q : float
        Overlaps w*·ŵ/d and |ŵ|²/d.
    v : float
        Compliance: how far a sample in the training set moves its own score, per unit of its pull.
    residual : float
        Largest relative error of the three equations.
    steps : int
        Number of Newton steps, those of the continuation included.
    converged : bool
        Always True: otherwise `state_evolution` raises an error.
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
    """Overlaps and metrics of logistic regression on αd samples of a teacher, with d → ∞.

    Parameters
    ----------
    teacher : Teacher or {"logit", "affine", "constant", "probit"}
        The teacher that labels the samples; a name means T* = ρ = 1.
    alpha : float
        Samples per dimension.
    penalty : float
        λ of the penalty λ/2 |w|².
    tol : float
        Relative accuracy of m, q and v, from 1e-13 to 0.01.
    start : StateEvolution, optional
        A solution at nearby values, to save time; the result is the same.

    Examples
    --------
    >>> from nishimori_paper.theory import state_evolution
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
            raise InputError("start", "be a result of `state_evolution`", got=repr(start))
        try:
            point = solve(Problem(regression(teacher), alpha, penalty), _pack(start), tol)
        except NotConvergedError:  # too far away
            start = None
    if start is None:
        point = cold(teacher, alpha, penalty, tol)
    return _result(teacher, alpha, penalty, point)


def sweep(
    teacher: Teacher | str, alphas: Iterable[float], penalty: float, *, tol: float = TOLERANCE
) -> tuple[StateEvolution, ...]:
    """`state_evolution` for many values of α, each solution starting from the one before.

    Parameters
    ----------
    teacher, penalty, tol
        As for `state_evolution`.
    alphas : iterable of float
        Samples per dimension; fastest if sorted.

    Examples
    --------
    >>> from nishimori_paper.theory import sweep
    >>> [round(result.error, 3) for result in sweep("logit", [1.0, 2.0, 4.0], penalty=0.1)]
    [0.439, 0.419, 0.394]
    """
    if not isinstance(alphas, Iterable):
        raise InputError("alphas", "be an iterable of numbers", got=repr(alphas))
    results: list[StateEvolution] = []
    for alpha in alphas:
        results.append(state_evolution(teacher, alpha, penalty, tol=tol, start=results[-1] if results else None))
    return tuple(results)


def plain_iterations(teacher: Teacher | str, alpha: float, penalty: float, n: int) -> tuple[float, float, float]:
    """m, q and v after ``n`` plain iterations of the equations, which is not the solution unless ``n`` is large.

    Near separability a thousand iterations are too few: this function shows the error of stopping early. It starts from the
    solution for a strong penalty. The other parameters are those of `state_evolution`.

    Examples
    --------
    >>> from nishimori_paper.theory import plain_iterations, state_evolution
    >>> _, q, _ = plain_iterations("affine", alpha=3.436, penalty=1e-4, n=100)
    >>> round(q / state_evolution("affine", alpha=3.436, penalty=1e-4).q, 3)
    0.428
    """
    teacher = as_teacher(teacher)
    alpha, penalty, n = positive("alpha", alpha), positive("penalty", penalty), whole("n", n, 0)
    problem = Problem(regression(teacher), alpha, penalty)
    x = _weak(teacher, alpha, 1.0)
    for _ in range(n):
        x = problem.iterate(x)
    eta, _, q, v = unpack(x)
    return sqrt(teacher.rho * eta * q), q, v


def cold(teacher: Teacher, alpha: float, penalty: float, tol: float) -> FixedPoint:
    """The solution by continuation: start at a strong penalty, where it is known, and divide the penalty by ten repeatedly."""
    channel = regression(teacher)
    level = max(penalty, 10 * alpha)
    x = _weak(teacher, alpha, level)
    before, steps = None, 0
    while level > penalty:
        point = approach(Problem(channel, alpha, level), x)
        steps += point.steps
        lower = max(penalty, level / 10)
        # Extrapolate linearly in log λ from the last two levels.
        ratio = 1.0 if before is None else log(lower / level) / log(level / before[0])
        x = point.x if before is None else point.x + ratio * (point.x - before[1])
        before, level = (level, point.x), lower
    point = solve(Problem(channel, alpha, penalty), x, tol)
    return point._replace(steps=steps + point.steps)


def _weak(teacher: Teacher, alpha: float, penalty: float) -> Array:
    """The solution for a strong penalty, which keeps all scores near zero, so that every sample pulls with 1/2."""
    slope = mean_slope(teacher)
    stiff = penalty + alpha / 4
    m, noise = alpha * slope / stiff, alpha / 4 / stiff**2
    return np.array([log(m * m / noise), log(m * m + noise), -log(stiff)])


def _pack(result: StateEvolution) -> Array:
    eta = result.correlation**2
    return np.array([log(eta / (1 - eta)), log(result.q), log(result.v)])


def _result(teacher: Teacher, alpha: float, penalty: float, point: FixedPoint) -> StateEvolution:
    eta, _, q, v = unpack(point.x)
    m = sqrt(teacher.rho * eta * q)
    return StateEvolution(teacher, alpha, penalty, m, q, v, point.residual, point.steps)


def regression(teacher: Teacher) -> Channel:
    """Averages over ω ~ N(0, q), the score of a sample that training has not seen.

    Training on the sample moves its score to the z that minimises (z − ω)²/2v + log(1 + e^−z). So ω = z − vσ(−z), and with z as
    the variable of integration no equation has to be solved. The averages are those of the label +1, times 2 for both labels.
    """
    signal = teacher.signal

    def averages(eta: float, q: float, v: float, step: float) -> tuple[float, float, float]:
        spread = sqrt(q)
        width = min(1.0, spread)
        centre = _proximal_point(0.0, v)
        low, high = (asinh((_proximal_point(end * spread, v) - centre) / width) for end in (-REACH, REACH))
        # P(y = +1 | score) changes over a distance of √(1 − η), which the step must resolve.
        step *= min(1.0, 7 * sqrt(1 - eta))
        t, step = np.linspace(low, high, nodes(high - low, step) + 1, retstep=True)
        z = centre + width * np.sinh(t)
        pull = expit(-z)
        stiff = pull * expit(z)
        s = (z - v * pull) / spread
        truth = averages_given_score(teacher, s, sqrt(eta), 1 - eta)
        weight = 2 * step * width / spread * np.cosh(t) * normal(s)
        moved = weight * (1 + v * stiff) * pull
        m_hat = signal * float(moved @ truth.slope)
        return m_hat, float((moved * pull) @ truth.value), float((weight * stiff) @ truth.value)

    return averages


def _proximal_point(omega: float, v: float) -> float:
    """The z with z − vσ(−z) = ω, by Newton's method inside a bracket."""
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
