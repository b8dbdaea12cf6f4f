"""JSON lines: one object per line, all with the same keys, which name the columns."""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.tables.arrow_lines import arrow_reader, parse_objects
from nishimori._files.tables.block import Block, Column, Table, check_names
from nishimori._files.tables.lines import LineFile, read_blocks
from nishimori._files.tables.text import CELLS
from nishimori._rows.column_names import join_names
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError


class JsonLines(Table):
    """A file of one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: LineFile | None = None
        try:
            first = next(self._objects(self._open()), None)
        finally:
            self.close()
        if first is None:
            raise FormatError(f"{path} is empty. It must have one JSON object per line.")
        self.names = list(first)
        self.list_lengths = {name: len(value) for name, value in first.items() if isinstance(value, list)}  # and their lengths
        check_names(self.names, path)

    def is_list(self, name: str) -> bool:
        """Whether the first line has a list there."""
        return name in self.list_lengths

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:
        """Blocks of whole lines that pyarrow reads, or of about as many numbers as blocks of text have cells.

        Python reads what pyarrow would read in another way or not at all, so that both give the same numbers and errors.
        """
        parse = partial(self._parse, numbers) if arrow_reader("pyarrow.json", self.path) is not None else None
        yield from read_blocks(self._open(), self._n_numbers, parse, self._read)
        self.close()

    @property
    def _n_numbers(self) -> int:
        """About how many numbers a line has."""
        return len(self.names) + sum(self.list_lengths.values())

    def _parse(self, numbers: Sequence[int], lines: bytes, first_line: int, first_row: int) -> "_JsonBlock | None":
        """A block that pyarrow has parsed; None where Python may read the lines in another way."""
        try:
            first = json.loads(lines[: lines.find(b"\n") + 1])
        except (ValueError, RecursionError):
            return None
        if not isinstance(first, dict) or first.keys() != set(self.names):
            return None
        if {name: len(value) for name, value in first.items() if isinstance(value, list)} != self.list_lengths:
            return None
        parsed = parse_objects(lines, first, [self.names[index] for index in numbers])
        return None if parsed is None else _ParsedObjects(self, parsed, numbers, first_line, first_row)

    def _read(self, file: LineFile, first: int) -> Iterator["_JsonBlock"]:
        """The objects of the lines that were given back, or of all lines if there are none."""
        step, until_read = max(1, CELLS // self._n_numbers), file.has_given_back
        rows: list[list[Any]] = []
        lines: list[int] = []
        for content in self._objects(file):
            if content.keys() != set(self.names):
                raise self._other_keys(file.number, content)
            rows.append([content[name] for name in self.names])
            lines.append(file.number)
            is_read = until_read and not file.has_given_back
            if len(rows) == step or is_read:
                yield _JsonBlock(self, rows, lines, first)
                first += len(rows)
                rows, lines = [], []
            if is_read:
                return
        if rows:
            yield _JsonBlock(self, rows, lines, first)

    def _other_keys(self, line: int, content: dict[str, Any]) -> FormatError:
        missing, expected = [name for name in self.names if name not in content], set(self.names)
        extra = [name for name in content if name not in expected]
        differences = [f"{text} {join_names(names)}" for text, names in (("no", missing), ("also", extra)) if names]
        return FormatError(
            f"{self.path}, line {line}: the object has {' and '.join(differences)}, unlike the first. "
            "Give all objects the same keys, with null where there is no value."
        )

    def _objects(self, file: LineFile) -> Iterator[dict[str, Any]]:
        """The object of each line; the file knows the number of the line."""
        lines = iter(file)
        for line in lines:
            try:
                content = json.loads(line, object_pairs_hook=_distinct)
            except (ValueError, RecursionError) as error:
                number = file.number
                if not line.strip() and all(not after.strip() for after in lines):
                    return  # empty lines at the end
                reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
                raise FormatError(f"{self.path}, line {number}: not a JSON object: {reason:.100}.") from None
            if not isinstance(content, dict):
                raise FormatError(f"{self.path}, line {file.number}: must be a JSON object, got {content!r:.60}.")
            yield content

    def _open(self) -> LineFile:
        self.close()
        self._file = LineFile(self.path)
        return self._file

    def close(self) -> None:
        """Close the file, which the next pass opens again."""
        if self._file is not None:
            self._file.close()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; Python's own reader would keep the last of equal keys without a word."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs more than once")
    return content


class _JsonBlock(Block):
    def __init__(self, table: JsonLines, rows: list[list[Any]], lines: list[int], first_row: int) -> None:
        self.path, self.names, self.first_row = table.path, table.names, first_row
        self.n_rows, self.lines = len(rows), np.array(lines)
        self._rows, self._lists = rows, table.list_lengths

    def column(self, index: int) -> Column:
        return self.values(index)

    def values(self, index: int) -> list[Any]:
        return [row[index] for row in self._rows]

    def numbers(self, indices: Sequence[int]) -> HostArray:
        columns = [self.values(index) for index in indices]
        if len(columns) == 1 and self.names[indices[0]] in self._lists:
            rows = columns[0]
            self._check_lists(rows, indices[0])
        else:
            rows = list(map(list, zip(*columns, strict=True)))
        kinds = {kind for row in rows for kind in set(map(type, row))}
        if not kinds <= {int, float, type(None)}:
            self._refuse_other(rows, indices)
        try:
            return np.array(rows, dtype=np.float64)  # None becomes NaN
        except OverflowError:
            raise FormatError(f"{self.path} has an integer that is too large for a score, up to {self.where(-1)}.") from None

    def _check_lists(self, rows: list[Any], index: int) -> None:
        length = self._lists[self.names[index]]
        for row, value in enumerate(rows):
            if not isinstance(value, list) or len(value) != length:
                raise FormatError(f"{self.where(row, index)}: must be a list of {length} numbers, got {value!r:.60}.")

    def _refuse_other(self, rows: list[list[Any]], indices: Sequence[int]) -> None:
        for row, values in enumerate(rows):
            for place, value in enumerate(values):
                if type(value) not in (int, float, type(None)):
                    index = indices[place if len(indices) > 1 else 0]
                    raise FormatError(
                        f"{self.where(row, index)}: {value!r:.60} is not a number. Correct it, or choose other columns."
                    )


class _ParsedObjects(_JsonBlock):
    """Lines that pyarrow has parsed: the numbers of some columns, and the values of the others."""

    def __init__(
        self,
        table: JsonLines,
        parsed: tuple[HostArray, Mapping[str, list[Any]]],
        columns: Sequence[int],
        first_line: int,
        first_row: int,
    ) -> None:
        super().__init__(table, [], [], first_row)
        self._columns, (self._numbers, self._values) = list(columns), parsed
        self.n_rows = len(self._numbers)
        self.lines = np.arange(first_line, first_line + self.n_rows)

    def values(self, index: int) -> list[Any]:
        return self._values[self.names[index]]

    def numbers(self, indices: Sequence[int]) -> HostArray:
        return self._numbers if list(indices) == self._columns else super().numbers(indices)
