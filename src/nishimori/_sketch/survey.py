"""The pass that fills a sketch: from a batch of rows to the sums at every node.

The native kernel adds up over rows what a sketch keeps, in one call. Where it cannot, as with clusters, masked classes and
observables of one's own, a kernel gives the power sums of each row at all β at once. What follows takes one number per row and
node, so it is computed on the host, for some hundred rows at a time, which fit the cache (see `rows`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from nishimori._kernels.kernel import gives_node_sums, node_sums, takes_unchecked
from nishimori._rows.batch import Batch
from nishimori._sketch.clusters import SketchClusters, Squares, Terms, crossed_products, of_rows
from nishimori._sketch.contents import ENDS, N_BINS, Contents, counts_of, pairs
from nishimori._sketch.grid import Grid
from nishimori._sketch.rows import BUILT_IN, NodeGap, NodeRows, Room, Truth, bin_scale, sums_at
from nishimori._sums.census import Count
from nishimori._sums.observables import Confidence, Observable
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

# Rows whose power sums are in memory at a time: with 41 values of β they take 5 MB.
_ROWS = 2**12

# Rows whose gaps are in memory at a time.
_AT_ONCE = 1024


@dataclass(frozen=True)
class Survey:
    """The pass that fills a sketch: the sums of a batch at every node."""

    grid: Grid
    observables: tuple[Observable, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what is cached: the sums of no rows are as large as a sketch.
        return Survey, (self.grid, self.observables)

    @property
    def judged(self) -> tuple[float, ...]:
        """The β of both ends and of all nodes, in increasing order."""
        return (0.0, *self.grid.betas, inf)

    def __call__(self, batch: Batch) -> Contents:
        contents = self.of_unchecked(batch)
        return self.with_clusters(batch, None) if contents is None else contents

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
        known, kinds = list(BUILT_IN), [type(each) for each in self.observables]
        return [known.index(kind) for kind in kinds] if {*kinds} <= {*known} else None

    def with_clusters(self, batch: Batch, clusters: SketchClusters | None) -> Contents:
        """The sums of a batch; a cluster that may go on in the next batch is left out of the squares."""
        total, room = self.empty, Room(ENDS + len(self.grid.betas), min(batch.n_rows, _AT_ONCE))
        for part in _parts(batch):
            ends, sums, found = sums_at(part, (*self.grid.betas, *self.grid.beyond))  # Σp² at β takes the weights at 2β
            truth = Truth.from_predictions(found)
            others = {i: self._gaps(each, part) for i, each in enumerate(self.observables) if type(each) not in BUILT_IN}
            for start in range(0, part.n_rows, _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                rows = NodeRows.of(ends[:, :, some], sums[:, :, some], truth.at(some), room)
                contents, terms = self._sums(rows, {i: (each[:, :, some], o[some]) for i, (each, o) in others.items()})
                squares = of_rows(terms) if clusters is None else clusters.squares(terms)
                total = total + contents + self.of_squares(squares)
            census = Count(Confidence()).from_findings(part, found)
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
        distributions = [Predictions(batch, beta) for beta in (inf, *self.judged[:-1])]
        observed = ready.observed(distributions[0])
        found = [[arrays.on_host(each) for each in ready.gap(predictions, observed)[:4]] for predictions in distributions]
        return np.array(found).transpose(1, 0, 2), arrays.on_host(observed)

    def _sums(self, rows: NodeRows, others: dict[int, tuple[HostArray, HostArray]]) -> tuple[Contents, Terms]:
        """The sums of some rows, and what their squares are made of."""
        w, many = rows.truth.weights, range(len(self.observables))
        with np.errstate(invalid="ignore", over="ignore"):  # a masked true class has an infinite loss
            found = [_gap_of(*others[i], w) if i in others else BUILT_IN[type(self.observables[i])](rows) for i in many]
            weighted = [rows.weigh(gap.value) for gap in found]
            plain = np.array([np.einsum("nr,nr->n", weighted[i], found[j].value) for i, j in pairs(len(found))])
            crossed = crossed_products(weighted, [gap.value for gap in found])
            bins = rows.bins
            contents = replace(
                self.empty,
                weights=np.array([w.sum(), 0.0, 0.0]),
                observed=np.array([gap.observed for gap in found]),
                moments=_sort_by_beta(np.array([gap.sums for gap in found])),
                products=_sort_by_beta(np.stack([plain, np.zeros_like(plain)], axis=1)),
                crossed=np.stack([crossed, np.zeros_like(crossed)], axis=1),
                curves=rows.curves(np.array(self.grid.betas)),
                bins=np.concatenate([rows.claimed, np.zeros((2, len(bins), N_BINS))]),
            )
            misses = rows.weigh(rows.miss[ENDS:])
        known = (rows.claimed[0], plain, crossed) if rows.truth.is_even else (None, None, None)
        return contents, Terms(w, weighted, bins, misses, *known)


def _sort_by_beta(sums: HostArray) -> HostArray:
    """Sums in increasing order of β, where β = ∞ came first."""
    return np.roll(sums, -1, axis=-1)


def _gap_of(gaps: HostArray, observed: HostArray, weights: HostArray) -> NodeGap:
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
            probabilities=probabilities,
            stored=stored,
        )
