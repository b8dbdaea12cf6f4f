"""Which classes are taken for which others: the pairs of true and predicted class that most errors belong to."""

from dataclasses import dataclass

import numpy as np

from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import HostArray


@dataclass(frozen=True)
class Confusions:
    """Errors by true and predicted class; those of further rows add.

    Attributes
    ----------
    pairs : integer array
        Number of the true class × number of classes + number of the predicted class, each pair once, in order.
    sums : array of shape (3, pairs)
        Rows, their weight, and their confidence times weight.
    """

    pairs: HostArray
    sums: HostArray

    def __add__(self, other: "Confusions") -> "Confusions":
        pairs, sums = np.concatenate([self.pairs, other.pairs]), np.concatenate([self.sums, other.sums], axis=1)
        return sum_by_pair(pairs, sums)


def confusions_of(before: Predictions, n_classes: int) -> Confusions:
    """The errors of a batch by pairs of classes."""
    batch = before.batch
    (wrong,) = np.nonzero(~arrays.on_host(before.right))
    predicted, labels = (arrays.on_host(each)[wrong].astype(np.int64) for each in (before.top_class, batch.labels))
    confidence = arrays.on_host(before.top_probability)[wrong]
    weights = arrays.on_host(batch.weights)[wrong]
    sums = np.stack([np.ones_like(weights), weights, weights * confidence])
    return sum_by_pair(labels * n_classes + predicted, sums)


def sum_by_pair(pairs: HostArray, sums: HostArray) -> Confusions:
    """The sums of each pair, of which each may be there several times."""
    different, places = np.unique(pairs, return_inverse=True)
    totals = [np.bincount(places, each, len(different)) for each in sums]
    return Confusions(different, np.stack(totals))
