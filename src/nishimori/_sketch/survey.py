"""The pass that fills a sketch: from a batch of rows to the sums at every node.

The native kernel adds up over rows what a sketch keeps, in one call. Where it cannot, as with clusters, masked classes and
observables of one's own, a kernel gives the power sums of each row at all β at once. What follows takes one number per row and
node, so it is computed on the host, for some hundred rows at a time, which fit the cache: `NodeRows` goes from power sums to
gaps, metrics and bins.
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
from nishimori._sketch.clusters import (
    OpenCluster,
    Squares,
    Terms,
    crossed_products,
    paired_products,
    squares_of_rows,
    sums_per_bin,
)
from nishimori._sketch.contents import ENDS, N_BINS, Contents, counts_of
from nishimori._sketch.grid import Grid
from nishimori._sums.census import Count
from nishimori._sums.observables import Confidence, Energy, Observable
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

# Rows whose numbers at the nodes are in memory at a time: a number per row and node takes 0.3 MB.
_ROWS = 2**10

# What the logarithm of the lowest inner edge, 1/15, adds to the relative error of a confidence near it.
_EXPONENT = np.finfo(float).eps * np.log(N_BINS)


@dataclass(frozen=True)
class Survey:
    """The pass that fills a sketch: the sums of a batch at every node."""

    grid: Grid
    observables: tuple[Observable, ...]

    def __call__(self, batch: Batch) -> Contents:
        contents = self.of_unchecked(batch)
        return self._in_parts(batch, None) if contents is None else contents

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether a kernel can read all rows of the batch in one call, and notices what a check would refuse."""
        return self._places is not None and gives_node_sums(batch) and takes_unchecked(batch)

    def of_unchecked(self, batch: Batch) -> Contents | None:
        """The sums of unchecked rows; None if they must be checked, or no kernel gives them at once."""
        if self._places is None:
            return None
        betas = self.grid.betas
        sums = node_sums(batch, betas, self.grid.beyond, N_BINS, bin_scale(batch.rounding))
        return None if sums is None else Contents.from_node_sums(sums, self._places, betas, batch.n_classes)

    @property
    def _places(self) -> list[int] | None:
        """The places of the observables among the built-in ones, which kernels know; None if one is not built in."""
        built_in, kinds = list(BUILT_IN), [type(observable) for observable in self.observables]
        return [built_in.index(kind) for kind in kinds] if {*kinds} <= {*built_in} else None

    def of_clusters(self, data: ArrayRows, codes: HostArray, last: OpenCluster) -> Iterator[Contents]:
        """The sums of rows in clusters; squares leave out the ``last`` cluster, which may continue.

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
        """The sums of a batch; each row is its own cluster, or clusters are the batch's, with ``last`` continuing."""
        total, nodes = self.empty, np.array(self.grid.betas)
        for part in _parts(batch):
            ends, powers, predictions = sums_at(part, (*self.grid.betas, *self.grid.beyond))  # Σp² at β takes the weights at 2β
            rows = NodeRows.from_power_sums(ends, powers, predictions, len(nodes))
            with np.errstate(invalid="ignore", over="ignore"):  # a masked true class has an infinite loss
                gaps = [self._gap(observable, part, rows) for observable in self.observables]
                contents, terms = self._sums(rows, gaps, nodes)
            codes = predictions.clusters
            squares = squares_of_rows(terms) if last is None or codes is None else last.squares(terms, codes)
            census = Count(Confidence()).from_findings(part, predictions)
            counts = replace(self.empty, counts=counts_of(census, int(part.logits.shape[1])))
            total = total + contents + counts + self.of_squares(squares)
        return total

    @property
    def empty(self) -> Contents:
        """The sums of no rows."""
        return Contents.empty(len(self.observables), len(self.grid.betas))

    def of_squares(self, squares: Squares) -> Contents:
        """Contents that are sums of squares only."""
        products = _sort_by_beta(np.stack([np.zeros_like(squares.products), squares.products], axis=1))
        crossed = np.stack([np.zeros_like(squares.crossed), squares.crossed], axis=1)
        bins = np.concatenate([np.zeros((3, *squares.bins.shape[1:])), squares.bins])
        weights = np.array([0.0, squares.weight, squares.number])
        return replace(self.empty, weights=weights, products=products, crossed=crossed, bins=bins)

    def _gap(self, observable: Observable, batch: Batch, rows: "NodeRows") -> "NodeGap":
        """The gap of an observable, from power sums if these are enough."""
        if type(observable) in BUILT_IN:
            return BUILT_IN[type(observable)](rows)
        ready = observable._on(batch)
        distributions = [Predictions(batch, beta) for beta in (inf, 0.0, *self.grid.betas)]
        observed = ready.observed(distributions[0])
        gaps = [[arrays.on_host(values) for values in ready.gap(predictions, observed)[:4]] for predictions in distributions]
        return NodeGap([np.array(values) for values in zip(*gaps, strict=True)], arrays.on_host(observed))

    def _sums(self, rows: "NodeRows", gaps: Sequence["NodeGap"], nodes: HostArray) -> tuple[Contents, Terms]:
        """The sums of some rows, and the numbers for their squares."""
        w, values = rows.weights, [gap.terms[0] for gap in gaps]
        terms = Terms(w, [value * w for value in values], rows.bins, rows.miss[ENDS:] * w)
        plain, crossed = paired_products(terms.gaps, values), crossed_products(terms.gaps, values)
        claimed = [sums_per_bin(rows.bins, of_rows * w) for of_rows in (np.ones(len(w)), rows.confidence[ENDS:], rows.right)]
        contents = replace(
            self.empty,
            weights=np.array([w.sum(), 0.0, 0.0]),
            observed=np.array([gap.observed @ w for gap in gaps]),
            moments=_sort_by_beta(np.array([[values @ w for values in gap.terms] for gap in gaps])),
            products=_sort_by_beta(np.stack([plain, np.zeros_like(plain)], axis=1)),
            crossed=np.stack([crossed, np.zeros_like(crossed)], axis=1),
            curves=rows.curves(nodes),
            bins=np.stack([*claimed, *np.zeros_like(claimed[:2])]),
        )
        return contents, terms


def _sort_by_beta(sums: HostArray) -> HostArray:
    """Sums in increasing order of β, where β = ∞ came first."""
    return np.roll(sums, -1, axis=-1)


def _parts(batch: Batch) -> Iterator[Batch]:
    tables = ("logits", "labels", "weights", "probabilities", "stored")
    for start in range(0, batch.n_rows, _ROWS):
        rows = slice(start, start + _ROWS)
        parts: dict[str, Any] = {name: None if (table := getattr(batch, name)) is None else table[rows, ...] for name in tables}
        yield replace(batch, **parts, clusters=None if batch.clusters is None else batch.clusters.at_rows(rows))


def bin_scale(rounding: float) -> float:
    """The factor s with which a confidence c is in the bin ceil(c·s) - 1; ``rounding`` is the relative error of c."""
    return float(N_BINS / (1 + rounding + _EXPONENT))


def sums_at(batch: Batch, nodes: Sequence[float]) -> tuple[HostArray, HostArray, Predictions]:
    """Power sums of each row: 0 and 1 at β = ∞ and β = 0, of shape (2, 2, n), 0 to 3 at the nodes, and the view.

    In float64: sums of float32 numbers depend on the block that a row is in, and squares of squares lose digits.
    """
    if reads_stored(batch):  # once, for all of these
        powers = row_sums(batch, (inf, 0.0, *nodes), 3)
        sums = arrays.on_host(powers.sums)
        return sums[:ENDS, :2], sums[ENDS:], Predictions(batch, nodes[0], powers)
    powers = row_sums(batch, nodes, 3)
    return _sums_at_ends(batch), arrays.on_host(powers.sums), Predictions(batch, nodes[0], powers)


def _sums_at_ends(batch: Batch) -> HostArray:
    """How many classes besides the top count at β = ∞ and at β = 0, and Σd over them."""
    xp, drops = batch.xp, batch.drops
    live = drops <= 0 if batch.live is None else batch.live
    ties, numbers = (xp.sum(xp.astype(flags, drops.dtype), axis=1) - 1 for flags in (live & (drops == 0), live))
    return arrays.on_host(xp.stack([xp.stack([ties, xp.zeros_like(ties)]), xp.stack([numbers, xp.sum(drops, axis=1)])]))


class NodeGap(NamedTuple):
    """The gap of each row with its size, slope and curvature, each (ends and nodes, rows), and O at the label of each row."""

    terms: Sequence[HostArray]
    observed: HostArray


@dataclass(frozen=True)
class NodeRows:
    """Some rows on the host, with their averages at both ends and at each node, (ends and nodes, rows)."""

    weights: HostArray
    right: HostArray
    label_drops: HostArray
    rounding: float  # of confidences, relative
    rest: HostArray
    confidence: HostArray
    moments: tuple[HostArray, ...]  # means of the drop and of its powers up to the third; at the ends only the first is right
    doubled: HostArray  # power sums 0 and 1 at twice the β of each node, (2, nodes, rows)

    @classmethod
    def from_power_sums(cls, ends: HostArray, powers: HostArray, predictions: Predictions, n_nodes: int) -> "NodeRows":
        """The rows at the nodes, from power sums 0 and 1 at both ends, and 0 to 3 at the nodes and beyond the last one."""
        batch = predictions.batch
        weights, right, drops = (arrays.on_host(x) for x in (batch.weights, predictions.right, predictions.label_drops))
        at_ends = np.concatenate([ends, np.zeros_like(ends)], axis=1)
        rest, *sums = np.concatenate([at_ends, powers[:n_nodes]]).transpose(1, 0, 2)
        confidence = 1 / (rest + 1)
        doubled = powers[len(powers) - n_nodes :, :2].transpose(1, 0, 2)
        return cls(
            weights, right, drops, batch.rounding, rest, confidence, tuple(powers * confidence for powers in sums), doubled
        )

    @cached_property
    def doubt(self) -> HostArray:
        """One minus the confidence, without cancellation."""
        return self.rest * self.confidence

    @cached_property
    def miss(self) -> HostArray:
        """Confidence minus 1 if right, else the confidence, without cancellation."""
        return np.where(self.right, -self.doubt, self.confidence)

    @cached_property
    def bins(self) -> HostArray:
        """The bin of each row at each node, counted over all nodes; a confidence on an edge is in the bin below it."""
        numbers = np.ceil(self.confidence[ENDS:] * bin_scale(self.rounding)).astype(np.int64)
        bins: HostArray = numbers + (N_BINS * np.arange(len(numbers)) - 1)[:, None]
        return bins

    def of_confidence(self) -> NodeGap:
        """The gap of the confidence."""
        c, (first, second, _) = self.confidence, self.moments
        terms = self.miss, np.abs(self.miss), -c * first, c * (2 * first**2 - second)
        return NodeGap(terms, np.where(self.right, 0.0, -1.0))

    def of_energy(self) -> NodeGap:
        """The gap of the logit."""
        d, (first, second, third) = self.label_drops, self.moments
        curvature = third + first * (2 * first**2 - 3 * second)
        return NodeGap((first - d, -first - d, second - first**2, curvature), d)

    def curves(self, nodes: HostArray) -> HostArray:
        """Σw times confidence, Brier score and negative log-likelihood at each node, with slopes: (3, 2, nodes)."""
        c, first, d = self.confidence[ENDS:], self.moments[0][ENDS:], self.label_drops
        nll = np.log1p(self.rest[ENDS:]) - nodes[:, None] * d
        pairs = (c, -c * first), self._brier(nodes), (nll, first - d)
        return np.array([[value @ self.weights, slope @ self.weights] for value, slope in pairs])

    def _brier(self, nodes: HostArray) -> tuple[HostArray, HostArray]:
        """Brier score and its slope: from Σp² and p of the true class, which is the top class where that is right."""
        c, first, doubt = self.confidence[ENDS:], self.moments[0][ENDS:], self.doubt[ENDS:]
        true = np.exp(nodes[:, None] * self.label_drops) * c
        drops = np.where(true > 0, self.label_drops, 0.0)  # a masked class has no weight, and an infinite drop
        squares, squares_drop = self.doubled * c**2  # of the other classes
        value = squares + np.where(self.right, doubt**2, 1 - 2 * true + c**2)
        own = np.where(self.right, -first * c * doubt, first * c**2 + true * (drops - first))  # of the top and the true class
        return value, 2 * (squares_drop - first * squares - own)


BUILT_IN: dict[type[Any], Callable[..., "NodeGap"]] = {Confidence: NodeRows.of_confidence, Energy: NodeRows.of_energy}
"""The gaps of the observables for which power sums are enough."""
