"""A second reader of text tables, slow and strict: what the command accepts must have these numbers.

It shares nothing with the command. A table has one line of distinct names and rows of as many fields, numbers are what
Python's ``float`` takes, labels are whole numbers or the names of classes; anything else is refused with a reason. Blank
lines do not count.
"""

import csv
import gzip
import io
import json
import math

import numpy as np


class StrictError(ValueError):
    """The table is not one that may be accepted."""


def columns_of(ending: str, data: bytes) -> dict[str, list]:
    """The columns of a text table by name; values are text, or what JSON says."""
    try:
        if ending == "jsonl":
            return _objects(data.decode("utf-8-sig"))
        text = (gzip.decompress(data) if ending == "csv.gz" else data).decode("utf-8-sig")
        return _delimited(text, "\t" if ending == "tsv" else ",")
    except (UnicodeDecodeError, csv.Error, json.JSONDecodeError, EOFError, OSError, RecursionError) as error:
        raise StrictError(f"{type(error).__name__}: {error}") from None


def _delimited(text: str, mark: str) -> dict[str, list]:
    usual = csv.field_size_limit(2**30)  # which is the same for all readers
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
        rows = [row for row in lines if row]
    finally:
        csv.field_size_limit(usual)
    if not rows:
        raise StrictError("there is no header")
    names = [name.strip() for name in rows[0]]
    if len(set(names)) != len(names):
        raise StrictError("two columns have one name")
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(names):
            raise StrictError(f"row {number} has {len(row)} fields, the header {len(names)}")
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(names)}


def _objects(text: str) -> dict[str, list]:
    def distinct(pairs: list) -> dict:
        if len({name for name, _ in pairs}) != len(pairs):
            raise StrictError("a key comes twice in one row")
        return dict(pairs)

    try:
        rows = [json.loads(line, object_pairs_hook=distinct) for line in text.split("\n") if line.strip()]
    except ValueError as error:
        if isinstance(error, StrictError):
            raise
        raise StrictError(str(error)) from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise StrictError("not every line is an object")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def number(value: object) -> float:
    """A field as a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise StrictError(f"{value!r} is not a number")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise StrictError(f"{str(value)[:40]!r} is not a number") from None


def label(value: object, classes: list[str] | None) -> int:
    """A field as the position of a class."""
    if classes is not None and isinstance(value, str) and value.strip() in classes:
        return classes.index(value.strip())
    found = float(value) if isinstance(value, bool) else number(value)  # true and false of JSON are the classes 1 and 0
    if classes is not None:
        same = [i for i, each in enumerate(classes) if _numeric(each) == found]
        if not same:
            raise StrictError(f"{value!r} is not a class")
        return same[0]
    if not math.isfinite(found) or found != math.floor(found):
        raise StrictError(f"{value!r} is not a whole number")
    return int(found)


def _numeric(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def table(
    ending: str, data: bytes, *, scores: list[str], labels: str, weights: str | None, classes: list[str] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Scores, positions of the true classes and weights; raises `StrictError`."""
    found = columns_of(ending, data)
    missing = [name for name in [*scores, labels, *([weights] if weights else [])] if name not in found]
    if missing:
        raise StrictError(f"there is no column {missing[0]!r}")
    rows = np.array([[number(value) for value in found[name]] for name in scores]).T
    truth = np.array([label(value, classes) for value in found[labels]])
    return rows, truth, np.array([number(value) for value in found[weights]]) if weights else None
