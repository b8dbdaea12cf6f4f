"""Measured rows as lines of a .csv file, written as they come so that an interrupted run loses nothing."""

import csv
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

DIGITS = 9


class Table:
    """A .csv file with one column per field of ``kind``, a dataclass of numbers and texts."""

    def __init__(self, kind: type, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._file, [each.name for each in fields(kind)], lineterminator="\n")
        self._writer.writeheader()

    def write(self, row: Any) -> None:
        """Add one line."""
        cells = {name: f"{value:.{DIGITS}g}" if isinstance(value, float) else value for name, value in asdict(row).items()}
        self._writer.writerow(cells)
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def read(kind: type, path: Path) -> list[Any]:
    """The rows of the last run; none if there was none."""
    if not path.exists():
        return []
    kinds = {each.name: _from_text(each.type) for each in fields(kind)}
    with path.open(encoding="utf-8", newline="") as file:
        return [kind(**{name: kinds[name](value) for name, value in line.items()}) for line in csv.DictReader(file)]


def _from_text(kind: Any) -> Any:
    return (lambda text: text == "True") if kind is bool else kind
