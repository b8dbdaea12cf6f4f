"""Tables in files, read and written in blocks of rows: .csv .tsv .csv.gz .tsv.gz .jsonl .parquet .feather.

A table is a file whose columns have names. `open_table` reads one and `new_table` writes one; both hold a few thousand rows at
a time, so the size of a file does not matter. Delimited text and JSON lines need no package; Parquet and Feather need pyarrow.
Lines of text are counted from 1, the header included; rows of Parquet and Feather from 0, as in arrays.
"""

from pathlib import Path

from nishimori._rows.tables.block import Table
from nishimori._rows.tables.columnar import Feather, Parquet
from nishimori._rows.tables.json_lines import JsonLines
from nishimori._rows.tables.text import Text
from nishimori.errors import InputError, setting

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
        A name that ends in one of `ENDINGS`.
    delimiter : str, optional
        What separates the fields of text; a comma by default, a tab for .tsv.
    decimal : {".", ","}
        The decimal mark of numbers in text.
    """
    name = path.name.lower()
    if is_text(path):
        return Text(path, delimiter, decimal)
    if delimiter is not None or decimal != ".":
        both = f"{setting('delimiter')} and {setting('decimal')}"
        raise InputError(both, f"be left out for {path}: only .csv and .tsv files have them")
    if name.endswith(".jsonl"):
        return JsonLines(path)
    return Parquet(path) if name.endswith(".parquet") else Feather(path)
