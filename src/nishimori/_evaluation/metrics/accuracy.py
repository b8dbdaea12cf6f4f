"""Accuracy and mean confidence: the shares of right and of wrong answers, the mean confidence, and the gap between the two.

Confidence can equal accuracy while the probability of the second of two classes is far off: where that class is rare, a model
that gives it too much is not right less often than it says. So every scorecard of two classes has the gap of that class too.
"""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nishimori._evaluation.limits import limits_of_gaps
from nishimori._evaluation.metrics.metric import Difference, Estimate, Limits, Metric, StandardError
from nishimori._rows.rows import Rows
from nishimori._sums.observables import Confidence, TopN
from nishimori._sums.outcomes import OneClaim
from nishimori._sums.predictions import Predictions
from nishimori._sums.reliability import BinnedClaims, BinSums
from nishimori._sums.spread import ClusterSpread, Spread, spread
from nishimori._support.arrays import Array
from nishimori._support.numbers import whole

if TYPE_CHECKING:
    from nishimori._evaluation.scorecard import Scorecard


class WrongAnswers(Metric):
    """Share of samples whose largest logit is not at the true class: one minus `accuracy`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> metrics.error([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0], [3.0, 0.0]], [0, 0, 0, 0])
    0.25
    """

    name = "error"
    bounds = (0.0, 1.0)
    in_percent = is_share = of_predictions = by_default = True
    needs = "top"
    score = "wrong"
    order = 1

    def of_rows(self, predictions: Predictions) -> Array:
        """One where the answer is wrong."""
        return -Confidence().observed(predictions)

    def of_mean(self, mean: float) -> float:
        """The share, which sums of weights exceed by their rounding."""
        return min(mean, 1.0)


class Accuracy(WrongAnswers):
    """Share of samples whose largest logit is at the true class; of equal largest logits the first counts.

    No temperature changes it; the keyword is there so that all metrics take the same arguments.

    Examples
    --------
    >>> from nishimori import metrics
    >>> metrics.accuracy([[2.0, 0.0], [0.0, 2.0]], [0, 0])
    0.5
    """

    name = "accuracy"
    direction = "higher"
    in_tables = False
    order = 2

    def of_mean(self, mean: float) -> float:
        """One minus the share of wrong answers."""
        return 1 - min(mean, 1.0)


@dataclass(frozen=True)
class TopNAccuracy(Metric):
    """Share of samples whose true class is among the ``top_n`` largest logits; of equal logits the first come first.

    Parameters
    ----------
    top_n : int
        How many of the largest logits count.

    Examples
    --------
    >>> from nishimori import metrics
    >>> metrics.top_n_accuracy([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], [1, 2], top_n=2)
    0.5
    """

    name = "top_n_accuracy"
    title = "top-N accuracy"
    direction = "higher"
    bounds = (0.0, 1.0)
    in_percent = is_share = True

    top_n: int = 5

    def check(self, data: Rows) -> None:
        """Refuse more classes than there are."""
        whole("top_n", self.top_n, 1, data.n_classes, which_is="the number of classes")

    def of_rows(self, predictions: Predictions) -> Array:
        """One where the true class is not among them: what is rare is summed with all its digits."""
        return -TopN(self.top_n).observed(predictions)

    def of_mean(self, mean: float) -> float:
        """One minus the share of samples that miss it."""
        return max(1 - mean, 0.0)


class MeanConfidence(Metric):
    """Mean probability of the predicted class. Expectation consistency makes it equal `accuracy`.

    The labels are checked but do not enter.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.confidence([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    0.8808
    """

    name = "confidence"
    direction = None
    bounds = (0.0, 1.0)
    in_percent = by_default = True
    needs = "top"
    score = "confidence"
    order = 3

    def of_rows(self, predictions: Predictions) -> Array:
        """The probability of each predicted class."""
        return predictions.top_probability

    def of_mean(self, mean: float) -> float:
        """The mean, which sums of weights exceed by their rounding."""
        return min(mean, 1.0)


class OfBins:
    """What metrics have in common that are made of the sums per bin that every scorecard has."""

    of_bins: ClassVar[OneClaim | None]

    def claims(self, predictions: Predictions) -> BinnedClaims:
        """What is claimed of each row, in bins."""
        return predictions.positive_claims if self.of_bins == "positive" else predictions.top_claims

    def sums(self, predictions: Predictions) -> BinSums:
        """Sums per bin."""
        return self.claims(predictions).sums


class GapOfBins(OfBins):
    """What gaps have in common that are made of sums per bin, whatever is claimed."""

    bounds: ClassVar = (-1.0, 1.0)
    bound_range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)  # of its size
    in_percent: ClassVar = True
    by_default: ClassVar = True
    sides: ClassVar[tuple[str, str]] = ("confidence", "accuracy")  # what the gap is between

    def of_sums(self, sums: BinSums) -> tuple[float, StandardError]:
        """The sum of all gaps. Its error is what the samples show, but not less than what a calibrated model would have."""
        return float(sums.gaps.gaps.sum()), sums.gaps.total_se

    def for_gate(self, estimate: Estimate) -> float:
        """The size of the gap, on which a bound is one."""
        return abs(estimate.value)

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """The limits of its size, and its sign in words."""
        return Limits(*limits_of_size(estimate, card, level), direction(estimate.value, *self.sides))


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

    def pair(self, first: Predictions, second: Predictions) -> Spread | ClusterSpread:
        """How the differences of the probabilities of both calibrations vary from sample to sample."""
        return spread(first.batch, [self.claims(second).misses - self.claims(first).misses], counts=first.counts)

    def difference(self, first: BinSums, second: BinSums, pair: Spread | ClusterSpread, *, alone: bool) -> Difference:
        """The difference of two means over the same samples."""
        value = self.of_sums(second)[0] - self.of_sums(first)[0]
        variance = float(pair.around(np.array([value]))[0])
        return Difference.normal(value, np.nan if alone else sqrt(variance) / float(first.bins.weight.sum()), 1.0)


def limits_of_size(gap: Estimate, card: "Scorecard", level: float) -> tuple[float, float]:
    """The limits of the size of a gap of all samples, |claimed - true|."""
    assert gap.se is not None, "whose absence has a reason"
    claimed, true = card.confidence, true_share(gap, card)
    if gap.metric.of_bins == "positive":
        claimed = true + gap.value
    low, high = limits_of_gaps(np.array([[claimed], [true], [gap.se], [1 / gap.squares]]), level, level)
    return float(low[0]), float(high[0])


def true_share(estimate: Estimate, card: "Scorecard") -> float:
    """The share of the claims that came true, of a metric that is made of bins."""
    assert estimate.gaps is not None, "which is made of bins"
    share: float = estimate.gaps.true_share if estimate.metric.of_bins == "positive" else card.accuracy
    return share


def direction(gap: float, claimed: str = "confidence", true: str = "accuracy") -> str:
    """On which side of what is true the claims are, in words; empty if they are equal."""
    return f"{claimed} is {'above' if gap > 0 else 'below'} {true}" if gap else ""
