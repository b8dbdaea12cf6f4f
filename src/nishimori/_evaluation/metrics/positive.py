"""Two classes: whether the probability of the second one is right, on average and bin by bin.

Confidence can equal accuracy while the probability of the positive class is far off: where that class is rare, a model that
gives it too much is not right less often than it says. So every scorecard of two classes has both.
"""

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from nishimori._evaluation.limits import limits_of_ece, limits_of_gap
from nishimori._evaluation.metrics.accuracy import GapOfBins
from nishimori._evaluation.metrics.ece import MeanAbsoluteGap, PairedGaps
from nishimori._evaluation.metrics.metric import Difference, Estimate, Limits, Metric
from nishimori._sums.predictions import Predictions
from nishimori._sums.reliability import BinSums
from nishimori._sums.spread import ClusterSpread, Spread, spread

if TYPE_CHECKING:
    from nishimori._evaluation.scorecard import Scorecard


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
    bounds = (-1.0, 1.0)
    bound_range = (0.0, 1.0)  # of its size
    in_percent = by_default = True
    of_bins = "positive"
    n_classes = 2
    order = 8

    def sums(self, predictions: Predictions) -> BinSums:
        """Sums per bin of the probability of the positive class."""
        return predictions.positive_claims.sums

    def pair(self, first: Predictions, second: Predictions) -> Spread | ClusterSpread:
        """How the differences of the probabilities of both calibrations vary from sample to sample."""
        return spread(first.batch, [second.positive_claims.misses - first.positive_claims.misses], counts=first.counts)

    def difference(self, first: BinSums, second: BinSums, pair: Spread | ClusterSpread, *, alone: bool) -> Difference:
        """The difference of two means over the same samples."""
        value = self.of_sums(second)[0] - self.of_sums(first)[0]
        variance = float(pair.around(np.array([value]))[0])
        return Difference.normal(value, np.nan if alone else sqrt(variance) / float(first.bins.weight.sum()), 1.0)

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:  # noqa: ARG002 - others need it
        """The limits of its size, and its sign in words."""
        side = "above" if estimate.value > 0 else "below"
        return Limits(*_limits_of_size(estimate, level), f"mean p(1) is {side} the share of class 1")


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
    bounds = (0.0, 1.0)
    in_percent = by_default = True
    of_bins = "positive"
    n_classes = 2
    order = 9

    def sums(self, predictions: Predictions) -> BinSums:
        """Sums per bin of the probability of the positive class."""
        return predictions.positive_claims.sums

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """The limits of the ECE, which know what hardly any samples of a class leave open."""
        gap = card["positive_gap"]
        assert gap.gaps is not None, "which is made of bins"
        ends = limits_of_ece(gap.gaps, _limits_of_size(gap, level), gap.gaps.true_share, level)
        return Limits(*ends, f"{100 * estimate.value:.2f} % as measured")

    def pair(self, first: Predictions, second: Predictions) -> PairedGaps:
        """Products of the gaps of both calibrations, per pair of bins."""
        return PairedGaps.from_claims(first.positive_claims, second.positive_claims)


def _limits_of_size(gap: Estimate, level: float) -> tuple[float, float]:
    """The limits of abs(mean p(1) - share of class 1) of all samples."""
    assert gap.se is not None, "whose absence has a reason"
    assert gap.gaps is not None, "which is made of bins"
    share = gap.gaps.true_share
    return limits_of_gap(share + gap.value, share, gap.se, gap.squares, level)
