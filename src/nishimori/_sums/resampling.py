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
from nishimori._sums.spread import weighted_sums
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
    return _poisson()[drawn[draws]]


def resampled_sums(data: Rows, columns: Columns, draws: HostArray, *, seed: int, n_jobs: int | None) -> HostArray:
    """The sums of some numbers per row, (resamples, columns), over each of the resamples whose numbers are ``draws``.

    Where the data have clusters these are resampled, with all of their rows. The numbers must include the weights of rows.
    """

    def of_run(number: int, values: HostArray) -> HostArray:
        return weights_of(number, draws, seed)[:, : values.shape[1]] @ values.T

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
    """One resample as rows: each row, or each cluster with all of its rows, as often as it was drawn.

    Copies of a cluster are different clusters. The resample is the one with the same number in `resampled_sums`.
    """

    def __init__(self, data: Rows, draw: int, seed: int) -> None:
        self._data, self._draw, self._seed = data, draw, seed
        self._times = np.empty(0, np.int64)  # how often each row or cluster was drawn, by runs
        self.groups, self.floor = data.groups, data.floor
        clusters = data.clusters
        if clusters is not None:
            times = self._times_of(np.arange(clusters.number))
            self._first, self._number = np.cumsum(times) - times, int(times.sum())
            index, copy = self._copies_of(clusters.codes)
            self.clusters = self._copied_clusters(clusters.codes[index], copy)

    @property
    def n_classes(self) -> int:
        return self._data.n_classes

    @property
    def n_rows(self) -> None:
        return None

    def _times_of(self, units: HostArray) -> HostArray:
        """How often some rows or clusters, by their numbers, were drawn."""
        missing = range(len(self._times) // _RUN, int(units.max(initial=-1)) // _RUN + 1)
        if missing:
            runs = (weights_of(run, [self._draw], self._seed)[0].astype(np.int64) for run in missing)
            self._times = np.concatenate([self._times, *runs])
        return self._times[units]

    def _copies_of(self, units: HostArray) -> tuple[HostArray, HostArray]:
        """The places of some rows, each as often as its unit was drawn, and the number of each copy from 0."""
        times = self._times_of(units)
        index = np.repeat(np.arange(len(units)), times)
        return index, np.arange(len(index)) - np.repeat(np.cumsum(times) - times, times)

    def _copied_clusters(self, codes: HostArray, copy: HostArray) -> Clusters:
        return Clusters(self._first[codes] + copy, self._number)

    def __iter__(self) -> Iterator[Batch]:
        place = 0
        for batch in self._data:
            units = np.arange(place, place + batch.n_rows) if batch.clusters is None else batch.clusters.codes
            place += batch.n_rows
            index, copy = self._copies_of(units)
            if len(index):
                yield batch.at_rows(index, None if batch.clusters is None else self._copied_clusters(units[index], copy))


def _runs(data: Rows, columns: Columns) -> Iterator[HostArray]:
    """The numbers of the rows, or of their sums over clusters, 512 at a time whatever the batches are."""
    if data.clusters is not None:
        sums = data.gather(partial(_sum_clusters, columns))
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


def _sum_clusters(columns: Columns, batch: Batch) -> HostArray:
    """The pass that sums some numbers per row over each cluster."""
    return weighted_sums(batch, columns(batch))


def on_host(rows: Sequence[object], weights: object) -> HostArray:
    """Numbers per row times the weights of the rows, as one array in memory."""
    return np.stack([arrays.on_host(numbers) for numbers in rows]) * arrays.on_host(weights)
