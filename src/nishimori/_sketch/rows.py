"""Some hundred rows at all nodes: from their power sums to gaps, metrics and bins, summed over the rows.

The arrays have a number per node and row. Sums of products are taken without storing the products where that is possible: with
few classes this module takes most of the time of an update.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from nishimori._kernels.kernel import reads_stored, row_sums
from nishimori._rows.batch import Batch
from nishimori._sketch.clusters import sums_per_bin
from nishimori._sketch.contents import ENDS, N_BINS
from nishimori._sums.observables import Confidence, Energy
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray

# What the logarithm of the lowest inner edge, 1/15, adds to the relative error of a confidence near it.
_EXPONENT = np.finfo(float).eps * np.log(N_BINS)


def bin_scale(rounding: float) -> float:
    """The factor s with which a confidence c is in the bin ceil(c·s) - 1; ``rounding`` is the relative error of c."""
    return float(N_BINS / (1 + rounding + _EXPONENT))


class NodeGap(NamedTuple):
    """The gap of each row at both ends and each node; Σw times gap, size, slope and curvature; Σw·O at the labels."""

    value: HostArray
    sums: HostArray
    observed: float


@dataclass(frozen=True)
class Truth:
    """What is known of rows besides their power sums, on the host: one number per row."""

    right: HostArray
    label_drops: HostArray
    weights: HostArray
    rounding: float  # of confidences, relative

    @classmethod
    def from_predictions(cls, rows: Predictions) -> "Truth":
        right, drops, weights = (arrays.on_host(x) for x in (rows.right, rows.label_drops, rows.batch.weights))
        return cls(right, drops, weights, rows.batch.rounding)

    def at(self, some: slice) -> "Truth":
        return Truth(self.right[some], self.label_drops[some], self.weights[some], self.rounding)

    @cached_property
    def is_even(self) -> bool:
        """Whether all weights are 1."""
        return bool((self.weights == 1).all())

    @cached_property
    def of_right(self) -> HostArray:
        """The weights of right answers, 0 for wrong ones."""
        return self.weights * self.right

    @cached_property
    def drops_sum(self) -> float:
        """Σw times the drop of the true class."""
        return float(self.weights @ self.label_drops)


def sums_at(batch: Batch, nodes: Sequence[float]) -> tuple[HostArray, HostArray, Predictions]:
    """Power sums of each row: 0 and 1 at β = ∞ and β = 0, of shape (2, 2, n), 0 to 3 at the nodes, and the view.

    In float64: sums of float32 numbers depend on the block that a row is in, and squares of squares lose digits.
    """
    if not reads_stored(batch):
        powers = row_sums(batch, nodes, 3)
        return arrays.on_host(_sums_at_ends(batch)), arrays.on_host(powers.sums), Predictions(batch, nodes[0], powers)
    powers = row_sums(batch, (inf, 0.0, *nodes), 3)  # from the same values of each row
    sums = arrays.on_host(powers.sums)
    return sums[:ENDS, :2], sums[ENDS:], Predictions(batch, nodes[0], powers)


def _sums_at_ends(batch: Batch) -> Array:
    """How many classes besides the top count at β = ∞ and at β = 0, and Σd over them."""
    logits, xp = batch.logits, batch.xp
    drops = batch.double - arrays.in_double(batch.peak)[:, None]
    ties = xp.astype(xp.sum(xp.astype(drops == 0, xp.int32), axis=1), xp.float64)
    if batch.has_masks:
        live = drops > -inf
        numbers = xp.astype(xp.sum(xp.astype(live, xp.int32), axis=1), xp.float64)
        drops = xp.where(live, drops, xp.zeros_like(drops))
    else:
        numbers = xp.full_like(ties, logits.shape[1])
    at_zero = xp.stack([numbers - 1, xp.sum(drops, axis=1, dtype=xp.float64)])
    return xp.stack([xp.stack([ties - 1, xp.zeros_like(ties)]), at_zero])


class Room:
    """Arrays that are used again for the next rows: to get new ones takes ten times as long as the arithmetic."""

    def __init__(self, n_nodes: int, n_rows: int) -> None:
        self._shape = (n_nodes, n_rows)
        self._arrays: list[HostArray] = []
        self._taken, self._n_rows = 0, n_rows

    @property
    def n_nodes(self) -> int:
        """How many there are, both ends among them."""
        return self._shape[0]

    def clear(self, n_rows: int) -> None:
        """Start with the next rows."""
        self._taken, self._n_rows = 0, n_rows

    def array(self, without: int = 0) -> HostArray:
        """An array (nodes, rows) of anything, some of the nodes left out."""
        if self._taken == len(self._arrays):
            self._arrays.append(np.empty(self._shape))
        self._taken += 1
        return self._arrays[self._taken - 1][without:, : self._n_rows]


@dataclass(frozen=True)
class NodeRows:
    """Some rows with their averages at both ends and at each node, (ends and nodes, rows)."""

    truth: Truth
    room: Room
    powers: HostArray  # power sums (nodes and beyond, 4, rows)
    rest: HostArray
    confidence: HostArray
    doubt: HostArray
    mean: HostArray  # of the drop
    square: HostArray

    @classmethod
    def of(cls, ends: HostArray, powers: HostArray, truth: Truth, room: Room) -> "NodeRows":
        """The rows at the nodes, from power sums 0 and 1 at both ends, and 0 to 3 at the nodes and beyond the last one."""
        room.clear(len(truth.weights))
        rest, confidence, doubt, mean, square = (room.array() for _ in range(5))
        n_nodes = room.n_nodes - ENDS
        rest[:ENDS], rest[ENDS:] = ends[:, 0], powers[:n_nodes, 0]
        np.add(rest, 1, out=confidence)
        np.divide(1, confidence, out=confidence)
        np.multiply(rest, confidence, out=doubt)
        np.multiply(ends[:, 1], confidence[:ENDS], out=mean[:ENDS])
        np.multiply(powers[:n_nodes, 1], confidence[ENDS:], out=mean[ENDS:])
        square[:ENDS] = 0
        np.multiply(powers[:n_nodes, 2], confidence[ENDS:], out=square[ENDS:])
        return cls(truth, room, powers, rest, confidence, doubt, mean, square)

    def weigh(self, values: HostArray) -> HostArray:
        """The values times the weights, which may be the values themselves."""
        if self.truth.is_even:
            return values
        return np.multiply(values, self.truth.weights, out=self.room.array(self.room_above(values)))

    def room_above(self, values: HostArray) -> int:
        """How many of the ends and nodes an array leaves out."""
        return len(self.rest) - len(values)

    @cached_property
    def miss(self) -> HostArray:
        """Confidence minus right or wrong, with all its digits."""
        miss = np.negative(self.doubt, out=self.room.array())
        np.copyto(miss, self.confidence, where=~self.truth.right)
        return miss

    @cached_property
    def bins(self) -> HostArray:
        """The bin of each row at each node, counted over all nodes; a confidence on an edge is in the bin below it."""
        claims = self.confidence[ENDS:]
        numbers = np.multiply(claims, bin_scale(self.truth.rounding), out=self.room.array(ENDS))
        np.ceil(numbers, out=numbers)
        numbers += (N_BINS * np.arange(len(claims)) - 1)[:, None]
        bins = self.room.array(ENDS).view(np.int64)
        np.copyto(bins, numbers, casting="unsafe")
        return bins

    @cached_property
    def claimed(self) -> HostArray:
        """Per node and bin: Σw, Σw·confidence and Σw·correct."""
        bins, truth = self.bins, self.truth
        total = sums_per_bin(bins, None if truth.is_even else truth.weights)
        if 2 * len(self._wrong) < len(truth.right):
            correct = total - sums_per_bin(bins[:, self._wrong], truth.weights[self._wrong])
        else:
            right = np.flatnonzero(truth.right)
            correct = sums_per_bin(bins[:, right], truth.weights[right])
        return np.stack([total, sums_per_bin(bins, self.weigh(self.confidence[ENDS:])), correct])

    @cached_property
    def _wrong(self) -> HostArray:
        """The positions of the wrong answers."""
        return np.flatnonzero(~self.truth.right)

    @cached_property
    def _weighted_mean(self) -> HostArray:
        return self.weigh(self.mean)

    @cached_property
    def _slope(self) -> HostArray:
        """Minus the slope of the confidence of each row, times its weight."""
        return np.multiply(self.confidence, self._weighted_mean, out=self.room.array())

    @cached_property
    def _weighted_confidence(self) -> HostArray:
        return self.weigh(self.confidence)

    def of_confidence(self) -> NodeGap:
        """The gap of the confidence."""
        right, truth = self.doubt @ self.truth.of_right, self.truth
        wrong = self.confidence @ (truth.weights - truth.of_right)
        curvature = 2 * _dot(self._slope, self.mean) - _dot(self._weighted_confidence, self.square)
        sums = np.array([wrong - right, wrong + right, -self._slope.sum(axis=1), curvature])
        return NodeGap(self.miss, sums, float((truth.of_right - truth.weights).sum()))

    def of_energy(self) -> NodeGap:
        """The gap of the logit."""
        truth, mean = self.truth, self._weighted_mean
        first, second = mean.sum(axis=1), self.square @ truth.weights
        squared = np.multiply(self.mean, self.mean, out=self.room.array())
        slope = second - squared @ truth.weights
        curvature = 2 * _dot(mean, squared) - 3 * _dot(mean, self.square)
        curvature[ENDS:] += _dot(self.powers[: len(self.rest) - ENDS, 3], self._weighted_confidence[ENDS:])
        sums = np.array([first - truth.drops_sum, -first - truth.drops_sum, slope, curvature])
        value = np.subtract(self.mean, truth.label_drops, out=self.room.array())
        return NodeGap(value, sums, truth.drops_sum)

    def curves(self, nodes: HostArray) -> HostArray:
        """Σw times confidence, Brier score and negative log-likelihood at each node, with slopes."""
        w, drops = self.truth.weights, self.truth.drops_sum
        nll = self._log_partition() @ w - nodes * drops
        tops = [self.confidence[ENDS:] @ w, -self._slope[ENDS:].sum(axis=1)]
        return np.array([tops, self._brier(nodes), [nll, self._weighted_mean[ENDS:].sum(axis=1) - drops]])

    def _log_partition(self) -> HostArray:
        """log(1 + rest): a logarithm and what its argument rounds away, which is faster than NumPy's log1p."""
        rest, rounded, lost = self.rest[ENDS:], self.room.array(ENDS), self.room.array(ENDS)
        np.add(rest, 1, out=rounded)
        np.subtract(rounded, 1, out=lost)
        np.subtract(rest, lost, out=lost)
        np.multiply(lost, self.confidence[ENDS:], out=lost)
        np.log(rounded, out=rounded)
        return np.add(rounded, lost, out=rounded)

    def _brier(self, nodes: HostArray) -> list[HostArray]:
        """Σw times Brier score and its slope: from Σp² and p of the true class, which is the top class where that is right."""
        truth, top, mean, wrong = self.truth, self.confidence[ENDS:], self.mean[ENDS:], self._wrong
        doubled, doubled_drops = (self.powers[len(self.powers) - len(nodes) :, order] for order in (0, 1))
        squares = np.multiply(top, self._weighted_confidence[ENDS:], out=self.room.array(ENDS))
        others = np.multiply(doubled, squares, out=self.room.array(ENDS))  # Σp² of the other classes, times the weight
        doubts = np.multiply(self.doubt[ENDS:], self.doubt[ENDS:], out=self.room.array(ENDS))
        true = np.exp(nodes[:, None] * truth.label_drops[wrong]) * top[:, wrong]
        drops = np.where(true > 0, truth.label_drops[wrong], 0.0)  # a masked class has no weight, and an infinite drop
        of_wrong = truth.weights[wrong]
        value = others.sum(axis=1) + doubts @ truth.of_right + (1 - 2 * true + top[:, wrong] ** 2) @ of_wrong
        slope = _dot(doubled_drops, squares) - _dot(mean, others) - _dot(mean, squares)
        slope += self._slope[ENDS:] @ truth.right.astype(float) - (true * (drops - mean[:, wrong])) @ of_wrong
        return [value, 2 * slope]


def _dot(one: HostArray, two: HostArray) -> HostArray:
    """The sum over rows of a product."""
    found: HostArray = np.einsum("nr,nr->n", one, two)
    return found


BUILT_IN = {Confidence: NodeRows.of_confidence, Energy: NodeRows.of_energy}
"""The gaps of the observables for which power sums are enough."""
