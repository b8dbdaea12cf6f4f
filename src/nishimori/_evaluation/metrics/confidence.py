"""Mean confidence, and how far it is from the accuracy."""

from typing import TYPE_CHECKING

from nishimori._evaluation.limits import limits_of_gap
from nishimori._evaluation.metrics.metric import Estimate, Limits, Metric, StandardError
from nishimori._sums.predictions import Predictions
from nishimori._sums.reliability import BinSums
from nishimori._support.arrays import Array

if TYPE_CHECKING:
    from nishimori._evaluation.scorecard import Scorecard


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


class OverallGap(Metric):
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

    def of_sums(self, sums: BinSums) -> tuple[float, StandardError]:
        """The sum of all gaps. Its error is what the samples show, but not less than what a calibrated model would have."""
        return float(sums.gaps.gaps.sum()), sums.gaps.total_se

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """The limits of its size, and its sign in words."""
        return Limits(*limits_of_size(card, level), direction(estimate.value))

    def for_gate(self, estimate: Estimate) -> float:
        """The size of the gap, on which a bound is one."""
        return abs(estimate.value)


def limits_of_size(card: "Scorecard", level: float) -> tuple[float, float]:
    """The limits of abs(confidence - accuracy) of all samples."""
    gap = card["gap"]
    assert gap.se is not None, "whose absence has a reason"
    return limits_of_gap(card.confidence, card.accuracy, gap.se, gap.squares, level)


def direction(gap: float) -> str:
    """On which side of the accuracy the confidence is, in words."""
    return "confidence is above accuracy" if gap > 0 else "confidence is below accuracy" if gap < 0 else ""
