"""Sums over each cluster of rows that are not independent: what standard errors are made of instead of single rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nishimori._kernels.row_sums import row_sums
from nishimori._rows.batch import Batch
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.observables import Observable
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray


@dataclass(frozen=True)
class ClusterSums:
    """Weighted sums of several numbers per row over each cluster, (numbers, clusters). Those of other rows add."""

    values: HostArray

    def __add__(self, other: "ClusterSums") -> "ClusterSums":
        return ClusterSums(self.values + other.values)

    @property
    def products(self) -> HostArray:
        """The sums of products over clusters, which stand for Σw²·g_a·g_b over independent rows."""
        products: HostArray = self.values @ self.values.T
        return products


def cluster_sums(batch: Batch, rows: Sequence[Array]) -> ClusterSums:
    """Sums of several numbers per row, with their weights, over the clusters of a batch."""
    weights = arrays.on_host(batch.weights)
    return weighted_sums(batch, [weights * arrays.on_host(each) for each in rows])


def weighted_sums(batch: Batch, rows: Iterable[HostArray]) -> ClusterSums:
    """Sums over the clusters of a batch, of numbers per row that are already multiplied by the weights."""
    assert batch.clusters is not None, "asked for only where there are clusters"
    codes, number = batch.clusters.codes, batch.clusters.number
    return ClusterSums(np.stack([np.bincount(codes, each, number) for each in rows]))


@dataclass(frozen=True)
class ClusterGaps:
    """The pass that sums the gaps of several observables over each cluster, each at one β."""

    wanted: tuple[tuple[Observable, float], ...]

    def __call__(self, batch: Batch) -> ClusterSums:
        values = []
        for observable, beta in self.wanted:
            rows = observable._on(batch)
            gibbs = Gibbs(batch, beta, None if rows.uses_tables else row_sums(batch, (beta,), rows.powers))
            values.append(rows.value(gibbs, rows.observed(gibbs)))
        return cluster_sums(batch, values)
