"""Bayesian inference with the teacher's own likelihood, at the right temperature or a wrong one.

The prior is N(0, ρI) and the likelihood of a label y is σ*(y w·x/T). At T = T* this is the best that anyone can do, and it is
honest: mean confidence equals accuracy. A statistician who does not know T* can find it, as the T at which that is so, or as
the T of least loss: here expectation consistency and temperature scaling are the same.

A new sample's score under the posterior is Gaussian, with mean ω and variance v, so the label +1 has the probability
E σ*((ω + √v ξ)/T). The overlaps of the posterior mean solve the equations of `_fixed_point`, with ∂ log E σ* for the pull of a
sample. They are exact where log σ* is concave, and at T = T* in any case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from nishimori._numbers import positive
from nishimori.errors import InputError, NotConvergedError
from nishimori.theory._checks import tolerance
from nishimori.theory._fixed_point import Channel, Problem, approach, solve, unpack
from nishimori.theory._linear_score import check_overlaps
from nishimori.theory._quadrature import (
    REACH,
    Array,
    bracketed_root,
    composite,
    half_line,
    mean_absolute,
    nodes,
    normal,
    slope_at_zero,
)
from nishimori.theory._state_evolution import TOLERANCE
from nishimori.theory._teachers import Teacher, as_teacher, mean_slope

# Largest factor between temperatures of a continuation.
_RATIO = 1.5

# Slopes of the loss are right to about 1e-12: where they are smaller than this, the root has fewer than six digits.
_CERTAIN = 1e-8

# A likelihood so small that its logarithm is lost may carry at most this much of the weight.
_NEGLIGIBLE = 1e-14


class Predictive:
    """Metrics of the posterior predictive probability E σ*((ω + √v ξ)/T) for new samples; subclasses hold the numbers."""

    teacher: Teacher
    temperature: float
    m: float
    q: float
    v: float

    @property
    def error(self) -> float:
        """Fraction of new samples classified wrongly."""
        return self._mean(lambda _, wrong: wrong)

    @property
    def accuracy(self) -> float:
        """1 − `error`."""
        return 1 - self.error

    @property
    def confidence(self) -> float:
        """Mean probability of the predicted class."""
        return 1 - self._mean(lambda claimed, _: claimed)

    @property
    def loss(self) -> float:
        """Mean cross-entropy, in nats."""
        return -self._mean(lambda claimed, wrong: _weighted_log(wrong, claimed) + (1 - wrong) * np.log1p(-claimed))

    @property
    def excess(self) -> float:
        """`confidence` − `accuracy`: zero at T = T*."""
        return self._mean(lambda claimed, wrong: wrong - claimed)

    @property
    def ece(self) -> float:
        """Expected calibration error, without bins."""
        return mean_absolute(lambda s: np.subtract(*self._wrong(s)), self._edges())

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities, summed over both classes: from 0 to 2."""
        return self._mean(lambda claimed, wrong: 2 * ((1 - wrong) * claimed**2 + wrong * (1 - claimed) ** 2))

    def _mean(self, integrand: Callable[[Array, Array], Array]) -> float:
        """Mean over new samples of a function of the claimed and the true probability that the answer is wrong."""
        s, weight = composite(self._edges())
        return float(2 * (weight * normal(s)) @ integrand(*self._wrong(s)))

    @property
    def _correlation(self) -> float:
        return self.m / sqrt(self.teacher.rho * self.q)

    def _edges(self) -> Array:
        r = self._correlation
        finest = min(sqrt(1 - r * r) / max(abs(r), 1e-3), sqrt(self.v / self.q), 0.5)
        return half_line(1.5 * finest, finest)

    def _wrong(self, s: Array) -> tuple[Array, Array]:
        """Probability that the answer is wrong, claimed and true, at a score of s standard deviations."""
        r, signal, T = self._correlation, self.teacher.signal, self.temperature
        claimed = self.teacher.averages(-sqrt(self.q) * s / T, self.v / T**2)
        return claimed.value, self.teacher.averages(-signal * r * s, signal**2 * (1 - r * r)).value


@dataclass(frozen=True)
class Posterior(Predictive):
    """A posterior whose mean has overlaps m = w*·ŵ/d and q = |ŵ|²/d, and whose components have variance v."""

    teacher: Teacher
    temperature: float
    m: float
    q: float
    v: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "teacher", as_teacher(self.teacher))  # frozen, but not yet
        positive("temperature", self.temperature)
        positive("v", self.v)
        check_overlaps(self.teacher, self.m, self.q)


@dataclass(frozen=True)
class BayesOptimal(Predictive):
    """What `bayes_optimal` found: overlaps of the posterior mean with the teacher (m) and itself (q), posterior variance v.

    At ``temperature`` = T* the Nishimori conditions m = q and v = ρ − q hold, and q is called q_bo. ``residual``, ``steps``
    and ``converged`` are the receipt of the solution; what has not converged is raised, never returned.
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


class BayesTemperatures(NamedTuple):
    """Where the posterior's loss is least, and where its mean confidence is its accuracy."""

    ts: float
    ec: float


def bayes_optimal(
    teacher: Teacher | str, alpha: float, *, temperature: float | None = None, tol: float = TOLERANCE
) -> BayesOptimal:
    """Bayesian inference from αd samples of a teacher, with d → ∞.

    Parameters
    ----------
    teacher : Teacher or {"logit", "affine", "constant", "probit"}
        Who labels the samples; a name stands for T* = ρ = 1.
    alpha : float
        Samples per dimension.
    temperature : float, optional
        The temperature T assumed in the likelihood; the teacher's T* by default, which is optimal. Another one is refused
        where log σ* is not concave, as for the constant teacher, because nothing vouches for the equations there.
    tol : float
        Relative accuracy wanted of m, q and v.

    Examples
    --------
    >>> from nishimori.theory import bayes_optimal
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
            f"`temperature` must be the teacher's own, {teacher.temperature:g}, got {assumed:g}: log σ* of the "
            f"{type(teacher).__name__} teacher is not concave, and away from T* nothing vouches for the equations then."
        )
    return _at(teacher, alpha, assumed, tol, _optimal_start(teacher, alpha))


def _at(teacher: Teacher, alpha: float, assumed: float, tol: float, x: Array) -> BayesOptimal:
    """The solution at an assumed temperature, followed from ``x`` at the right one."""
    steps = 0
    path = np.geomspace(teacher.temperature, assumed, 2 + int(abs(log(assumed / teacher.temperature)) / log(_RATIO)))
    for T in path[1:-1]:
        found = approach(Problem(_posterior(teacher, T), alpha, 1.0), x)
        x, steps = found.x, steps + found.steps
    found = solve(Problem(_posterior(teacher, assumed), alpha, 1.0), x, tol)
    eta, _, q, v = unpack(found.x)
    rho = teacher.rho
    return BayesOptimal(teacher, alpha, assumed, rho * sqrt(eta * q), rho * q, rho * v, found.residual, steps + found.steps)


def bayes_temperatures(teacher: Teacher | str, alpha: float, *, tol: float = TOLERANCE) -> BayesTemperatures:
    """The temperatures that least loss and expectation consistency choose for the likelihood: both T*, says the theory.

    Parameters are those of `bayes_optimal`. The likelihood must be log-concave.

    Examples
    --------
    >>> from nishimori.theory import Probit, bayes_temperatures
    >>> [round(T, 6) for T in bayes_temperatures(Probit(temperature=0.5), alpha=3.0)]
    [0.5, 0.5]
    """
    teacher = as_teacher(teacher)
    alpha, tol = positive("alpha", alpha), tolerance(tol)
    check_log_concave(teacher)
    start = _optimal_start(teacher, alpha)

    def at(log_ratio: float) -> BayesOptimal:
        return _at(teacher, alpha, teacher.temperature * exp(log_ratio), tol, start)

    # The bracket is not centred on the answer, lest the search be handed it.
    ts, ec = chosen_temperatures(at, -0.3, 0.5)
    if ts is None or ec is None:
        raise NotConvergedError(
            f"The temperatures of the {type(teacher).__name__} teacher at alpha = {alpha:g} are lost in rounding: its labels "
            "say next to nothing. Lower its `temperature`."
        )
    return BayesTemperatures(ts, ec)


def chosen_temperatures(at: Callable[[float], Predictive], low: float, high: float) -> tuple[float | None, float | None]:
    """The temperatures of least loss and of no excess among the posteriors ``at`` log T/T* from ``low`` to ``high``.

    None where there is none, or none that rounding leaves certain.
    """

    def slope(log_ratio: float) -> float:
        return float(slope_at_zero(lambda h: at(log_ratio + h).loss))

    def excess(log_ratio: float) -> float:
        return at(log_ratio).excess

    found: list[float | None] = []
    for gap in (slope, excess):
        ends = gap(low), gap(high)
        if ends[0] * ends[1] >= 0 or min(abs(each) for each in ends) < _CERTAIN:
            found.append(None)
            continue
        found.append(at(bracketed_root(gap, {low: ends[0], high: ends[1]})).temperature)
    return found[0], found[1]


def check_log_concave(teacher: Teacher) -> None:
    """Refuse a teacher whose posterior is not known to be right at temperatures other than its own."""
    if not teacher.log_concave:
        raise InputError(
            f"`teacher` must have a log-concave likelihood, got {type(teacher).__name__}: "
            "at temperatures other than its own nothing vouches for the result."
        )


def pull(teacher: Teacher, omega: Array, v: float, T: float) -> tuple[Array, Array, Array]:
    """How a sample labelled +1 pulls at its score: ∂ log Z and −∂² log Z, for Z = E σ*((ω + √v ξ)/T), and Z itself."""
    value, slope, curvature = teacher.averages(omega / T, v / T**2)
    # Far out where σ* is zero, Z underflows; what the caller makes of it must not depend on the pull there.
    safe = np.where(value > 0, value, 1.0)
    force = np.where(value > 0, slope / safe / T, 0.0)
    return force, np.where(value > 0, force**2 - curvature / safe / T**2, 0.0), value


def _posterior(teacher: Teacher, temperature: float) -> Channel:
    """Averages over ω ~ N(0, q) of the pull of a sample, for a teacher and a prior of norm one."""
    signal = teacher.signal
    T = temperature / sqrt(teacher.rho)

    def averages(eta: float, q: float, v: float, step: float) -> tuple[float, float, float]:
        # Zeros of Z lie about 2.8 of its widths √v off the real line, which is what limits the trapezoid rule.
        s_step = 5 * step * min(1.0, sqrt((1 - eta) / eta), sqrt(v / q))
        n = nodes(REACH / s_step)
        s = s_step * np.arange(-n, n + 1)
        force, stiff, value = pull(teacher, sqrt(q) * s, v, T)
        truth = teacher.averages(signal * sqrt(eta) * s, signal**2 * (1 - eta))
        weight = 2 * s_step * normal(s)
        if (weight * truth.value) @ (value == 0) > _NEGLIGIBLE:
            raise InputError(
                f"`temperature` must be nearer to the teacher's {teacher.temperature:g}, got {temperature:g}: labels that "
                "occur have a likelihood below the smallest number there is."
            )
        m_hat = signal * float((weight * truth.slope) @ force)
        weight = weight * truth.value
        return m_hat, float(weight @ force**2), float(weight @ stiff)

    return averages


def _optimal_start(teacher: Teacher, alpha: float) -> Array:
    """The solution at T*, where one unknown is left: q = m = 1 − v. All of its roots are looked for, and one must be there."""
    channel = _posterior(teacher, teacher.temperature)

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
            f"The Bayes-optimal equations of the {type(teacher).__name__} teacher have {len(roots)} solutions at "
            f"alpha = {alpha:g}, and only a single one can be relied on."
        )
    odds = brentq(excess, grid[roots[0]], grid[roots[0] + 1], xtol=1e-8)
    return np.array([odds, -log(1 + exp(-odds)), -log(1 + exp(odds))])


def _weighted_log(weight: Array, value: Array) -> Array:
    """Weight · log value, which vanishes with the weight."""
    return np.where(value > 0, weight * np.log(np.where(value > 0, value, 1.0)), 0.0)
