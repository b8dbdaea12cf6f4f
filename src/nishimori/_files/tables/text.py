"""Delimited text, such as .csv: the first line names the columns, and every other line has as many fields.

pyarrow reads many lines at once: numbers where the caller wants them, and all else as text, as it is written. Nothing is
inferred from the values. Python's csv module goes through lines only where pyarrow refuses them, for the line of what is wrong,
or where they have quotes: pyarrow takes text after a closing quote for a part of the field, and does not say in which line a
row ends.
"""

import csv
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.tables.block import Block, Column, Table, arrow, check_names, no_rows
from nishimori._files.tables.lines import LineFile
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError, InputError, setting

# In the order in which a header is searched for them.
_DELIMITERS = (";", "\t", "|", ",")
# Python's float also reads 1_000, the digits of other scripts, and numbers next to invisible characters such as \x1f.
_PLAIN = b"0123456789+-.,eEiInNfFaAtTyY \t"
MISSING = ("", "NA", "N/A", "null", "None", "<NA>")
_EXCHANGED = str.maketrans(",.", ".,")


def delimiter_of(path: Path, delimiter: str | None, decimal: str) -> str:
    """The delimiter of a file with this name: ``delimiter``, if the caller names one, or the usual mark."""
    if decimal not in (".", ","):
        raise InputError("decimal", "be '.' or ','", got=repr(decimal))
    if delimiter in ("tab", "\\t") or (delimiter is None and path.name.lower().endswith((".tsv", ".tsv.gz"))):
        return "\t"
    mark = "," if delimiter is None else delimiter
    if len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0 ' or mark.isalnum():
        raise InputError("delimiter", "be one character, such as ';', or the word tab", got=repr(delimiter))
    if mark == decimal:
        remedy = f"Pass {setting('delimiter', ';')}."
        raise InputError("decimal", f"differ from the delimiter, {mark!r}", remedy=remedy)
    return mark


class Text(Table):
    """A text file whose first line names the columns."""

    def __init__(self, path: Path, delimiter: str | None, decimal: str) -> None:
        self.path, self.decimal = path, decimal
        self._arrow, self._csv = arrow(path, "Reading"), arrow(path, "Reading", "pyarrow.csv")
        self.delimiter = delimiter_of(path, delimiter, decimal)
        with closing(LineFile(path)) as file:
            self.names = self._header(file)
        others = [mark for mark in _DELIMITERS if mark in "".join(self.names) and mark != self.delimiter]
        if len(self.names) == 1 and others:
            what = f"has one column, {self.names[0]!r:.60}: the delimiter is {self.delimiter!r}"
            raise FormatError(f"{path} {what}. Pass {setting('delimiter', others[0])}.")
        check_names(self.names, path)
        if all(_is_number(name) for name in self.names) and self.names != [str(k) for k in range(len(self.names))]:
            raise FormatError(f"{path} starts with numbers. Its first line must name the columns.")

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:
        """Blocks of whole lines."""
        n_rows = 0
        with closing(LineFile(self.path)) as file:
            self._header(file)
            start = end = file.n_read  # lines before the block, and up to the last row
            while content := file.read(len(self.names)):
                table, lines = self._rows(file, content, start, numbers)
                if len(lines):
                    if end < start:  # empty lines, which may only be at the end
                        raise self._other_length(end + 1, [])
                    yield _TextBlock(self.path, self.names, len(lines), lines, n_rows, table, self.decimal)
                    n_rows, end = n_rows + len(lines), int(lines[-1])
                start = file.n_read
        if not n_rows:
            raise no_rows(self.path)

    def _rows(self, file: LineFile, content: bytes, start: int, numbers: Sequence[int]) -> tuple[Any, HostArray]:
        """The columns of all rows read after ``start`` lines, and the line in which each row ends."""
        lines: HostArray = np.arange(start + 1, file.n_read + 1)
        # A carriage return inside a line would end it for pyarrow, which also leaves out empty lines.
        if b'"' not in content and content.count(b"\r") == content.count(b"\r\n"):
            table = self._parse(content, numbers)
            if table is not None and len(table) == len(lines):
                return table, lines
        content, lines = self._check(file, content, start)
        if not len(lines):
            return None, lines
        for columns in (numbers, ()):  # a number that pyarrow does not know is read, or refused, as text
            table = self._parse(content, columns)
            if table is not None and len(table) == len(lines):
                return table, lines
        raise FormatError(f"{self.path}, lines {start + 1} to {file.n_read}: pyarrow cannot read these rows.")

    def _parse(self, content: bytes, numbers: Sequence[int]) -> Any:
        """A pyarrow table, with numbers in these columns and text in all others; None if pyarrow refuses the lines."""
        names, chosen = [str(index) for index in range(len(self.names))], set(numbers)
        kinds = {name: self._arrow.float64() if k in chosen else self._arrow.string() for k, name in enumerate(names)}
        try:
            # Without threads memory stays small; other threads compute meanwhile.
            return self._csv.read_csv(
                self._arrow.py_buffer(content),
                self._csv.ReadOptions(column_names=names, block_size=len(content) + 1, use_threads=False),
                self._csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                self._csv.ConvertOptions(
                    column_types=kinds,
                    null_values=MISSING,
                    strings_can_be_null=False,
                    decimal_point=self.decimal,
                    check_utf8=False,
                ),
            )
        except self._arrow.ArrowInvalid:
            return None

    def _check(self, file: LineFile, content: bytes, start: int) -> tuple[bytes, HostArray]:
        """Go through rows one by one to find the lines in which they end; refuse malformed rows, and name their line.

        Lines that end inside quotes are continued.
        """
        more: list[bytes] = []

        def lines() -> Iterator[str]:
            yield from StringIO(content.decode(), newline="\n")
            for line in file:
                more.append(line.encode())
                yield line

        ends, empty, last = [], 0, file.n_read
        for line, row in self._read(lines(), start):
            if not row:
                empty = empty or line
            elif empty:
                raise self._other_length(empty, [])
            elif len(row) != len(self.names):
                raise self._other_length(line, row)
            else:
                ends.append(line)
            if line >= last:
                break
        return content + b"".join(more), np.array(ends, int)

    def _header(self, file: LineFile) -> list[str]:
        """The names of the columns."""
        return [name.strip() for name in next(self._read(file, 0), (0, []))[1]]

    def _read(self, lines: Iterable[str], before: int) -> Iterator[tuple[int, list[str]]]:
        """The line in which each row ends, and its fields, as Python reads them; ``before`` counts the lines before them."""
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        try:
            for row in reader:
                yield before + reader.line_num, row
        except csv.Error as error:
            raise FormatError(f"{self.path}, line {before + reader.line_num}: {_reason(str(error))}.") from None

    def _other_length(self, line: int, row: list[str]) -> FormatError:
        n, wanted, mark = len(row), len(self.names), repr(self.delimiter)
        remedy = f"Put text that contains {mark} in quotes."
        if self.delimiter == "," and n > wanted:
            marks = f"{setting('delimiter', ';')} with {setting('decimal', ',')}"
            remedy = f"If its decimal mark is a comma, use another delimiter: {marks}."
        fields = "1 field" if n == 1 else f"{n} fields"
        return FormatError(
            f"{self.path}, line {line}: {fields} where the header has {wanted}; the delimiter is {mark}. {remedy}"
        )


def _reason(error: str) -> str:
    """What went wrong, in plain words where Python's message is for programmers."""
    if "unexpected end" in error:
        return "a quotation mark is never closed. Close it, or double the quotation marks inside text"
    if "new-line" in error:
        return "a carriage return inside a line. Save the file with Unix or Windows line endings"
    return f"{error}. Double the quotation marks inside text"


@dataclass(frozen=True, eq=False)
class _TextBlock(Block):
    columns: Any
    decimal: str

    def column(self, index: int) -> Column:
        return self.columns.column(index).combine_chunks()

    def values(self, index: int) -> list[Any]:
        return [(text or "").strip() for text in self.columns.column(index).cast("string").to_pylist()]

    def numbers(self, indices: Sequence[int]) -> HostArray:
        return np.stack([self._numbers(index) for index in indices], axis=1)

    def _numbers(self, index: int) -> HostArray:
        column = self.columns.column(index)
        if str(column.type) != "string":
            numbers: HostArray = column.to_numpy()
            return numbers
        return np.array([self._number(text, row, index) for row, text in enumerate(column.to_pylist())])

    def _number(self, text: str, row: int, index: int) -> float:
        text = text.strip(" \t")
        if text in MISSING:
            return np.nan
        exchanged = text.translate(_EXCHANGED)
        plain, other = (text, exchanged) if self.decimal == "." else (exchanged, text)
        if _is_number(plain):
            return float(plain)
        remedy = "Correct it, or choose other columns."
        if _is_number(other):
            remedy = f"The decimal mark is {self.decimal!r}; pass {setting('decimal', ',' if self.decimal == '.' else '.')}."
        raise FormatError(f"{self.where(row, index)}: {text!r:.60} is not a number. {remedy}")


def _is_number(text: str) -> bool:
    """Whether the text is a number, written with a decimal point."""
    try:
        float(text)
    except ValueError:
        return False
    return not text.encode(errors="replace").translate(None, _PLAIN)
