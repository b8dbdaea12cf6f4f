"""Accuracy and mean confidence: the shares of right and of wrong answers, the mean confidence, and the gap between the two."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nishimori._evaluation.limits import limits_of_gap
from nishimori._evaluation.metrics.metric import Estimate, Limits, Metric, StandardError
from nishimori._rows.rows import Rows
from nishimori._sums.observables import Confidence, TopN
from nishimori._sums.predictions import Predictions
from nishimori._sums.reliability import BinSums
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


class GapOfBins:
    """What gaps have in common that are made of sums per bin, whatever is claimed."""

    def of_sums(self, sums: BinSums) -> tuple[float, StandardError]:
        """The sum of all gaps. Its error is what the samples show, but not less than what a calibrated model would have."""
        return float(sums.gaps.gaps.sum()), sums.gaps.total_se

    def for_gate(self, estimate: Estimate) -> float:
        """The size of the gap, on which a bound is one."""
        return abs(estimate.value)


class OverallGap(GapOfBins, Metric):
    """Mean confidence minus accuracy: positive where a model is overconfident.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.gap([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    0.3808
    """

    name = "gap"
    bounds = (-1.0, 1.0)
    bound_range = (0.0, 1.0)  # of its size
    in_percent = by_default = True
    of_bins = "top"
    in_tables = False
    needs = "top"
    order = 4

    def sums(self, predictions: Predictions) -> BinSums:
        """Sums per bin."""
        return predictions.top_claims.sums

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """The limits of its size, and its sign in words."""
        return Limits(*limits_of_size(card, level), direction(estimate.value))


def limits_of_size(card: "Scorecard", level: float) -> tuple[float, float]:
    """The limits of abs(confidence - accuracy) of all samples."""
    gap = card["gap"]
    assert gap.se is not None, "whose absence has a reason"
    return limits_of_gap(card.confidence, card.accuracy, gap.se, gap.squares, level)


def direction(gap: float) -> str:
    """On which side of the accuracy the confidence is, in words."""
    return "confidence is above accuracy" if gap > 0 else "confidence is below accuracy" if gap < 0 else ""
