"""Metrics computed from sums per bin: the gap between confidence and accuracy, and the expected calibration error.

Confidence can equal accuracy while the probability of the second of two classes is far off: where that class is rare, a model
that gives it too much is not right less often than it says. So every scorecard of two classes has the metrics of that class
too.

Of two ECEs of the same rows each has an estimate and limits of its own (`BinnedGaps`), which are not symmetric. The limits of
the difference follow from theirs by the method of variance estimates recovery (Zou and Donner 2008): the distance from the
estimate to the lower limit of the difference is √(a² + b² - 2ρab), where a is the distance of the second ECE to its lower
limit, b that of the first to its upper limit, and ρ the correlation of the measured ECEs. The correlation is that of sums of
|gap| where the gaps of all bins of both vary with their joint covariance. It depends on the true gaps. Of three guesses for
these, the one with the lowest correlation is used: the measured gaps scaled to the corrected ECE; the measured gaps without
what their errors explain; and no gaps where labels drawn from the probabilities of the model explain the measured ECE.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, nan, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nishimori._evaluation.limits import limits_of_ece, limits_of_gaps
from nishimori._evaluation.metrics.metric import Difference, Estimate, Limits, Metric, StandardError
from nishimori._rows.rows import Rows
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.outcomes import OneClaim
from nishimori._sums.predictions import Predictions, reliability_of
from nishimori._sums.reliability import BinnedClaims, BinSums, Norm, Of, Strategy
from nishimori._sums.spread import ClusterSpread, Spread, spread
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, normal_quantile, two_sided

if TYPE_CHECKING:
    from nishimori._evaluation.scorecard import Scorecard

# Draws of the gaps of all bins: enough to know a correlation of 0.9 to 0.004.
_DRAWS = 2000
_SEED = 0

# Gaps that are this many standard errors from none are some.
_REACH = normal_quantile(0.95)

# A p-value is where the limits of the difference reach zero: looked for up to this many standard errors, in steps and in parts
# of a step.
_MOST_REACH, _PARTS = 6, 10


class OfBins:
    """Base class of metrics computed from the sums per bin that every scorecard has."""

    of_bins: ClassVar[OneClaim | None]

    def claims(self, predictions: Predictions) -> BinnedClaims:
        """The claim of each row, in bins."""
        return predictions.positive_claims if self.of_bins == "positive" else predictions.top_claims

    def sums(self, predictions: Predictions) -> BinSums:
        """Sums per bin."""
        return self.claims(predictions).sums


class GapOfBins(OfBins):
    """Base class of gaps computed from sums per bin, for confidences or any other claim."""

    bounds: ClassVar = (-1.0, 1.0)
    in_percent: ClassVar = True
    by_default: ClassVar = True
    sides: ClassVar[tuple[str, str]] = ("confidence", "accuracy")  # what the gap is between

    def of_sums(self, sums: BinSums) -> tuple[float, StandardError]:
        """The sum of all gaps. Its error is estimated from the samples, but not below the error of a calibrated model."""
        return float(sums.gaps.gaps.sum()), sums.gaps.total_se

    def pair(self, first: Predictions, second: Predictions) -> Spread | ClusterSpread:
        """How the difference between the probabilities of both calibrations varies from sample to sample."""
        return spread(first.batch, [self.claims(second).misses - self.claims(first).misses], counts=first.counts)

    def difference(self, first: BinSums, second: BinSums, pair: Spread | ClusterSpread, *, alone: bool) -> Difference:
        """The difference between two means over the same samples."""
        value = self.of_sums(second)[0] - self.of_sums(first)[0]
        variance = float(pair.around(np.array([value]))[0])
        return Difference.normal(value, nan if alone else sqrt(variance) / float(first.bins.weight.sum()), 1.0)

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """The limits of the gap's size, which a bound is about, and its sign in words."""
        return Limits(*limits_of_size(estimate, card, level), direction(estimate.value, *self.sides), abs(estimate.value))


class OverallGap(GapOfBins, Metric):
    """Mean confidence minus accuracy: positive where a model is overconfident.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.gap([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    0.3808
    """

    name = "gap"
    of_bins = "top"
    in_tables = False
    needs = "top"
    order = 4


class PositiveGap(GapOfBins, Metric):
    """Mean probability of the positive class, the second of two, minus its share of the samples.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.positive_gap([[0.0, 2.0], [2.0, 0.0]], [0, 0]), 4)
    0.5
    """

    name = "positive_gap"
    title = "positive gap"
    of_bins = "positive"
    n_classes = 2
    order = 8
    sides = ("mean p(1)", "the share of class 1")


def limits_of_size(gap: Estimate, card: "Scorecard", level: float) -> tuple[float, float]:
    """The limits of the size of a gap of all samples, |claimed - true|."""
    assert gap.se is not None, "whose absence has a reason"
    claimed, true = card.confidence, true_share(gap, card)
    if gap.metric.of_bins == "positive":
        claimed = true + gap.value
    low, high = limits_of_gaps(np.array([[claimed], [true], [gap.se], [1 / gap.squares]]), level, level)
    return float(low[0]), float(high[0])


def true_share(estimate: Estimate, card: "Scorecard") -> float:
    """The share of claims that came true, for a metric computed from bins."""
    assert estimate.gaps is not None, "which is made of bins"
    return estimate.gaps.true_share if estimate.metric.of_bins == "positive" else card.accuracy


def direction(gap: float, claimed: str = "confidence", true: str = "accuracy") -> str:
    """Whether claims are above or below the truth, in words; empty if they are equal."""
    return f"{claimed} is {'above' if gap > 0 else 'below'} {true}" if gap else ""


class MeanAbsoluteGap(OfBins):
    """Base class of calibration errors that average abs(gap) over bins, for confidences or any other claim."""

    bounds: ClassVar = (0.0, 1.0)
    in_percent: ClassVar = True
    by_default: ClassVar = True

    def pair(self, first: Predictions, second: Predictions) -> HostArray:
        """Products of both calibrations' gaps, per pair of bins; none for clusters, because their gaps are kept."""
        before, after = self.claims(first), self.claims(second)
        if before.clusters is not None:
            return np.zeros((0, 0))
        places = before.places[:, 0] * before.n_bins + after.places[:, 0]
        products = before.units * before.misses * after.misses
        return np.bincount(places, products, before.n_bins**2).reshape(before.n_bins, before.n_bins)

    def of_sums(self, sums: BinSums) -> tuple[float, StandardError]:
        """The mean of abs(gap) over bins, for bins with fixed edges."""
        return sums.curve.error(), partial(getattr, sums.gaps, "se")  # which takes a search

    def interval(self, estimate: Estimate, level: float) -> Interval:
        """The interval for bins with fixed edges; its lower limit is 0 unless the ECE exceeds what a calibrated model has."""
        assert estimate.gaps is not None, "whose absence has a reason"
        return estimate.gaps.interval(level)

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """The limits of the ECE, which allow for the uncertainty if almost all claims are true, or false."""
        assert estimate.gaps is not None, "whose absence has a reason"
        gap = card["gap" if self.of_bins == "top" else "positive_gap"]
        ends = limits_of_ece(estimate.gaps, limits_of_size(gap, card, level), true_share(gap, card), level)
        return Limits(*ends, f"{100 * estimate.value:.2f} % as measured", estimate.gaps.corrected)

    def difference(self, first: BinSums, second: BinSums, pair: HostArray, *, alone: bool) -> Difference:
        """The difference, with asymmetric limits."""
        difference = EceDifference(first.gaps, second.gaps, _covariance(first, second, pair))
        if alone:
            return Difference(difference.value, None, None)
        if np.array_equal(first.gaps.gaps, second.gaps.gaps) and _are_equal(first, second, pair):  # the maps do the same
            return Difference(0.0, 0.0, 1.0)
        return Difference(difference.value, difference.se, difference.p_value, difference)


@dataclass(frozen=True)
class Ece(MeanAbsoluteGap, Metric):
    """Expected calibration error: how far confidence is from accuracy, bin by bin.

    Parameters
    ----------
    n_bins : int
        Number of bins.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal weight with edges at values of the confidence. 15 quantile bins are the ECE of
        the paper's tables. Equal confidences share a bin, so with many ties there are fewer bins than asked for.
    norm : {"l1", "l2", "max"}
        Weighted mean, weighted root mean square, or maximum of the gaps.
    of : {"top", "positive", "classwise"}
        What is claimed: that the predicted class is right; that class 1 is true (binary problems only); or, for each class in
        turn, that it is true, averaged over classes without weights.

    Returns
    -------
    float
        From 0 (calibrated) to 1.

    Notes
    -----
    Bin i holds edges[i] < p <= edges[i+1]: a confidence on an edge counts in the bin below it, 0 in the first bin and 1 in the
    last. Empty bins do not count. There is no correction for the bias of small bins.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.ece([[2.0, 0.0], [0.0, 2.0]], [0, 0], n_bins=10), 4)
    0.3808
    """

    name = "ece"
    title = "ECE"
    of_bins = "top"
    needs = "top"
    order = 5

    n_bins: int = 15
    strategy: Strategy = "uniform"
    norm: Norm = "l1"
    of: Of = "top"

    def measure(self, data: Rows, beta: float) -> float:
        """The calibration error in its own bins."""
        return reliability_of(data, beta=beta, n_bins=self.n_bins, strategy=self.strategy, of=self.of).error(self.norm)


class PositiveEce(MeanAbsoluteGap, Metric):
    """Expected calibration error of the positive class, the second of two: how far its probability is from its frequency.

    It has 15 bins of equal width, as ``ece(of="positive")`` has.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.positive_ece([[0.0, 2.0], [2.0, 0.0]], [0, 0]), 4)
    0.5
    """

    name = "positive_ece"
    title = "positive ECE"
    of_bins = "positive"
    n_classes = 2
    order = 9


def _gaps_of_clusters(*sums: BinSums) -> list[HostArray]:
    """The gaps of the bins in each cluster; empty where rows are independent."""
    return [own.clusters[:-1] for own in sums if own.clusters is not None]


def _are_equal(first: BinSums, second: BinSums, products: HostArray) -> bool:
    """Whether both calibrations gave each row the same confidence, as far as the sums show."""
    if clustered := _gaps_of_clusters(first, second):
        return np.array_equal(clustered[0], clustered[1])
    return all(np.array_equal(np.diag(own.products), products) for own in (first, second))


def _covariance(first: BinSums, second: BinSums, products: HostArray) -> HostArray:
    """The covariance of the gaps of both."""
    mine, theirs, weight = first.gaps, second.gaps, float(first.bins.weight.sum())
    if clustered := _gaps_of_clusters(first, second):
        products = clustered[0] @ clustered[1].T
    mixed = np.outer(mine.gaps, theirs.crossed) + np.outer(mine.crossed, theirs.gaps)
    return products / weight**2 - mixed + mine.squares * np.outer(mine.gaps, theirs.gaps)


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
        first, second = self._draw_eces([gaps.scaled for gaps in self._both])
        return float(np.std(second - first))

    @cached_property
    def p_value(self) -> float:
        """The probability of a difference at least this large, of either sign, if there is none."""
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
        """Lower and upper limits at given numbers of standard errors."""
        first, second = (gaps.limits(reach) for gaps in self._both)
        mine, theirs = self.first.corrected, self.second.corrected
        below = self._combine(theirs - second[0], first[1] - mine)
        above = self._combine(mine - first[0], second[1] - theirs)
        return theirs - mine - below, theirs - mine + above

    def _combine(self, a: HostArray, b: HostArray) -> HostArray:
        return np.sqrt(np.maximum(a**2 + b**2 - 2 * self._correlation * a * b, 0))

    @cached_property
    def _correlation(self) -> float:
        possible = [gaps.scaled * (not gaps.is_explained_by_calibration(_REACH)) for gaps in self._both]
        guesses = ([gaps.scaled for gaps in self._both], [gaps.clear for gaps in self._both], possible)
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
        return drawn @ (axes * np.sqrt(np.maximum(sizes, 0))).T

    def _draw_eces(self, gaps: Sequence[HostArray]) -> tuple[HostArray, HostArray]:
        """Measured ECEs of both, drawn together, if these are the true gaps."""
        first, second = np.split(self._noise, [len(self.first.gaps)], axis=1)
        return np.abs(gaps[0] + first).sum(axis=1), np.abs(gaps[1] + second).sum(axis=1)


def _correlation_of(first: HostArray, second: HostArray) -> float:
    first, second = first - first.mean(), second - second.mean()
    scale = sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / scale if scale > 0 else 0.0
