"""The difference of two expected calibration errors of the same rows, with its interval and p-value.

Each of the two has an estimate and limits of its own (`BinnedGaps`), which are not symmetric. The limits of the difference
follow from theirs by the method of variance estimates recovery (Zou and Donner 2008): the distance from the estimate to the
lower limit of the difference is √(a² + b² - 2ρab), where a is the distance of the second ECE to its lower limit, b that of the
first to its upper limit, and ρ the correlation of the measured ECEs. The correlation is that of sums of |gap| where the gaps of
all bins of both vary with their joint covariance. It depends on the true gaps. Of three guesses for these, the one with the
lowest correlation is used: the measured gaps scaled to the corrected ECE; the measured gaps without what their errors explain;
and no gaps where labels drawn from the probabilities of the model explain the measured ECE.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import numpy as np

from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, normal_quantile, two_sided

# Draws of the gaps of all bins: enough to know a correlation of 0.9 to 0.004.
_DRAWS = 2000
_SEED = 0

# Gaps that are this many standard errors from none are some.
_REACH = normal_quantile(0.95)

# A p-value is where the limits of the difference reach zero: looked for up to this many standard errors, in steps and in parts
# of a step.
_MOST_REACH, _PARTS = 6, 10


@dataclass(frozen=True, eq=False)
class EceDifference:
    """Two ECEs of the same rows; ``shared`` is the covariance of the gaps of the first (rows) and the second (columns)."""

    first: BinnedGaps
    second: BinnedGaps
    shared: HostArray

    @property
    def value(self) -> float:
        """The second as measured minus the first as measured."""
        return self.second.value - self.first.value

    @cached_property
    def se(self) -> float:
        """The standard error of the difference."""
        first, second = self._draw_eces([each.scaled for each in self._both])
        return float(np.std(second - first))

    @cached_property
    def p_value(self) -> float:
        """How probable a difference of either sign of at least this size is if there is none."""
        reach = float(self._n_outside(np.arange(_MOST_REACH)))
        if 0 < reach < _MOST_REACH:
            steps = reach - 1 + np.arange(_PARTS) / _PARTS
            reach = float(steps[self._n_outside(steps) - 1])
        return two_sided(reach)

    def _n_outside(self, reach: HostArray) -> int:
        """How many of the narrowest intervals do not contain zero."""
        lows, highs = self._limits(reach.astype(float))
        return int(((lows > 0) | (highs < 0)).sum())

    def interval(self, level: float) -> Interval:
        """The differences that the data leave possible."""
        reach = normal_quantile(level)
        if reach == inf:
            return Interval(-1.0, 1.0)
        (low,), (high,) = self._limits(np.array([reach]))
        return Interval(min(float(low), self.value), max(float(high), self.value))

    def _limits(self, reach: HostArray) -> tuple[HostArray, HostArray]:
        """Lower and upper limits at some numbers of standard errors."""
        first, second = (each.limits(reach) for each in self._both)
        mine, theirs = self.first.corrected, self.second.corrected
        below = self._combine(theirs - second[0], first[1] - mine)
        above = self._combine(mine - first[0], second[1] - theirs)
        return theirs - mine - below, theirs - mine + above

    def _combine(self, a: HostArray, b: HostArray) -> HostArray:
        found: HostArray = np.sqrt(np.maximum(a**2 + b**2 - 2 * self._correlation * a * b, 0))
        return found

    @cached_property
    def _correlation(self) -> float:
        possible = [each.scaled * (not each.is_explained_by_calibration(_REACH)) for each in self._both]
        guesses = ([each.scaled for each in self._both], [each.clear for each in self._both], possible)
        return min(_correlation_of(*self._draw_eces(gaps)) for gaps in guesses)

    @property
    def _both(self) -> tuple[BinnedGaps, BinnedGaps]:
        return self.first, self.second

    @cached_property
    def _noise(self) -> HostArray:
        """Errors of all gaps, drawn together."""
        covariance = np.block([[self.first.covariance, self.shared], [self.shared.T, self.second.covariance]])
        sizes, axes = np.linalg.eigh(covariance)
        drawn = np.random.default_rng(_SEED).normal(size=(_DRAWS, len(sizes)))
        noise: HostArray = drawn @ (axes * np.sqrt(np.maximum(sizes, 0))).T
        return noise

    def _draw_eces(self, gaps: Sequence[HostArray]) -> tuple[HostArray, HostArray]:
        """Measured ECEs of both, drawn together, where these are the true gaps."""
        first, second = np.split(self._noise, [len(self.first.gaps)], axis=1)
        return np.abs(gaps[0] + first).sum(axis=1), np.abs(gaps[1] + second).sum(axis=1)


def _correlation_of(first: HostArray, second: HostArray) -> float:
    first, second = first - first.mean(), second - second.mean()
    scale = sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / scale if scale > 0 else 0.0
