"""The share of wrong answers, and that of right ones."""

from typing import TYPE_CHECKING

from nishimori._evaluation.metrics.metric import Estimate, Metric
from nishimori._sums.observables import Confidence
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import Array

if TYPE_CHECKING:
    from nishimori._sums.census import Census
    from nishimori._sums.sketch.answers import NodeScores


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
        return -Confidence().observed(predictions.gibbs)

    def of_mean(self, mean: float) -> float:
        """The share, which sums of weights exceed by their rounding."""
        return min(mean, 1.0)

    def of_sketch(self, answer: "NodeScores", census: "Census") -> Estimate:
        """The share; its standard error is not known where a sketch has clusters."""
        error = census.wrong / census.weight
        squares = (census.wrong_squares + census.right_squares) / census.weight**2
        if answer.has_clusters:
            why = "a sketch does not keep it per cluster. Pass logits and labels."
            return Estimate(self, self.of_mean(error), None, why, squares)
        variance = ((1 - error) ** 2 * census.wrong_squares + error**2 * census.right_squares) / census.weight**2
        return Estimate(self, self.of_mean(error), variance**0.5, squares=squares)


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
