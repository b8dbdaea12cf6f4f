"""Rows of tables in files: one column per class or one column of lists, a column of labels, perhaps one of weights.

A folder of Parquet files is one table. Parsing and unpacking take long, so numbers that fit are kept, and only larger tables
are read again for each reading.
"""

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._rows.array_rows import ArrayRows, clusters_of
from nishimori._rows.batch import Groups
from nishimori._rows.labels import group_names, spelled_as
from nishimori._rows.options import ReadOptions
from nishimori._rows.parquet_folder import open_tables
from nishimori._rows.pieces import Pieces
from nishimori._rows.tables.block import Block, Table, listed
from nishimori._rows.tables.columns import Roles, by_names, named
from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError, InputError

# Bytes of numbers that are kept.
KEPT = 2**28


@dataclass(frozen=True, kw_only=True)
class Columns(Roles):
    """The names of the columns of scores, labels and so on; without names of scores, those that leave no doubt."""

    scores: Sequence[str] | None = None


@dataclass(frozen=True)
class _Part:
    """Some rows of a file; ``lines`` are theirs, where a file has lines. ``place`` is that of the first among all rows."""

    path: Path
    first_row: int
    place: int
    scores: HostArray
    labels: Any
    weights: HostArray | None
    lines: HostArray | None


class TableRows(Pieces[_Part]):
    """The rows of one table, or of all Parquet files in a folder in the order of their names."""

    def __init__(
        self, path: str | os.PathLike[str], columns: Columns, meaning: ReadOptions, *, progress: bool | None = None
    ) -> None:
        super().__init__(meaning, progress=progress, read_ahead=True)
        if meaning.classes is not None:  # labels in files are spelled in many ways, so they are compared as text
            meaning = self.meaning = replace(meaning, classes=[str(label) for label in meaning.classes])
        self.path = Path(path)
        self._columns = columns
        with open_tables(self.path) as table:
            self.scores = _score_columns(table, columns, meaning)
            self._place = {name: index for index, name in enumerate(table.names)}
            if columns.clusters is not None or columns.groups is not None:
                self._read_parts(table)
        self._kept: list[_Part] | None = None

    def _read_parts(self, table: Table) -> None:
        """The clusters and groups of all rows, which are few bytes per row."""
        wanted = {"cluster": self._columns.clusters, "group": self._columns.groups}
        places = {what: self._place[name] for what, name in wanted.items() if name is not None}
        known: dict[str, dict[Any, int]] = {what: {} for what in places}
        codes: dict[str, list[HostArray]] = {what: [] for what in places}
        weights = []
        for block in table.blocks():
            for what, index in places.items():
                places_in = [known[what].setdefault(each, len(known[what])) for each in row_values(block, index, what)]
                codes[what].append(np.array(places_in, dtype=np.int64))
            weights.append(np.ones(block.n_rows))
            if self._columns.weights is not None:
                weights[-1] = block.numbers([self._place[self._columns.weights]])[:, 0]
        if "cluster" in places:
            self.clusters = clusters_of(np.concatenate(codes["cluster"]), np.concatenate(weights))
        if "group" in places:
            self.groups = Groups(np.concatenate(codes["group"]), group_names(list(known["group"])))

    @property
    def names(self) -> list[str] | None:
        """The names of the columns of scores, where there is one per class."""
        return self.scores if len(self.scores) > 1 else None

    def read(self) -> Generator[_Part, None, None]:
        """Parts of files, parsed."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[_Part] = []
        n_bytes = n_rows = 0
        with open_tables(self.path) as table:
            if {name: index for index, name in enumerate(table.names)} != self._place:
                raise FormatError(f"{self.path} has changed since it was first read. Start again when it is complete.")
            for block in table.blocks():
                part = self._part(block, self._place, n_rows)
                n_bytes, n_rows = n_bytes + part.scores.nbytes, n_rows + block.n_rows
                if n_bytes <= KEPT:
                    kept.append(part)
                else:
                    kept.clear()
                yield part
        self._kept = kept or None

    def _part(self, block: Block, place: dict[str, int], n_before: int) -> _Part:
        """The numbers and labels of a block."""
        columns = [place[name] for name in self.scores]
        scores, weights = block.numbers(columns), None
        if self._columns.weights is not None:
            column = [place[self._columns.weights]]
            weights = block.numbers(column)[:, 0]
            block.refuse_missing(weights[:, None], column, "weight")
        labels = _labels(block, place[self._columns.labels])
        return _Part(block.path, block.first_row, n_before, flat(scores), labels, weights, block.lines)

    def rows(self, piece: _Part) -> ArrayRows:
        """The rows of a part of a file."""
        labels = self._spelled(piece.labels)
        rows = self.meaning.rows(piece.scores, labels, piece.weights, piece.first_row, self._n_classes)
        if self.clusters is not None:
            rows.clusters = self.clusters.of(slice(piece.place, piece.place + rows.n_rows))
        if self.groups is not None:
            rows.groups = self.groups.of(slice(piece.place, piece.place + rows.n_rows))
        return rows

    def _spelled(self, labels: HostArray) -> Any:
        """Labels as classes are spelled; the label to ignore is a number, whatever the classes are."""
        classes: Any = self.meaning.classes
        ignored = self.meaning.labelling.ignore_index
        if classes is None or ignored is None:
            return spelled_as(labels, classes)
        return [ignored if each == str(ignored) else each for each in spelled_as(labels, [*classes, str(ignored)])]

    def place(self, error: InputError, piece: _Part) -> InputError:
        """The error with the file, and with its lines and columns in place of rows and numbers of columns."""
        return place_in_table(error, piece.lines, self.names, piece.first_row).changed(where=str(piece.path))

    def nothing(self) -> InputError:
        """Never raised: a table without rows is refused when it is read."""
        raise AssertionError


def place_in_table(error: InputError, lines: HostArray | None, columns: Sequence[str] | None, first_row: int = 0) -> InputError:
    """An error about a row, with its line and the name of its column, where the table has them.

    ``lines`` are those of the rows from ``first_row`` on.
    """
    if not isinstance(error.row, int):
        return error
    place = f"row {error.row}" if lines is None else f"line {lines[error.row - first_row]}"
    if error.column is not None:
        place += f", column {error.column if columns is None else repr(columns[error.column])}"
    return error.changed(place=place)


def flat(scores: HostArray) -> HostArray:
    """Scores (n, 1) as (n,): one number per row stands for two classes."""
    return scores[:, 0] if scores.shape[1:] == (1,) else scores


def row_values(block: Block, index: int, what: str) -> list[Any]:
    """The cluster or the group of each row of a block; refuses one that is missing or that cannot be one."""
    values = block.values(index)
    for row, value in enumerate(values):
        if value is None or value == "" or (isinstance(value, float) and isnan(value)):
            raise FormatError(f"{block.where(row, index)}: a {what} is missing. Fill it in, or drop the row.")
        if isinstance(value, list | dict):
            raise FormatError(f"{block.where(row, index)}: a {what} must be text or a number, got {value!r:.60}.")
    return values


def _labels(block: Block, index: int) -> HostArray:
    """Numbers if the column has only numbers, else its values."""
    try:
        return block.numbers([index])[:, 0]
    except FormatError:
        values = block.values(index)
        labels = np.empty(len(values), dtype=object)
        labels[:] = values
        return labels


def _score_columns(table: Table, columns: Columns, meaning: ReadOptions) -> list[str]:
    """The columns that are named, or those whose names leave no doubt."""
    known = set(table.names)
    for what, name in columns.by_role.items():
        if name not in known:
            argument = {"labels": meaning.names[1], "weights": "sample_weight"}.get(what, what)
            raise InputError(f"{table.path} has no column {name!r}, only {listed(table.names)}. Name yours with `{argument}`.")
        if table.is_list(name):
            raise InputError(f"{table.path} has lists in column {name!r}, and {what} must be one value per row.")
    if columns.scores is not None:
        return named(columns.scores, table.names, columns.special, meaning.classes, where=str(table.path))
    if meaning.input in known and table.is_list(meaning.input):
        return [meaning.input]
    candidates = [name for name in table.names if name not in columns.special]
    if candidates == [meaning.input] or by_names(candidates, meaning.classes):  # type: ignore[arg-type]
        return candidates
    raise InputError(
        f"{table.path} does not say which columns are scores: {listed(candidates)}. Name them: "
        "`nishimori.rows(path, columns=[...])`."
    )
