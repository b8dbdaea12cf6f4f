"""JSON lines: one object per line, all with the same keys, which name the columns."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from nishimori._rows.tables.block import Block, Column, Table, check_names, join_names
from nishimori._rows.tables.text import CELLS, decode_lines
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError


class JsonLines(Table):
    """A file of one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        try:
            _, first = next(self._objects(), (0, None))
        finally:
            self.close()
        if first is None:
            raise FormatError(f"{path} is empty. It must have one JSON object per line.")
        self.names = list(first)
        self._lists = {name: len(value) for name, value in first.items() if isinstance(value, list)}
        check_names(self.names, path)

    def is_list(self, name: str) -> bool:
        """Whether the first line has a list there."""
        return name in self._lists

    def blocks(self) -> Iterator[Block]:
        """Blocks of about as many numbers as blocks of text have cells."""
        step, first = max(1, CELLS // (len(self.names) + sum(self._lists.values()))), 0
        rows: list[list[Any]] = []
        lines: list[int] = []
        for line, content in self._objects():
            if content.keys() != set(self.names):
                raise self._other_keys(line, content)
            rows.append([content[name] for name in self.names])
            lines.append(line)
            if len(rows) == step:
                yield _JsonBlock(self.path, self.names, rows, lines, first)
                first += len(rows)
                rows, lines = [], []
        if rows:
            yield _JsonBlock(self.path, self.names, rows, lines, first)
        self.close()

    def _other_keys(self, line: int, content: dict[str, Any]) -> FormatError:
        missing, known = [name for name in self.names if name not in content], set(self.names)
        extra = [name for name in content if name not in known]
        told = [f"{text} {join_names(names)}" for text, names in (("no", missing), ("also", extra)) if names]
        return FormatError(
            f"{self.path}, line {line}: the object has {' and '.join(told)}, unlike the first. "
            "Give all objects the same keys, with null where there is no value."
        )

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self.close()
        self._file = self.path.open("rb")
        lines = enumerate(decode_lines(self._file, self.path), start=1)
        for number, line in lines:
            try:
                content = json.loads(line, object_pairs_hook=_distinct)
            except (ValueError, RecursionError) as error:
                if not line.strip() and all(not after.strip() for _, after in lines):
                    return  # empty lines at the end
                reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
                raise FormatError(f"{self.path}, line {number}: not a JSON object: {reason:.100}.") from None
            if not isinstance(content, dict):
                raise FormatError(f"{self.path}, line {number}: must be a JSON object, got {content!r:.60}.")
            yield number, content

    def close(self) -> None:
        """Close the file, which the next reading opens again."""
        if self._file is not None:
            self._file.close()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; Python's own reader would keep the last of equal keys without a word."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs more than once")
    return content


class _JsonBlock(Block):
    def __init__(self, path: Path, names: list[str], rows: list[list[Any]], lines: list[int], first_row: int) -> None:
        self.path, self.names, self.first_row = path, names, first_row
        self.n_rows, self.lines = len(rows), np.array(lines)
        self._rows = rows

    def column(self, index: int) -> Column:
        return self.values(index)

    def values(self, index: int) -> list[Any]:
        return [row[index] for row in self._rows]

    def numbers(self, indices: Sequence[int]) -> HostArray:
        if len(indices) == 1 and isinstance(self._rows[0][indices[0]], list):
            rows = self.values(indices[0])
            self._check_lists(rows, indices[0])
        else:
            rows = [[row[index] for index in indices] for row in self._rows]
        kinds = {kind for row in rows for kind in set(map(type, row))}
        if not kinds <= {int, float, type(None)}:
            self._refuse_other(rows, indices)
        try:
            return np.array(rows, dtype=np.float64)  # None becomes NaN
        except OverflowError:
            raise FormatError(f"{self.path} has an integer that is too large for a score, up to {self.where(-1)}.") from None

    def _check_lists(self, rows: list[Any], index: int) -> None:
        for row, value in enumerate(rows):
            if not isinstance(value, list) or len(value) != len(rows[0]):
                raise FormatError(f"{self.where(row, index)}: must be a list of {len(rows[0])} numbers, got {value!r:.60}.")

    def _refuse_other(self, rows: list[list[Any]], indices: Sequence[int]) -> None:
        for row, values in enumerate(rows):
            for place, value in enumerate(values):
                if type(value) not in (int, float, type(None)):
                    index = indices[place if len(indices) > 1 else 0]
                    raise FormatError(
                        f"{self.where(row, index)}: {value!r:.60} is not a number. Correct it, or choose other columns."
                    )
