"""The squares that a sketch keeps, per row or per cluster of rows, for its standard errors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nishimori._sketch.contents import ENDS, N_BINS, OFFSETS, different_pairs, pairs
from nishimori._support.arrays import HostArray


class Terms(NamedTuple):
    """The numbers per row that are summed and then squared."""

    weights: HostArray  # (rows,)
    gaps: Sequence[HostArray]  # of each observable (ends and nodes, rows), times the weights
    bins: HostArray  # (nodes, rows): the bin of each row at each node, counted over all nodes
    misses: HostArray  # (nodes, rows): confidence minus right or wrong, times the weights


class Squares(NamedTuple):
    """Sums of squares over the rows or clusters that ``number`` counts."""

    number: float
    weight: float
    products: HostArray  # (pairs of observables, ends and nodes)
    crossed: HostArray  # (pairs of different observables, offsets, nodes)
    bins: HostArray  # (2, nodes, bins): weights, and confidence minus right or wrong


def squares_of_rows(terms: Terms) -> Squares:
    """Each row is a cluster of its own."""
    squares = terms.weights**2
    return Squares(
        number=len(squares),
        weight=float(squares.sum()),
        products=paired_products(terms.gaps, terms.gaps),
        crossed=crossed_products(terms.gaps, terms.gaps),
        bins=np.stack([sums_per_bin(terms.bins, values) for values in (squares, terms.misses**2)]),
    )


def paired_products(first: Sequence[HostArray], second: Sequence[HostArray]) -> HostArray:
    """Σ g·h of the gaps (ends and nodes, rows) of each pair of observables, both at the same node."""
    return np.array([np.einsum("nr,nr->n", first[i], second[j]) for i, j in pairs(len(first))])


def crossed_products(first: Sequence[HostArray], second: Sequence[HostArray]) -> HostArray:
    """Σ g·h of the gaps (ends and nodes, rows) of two different observables, g at a node and h at one some offset higher."""
    n_nodes = len(first[0]) - ENDS
    wanted = different_pairs(len(first))
    products = np.zeros((len(wanted), len(OFFSETS), n_nodes))
    for sums, (i, j) in zip(products, wanted, strict=True):
        with np.errstate(invalid="ignore"):  # a masked true class has an infinite loss
            table = first[i][ENDS:] @ second[j][ENDS:].T
        for line, offset in zip(sums, OFFSETS, strict=True):
            line[max(0, -offset) : max(0, n_nodes - max(0, offset))] = np.diagonal(table, offset)
    return products


def sums_per_bin(bins: HostArray, values: HostArray, n_clusters: int = 1) -> HostArray:
    """The sum in each bin, (nodes, bins), of values per node and row, or per row; clusters are stacked."""
    flat, n_nodes = np.broadcast_to(values, bins.shape).ravel(), len(bins) * n_clusters
    return np.bincount(bins.ravel(), flat, n_nodes * N_BINS).reshape(n_nodes, N_BINS)


class OpenCluster:
    """The last cluster of a block of rows, which may continue in the next block."""

    def __init__(self) -> None:
        self._open: tuple[HostArray, ...] | None = None
        self._code = -1

    def squares(self, terms: Terms, codes: HostArray) -> Squares:
        """The squares of the clusters that end before or within the next rows.

        ``codes`` are the numbers of the clusters of these rows; rows of the same cluster follow each other.
        """
        (starts,) = np.nonzero(np.diff(codes, prepend=codes[0] - 1))
        sums = _sums_of(terms, starts)
        if self._open is not None and self._code == codes[0]:
            for old, new in zip(self._open, sums, strict=True):
                new[0] += old[0]
        elif self._open is not None:
            sums = tuple(np.concatenate(both) for both in zip(self._open, sums, strict=True))
        self._code, self._open = int(codes[-1]), tuple(values[-1:] for values in sums)
        return _squares(tuple(values[:-1] for values in sums))

    def close(self) -> Squares:
        """The squares of the cluster that was still open."""
        assert self._open is not None, "there were rows"
        return _squares(self._open)


def _sums_of(terms: Terms, starts: HostArray) -> tuple[HostArray, ...]:
    """Sums over each cluster: (clusters,), (clusters, observables, ends and nodes), and twice (clusters, nodes, bins)."""
    n_nodes, n_clusters = len(terms.bins), len(starts)
    numbers = np.repeat(np.arange(n_clusters), np.diff(starts, append=len(terms.weights)))
    places = terms.bins + numbers * (n_nodes * N_BINS)
    weights, misses = (
        sums_per_bin(places, values, n_clusters).reshape(n_clusters, n_nodes, N_BINS)
        for values in (terms.weights, terms.misses)
    )
    gaps = np.add.reduceat(np.stack(terms.gaps), starts, axis=2)
    return np.add.reduceat(terms.weights, starts), np.moveaxis(gaps, 2, 0).copy(), weights, misses


def _squares(sums: tuple[HostArray, ...]) -> Squares:
    weight, gaps, weights, misses = sums
    columns = [gaps[:, i].T for i in range(gaps.shape[1])]
    bins = np.stack([np.einsum("cnb,cnb->nb", table, table) for table in (weights, misses)])
    return Squares(
        len(weight), float(weight @ weight), paired_products(columns, columns), crossed_products(columns, columns), bins
    )
