"""Metrics that average a number per row: shares of right answers, mean confidence, and losses."""

from dataclasses import dataclass
from functools import partial

from nishimori._evaluation.metrics.metric import Estimate, Metric
from nishimori._rows.rows import Rows
from nishimori._sums.census import count_zeros, warn_of_zeros
from nishimori._sums.observables import Confidence, TopN
from nishimori._sums.passes import together
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import Array
from nishimori._support.intervals import Interval, interval_in_ratio
from nishimori._support.numbers import whole


class WrongAnswers(Metric):
    """Share of wrong predictions (the largest logit is not at the true class): one minus `accuracy`.

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
    is_complement = True
    in_tables = False
    order = 2


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
    in_percent = is_share = is_complement = True

    top_n: int = 5

    def check(self, data: Rows) -> None:
        """Refuse more classes than there are."""
        whole("top_n", self.top_n, 1, data.n_classes, which_is="the number of classes")

    def of_rows(self, predictions: Predictions) -> Array:
        """One where the true class is not among them: the rarer case is summed, which keeps all digits."""
        return -TopN(self.top_n).observed(predictions)


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
        """The mean loss; mentions zeros at true classes, because they decide it."""
        mean, zeros = data.gather(together(partial(self.gather, beta), count_zeros)).items
        warn_of_zeros(int(zeros.total), int(zeros.weight), "the loss")
        return float(mean.value)

    def interval(self, estimate: Estimate, level: float) -> Interval:
        """Few large losses skew its error: on a log scale, intervals of 200 samples cover 93 to 95 % instead of 90 to 94 %."""
        value, error = estimate.value, estimate.se
        assert error is not None, "whose absence has a reason"
        return interval_in_ratio(value, error, level) if value > 0 else super().interval(estimate, level)


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
