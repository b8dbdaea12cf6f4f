"""Which labels each sample has, as a table of 1, 0 and -1, and what the labels are called."""

from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import Any

import numpy as np

from nishimori._rows.column_names import column_names
from nishimori._rows.labels import Classes
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import refuse_hidden
from nishimori.errors import InputError

UNKNOWN = -1
"""The entry of a table for a label that is not known; such decisions do not count."""


def label_table(y: Any, shape: tuple[int, int], missing: float | None, name: str = "y") -> HostArray:
    """The table of labels as int8, of the shape of the scores; ``missing`` is what stands for a label that is not known."""
    values = _table(y, shape, name)
    table = np.where(values == 1, np.int8(1), np.int8(0))
    if missing is not None:
        table[np.isnan(values) if isnan(missing) else values == missing] = UNKNOWN
    bad = (values != 0) & (table == 0)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        value = values[row, column]
        remedy = "Check that scores and labels are not swapped."
        if missing is None and (np.isnan(value) or value == -1):
            shown = "float('nan')" if np.isnan(value) else "-1"
            remedy = f"If this label is not known, pass `missing={shown}`."
            if not (values == 0).any() and (values == 1).any() and not np.isnan(value):
                remedy = f"For the labels -1 and 1 pass `({name} + 1) // 2`."
        raise InputError(name, "hold 0 and 1", got=f"{value:.6g}", remedy=remedy, row=row, column=column)
    return table


def check_missing(missing: Any) -> float | None:
    """What stands for an unknown label: a number other than 0 and 1, NaN included."""
    if missing is None:
        return None
    if isinstance(missing, bool) or not isinstance(missing, int | float | np.number) or missing in (0, 1):
        raise InputError("missing", "be a number other than 0 and 1, such as -1 or float('nan')", got=repr(missing))
    return float(missing)


def _table(y: Any, shape: tuple[int, int], name: str) -> HostArray:
    """Numbers in a table of this shape."""
    if y is None:
        # scikit-learn's checks want these words of an estimator.
        wanted = "this requires y to be passed, but the target y is None" if name == "y" else "pass it"
        raise InputError(name, "say which labels each sample has", got=f"None: {wanted}")
    refuse_hidden(y, name)
    must = f"have shape {shape}, one row per sample and one column per label"
    try:
        values: HostArray = arrays.on_host(arrays.as_array(y))
        if values.dtype == object:
            values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        got = "entries that are not numbers, or rows of different lengths"
        raise InputError(name, f"{must}, of 0 and 1", got=got) from None
    if arrays.kind(values) in ("other", "complex"):
        raise InputError(name, f"{must}, of 0 and 1", got=arrays.dtype_name(values))
    if values.shape != shape:
        remedy = ""
        if values.ndim == 1:
            remedy = "Where each sample has one true class, use nishimori.ExpectationConsistency."
        raise InputError(name, must, got=values.shape, remedy=remedy)
    return values


def label_names(labels: Classes, X: Any, y: Any, n_labels: int) -> tuple[Any, ...]:
    """What the labels are called: as the caller says, else as the columns of ``y`` or ``X`` are, else 0, 1, ..."""
    columns = column_names(X)
    names = checked_names(labels, n_labels)
    if names is None:
        names = tuple(column_names(y, "y") or columns or range(n_labels))
    if len(names) == n_labels and columns is not None and list(names) != columns and sorted(map(str, names)) == sorted(columns):
        raise InputError(
            "The columns of `X`",
            f"be in the order of the labels, {list(names)}",
            got=columns,
            remedy=f"Pass `X[{list(names)}]`.",
        )
    return names


def checked_names(labels: Classes, n_labels: int | None = None) -> tuple[Any, ...] | None:
    """A list of different texts or numbers, one per label; None if there is none."""
    if labels is None:
        return None
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Sequence | np.ndarray):
        raise InputError("labels", "be a list with the name of each label", got=f"{labels!r:.60}")
    names = tuple(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    if not all(isinstance(name, str) or (isinstance(name, int | float) and abs(name) < inf) for name in names):
        raise InputError("labels", "be text or numbers", got=f"{list(names)!r:.60}")
    if len(set(names)) < len(names):
        raise InputError("labels", "name each label once", got=f"{list(names)!r:.60}")
    if n_labels is not None and len(names) != n_labels:
        raise InputError("labels", f"name {n_labels} labels, one per column of `X`", got=len(names))
    return names
