"""Delimited text, such as .csv: the first line names the columns, and every other line has as many fields.

Nothing is inferred from the values. A number is what Python's ``float`` reads, everything else is text as it is written.
"""

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from nishimori._rows.tables.block import Block, Column, Table, check_names, no_rows
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError, InputError, setting

# Cells in a block: 2**17 take about 12 MB as Python's text.
CELLS = 2**17
# Longer lines are refused before they fill the memory; 32,000 columns of numbers take about 600,000 bytes.
_LONGEST_LINE = 2**24
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
    """What separates the fields of a file with this name, unless somebody says otherwise."""
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
        self._file: IO[bytes] | None = None
        try:
            self.names = [name.strip() for name in next(self._rows(), (0, []))[1]]
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

    def blocks(self) -> Iterator[Block]:
        """Blocks of about `CELLS` cells."""
        step, first = max(1, CELLS // len(self.names)), 0
        rows: list[list[str]] = []
        lines: list[int] = []
        content = self._rows()
        next(content)
        for line, row in content:
            if len(row) != len(self.names):
                if not row and all(not after for _, after in content):
                    break  # empty lines at the end
                raise self._other_length(line, row)
            rows.append(row)
            lines.append(line)
            if len(rows) == step:
                yield _TextBlock(self, rows, lines, first)
                first += len(rows)
                rows, lines = [], []
        if rows:
            yield _TextBlock(self, rows, lines, first)
        elif not first:
            raise no_rows(self.path)
        self.close()

    def _other_length(self, line: int, row: list[str]) -> FormatError:
        n, wanted, mark = len(row), len(self.names), repr(self.delimiter)
        remedy = f"Put text that contains {mark} in quotes."
        if self.delimiter == "," and n > wanted:
            marks = f"{setting('delimiter', ';')} with {setting('decimal', ',')}"
            remedy = f"If its decimal mark is a comma, use another delimiter: {marks}."
        found = "1 field" if n == 1 else f"{n} fields"
        return FormatError(
            f"{self.path}, line {line}: {found} where the header has {wanted}; the delimiter is {mark}. {remedy}"
        )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The fields of each line, the header included, and the number of the line in which they end."""
        self.close()
        reader = csv.reader(self._lines(), delimiter=self.delimiter, strict=True)
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise FormatError(f"{self.path}, line {reader.line_num}: {_reason(str(error))}.") from None

    def _lines(self) -> Iterator[str]:
        gzipped = self.path.name.lower().endswith(".gz")
        # The gzip module's own file has no type in common with a plain one.
        opened: Any = gzip.open(self.path, "rb") if gzipped else self.path.open("rb")  # noqa: SIM115 - `close` does
        self._file = opened
        return decode_lines(opened, self.path)

    def close(self) -> None:
        """Close the file, which the next reading opens again."""
        if self._file is not None:
            self._file.close()


def decode_lines(file: IO[bytes], path: Path) -> Iterator[str]:
    """The lines of a file of text in UTF-8; anything else is refused."""
    number = 0
    try:
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if number == 1:
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise FormatError(f"{path} is text in UTF-16. Save it again in UTF-8.")
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(line) >= _LONGEST_LINE:
                raise FormatError(f"{path}, line {number}: longer than {_LONGEST_LINE} bytes, so this is not a table.")
            if b"\0" in line:
                raise FormatError(f"{path}, line {number}: a NUL byte, so this is not text. Check that the file is whole.")
            yield line.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{path}, line {number}: not text in UTF-8. Save the file again in that encoding.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{path} is not a whole gzip file: {error}. Compress it again.") from None


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
        return [row[index] for row in self._rows]

    def values(self, index: int) -> list[Any]:
        return [row[index].strip() for row in self._rows]

    def numbers(self, indices: Sequence[int]) -> HostArray:
        cells: Iterable[Any] = map(itemgetter(*indices), self._rows)
        texts: list[str] = list(chain.from_iterable(cells) if len(indices) > 1 else cells)
        if _is_plain("".join(texts)):
            with suppress(ValueError):
                numbers = np.fromiter(map(self._number, texts), np.float64, len(texts))
                return numbers.reshape(self.n_rows, len(indices))
        return np.array([[self._number_at(row, index) for index in indices] for row in range(self.n_rows)])

    @property
    def _number(self) -> Any:
        """The function from text to a number, which raises ValueError; where a comma is the mark, it refuses a point."""
        if self._decimal == ".":
            return float
        exchanged = str.maketrans(",.", ".,")
        return lambda text: float(text.translate(exchanged))

    def _number_at(self, row: int, index: int) -> float:
        text = self._rows[row][index].strip(" \t")
        if text in MISSING:
            return np.nan
        try:
            return float(self._number(text if _is_plain(text) else "?"))
        except ValueError:
            other = "," if self._decimal == "." else "."
            remedy = "Correct it, or choose other columns."
            if _is_number(text.translate(str.maketrans(",.", ".,")) if self._decimal == "." else text):
                remedy = f"The decimal mark is {self._decimal!r}; pass {setting('decimal', other)}."
            raise FormatError(f"{self.where(row, index)}: {text!r:.60} is not a number. {remedy}") from None


def _is_plain(text: str) -> bool:
    """Whether it has only characters that numbers are written with."""
    return not text.encode(errors="replace").translate(None, _PLAIN)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return _is_plain(text)
