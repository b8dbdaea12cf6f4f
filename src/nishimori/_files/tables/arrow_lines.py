"""Many lines of text at once, parsed by pyarrow where it is installed and reads them as Python does.

pyarrow is several times as fast as Python's csv and json modules, and stricter in some places and laxer in others. So lines
are parsed here only if nothing in them is unusual. Of all others None is returned, and Python reads them, or says what is wrong
in which line.
"""

import csv
import importlib
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.tables.lines import STANDARD_INPUT
from nishimori._support.arrays import HostArray

# Smaller files are read line by line, in less time than pyarrow takes to be imported.
SMALL = 2**20
# Bytes that pyarrow parses at once, which stay in the cache of a processor.
_BLOCK = 2**20

_NEW_LINE, _RETURN, _QUOTE, _OPEN, _CLOSE = b'\n\r"{}'


def arrow_reader(module: str, path: Path) -> Any:
    """A module of pyarrow; None where it is not installed, or would take longer to import than the file takes to read."""
    try:
        is_small = path != STANDARD_INPUT and path.stat().st_size < SMALL
        return None if is_small else importlib.import_module(module)
    except ImportError:
        return None


def parse_delimited(
    lines: bytes, n_columns: int, numbers: Sequence[int], *, delimiter: str, decimal: str
) -> tuple[HostArray, Any] | None:
    """The numbers (n, k) of some columns in whole lines of delimited text, and a table of pyarrow with the text of the others.

    None if a cell has no number, or NaN, of which pyarrow knows more spellings, or if Python may read the lines in another way.
    """
    if not _is_text(lines) or not _ends_are_plain(lines):
        return None
    # An empty line is a row without values for pyarrow, which is refused where some of them must be numbers.
    if not numbers and (lines.startswith((b"\n", b"\r\n")) or b"\n\n" in lines or b"\n\r\n" in lines):
        return None
    quoted = b'"' in lines
    if quoted and not _quotes_are_closed(lines, delimiter):
        return None
    arrow, reader = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    names, chosen = [str(index) for index in range(n_columns)], set(numbers)
    types = {name: arrow.float64() if index in chosen else arrow.string() for index, name in enumerate(names)}
    # A line must fit into a block. Without threads memory stays small; other threads compute meanwhile.
    block = max(_BLOCK, 8 * lines.find(b"\n"))
    try:
        table = reader.read_csv(
            arrow.py_buffer(lines),
            reader.ReadOptions(column_names=names, block_size=block, use_threads=False),
            reader.ParseOptions(delimiter=delimiter, quote_char='"' if quoted else False, ignore_empty_lines=False),
            reader.ConvertOptions(column_types=types, null_values=[], decimal_point=decimal, check_utf8=False),
        )
    except arrow.ArrowException:
        return None
    values = np.empty((len(table), len(numbers)))
    for place, index in enumerate(numbers):
        values[:, place] = table.column(index).to_numpy()
    text = table.select([name for index, name in enumerate(names) if index not in chosen])
    return None if np.isnan(values).any() or _longest(text) > csv.field_size_limit() else (values, text)


def parse_objects(
    lines: bytes, first: Mapping[str, Any], numbers: Sequence[str]
) -> tuple[HostArray, Mapping[str, list[Any]]] | None:
    """The numbers (n, k) of some keys in whole lines of JSON objects, or of one key with lists, and the values of the others.

    ``first`` is the object of the first line, whose types the others must have. None if a value is missing, or if Python may
    read the lines in another way.
    """
    kinds = {name: _kind_of(value) for name, value in first.items()}
    for name in numbers:
        kinds[name] = "numbers" if isinstance(first[name], list) else "float64"
    if None in kinds.values() or (len(numbers) > 1 and "numbers" in kinds.values()) or not _is_text(lines):
        return None
    content: HostArray = np.frombuffer(lines if lines.endswith(b"\n") else lines + b"\n", np.uint8)
    ends = np.flatnonzero(content == _NEW_LINE)
    # Where every line begins with an object, none goes over several lines, as objects inside objects have none of the kinds.
    if content[0] != _OPEN or (content[ends[:-1] + 1] != _OPEN).any():
        return None
    arrow, reader = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.json")
    types = {
        name: arrow.list_(arrow.float64()) if kind == "numbers" else arrow.type_for_alias(kind) for name, kind in kinds.items()
    }
    try:
        table = reader.read_json(
            arrow.py_buffer(lines),
            reader.ReadOptions(use_threads=False, block_size=max(_BLOCK, 8 * int(ends[0]))),
            reader.ParseOptions(explicit_schema=arrow.schema(types), unexpected_field_behavior="error"),
        )
    except arrow.ArrowException:
        return None
    if len(table) != len(ends) or any(column.null_count for column in table.columns):
        return None
    values = _matrix(table, numbers)
    others = {name: table.column(name).to_pylist() for name in kinds if name not in set(numbers)}
    # A whole number among fractions may be one that is written without a point, which Python reads as an integer. An integer
    # that is too large for a fraction is infinite here, and an error there.
    fractions = (value for name in others if kinds[name] == "float64" for value in others[name])
    if values is None or np.isnan(values).any() or not all(isfinite(value) and value % 1 for value in fractions):
        return None
    return None if np.isinf(values).sum() != lines.count(b"Infinity") else (values, others)


def _kind_of(value: Any) -> str | None:
    """The type of pyarrow for values like this one; None where the values of others may have another type."""
    return {bool: "bool", int: "int64", float: "float64", str: "string"}.get(type(value))


def _matrix(table: Any, names: Sequence[str]) -> HostArray | None:
    """The numbers of columns, or of one column of lists; None if lists have several lengths, or no number somewhere."""
    columns = [table.column(name) for name in names]
    if not columns or not hasattr(columns[0].type, "value_type"):
        return np.stack([column.to_numpy() for column in columns], axis=1) if columns else np.empty((len(table), 0))
    compute = importlib.import_module("pyarrow.compute")
    lengths, flat = compute.min_max(compute.list_value_length(columns[0])).as_py(), compute.list_flatten(columns[0])
    if lengths["min"] != lengths["max"] or flat.null_count:
        return None
    matrix: HostArray = flat.to_numpy().reshape(len(table), lengths["min"])
    return matrix


def _longest(table: Any) -> int:
    """The length of the longest text, in bytes."""
    compute = importlib.import_module("pyarrow.compute")
    return max((compute.max(compute.binary_length(column)).as_py() or 0 for column in table.columns), default=0)


def _is_text(lines: bytes) -> bool:
    """Whether these are lines in UTF-8 without NUL bytes, and without the mark of UTF-8, which pyarrow leaves out."""
    if b"\0" in lines or lines.startswith(b"\xef\xbb\xbf"):
        return False
    try:
        return lines.isascii() or bool(lines.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _ends_are_plain(lines: bytes) -> bool:
    """Whether lines end as on Unix or Windows; pyarrow takes a carriage return inside a line for another end."""
    return b"\r" not in lines or lines.count(b"\r") == lines.count(b"\r\n")


def _quotes_are_closed(lines: bytes, delimiter: str) -> bool:
    """Whether quotes stand around whole fields, none of which goes over several lines; two quotes inside them are one.

    Then every other quote opens a field, or is the second of two. The one after it closes the field, or is the first of two.
    """
    content: HostArray = np.frombuffer(lines + b"\n", np.uint8)
    quotes = np.flatnonzero(content == _QUOTE)
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    doubled = np.zeros(len(opening), bool)
    doubled[1:] = opening[1:] == closing[:-1] + 1
    before, after = content[opening - 1], content[closing + 1]  # the first byte comes after the last one, which ends a line
    opens = doubled | (before == _NEW_LINE) | (before == ord(delimiter))
    closes = np.append(doubled[1:], False) | (after == _NEW_LINE) | (after == _RETURN) | (after == ord(delimiter))
    line_ends = np.flatnonzero(content == _NEW_LINE)
    on_one_line = np.searchsorted(line_ends, opening) == np.searchsorted(line_ends, closing)
    return bool((opens & closes & on_one_line).all())
