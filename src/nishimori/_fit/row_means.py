"""How far two ways of computing what the model expects are apart in a few rows: in float32 and in float64.

The errors of float32 in different rows are independent, and average out, unless the rows, or the differences between their
logits, are the same numbers again and again. A comparison row by row tells both: how far the means are apart, and how far they
may be apart by chance. It is made where the rows are, and only its sums are returned.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from nishimori._fit.expansion import Expand
from nishimori._rows.batch import Batch
from nishimori._sums.observables import Confidence, Observable
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray


@dataclass(frozen=True)
class RowErrors:
    """Sums over some rows: of the errors of each observable, of their squares, and of the weights. Those of other rows add."""

    errors: HostArray
    squares: HostArray
    weight: float

    def __add__(self, other: "RowErrors") -> "RowErrors":
        return RowErrors(self.errors + other.errors, self.squares + other.squares, self.weight + other.weight)

    @classmethod
    def between(cls, values: HostArray, others: HostArray, weights: HostArray) -> "RowErrors":
        """Those between two tables of means, (observables, n)."""
        errors = weights * (values - others)
        return cls(errors.sum(axis=1), (errors**2).sum(axis=1), float(weights.sum()))

    def distance(self, position: int, *, is_part: bool) -> float:
        """How far the means over all rows may be apart: over these rows and, if they are a part, two standard errors more."""
        by_chance = 2 * sqrt(self.squares[position]) if is_part else 0.0
        return (abs(float(self.errors[position])) + by_chance) / self.weight


@dataclass(frozen=True)
class CompareRows:
    """The pass; ``wanted`` are confidence and energy, each at a β. With ``expanded_at``, rows are expanded there first."""

    wanted: tuple[tuple[Observable, float], ...]
    expanded_at: float | None = None

    def __call__(self, batch: Batch) -> RowErrors:
        single, double = (self.means(batch, exact=exact) for exact in (False, True))
        return RowErrors.between(double, single, arrays.on_host(batch.weights))

    def means(self, batch: Batch, *, exact: bool) -> HostArray:
        """The mean of each observable in each row."""
        rows: Any = batch
        if self.expanded_at is not None:
            (rows,), exact = Expand(self.expanded_at, exact)(batch).parts, True
        # One power more than needed: float32 rounds β, and kernels use the next power to correct that.
        powers = rows.power_sums([beta for _, beta in self.wanted], 2, exact=exact)
        values: list[Array] = [
            (1.0 if isinstance(observable, Confidence) else powers[i, 1, :]) / (1 + powers[i, 0, :])
            for i, (observable, _) in enumerate(self.wanted)
        ]
        return np.stack([arrays.on_host(each) for each in values])
