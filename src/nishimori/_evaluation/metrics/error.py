"""The share of wrong answers, and that of right ones."""

from nishimori._evaluation.metrics.metric import Metric
from nishimori._sums.observables import Confidence
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import Array


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
