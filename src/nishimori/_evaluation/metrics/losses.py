"""Mean losses of the probabilities: the negative log-likelihood and the Brier score."""

from functools import partial
from math import inf
from typing import TYPE_CHECKING

from nishimori._evaluation.metrics.metric import Estimate, Limits, Metric
from nishimori._rows.rows import Rows
from nishimori._sums.census import count_zeros, warn_of_zeros
from nishimori._sums.passes import together
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import Array
from nishimori._support.intervals import Interval, interval_in_ratio

if TYPE_CHECKING:
    from nishimori._evaluation.scorecard import Scorecard


class Nll(Metric):
    """Mean negative log-likelihood of the true class, the cross-entropy; infinite if a true class is masked.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.nll([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    1.1269
    """

    name = "nll"
    title = "NLL"
    by_default = True
    needs = "label"
    score = "nll"
    order = 6
    why_infinite = "the loss is infinite or too large: a true class is masked or has probability 0, or T is close to 0."

    def of_rows(self, predictions: Predictions) -> Array:
        """The loss of each row."""
        return predictions.losses

    def measure(self, data: Rows, beta: float) -> float:
        """The mean loss; zeros at true classes decide it, and are said."""
        mean, zeros = data.gather(together(partial(self.gather, beta), count_zeros)).items
        warn_of_zeros(int(zeros.total), int(zeros.weight), "the loss")
        return float(mean.value)

    def interval(self, estimate: Estimate, level: float) -> Interval:
        """Few large losses skew its error: in ratio, intervals of 200 samples cover 93 to 95 % instead of 90 to 94 %."""
        value, error = estimate.value, estimate.se
        assert error is not None, "whose absence has a reason"
        return interval_in_ratio(value, error, level) if value > 0 else super().interval(estimate, level)

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """Infinite where a true class is masked, for which infinitely many samples cannot make up."""
        if estimate.value == inf:
            return Limits(inf, inf, "a true class has probability 0")
        return super().limits(estimate, card, level)


class Brier(Metric):
    """Mean squared distance between probabilities and truth, summed over classes: from 0 to 2.

    For two classes this is twice the Brier score of the positive class alone.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.brier([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    0.79
    """

    name = "brier"
    title = "Brier score"
    bounds = (0.0, 2.0)
    by_default = True
    score = "brier"
    order = 7

    def of_rows(self, predictions: Predictions) -> Array:
        """The squared distance of each row."""
        return predictions.brier
