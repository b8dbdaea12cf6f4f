"""Samples collected in memory from rows of any kind, for repeated fits to subsets."""

import zlib
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.rows import Rows
from nishimori._rows.scores import Scores
from nishimori._support.arrays import HostArray, on_host
from nishimori.maps.map import Map, apply_checked

MOST_NUMBERS = 2**26
"""The most logits that are kept in memory: 512 MiB of float64. Of more data, a random subset of rows is kept."""


@dataclass(frozen=True, eq=False)
class CollectedSamples:
    """Samples in memory, with subsets available as `Rows`.

    Attributes
    ----------
    logits : array of shape (n_samples, n_classes)
        Float32 or float64; where probabilities were passed, their logarithms. -inf masks a class.
    labels : array of shape (n_samples,)
        The column of the true class of each sample.
    weights : array of shape (n_samples,)
        Positive numbers.
    clusters : array of shape (n_samples,), or None
        The number of the cluster of each sample, if there are clusters.
    groups : Groups or None
        The group of each sample, if there are groups.
    counts : bool
        Whether a weight of w stands for w independent samples.
    """

    logits: HostArray
    labels: HostArray
    weights: HostArray
    clusters: HostArray | None = None
    groups: Groups | None = None
    counts: bool = False

    @property
    def n_samples(self) -> int:
        return len(self.labels)

    def rows(self, chosen: HostArray | slice = slice(None), logits: HostArray | None = None) -> ArrayRows:
        """Some of the samples, by a mask or by their numbers, as data to fit to: with their clusters and groups.

        ``logits`` are others for these samples, such as calibrated ones.
        """
        clusters = None
        if self.clusters is not None:  # numbered again: not all of them need be there
            numbers, codes = np.unique(self.clusters[chosen], return_inverse=True)
            clusters = Clusters(codes, len(numbers))
        groups = None
        if self.groups is not None:
            present, codes = np.unique(self.groups.codes[chosen], return_inverse=True)
            groups = Groups(codes, tuple(self.groups.names[code] for code in present))
        scores = Scores(self.logits[chosen] if logits is None else logits, "logits")
        rows = ArrayRows(scores, self.labels[chosen], self.weights[chosen], clusters=clusters, groups=groups)
        rows.counts = self.counts
        return rows

    def groups_of(self, chosen: HostArray | slice) -> Groups | None:
        """The groups of some samples."""
        return None if self.groups is None else self.groups.at_rows(chosen)

    def mapped(self, map_: Map, chosen: HostArray | slice = slice(None)) -> HostArray:
        """The logits of some samples after a map, computed in float64."""
        return apply_checked(map_, self.logits[chosen].astype(np.float64), self.groups_of(chosen))


def collect_samples(data: Rows, most_numbers: int | None = None, *, in_order: bool = False) -> CollectedSamples:
    """Rows of any kind as samples in memory, in one pass.

    If they have more logits than ``most_numbers``, by default `MOST_NUMBERS`, a random part of the rows is kept: the same
    one for the same data in the same batches. With ``in_order`` it is the same one however the rows are cut into batches, which
    must then be read in their order and in this process.
    """
    most_rows = max(1, (MOST_NUMBERS if most_numbers is None else most_numbers) // data.n_classes)
    keeps_all = data.n_rows is not None and data.n_rows <= most_rows
    kept = data.gather(partial(_keep, most_rows, np.random.default_rng(0) if in_order or keeps_all else None))
    logits, labels, weights, clusters, groups = (np.concatenate(arrays) for arrays in zip(*kept.parts, strict=True))
    named = data.groups
    return CollectedSamples(
        logits,
        labels,
        weights,
        None if clusters[0] < 0 else clusters,
        None if named is None else Groups(groups, named.names),
        data.counts,
    )


@dataclass(frozen=True)
class _DrawnRows:
    """Rows that were kept, by part, and the random number of each, which is below ``share``."""

    most_rows: int
    share: float
    parts: tuple[tuple[HostArray, ...], ...]
    draws: tuple[HostArray, ...]

    def __add__(self, other: Self) -> Self:
        both = replace(self, parts=self.parts + other.parts, draws=self.draws + other.draws)
        return both._below(min(self.share, other.share)).limited()

    def limited(self) -> Self:
        """Halve the rows until they are no more than allowed."""
        kept = self
        while sum(map(len, kept.draws)) > self.most_rows:
            kept = kept._below(kept.share / 2)
        return kept

    def _below(self, share: float) -> Self:
        if share == 1:
            return self
        kept = [draws < share for draws in self.draws]
        parts = tuple(tuple(values[mask] for values in part) for part, mask in zip(self.parts, kept, strict=True))
        draws = tuple(numbers[mask] for numbers, mask in zip(self.draws, kept, strict=True))
        return replace(self, share=share, parts=parts, draws=draws)


def _keep(most_rows: int, rng: np.random.Generator | None, batch: Batch) -> _DrawnRows:
    """The pass that keeps at most this many rows. Random numbers come from ``rng``, or depend on the batch alone."""
    nothing = np.full(batch.n_rows, -1)
    part = (
        on_host(batch.logits),
        on_host(batch.labels),
        on_host(batch.weights),
        nothing if batch.clusters is None else batch.clusters.codes,
        nothing if batch.groups is None else batch.groups.codes,
    )
    own = rng or np.random.default_rng(zlib.crc32(part[0].astype(np.float64).tobytes()))
    return _DrawnRows(most_rows, 1.0, (part,), (own.random(batch.n_rows),)).limited()
