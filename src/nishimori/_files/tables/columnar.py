"""Parquet and Feather (Arrow) files, which store the type of each column."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.tables.block import Block, Column, Table, arrow, check_names, no_rows
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError

# Cells in a block: 2**18 take 2 MB as numbers, and pyarrow several times that while it reads and writes them.
_CELLS = 2**18

# Bytes from which on a file may be undamaged although it does not fit in memory.
_LARGE = 2**24


class Columnar(Table):
    """A file of typed columns; Parquet or, with another ending, Feather, which is an Arrow file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrow = arrow(path, "Reading")
        with self._naming_file():
            if path.name.lower().endswith(".parquet"):
                self._file, schema, self._stored = _open_parquet(path)
                self.n_rows = self._file.metadata.num_rows
            else:
                self._file, schema, self._stored = _open_feather(path)
            self.names = list(schema.names)
            self.lists = [field.name for field in schema if _is_list(self._arrow, field.type)]
        try:
            check_names(self.names, path)
        except FormatError:
            self.close()
            raise

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        """Turn every error of pyarrow into one that names the file."""
        try:
            yield
        except (self._arrow.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
            if isinstance(error, FormatError):
                raise
            reason = " ".join(str(error).split())[:120]
            text = f"{self.path} is not a readable {self.path.suffix.lower()} file: {reason}."
            # A damaged file may ask for any amount of memory; no other file of this size needs more than a program has.
            if isinstance(error, MemoryError) and self.path.is_file() and self.path.stat().st_size >= _LARGE:
                text = f"There is not enough memory to read {self.path} ({reason}), or the file is damaged."
            raise FormatError(f"{text} Save it again.") from None

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:  # noqa: ARG002 - types are known
        """Blocks of about `_CELLS` numbers."""
        first, step = 0, max(1, _CELLS // max(1, len(self.names)))
        if self.lists:
            step = max(1, step // self._longest_list())
        batches = self._batches(step)
        while True:
            with self._naming_file():
                batch = next(batches, None)
            if batch is None:
                break
            yield _ArrowBlock(self.path, self.names, batch.num_rows, None, first, batch, self._arrow)
            first += batch.num_rows
        if not first:
            raise no_rows(self.path)

    def _longest_list(self) -> int:
        """About how many numbers the lists of a row hold, estimated from the first rows."""
        with self._naming_file():
            rows = islice(self._batches(1), 1)
            lists = [row.column(name)[0].as_py() for row in rows for name in self.lists]
        return max(1, sum(len(values or ()) for values in lists))

    def _batches(self, n_rows: int) -> Iterator[Any]:
        """Pyarrow batches with at most that many rows."""
        for batch in self._stored(n_rows):
            # What a damaged file says of itself is not checked when it is read, and slicing such a batch ends the process.
            batch.validate(full=True)
            for start in range(0, batch.num_rows, n_rows):
                yield batch.slice(start, n_rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_Opened = tuple[Any, Any, Callable[[int], Iterator[Any]]]
"""An open file, its schema, and a function that gives batches of at most a number of rows."""


def _open_parquet(path: Path) -> _Opened:
    parquet = arrow(path, "Reading", "pyarrow.parquet")
    # With a buffer per column, pages are read as they are needed, and not all pages of a group of rows at once.
    buffer = max(2**12, min(2**16, 2**22 // max(1, parquet.read_metadata(path).num_columns)))
    file = parquet.ParquetFile(path, buffer_size=buffer, pre_buffer=False)
    return file, file.schema_arrow, lambda n_rows: file.iter_batches(batch_size=n_rows, use_threads=False)


def _open_feather(path: Path) -> _Opened:
    # Mapped, so that a batch that was stored without compression takes no memory of its own.
    mapped = arrow(path, "Reading").memory_map(str(path))
    try:
        file = arrow(path, "Reading", "pyarrow.ipc").open_file(mapped)
    except BaseException:
        mapped.close()
        raise
    return mapped, file.schema, lambda _: map(file.get_batch, range(file.num_record_batches))


def _is_list(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


@dataclass(frozen=True, eq=False)
class _ArrowBlock(Block):
    batch: Any
    pyarrow: Any

    def column(self, index: int) -> Column:
        return self.batch.column(index)

    def values(self, index: int) -> list[Any]:
        values: list[Any] = self.batch.column(index).to_pylist()
        return values

    def numbers(self, indices: Sequence[int]) -> HostArray:
        columns = [self.batch.column(index) for index in indices]
        if len(columns) == 1 and _is_list(self.pyarrow, columns[0].type):
            return self._from_lists(columns[0], indices[0])
        return np.stack([self._flat(column, index) for column, index in zip(columns, indices, strict=True)], axis=1)

    def _flat(self, column: Any, index: int) -> HostArray:
        try:
            values: HostArray = column.to_numpy(zero_copy_only=False)
        except self.pyarrow.ArrowException:  # a type that NumPy does not have
            values = np.empty(0, dtype=object)
        if values.dtype.kind == "O" and self.pyarrow.types.is_boolean(column.type):
            values = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        if values.dtype.kind not in "fiub":
            if column.null_count == len(column):
                return np.full(len(column), np.nan)
            raise FormatError(f"{self.path} has no numbers in column {self.names[index]!r}. Choose other columns.")
        return values

    def _from_lists(self, column: Any, index: int) -> HostArray:
        compute = arrow(self.path, "Reading", "pyarrow.compute")
        lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        other = lengths != lengths[0]  # also where a list is missing, which gives NaN
        if other.any():
            row = int(np.argmax(other))
            got = f"got {lengths[row]:g} after {lengths[0]:g}"
            raise FormatError(f"{self.where(row, index)}: the lists of a column must have the same length, {got}.")
        if np.isnan(lengths[0]):
            raise FormatError(f"{self.where(0, index)}: the list is missing.")
        return self._flat(column.flatten(), index).reshape(self.n_rows, int(lengths[0]))
