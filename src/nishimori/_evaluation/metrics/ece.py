"""The expected calibration error."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nishimori._evaluation.ece_difference import EceDifference
from nishimori._evaluation.limits import limits_of_ece
from nishimori._evaluation.metrics.confidence import gaps_of_sketch, limits_of_size
from nishimori._evaluation.metrics.metric import Difference, Estimate, Limits, Metric, StandardError
from nishimori._rows.rows import Rows
from nishimori._sums.predictions import BinSums, ClusterGapSpread, GapSpread, Predictions
from nishimori._sums.reliability import Norm, Of, Reliability, Strategy, reliability_of
from nishimori._sums.spread import unit_weights
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval

if TYPE_CHECKING:
    from nishimori._evaluation.scorecard import Scorecard
    from nishimori._sums.census import Census
    from nishimori._sums.sketch.answers import NodeScores


@dataclass(frozen=True)
class Ece(Metric):
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
    bounds = (0.0, 1.0)
    in_percent = by_default = True
    of_bins = "top"
    needs = "top"
    order = 5

    n_bins: int = 15
    strategy: Strategy = "uniform"
    norm: Norm = "l1"
    of: Of = "top"

    def measure(self, data: Rows, beta: float) -> float:
        """The calibration error in bins of its own."""
        return reliability_of(data, beta=beta, n_bins=self.n_bins, strategy=self.strategy, of=self.of).error(self.norm)

    def sums(self, predictions: Predictions) -> BinSums:
        """Sums per bin."""
        return predictions.binned

    def of_sums(self, sums: BinSums) -> tuple[float, StandardError]:
        """The mean of abs(gap) over bins, for bins with fixed edges."""
        return sums.curve.error(), partial(getattr, sums.gaps, "se")  # which takes a search

    def interval(self, estimate: Estimate, level: float) -> Interval:
        """The interval for bins with fixed edges; its lower limit is 0 unless the ECE exceeds what a calibrated model has."""
        assert estimate.gaps is not None, "whose absence has a reason"
        return estimate.gaps.interval(level)

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """The limits of the ECE, which know what hardly any wrong answers leave open."""
        assert estimate.gaps is not None, "whose absence has a reason"
        ends = limits_of_ece(estimate.gaps, limits_of_size(card, level), card.accuracy, level)
        return Limits(*ends, f"{100 * estimate.value:.2f} % as measured")

    def of_sketch(self, answer: "NodeScores", census: "Census") -> Estimate:  # noqa: ARG002 - others need both
        """The ECE between the temperatures that the sketch keeps."""
        gaps = gaps_of_sketch(answer)
        error = partial(getattr, gaps, "se")
        return Estimate(self, Reliability.from_bins(answer.bins).error(), error, squares=gaps.squares, gaps=gaps)

    def for_gate(self, estimate: Estimate) -> float:
        """The bias-corrected ECE."""
        assert estimate.gaps is not None, "whose absence has a reason"
        return estimate.gaps.corrected

    def pair(self, first: Predictions, second: Predictions) -> "PairedGaps":
        """Products of the gaps of both calibrations, per pair of bins."""
        batch = first.batch
        if batch.clusters is not None:
            return PairedGaps(None)  # the gaps of each cluster, which are kept for both, tell
        n_bins = first.edges.shape[1] - 1
        places = first.claims.places[:, 0] * n_bins + second.claims.places[:, 0]
        products = unit_weights(batch, counts=first.counts) * first.misses * second.misses
        return PairedGaps(np.bincount(places, products, n_bins**2).reshape(n_bins, n_bins))

    def difference(self, first: BinSums, second: BinSums, pair: "PairedGaps", *, alone: bool) -> Difference:
        """The difference, whose limits are not symmetric."""
        found = EceDifference(first.gaps, second.gaps, pair.covariance(first, second))
        if alone:
            return Difference(found.value, None, None)
        if np.array_equal(first.gaps.gaps, second.gaps.gaps) and pair.is_of_equals(first, second):  # the maps do the same
            return Difference(0.0, 0.0, 1.0)
        return Difference(found.value, found.se, found.p_value, found)


@dataclass(frozen=True)
class PairedGaps:
    """Sums of products of the gaps of two calibrations per pair of bins; None where clusters tell."""

    products: HostArray | None

    def __add__(self, other: "PairedGaps") -> "PairedGaps":
        return PairedGaps(None if self.products is None or other.products is None else self.products + other.products)

    def is_of_equals(self, first: BinSums, second: BinSums) -> bool:
        """Whether both calibrations gave each row the same confidence, as far as the sums tell."""
        if isinstance(first.spread, ClusterGapSpread) and isinstance(second.spread, ClusterGapSpread):
            return np.array_equal(first.spread.gaps.values, second.spread.gaps.values)
        assert self.products is not None, "which rows without clusters have"
        own = [np.diag(each.spread.products) for each in (first, second) if isinstance(each.spread, GapSpread)]
        return all(np.array_equal(each, self.products) for each in own)

    def covariance(self, first: BinSums, second: BinSums) -> HostArray:
        """The covariance of the gaps of both."""
        mine, theirs, products = first.gaps, second.gaps, self.products
        weight = float(first.bins.weight.sum())
        if products is None:
            assert isinstance(first.spread, ClusterGapSpread), "which rows without clusters do not have"
            assert isinstance(second.spread, ClusterGapSpread), "which rows without clusters do not have"
            products = first.spread.gaps.values @ second.spread.gaps.values.T
        mixed = np.outer(mine.gaps, theirs.crossed) + np.outer(mine.crossed, theirs.gaps)
        found: HostArray = products / weight**2 - mixed + mine.squares * np.outer(mine.gaps, theirs.gaps)
        return found
