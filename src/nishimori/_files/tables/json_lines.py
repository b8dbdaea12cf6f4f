"""JSON lines: one object per line, all with the same keys, which name the columns.

Python's json module reads them, because values stay what they are. pyarrow's reader takes half the time where each class has a
key, and two thirds where scores are lists, but makes dates of text, fractions of integers that are large or stand beside
fractions, and nulls of keys that are missing.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.tables.block import Block, Column, Table, check_names
from nishimori._files.tables.lines import LineFile
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import join_names
from nishimori.errors import FormatError

# Larger integers are larger than any float.
_BITS = 1023

# The types of a number in JSON, and of a missing one; True is of another type.
_NUMBERS = {int, float, type(None)}


class JsonLines(Table):
    """A file with one JSON object per line; ``lists`` has the length of each list in the first object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(LineFile(path)) as file:
            line = next(iter(file), None)
        if line is None:
            raise FormatError(f"{path} is empty. It must have one JSON object per line.")
        first = self._object(line, 1)
        self.names = list(first)
        self.lists: dict[str, int] = {name: len(value) for name, value in first.items() if isinstance(value, list)}
        check_names(self.names, path)

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:  # noqa: ARG002 - values have types
        """Blocks of whole lines."""
        names, n_rows, start = set(self.names), 0, 0
        with closing(LineFile(self.path)) as file:
            while content := file.read(len(self.names) + sum(self.lists.values())):
                objects = self._objects(content.decode(), start)
                for line, values in enumerate(objects, start + 1):
                    if values.keys() != names:
                        raise self._other_keys(line, values)
                if objects:
                    if n_rows < start:
                        raise FormatError(f"{self.path}, line {n_rows + 1}: not a JSON object: the line is empty.")
                    lines = np.arange(start + 1, start + len(objects) + 1)
                    yield _JsonBlock(self.path, self.names, len(objects), lines, n_rows, objects, self.lists)
                n_rows, start = n_rows + len(objects), file.n_read

    def _objects(self, content: str, before: int) -> list[dict[str, Any]]:
        """The objects in lines (only the last line may be empty); ``before`` counts the lines before them."""
        lines = content.rstrip().split("\n") if content.strip() else []
        try:  # all at once takes two thirds of the time
            objects: list[dict[str, Any]] = json.loads(f"[{','.join(lines)}]", object_pairs_hook=_distinct)
        except (ValueError, RecursionError):
            objects = []
        if len(objects) == len(lines) and all(isinstance(values, dict) for values in objects):
            return objects
        return [self._object(line, number) for number, line in enumerate(lines, before + 1)]

    def _object(self, line: str, number: int) -> dict[str, Any]:
        """The object of one line."""
        try:
            content = json.loads(line, object_pairs_hook=_distinct)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise FormatError(f"{self.path}, line {number}: not a JSON object: {reason:.100}.") from None
        if not isinstance(content, dict):
            raise FormatError(f"{self.path}, line {number}: must be a JSON object, got {content!r:.60}.")
        return content

    def _other_keys(self, line: int, content: dict[str, Any]) -> FormatError:
        missing, expected = [name for name in self.names if name not in content], set(self.names)
        extra = [name for name in content if name not in expected]
        differences = [f"{text} {join_names(names)}" for text, names in (("no", missing), ("also", extra)) if names]
        return FormatError(
            f"{self.path}, line {line}: the object has {' and '.join(differences)}, unlike the first. "
            "Give all objects the same keys, with null where there is no value."
        )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated keys: Python's own reader would silently keep the last of them."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs more than once")
    return content


@dataclass(frozen=True, eq=False)
class _JsonBlock(Block):
    objects: list[dict[str, Any]]
    lists: Mapping[str, int]

    def column(self, index: int) -> Column:
        return [values[self.names[index]] for values in self.objects]

    def values(self, index: int) -> list[Any]:
        values: list[Any] = self.column(index)
        for row, value in enumerate(values):
            if isinstance(value, int) and value.bit_length() > _BITS:
                raise FormatError(f"{self.where(row, index)}: the integer is too large.")
        return values

    def numbers(self, indices: Sequence[int]) -> HostArray:
        names = [self.names[index] for index in indices]
        if len(indices) == 1 and names[0] in self.lists:
            rows, length = self.column(indices[0]), self.lists[names[0]]
            other = next((row for row, value in enumerate(rows) if not isinstance(value, list) or len(value) != length), None)
            if other is not None:
                where = self.where(other, indices[0])
                raise FormatError(f"{where}: must be a list of {length} numbers, got {rows[other]!r:.60}.")
        else:
            rows = [[values[name] for name in names] for values in self.objects]
        if not {kind for values in rows for kind in set(map(type, values))} <= _NUMBERS:
            cells = ((row, place) for row, values in enumerate(rows) for place in range(len(values)))
            row, place = next((row, place) for row, place in cells if type(rows[row][place]) not in _NUMBERS)
            where = self.where(row, indices[place if len(indices) > 1 else 0])
            raise FormatError(f"{where}: {rows[row][place]!r:.60} is not a number. Correct it, or choose other columns.")
        try:
            return np.array(rows, dtype=np.float64)  # None becomes NaN
        except OverflowError:
            raise FormatError(f"{self.path} has an integer that is too large for a score, up to {self.where(-1)}.") from None
