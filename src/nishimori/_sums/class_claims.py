"""The probability of each class in each row, and whether that class is the true one: what curves per class are fitted to.

For two classes there is one claim per row, that of the second class. Otherwise there is one per row and class.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._sums.outcomes import Levels, levels_of
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.maps.class_curves import class_probabilities

# This many claims are in memory at once, 256 MB in float64. If there are more, some classes are read after the others.
_MOST_CLAIMS = 2**25

# What 1 + x forgets in float64.
_UNSEEN = 2.0**-53


@dataclass(frozen=True)
class ClassWeights:
    """The number of rows, and the sums of their weights and squared weights, per true class. Those of other rows add.

    ``n_saturated`` rows have logits so far apart that the largest probability rounds to 1.
    """

    n_rows: int
    weights: HostArray
    squares: HostArray
    n_saturated: int

    def __add__(self, other: "ClassWeights") -> "ClassWeights":
        return ClassWeights(
            self.n_rows + other.n_rows,
            self.weights + other.weights,
            self.squares + other.squares,
            self.n_saturated + other.n_saturated,
        )

    def one_sample(self, *, counts: bool) -> float:
        """The weight that stands for one sample: 1 where weights are counts, and else that of equal weights."""
        return 1.0 if counts else float(self.squares.sum() / self.weights.sum())

    def number(self, *, counts: bool) -> float:
        """How many samples the rows stand for: the sum of weights that are counts, else (Σw)²/Σw²."""
        return float(self.weights.sum()) / self.one_sample(counts=counts)

    def numbers(self, *, counts: bool) -> HostArray:
        """The same for the rows of each class; 0 where there are none."""
        if counts:
            return self.weights
        found: HostArray = np.divide(self.weights**2, self.squares, out=np.zeros_like(self.weights), where=self.squares > 0)
        return found


def sum_by_class(batch: Batch) -> ClassWeights:
    """The pass that sums weights per class."""
    labels, weights = arrays.on_host(batch.labels), arrays.on_host(batch.weights)
    sums, squares = (np.bincount(labels, each, batch.n_classes) for each in (weights, weights**2))
    # A probability of 1 that was passed as such has lost nothing.
    n_saturated = int((arrays.on_host(Predictions(batch, 1.0).rest) < _UNSEEN).sum()) if batch.given is None else 0
    return ClassWeights(batch.n_rows, sums, squares, n_saturated)


def curve_columns(n_classes: int) -> range:
    """The classes that have a curve of their own."""
    return range(1, 2) if n_classes == 2 else range(n_classes)


@dataclass(frozen=True, eq=False)
class ClassClaims:
    """Claims of the classes ``columns``, block by block, NaN where a class is masked. Those of other rows add.

    Claims that differ by less than ``rounding``, relative to their size, count as equal.
    """

    columns: range
    claimed: tuple[HostArray, ...]
    labels: tuple[HostArray, ...]
    weights: tuple[HostArray, ...]
    rounding: float

    def __add__(self, other: "ClassClaims") -> "ClassClaims":
        return ClassClaims(
            self.columns,
            self.claimed + other.claimed,
            self.labels + other.labels,
            self.weights + other.weights,
            max(self.rounding, other.rounding),
        )

    def in_order(self) -> Iterator[tuple[HostArray, HostArray, HostArray]]:
        """For each class, the claims in increasing order, whether each came true, and the weights. Masked ones are left out."""
        return (self._sorted_claims(place) for place in range(len(self.columns)))

    def levels(self) -> Iterator[Levels]:
        """For each class, sums over equal claims."""
        return (self._levels(place) for place in range(len(self.columns)))

    def _sorted_claims(self, place: int) -> tuple[HostArray, HostArray, HostArray]:
        values = np.concatenate([each[:, place] for each in self.claimed])
        order = np.argsort(values)[: len(values) - np.isnan(values).sum()]  # NaN comes last
        true = np.concatenate([each == self.columns[place] for each in self.labels])
        return values[order], true[order], np.concatenate(self.weights)[order]

    def _levels(self, place: int) -> Levels:
        claimed, true, weights = self._sorted_claims(place)
        return levels_of(claimed, true, weights, self.rounding) if len(claimed) else Levels(claimed, weights, weights)


@dataclass(frozen=True)
class KeepClaims:
    """The pass that keeps the claims of some classes."""

    columns: range

    def __call__(self, batch: Batch) -> ClassClaims:
        claimed, masked = class_probabilities(batch.double)
        kept = slice(self.columns.start, self.columns.stop)
        held = np.where(masked[:, kept], np.nan, claimed[:, kept])
        labels = arrays.on_host(batch.labels)
        return ClassClaims(self.columns, (held,), (labels,), (arrays.on_host(batch.weights),), batch.rounding)


def claims_by_class(data: Rows, n_rows: int) -> Iterator[ClassClaims]:
    """The claims of all rows, from one pass for each group of classes that are in memory at once."""
    columns = curve_columns(data.n_classes)
    step = max(1, _MOST_CLAIMS // n_rows)
    for first in range(columns.start, columns.stop, step):
        yield data.gather(KeepClaims(range(first, min(first + step, columns.stop))))
