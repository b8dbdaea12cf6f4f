"""Sums over rows for one inverse temperature and one bias per class, u = βx + b.

x are the logits minus their mean over the classes of each row. The gaps are those of each class (its mean probability minus its
frequency), of the confidence (its mean minus the accuracy), and of x (its mean under the model minus that of the true classes).
Confidence and accuracy are those of the top class of u at some β and b, the anchor: while equations are solved it must not
change, because the accuracy jumps where it does.
"""

from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, row_max, row_sum

# exp(x) is a β, and beyond this its square overflows float64.
_FARTHEST = 340.0


class BiasPoint(NamedTuple):
    """An inverse temperature and a bias per class."""

    beta: float
    biases: tuple[float, ...]

    @classmethod
    def at(cls, x: HostArray) -> "BiasPoint":
        """The point with the unknowns of a search: log β and the biases."""
        return cls(exp(min(max(float(x[0]), -_FARTHEST), _FARTHEST)), tuple(x[1:].tolist()))

    @property
    def x(self) -> HostArray:
        """The unknowns of a search."""
        return np.array([log(self.beta), *self.biases])


@dataclass(frozen=True)
class BiasSums:
    """Weighted sums over rows at one point; those of other rows add.

    Attributes
    ----------
    weight : float
        Σw.
    energy, energy_size, energy_slope : float
        The gap of x, what its rounding is relative to, and its derivative by β.
    confidence, confidence_slope : float
        The gap of the confidence, and its derivative by β.
    confidence_by_bias : array of shape (K,)
        Its derivative by each bias.
    by_beta : array of shape (K,)
        The derivative of the gap of each class by β, which is also that of the gap of x by each bias.
    overlaps : array of shape (K, K)
        Σw·p_a·p_b.
    expected, observed : array of shape (K,)
        Σw·p_a, and the weight of the rows of each class.
    own_confidence, own_squares : float
        The gap of the confidence with the top classes at the point itself, and the sum of its squares with weights.
    weight_squares : float
        Σw².
    n_changed : int
        How many rows have another top class at the point than at the anchor.
    """

    weight: float
    energy: float
    energy_size: float
    energy_slope: float
    confidence: float
    confidence_slope: float
    confidence_by_bias: HostArray
    by_beta: HostArray
    overlaps: HostArray
    expected: HostArray
    observed: HostArray
    own_confidence: float
    own_squares: float
    weight_squares: float
    n_changed: int

    def __add__(self, other: "BiasSums") -> "BiasSums":
        return BiasSums(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def classes(self) -> HostArray:
        """The gap of each class."""
        gaps: HostArray = self.expected - self.observed
        return gaps

    @property
    def by_bias(self) -> HostArray:
        """The derivative of the gap of each class by each bias."""
        slopes: HostArray = np.diag(self.expected) - self.overlaps
        return slopes

    @property
    def model_variance(self) -> float:
        """Σw·p(1 - p) over rows and classes: the variance of all gaps of classes if the model is right."""
        return float(np.trace(self.by_bias))


@dataclass(frozen=True)
class MeasureBiases:
    """The pass that sums at one point; the top class of each row is that at the anchor, or at the point without one."""

    point: BiasPoint
    anchor: BiasPoint | None = None

    def __call__(self, batch: Batch) -> BiasSums:
        rows = BiasRows(batch, self.point, self.anchor)
        xp, w = batch.xp, batch.weights
        host = arrays.on_host
        slope = row_sum(rows.px * rows.x)[:, 0] - rows.mean**2
        numbers = [rows.energy, rows.energy_size, slope, rows.gap, rows.pull, rows.own_gap, rows.own_gap**2, w]
        energy, size, energy_slope, gap, pull, own, own_squares, squares = host(xp.stack(numbers) @ w).tolist()
        heavy = rows.confidence * w
        half = rows.p * xp.sqrt(w)[:, None]  # the product of a table with itself takes half the time of one with another
        return BiasSums(
            batch.weight,
            energy,
            size,
            energy_slope,
            gap,
            pull,
            rows.by_class(heavy, rows.top) - host(heavy @ rows.p),
            host(w @ rows.px - (w * rows.mean) @ rows.p),
            host(half.T @ half),
            host(w @ rows.p),
            rows.by_class(w, batch.labels),
            own,
            own_squares,
            squares,
            rows.n_changed,
        )


@dataclass(frozen=True)
class BiasGaps:
    """The gaps of each row at one point, (n, 1 + K): of the confidence or of x, and of each class."""

    point: BiasPoint
    of_confidence: bool

    def __call__(self, batch: Batch) -> HostArray:
        rows = BiasRows(batch, self.point, None)
        first = rows.gap if self.of_confidence else rows.energy
        gaps = np.column_stack([arrays.on_host(first), arrays.on_host(rows.p)])
        gaps[np.arange(batch.n_rows), 1 + arrays.on_host(batch.labels)] -= 1
        return gaps


class BiasRows:
    """What the rows of a batch are at a point: tables of a block, and numbers per row."""

    def __init__(self, batch: Batch, point: BiasPoint, anchor: BiasPoint | None) -> None:
        xp = batch.xp
        self.batch = batch
        self.x = centre_logits(batch.double)
        mapped = self._logits_at(point)
        weights = xp.exp(mapped - row_max(mapped))
        self.p = weights / row_sum(weights)
        here = xp.argmax(mapped, axis=1)
        self.top = here if anchor is None else xp.argmax(self._logits_at(anchor), axis=1)
        self.n_changed = 0 if anchor is None else int(xp.sum(xp.astype(here != self.top, xp.int64)))
        true = batch.at(self.x, batch.labels)
        self.px = self.p * self.x
        self.mean = row_sum(self.px)[:, 0]
        self.energy = self.mean - true
        self.energy_size = xp.abs(self.mean) + xp.abs(true)
        self.confidence = batch.at(self.p, self.top)
        self.gap = self._gap(self.confidence, self.top)
        self.own_gap = self.gap if anchor is None else self._gap(batch.at(self.p, here), here)
        self.pull = self.confidence * (batch.at(self.x, self.top) - self.mean)

    def _gap(self, confidence: Array, top: Array) -> Array:
        """The confidence minus whether the top class is true."""
        return confidence - self.batch.xp.astype(top == self.batch.labels, confidence.dtype)

    def _logits_at(self, point: BiasPoint) -> Array:
        return self.x * point.beta + arrays.on_device_of(np.array(point.biases), self.x)

    def by_class(self, values: Array, columns: Array) -> HostArray:
        """The sum of one number per row over the rows of each class."""
        return np.bincount(arrays.on_host(columns), arrays.on_host(values), self.batch.n_classes)


def centre_logits(logits: Array) -> Array:
    """Float64 logits minus their mean over classes; the largest is subtracted first, which is exact."""
    drops = logits - row_max(logits)
    return drops - row_sum(drops) / int(drops.shape[1])
