"""Tables in files; the ending of a name decides the format: .csv .tsv .csv.gz .tsv.gz .jsonl .parquet .feather.

A table is a file whose columns have names, or several of one kind. `open_table` reads it and `new_table` writes one; both hold
a few thousand rows at a time, so the size of a file does not matter. All need pyarrow, except to read JSON lines. Lines of text
are counted from 1, the header included; rows of Parquet and Feather from 0, as in arrays.
"""

from collections.abc import Generator, Sequence
from itertools import zip_longest
from pathlib import Path

from nishimori._files.tables.block import Block, NoTableRowsError, Table
from nishimori._files.tables.columnar import Columnar
from nishimori._files.tables.json_lines import JsonLines
from nishimori._files.tables.lines import STANDARD_INPUT, standard_input
from nishimori._files.tables.text import Text
from nishimori._support.disk import existing_file
from nishimori.errors import FormatError, InputError, setting

_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_FEATHER = (".feather", ".arrow", ".ipc")
ENDINGS = (*_TEXT, ".jsonl", ".parquet", *_FEATHER)


def is_table(path: Path) -> bool:
    """Whether a file name has the ending of a table, in upper or lower case; standard input counts as a table."""
    return path == STANDARD_INPUT or path.name.lower().endswith(ENDINGS)


def is_text(path: Path) -> bool:
    """Whether a file has the ending of delimited text, or standard input begins as such."""
    if path == STANDARD_INPUT:
        return not standard_input().is_json
    return path.name.lower().endswith(_TEXT)


def open_table(path: Path, *, more: Sequence[Path] = (), delimiter: str | None = None, decimal: str = ".") -> Table:
    """Open a table for reading; the ending of its name decides the format.

    Parameters
    ----------
    path : Path
        A name that ends in one of `ENDINGS`, or a folder of such files.
    more : sequence of Path
        Further files or folders, whose rows follow.
    delimiter : str, optional
        What separates the fields of text; a comma by default, a tab for .tsv.
    decimal : {".", ","}
        The decimal mark of numbers in text.
    """
    if more or path.is_dir():
        return SeveralTables([path, *more], delimiter, decimal)
    if is_text(path):
        return Text(path if path == STANDARD_INPUT else existing_file(path), delimiter, decimal)
    if delimiter is not None or decimal != ".":
        both = f"{setting('delimiter')} and {setting('decimal')}"
        raise InputError(both, f"be left out for {path}: only .csv and .tsv files have them")
    if path == STANDARD_INPUT or existing_file(path).name.lower().endswith(".jsonl"):
        return JsonLines(path)
    return Columnar(path)


def tables_in(folder: Path) -> list[Path]:
    """The tables in a folder and its subfolders, sorted by name; only Parquet files if there are any.

    Refuses a folder without tables.
    """
    # Names that begin with a dot or an underscore are those of logs and incomplete files.
    tables = [path for path in sorted(folder.rglob("*")) if is_table(path) and not path.name.startswith((".", "_"))]
    tables = [path for path in tables if path.is_file()]
    if not tables:
        raise FormatError(
            f"{folder} is a folder without tables. Name a file, or a folder of files such as .csv, .jsonl or .parquet."
        )
    return [path for path in tables if _kind(path) == ".parquet"] or tables


def _kind(path: Path) -> str:
    """The ending that shows the format of a file, compressed or not."""
    name = path.name.lower().removesuffix(".gz")
    return next((ending for ending in ENDINGS if name.endswith(ending)), "")


class SeveralTables(Table):
    """Files of one kind with the same columns, read in turn; each block counts rows or lines within its own file."""

    def __init__(self, paths: Sequence[Path], delimiter: str | None, decimal: str) -> None:
        self.path = paths[0]
        self._files = [file for path in paths for file in (tables_in(path) if path.is_dir() else [path])]
        self._text = {"delimiter": delimiter, "decimal": decimal}
        first = self._files[0]
        for file in self._files:
            if _kind(file) != _kind(first):
                raise FormatError(f"{file} is not a {_kind(first)} file like {first}. Pass files of one kind.")
        with self._open(first) as table:
            self.names, self.lists = table.names, table.lists

    def _open(self, path: Path) -> Table:
        return open_table(path, **self._text)  # type: ignore[arg-type]

    def blocks(self, numbers: Sequence[int] = ()) -> Generator[Block, None, None]:
        """The blocks of all files in turn; files without rows are common, and are skipped."""
        has_rows = False
        for path in self._files:
            with self._open(path) as table:
                if table.names != self.names:
                    columns = zip_longest(map(repr, self.names), map(repr, table.names), fillvalue="no column")
                    wanted, actual = next(pair for pair in columns if pair[0] != pair[1])
                    raise FormatError(f"{path} must have the columns of {self._files[0]}, got {actual} in place of {wanted}.")
                try:
                    for block in table.blocks(numbers):
                        has_rows = True
                        yield block
                except NoTableRowsError:
                    continue
        if not has_rows:
            raise FormatError(f"{self.path} has no rows in any of its {_kind(self._files[0])} files.")
