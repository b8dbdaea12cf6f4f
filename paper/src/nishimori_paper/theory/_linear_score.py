"""Metrics and temperatures of a linear classifier whose score and the teacher's are jointly Gaussian.

For x ~ N(0, I/d) and any ŵ the scores w*·x and ŵ·x are a Gaussian pair, with variances ρ and q and covariance m. So every
metric of the probability σ(ŵ·x/T) is a one-dimensional integral. With r = m/√(ρq), τ = √q/T and a standard normal s,
the score is τs and the label +1 has probability Z(rs) = E σ*(κ(rs + √(1 − r²) ξ)). By symmetry s > 0 is enough.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, sqrt
from numbers import Real
from typing import Any, NamedTuple, overload

import numpy as np
from scipy.special import expit, logit, ndtr

from nishimori._fit.roots import Point, drive, increasing_root
from nishimori._support.numbers import positive
from nishimori.errors import InputError, NishimoriError, NotConvergedError, NoTemperatureError
from nishimori_paper.theory._quadrature import REACH, Array, composite, half_line, mean_absolute, normal
from nishimori_paper.theory._teachers import Teacher, as_teacher, averages_given_score

# Length of the first panel; the next ones double in length. This resolves scores as steep as τ = 10,000.
_FINEST = 1e-4


class Line(NamedTuple):
    """Nodes on the half line s > 0, their weights under twice the normal density, and P(wrong | s)."""

    s: Array
    weight: Array
    wrong: Array


class AtomDensity(NamedTuple):
    """The part of the joint density at a single value of f*; ``density`` is its density in f_erm."""

    f_star: float
    density: Array


class LinearScore:
    """Metrics of the probability σ(ŵ·x/T) in the limit of many samples; subclasses hold ``teacher``, ``m`` and ``q``.

    Every method takes one temperature or an array of them, and returns a float or an array of the same shape.
    """

    teacher: Teacher
    m: float
    q: float

    @property
    def correlation(self) -> float:
        """Correlation r = m/√(ρq) of the teacher's score and the classifier's; its square is η in docs/theory.md."""
        return self.m / sqrt(self.teacher.rho * self.q)

    @property
    def error(self) -> float:
        """Fraction of new samples classified wrongly; it does not depend on the temperature."""
        return float(self.line.weight @ self.line.wrong)

    @property
    def accuracy(self) -> float:
        """1 − `error`."""
        return 1 - self.error

    @property
    def temperature_ts(self) -> float:
        """The temperature of least loss: E[s(σ(τs) − Z)] = 0."""
        return self._temperature(self.line.weight * self.line.s)

    @property
    def temperature_ec(self) -> float:
        """The temperature at which mean confidence equals accuracy: E[σ(τs) − Z] = 0 over s > 0."""
        return self._temperature(self.line.weight)

    def metrics(self, T: float = 1.0) -> dict[str, float]:
        """Every metric at one temperature, under the names that `nishimori.results.Scorecard` has for them."""
        return {
            "temperature": T,
            "error": self.error,
            "accuracy": self.accuracy,
            "confidence": self.confidence(T),
            "ece": self.ece(T),
            "brier": self.brier(T),
            "nll": self.loss(T),
        }

    @overload
    def confidence(self, T: float = ...) -> float: ...
    @overload
    def confidence(self, T: Array) -> Array: ...
    def confidence(self, T: Any = 1.0) -> Any:
        """Mean probability of the predicted class."""
        return self._mean(T, lambda u, _: expit(u))

    @overload
    def loss(self, T: float = ...) -> float: ...
    @overload
    def loss(self, T: Array) -> Array: ...
    def loss(self, T: Any = 1.0) -> Any:
        """Mean cross-entropy, in nats."""
        return self._mean(T, lambda u, wrong: np.log1p(np.exp(-u)) + wrong * u)

    @overload
    def brier(self, T: float = ...) -> float: ...
    @overload
    def brier(self, T: Array) -> Array: ...
    def brier(self, T: Any = 1.0) -> Any:
        """Mean squared error of the probabilities, summed over both classes: from 0 to 2."""
        return self._mean(T, lambda u, wrong: 2 * ((1 - wrong) * expit(-u) ** 2 + wrong * expit(u) ** 2))

    @overload
    def ece(self, T: float = ...) -> float: ...
    @overload
    def ece(self, T: Array) -> Array: ...
    def ece(self, T: Any = 1.0) -> Any:
        """Expected calibration error E|Δ| over all scores, without bins."""
        taus = self._taus(T)
        return _like(T, np.array([self._ece(tau) for tau in taus.ravel()]).reshape(taus.shape))

    def conditional_mean(self, level: Any, T: Any = 1.0) -> Any:
        """P(y = +1) for samples to which the classifier assigns the probability ``level``; both arguments broadcast."""
        s = np.asarray(logit(_inside("level", level))) / self._taus(T)
        return _like(s, self._truth(s))

    def delta(self, level: Any, T: Any = 1.0) -> Any:
        """Δ = ``level`` − `conditional_mean`; positive at a level above 1/2 means overconfident. Both arguments broadcast."""
        mean = self.conditional_mean(level, T)
        return _like(mean, np.asarray(level, dtype=np.float64) - mean)

    def density(self, f_star: Any, f_erm: Any, T: Any = 1.0) -> Any:
        """Joint density of f* = σ*(w*·x/T*) and f_erm = σ(ŵ·x/T), where it is continuous.

        `atoms` has the rest, at single values of f*; both together integrate to 1. All three arguments broadcast.
        """
        _check_continuous(self.teacher)
        level = _inside("f_star", f_star)
        s, jacobian = self._density_of_erm(f_erm, T)
        z = self.teacher.inverse(level)
        slope = self.teacher.signal * self.teacher.derivative(z)
        r = self.correlation
        spread = sqrt(1 - r * r)
        joint = normal(s) * normal((z / self.teacher.signal - r * s) / spread) / spread
        # The density is zero outside the range of σ*, and where σ* is constant.
        inside = slope > 0
        return _like(level + s, np.where(inside, joint * jacobian / np.where(inside, slope, 1.0), 0.0))

    def atoms(self, f_erm: Any, T: Any = 1.0) -> tuple[AtomDensity, ...]:
        """The values that f* has with positive probability, each with the density of f_erm there."""
        s, jacobian = self._density_of_erm(f_erm, T)
        r, signal = self.correlation, self.teacher.signal
        spread = sqrt(1 - r * r)
        result = []
        for value, low, high in self.teacher.atoms:
            share = _normal_between((low / signal - r * s) / spread, (high / signal - r * s) / spread)
            result.append(AtomDensity(value, _like(s, normal(s) * share * jacobian)))
        return tuple(result)

    @cached_property
    def line(self) -> Line:
        return self._nodes(self._edges(_FINEST))

    def _edges(self, finest: float) -> Array:
        """Edges of panels that are short near s = 0, and never longer than the distance over which Z changes."""
        r = abs(self.correlation)
        return half_line(min(0.75, 1.5 * sqrt(1 - r * r) / max(r, 1e-3)), finest)

    def _nodes(self, edges: Array) -> Line:
        s, weight = composite(edges)
        return Line(s, 2 * weight * normal(s), self._truth(-s))

    def _truth(self, s: Array) -> Array:
        r = self.correlation
        return averages_given_score(self.teacher, s, r, 1 - r * r).value

    def _taus(self, T: Any) -> Array:
        temperatures = _floats("T", T)
        if not ((temperatures >= 1e-30) & (temperatures <= 1e30)).all():
            raise InputError("T", "lie between 1e-30 and 1e30", got=T)
        return sqrt(self.q) / temperatures

    def _mean(self, T: Any, integrand: Callable[[Array, Array], Array]) -> Any:
        taus = self._taus(T)
        steepest = float(taus.max(initial=0.0))
        line = self.line if steepest * _FINEST <= 1 else self._nodes(self._edges(1 / steepest))
        return _like(T, integrand(taus[..., None] * line.s, line.wrong) @ line.weight)

    def _ece(self, tau: float) -> float:
        return mean_absolute(lambda s: self._truth(-s) - expit(-tau * s), self._edges(min(_FINEST, 1 / tau)))

    def _temperature(self, weight: Array) -> float:
        """Where the mean of weight·(P(wrong) − σ(−τs)) vanishes: it increases with τ."""
        if self.m <= 0:
            raise NoTemperatureError(
                f"No temperature fits: accuracy {self.accuracy:.4g} is not above chance (0.5), because the classifier's "
                f"overlap with the teacher is {self.m:.4g}.",
                "Train it on more samples.",
                end="hot",
            )
        s, _, wrong = self.line
        target = float(weight @ wrong)

        def gap(x: float) -> Point:
            u = exp(x) * s
            down, up = expit(-u), expit(u)
            steep = u * down * up
            claimed = float(weight @ down)
            return Point(
                value=target - claimed,
                slope=float(weight @ steep),
                curvature=float(weight @ (steep * (1 + u * (down - up)))),
                noise=4e-16 * (target + claimed),
            )

        root = drive({"T": increasing_root(0.0)}, lambda wanted, _: {"T": gap(wanted["T"])})["T"]
        if isinstance(root, NishimoriError):
            raise root
        if root.point.noise > 1e-7 * root.point.slope:
            raise NotConvergedError(
                "The temperature is lost in rounding: the classifier's score carries almost no information. Its correlation "
                f"with the teacher's is {self.correlation:.1e}."
            )
        return sqrt(self.q) / exp(root.x)

    def _density_of_erm(self, f_erm: Any, T: Any) -> tuple[Array, Array]:
        """The standard normal s at each value of f_erm, and ds/df_erm."""
        level = _inside("f_erm", f_erm)
        tau = self._taus(T)
        return np.asarray(logit(level)) / tau, 1 / (tau * level * (1 - level))


@dataclass(frozen=True)
class Overlaps(LinearScore):
    """Metrics of any linear classifier, from its overlaps with the teacher, m = w*·ŵ/d, and with itself, q = |ŵ|²/d.

    Examples
    --------
    >>> from nishimori_paper.theory import Logit, Overlaps
    >>> perfect = Overlaps(Logit(), m=0.999999, q=0.999999)
    >>> round(perfect.temperature_ec, 3), round(perfect.ece(), 5)
    (1.0, 0.0)
    """

    teacher: Teacher
    m: float
    q: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "teacher", as_teacher(self.teacher))  # the dataclass is frozen
        check_overlaps(self.teacher, self.m, self.q)


def check_overlaps(teacher: Teacher, m: Any, q: Any) -> None:
    """Refuse overlaps that no weights can have."""
    bound = sqrt(teacher.rho * positive("q", q))
    if not (isinstance(m, Real) and abs(float(m)) < bound):
        raise InputError("m", f"be a number of absolute value below sqrt(rho * q) = {bound:g}", got=repr(m))


def _floats(name: str, value: Any) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, "be a number or an array of numbers", got=repr(value)) from None


def _inside(name: str, level: Any) -> Array:
    values = _floats(name, level)
    if not ((values > 0) & (values < 1)).all():
        raise InputError(name, "lie strictly between 0 and 1", got=level)
    return values


def _like(argument: Any, values: Any) -> Any:
    """``values`` as a float if ``argument`` is a number, otherwise as an array."""
    return float(values) if np.ndim(argument) == 0 else np.asarray(values)


def _normal_between(low: Array, high: Array) -> Array:
    """Φ(high) − Φ(low), computed in the tail where the terms do not cancel."""
    upper = low > 0
    return np.asarray(np.where(upper, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))


def _check_continuous(teacher: Teacher) -> None:
    """Refuse a teacher whose f* has no density, or has atoms that it does not declare."""
    name = f"f* of the {type(teacher).__name__} teacher"
    z = teacher.signal * np.linspace(-REACH, REACH, 6401)
    free = np.ones(z.shape, dtype=bool)
    for _, low, high in teacher.atoms:
        free &= (z < low) | (z > high)
    if not free.any():
        held = ", ".join(f"{atom.value:g}" for atom in teacher.atoms)
        raise InputError(
            f"{name} has no density: it takes only the values {held}. "
            "Use `atoms(f_erm, T)`, which gives the density of f_erm at each of them."
        )
    if (np.diff(teacher.probability(z)) < -1e-9).any():
        raise InputError(name, "not decrease with w*·x if its density is requested", got="a σ* that decreases somewhere")
    slope = teacher.derivative(z)
    flat = free & (slope <= 0)
    # Far from zero every σ* is flat to the last digit. Only a σ* with a constant piece becomes flat where it is still steep.
    steep = free & (slope > 1e-6)
    if (flat[1:] & steep[:-1]).any() or (flat[:-1] & steep[1:]).any() or not steep.any():
        raise InputError(
            f"{name} has single values of positive probability, and no density there. "
            "Set `atoms` of the teacher to the intervals on which σ* is constant."
        )
