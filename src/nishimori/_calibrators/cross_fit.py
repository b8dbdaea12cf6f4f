"""Cross-fitting: samples in memory, their folds, and what maps that were fitted to the other folds make of each sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.rows import Rows
from nishimori._rows.scores import Scores
from nishimori._support.arrays import HostArray, on_host
from nishimori._support.numbers import whole
from nishimori.errors import DegenerateDataError
from nishimori.maps.map import Map, apply_checked

MOST_NUMBERS = 2**26
"""This many logits are kept in memory at most: 512 MiB of float64. Of more data, a random part of the rows is kept."""


def fold_numbers(
    labels: HostArray, n_folds: int, units: HostArray | None = None, *, seed: int = 0, unit_name: str = "clusters"
) -> HostArray:
    """The fold of each sample: each class is spread evenly over the folds, and samples that share a unit stay together.

    The folds are random, and the same for the same ``seed``. Classes may have fewer samples than there are folds.

    Parameters
    ----------
    labels : array of shape (n_samples,)
        The true class of each sample, as a whole number.
    n_folds : int
        At least 2; messages call it ``cv``.
    units : array of shape (n_samples,), optional
        Which samples belong together, as any number; each is on its own by default.
    seed : int
        Another one gives other folds.
    unit_name : str
        What messages call the units.

    Raises
    ------
    DegenerateDataError
        If there are fewer samples, or units, than folds.
    """
    n_folds = whole("cv", n_folds, 2)
    n_units = len(labels) if units is None else len(np.unique(units))
    if n_units < n_folds:
        few = "samples" if units is None else unit_name
        raise DegenerateDataError(
            "cv", f"be at most the number of {few}, {n_units}", got=n_folds, remedy=f"Use fewer folds or more {few}."
        )
    # Units that are sorted by class are dealt out like cards, so that two units of a class are never in the same fold as long
    # as another fold has none. Large ones come first, so that the folds end up about equally large.
    members, classes, sizes = _unit_classes(labels, units)
    order = np.lexsort((np.random.default_rng(seed).random(len(sizes)), -sizes, classes))
    dealt = np.empty(len(sizes), dtype=np.int64)
    dealt[order] = np.arange(len(sizes)) % n_folds
    folds: HostArray = dealt[members]
    return folds


def _unit_classes(labels: HostArray, units: HostArray | None) -> tuple[HostArray, HostArray, HostArray]:
    """The number of the unit of each sample, and of each unit its most frequent class and its size."""
    if units is None:
        return np.arange(len(labels)), np.asarray(labels), np.ones(len(labels), dtype=np.int64)
    _, members = np.unique(units, return_inverse=True)
    sizes = np.bincount(members)
    pairs, counts = np.unique(np.stack([members, np.asarray(labels)]), axis=1, return_counts=True)
    order = np.lexsort((-counts, pairs[0]))
    first = order[np.searchsorted(pairs[0][order], np.arange(len(sizes)))]
    return members, pairs[1][first], sizes


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
        The number of the cluster of each sample, if that was said.
    groups : Groups or None
        The group of each sample, if that was said.
    counts : bool
        Whether a weight of w stands for w independent samples.
    share : float
        The share of the rows that was kept: 1 unless there are more than fit in memory.
    """

    logits: HostArray
    labels: HostArray
    weights: HostArray
    clusters: HostArray | None = None
    groups: Groups | None = None
    counts: bool = False
    share: float = 1.0

    @property
    def n_samples(self) -> int:
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        return int(self.logits.shape[1])

    @property
    def n_units(self) -> int:
        """How many clusters there are, or samples, if those are on their own: as many folds are possible."""
        return self.n_samples if self.clusters is None else len(np.unique(self.clusters))

    def folds(self, n_folds: int, *, seed: int = 0) -> HostArray:
        """The fold of each sample, see `fold_numbers`; those of a cluster stay together."""
        return fold_numbers(self.labels, n_folds, self.clusters, seed=seed)

    def rows(self, chosen: HostArray | slice = slice(None)) -> ArrayRows:
        """Some of the samples, by a mask or by their numbers, as data to fit to: with what they say of clusters and groups."""
        return self._rows_of(self.logits[chosen], chosen)

    def rows_with(self, logits: HostArray, chosen: HostArray | slice = slice(None)) -> ArrayRows:
        """Some of the samples, or all, with other logits, such as those of `out_of_fold_logits`."""
        return self._rows_of(logits, chosen)

    def groups_of(self, chosen: HostArray | slice) -> Groups | None:
        """The groups of some samples."""
        return None if self.groups is None else self.groups.at_rows(chosen)

    def _rows_of(self, logits: HostArray, chosen: HostArray | slice) -> ArrayRows:
        clusters = groups = None
        if self.clusters is not None:  # numbered again: not all of them need be there
            numbers, codes = np.unique(self.clusters[chosen], return_inverse=True)
            clusters = Clusters(codes, len(numbers))
        if self.groups is not None:
            present, codes = np.unique(self.groups.codes[chosen], return_inverse=True)
            groups = Groups(codes, tuple(self.groups.names[each] for each in present))
        found = ArrayRows(Scores(logits, "logits"), self.labels[chosen], self.weights[chosen], clusters=clusters, groups=groups)
        found.counts = self.counts
        return found


def collect_samples(data: Rows, most_numbers: int | None = None) -> CollectedSamples:
    """Rows of any kind as samples in memory, in one pass.

    If they have more logits than ``most_numbers``, by default `MOST_NUMBERS`, a random part of the rows is kept: the same
    one for the same data in the same batches.
    """
    most_rows = max(1, (MOST_NUMBERS if most_numbers is None else most_numbers) // data.n_classes)
    found = data.gather(_Keep(most_rows, may_be_more=data.n_rows is None or data.n_rows > most_rows))
    logits, labels, weights, clusters, groups = (np.concatenate(each) for each in zip(*found.parts, strict=True))
    named = data.groups
    return CollectedSamples(
        logits,
        labels,
        weights,
        None if clusters[0] < 0 else clusters,
        None if named is None else Groups(groups, named.names),
        data.counts,
        found.share,
    )


@dataclass(frozen=True)
class _Keep:
    """The pass that keeps rows, at most this many."""

    most_rows: int
    may_be_more: bool

    def __call__(self, batch: Batch) -> "_KeptRows":
        nothing = np.full(batch.n_rows, -1)
        part = (
            on_host(batch.logits),
            on_host(batch.labels),
            on_host(batch.weights),
            nothing if batch.clusters is None else batch.clusters.codes,
            nothing if batch.groups is None else batch.groups.codes,
        )
        draws = _draws(part[0]) if self.may_be_more else np.zeros(batch.n_rows)
        return _KeptRows(self.most_rows, 1.0, (part,), (draws,)).limited()


@dataclass(frozen=True)
class _KeptRows:
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
        found = self
        while sum(map(len, found.draws)) > self.most_rows:
            found = found._below(found.share / 2)
        return found

    def _below(self, share: float) -> Self:
        if share == 1:
            return self
        kept = [each < share for each in self.draws]
        parts = tuple(tuple(each[mask] for each in part) for part, mask in zip(self.parts, kept, strict=True))
        draws = tuple(each[mask] for each, mask in zip(self.draws, kept, strict=True))
        return type(self)(self.most_rows, share, parts, draws)


def _draws(logits: HostArray) -> HostArray:
    """A number from 0 to 1 for each row that looks random and depends on its logits and its place in the batch."""
    odd = np.random.default_rng(0).integers(2**63, size=logits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (np.ascontiguousarray(logits, dtype=np.float64).view(np.uint64) * odd).sum(axis=1, dtype=np.uint64)
    # Trees and neighbours give many rows the same scores: these must not be kept or left out together.
    mixed += np.arange(len(logits), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the last steps of SplitMix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: HostArray = (mixed ^ (mixed >> np.uint64(31))) / 2.0**64
    return found


def fold_maps(samples: CollectedSamples, folds: HostArray, fit: Callable[[Rows, str], Map]) -> list[Map]:
    """The map of each fold: what ``fit`` makes of the rows of all other folds, and of words for messages on which those are."""
    n_folds = int(folds.max()) + 1
    return [fit(samples.rows(folds != fold), f"all but fold {fold + 1} of {n_folds}") for fold in range(n_folds)]


def out_of_fold_logits(samples: CollectedSamples, folds: HostArray, maps: Sequence[Map]) -> HostArray:
    """The logits of each sample, mapped in float64 by the map of its fold."""
    found = np.empty((samples.n_samples, samples.n_classes))
    for fold, map_ in enumerate(maps):
        held = folds == fold
        found[held] = mapped_logits(map_, samples.logits[held], samples.groups_of(held))
    return found


def mapped_logits(map_: Map, logits: HostArray, groups: Any = None) -> HostArray:
    """What a map makes of logits, computed in float64."""
    found: HostArray = apply_checked(map_, logits.astype(np.float64), groups)
    return found
