"""Which array of a file is what, and what to type where the file has no array of that name."""

from functools import partial
from pathlib import Path

import numpy as np

from nishimori._files.arrays.files import ArrayFile
from nishimori._files.tables.columns import Roles
from nishimori._files.tables.selection import can_be_labels, propose, remedy_for
from nishimori._rows.column_names import join_names
from nishimori.errors import A_NAME, InputError, setting

# Rows that say whether an array can be what an argument would make of it.
_LOOKED_AT = 100


def refuse_table_options(path: Path, roles: Roles) -> None:
    """Refuse what can be said of tables only, for files of arrays."""
    options = {"columns": _array(roles) is None, "ignore": roles.ignore, "delimiter": roles.delimiter}
    for argument, value in (options | {"decimal": roles.decimal != "."}).items():
        if value:
            named = argument == "columns" and path.suffix.lower() != ".npy"
            remedy = f"Name the array with {setting('columns', A_NAME)}." if named else "Leave it out."
            raise InputError(f"{setting(argument)} is for tables such as .csv, and {path} has arrays. {remedy}")


def _array(roles: Roles) -> str | None:
    """The name of the array of scores; None if the caller names several."""
    if roles.columns is None or isinstance(roles.columns, str):
        return roles.columns or roles.input
    return roles.columns[0] if len(roles.columns) == 1 else None


def array_name(file: ArrayFile, role: str, roles: Roles) -> str:
    """The name of an array that is there; ``role`` is scores, labels, weights, clusters, groups or ids."""
    if file.names == [""]:  # a .npy file
        if role == "groups":
            raise without_groups(file.path)
        return ""
    wanted = _array(roles) if role == "scores" else roles.find(role)
    if role == "scores" and roles.columns is None and roles.fitted is not None and len(roles.fitted) == 1:
        wanted = next((name for name in roles.fitted if name in file.names), wanted)
    elif role == "scores" and roles.columns is None:
        wanted = next((name for name in roles.usual_names if name in file.names), wanted)
    assert wanted is not None
    if wanted in file.names:
        return wanted
    remedy = remedy_for(role, roles, file.names, partial(_labels_are_read, file))
    if role == "scores" and (options := propose(roles, partial(_probabilities_are_read, file), input="probabilities")):
        remedy = f"Name yours with {setting('columns', A_NAME)}, or pass {options}."
        if roles.calibrated:
            remedy = "The calibration was fitted to logits: pass a file of logits, or fit again to probabilities."
    raise InputError(f"{file.path} has no array {wanted!r}, only {join_names(file.names)}. {remedy}")


def without_groups(path: Path) -> InputError:
    """The error where a calibration needs groups, and a .npy file has none."""
    return InputError(
        f"{path} holds scores only, and the calibration has a temperature per group. Pass a file of scores and groups, such as "
        ".npz."
    )


def _labels_are_read(file: ArrayFile, roles: Roles) -> bool:
    """Whether an array that arguments name can be the labels of the scores."""
    scores, labels = file.array(array_name(file, "scores", roles)), file.labels(roles.labels)
    if roles.labels in [name for role, name in roles.by_role.items() if role != "labels"]:
        return False
    fits = labels.shape in (scores.shape, scores.shape[:-1])  # one score per row, or one per class
    return fits and can_be_labels(next(labels.blocks(_LOOKED_AT)).ravel().tolist(), roles.classes)


def _probabilities_are_read(file: ArrayFile, roles: Roles) -> bool:
    """Whether the array that has the usual name holds probabilities."""
    if roles.columns is not None or roles.input not in file.names:
        return False
    rows = next(file.array(roles.input).blocks(_LOOKED_AT))
    binary = rows.ndim == 1 or rows.shape[1:] == (1,)
    return bool(((rows >= 0) & (rows <= 1)).all() and (binary or np.allclose(rows.sum(axis=-1, dtype=float), 1, atol=1e-3)))
