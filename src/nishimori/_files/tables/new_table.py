"""Write a table, a block of columns at a time; its file is either complete or absent.

Text is made of columns by pyarrow's functions. Its CSV writer would put every text in quotes, and knows no decimal comma.
"""

import gzip
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from nishimori._files.tables.block import Column, arrow
from nishimori._files.tables.text import delimiter_of
from nishimori._support.disk import new_file
from nishimori.errors import FormatError

# Of lines of delimited text, as Python's csv module and RFC 4180 end them.
_END = "\r\n"

# Bytes of a group of rows in a Parquet file: readers skip groups, and each takes a place in the footer for every column.
GROUP = 2**26

# Bytes of a page. Readers hold one per column: of 50 columns, pages of the usual megabyte would take 50 MB.
_PAGE = 2**16


class NewTable(ABC):
    """The rows of a table that is being written."""

    @abstractmethod
    def write(self, columns: Sequence[Column]) -> None:
        """Append rows: the values of each column, as a list, a NumPy array of numbers or an array of pyarrow."""


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
    """A new file with columns called ``names``; the ending of its name decides the format.

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
    if to is not None:
        yield _new_lines(path, to, names, delimiter, decimal)
        to.flush()
        return
    with new_file(path, overwrite=overwrite) as temporary:
        if ending.endswith((".parquet", ".feather", ".arrow", ".ipc")):
            with closing(_NewColumnar(path, temporary, names)) as table:
                yield table
                table.flush()
            return
        with gzip.open(temporary, "wb", compresslevel=6) if ending.endswith(".gz") else temporary.open("wb") as file:
            yield _new_lines(path, file, names, delimiter, decimal)


def _new_lines(path: Path, file: Any, names: Sequence[str], delimiter: str | None, decimal: str) -> NewTable:
    """JSON lines or delimited text, depending on the ending of ``path``."""
    if path.name.lower().endswith(".jsonl"):
        return _NewJsonLines(path, file, names)
    mark = delimiter_of(path, None if path.name.lower().endswith((".tsv", ".tsv.gz")) else delimiter, decimal)
    return _NewText(path, file, names, mark, decimal)


class _NewLines(NewTable):
    """Lines of text: the values of a row, each with a text ``before`` it, and an ``end``."""

    decimal = "."

    def __init__(self, path: Path, file: Any, before: Sequence[str], end: str) -> None:
        self._path, self._file = path, file
        self._before, self._end = list(map(_as_utf8, before)), end
        self._arrow, self._compute = arrow(path, "Writing"), arrow(path, "Writing", "pyarrow.compute")

    def write(self, columns: Sequence[Column]) -> None:
        parts = [part for pair in zip(self._before, map(self._texts, columns), strict=True) for part in pair]
        rows = self._compute.binary_join_element_wise(*parts, self._end, "")
        self._file.write(rows.buffers()[2])

    def _texts(self, column: Column) -> Any:
        """The text of each value; numbers have the fewest digits that give the same number when read."""
        if isinstance(column, np.ndarray) and column.dtype.kind == "f" and np.isfinite(column).all():
            numbers = column.astype(np.float32 if column.dtype.itemsize <= 4 else np.float64)
            texts = self._arrow.array(numbers).cast("string")
            return texts if self.decimal == "." else self._compute.replace_substring(texts, ".", self.decimal)
        values = column if isinstance(column, list) else column.tolist()
        return self._arrow.array([_as_utf8(self._text(value)) for value in values], "string")

    @abstractmethod
    def _text(self, value: Any) -> str:
        """How a value is written."""


def _as_utf8(text: str) -> str:
    """Escape half of a surrogate pair as JSON does, because UTF-8 cannot hold it; other text stays as it is."""
    return text.encode("utf-8", "backslashreplace").decode()


class _NewText(_NewLines):
    def __init__(self, path: Path, file: Any, names: Sequence[str], delimiter: str, decimal: str) -> None:
        super().__init__(path, file, ["", *[delimiter] * (len(names) - 1)], _END)
        self.decimal, self._in_quotes = decimal, f'[\r\n"\\x{ord(delimiter):02x}]'
        header = delimiter.join(map(self._quote, names)) or '""'  # one column without a name
        file.write(_as_utf8(header + _END).encode())

    def _quote(self, text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if re.search(self._in_quotes, text) else text

    def _texts(self, column: Column) -> Any:
        if isinstance(column, self._arrow.StringArray):
            quoted = self._compute.match_substring_regex(column, self._in_quotes)
            if not self._compute.any(quoted).as_py():
                return column.fill_null("")
        return super()._texts(column)

    def _text(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return self._quote(value)
        if isinstance(value, float) and self.decimal == ",":
            return repr(value).replace(".", ",")
        is_json = isinstance(value, bool | int | float | list | dict)
        return self._quote(_in_json(value, self._path) if is_json else _without_type(value, self._path))


class _NewJsonLines(_NewLines):
    def __init__(self, path: Path, file: Any, names: Sequence[str]) -> None:
        keys = [json.dumps(name, ensure_ascii=False) for name in names]
        super().__init__(path, file, [("{" if place == 0 else ", ") + key + ": " for place, key in enumerate(keys)], "}\n")

    def _text(self, value: Any) -> str:
        return _in_json(value, self._path)


class _NewColumnar(NewTable):
    """Typed columns; the first rows decide the types of untyped columns."""

    def __init__(self, path: Path, temporary: Path, names: Sequence[str]) -> None:
        self._path, self._temporary, self._names = path, temporary, list(names)
        self._arrow = arrow(path, "Writing")
        self._schema: Any = None
        self._writer: Any = None
        self._batches: list[Any] = []  # of the next group of rows
        self._n_bytes = 0
        self._group = GROUP if path.name.lower().endswith(".parquet") else 0

    def write(self, columns: Sequence[Column]) -> None:
        kinds = [None] * len(columns) if self._schema is None else self._schema.types
        arrays = [self._array(name, column, kind) for name, column, kind in zip(self._names, columns, kinds, strict=True)]
        if self._schema is None:
            self._schema = self._arrow.schema(
                [self._arrow.field(name, array.type) for name, array in zip(self._names, arrays, strict=True)]
            )
        try:
            self._writer = self._writer or self._open_writer()
            self._batches.append(self._arrow.record_batch(arrays, schema=self._schema))
            self._n_bytes += self._batches[-1].nbytes
            if self._n_bytes >= self._group:
                self.flush()
        except self._arrow.ArrowException as error:
            reason = " ".join(str(error).split())[:80]
            raise FormatError(f"{self._path} cannot hold these columns: {reason}. Write a .jsonl file, which can.") from None

    def flush(self) -> None:
        """Write the rows of the last group."""
        if self._batches:
            table = self._arrow.Table.from_batches(self._batches)
            self._writer.write_table(table, len(table))
        self._batches, self._n_bytes = [], 0

    def _open_writer(self) -> Any:
        if self._path.name.lower().endswith(".parquet"):
            # Probabilities hardly ever repeat, so a dictionary of them would only take space.
            repeated = [field.name for field in self._schema if not self._arrow.types.is_floating(field.type)]
            parquet = arrow(self._path, "Writing", "pyarrow.parquet")
            return parquet.ParquetWriter(self._temporary, self._schema, use_dictionary=repeated, data_page_size=_PAGE)
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
            what = f"needs one type per column, and the values of {name!r} have several: {reason}"
            raise FormatError(f"{self._path} {what}. Write a .jsonl file, which can hold them.") from None

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


def _in_json(value: Any, path: Path) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=lambda part: _without_type(part, path))


def _without_type(value: Any, path: Path) -> str:
    """The text of a value that JSON has no type for."""
    if hasattr(value, "isoformat"):  # dates and times
        return str(value.isoformat())
    if isinstance(value, bytes):
        raise FormatError(f"{path} holds text, and bytes are not text. Write a .parquet or .feather file, which can hold them.")
    return str(value)
