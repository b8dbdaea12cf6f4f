"""Scores that are stored outside memory (a memory map, a .npy file, an array in chunks), with labels and weights in memory.

Labels and weights take little memory compared with scores, so they are checked before anything is read. What a reader of
stored scores has to do is small: `Stored`.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows, ReadOptions
from nishimori._rows.labels import class_indices
from nishimori._rows.pieces import Pieces, rows_per_piece
from nishimori._rows.rows import most_copied
from nishimori._rows.scores import scores_of
from nishimori._support.arrays import HostArray, merge_leading, rows_between
from nishimori._support.numbers import numeric

# A sample has at most this many numbers, 64 MiB of float32.
_MOST_SAMPLED = 2**24

# Rows of a sample are read in this many runs. Single rows spread over a file would each take a page of the disk.
_RUNS = 128

# Reading one number of each page makes the system fetch it.
_PAGE = 4096

# Chunks of a sample, at least; and if it has more than this part of all chunks or rows, it costs as much as a pass.
_CHUNKS, _PART = 8, 1 / 4


class Stored(ABC):
    """An array of scores outside memory: its shape and dtype, and its rows, which can be read repeatedly.

    With more than two dimensions, such as (sequences, tokens, vocabulary), each position before the last one is a row.
    """

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"

    @property
    def n_rows(self) -> int:
        return prod(self.shape[:-1] or self.shape)

    @property
    def n_columns(self) -> int:
        return self.shape[-1] if len(self.shape) > 1 else 2

    @abstractmethod
    def blocks(self) -> Generator[HostArray, None, None]:
        """All rows in order, (rows, classes) or (rows,), a few megabytes at a time; a thread may run this."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """All rows as an array in memory."""
        if copy is False:
            raise ValueError("A stored array can only be copied to memory.")
        return np.concatenate(list(self.blocks())).reshape(self.shape).astype(dtype or self.dtype, copy=False)

    def random_rows(self, size: int) -> tuple[HostArray, HostArray] | None:  # noqa: ARG002 - for those that can
        """The numbers of about ``size`` rows chosen at random, and these rows; None if that would take a pass."""
        return None


_Block = tuple[int, HostArray]
"""The number of the first row, and the rows."""


class StoredRows(Pieces[_Block]):
    """Stored scores with labels, weights, clusters and groups that are in memory."""

    def __init__(
        self,
        stored: Stored,
        labels: Any,
        sample_weight: Any,
        meaning: ReadOptions,
        *,
        clusters: Any = None,
        groups: Any = None,
        progress: bool | None = None,
    ) -> None:
        super().__init__(meaning, progress=progress, read_ahead=True)
        score_name, label_name = meaning.names
        numeric(np.empty(0, stored.dtype), score_name)
        table = scores_of(stored, input=meaning.input, name=score_name, floor=meaning.floor)
        labels, self.weights, self.clusters, self.groups = meaning.parts(table, labels, sample_weight, clusters, groups)
        self.labels = class_indices(labels, meaning.classes, table, label_name, self.weights)
        self.stored = stored
        self._n_classes = table.n_classes
        self.leading = table.leading

    @property
    def n_rows(self) -> int:
        return self.stored.n_rows

    def read(self) -> Generator[_Block, None, None]:
        """Blocks of rows with the number of their first row."""
        first = 0
        with closing(self.stored.blocks()) as blocks:
            for values in blocks:
                yield first, values
                first += len(values)

    def rows(self, piece: _Block) -> ArrayRows:
        """The rows with their labels and weights; errors count them from the start of the array."""
        first, values = piece
        return self._array_rows(values, slice(first, first + len(values)), first)

    def _array_rows(self, values: HostArray, rows: slice | HostArray, first_row: int = 0) -> ArrayRows:
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        clusters = None if self.clusters is None else self.clusters.at_rows(rows)
        groups = None if self.groups is None else self.groups.at_rows(rows)
        scores = replace(self.meaning.scores(native), leading=self.leading)
        return ArrayRows(scores, self.labels[rows], self.weights[rows], first_row, self.n_rows, clusters, groups)

    def sample(self, size: int) -> ArrayRows | None:
        """About ``size`` rows, the same ones each time; None if that would take a pass, or if all weights are zero."""
        size = most_copied(min(size, int(_PART * self.n_rows)), self.n_classes, _MOST_SAMPLED)
        sample = self.stored.random_rows(size) if size else None
        if sample is None or not self.weights[sample[0]].any():
            return None
        return self._array_rows(sample[1], sample[0])


class Sliced(Stored):
    """Scores from which any range of rows can be read directly.

    Where some rows can only be read ``together``, runs begin and end at multiples of that number.
    """

    together: int = 1

    @abstractmethod
    def rows(self, start: int, stop: int) -> HostArray:
        """The rows from number ``start`` to the one before ``stop``, (rows, classes) or (rows,)."""

    def blocks(self, n_rows: int | None = None) -> Generator[HostArray, None, None]:
        """Consecutive blocks of about that many rows, by default several computation blocks."""
        step = self.together * max(1, (n_rows or rows_per_piece(self.n_columns)) // self.together)
        for start in range(0, self.n_rows, step):
            yield self.rows(start, min(self.n_rows, start + step))

    def random_rows(self, size: int) -> tuple[HostArray, HostArray] | None:
        """The numbers of about ``size`` rows in random runs, and these rows; None if single rows cannot be read."""
        if self.together > 1:
            return None
        length = max(1, size // _RUNS)
        starts = length * _choose(self.n_rows // length, -(-size // length))
        parts = [self.rows(start, start + length) for start in starts.tolist()]
        return (starts[:, None] + np.arange(length)).ravel(), np.concatenate(parts)


class Mapped(Sliced):
    """An array: a user's memory map, which may hold changes that are not in its file, or scores that are in memory already.

    The thread that reads ahead makes the system fetch the pages of the next rows.
    """

    def __init__(self, array: HostArray) -> None:
        values: HostArray = np.asarray(array)
        self.shape, self.dtype = values.shape, values.dtype
        self.array: HostArray = merge_leading(values) if values.ndim > 2 else values

    def rows(self, start: int, stop: int) -> HostArray:
        """A slice of the memory map, without a copy."""
        rows: HostArray = rows_between(self.array, start, stop)
        if rows.flags.c_contiguous:
            rows.view(np.uint8).reshape(-1)[::_PAGE].max()
        return rows


class Chunked(Stored):
    """An array that is stored in chunks, such as one of Zarr or HDF5: anything with a shape, a dtype and slices."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(int(length) for length in array.shape)
        self.dtype = np.dtype(array.dtype)
        leading = self.shape[:-1] or self.shape
        chunks = array.chunks or (min(rows_per_piece(self.n_columns), self.shape[0] or 1), *leading[1:])
        self._chunks = tuple(int(length) for length in chunks[: len(leading)])
        self._chunk = self._chunks[0]

    def blocks(self) -> Generator[HostArray, None, None]:
        """Whole chunks, because each is read and unpacked as a whole."""
        for part in _slices(self.shape[: len(self._chunks)], self._chunks, rows_per_piece(self.n_columns)):
            values = np.asarray(self.array[part if len(part) > 1 else part[0]])
            yield values.reshape(-1, self.shape[-1]) if len(self.shape) > 1 else values

    def random_rows(self, size: int) -> tuple[HostArray, HostArray] | None:
        """The numbers of about ``size`` random rows of random chunks, and these rows; None if that takes a pass."""
        if len(self.shape) > 2:
            return None  # chunks are not consecutive rows
        n_chunks = self.shape[0] // self._chunk  # a last one that is not full is left out
        n_read = max(_CHUNKS, -(-size // self._chunk))
        if n_read > _PART * n_chunks:
            return None
        starts = self._chunk * _choose(n_chunks, n_read)
        step = -(-size // n_read)
        within = _choose(self._chunk, step)
        parts = [np.asarray(self.array[start : start + self._chunk])[within] for start in starts.tolist()]
        return (starts[:, None] + within).ravel(), np.concatenate(parts)


def _slices(shape: tuple[int, ...], chunks: tuple[int, ...], n_rows: int) -> Iterator[tuple[Any, ...]]:
    """The ranges that give all rows in order: whole chunks, about ``n_rows`` rows at a time.

    Chunks that divide a sequence can be read one by one only if they hold no other sequence. Otherwise all chunks of the same
    sequences are read together, because rows come in order, and no chunk is unpacked twice.
    """
    inner = prod(shape[1:])
    if chunks[0] == 1 and inner > n_rows:
        for i in range(shape[0]):
            yield from ((i, *rest) for rest in _slices(shape[1:], chunks[1:], n_rows))
        return
    step = chunks[0] * max(1, n_rows // (chunks[0] * inner))
    for start in range(0, shape[0], step):
        yield (slice(start, start + step),)


def _choose(n: int, size: int) -> HostArray:
    """Distinct numbers below ``n``, sorted, the same ones each time."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, size), replace=False))
