"""How many rows have logits that differ by rounding only: such rows say nothing about a temperature.

A model that gives every class the same score may compute these scores in different ways, and their last digits differ. At a
temperature of the size of these digits they would decide the probabilities.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._support import arrays

# Scores that are computed in float64 differ by some tens of units in the last place; those of a network in float32 by a few. An
# offset of 1e6, which float32 holds to 0.06, is thus no rounding for logits that differ by more than half.
_UNITS_OF_DOUBLE, _UNITS = 64, 4
_DOUBLE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Evenness:
    """The weight of rows whose logits are equal up to rounding, that of all rows, and the largest such rounding."""

    even: float
    weight: float
    rounding: float

    def __add__(self, other: "Evenness") -> "Evenness":
        return Evenness(self.even + other.even, self.weight + other.weight, max(self.rounding, other.rounding))

    def decides(self, temperature: float) -> bool:
        """Whether the rounding of most rows decides their probabilities at a temperature."""
        return 2 * self.even >= self.weight and temperature <= self.rounding


@dataclass(frozen=True)
class MeasureEvenness:
    """The pass that compares the range of each row with the rounding of its largest logit."""

    def __call__(self, batch: Batch) -> Evenness:
        xp, logits = batch.xp, batch.logits
        live = xp.ones_like(logits, dtype=xp.bool) if batch.live is None else batch.live
        least = xp.min(xp.where(live, logits, xp.full_like(logits, inf)), axis=1)
        size = xp.max(xp.where(live, xp.abs(logits), xp.zeros_like(logits)), axis=1)
        unit = max(_UNITS * arrays.epsilon(logits), _UNITS_OF_DOUBLE * _DOUBLE)
        if batch.given is None:
            rounding = unit * arrays.in_double(size)
        else:  # the logarithm of a probability has its relative error
            rounding = xp.full_like(arrays.in_double(size), max(unit, _UNITS * batch.stored_rounding))
        even = arrays.in_double(batch.peak - least) <= rounding
        largest = float(xp.max(xp.where(even, rounding, xp.zeros_like(rounding))))
        return Evenness(batch.total(xp.astype(even, batch.weights.dtype)), batch.weight, largest)
