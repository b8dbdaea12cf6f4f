"""The Brier score."""

from nishimori._evaluation.metrics.metric import Metric
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import Array


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
