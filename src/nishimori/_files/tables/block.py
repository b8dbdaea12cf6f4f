"""What every table can do, whatever its format: name its columns, and give its rows in blocks."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.optional import require
from nishimori.errors import FormatError

Column = Any
"""The values of one column: a list, or an array of pyarrow."""


@dataclass(frozen=True, eq=False)
class Block(ABC):
    """Some consecutive rows of a table.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        The names of all columns.
    n_rows : int
        How many rows there are.
    lines : integer array or None
        The line of the file in which each row ends, from 1; None where a file has no lines.
    first_row : int
        The number of the first row, from 0.
    """

    path: Path
    names: list[str]
    n_rows: int
    lines: HostArray | None
    first_row: int

    @abstractmethod
    def column(self, index: int) -> Column:
        """The values of a column as they are in the file."""

    @abstractmethod
    def values(self, index: int) -> list[Any]:
        """The values of a column as Python objects; None or empty text where one is missing."""

    @abstractmethod
    def numbers(self, indices: Sequence[int]) -> HostArray:
        """The numbers (n, k) of some columns, or of one column of lists; NaN where a number is missing."""

    def where(self, row: int, index: int | None = None) -> str:
        """The place of a row of the block, or of a cell, with which messages begin."""
        place = f"row {self.first_row + row}, counted from 0" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.path}, {place}" + ("" if index is None else f", column {self.names[index]!r}")

    def refuse_missing(self, numbers: HostArray, indices: Sequence[int], what: str) -> None:
        """Refuse NaN in the result of `numbers`; ``what`` is a word such as score."""
        if not np.isnan(numbers).any():
            return
        row, place = (int(position) for position in np.argwhere(np.isnan(numbers))[0])
        index = indices[place if len(indices) > 1 else 0]
        value = self.values(index)[row]
        reason = f"a {what} is missing" if value in ("", None) else f"got {value!r:.40} for a {what}"
        raise FormatError(f"{self.where(row, index)}: {reason}. Fill it in, or drop the row.")


class Table(AbstractContextManager["Table"]):
    """A file of rows with named columns; a context manager, because the file stays open while it is read.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        The names of the columns, all different.
    n_rows : int or None
        How many rows there are, or None where that takes a pass.
    lists : collection of str
        The names of the columns that hold a list of numbers per row.
    """

    path: Path
    names: list[str]
    n_rows: int | None = None
    lists: Collection[str] = ()

    @abstractmethod
    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:
        """All rows in order, a few megabytes at a time; refuses a table without rows.

        ``numbers`` are columns whose numbers will be asked for, all at once; text is parsed faster for those who know.
        """

    def close(self) -> None:
        """Close the file."""

    def __exit__(self, *_: object) -> None:
        self.close()


def arrow(path: Path, doing: str, module: str = "pyarrow") -> Any:
    """A module of pyarrow; ``doing`` is Reading or Writing."""
    return require(module, extra="tables", for_=f"{doing} {path.name}")


def check_names(names: Sequence[str], path: Path) -> None:
    """Refuse columns that cannot be told apart, and columns without a name.

    The first column may be without one: so data frames write their row numbers.
    """
    if not names:
        raise FormatError(f"{path} is empty. It must start with the names of its columns.")
    if len(set(names)) != len(names):
        first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))  # the place where each name stands first
        twice = next(name for place, name in enumerate(names) if first[name] < place)
        raise FormatError(f"{path} has more than one column called {twice!r}. Give each column a different name.")
    if "" in names[1:]:
        raise FormatError(f"{path} has no name for column {names.index('', 1) + 1} of {len(names)}. Give each column a name.")


class NoTableRowsError(FormatError):
    """Refuse a table without rows, if it is the only one."""


def no_rows(path: Path) -> NoTableRowsError:
    """The error of a table without rows."""
    return NoTableRowsError(f"{path} has column names, but no rows.")
