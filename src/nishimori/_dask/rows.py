"""Rows in Dask arrays: each chunk is summed where it is, and only sums are returned.

One pass is one graph: a task per chunk of the logits, and a tree that adds the sums of chunks in their order. Its shape
depends on the chunks alone, so that the digits do not depend on the scheduler, nor on which worker computes what, nor on how
often. Labels, weights, clusters and groups are cut as the logits are; the logits themselves are not cut in another way.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import isnan, prod
from operator import methodcaller
from typing import Any

import numpy as np

import dask
from nishimori._dask.chunks import Cut, align_chunks, with_whole_rows
from nishimori._dask.tasks import ChunkReading, names_in_chunk
from nishimori._rows.array_rows import ArrayRows, ReadOptions, classes_last
from nishimori._rows.batch import Batch, Clusters, Names
from nishimori._rows.entry import Passed
from nishimori._rows.labels import check_number_of_clusters, class_labels, flat_labels, refuse_name
from nishimori._rows.pieces import ReadingTotals
from nishimori._rows.rows import R, Rows, T, most_copied, without_rows
from nishimori._rows.scores import scores_of
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import numeric
from nishimori._support.progress import Report, silent
from nishimori._support.warnings import notice
from nishimori.errors import InputError, NoRowsError

# Chunks of a sample, and the largest part of all chunks that is read for one.
_CHUNKS, _PART = 8, 1 / 4

_PERSIST = "Call `persist()` first, which computes the chunks once."


class DaskRows(Rows):
    """Rows in Dask arrays. Only sums reach the caller.

    ``cut`` holds logits, labels and whatever else there is in the same chunks; ``names`` are all clusters and all groups, in
    order. The values of ``is_kept`` data are in memory, wherever that is, so that reading them costs little.
    """

    n_classes: int = 0
    n_rows: int | None = None

    def __init__(self, cut: Cut, meaning: ReadOptions, names: Mapping[str, Names], *, is_kept: bool = False) -> None:
        self.cut = cut
        self.n_classes = 2 if cut.logits.ndim == 1 else int(cut.logits.shape[-1])
        self.n_rows = cut.n_rows  # or None, before the first pass
        self.meaning = meaning
        self.floor, self.input = meaning.floor, meaning.input
        self._names = names
        self._is_kept = is_kept
        self._totals: ReadingTotals | None = None  # by the first pass
        if "clusters" in names:
            # Only their number is asked for here; each chunk has the codes of its own rows.
            codes = np.broadcast_to(np.int64(0), (cut.n_rows or 0,))
            self.clusters = Clusters(codes, len(names["clusters"].values), meaning.by_image)
        if "groups" in names:
            self.groups = names["groups"].with_codes(np.arange(len(names["groups"].values)))

    def __iter__(self) -> Iterator[Batch]:
        raise InputError(
            self.meaning.names[0],
            "not be a Dask array here, because this needs each row and not only sums",
            remedy="Pass `clusters`, whose sums are enough, or arrays in memory.",
        )

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows, from one graph."""
        sums: T = self._read(methodcaller("gather", pass_), report)
        return sums

    def call_with_rows(self, function: Callable[[Rows], R]) -> R:
        """The result of ``function`` on a sample, which is one chunk: a single task computes it."""
        if not self._is_kept:
            return function(self)
        answer: R = self._read(function, silent)
        return answer

    def _read(self, function: Callable[[ArrayRows], Any], report: Report) -> Any:
        """The sum of ``function`` over chunks, after a comparison of totals with an earlier graph."""
        reading = ChunkReading(function, self.meaning, tuple(self.cut.others), self.n_classes, self.n_rows, self._totals)
        part = self.cut.sum_over_chunks(reading, names=dask.delayed(self._names, pure=False, traverse=False))
        for message, category in part.notices:
            notice(message, category)
        if self._totals is not None:
            remedy = "If chunks are drawn at random, call `persist()` first."
            self._totals.refuse_change(part.totals, self.meaning.names[0], rows_remedy=remedy, logits_remedy=_PERSIST)
        if part.sums is None:
            raise _nothing_counts(self.meaning)
        if self._totals is None and not self._is_kept:  # those of a sample do not tell
            self.score_range = part.score_range
            self.meaning.check_range(part.score_range)
        self._totals = self._totals or part.totals
        self.n_rows = self._totals.n_rows
        report("Reading", part.totals.n_rows, part.totals.n_rows)
        return part.sums

    def sample(self, size: int) -> "DaskRows | None":
        """About ``size`` rows from some chunks, which stay where they were computed; None if there are few chunks."""
        if not self.cut.is_known:
            return None
        size = most_copied(size, self.n_classes)  # they are together on one worker
        first, *inner = self.cut.leading
        full = [number for number, length in enumerate(first) if 2 * len(first) * length >= sum(first)]
        n_read = len(full)
        if not self._is_kept:
            n_read = min(int(_PART * n_read), max(_CHUNKS, -(-size * len(first) // (self.cut.n_rows or 1))))
        if not n_read:
            return None
        chunks = np.sort(np.random.default_rng(0).choice(full, n_read, replace=False)).tolist()
        n_parts = n_read * prod(len(sizes) for sizes in inner)
        return DaskRows(self.cut.random_rows(chunks, -(-size // n_parts)), self.meaning, self._names, is_kept=True)


def open_dask(passed: Passed) -> DaskRows:
    """Open Dask arrays; all but the logits may be NumPy arrays."""
    logits, meaning = passed.logits, passed.meaning
    if meaning.class_axis != -1:
        logits = classes_last(logits, meaning.class_axis, meaning.names[0], by_image=meaning.by_image)
        meaning = replace(meaning, class_axis=-1, by_image=meaning.by_image and logits.ndim > 2)
    _check(logits, passed.labels, meaning)
    cut = Cut(with_whole_rows(logits), {})
    parts = {"clusters": _images(logits) if meaning.by_image else passed.clusters, "groups": passed.groups}
    for name, value in parts.items():
        refuse_name(value, name.removesuffix("s"))
    per_row = {"labels": passed.labels, "sample_weight": passed.sample_weight, **parts}
    others = {
        name: align_chunks(values, cut, meaning.names[1] if name == "labels" else name, meaning.names[0])
        for name, values in per_row.items()
        if values is not None
    }
    cut = replace(cut, others=others)
    return DaskRows(cut, meaning, _find_names(cut, tuple(name for name in parts if name in others), meaning))


def _images(logits: Any) -> HostArray:
    """The number of each image, which is the cluster of its pixels."""
    if isnan(logits.shape[0]):
        remedy = "Call `compute_chunk_sizes()` on the logits first."
        raise InputError("clusters", "be passed where the number of images is not known", remedy=remedy)
    return np.arange(logits.shape[0])


def _check(logits: Any, labels: Any, meaning: ReadOptions) -> None:
    """Refuse what cannot be scores, before anything is computed."""
    name = meaning.names[0]
    if labels is None:
        flat_labels(None, None, meaning.names[1])  # type: ignore[arg-type]  # raises
    dtype = numeric(np.empty(0, logits.dtype), name).dtype
    *rows, n_columns = logits.shape if logits.ndim > 1 else (*logits.shape, 1)
    if isnan(n_columns):
        raise InputError(name, "have a known number of classes", remedy=f"Call `{name}.compute_chunk_sizes()` first.")
    n_rows = 1 if any(map(isnan, rows)) else prod(rows)
    shape = (n_rows,) if logits.ndim == 1 else (n_rows, n_columns)
    scores = scores_of(np.broadcast_to(np.zeros((), dtype), shape), input=meaning.input, name=name, floor=meaning.floor)
    if meaning.classes is not None:
        class_labels(meaning.classes, scores.n_classes)
    if meaning.labelling.shift_labels and logits.ndim > 2 and logits.numblocks[-2] > 1:
        raise InputError(
            "shift_labels",
            "be left out where the tokens of a sequence are in several chunks",
            got=f"{logits.numblocks[-2]} chunks",
            remedy="Put them into one chunk, or shift the labels yourself.",
        )


def _find_names(cut: Cut, wanted: tuple[str, ...], meaning: ReadOptions) -> dict[str, Names]:
    """All clusters and groups, from one graph that does not touch the logits."""
    if not wanted:
        return {}
    part = cut.sum_over_chunks(partial(names_in_chunk, wanted, tuple(cut.others), meaning), scores=False)
    if part.sums is None:
        raise _nothing_counts(meaning)
    names = dict(zip(wanted, part.sums.items, strict=True))
    if "clusters" in names:
        number = len(names["clusters"].values)
        if not number:
            raise _nothing_counts(meaning)
        check_number_of_clusters(number, are_images=meaning.by_image)
    return names


def _nothing_counts(meaning: ReadOptions) -> NoRowsError:
    """The error if no row has a positive weight."""
    return meaning.labelling.no_rows_error(meaning.names[1]) or without_rows()
