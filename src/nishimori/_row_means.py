"""What the model expects in each of a few rows, to compare two ways of computing it.

The errors of float32 in different rows are independent, and average out, unless the rows, or the differences between their
logits, are the same numbers again and again. A comparison row by row tells both: how far the means are apart, and how far they
may be apart by chance.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from nishimori import _array
from nishimori._array import HostArray
from nishimori._inputs import Batch
from nishimori._observables import Confidence, Observable


@dataclass(frozen=True)
class RowMeans:
    """Means of some observables in each row, (observables, n), and the weights of the rows. Those of other rows add."""

    values: HostArray
    weights: HostArray

    def __add__(self, other: "RowMeans") -> "RowMeans":
        values = np.concatenate([self.values, other.values], axis=1)
        return RowMeans(values, np.concatenate([self.weights, other.weights]))

    def distance(self, other: "RowMeans", position: int, *, is_part: bool) -> float:
        """How far the means over all rows may be apart: over these rows and, if they are a part, two standard errors more."""
        errors = self.weights * (self.values[position] - other.values[position])
        by_chance = 2 * sqrt(errors @ errors) if is_part else 0.0
        return (abs(float(errors.sum())) + by_chance) / float(self.weights.sum())


@dataclass(frozen=True)
class MeasureRows:
    """The pass; ``wanted`` are confidence and energy, each at a β."""

    wanted: tuple[tuple[Observable, float], ...]
    exact: bool

    def __call__(self, batch: Batch) -> RowMeans:
        # One power more than needed: float32 rounds β, and kernels use the next power to correct that.
        powers = batch.power_sums([beta for _, beta in self.wanted], 2, exact=self.exact)
        values = [
            (1.0 if isinstance(observable, Confidence) else powers[i, 1, :]) / (1 + powers[i, 0, :])
            for i, (observable, _) in enumerate(self.wanted)
        ]
        return RowMeans(np.stack([_array.on_host(each) for each in values]), _array.on_host(batch.weights))
