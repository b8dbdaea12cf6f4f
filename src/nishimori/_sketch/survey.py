"""The pass that fills a sketch: from a batch of rows to the sums at every node.

The native kernel adds up over rows what a sketch keeps, in one call. Where it cannot, as with clusters, masked classes and
observables of one's own, a kernel gives the power sums of each row at all β at once. What follows takes one number per row and
node, so it is computed on the host, for some hundred rows at a time, which fit the cache: `NodeRows` goes from power sums to
gaps, metrics and bins. Sums of products are taken without storing the products where that is possible: with few classes this
takes most of the time of an update.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np

from nishimori._kernels.kernel import gives_node_sums, node_sums, reads_stored, row_sums, takes_unchecked
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch, Clusters
from nishimori._sketch.clusters import OpenCluster, Squares, Terms, crossed_products, squares_of_rows, sums_per_bin
from nishimori._sketch.contents import ENDS, N_BINS, Contents, counts_of, pairs
from nishimori._sketch.grid import Grid
from nishimori._sums.census import Count
from nishimori._sums.observables import Confidence, Energy, Observable
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray

# Rows whose power sums are in memory at a time: with 41 values of β they take 5 MB.
_ROWS = 2**12

# Rows whose gaps are in memory at a time.
_AT_ONCE = 1024


# What the logarithm of the lowest inner edge, 1/15, adds to the relative error of a confidence near it.
_EXPONENT = np.finfo(float).eps * np.log(N_BINS)


@dataclass(frozen=True)
class Survey:
    """The pass that fills a sketch: the sums of a batch at every node."""

    grid: Grid
    observables: tuple[Observable, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what is cached: the sums of no rows are as large as a sketch.
        return Survey, (self.grid, self.observables)

    def __call__(self, batch: Batch) -> Contents:
        contents = self.of_unchecked(batch)
        return self._in_parts(batch, None) if contents is None else contents

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether a kernel reads all rows of the batch in one call, and notices what a check would refuse."""
        return self._places is not None and gives_node_sums(batch) and takes_unchecked(batch)

    def of_unchecked(self, batch: Batch) -> Contents | None:
        """The sums of rows that may not have been checked; None if a check is due, or no kernel gives them at once."""
        if self._places is None:
            return None
        betas = self.grid.betas
        sums = node_sums(batch, betas, self.grid.beyond, N_BINS, bin_scale(batch.rounding))
        return None if sums is None else Contents.from_node_sums(sums, self._places, betas, batch.n_classes)

    @property
    def _places(self) -> list[int] | None:
        """The places of the observables among the built-in ones, which are those that kernels know; None if one is another."""
        built_in, kinds = list(BUILT_IN), [type(observable) for observable in self.observables]
        return [built_in.index(kind) for kind in kinds] if {*kinds} <= {*built_in} else None

    def of_clusters(self, data: ArrayRows, codes: HostArray, last: OpenCluster) -> Iterator[Contents]:
        """The sums of rows in clusters; ``last``, which may go on in other rows, is left out of the squares.

        ``codes`` are the numbers of the clusters of the rows; a negative one is that of a row of weight zero.
        """
        (rows,) = np.nonzero(codes >= 0)
        if (np.diff(codes[rows]) < 0).any():
            for _ in data:
                pass  # which checks the values, so that an error names the row as the caller counts
            rows = rows[np.argsort(codes[rows], kind="stable")]
            data, codes = ArrayRows(data.scores.sample(rows), data.labels[rows], data.weights[rows]), codes[rows]
        data = copy(data)
        data.clusters = Clusters(codes, int(codes.max()) + 1)
        for batch in data:
            yield self._in_parts(batch, last)

    def _in_parts(self, batch: Batch, last: OpenCluster | None) -> Contents:
        """The sums of a batch; its rows are clusters of their own, or those of its clusters if one may go on after them."""
        total, n_nodes = self.empty, len(self.grid.betas)
        for part in _parts(batch):
            ends, sums, predictions = sums_at(part, (*self.grid.betas, *self.grid.beyond))  # Σp² at β takes the weights at 2β
            truth = Truth.from_predictions(predictions)
            others = {
                i: self._gaps(observable, part)
                for i, observable in enumerate(self.observables)
                if type(observable) not in BUILT_IN
            }
            for start in range(0, part.n_rows, _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                rows = NodeRows.from_power_sums(ends[:, :, some], sums[:, :, some], truth.at(some), n_nodes)
                contents, terms = self._sums(rows, {i: (gaps[:, :, some], o[some]) for i, (gaps, o) in others.items()})
                clusters = part.clusters
                if last is None or clusters is None:
                    squares = squares_of_rows(terms)
                else:
                    squares = last.squares(terms, clusters.codes[some])
                total = total + contents + self.of_squares(squares)
            census = Count(Confidence()).from_findings(part, predictions)
            total = total + replace(self.empty, counts=counts_of(census, int(part.logits.shape[1])))
        return total

    @cached_property
    def empty(self) -> Contents:
        return Contents.empty(len(self.observables), len(self.grid.betas))

    def of_squares(self, squares: Squares) -> Contents:
        """Contents that are sums of squares only."""
        products = _sort_by_beta(np.stack([np.zeros_like(squares.products), squares.products], axis=1))
        crossed = np.stack([np.zeros_like(squares.crossed), squares.crossed], axis=1)
        bins = np.concatenate([np.zeros((3, *squares.bins.shape[1:])), squares.bins])
        weights = np.array([0.0, squares.weight, squares.number])
        return replace(self.empty, weights=weights, products=products, crossed=crossed, bins=bins)

    def _gaps(self, observable: Observable, batch: Batch) -> tuple[HostArray, HostArray]:
        """Gaps (4, ends and nodes, rows) of an observable that needs more than power sums, and its values at the labels."""
        ready = observable._on(batch)
        distributions = [Predictions(batch, beta) for beta in (inf, 0.0, *self.grid.betas)]
        observed = ready.observed(distributions[0])
        gaps = [[arrays.on_host(values) for values in ready.gap(predictions, observed)[:4]] for predictions in distributions]
        return np.array(gaps).transpose(1, 0, 2), arrays.on_host(observed)

    def _sums(self, rows: "NodeRows", others: dict[int, tuple[HostArray, HostArray]]) -> tuple[Contents, Terms]:
        """The sums of some rows, and what their squares are made of."""
        w, many = rows.truth.weights, range(len(self.observables))
        with np.errstate(invalid="ignore", over="ignore"):  # a masked true class has an infinite loss
            gaps = [_gap_of(*others[i], w) if i in others else BUILT_IN[type(self.observables[i])](rows) for i in many]
            weighted = [rows.weigh(gap.value) for gap in gaps]
            plain = np.array([np.einsum("nr,nr->n", weighted[i], gaps[j].value) for i, j in pairs(len(gaps))])
            crossed = crossed_products(weighted, [gap.value for gap in gaps])
            bins = rows.bins
            contents = replace(
                self.empty,
                weights=np.array([w.sum(), 0.0, 0.0]),
                observed=np.array([gap.observed for gap in gaps]),
                moments=_sort_by_beta(np.array([gap.sums for gap in gaps])),
                products=_sort_by_beta(np.stack([plain, np.zeros_like(plain)], axis=1)),
                crossed=np.stack([crossed, np.zeros_like(crossed)], axis=1),
                curves=rows.curves(np.array(self.grid.betas)),
                bins=np.concatenate([rows.claimed, np.zeros((2, len(bins), N_BINS))]),
            )
            misses = rows.weigh(rows.miss[ENDS:])
        squares = (rows.claimed[0], plain, crossed) if rows.truth.is_even else None
        return contents, Terms(w, weighted, bins, misses, squares)


def _sort_by_beta(sums: HostArray) -> HostArray:
    """Sums in increasing order of β, where β = ∞ came first."""
    return np.roll(sums, -1, axis=-1)


def _gap_of(gaps: HostArray, observed: HostArray, weights: HostArray) -> "NodeGap":
    return NodeGap(gaps[0], gaps @ weights, float(weights @ observed))


def _parts(batch: Batch) -> Iterator[Batch]:
    for start in range(0, batch.n_rows, _ROWS):
        rows = slice(start, start + _ROWS)
        probabilities = None if batch.probabilities is None else batch.probabilities[rows, ...]
        stored = None if batch.stored is None else batch.stored[rows, ...]
        logits = batch.logits[rows, ...]
        yield replace(
            batch,
            logits=logits,
            labels=batch.labels[rows],
            weights=batch.weights[rows],
            clusters=None if batch.clusters is None else batch.clusters.at_rows(rows),
            probabilities=probabilities,
            stored=stored,
        )


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


@dataclass(frozen=True)
class NodeRows:
    """Some rows with their averages at both ends and at each node, (ends and nodes, rows)."""

    truth: Truth
    powers: HostArray  # power sums (nodes and beyond, 4, rows)
    rest: HostArray
    confidence: HostArray
    doubt: HostArray
    mean: HostArray  # of the drop
    square: HostArray

    @classmethod
    def from_power_sums(cls, ends: HostArray, powers: HostArray, truth: Truth, n_nodes: int) -> "NodeRows":
        """The rows at the nodes, from power sums 0 and 1 at both ends, and 0 to 3 at the nodes and beyond the last one."""
        first, second, third = powers[:n_nodes, :3].transpose(1, 0, 2)
        rest = np.concatenate([ends[:, 0], first])
        confidence = 1 / (rest + 1)
        mean = np.concatenate([ends[:, 1], second]) * confidence
        square = np.concatenate([np.zeros_like(ends[:, 1]), third]) * confidence
        return cls(truth, powers, rest, confidence, rest * confidence, mean, square)

    def weigh(self, values: HostArray) -> HostArray:
        """The values times the weights, which may be the values themselves."""
        return values if self.truth.is_even else values * self.truth.weights

    @cached_property
    def miss(self) -> HostArray:
        """Confidence minus right or wrong, with all its digits."""
        return np.where(self.truth.right, -self.doubt, self.confidence)

    @cached_property
    def bins(self) -> HostArray:
        """The bin of each row at each node, counted over all nodes; a confidence on an edge is in the bin below it."""
        numbers = np.ceil(self.confidence[ENDS:] * bin_scale(self.truth.rounding)).astype(np.int64)
        bins: HostArray = numbers + (N_BINS * np.arange(len(numbers)) - 1)[:, None]
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
        return self.confidence * self._weighted_mean

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
        squared = self.mean**2
        slope = second - squared @ truth.weights
        curvature = 2 * _dot(mean, squared) - 3 * _dot(mean, self.square)
        curvature[ENDS:] += _dot(self.powers[: len(self.rest) - ENDS, 3], self._weighted_confidence[ENDS:])
        sums = np.array([first - truth.drops_sum, -first - truth.drops_sum, slope, curvature])
        return NodeGap(self.mean - truth.label_drops, sums, truth.drops_sum)

    def curves(self, nodes: HostArray) -> HostArray:
        """Σw times confidence, Brier score and negative log-likelihood at each node, with slopes."""
        w, drops = self.truth.weights, self.truth.drops_sum
        nll = self._log_partition() @ w - nodes * drops
        tops = [self.confidence[ENDS:] @ w, -self._slope[ENDS:].sum(axis=1)]
        return np.array([tops, self._brier(nodes), [nll, self._weighted_mean[ENDS:].sum(axis=1) - drops]])

    def _log_partition(self) -> HostArray:
        """log(1 + rest): a logarithm and what its argument rounds away, which is faster than NumPy's log1p."""
        rest = self.rest[ENDS:]
        rounded = rest + 1
        logarithms: HostArray = np.log(rounded) + (rest - (rounded - 1)) * self.confidence[ENDS:]
        return logarithms

    def _brier(self, nodes: HostArray) -> list[HostArray]:
        """Σw times Brier score and its slope: from Σp² and p of the true class, which is the top class where that is right."""
        truth, top, mean, wrong = self.truth, self.confidence[ENDS:], self.mean[ENDS:], self._wrong
        doubled, doubled_drops = (self.powers[len(self.powers) - len(nodes) :, order] for order in (0, 1))
        squares = top * self._weighted_confidence[ENDS:]
        others = doubled * squares  # Σp² of the other classes, times the weight
        true = np.exp(nodes[:, None] * truth.label_drops[wrong]) * top[:, wrong]
        drops = np.where(true > 0, truth.label_drops[wrong], 0.0)  # a masked class has no weight, and an infinite drop
        of_wrong = truth.weights[wrong]
        value = others.sum(axis=1) + self.doubt[ENDS:] ** 2 @ truth.of_right + (1 - 2 * true + top[:, wrong] ** 2) @ of_wrong
        slope = _dot(doubled_drops, squares) - _dot(mean, others) - _dot(mean, squares)
        slope += self._slope[ENDS:] @ truth.right.astype(float) - (true * (drops - mean[:, wrong])) @ of_wrong
        return [value, 2 * slope]


def _dot(one: HostArray, two: HostArray) -> HostArray:
    """The sum over rows of a product."""
    sums: HostArray = np.einsum("nr,nr->n", one, two)
    return sums


BUILT_IN: dict[type, Callable[..., Any]] = {Confidence: NodeRows.of_confidence, Energy: NodeRows.of_energy}
"""The gaps of the observables for which power sums are enough."""
