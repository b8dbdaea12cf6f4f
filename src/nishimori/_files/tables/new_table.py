"""A table that is being written, a block of columns at a time; its file is complete or not there."""

import gzip
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from nishimori._files.tables.block import Column
from nishimori._files.tables.columnar import arrow
from nishimori._files.tables.decimals import Place, rows_of_text
from nishimori._files.tables.text import checked_delimiter, delimiter_of
from nishimori._support.arrays import HostArray
from nishimori._support.disk import new_file
from nishimori.errors import FormatError

# Of lines of delimited text, as Python's csv module and RFC 4180 end them.
_END = b"\r\n"

# Numbers that become Python's without loss, and are written as Python writes those.
_WRITTEN = (np.float16, np.float32, np.float64)


class NewTable(ABC):
    """The rows of a table that is being written."""

    @abstractmethod
    def write(self, columns: Sequence[Column]) -> None:
        """Append rows: the values of each column, as a list, a NumPy array of numbers or an array of pyarrow."""

    def close(self) -> None:  # noqa: B027 - text has nothing to finish
        """Finish the file."""


@contextmanager
def new_table(
    path: Path,
    names: Sequence[str],
    *,
    overwrite: bool,
    delimiter: str | None = None,
    decimal: str = ".",
    to: IO[bytes] | None = None,
) -> Iterator[NewTable]:
    """A new file with columns called ``names``; its ending says what it is.

    Parameters
    ----------
    path : Path
        A name that ends in one of `ENDINGS`.
    names : sequence of str
        The names of the columns.
    overwrite : bool
        Replace an existing file.
    delimiter : str, optional
        What separates the fields of a .csv file; a comma by default. A .tsv file always has tabs.
    decimal : {".", ","}
        The decimal mark of numbers in text.
    to : file, optional
        Where to write text, in place of the file with that name.
    """
    ending = path.name.lower()
    if ending.endswith((".tsv", ".tsv.gz")):
        delimiter = None
    mark = checked_delimiter(delimiter, decimal) or delimiter_of(path)
    if to is not None:
        yield _new_lines(path, to, names, mark, decimal)
        to.flush()
        return
    with new_file(path, overwrite=overwrite) as temporary:
        if ending.endswith((".parquet", ".feather", ".arrow", ".ipc")):
            table: NewTable = _NewColumnar(path, temporary, names)
            try:
                yield table
            finally:
                table.close()
            return
        with gzip.open(temporary, "wb", compresslevel=6) if ending.endswith(".gz") else temporary.open("wb") as file:
            yield _new_lines(path, file, names, mark, decimal)


def _new_lines(path: Path, file: Any, names: Sequence[str], delimiter: str, decimal: str) -> NewTable:
    """JSON lines or delimited text, by the ending of ``path``."""
    is_json = path.name.lower().endswith(".jsonl")
    return _NewJsonLines(path, file, names) if is_json else _NewText(path, file, names, delimiter, decimal)


class _NewLines(NewTable):
    """Lines of text, in each of which the values of a row stand between texts that all rows have."""

    decimal = "."

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file = path, file

    @abstractmethod
    def _text(self, value: Any) -> str:
        """How a value is written."""

    def _write(self, columns: Sequence[Column], before: Sequence[str], end: bytes) -> None:
        places = [Place(_encode(text), *self._values(column)) for text, column in zip(before, columns, strict=True)]
        self._file.write(rows_of_text(len(columns[0]), places, end, self.decimal))

    def _values(self, column: Column) -> tuple[HostArray | None, Sequence[bytes]]:
        """Numbers that Python writes in one way, or the text of each value."""
        if isinstance(column, np.ndarray) and column.dtype in _WRITTEN and np.isfinite(column).all():
            return column, ()
        return None, [_encode(self._text(value)) for value in _plain(column)]


def _encode(text: str) -> bytes:
    """UTF-8; half of a surrogate pair, which JSON can hold and UTF-8 cannot, is written as JSON writes it."""
    return text.encode("utf-8", "backslashreplace")


class _NewText(_NewLines):
    def __init__(self, path: Path, file: Any, names: Sequence[str], delimiter: str, decimal: str) -> None:
        super().__init__(path, file)
        self.decimal, self._delimiter = decimal, delimiter
        self._in_quotes = re.compile(f'[\r\n"{re.escape(delimiter)}]')
        file.write(_encode(delimiter.join(map(self._quote, names)) or '""') + _END)  # one column without a name

    def write(self, columns: Sequence[Column]) -> None:
        self._write(columns, ["", *[self._delimiter] * (len(columns) - 1)], _END)

    def _quote(self, text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if self._in_quotes.search(text) else text

    def _text(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return self._quote(value)
        if isinstance(value, float) and self.decimal == ",":
            return repr(value).replace(".", ",")
        if isinstance(value, bool | int | float | list | dict):
            return self._quote(json.dumps(value, ensure_ascii=False, default=lambda part: _as_json(part, self._path)))
        return self._quote(_as_json(value, self._path))


class _NewJsonLines(_NewLines):
    def __init__(self, path: Path, file: Any, names: Sequence[str]) -> None:
        super().__init__(path, file)
        keys = [json.dumps(name, ensure_ascii=False) for name in names]
        self._before = [("{" if place == 0 else ", ") + key + ": " for place, key in enumerate(keys)]

    def write(self, columns: Sequence[Column]) -> None:
        self._write(columns, self._before, b"}\n")

    def _text(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, default=lambda part: _as_json(part, self._path))


class _NewColumnar(NewTable):
    """Typed columns; the first rows decide the types of columns that have none."""

    def __init__(self, path: Path, temporary: Path, names: Sequence[str]) -> None:
        self._path, self._temporary, self._names = path, temporary, list(names)
        self._arrow = arrow(path, "Writing")
        self._schema: Any = None
        self._writer: Any = None

    def write(self, columns: Sequence[Column]) -> None:
        kinds = [None] * len(columns) if self._schema is None else self._schema.types
        arrays = [self._array(name, column, kind) for name, column, kind in zip(self._names, columns, kinds, strict=True)]
        if self._schema is None:
            self._schema = self._arrow.schema(
                [self._arrow.field(name, array.type) for name, array in zip(self._names, arrays, strict=True)]
            )
        try:
            self._writer = self._writer or self._open_writer()
            self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
        except self._arrow.ArrowException as error:
            reason = " ".join(str(error).split())[:80]
            raise FormatError(f"{self._path} cannot hold these columns: {reason}. Write a .jsonl file, which can.") from None

    def _open_writer(self) -> Any:
        if self._path.name.lower().endswith(".parquet"):
            # Probabilities hardly ever repeat, so a dictionary of them would only take space.
            repeated = [field.name for field in self._schema if not self._arrow.types.is_floating(field.type)]
            parquet = arrow(self._path, "Writing", "pyarrow.parquet")
            return parquet.ParquetWriter(self._temporary, self._schema, use_dictionary=repeated)
        ipc = arrow(self._path, "Writing", "pyarrow.ipc")
        return ipc.new_file(str(self._temporary), self._schema, options=ipc.IpcWriteOptions(compression="lz4"))

    def _array(self, name: str, column: Column, kind: Any) -> Any:
        if isinstance(column, self._arrow.Array):
            # An Arrow file has one dictionary per column, and the batches of another file can have several.
            return column.dictionary_decode() if isinstance(column, self._arrow.DictionaryArray) else column
        try:
            return self._arrow.array(column, type=kind)
        except (self._arrow.ArrowException, OverflowError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:80]
            raise FormatError(
                f"{self._path} needs one type per column, and the values of {name!r} have several: {reason}. "
                "Write a .jsonl file, which can hold them."
            ) from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _plain(column: Column) -> list[Any]:
    """The values of a column as Python's."""
    if isinstance(column, list):
        return column
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return values


def _as_json(value: Any, path: Path) -> str:
    """The text of a value that JSON has no type for."""
    if hasattr(value, "isoformat"):  # dates and times
        return str(value.isoformat())
    if isinstance(value, bytes):
        raise FormatError(f"{path} holds text, which bytes are not. Write a .parquet or .feather file, which can hold them.")
    return str(value)
