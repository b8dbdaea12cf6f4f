"""A Gaussian posterior of the weights: its metrics for new samples, and the temperatures it would choose.

A new sample's score under the posterior is Gaussian, with mean ω and variance v. So the predicted probability of the label +1
is E σ*((ω + √v ξ)/T), with the teacher's σ*, the assumed temperature T and a standard normal ξ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from nishimori._support.numbers import positive
from nishimori.errors import InputError
from nishimori_paper.theory._linear_score import check_overlaps
from nishimori_paper.theory._quadrature import (
    Array,
    bracketed_root,
    composite,
    half_line,
    mean_absolute,
    normal,
    slope_at_zero,
)
from nishimori_paper.theory._teachers import Teacher, as_teacher, averages_given_score

# Slopes of the loss are accurate to about 1e-12: where they are smaller than this, the root has fewer than six digits.
_CERTAIN = 1e-8


class Predictive:
    """Metrics of the predictive probability E σ*((ω + √v ξ)/T) for new samples; subclasses hold the numbers."""

    teacher: Teacher
    temperature: float
    m: float
    q: float
    v: float

    @property
    def likelihood(self) -> Teacher:
        """The teacher whose σ* is assumed: by default the one that labels the samples."""
        return self.teacher

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
        """Mean over new samples of a function of two probabilities of a wrong answer: the predicted one and the true one."""
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
        """Probability of a wrong answer, predicted and true, at a score of s standard deviations."""
        r, T = self._correlation, self.temperature
        claimed = self.likelihood.averages(-sqrt(self.q) * s / T, self.v / T**2)
        return claimed.value, averages_given_score(self.teacher, -s, r, 1 - r * r).value


@dataclass(frozen=True)
class Posterior(Predictive):
    """A posterior whose mean has overlaps m = w*·ŵ/d and q = |ŵ|²/d, and whose components have variance v.

    ``teacher`` labels the samples, with its own temperature. ``assumed`` is the teacher whose σ* the posterior takes for the
    likelihood, at the temperature ``temperature``; by default it is ``teacher``.
    """

    teacher: Teacher
    temperature: float
    m: float
    q: float
    v: float
    assumed: Teacher | None = None

    @property
    def likelihood(self) -> Teacher:
        """The teacher whose σ* is assumed."""
        return self.teacher if self.assumed is None else self.assumed

    def __post_init__(self) -> None:
        object.__setattr__(self, "teacher", as_teacher(self.teacher))  # the dataclass is frozen
        if self.assumed is not None:
            object.__setattr__(self, "assumed", as_teacher(self.assumed))
        positive("temperature", self.temperature)
        positive("v", self.v)
        check_overlaps(self.teacher, self.m, self.q)


def chosen_temperatures(at: Callable[[float], Predictive], low: float, high: float) -> tuple[float | None, float | None]:
    """The temperatures of least loss and of zero excess among the posteriors ``at`` log T/T* from ``low`` to ``high``.

    A temperature is None if there is none in this range, or if rounding errors decide where it is.
    """

    def slope(log_ratio: float) -> float:
        return float(slope_at_zero(lambda h: at(log_ratio + h).loss))

    def excess(log_ratio: float) -> float:
        return at(log_ratio).excess

    chosen: list[float | None] = []
    for gap in (slope, excess):
        ends = gap(low), gap(high)
        if ends[0] * ends[1] >= 0 or min(abs(end) for end in ends) < _CERTAIN:
            chosen.append(None)
            continue
        chosen.append(at(bracketed_root(gap, {low: ends[0], high: ends[1]})).temperature)
    return chosen[0], chosen[1]


def check_log_concave(teacher: Teacher) -> None:
    """Refuse a teacher for which the equations are not proven at temperatures other than its own."""
    if not teacher.log_concave:
        raise InputError(
            "teacher",
            "have a log-concave likelihood",
            got=(
                f"{type(teacher).__name__}: without it the equations are not proven at temperatures other than the "
                "teacher's own"
            ),
        )


def pull(teacher: Teacher, omega: Array, v: float, T: float) -> tuple[Array, Array, Array]:
    """The pull ∂ log Z of a sample with label +1 on its score ω, −∂² log Z, and Z = E σ*((ω + √v ξ)/T) itself."""
    value, slope, curvature = teacher.averages(omega / T, v / T**2)
    # Z underflows where σ* is zero. The pull is then unknown and set to zero, and the caller must check Z.
    safe = np.where(value > 0, value, 1.0)
    force = np.where(value > 0, slope / safe / T, 0.0)
    return force, np.where(value > 0, force**2 - curvature / safe / T**2, 0.0), value


def _weighted_log(weight: Array, value: Array) -> Array:
    """``weight`` · log ``value``, and 0 where the value is 0."""
    return np.where(value > 0, weight * np.log(np.where(value > 0, value, 1.0)), 0.0)
