"""Find the role of each column of a table, or array of a file, and say what to type if it is not clear.

Where the first rows of a table do not prove which columns are meant, the error says what is needed and lists no columns.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nishimori._files.arrays.files import ArrayFile
from nishimori._files.tables.block import Block, Table
from nishimori._files.tables.columns import Roles, by_names, constant_or_whole, match_columns, score_columns
from nishimori._rows.column_names import class_parts, without_prefix
from nishimori._rows.labels import OUTCOMES, differ, spell_as_classes
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import MOST_NAMES, join_names
from nishimori.errors import A_NAME, NAMES, FormatError, InputError, setting

# What people call a column of labels.
_LABELS = {"label", "labels", "y", "y_true", "target", "truth", "class"}


@dataclass(frozen=True)
class Selection:
    """The columns of scores; ``by_values`` if their values must still confirm it."""

    scores: list[str]
    by_values: bool = False


def select_columns(table: Table, roles: Roles) -> Selection:
    """The score columns of a table, or an error that lists its columns."""
    for role, name in roles.by_role.items():
        if role in roles.unused:
            continue
        if name in table.lists:
            must = "name is one value" if role == "ids" else f"{role[:-1]} is one {'number' if role == 'weights' else 'value'}"
            other = setting(roles.argument(role), A_NAME)
            raise InputError(f"{table.path} has lists in column {name!r}, but a {must}. Pass another {other}.")
        if name not in table.names:
            remedy = remedy_for(role, roles, table.names)
            if role == "labels":
                others = [other for other in _not_ignored(table, roles) if other not in roles.special]
                _, numbers = _first_rows(table, others, replace(roles, unused=("labels",)))
                remedy = f"{remedy} {_as_claims(numbers, table, roles)}".rstrip()
            raise InputError(f"{table.path} has no column {name!r}, only {join_names(table.names)}. {remedy}")
    selection = _selection(table, roles)
    if selection is None:
        raise undecided_error(table, [name for name in _not_ignored(table, roles) if name not in roles.special], roles)
    return selection


def _not_ignored(table: Table, roles: Roles) -> list[str]:
    """The columns that the caller did not exclude."""
    ignored = set(match_columns(roles.ignore, table.names, argument="ignore", where=str(table.path)))
    return [name for name in table.names if name not in ignored]


def _selection(table: Table, roles: Roles) -> Selection | None:
    """The score columns according to the caller, the calibration or their names; None if none of these decides."""
    where = str(table.path)
    left = _not_ignored(table, roles)
    if roles.columns is not None:
        patterns = [roles.columns] if isinstance(roles.columns, str) else roles.columns
        chosen = score_columns(patterns, left, roles.special, roles.classes, where=where)
        if roles.fitted is not None and len(chosen) > 1 and chosen != list(roles.fitted):
            must = f"be the columns that the calibration was fitted to, {join_names(roles.fitted)}, in that order"
            raise InputError("columns", must, got=join_names(chosen), remedy=f"Leave {setting('columns')} out.")
        return Selection(chosen)
    if roles.fitted is not None and set(table.names).issuperset(roles.fitted):
        return Selection(score_columns(roles.fitted, left, roles.special, None, where=where))
    lists = [name for name in roles.usual_names if name in table.lists]
    if lists:
        return Selection(lists[:1])
    if roles.fitted is not None:
        fitted, present = join_names(roles.fitted), join_names(table.names)
        remedy = "Rename its columns, or fit again."
        raise InputError(f"The calibration was fitted to the columns {fitted}, but {where} has only {present}. {remedy}")
    candidates = [name for name in left if name not in roles.special]
    sure = (len(candidates) == 1 and candidates[0] in roles.usual_names) or by_names(candidates, roles.classes)
    if not sure and (not roles.labelled or len(candidates) < 3):
        return None
    return Selection(candidates, by_values=not sure)


def remedy_for(role: str, roles: Roles, present: Sequence[str]) -> str:
    """What to do if no column or array has the name of ``role``: scores, labels, weights, clusters, groups or ids."""
    others = {*(name for other, name in roles.by_role.items() if other != "labels"), *(roles.fitted or ())}
    likely = [name for name in present if name.lower() in _LABELS] if role == "labels" else []
    if len(likely) == 1 and likely[0] not in others:
        return f"If its labels are {likely[0]!r}, pass {setting(roles.argument('labels'), likely[0])}."
    if role == "groups" and roles.groups_remembered:
        return f"The calibration has a temperature per group: name the groups of this file with {setting('groups')}."
    remedy = f"Name yours with {setting(roles.argument(role), A_NAME)}."
    if role == "labels" and roles.label_argument == OUTCOMES:
        how = "nishimori apply or, in Python, `predict_proba(claims(array))`"
        remedy += f" To calibrate new answers, which need no such column, use {how}."
    return remedy


def _as_claims(numbers: Mapping[str, HostArray], table: Table, roles: Roles) -> str:
    """What to type if the only column of numbers between 0 and 1 holds stated confidences; empty if there is no such column.

    ``numbers`` are the first rows of the columns of numbers that have no role.
    """
    if not roles.labelled or roles.calibrated or roles.columns is not None or roles.classes is not None:
        return ""
    shares = [
        name
        for name, column in numbers.items()
        if column.shape[1] == 1 and not constant_or_whole(column).any() and ((column >= 0) & (column <= 1)).all()
    ]
    if len(shares) != 1:
        return ""
    others = [name for name in table.names if name not in (*shares, *(set(roles.special) - {roles.labels}))]
    usual = [name for name in (roles.labels, OUTCOMES) if name in others]
    right = (usual or (others if len(others) == 1 else ["NAME"]))[0]
    named = f"{setting('confidence', shares[0])} and {setting(OUTCOMES, right)}"
    return f"If {shares[0]!r} holds stated confidences, pass {named}."


def labels_and_weights(block: Block, place: Mapping[str, int], roles: Roles) -> tuple[HostArray, HostArray | None, HostArray]:
    """The labels of a block (None in rows of weight zero), its weights, if there are any, and which rows count."""
    weights, counted = None, np.ones(block.n_rows, dtype=bool)
    if (name := roles.find("weights")) is not None:
        weights = block.numbers([place[name]])[:, 0]
        block.refuse_missing(weights[:, None], [place[name]], "weight")
        counted = weights != 0
    labels = np.empty(block.n_rows, dtype=object)  # NumPy would turn numbers beside text into text
    labels[:] = block.values(place[roles.labels])
    labels[~counted] = None
    if roles.ignore_index is not None:
        counted = counted & differ(labels, roles.ignore_index)
    return labels, weights, counted


def undecided_error(table: Table, candidates: Sequence[str], roles: Roles) -> InputError:
    """An error that lists the columns that may hold scores, and says what to type if the first rows leave no doubt."""
    if not candidates:
        return InputError(f"{table.path} has no column of scores, only {join_names(table.names)}.")
    labels, numbers = _first_rows(table, candidates, roles)
    n_classes = _n_classes(labels, roles)
    words = set(map(str, labels)) if n_classes is None and labels is not None and labels.dtype.kind in "OU" else set()
    remedy = _proposal(table, candidates, roles, numbers, n_classes, words) or _what_is_needed(n_classes, words, roles)
    remedy = f"{remedy} {_as_claims(numbers, table, roles)}".rstrip()
    return InputError(f"{table.path} does not say which columns are scores: {join_names(candidates)}. {remedy}")


def _proposal(
    table: Table,
    candidates: Sequence[str],
    roles: Roles,
    numbers: Mapping[str, HostArray],
    n_classes: int | None,
    words: set[str],
) -> str | None:
    """Columns to suggest, if there are as many as classes, or if their names are the labels; None if nothing proves it."""
    numbers = {name: column for name, column in numbers.items() if column.shape[1] > 1} or numbers  # lists go first
    scores = [name for name, column in numbers.items() if not constant_or_whole(column).any()]
    others = [name for name in candidates if name not in scores]
    if not scores or any("," in name or name != " ".join(name.split()) or not name.isprintable() for name in candidates):
        return None  # commas separate names, and a message does not show all characters as they are
    # A constant may be the score of a class to which the others are compared, and then one of the others may be no score.
    if any((column == column[0]).all() for column in numbers.values()) and without_prefix(scores) is None:
        return None
    if len(scores) == 1 and n_classes == max(2, numbers[scores[0]].shape[1]):
        return f"If {scores[0]!r} holds the scores, pass {setting('columns', scores[0])}."
    is_known = bool(n_classes or words)
    fits = n_classes == len(scores) or words == set(class_parts(scores)) or not is_known
    if not fits or not 0 < len(others) <= MOST_NAMES:
        return None
    ignored = [*roles.ignore, *others]
    then = _selection(table, replace(roles, ignore=tuple(ignored)))
    if then is None or (then.by_values and (roles.classes is not None or not is_known)):
        return None
    return f"If the scores are all columns except {join_names(others)}, pass {setting('ignore', ignored)}."


def _first_rows(table: Table, candidates: Sequence[str], roles: Roles) -> tuple[HostArray | None, dict[str, HostArray]]:
    """The labels of the first rows that count, if the file must have them, and the columns of numbers, or of lists."""
    place, labels, numbers = {name: index for index, name in enumerate(table.names)}, None, dict[str, HostArray]()
    with suppress(FormatError):  # which is raised again once the columns are known
        block = next(table.blocks())
        counted = np.ones(block.n_rows, dtype=bool)
        if roles.labelled:
            labels, _, counted = labels_and_weights(block, place, roles)
            labels = spell_as_classes(labels[counted], None)
        for name in candidates if counted.any() else ():
            with suppress(FormatError):  # text
                numbers[name] = block.numbers([place[name]])[counted].astype(np.float64)
    return labels, numbers


def _n_classes(labels: HostArray | None, roles: Roles) -> int | None:
    """The number of classes according to the calibration, the classes or, failing these, integer labels."""
    if roles.n_classes or roles.classes is not None:
        return roles.n_classes or len(roles.classes or ())
    if labels is None or not len(labels) or labels.dtype.kind not in "iuf" or not (labels % 1 == 0).all() or labels.min() < 0:
        return None
    return int(labels.max()) + 1


def _what_is_needed(n_classes: int | None, words: set[str], roles: Roles) -> str:
    """What to type, without names, because nothing proves which columns hold scores."""
    columns = setting("columns", NAMES)
    if words:
        named = f"with {columns}, and their labels in the same order with {setting('classes', NAMES)}"
        return f"Name the columns of scores {named}."
    if n_classes and roles.labelled:
        one = f", or the one score of label 1 with {setting('columns', A_NAME)}" if n_classes == 2 else ""
        return f"There are {n_classes} classes: name one column of scores per class, in their order, with {columns}{one}."
    return f"Name the columns of scores with {columns}, or all other columns with {setting('ignore', NAMES)}."


def refuse_table_options(path: Path, roles: Roles) -> None:
    """Refuse options for tables if the file holds arrays."""
    options = {"columns": _array(roles) is None, "ignore": roles.ignore, "delimiter": roles.delimiter}
    options |= {"decimal": roles.decimal != ".", "max_rows": roles.max_rows is not None}
    for argument, value in options.items():
        if value:
            named = argument == "columns" and path.suffix.lower() != ".npy"
            remedy = f"Name the array with {setting('columns', A_NAME)}." if named else "Leave it out."
            raise InputError(f"{setting(argument)} is for tables such as .csv, but {path} holds arrays. {remedy}")


def _array(roles: Roles) -> str | None:
    """The name of the array of scores; None if the caller names several."""
    if roles.columns is None or isinstance(roles.columns, str):
        return roles.columns or roles.input
    return roles.columns[0] if len(roles.columns) == 1 else None


def array_name(file: ArrayFile, role: str, roles: Roles) -> str:
    """The name of an existing array; ``role`` is scores, labels, weights, clusters, groups or ids."""
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
    remedy = remedy_for(role, roles, file.names)
    if role == "scores" and roles.columns is None and "probabilities" in file.names:
        remedy = f"Name yours with {setting('columns', A_NAME)}, or pass {setting('input', 'probabilities')}."
        if roles.calibrated:
            remedy = "The calibration was fitted to logits: pass a file of logits, or fit again to probabilities."
    raise InputError(f"{file.path} has no array {wanted!r}, only {join_names(file.names)}. {remedy}")


def without_groups(path: Path) -> InputError:
    """The error if a calibration needs groups, which a .npy file cannot have."""
    return InputError(
        f"{path} holds scores only, but the calibration has a temperature per group. Pass a file of scores and groups, such as "
        ".npz."
    )
