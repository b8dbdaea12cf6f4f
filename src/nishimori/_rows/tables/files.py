"""Tables in files, read and written in blocks of rows: .csv .tsv .csv.gz .tsv.gz .jsonl .parquet .feather.

A table is a file whose columns have names, or a folder of Parquet files. `open_table` reads one and `new_table` writes one;
both hold a few thousand rows at a time, so the size of a file does not matter. Delimited text and JSON lines need no package;
Parquet and Feather need pyarrow. Lines of text are counted from 1, the header included; rows of Parquet and Feather from 0, as
in arrays.
"""

from collections.abc import Generator, Sequence
from pathlib import Path

from nishimori._rows.tables.block import Block, Table, join_names
from nishimori._rows.tables.columnar import Feather, Parquet
from nishimori._rows.tables.json_lines import JsonLines
from nishimori._rows.tables.text import Text
from nishimori._support.disk import existing_file
from nishimori.errors import FormatError, InputError, setting

_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_FEATHER = (".feather", ".arrow", ".ipc")
ENDINGS = (*_TEXT, ".jsonl", ".parquet", *_FEATHER)


def is_table(path: Path) -> bool:
    """Whether the name of a file has the ending of a table, in upper or lower case."""
    return path.name.lower().endswith(ENDINGS)


def is_text(path: Path) -> bool:
    """Whether it has the ending of delimited text."""
    return path.name.lower().endswith(_TEXT)


def open_table(path: Path, *, delimiter: str | None = None, decimal: str = ".") -> Table:
    """Open a table for reading; the ending of its name says what it is.

    Parameters
    ----------
    path : Path
        A name that ends in one of `ENDINGS`, or a folder of Parquet files.
    delimiter : str, optional
        What separates the fields of text; a comma by default, a tab for .tsv.
    decimal : {".", ","}
        The decimal mark of numbers in text.
    """
    name, is_folder = path.name.lower(), path.is_dir()
    if is_text(path) and not is_folder:
        return Text(existing_file(path), delimiter, decimal)
    if delimiter is not None or decimal != ".":
        both = f"{setting('delimiter')} and {setting('decimal')}"
        raise InputError(both, f"be left out for {path}: only .csv and .tsv files have them")
    if is_folder:
        return Folder(path)
    existing_file(path)
    if name.endswith(".jsonl"):
        return JsonLines(path)
    return Parquet(path) if name.endswith(".parquet") else Feather(path)


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

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:
        """The blocks of one file after the other; files without rows are common, and are left out."""
        has_rows = False
        for path in self._files:
            with open_table(path) as table:
                if table.names != self.names:
                    wanted, found = join_names(self.names), join_names(table.names)
                    raise FormatError(f"{path} must have the columns of {self._files[0]}, {wanted}, got {found}.")
                if table.n_rows:
                    has_rows = True
                    yield from table.blocks(numbers)
        if not has_rows:
            raise FormatError(f"{self.path} has no rows in any of its .parquet files.")

    def close(self) -> None:
        """Nothing stays open."""
