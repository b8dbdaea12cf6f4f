"""What the names of columns say: which class each column belongs to, and whether they are in the order of the classes."""

import re
from collections.abc import Sequence
from typing import Any

from nishimori._rows.labels import Classes, class_labels
from nishimori._support.formatting import join_names
from nishimori.errors import InputError, setting


def column_names(X: Any, name: str = "X") -> list[str] | None:
    """The names of a data frame's columns, if they are text; ``name`` is the caller's name for the data frame."""
    names = list(getattr(X, "columns", []))
    texts = [isinstance(column, str) for column in names]
    if not any(texts):
        return None
    if not all(texts) or len(set(names)) != len(names):
        raise InputError(name, "have columns with distinct names, either all text or none", got=names, remedy="Rename them.")
    return names


def refuse_permuted(columns: Sequence[str] | None, classes: Classes) -> None:
    """Refuse columns that have the names of the classes, but in another order."""
    if columns is None or classes is None:
        return
    wanted = [str(label) for label in class_labels(classes).tolist()]
    if list(columns) != wanted and sorted(columns) == sorted(wanted):
        got, remedy = f"{wanted} for the columns {list(columns)}", f"Pass {setting('classes', list(columns))}."
        raise InputError("classes", "be in the order of the columns", got=got, remedy=remedy)


def without_prefix(names: Sequence[str]) -> list[str] | None:
    """Names without their common prefix, or None if they share none.

    A prefix ends in something other than a letter or a digit, or numbers follow it: z_cat, z_dog or z0, z1.
    """
    first, last = min(names), max(names)  # which differ wherever any two differ
    same = next((place for place, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    common = first[:same]
    prefix = re.sub(r"[^\W_]+\Z", "", common)  # back to the last separator
    rest = [name[len(prefix) :] for name in names]
    if prefix and all(rest):
        return rest
    prefix = common.rstrip("0123456789")
    rest = [name[len(prefix) :] for name in names]
    return rest if prefix and all(part.isdecimal() for part in rest) else None


def class_parts(columns: Sequence[str]) -> list[str]:
    """The classes that column names stand for: the names without their common prefix, if they have one."""
    return without_prefix(columns) or list(columns)


def refuse_other_order(columns: Sequence[str] | None, test_columns: Sequence[str] | None) -> None:
    """Refuse test data with the columns of the validation data in another order: maps with a number per class need the same."""
    if columns is None or test_columns is None:
        return
    first, second = class_parts(columns), class_parts(test_columns)
    if first != second and sorted(first) == sorted(second):
        must = f"have its columns in the same order as the validation data, {join_names(columns)}"
        remedy = f"Name them in one order with {setting('columns')}, or change it in one of the files."
        raise InputError("test_logits", must, got=join_names(test_columns), remedy=remedy)
