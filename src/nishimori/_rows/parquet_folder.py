"""A folder of Parquet files as one table, in the order of the names of the files."""

from collections.abc import Iterator
from pathlib import Path

from nishimori._rows.tables.block import Block, Table, listed
from nishimori._rows.tables.files import open_table
from nishimori._support.disk import existing_file
from nishimori.errors import FormatError


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and in the folders in it."""
    # Names that begin with a dot or an underscore are those of logs and incomplete files.
    return [each for each in sorted(folder.rglob("*.parquet")) if not each.name.startswith((".", "_")) and each.is_file()]


def refuse_other_folder(path: Path) -> None:
    """Refuse a folder without Parquet files."""
    if not parquet_files(path):
        raise FormatError(f"{path} is a folder without .parquet files. Name a file, or a folder of Parquet files.")


class Folder(Table):
    """All Parquet files of a folder, which must have the same columns. Blocks count the rows of each file from 0."""

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_other_folder(path)
        self._files = parquet_files(path)
        with open_table(self._files[0]) as first:
            self.names = first.names
            self._lists = {name for name in first.names if first.is_list(name)}

    def is_list(self, name: str) -> bool:
        """Whether the first file has a list there."""
        return name in self._lists

    def blocks(self) -> Iterator[Block]:
        """The blocks of one file after the other; files without rows are common, and are left out."""
        has_rows = False
        for path in self._files:
            with open_table(path) as table:
                if table.names != self.names:
                    raise FormatError(
                        f"{path} must have the columns of {self._files[0]}, {listed(self.names)}, got {listed(table.names)}."
                    )
                if table.n_rows:
                    has_rows = True
                    yield from table.blocks()
        if not has_rows:
            raise FormatError(f"{self.path} has no rows in any of its .parquet files.")

    def close(self) -> None:
        """Nothing stays open."""


def open_tables(path: Path, *, delimiter: str | None = None, decimal: str = ".") -> Table:
    """`open_table`, for a folder of Parquet files too."""
    if path.is_dir():
        return Folder(path)
    return open_table(existing_file(path), delimiter=delimiter, decimal=decimal)
