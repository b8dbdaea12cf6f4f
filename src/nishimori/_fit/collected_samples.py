"""Samples in memory, collected from rows of any kind, of which some can be fitted to again and again."""

from collections.abc import Callable
from dataclasses import dataclass
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
"""This many logits are kept in memory at most: 512 MiB of float64. Of more data, a random part of the rows is kept."""


@dataclass(frozen=True, eq=False)
class CollectedSamples:
    """Samples in memory, of which some can be had as `Rows`.

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
        logits: HostArray = apply_checked(map_, self.logits[chosen].astype(np.float64), self.groups_of(chosen))
        return logits


def collect_samples(data: Rows, most_numbers: int | None = None, *, in_order: bool = False) -> CollectedSamples:
    """Rows of any kind as samples in memory, in one pass.

    If they have more logits than ``most_numbers``, by default `MOST_NUMBERS`, a random part of the rows is kept: the same
    one for the same data in the same batches. With ``in_order`` it is the same one however the rows are cut into batches, which
    must then be read in their order and in this process.
    """
    most_rows = max(1, (MOST_NUMBERS if most_numbers is None else most_numbers) // data.n_classes)
    draw: Callable[[int], HostArray] | None = np.zeros
    if data.n_rows is None or data.n_rows > most_rows:
        draw = np.random.default_rng(0).random if in_order else None
    kept = data.gather(partial(_keep, most_rows=most_rows, draw=draw))
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
        share = min(self.share, other.share)
        return type(self)(self.most_rows, share, self.parts + other.parts, self.draws + other.draws)._below(share).limited()

    def limited(self) -> Self:
        """Half of the rows, or half of that, and so on, until they are no more than allowed."""
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
        return type(self)(self.most_rows, share, parts, draws)


def _keep(batch: Batch, *, most_rows: int, draw: Callable[[int], HostArray] | None) -> _DrawnRows:
    """The pass that keeps rows, at most this many. ``draw`` gives their random numbers, by default the rows themselves."""
    nothing = np.full(batch.n_rows, -1)
    part = (
        on_host(batch.logits),
        on_host(batch.labels),
        on_host(batch.weights),
        nothing if batch.clusters is None else batch.clusters.codes,
        nothing if batch.groups is None else batch.groups.codes,
    )
    draws = _draws(part[0]) if draw is None else draw(batch.n_rows)
    return _DrawnRows(most_rows, 1.0, (part,), (draws,)).limited()


def _draws(logits: HostArray) -> HostArray:
    """A number from 0 to 1 for each row that looks random and depends on its logits and its place in the batch."""
    odd = np.random.default_rng(0).integers(2**63, size=logits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (np.ascontiguousarray(logits, dtype=np.float64).view(np.uint64) * odd).sum(axis=1, dtype=np.uint64)
    # Trees and neighbours give many rows the same scores: these must not be kept or left out together.
    mixed += np.arange(len(logits), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the last steps of SplitMix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    numbers: HostArray = (mixed ^ (mixed >> np.uint64(31))) / 2.0**64
    return numbers
