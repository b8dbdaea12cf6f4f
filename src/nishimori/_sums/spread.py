"""The sampling spread of weighted means of several numbers per row: sums of squares around the means, which support ``+``.

A weighted mean m = Σws/Σw has the variance Σ(w(s - m))²/(Σw)², a sum over units that are independent: rows by default, or
clusters of rows. Where a weight of w stands for w independent rows, the numerator is Σw(s - m)². Squares are kept around the
means of what was summed so far, because differences of large squares would lose their digits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nishimori._rows.batch import MOST_CLUSTER_SUMS, Batch, Clusters
from nishimori._rows.rows import Rows, Sum
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError


def sum_by_cluster(clusters: Clusters, places: HostArray, values: HostArray, number: int, what: str) -> HostArray:
    """The sums of values over each place and each cluster of rows, (places, clusters).

    The array ``places`` has the shape of ``values``, and its first axis is that of the rows. A table that is too large is
    refused, with ``what`` for the places.
    """
    if number * clusters.number > MOST_CLUSTER_SUMS:
        most = f"be at most {MOST_CLUSTER_SUMS // number:,} where there are {number:,} {what}"
        remedy = f"Join small clusters, or use fewer {what}."
        raise InputError("clusters", most, got=f"{clusters.number:,}", remedy=remedy)
    cells = (places.T * clusters.number + clusters.codes).T
    return np.bincount(cells.ravel(), values.ravel(), number * clusters.number).reshape(number, clusters.number)


def cluster_sums(batch: Batch, rows: Sequence[Array]) -> HostArray:
    """Sums of several numbers per row, with their weights, over the clusters of a batch, (numbers, clusters).

    Sums of products over clusters, ``sums @ sums.T``, stand for Σw²·g_a·g_b over independent rows.
    """
    weights = arrays.on_host(batch.weights)
    return weighted_sums(batch, [weights * arrays.on_host(numbers) for numbers in rows])


def weighted_sums(batch: Batch, rows: Iterable[HostArray]) -> HostArray:
    """Sums over the clusters of a batch, of numbers per row that are already multiplied by the weights."""
    assert batch.clusters is not None, "asked for only where there are clusters"
    codes, number = batch.clusters.codes, batch.clusters.number
    return np.stack([np.bincount(codes, numbers, number) for numbers in rows])


@dataclass(frozen=True)
class Spread:
    """Sums over independent rows, with u = w² or, where weights are counts, u = w.

    Attributes
    ----------
    squares : float
        Σu.
    means : array of shape (numbers,)
        Σux/Σu.
    scatter : array of shape (numbers,)
        Σu(x - means)².
    """

    squares: float
    means: HostArray
    scatter: HostArray

    @classmethod
    def from_rows(cls, batch: Batch, rows: HostArray, *, counts: bool) -> "Spread":
        """The spread of several numbers per row of a batch, (numbers, n)."""
        units = unit_weights(batch, counts=counts)
        total = float(units.sum())
        means = np.einsum("an,n->a", rows, units) / total
        centred = rows - means[:, None]
        return cls(total, means, np.einsum("an,an->a", centred * units, centred))

    def __add__(self, other: "Spread") -> "Spread":
        total = self.squares + other.squares
        step = other.means - self.means
        between = step**2 * (self.squares * other.squares / total)
        return Spread(total, self.means + step * (other.squares / total), self.scatter + other.scatter + between)

    def around(self, centre: HostArray) -> HostArray:
        """Σu(x - centre)² of each number."""
        return self.scatter + self.squares * (self.means - centre) ** 2


@dataclass(frozen=True)
class ClusterSpread(Sum):
    """Sums over each independent cluster: of the weights, and of several numbers per row."""

    values: HostArray

    @property
    def squares(self) -> float:
        """The sum of the squared weights of clusters."""
        weights = self.values[0]
        return float(weights @ weights)

    def around(self, centre: HostArray) -> HostArray:
        """The sum over clusters of the square of Σw(x - centre), for each number."""
        weights, values = self.values[0], self.values[1:]
        return ((values - np.outer(centre, weights)) ** 2).sum(axis=1)


def spread(batch: Batch, rows: Sequence[Array], *, counts: bool) -> Spread | ClusterSpread:
    """The spread of several numbers per row; numbers that are not finite count as 0."""
    held = np.stack([arrays.on_host(numbers) for numbers in rows])
    if not np.isfinite(held).all():  # the loss of a masked true class, whose mean is infinite and has no spread
        held = np.where(np.isfinite(held), held, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):  # losses at temperatures close to 0
        if batch.clusters is None:
            return Spread.from_rows(batch, held, counts=counts)
        return ClusterSpread(cluster_sums(batch, [np.ones(batch.n_rows), *held]))


def unit_weights(batch: Batch, *, counts: bool) -> HostArray:
    """The weight of a squared number of each row, for independent rows."""
    weights = arrays.on_host(batch.weights)
    return weights if counts else weights**2


def gap_products(data: Rows, gaps_of: Callable[[Batch], HostArray]) -> HostArray:
    """The sums of products of gaps, (n, m) for each batch, over independent units, rows or clusters; one pass.

    Of independent rows it gives Σu·g_a·g_b, where u = w² or, if weights are counts, u = w.
    """
    sums: HostArray = data.gather(partial(_multiply_gaps, gaps_of, data.counts, data.has_clusters))
    return sums @ sums.T if data.has_clusters else sums


def _multiply_gaps(gaps_of: Callable[[Batch], HostArray], counts: bool, clustered: bool, batch: Batch) -> HostArray:
    gaps = gaps_of(batch)
    if clustered:
        return cluster_sums(batch, list(gaps.T))
    return gaps.T @ (gaps * unit_weights(batch, counts=counts)[:, None])
