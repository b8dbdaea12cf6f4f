"""Whether the probabilities of a model vary from sample to sample: a model that always says the same cannot be judged.

A constant answer can be calibrated by chance or by construction, as the share of the most frequent class is, and its ECE is
one gap of one bin. So no bound on it says anything about a model.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._sums.predictions import apply_map
from nishimori._support.arrays import HostArray
from nishimori.maps.class_curves import class_probabilities
from nishimori.maps.map import Map

# What float32 logits of one row and another differ by where a network gives the same answer to both.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class OutputRange:
    """The least and the largest probability of each class; those of further rows add."""

    low: HostArray
    high: HostArray

    def __add__(self, other: "OutputRange") -> "OutputRange":
        return OutputRange(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def is_one_point(self) -> bool:
        """Whether all rows have the same probabilities, up to rounding."""
        return bool((self.high - self.low <= _ROUNDING * self.high).all())


@dataclass(frozen=True)
class FindRange:
    """The pass that finds the least and the largest probability of each class after a map."""

    map_: Map

    def __call__(self, batch: Batch) -> OutputRange:
        mapped, beta = apply_map(self.map_, batch)
        found, _ = class_probabilities(beta * mapped.double)
        return OutputRange(found.min(axis=0), found.max(axis=0))


def is_constant(data: Any, map_: Map, confidence: float, confidence_se: float | None) -> bool:
    """Whether the model gives all rows the same probabilities.

    Rows are read only where the confidence hardly varies: its standard error is at most its standard deviation.
    """
    if confidence_se is None or confidence_se > _ROUNDING * confidence:
        return False
    return bool(data.gather(FindRange(map_)).is_one_point)
