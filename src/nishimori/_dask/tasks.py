"""What is done with one chunk of rows, wherever the chunk is: it is read, checked and summed, and only the sums go on.

These functions run on the workers of a cluster. What they refuse is returned as a value, because the first chunk that is wrong
must be the one that is named, and not the one whose worker was fastest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows, ReadOptions
from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.labels import encode_values
from nishimori._rows.pieces import ReadingTotals
from nishimori._rows.scores import ScoreRange
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.warnings import Notice, collect_notices
from nishimori.errors import InputError

MOST_NUMBERS = 2**25
"""How many logits are put together at a time where classes are in several chunks: 128 MiB in single precision."""

PLACE = np.dtype([("number", np.int64), ("first", np.int64)])
"""The place of a chunk along one dimension: its number and its first row, or -1 where the sizes of chunks are not known."""


@dataclass(frozen=True)
class Part:
    """The sums of some chunks, or why one of them is refused. Those of later chunks add.

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
class Numbering:
    """All clusters and groups of the data, in order, by which chunks number theirs; None if there are none."""

    clusters: HostArray | None = None
    n_clusters: int = 0
    groups: HostArray | None = None
    group_names: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ChunkReading:
    """One reading of a chunk. ``other_names`` are of what is passed after the scores, and ``n_axes`` places come last.

    ``trusted`` is what the first pass has found, if this is a later one.
    """

    pass_: Callable[[Batch], Any]
    meaning: ReadOptions
    other_names: tuple[str, ...]
    n_axes: int
    n_classes: int
    n_rows: int | None
    trusted: ReadingTotals | None = None

    def __call__(self, scores: Any, *values: Any, numbering: Numbering) -> Part:
        blocks: list[Array] = scores if isinstance(scores, list) else [scores]
        others = dict(zip(self.other_names, values, strict=False))
        places = [place[0] for place in values[len(self.other_names) :]]
        total = Part()
        try:
            with collect_notices() as notices:
                _refuse_other_lengths(blocks[0], others, self.meaning)
                for rows in self._pieces(blocks, others, places, numbering):
                    sums = self._result(rows) if rows.weights.any() else None
                    totals = ReadingTotals.from_rows(rows, self.trusted, are_computed=True)
                    total += Part(sums, totals, score_range=self._range(rows))
            return replace(total, notices=tuple(notices))
        except InputError as error:
            return Part(refusal=error.changed(where=chunk_name(places, blocks[0])))
        except Exception as error:
            error.add_note(f"nishimori was reading {chunk_name(places, blocks[0])}.")
            raise

    def _result(self, rows: ArrayRows) -> Any:
        """What is wanted of some rows."""
        return rows.gather(self.pass_)

    def _pieces(
        self, blocks: list[Array], others: Mapping[str, Any], places: Sequence[Any], numbering: Numbering
    ) -> Iterator[ArrayRows]:
        """All rows of a chunk; the columns of several chunks are put together for some rows at a time."""
        shape = blocks[0].shape[: self.n_axes]
        if not prod(shape):
            return
        n_inner = prod(shape[1:])
        # Positions of several dimensions count from the start of the chunk, which may not be the start of a sequence.
        first = int(places[0]["first"]) if self.n_axes == 1 and places[0]["first"] > 0 else 0
        step = shape[0] if len(blocks) == 1 else max(1, MOST_NUMBERS // (n_inner * self.n_classes))
        for start in range(0, shape[0], step):
            some = slice(start, start + step)
            values = {name: None if array is None else array[some] for name, array in others.items()}
            table = blocks[0][some] if len(blocks) == 1 else np.concatenate([block[some] for block in blocks], axis=-1)
            yield self._rows(table, values, first + start * n_inner, numbering)

    def _range(self, rows: ArrayRows) -> ScoreRange:
        """The range of some scores, if it is to be judged after this pass."""
        score_range = None if self.trusted is not None else self.meaning.range_of(rows.scores, rows.weights)
        return ScoreRange() if score_range is None else score_range

    def _rows(self, table: Array, others: Mapping[str, Any], first_row: int, numbering: Numbering) -> ArrayRows:
        """Some rows as `ArrayRows`."""
        weights = others.get("sample_weight")
        rows = self.meaning.rows(table, others["labels"], weights, first_row, self.n_classes, self.n_rows)
        if "clusters" in others:
            codes = _codes(others["clusters"], numbering.clusters, "cluster")
            rows.clusters = Clusters(codes, numbering.n_clusters)
        if "groups" in others:
            rows.groups = Groups(_codes(others["groups"], numbering.groups, "group"), numbering.group_names)
        if self.trusted is not None:
            rows.trust(None if self.trusted.has_masks else False)
        return rows


@dataclass(frozen=True)
class Application(ChunkReading):
    """What a function makes of all rows, which are in one chunk. It stands in place of a pass."""

    def _result(self, rows: ArrayRows) -> Any:
        return self.pass_(rows)  # type: ignore[arg-type]  # a function of rows


@dataclass(frozen=True)
class ChunkNames:
    """The different values of some rows in order, and which of them a row of positive weight has."""

    values: HostArray
    counted: HostArray

    def __add__(self, other: "ChunkNames") -> "ChunkNames":
        values, codes = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
        return ChunkNames(values, np.bincount(codes, np.concatenate([self.counted, other.counted])) > 0)


@dataclass(frozen=True)
class Naming:
    """The names of the clusters and groups of a chunk, as `ChunkNames` in the order in which ``wanted`` names them."""

    wanted: tuple[str, ...]
    other_names: tuple[str, ...]
    meaning: ReadOptions

    def __call__(self, *values: Any) -> Part:
        others = dict(zip(self.other_names, values, strict=False))
        places = [place[0] for place in values[len(self.other_names) :]]
        first = others[self.wanted[0]]
        if not first.size:
            return Part()
        try:
            _, counted = self.meaning.labelling.counted_labels(np.asarray(others["labels"]).reshape(-1), first.shape)
            if "sample_weight" in others:
                counted &= np.asarray(others["sample_weight"]).reshape(-1) != 0
            chunk_names = []
            for name in self.wanted:
                different, codes = encode_values(np.asarray(others[name]).reshape(-1), counted.size, name.removesuffix("s"))
                chunk_names.append(ChunkNames(different, np.bincount(codes, counted) > 0))
            return Part(_Several(tuple(chunk_names)))
        except InputError as error:
            return Part(refusal=error.changed(where=chunk_name(places, first)))


@dataclass(frozen=True)
class _Several:
    items: tuple[ChunkNames, ...]

    def __add__(self, other: "_Several") -> "_Several":
        return _Several(tuple(mine + theirs for mine, theirs in zip(self.items, other.items, strict=True)))


@dataclass(frozen=True)
class Pick:
    """``size`` random rows of a chunk, the same ones each time.

    Their shape is that of the chunk with its leading dimensions made one, so (size, 1, n_classes) of three.
    """

    size: int
    n_axes: int

    def __call__(self, values: Any, *places: Any) -> HostArray:
        blocks = values if isinstance(values, list) else [values]
        leading = blocks[0].shape[: self.n_axes]
        numbers = [int(place[0]["number"]) for place in places]
        chosen = np.sort(np.random.default_rng(numbers).choice(prod(leading), self.size, replace=False))
        index = np.unravel_index(chosen, leading)
        rows = [np.asarray(block)[index] for block in blocks]
        picked = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=-1)
        return picked.reshape(self.size, *(1,) * (self.n_axes - 1), *picked.shape[1:])


def _codes(values: Any, names: HostArray | None, what: str) -> HostArray:
    """The place of each value among all names."""
    assert names is not None, "they are collected before the first pass"
    flat = arrays.on_host(values).reshape(-1)
    codes = np.minimum(np.searchsorted(names, flat), len(names) - 1)
    if (names[codes] != flat).any():
        raise InputError(
            f"{what}s", "be the same in every pass", got="others than before", remedy=f"Call `{what}s.persist()` first."
        )
    return codes


def _refuse_other_lengths(block: Array, others: Mapping[str, Any], meaning: ReadOptions) -> None:
    """Refuse labels, weights, clusters or groups of another length than the chunk; known only here for some arrays."""
    leading = tuple(block.shape) if len(block.shape) == 1 else tuple(block.shape[:-1])
    for name, values in others.items():
        if tuple(values.shape) != leading:
            called = meaning.names[1] if name == "labels" else name
            raise InputError(
                called,
                f"have chunks of the same lengths as `{meaning.names[0]}`",
                got=f"shape {tuple(values.shape)} for {leading}",
                remedy="Call `compute_chunk_sizes()` of both first.",
            )


def chunk_name(places: Sequence[Any], block: Array, *, counts_inside: bool = False) -> str:
    """The name of a chunk in messages; ``counts_inside`` if row numbers in them count from the start of the chunk."""
    numbers, first = ([int(place[name]) for place in places] for name in ("number", "first"))
    if len(places) == 1 and first[0] >= 0 and not counts_inside:
        return f"Chunk {numbers[0]} (rows {first[0]} to {first[0] + len(block) - 1})"
    number, start = (str(values[0]) if len(values) == 1 else str(tuple(values)) for values in (numbers, first))
    return f"Chunk {number}{'' if -1 in first else f', which begins at row {start}'} (rows in it count from 0)"
