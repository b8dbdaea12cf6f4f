"""The work on one chunk of rows, where the chunk is: read, check and sum it, and return only sums.

These functions run on the workers of a cluster. What they refuse is returned as a value, because the first chunk that is wrong
must be the one that is named, and not the one whose worker was fastest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, prod
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows, ReadOptions
from nishimori._rows.batch import Names
from nishimori._rows.pieces import ReadingTotals
from nishimori._rows.scores import ScoreRange
from nishimori._sums.passes import Sums
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.warnings import Notice, collect_notices
from nishimori.errors import InputError


@dataclass(frozen=True)
class Part:
    """The sums of some chunks, or the error of one of them; ``+`` adds later chunks.

    ``sums`` are None without a row of positive weight. ``score_range`` is empty in later passes, or if it is known what the
    scores are. ``notices`` are warnings for the user.
    """

    sums: Any = None
    totals: ReadingTotals = field(default_factory=ReadingTotals)
    refusal: InputError | None = None
    notices: tuple[Notice, ...] = ()
    score_range: ScoreRange = field(default_factory=ScoreRange)

    def __add__(self, later: "Part") -> "Part":
        if self.refusal is not None:
            return self
        if later.refusal is not None:
            return later
        sums = self.sums if later.sums is None else later.sums if self.sums is None else self.sums + later.sums
        notices = self.notices + tuple(notice for notice in later.notices if notice not in self.notices)
        return Part(sums, self.totals + later.totals, notices=notices, score_range=self.score_range + later.score_range)


@dataclass(frozen=True)
class ChunkReading:
    """The result of ``function`` on the rows of a chunk. ``other_names`` name the arguments after the scores.

    ``trusted`` is what the first pass has found, if this is a later one. ``names`` are all clusters and all groups, in order,
    by which chunks number theirs.
    """

    function: Callable[[ArrayRows], Any]
    meaning: ReadOptions
    other_names: tuple[str, ...]
    n_classes: int
    n_rows: int | None
    trusted: ReadingTotals | None = None

    def __call__(self, scores: Any, *values: Any, names: Mapping[str, Names]) -> Part:
        *others, numbers, slices = values
        try:
            with collect_notices() as notices:
                rows = self._rows(scores, dict(zip(self.other_names, others, strict=True)), slices, names)
                if not rows:
                    return Part()
                sums = self.function(rows) if rows.weights.any() else None
                totals = ReadingTotals.from_rows(rows, self.trusted, are_computed=True)
                # What the scores are is judged after the first pass.
                score_range = None if self.trusted is not None else self.meaning.range_of(rows.scores, rows.weights)
            return Part(sums, totals, notices=tuple(notices), score_range=score_range or ScoreRange())
        except InputError as error:
            return Part(refusal=error.changed(where=chunk_name(numbers, slices, scores)))
        except Exception as error:
            error.add_note(f"nishimori was reading {chunk_name(numbers, slices, scores)}.")
            raise

    def _rows(
        self, scores: Array, others: Mapping[str, Any], slices: Sequence[slice], names: Mapping[str, Names]
    ) -> ArrayRows | None:
        """The rows of a chunk with all their data; None if there are none."""
        leading = tuple(scores.shape) if len(scores.shape) == 1 else tuple(scores.shape[:-1])
        _refuse_other_lengths(leading, others, self.meaning)
        if not prod(leading):
            return None
        # Positions of several dimensions count from the start of the chunk, which may not be the start of a sequence.
        first_row = int(slices[0].start) if len(slices) == 1 and slices[0].start > 0 else 0
        weights = others.get("sample_weight")
        table = self.meaning.scores(scores)
        rows = self.meaning.rows(table, others["labels"], weights, first_row, self.n_classes, self.n_rows)
        for name, all_names in names.items():
            values = arrays.on_host(others[name]).reshape(-1)
            codes = all_names.codes_of(values, rows.weights, f"Call `{name}.persist()` first.")
            setattr(rows, name, all_names.with_codes(codes))
        if self.trusted is not None:
            rows.trust(None if self.trusted.has_masks else False)
        return rows


def names_in_chunk(wanted: tuple[str, ...], other_names: tuple[str, ...], meaning: ReadOptions, *values: Any) -> Part:
    """The names of the clusters and groups of a chunk, in the order in which ``wanted`` names them."""
    *arrays_, numbers, slices = values
    others = dict(zip(other_names, arrays_, strict=True))
    first = others[wanted[0]]
    if not first.size:
        return Part()
    try:
        labels = np.asarray(others["labels"]).reshape(-1)
        _, counted = meaning.labelling.counted_labels(labels, first.shape)
        if "sample_weight" in others:
            counted &= np.asarray(others["sample_weight"]).reshape(-1) != 0
        own_names = []
        for name in wanted:
            what, flat = name.removesuffix("s"), np.asarray(others[name]).reshape(-1)
            own_names.append(Names.of_rows(what, flat, counted, only_counted=what == "cluster")[0])
        return Part(Sums(tuple(own_names)))
    except InputError as error:
        return Part(refusal=error.changed(where=chunk_name(numbers, slices, first)))


def pick_rows(block: Any, size: int, n_axes: int, block_id: tuple[int, ...] = ()) -> HostArray:
    """``size`` random rows of a chunk, the same ones each time; its number is that among the chunks of the sample.

    Their shape is that of the chunk with its leading dimensions made one, so (size, 1, n_classes) of three.
    """
    leading = block.shape[:n_axes]
    chosen = np.sort(np.random.default_rng(block_id[:n_axes]).choice(prod(leading), size, replace=False))
    picked = np.asarray(block)[np.unravel_index(chosen, leading)]
    return picked.reshape(size, *(1,) * (n_axes - 1), *picked.shape[1:])


def _refuse_other_lengths(leading: tuple[int, ...], others: Mapping[str, Any], meaning: ReadOptions) -> None:
    """Refuse labels, weights, clusters or groups of another length than the chunk; known only here for some arrays."""
    for name, values in others.items():
        if tuple(values.shape) != leading:
            called = meaning.names[1] if name == "labels" else name
            raise InputError(
                called,
                f"have chunks of the same lengths as `{meaning.names[0]}`",
                got=f"shape {tuple(values.shape)} for {leading}",
                remedy="Call `compute_chunk_sizes()` of both first.",
            )


def chunk_name(numbers: tuple[int, ...], slices: Sequence[slice], block: Array, *, counts_inside: bool = False) -> str:
    """The name of a chunk in messages; ``counts_inside`` if row numbers in them count from the start of the chunk."""
    is_known = not any(isnan(along.stop) for along in slices)
    first = tuple(int(along.start) for along in slices) if is_known else ()
    if len(first) == 1 and not counts_inside:
        return f"Chunk {numbers[0]} (rows {first[0]} to {first[0] + len(block) - 1})"
    number, start = (str(values[0]) if len(values) == 1 else str(values) for values in (numbers, first))
    return f"Chunk {number}{f', which begins at row {start}' if is_known else ''} (rows in it count from 0)"
