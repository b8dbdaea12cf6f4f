"""The most confident errors: wrong answers of the highest confidence."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._rows.rows import Rows
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import HostArray


@dataclass(frozen=True)
class Mistakes:
    """The worst mistakes of some rows, the most confident first; those of the rows that follow add.

    Attributes
    ----------
    n_rows : int
        How many rows were looked at, all of positive weight.
    places : integer array of shape (3, mistakes)
        The number of each mistake among these rows, the column that was predicted, and that of the true class.
    numbers : array of shape (4, mistakes)
        One minus the confidence with all its digits, the confidence, the probability of the true class, and the confidence
        after calibration.
    most : int
        How many are kept.
    """

    n_rows: int
    places: HostArray
    numbers: HostArray
    most: int

    def __add__(self, other: "Mistakes") -> "Mistakes":
        shift = np.array([[self.n_rows], [0], [0]])
        places = np.concatenate([self.places, other.places + shift], axis=1)
        numbers = np.concatenate([self.numbers, other.numbers], axis=1)
        return Mistakes(self.n_rows + other.n_rows, places, numbers, self.most).worst()

    def worst(self) -> "Mistakes":
        """The most confident mistakes, as many as are kept; of equal ones the first."""
        order = np.lexsort((self.places[0], self.numbers[0]))[: self.most]
        return Mistakes(self.n_rows, self.places[:, order], self.numbers[:, order], self.most)


def mistakes_of(before: Predictions, after: Predictions, most: int) -> Mistakes:
    """The most confident mistakes of a batch, with their confidence after calibration beside them."""
    batch = before.batch
    true = batch.xp.exp(before.label_drops) * before.top_probability
    numbers = arrays.on_host(batch.xp.stack([before.doubt, before.top_probability, true, after.top_probability]))
    (wrong,) = np.nonzero(~arrays.on_host(before.right))
    places = [wrong, *(arrays.on_host(each)[wrong] for each in (before.top_class, batch.labels))]
    return Mistakes(batch.n_rows, np.stack(places), numbers[:, wrong], most).worst()


def rows_with_zeros(found: Mistakes, data: Rows) -> Mistakes:
    """The mistakes with the numbers of their rows among all rows of ``data``.

    Rows of weight zero are counted too where the weights are known, and are not where the data come in batches.
    """
    weights: Any = getattr(data, "weights", None)
    if isinstance(weights, np.ndarray) and not weights.all():
        found.places[0] = np.flatnonzero(weights)[found.places[0]]
    return found
