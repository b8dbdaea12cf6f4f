"""Which classes are taken for which others: the pairs of true and predicted class that most errors belong to."""

from dataclasses import dataclass

import numpy as np

from nishimori._kernels.row_sums import row_sums
from nishimori._rows.batch import Batch
from nishimori._sums.gibbs import Gibbs
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


@dataclass(frozen=True)
class CountConfusions:
    """The pass that counts the errors of each pair of classes."""

    n_classes: int

    def __call__(self, batch: Batch) -> Confusions:
        known = row_sums(batch, (1.0,), 0)
        (wrong,) = np.nonzero(~arrays.on_host(known.right))
        predicted, labels = (arrays.on_host(each)[wrong].astype(np.int64) for each in (known.top, batch.labels))
        confidence = arrays.on_host(Gibbs(batch, 1.0, known).top)[wrong]
        weights = arrays.on_host(batch.weights)[wrong]
        sums = np.stack([np.ones_like(weights), weights, weights * confidence])
        return sum_by_pair(labels * self.n_classes + predicted, sums)


def sum_by_pair(pairs: HostArray, sums: HostArray) -> Confusions:
    """The sums of each pair, of which each may be there several times."""
    different, places = np.unique(pairs, return_inverse=True)
    totals = [np.bincount(places, each, len(different)) for each in sums]
    return Confusions(different, np.stack(totals))
