"""A table that is being written, a block of columns at a time; its file is complete or not there."""

import csv
import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from nishimori._rows.tables.block import Column
from nishimori._rows.tables.columnar import arrow
from nishimori._rows.tables.text import checked_delimiter, delimiter_of
from nishimori._support.disk import new_file
from nishimori.errors import FormatError


class NewTable(ABC):
    """The rows of a table that is being written."""

    @abstractmethod
    def write(self, columns: Sequence[Column]) -> None:
        """Append rows: the values of each column, as a list, a NumPy array of numbers or an array of pyarrow."""

    def close(self) -> None:  # noqa: B027 - text has nothing to finish
        """Finish the file."""


@contextmanager
def new_table(
    path: Path, names: Sequence[str], *, overwrite: bool, delimiter: str | None = None, decimal: str = "."
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
    """
    ending = path.name.lower()
    if ending.endswith((".tsv", ".tsv.gz")):
        delimiter = None
    mark = checked_delimiter(delimiter, decimal) or delimiter_of(path)
    with new_file(path, overwrite=overwrite) as temporary:
        if ending.endswith((".parquet", ".feather", ".arrow", ".ipc")):
            table: NewTable = _NewColumnar(path, temporary, names)
            try:
                yield table
            finally:
                table.close()
            return
        with _text_file(temporary, zipped=ending.endswith(".gz")) as file:
            table = (
                _NewJsonLines(path, file, names) if ending.endswith(".jsonl") else _NewText(path, file, names, mark, decimal)
            )
            yield table


@contextmanager
def _text_file(path: Path, *, zipped: bool) -> Iterator[IO[str]]:
    # Half of a surrogate pair, which JSON can hold and UTF-8 cannot, is written as JSON writes it.
    options: dict[str, Any] = {"newline": "", "encoding": "utf-8", "errors": "backslashreplace"}
    with gzip.open(path, "wt", compresslevel=6, **options) if zipped else path.open("w", **options) as file:
        yield file


class _NewText(NewTable):
    def __init__(self, path: Path, file: IO[str], names: Sequence[str], delimiter: str, decimal: str) -> None:
        self._path, self._decimal = path, decimal
        self._writer = csv.writer(file, delimiter=delimiter)
        self._writer.writerow(names)

    def write(self, columns: Sequence[Column]) -> None:
        self._writer.writerows(zip(*map(self._texts, columns), strict=True))

    def _texts(self, column: Column) -> list[Any]:
        if isinstance(column, np.ndarray):
            numbers = column.tolist()  # which the writer spells as Python does, with all digits
            return numbers if self._decimal == "." else [repr(value).replace(".", ",") for value in numbers]
        values = _plain(column)
        return [value if isinstance(value, str) else self._text(value) for value in values]

    def _text(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, float) and self._decimal == ",":
            return repr(value).replace(".", ",")
        if isinstance(value, bool | int | float | list | dict):
            return json.dumps(value, ensure_ascii=False, default=lambda each: _as_json(each, self._path))
        return _as_json(value, self._path)


class _NewJsonLines(NewTable):
    def __init__(self, path: Path, file: IO[str], names: Sequence[str]) -> None:
        self._path, self._file, self._names = path, file, list(names)

    def write(self, columns: Sequence[Column]) -> None:
        for row in zip(*map(_plain, columns), strict=True):
            content = dict(zip(self._names, row, strict=True))
            self._file.write(json.dumps(content, ensure_ascii=False, default=lambda each: _as_json(each, self._path)) + "\n")


class _NewColumnar(NewTable):
    """Typed columns; the first rows decide the types of columns that have none."""

    def __init__(self, path: Path, temporary: Path, names: Sequence[str]) -> None:
        self._path, self._temporary, self._names = path, temporary, list(names)
        self._arrow = arrow(path, "Writing")
        self._schema: Any = None
        self._writer: Any = None

    def write(self, columns: Sequence[Column]) -> None:
        kinds = [None] * len(columns) if self._schema is None else self._schema.types
        arrays = [self._array(*each) for each in zip(self._names, columns, kinds, strict=True)]
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
