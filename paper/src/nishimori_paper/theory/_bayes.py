"""Bayesian inference with the teacher's own likelihood, at the right temperature or a wrong one.

The prior is N(0, ρI) and the likelihood of a label y is σ*(y w·x/T). At T = T* no other method has a smaller error, and mean
confidence equals accuracy. A statistician who does not know T* can find it: it is the T at which confidence equals accuracy,
and also the T of least loss. Here expectation consistency and temperature scaling agree.

The overlaps of the posterior mean solve the equations of `_fixed_point`, with ∂ log E σ*((ω + √v ξ)/T) as the pull of a sample
on its score ω. These equations are exact where log σ* is concave, and at T = T* for every σ*.
"""

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from nishimori._support.numbers import positive
from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory._fixed_point import Channel, Problem, approach, solve, unpack
from nishimori_paper.theory._posterior import Predictive, check_log_concave, chosen_temperatures, pull
from nishimori_paper.theory._quadrature import REACH, Array, nodes, normal
from nishimori_paper.theory._teachers import Teacher, as_teacher, averages_given_score, mean_slope
from nishimori_paper.theory._tolerance import TOLERANCE, tolerance

# Largest factor between two temperatures of the continuation from T* to the assumed one.
_RATIO = 1.5

# Largest weight of labels whose likelihood underflows, so that its logarithm is lost.
_NEGLIGIBLE = 1e-14


@dataclass(frozen=True)
class BayesOptimal(Predictive):
    """Overlaps of the posterior mean with the teacher (m) and with itself (q), and the posterior variance v of each weight.

    At ``temperature`` = T* the Nishimori conditions m = q and v = ρ − q hold, and q is called q_bo. ``residual`` is the largest
    relative error of the equations and ``steps`` the number of Newton steps. ``converged`` is always True: otherwise
    `bayes_optimal` raises an error.
    """

    teacher: Teacher
    alpha: float
    temperature: float
    m: float
    q: float
    v: float
    residual: float
    steps: int
    converged: bool = True

    @property
    def free_energy(self) -> float:
        """Mean of −log P(labels | samples, T) per training sample, in nats: the limit of `Gamp.free_energy`."""
        rho, q, v = self.teacher.rho, self.q, self.v
        # The prior's divergence, less the gain of the training samples over new ones: v E f²/2 per sample, where v² α E f² is
        # the part of q that does not belong to the teacher.
        extra = log(rho / v) + (v + q) / rho - 1 - (q - self.m**2 / rho) / v
        return self.loss + extra / (2 * self.alpha)


class BayesTemperatures(NamedTuple):
    """The temperatures of the likelihood with the least loss (``ts``), and with mean confidence equal to accuracy (``ec``)."""

    ts: float
    ec: float


def bayes_optimal(
    teacher: Teacher | str, alpha: float, *, temperature: float | None = None, tol: float = TOLERANCE
) -> BayesOptimal:
    """Bayesian inference from αd samples of a teacher, with d → ∞.

    Parameters
    ----------
    teacher, alpha, tol
        As for `state_evolution`.
    temperature : float, optional
        The temperature T assumed in the likelihood; the teacher's T* by default, which is optimal. Another one is refused if
        log σ* is not concave, as for the constant teacher, because the equations are not proven there.

    Examples
    --------
    >>> from nishimori_paper.theory import bayes_optimal
    >>> best = bayes_optimal("logit", 2.0)
    >>> abs(best.confidence - best.accuracy) < 1e-9
    True
    >>> bayes_optimal("logit", 2.0, temperature=2.0).loss > best.loss
    True
    """
    teacher = as_teacher(teacher)
    alpha, tol = positive("alpha", alpha), tolerance(tol)
    mean_slope(teacher)
    assumed = teacher.temperature if temperature is None else positive("temperature", temperature)
    if assumed != teacher.temperature and not teacher.log_concave:
        raise InputError(
            "temperature",
            f"be the teacher's own, {teacher.temperature:g}",
            got=(
                f"{assumed:g}: log σ* of the {type(teacher).__name__} teacher is not concave, so the equations are "
                "not proven at other temperatures"
            ),
        )
    return _at(teacher, alpha, assumed, tol, _optimal_start(teacher, alpha))


def _at(teacher: Teacher, alpha: float, assumed: float, tol: float, x: Array) -> BayesOptimal:
    """The solution at an assumed temperature, by continuation from the solution ``x`` at T*."""
    steps = 0
    path = np.geomspace(teacher.temperature, assumed, 2 + int(abs(log(assumed / teacher.temperature)) / log(_RATIO)))
    for T in path[1:-1]:
        point = approach(Problem(_channel(teacher, T), alpha, 1.0), x)
        x, steps = point.x, steps + point.steps
    point = solve(Problem(_channel(teacher, assumed), alpha, 1.0), x, tol)
    eta, _, q, v = unpack(point.x)
    rho = teacher.rho
    return BayesOptimal(teacher, alpha, assumed, rho * sqrt(eta * q), rho * q, rho * v, point.residual, steps + point.steps)


def bayes_temperatures(teacher: Teacher | str, alpha: float, *, tol: float = TOLERANCE) -> BayesTemperatures:
    """The temperatures of the likelihood that minimal loss and expectation consistency choose; in theory both are T*.

    Parameters are those of `bayes_optimal`. The teacher's likelihood must be log-concave.

    Examples
    --------
    >>> from nishimori_paper.theory import Probit, bayes_temperatures
    >>> [round(T, 6) for T in bayes_temperatures(Probit(temperature=0.5), alpha=3.0)]
    [0.5, 0.5]
    """
    teacher = as_teacher(teacher)
    alpha, tol = positive("alpha", alpha), tolerance(tol)
    check_log_concave(teacher)
    start = _optimal_start(teacher, alpha)

    def at(log_ratio: float) -> BayesOptimal:
        return _at(teacher, alpha, teacher.temperature * exp(log_ratio), tol, start)

    # The bracket is not centred on T*, so that the search does not start at the answer.
    ts, ec = chosen_temperatures(at, -0.3, 0.5)
    if ts is None or ec is None:
        raise NotConvergedError(
            f"The temperatures of the {type(teacher).__name__} teacher at alpha = {alpha:g} are lost in rounding errors, "
            "because its labels are almost pure noise. Lower the `temperature` of the teacher."
        )
    return BayesTemperatures(ts, ec)


def _channel(teacher: Teacher, temperature: float) -> Channel:
    """Averages over ω ~ N(0, q) of the pull of a sample, for a teacher and a prior with ρ = 1."""
    signal = teacher.signal
    T = temperature / sqrt(teacher.rho)

    def averages(eta: float, q: float, v: float, step: float) -> tuple[float, float, float]:
        # The zeros of Z lie about 2.8 times its width √v away from the real line. This limits the step of the trapezoid rule.
        s_step = 5 * step * min(1.0, sqrt((1 - eta) / eta), sqrt(v / q))
        n = nodes(REACH, s_step)
        s = s_step * np.arange(-n, n + 1)
        force, stiff, value = pull(teacher, sqrt(q) * s, v, T)
        truth = averages_given_score(teacher, s, sqrt(eta), 1 - eta)
        weight = 2 * s_step * normal(s)
        if (weight * truth.value) @ (value == 0) > _NEGLIGIBLE:
            raise InputError(
                "temperature",
                f"be nearer to the teacher's {teacher.temperature:g}",
                got=f"{temperature:g}: the likelihood of some labels is below the smallest float64",
            )
        m_hat = signal * float((weight * truth.slope) @ force)
        weight = weight * truth.value
        return m_hat, float(weight @ force**2), float(weight @ stiff)

    return averages


def _optimal_start(teacher: Teacher, alpha: float) -> Array:
    """The solution at T*, where q = m = 1 − v is the only unknown. All roots are searched for; there must be exactly one."""
    channel = _channel(teacher, teacher.temperature)

    def excess(log_odds: float) -> float:
        q, rest = float(expit(log_odds)), float(expit(-log_odds))
        _, q_hat, _ = channel(q, q, rest, 0.1)
        return log(alpha * q_hat) - log_odds  # q̂ = q/(1 − q)

    # q̂ grows as α times κ², and as α² where σ* jumps.
    signal = teacher.signal
    least = log(alpha) + 2 * log(min(signal, 1.0)) - 8
    most = log(alpha) + 2 * log(1 + signal) + 3 + (log(1 + alpha) if teacher.breaks else 0.0)
    grid = np.linspace(least, most, 100)
    values = np.array([excess(odds) for odds in grid])
    roots = np.flatnonzero((values[:-1] > 0) != (values[1:] > 0))
    if len(roots) != 1:
        raise NotConvergedError(
            f"The Bayes-optimal equations of the {type(teacher).__name__} teacher at alpha = {alpha:g} have {len(roots)} "
            "solutions in the range searched, and only a unique one is known to be right. Choose another `alpha`, or lower the "
            "`temperature` of the teacher if its labels are almost pure noise."
        )
    odds = brentq(excess, grid[roots[0]], grid[roots[0] + 1], xtol=1e-8)
    return np.array([odds, -log(1 + exp(-odds)), -log(1 + exp(odds))])
