"""Rows with known probabilities for the most probable classes only, and a tail in place of all others.

The tail is taken as even, or as concentrated as it can be. Which of the two is nearer to the truth is not known, so that a
`TopKRows` itself cannot be read. It has rows for each completion, with which fits and error bars work as with any other.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from nishimori._rows.array_rows import clusters_of
from nishimori._rows.batch import Batch, Clusters
from nishimori._rows.entry import Passed
from nishimori._rows.labels import checked_weights, class_indices
from nishimori._rows.rows import Rows
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import percent
from nishimori._support.warnings import notice
from nishimori._top_k.top_k import ListedBatch, TopK
from nishimori._top_k.unlisted_mass import TailLevels, Tails
from nishimori.errors import InputError, InputWarning

# Rows per batch: a few tables of 20 columns stay in the cache.
_ROWS = 2**14

# Log-probabilities of this many rows are looked at, and this many values at least, to find out whether all are rounded to a
# number of decimals; in units of the last decimal they are whole numbers to within the precision of float32.
_LOOKED_AT, _ENOUGH_VALUES, _MOST_DECIMALS, _NEAR = 1000, 100, 5, 0.2

# If the tail is smaller than the rounding in more than this share of the samples, bounds are not to be relied on.
_MOST_SMALL = 0.1


# Labels of fewer samples may be far from the lists by chance. Those of the right samples are among the listed classes about as
# often as these are probable; a share this many times smaller is no model's, but another sample's.
_TELLING_ROWS, _HARDLY_LISTED = 100, 0.1

# Labels fit another sample better only if they do so by this many standard errors, at their largest.
_CLEARLY = 4


class TopKRows(Rows):
    """Rows of a `TopK` with their labels. Its completions are `Rows`, too; it cannot be read itself."""

    kind = "TopK"
    annex: ClassVar[str] = "nishimori._top_k"
    n_classes: int = 0
    n_rows: int = 0

    def __init__(
        self, lists: TopK, columns: HostArray, weights: HostArray, clusters: Clusters | None, labels_name: str = "labels"
    ) -> None:
        self.lists = lists
        self.clusters = clusters
        self.labels_name = labels_name
        (self._kept,) = np.nonzero(weights)
        self._columns, self._weights = columns, weights
        self.n_classes, self.n_rows = lists.vocabulary_size, len(self._kept)

    @property
    def even(self) -> "Completed":
        """The rows if all unlisted classes have equal probabilities."""
        return Completed(self, Tails.even_levels)

    @property
    def concentrated(self) -> "Completed":
        """The rows if the unlisted mass is in as few classes as possible."""
        return Completed(self, Tails.concentrated_levels)

    def gather(self, pass_: Any, report: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse: the answer depends on the tail."""
        raise InputError(
            "Top-k log-probabilities are for nishimori.temperatures, ExpectationConsistency, TemperatureScaling and "
            "nishimori.evaluate. For accuracy, confidence and ECE use `nishimori.evaluate`; other results depend on the "
            "classes that are not listed. Pass all logits."
        )

    def __iter__(self) -> NoReturn:
        """Refuse: the answer depends on the tail."""
        self.gather(None)

    @cached_property
    def blocks(self) -> list[ListedBatch]:
        """The rows, checked, some at a time."""
        kept = (self._kept[start : start + _ROWS] for start in range(0, self.n_rows, _ROWS))
        return [self.lists.batch(numbers, self._columns, self._weights, self.clusters) for numbers in kept]

    @cached_property
    def n_unknown(self) -> int:
        """How many true classes have an unknown log-probability."""
        return sum(int((~batch.is_known).sum()) for batch in self.blocks)

    @cached_property
    def n_listed(self) -> int:
        """How many classes each row lists at least."""
        return min(int(batch.n_listed.min()) for batch in self.blocks)

    @cached_property
    def rounding(self) -> float:
        """The mean relative change of class weights that rounding of log-probabilities can cause."""
        weights = self._weights[self._kept]
        peaks = np.concatenate([np.exp(batch.logits.max(axis=1)) for batch in self.blocks])
        return float(weights @ (self.lists.rounding(self._kept) / peaks) / weights.sum())

    def warn_of_rounding(self) -> None:
        """Warn if the rounding of the log-probabilities is larger than the mass that they leave for the tail."""
        first = self.lists.scores.array[self._kept[:_LOOKED_AT]].astype(np.float64)
        values = first[np.isfinite(first) & (first != 0)]
        steps = {decimals: values * 10.0**decimals for decimals in range(1, _MOST_DECIMALS + 1)}
        whole = (decimals for decimals, units in steps.items() if (abs(units - np.rint(units)) < _NEAR).all())
        decimals = next(whole, None)
        if decimals is None or len(values) < _ENOUGH_VALUES:
            return
        small = sum(int((batch.tails.masses < 0.5 * 10.0**-decimals).sum()) for batch in self.blocks) / self.n_rows
        if small > _MOST_SMALL:
            notice(
                f"`log_probabilities` are rounded to {decimals} decimals, and in {100 * small:.0f} % of the samples that is "
                "more than the probability of all classes that are not listed: the true temperature may lie outside the "
                "bounds. Pass log-probabilities with more digits.",
                InputWarning,
            )


class Completed(Rows):
    """The rows of a `TopKRows` under one completion."""

    n_classes: int = 0
    n_rows: int = 0

    def __init__(self, rows: TopKRows, complete: Callable[[Tails], TailLevels]) -> None:
        self._rows = rows
        self._complete = complete
        self.n_classes, self.n_rows = rows.n_classes, rows.n_rows
        self.clusters, self.counts = rows.clusters, rows.counts

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._rows.blocks:
            yield replace(batch, levels=self._complete(batch.tails))


def open_top_k(passed: Passed) -> TopKRows:
    """Open top-k log-probabilities."""
    meaning, lists = passed.meaning, passed.logits
    usual = {"input": None if meaning.input == "logits" else meaning.input, "floor": meaning.floor}
    for argument, value in {"groups": passed.groups, **usual}.items():
        if value is not None:
            raise InputError(argument, "be left out for top-k log-probabilities")
    if meaning.class_axis != -1:
        raise InputError("class_axis", f"be -1 where `{meaning.names[0]}` is a TopK", remedy="Put the classes last.")
    scores, name = lists.scores, meaning.names[1]
    labels, sample_weight = meaning.labelling.apply(passed.labels, passed.sample_weight, scores, name)
    meaning.labelling.refuse_no_rows(sample_weight, name, labels)
    weights = checked_weights(sample_weight, scores.n_samples, scores.row)
    clusters = scores.per_row(passed.clusters, "clusters")
    together = None if clusters is None else clusters_of(clusters, weights, scores.row)
    columns = class_indices(labels, meaning.classes, scores, name, weights)
    _refuse_misaligned(lists, columns, weights, name)
    return TopKRows(lists, columns, weights, together, name)


def _refuse_misaligned(lists: TopK, columns: HostArray, weights: HostArray, name: str) -> None:
    """Refuse labels that fit the list of a neighbouring sample better than their own, or that are hardly ever listed."""
    (kept,) = np.nonzero(weights)
    if len(kept) < _TELLING_ROWS:
        return
    logs, indices = lists.listed(kept)
    top, labels = indices[np.arange(len(kept)), logs.argmax(axis=1)], columns[kept]
    must, question = "be the true class of each sample", "Are the labels misaligned?"
    own = float((top == labels).mean())
    for shift, neighbour in ((1, "after"), (-1, "before")):
        there = float((top == np.roll(labels, shift)).mean())
        if there > 2 * own and there - own > _CLEARLY / np.sqrt(len(kept)):
            got = f"{percent(own)} at the most probable class of their sample, {percent(there)} at that of the one {neighbour}"
            remedy = (
                f"{question} Shift them by one position in each sequence, so that each is the class that its list predicts."
            )
            raise InputError(name, must, got=got, remedy=remedy)
    listed = float(((indices == labels[:, None]) & (logs > -np.inf)).any(axis=1).mean())
    mass = float(np.exp(logs).sum(axis=1).mean())
    if listed < _HARDLY_LISTED * mass:
        got = f"{percent(listed)} of them among the listed classes, whose probabilities sum to {percent(mass)}"
        remedy = f"{question} Each must be the class that its list predicts, numbered as `indices` are."
        raise InputError(name, must, got=got, remedy=remedy)
