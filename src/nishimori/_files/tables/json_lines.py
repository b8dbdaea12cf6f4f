"""JSON lines: one object per line, all with the same keys, which name the columns.

Python's json module reads them, because values stay what they are. pyarrow's reader takes a quarter of the time where each
class has a key, and two thirds where scores are lists, but makes dates of text, fractions of integers that are large or stand
beside fractions, and nulls of keys that are missing.
"""

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.tables.block import Block, Column, Table, check_names
from nishimori._files.tables.lines import LineFile
from nishimori._rows.column_names import join_names
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError

# Larger integers are larger than any float.
_BITS = 1023


class JsonLines(Table):
    """A file of one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(LineFile(path)) as file:
            _, first = next(self._objects(file, 0), (0, None))
        if first is None:
            raise FormatError(f"{path} is empty. It must have one JSON object per line.")
        self.names = list(first)
        self.list_lengths = {name: len(value) for name, value in first.items() if isinstance(value, list)}  # and their lengths
        check_names(self.names, path)

    def is_list(self, name: str) -> bool:
        """Whether the first line has a list there."""
        return name in self.list_lengths

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:  # noqa: ARG002 - values have types
        """Blocks of whole lines."""
        names, n_rows, start = set(self.names), 0, 0
        with closing(LineFile(self.path)) as file:
            while content := file.read(len(self.names) + sum(self.list_lengths.values())):
                rows: list[list[Any]] = []
                for line, values in self._objects(StringIO(content.decode(), newline="\n"), start):
                    if line > (expected := n_rows + len(rows) + 1):
                        raise FormatError(f"{self.path}, line {expected}: not a JSON object: the line is empty.")
                    if values.keys() != names:
                        raise self._other_keys(line, values)
                    rows.append([values[name] for name in self.names])
                if rows:
                    yield _JsonBlock(self, rows, n_rows)
                n_rows, start = n_rows + len(rows), file.n_read

    def _objects(self, lines: Iterable[str], before: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The numbers of lines and their objects, without empty lines; that many lines are ``before``."""
        for number, line in enumerate(lines, before + 1):
            if not line.strip():
                continue
            try:
                content = json.loads(line, object_pairs_hook=_distinct)
            except (ValueError, RecursionError) as error:
                reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
                raise FormatError(f"{self.path}, line {number}: not a JSON object: {reason:.100}.") from None
            if not isinstance(content, dict):
                raise FormatError(f"{self.path}, line {number}: must be a JSON object, got {content!r:.60}.")
            yield number, content

    def _other_keys(self, line: int, content: dict[str, Any]) -> FormatError:
        missing, expected = [name for name in self.names if name not in content], set(self.names)
        extra = [name for name in content if name not in expected]
        differences = [f"{text} {join_names(names)}" for text, names in (("no", missing), ("also", extra)) if names]
        return FormatError(
            f"{self.path}, line {line}: the object has {' and '.join(differences)}, unlike the first. "
            "Give all objects the same keys, with null where there is no value."
        )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; Python's own reader would keep the last of equal keys without a word."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs more than once")
    return content


class _JsonBlock(Block):
    def __init__(self, table: JsonLines, rows: list[list[Any]], first_row: int) -> None:
        self.path, self.names, self.first_row = table.path, table.names, first_row
        self.n_rows, self.lines = len(rows), np.arange(first_row + 1, first_row + len(rows) + 1)
        self._rows, self._lists = rows, table.list_lengths

    def column(self, index: int) -> Column:
        return [row[index] for row in self._rows]

    def values(self, index: int) -> list[Any]:
        values: list[Any] = self.column(index)
        for row, value in enumerate(values):
            if isinstance(value, int) and value.bit_length() > _BITS:
                raise FormatError(f"{self.where(row, index)}: the integer is too large.")
        return values

    def numbers(self, indices: Sequence[int]) -> HostArray:
        if len(indices) == 1 and self.names[indices[0]] in self._lists:
            rows = self.column(indices[0])
            self._check_lists(rows, indices[0])
        else:
            rows = [[row[index] for index in indices] for row in self._rows]
        if not {kind for row in rows for kind in set(map(type, row))} <= {int, float, type(None)}:
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
