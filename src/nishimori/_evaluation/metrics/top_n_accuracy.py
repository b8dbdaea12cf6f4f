"""The share of samples whose true class is among the N most probable."""

from dataclasses import dataclass

from nishimori._evaluation.metrics.metric import Metric
from nishimori._rows.rows import Rows
from nishimori._sums.observables import TopN
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import Array
from nishimori._support.numbers import whole


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
