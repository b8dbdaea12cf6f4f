"""The Brier score."""

from typing import TYPE_CHECKING

from nishimori._evaluation.metrics.confidence import NOT_SQUARED
from nishimori._evaluation.metrics.metric import Estimate, Metric
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import Array

if TYPE_CHECKING:
    from nishimori._sums.census import Census
    from nishimori._sums.sketch.answers import NodeScores


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
        return predictions.gibbs.brier

    def of_sketch(self, answer: "NodeScores", census: "Census") -> Estimate:  # noqa: ARG002 - others need both
        """The mean."""
        return Estimate(self, answer.brier, None, NOT_SQUARED)
