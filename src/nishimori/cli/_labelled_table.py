"""A table with labels, read once for everything but its scores.

The first reading checks each block, and keeps the scores if they fit in `KEPT` bytes. If they do not, they are read again
whenever they are needed.
"""

from collections.abc import Generator, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._rows.labels import group_names
from nishimori._rows.parquet_folder import open_tables
from nishimori._rows.stored_rows import KeptScores, Stored
from nishimori._rows.table_rows import KEPT, flat, row_values
from nishimori._rows.tables.block import Block, Table
from nishimori._rows.tables.columns import by_values
from nishimori._support.arrays import HostArray
from nishimori._support.progress import Report
from nishimori.cli._selection import Names, Selection, is_ignored, selected, undecided
from nishimori.errors import FormatError, InputError

# Columns that must have one value per row, and how an error says so.
_SINGLE = {
    "weights": "weight is one number",
    "clusters": "cluster is one value",
    "groups": "group is one value",
    "ids": "name is one value",
}


class LabelledTable:
    """The contents of a table, of which the scores may have stayed in the file.

    Attributes
    ----------
    columns : list of str
        The names of the columns of scores.
    scores : Stored
        The scores, which are read in blocks.
    labels : array
        The labels as the file has them, None where the weight is zero.
    weights, clusters, groups, ids, lines : array or None
        The weight, the cluster, the group, the name and the line of each row, where there are any.
    files : sequence of (int, path)
        The first row of each file.
    """

    def __init__(self, path: Path, names: Names, report: Report) -> None:
        with open_tables(path, delimiter=names.delimiter, decimal=names.decimal) as table:
            self._table, self._names, self._chosen = table, names, selected(table, names)
            for option, what in _SINGLE.items():
                name = names.find(option)
                if name and table.is_list(name):
                    raise InputError(f"{table.path} has lists in column {name!r}, and a {what}. Pass another --{option}.")
            self._place = {name: index for index, name in enumerate(table.names)}
            self.columns = self._chosen.scores
            self.files: list[tuple[int, Path]] = []
            self._read(report)

    def _read(self, report: Report) -> None:
        columns = [self._place[name] for name in self.columns]
        kept: list[HostArray] = []
        parts: list[tuple[HostArray | None, ...]] = []
        clusters, groups, ids = dict[Any, int](), dict[Any, int](), dict[Any, int]()
        n_rows = n_bytes = 0
        shape, extremes, texts = None, None, dict[str, str]()
        for block in self._table.blocks():
            scores, labels, weights, counted = self._checked(block, columns)
            if shape is not None and scores.shape[1:] != shape:
                raise FormatError(f"{block.where(0)}: lists of {scores.shape[1]} numbers after lists of {shape[0]}.")
            shape = scores.shape[1:]
            if self._chosen.by_values and counted.any():
                extremes = witnesses(scores[counted] if extremes is None else np.concatenate([extremes, scores[counted]]))
            # Equal texts are one object, which takes a fraction of the memory.
            labels = [texts.setdefault(label, label) if isinstance(label, str) else label for label in labels]
            belongs = [self._codes(block, *each) for each in (("clusters", clusters), ("groups", groups), ("ids", ids))]
            parts.append((_as_array(labels), weights, block.lines, *belongs))
            if not self.files or self.files[-1][1] != block.path:
                self.files.append((n_rows, block.path))
            n_rows, n_bytes = n_rows + block.n_rows, n_bytes + scores.nbytes
            if n_bytes <= KEPT:
                kept.append(flat(scores))
            else:
                kept.clear()
            report("Reading", n_rows, self._table.n_rows)
        assert shape is not None, "a table without rows is refused"
        truth, self.weights, self.lines, self.clusters, in_groups, called = map(_joined, zip(*parts, strict=True))
        assert truth is not None, "every row has a label"
        self.labels: HostArray = truth
        self.groups: HostArray | None = None if in_groups is None else np.array(group_names(list(groups)))[in_groups]
        self.ids: HostArray | None = None if called is None else np.array(group_names(list(ids)))[called]
        self._refuse_doubt(extremes)
        whole = (n_rows,) if shape == (1,) else (n_rows, *shape)
        self.scores: Stored = (
            KeptScores(kept) if kept else TableScores(self._table.path, self._names, columns, whole, scores.dtype)
        )

    def _checked(self, block: Block, columns: Sequence[int]) -> tuple[HostArray, list[Any], HostArray | None, HostArray]:
        """Scores, labels and weights of a block, and which rows count."""
        scores, weights = _numbers(block, columns, self._chosen, self._table, self._names), None
        counted = np.ones(block.n_rows, dtype=bool)
        if (name := self._names.find("weights")) is not None:
            place = [self._place[name]]
            weights = block.numbers(place)[:, 0]
            block.refuse_missing(weights[:, None], place, "weight")
            counted = weights != 0
        index, weighs = self._place[self._names.labels], counted
        if self._names.ignore_index is not None:
            counted = counted & ~is_ignored(_as_array(block.values(index)), self._names.ignore_index)
        block.refuse_missing(np.where(counted[:, None], scores, 0), columns, "score")
        return scores, _labels(block, index, weighs), weights, counted

    def _codes(self, block: Block, option: str, known: dict[Any, int]) -> HostArray | None:
        """A number for the cluster, the group or the name of each row; equal values have the same number in all blocks."""
        name = self._names.find(option)
        if name is None:
            return None
        values = row_values(block, self._place[name], option.removesuffix("s"))
        return np.array([known.setdefault(each, len(known)) for each in values])

    def _refuse_doubt(self, extremes: HostArray | None) -> None:
        """Refuse columns that were taken for scores by their number, if their values cannot be scores."""
        if not self._chosen.by_values:
            return
        counted = np.ones(len(self.labels), dtype=bool) if self.weights is None else self.weights != 0
        if self._names.ignore_index is not None:
            counted &= ~is_ignored(self.labels, self._names.ignore_index)
        if extremes is None or not by_values(extremes, self.labels[counted]):
            raise undecided(self._table, self.columns, self._names)


class TableScores(Stored):
    """The scores of a table, which is opened for each reading."""

    def __init__(
        self, path: Path, names: Names, columns: Sequence[int], shape: tuple[int, ...], dtype: "np.dtype[Any]"
    ) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        self._names, self._columns = names, columns

    def blocks(self) -> Generator[HostArray, None, None]:
        """The scores of each block."""
        with open_tables(self.path, delimiter=self._names.delimiter, decimal=self._names.decimal) as table:
            for block in table.blocks():
                yield flat(block.numbers(self._columns))


def witnesses(rows: HostArray) -> HostArray:
    """Three rows that are constant, or whole-numbered, in the columns in which all ``rows`` are."""
    finite = np.where(np.isfinite(rows), rows, 0)
    other, broken = (found.argmax(axis=0)[None] for found in (finite != finite[0], finite != np.floor(finite)))
    return np.concatenate([finite[:1], np.take_along_axis(finite, np.concatenate([other, broken]), axis=0)])


def _numbers(block: Block, columns: Sequence[int], chosen: Selection, table: Table, names: Names) -> HostArray:
    try:
        return block.numbers(columns)
    except FormatError:
        if chosen.by_values and not block.first_row:  # a column of text: it was never meant
            raise undecided(table, chosen.scores, names) from None
        raise


def _labels(block: Block, index: int, counted: HostArray) -> list[Any]:
    """The labels of a block, None in rows of weight zero; refuses one that is missing or that cannot be one."""
    labels = [label if keep else None for label, keep in zip(block.values(index), counted, strict=True)]
    for row in np.flatnonzero(counted).tolist():
        label = labels[row]
        if label is None or label == "" or (isinstance(label, float) and isnan(label)):
            raise FormatError(f"{block.where(row, index)}: a label is missing. Fill it in, or drop the row.")
        if isinstance(label, list | dict | bytes):
            raise FormatError(f"{block.where(row, index)}: a label must be text or a number, got {label!r:.60}.")
    return labels


def _as_array(labels: list[Any]) -> HostArray:
    """Numbers as an array of numbers, and anything else as it is."""
    if {type(label) for label in labels} <= {int, float}:
        return np.array(labels)
    kept = np.empty(len(labels), dtype=object)  # NumPy would turn numbers beside text into text
    kept[:] = labels
    return kept


def _joined(parts: Sequence[HostArray | None]) -> HostArray | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None
