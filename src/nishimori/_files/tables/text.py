"""Delimited text, such as .csv: the first line names the columns, and every other line has as many fields.

Nothing is inferred from the values. A number is what Python's ``float`` reads, everything else is text as it is written.
"""

import csv
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.tables.arrow_lines import arrow_reader, parse_delimited
from nishimori._files.tables.block import Block, Column, Table, check_names, no_rows
from nishimori._files.tables.lines import LineFile, read_blocks
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError, InputError, setting

# Cells in a block: 2**17 take about 12 MB as Python's text.
CELLS = 2**17
# In the order in which a header is searched for them.
_DELIMITERS = (";", "\t", "|", ",")
# Python's float also reads 1_000, the digits of other scripts, and numbers next to invisible characters such as \x1f.
_PLAIN = b"0123456789+-.,eEiInNfFaAtTyY \t"
MISSING = {"", "NA", "N/A", "null", "None", "<NA>"}


def checked_delimiter(delimiter: str | None, decimal: str) -> str | None:
    """One character, or None; "tab" and a backslash with t are spellings of the tab."""
    if decimal not in (".", ","):
        raise InputError("decimal", "be '.' or ','", got=repr(decimal))
    if delimiter is None:
        return None
    if delimiter in ("tab", "\\t"):
        return "\t"
    if len(delimiter) != 1 or delimiter in '"\r\n\0 ' or delimiter.isalnum():
        raise InputError("delimiter", "be one character, such as ';', or the word tab", got=repr(delimiter))
    if delimiter == decimal:
        raise InputError("delimiter", f"be another mark than {setting('decimal')}", got=f"{delimiter!r} for both")
    return delimiter


def delimiter_of(path: Path) -> str:
    """What separates the fields of a file with this name, unless another delimiter is passed."""
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","


class Text(Table):
    """A text file whose first line names the columns."""

    def __init__(self, path: Path, delimiter: str | None, decimal: str) -> None:
        self.path = path
        self.decimal = decimal
        self.delimiter = checked_delimiter(delimiter, decimal) or delimiter_of(path)
        if self.delimiter == decimal:
            raise InputError(
                "decimal", f"be another mark than the delimiter, {decimal!r}", remedy=f"Pass {setting('delimiter', ';')}."
            )
        self._file: LineFile | None = None
        try:
            self.names = [name.strip() for name in next(self._rows(self._open()), [])]
        finally:
            self.close()
        if len(self.names) == 1:
            self._refuse_other_delimiter(self.names[0])
        check_names(self.names, path)
        if all(_is_number(name) for name in self.names) and self.names != [str(k) for k in range(len(self.names))]:
            raise FormatError(f"{path} starts with numbers. Its first line must name the columns.")

    def _refuse_other_delimiter(self, header: str) -> None:
        for other in _DELIMITERS:
            if other in header and other != self.delimiter:
                raise FormatError(
                    f"{self.path} has one column, {header!r:.60}: the delimiter is {self.delimiter!r}. "
                    f"Pass {setting('delimiter', other)}."
                )

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:
        """Blocks of whole lines that pyarrow reads, or of about `CELLS` cells that Python does.

        Python reads what pyarrow would read in another way or not at all, so that both give the same numbers and errors.
        """
        file, n_rows = self._open(), 0
        next(self._rows(file))
        parse = partial(self._parse, numbers) if self._takes_arrow() else None
        for block in read_blocks(file, len(self.names), parse, self._read):
            yield block
            n_rows += block.n_rows
        if not n_rows:
            raise no_rows(self.path)
        self.close()

    def _takes_arrow(self) -> bool:
        """Whether pyarrow can read this; in a table of one column it would take an empty line for a row."""
        return len(self.names) > 1 and self.delimiter.isascii() and arrow_reader("pyarrow.csv", self.path) is not None

    def _parse(self, numbers: Sequence[int], lines: bytes, first_line: int, first_row: int) -> "_ParsedLines | None":
        """A block that pyarrow has parsed; None where Python may read the lines in another way."""
        parsed = parse_delimited(lines, len(self.names), numbers, delimiter=self.delimiter, decimal=self.decimal)
        return None if parsed is None else _ParsedLines(self, parsed, numbers, first_line, first_row)

    def _read(self, file: LineFile, first: int) -> Iterator["_TextBlock"]:
        """The rows of the lines that were given back, or of all lines if there are none."""
        step, until_read = max(1, CELLS // len(self.names)), file.has_given_back
        rows: list[list[str]] = []
        lines: list[int] = []
        content = self._rows(file)
        for row in content:
            if len(row) != len(self.names):
                line = file.number
                if not row and all(not after for after in content):
                    break  # empty lines at the end
                raise self._other_length(line, row)
            rows.append(row)
            lines.append(file.number)
            is_read = until_read and not file.has_given_back
            if len(rows) == step or is_read:
                yield _TextBlock(self, rows, lines, first)
                first += len(rows)
                rows, lines = [], []
            if is_read:
                return
        if rows:
            yield _TextBlock(self, rows, lines, first)

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

    def _rows(self, file: LineFile) -> Iterator[list[str]]:
        """The fields of each line; the file knows the number of the line in which they end."""
        try:
            yield from csv.reader(file, delimiter=self.delimiter, strict=True)
        except csv.Error as error:
            raise FormatError(f"{self.path}, line {file.number}: {_reason(str(error))}.") from None

    def _open(self) -> LineFile:
        self.close()
        self._file = LineFile(self.path)
        return self._file

    def close(self) -> None:
        """Close the file, which the next pass opens again."""
        if self._file is not None:
            self._file.close()


def _reason(error: str) -> str:
    """What went wrong, in our words where Python's speak to programmers."""
    if "unexpected end" in error:
        return "a quote is opened and never closed. Close it, or double the quotes inside text"
    if "field larger" in error:
        return f"a field of more than {csv.field_size_limit()} characters. Check that every quote is closed"
    if "new-line" in error:
        return "a carriage return inside a line. Save the file with the line ends of Unix or Windows"
    return f"{error}. Double the quotes inside text"


class _TextBlock(Block):
    def __init__(self, table: Text, rows: list[list[str]], lines: list[int], first_row: int) -> None:
        self.path, self.names, self.first_row = table.path, table.names, first_row
        self.n_rows, self.lines = len(rows), np.array(lines)
        self._rows, self._decimal = rows, table.decimal

    def column(self, index: int) -> Column:
        return self._texts([index])

    def values(self, index: int) -> list[Any]:
        return [text.strip() for text in self._texts([index])]

    def _texts(self, indices: Sequence[int]) -> list[str]:
        """The cells of some columns as they are written, row by row."""
        cells: Iterable[Any] = map(itemgetter(*indices), self._rows)
        return list(chain.from_iterable(cells) if len(indices) > 1 else cells)

    def numbers(self, indices: Sequence[int]) -> HostArray:
        texts = self._texts(indices)
        if _is_plain("".join(texts)):
            with suppress(ValueError):
                numbers = np.fromiter(map(self._number, texts), np.float64, len(texts))
                return numbers.reshape(self.n_rows, len(indices))
        places = [(row, index) for row in range(self.n_rows) for index in indices]
        cells = [self._number_at(text, place) for text, place in zip(texts, places, strict=True)]
        return np.array(cells).reshape(self.n_rows, len(indices))

    @property
    def _number(self) -> Any:
        """The function from text to a number, which raises ValueError; where a comma is the mark, it refuses a point."""
        if self._decimal == ".":
            return float
        exchanged = str.maketrans(",.", ".,")
        return lambda text: float(text.translate(exchanged))

    def _number_at(self, text: str, place: tuple[int, int]) -> float:
        text = text.strip(" \t")
        if text in MISSING:
            return np.nan
        try:
            return float(self._number(text if _is_plain(text) else "?"))
        except ValueError:
            other = "," if self._decimal == "." else "."
            remedy = "Correct it, or choose other columns."
            if _is_number(text.translate(str.maketrans(",.", ".,")) if self._decimal == "." else text):
                remedy = f"The decimal mark is {self._decimal!r}; pass {setting('decimal', other)}."
            raise FormatError(f"{self.where(*place)}: {text!r:.60} is not a number. {remedy}") from None


class _ParsedLines(_TextBlock):
    """Lines that pyarrow has parsed: the numbers of some columns, and the text of the others."""

    def __init__(
        self, table: Text, parsed: tuple[HostArray, Any], columns: Sequence[int], first_line: int, first_row: int
    ) -> None:
        super().__init__(table, [], [], first_row)
        self.n_rows = len(parsed[0])
        self.lines = np.arange(first_line, first_line + self.n_rows)
        self._columns, (self._numbers, self._text) = list(columns), parsed

    def numbers(self, indices: Sequence[int]) -> HostArray:
        return self._numbers if list(indices) == self._columns else super().numbers(indices)

    def _texts(self, indices: Sequence[int]) -> list[str]:
        assert set(self._columns).isdisjoint(indices), "of these columns the caller wanted numbers"
        columns = [self._text.column(str(index)).to_pylist() for index in indices]
        return columns[0] if len(columns) == 1 else list(chain.from_iterable(zip(*columns, strict=True)))


def _is_plain(text: str) -> bool:
    """Whether it has only characters that numbers are written with."""
    return not text.encode(errors="replace").translate(None, _PLAIN)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return _is_plain(text)
