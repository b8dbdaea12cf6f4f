"""Sums over resampled rows: random weights times numbers per row, from one pass for all resamples.

A resample is drawn by giving each row, or each cluster of rows, a random whole weight: how often it is in the resample. The
weights come from Poisson's distribution with mean 1, so that rows need not know of each other, or of how many there are. Those
of a run of 512 rows follow from the seed and the number of the run alone: neither threads nor sizes of blocks change a digit.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from math import exp, factorial

import numpy as np
from threadpoolctl import threadpool_limits

from nishimori._rows.batch import Batch, Clusters
from nishimori._rows.rows import Rows
from nishimori._sums.spread import ClusterSums, weighted_sums
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

Columns = Callable[[Batch], HostArray]
"""Some numbers per row of a batch, (columns, rows)."""

# Rows, or clusters, whose weights are drawn together. With 1000 resamples they take 4 MB, and 3 ms to draw and multiply.
_RUN = 512

# Poisson's probabilities in units of 2**-16: a weight costs two random bytes. The mean is 1 and the variance 0.99997.
_LEVELS = 2**16


@cache
def _poisson() -> HostArray:
    """The weight that each number of two bytes stands for."""
    shares = np.cumsum([exp(-1) / factorial(k) for k in range(20)])
    return np.searchsorted(shares, (np.arange(_LEVELS) + 0.5) / _LEVELS).astype(np.float64)


def weights_of(run: int, draws: Sequence[int] | HostArray, seed: int) -> HostArray:
    """The weights of one run of rows in some of the resamples, (resamples, 512)."""
    stream = np.random.PCG64(np.random.SeedSequence((seed, run)))
    drawn = stream.random_raw((max(draws) + 1) * _RUN // 4).view(np.uint16).reshape(-1, _RUN)
    weights: HostArray = _poisson()[drawn[draws]]
    return weights


def resampled_sums(data: Rows, columns: Columns, draws: HostArray, *, seed: int, n_jobs: int | None) -> HostArray:
    """The sums of some numbers per row, (resamples, columns), over each of the resamples whose numbers are ``draws``.

    Where the data have clusters these are resampled, with all of their rows. The numbers must include the weights of rows.
    """

    def of_run(number: int, values: HostArray) -> HostArray:
        product: HostArray = weights_of(number, draws, seed)[:, : values.shape[1]] @ values.T
        return product

    n_threads = n_jobs or os.cpu_count() or 1
    total: HostArray | None = None
    pending: deque[Future[HostArray]] = deque()
    # Each thread may use one core only: BLAS would divide a sum differently among more.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
        try:
            for number, values in enumerate(_runs(data, columns)):
                pending.append(pool.submit(of_run, number, values))
                if len(pending) > 2 * n_threads:
                    done = pending.popleft().result()
                    total = done if total is None else total + done
            for future in pending:
                total = future.result() if total is None else total + future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    assert total is not None, "a fit before has found rows"
    return total


class ResampledRows(Rows):
    """One resample as rows of their own: each row, or each cluster with all of its rows, as often as it was drawn.

    Copies of a cluster are different clusters. The resample is the one with the same number in `resampled_sums`.
    """

    def __init__(self, data: Rows, draw: int, seed: int) -> None:
        self._data, self._draw, self._seed = data, draw, seed
        self._copies: list[HostArray] = []  # of each row or cluster, by runs
        self.groups, self.floor = data.groups, data.floor
        self._by_cluster: HostArray | None = None
        clusters = data.clusters
        if clusters is not None:
            self._by_cluster = self._copies_of(0, clusters.number)
            codes, copy = self._cluster_copies(clusters.codes)
            self._first = np.cumsum(self._by_cluster) - self._by_cluster
            self.clusters = Clusters(self._first[codes] + copy, int(self._by_cluster.sum()))

    @property
    def n_classes(self) -> int:
        return self._data.n_classes

    @property
    def n_rows(self) -> None:
        return None

    def _copies_of(self, start: int, stop: int) -> HostArray:
        """How often the rows, or clusters, from ``start`` to ``stop`` were drawn."""
        while len(self._copies) * _RUN < stop:
            self._copies.append(weights_of(len(self._copies), [self._draw], self._seed)[0].astype(np.int64))
        runs = self._copies[start // _RUN : -(-stop // _RUN)]
        first = start // _RUN * _RUN
        return np.concatenate([*runs, np.empty(0, np.int64)])[start - first : stop - first]

    def _cluster_copies(self, codes: HostArray) -> tuple[HostArray, HostArray]:
        """The clusters of some rows, each row as often as it was drawn, and the number of each copy from 0."""
        assert self._by_cluster is not None, "asked for only where there are clusters"
        times = self._by_cluster[codes]
        starts = np.repeat(np.cumsum(times) - times, times)
        return np.repeat(codes, times), np.arange(len(starts)) - starts

    def __iter__(self) -> Iterator[Batch]:
        place = 0
        for batch in self._data:
            codes = None if batch.clusters is None else batch.clusters.codes
            stop = place + batch.n_rows
            if codes is None or self._by_cluster is None:
                times, clusters = self._copies_of(place, stop), None
            else:
                times, (drawn, copy) = self._by_cluster[codes], self._cluster_copies(codes)
                clusters = Clusters(self._first[drawn] + copy, int(self._by_cluster.sum()))
            place = stop
            index = np.repeat(np.arange(len(times)), times)
            if len(index):
                yield batch.at_rows(index, clusters)


def _runs(data: Rows, columns: Columns) -> Iterator[HostArray]:
    """The numbers of the rows, or of their sums over clusters, 512 at a time whatever the batches are."""
    if data.clusters is not None:
        sums = data.gather(partial(_sum_clusters, columns)).values
        for start in range(0, sums.shape[1], _RUN):
            yield sums[:, start : start + _RUN]
        return
    left: HostArray | None = None
    for batch in data:
        table = columns(batch)
        values = table if left is None else np.concatenate([left, table], axis=1)
        whole = values.shape[1] // _RUN * _RUN
        for start in range(0, whole, _RUN):
            yield values[:, start : start + _RUN]
        left = values[:, whole:]
    if left is not None and left.shape[1]:
        yield left


def _sum_clusters(columns: Columns, batch: Batch) -> ClusterSums:
    """The pass that sums some numbers per row over each cluster."""
    return weighted_sums(batch, columns(batch))


def on_host(rows: Sequence[object], weights: object) -> HostArray:
    """Numbers per row times the weights of the rows, as one array in memory."""
    table: HostArray = np.stack([arrays.on_host(numbers) for numbers in rows]) * arrays.on_host(weights)
    return table
