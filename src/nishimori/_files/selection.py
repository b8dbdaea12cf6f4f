"""Which columns of a table, or which arrays of a file, are what, and what to type where that is not clear.

`propose` is the only place that proposes columns or arrays in an error: it tries them on the file before they are printed.
Where its first rows do not prove which columns are meant, the error says what is needed and lists no columns to type.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._files.arrays.files import ArrayFile
from nishimori._files.tables.block import Table
from nishimori._files.tables.columns import (
    Roles,
    by_names,
    by_values,
    constant_or_whole,
    is_pattern,
    looks_like_row_numbers,
    match_columns,
    score_columns,
)
from nishimori._rows.column_names import class_parts, refuse_permuted, without_prefix
from nishimori._rows.labels import differ, spell_as_classes
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import MOST_NAMES, join_names
from nishimori.errors import A_NAME, NAMES, FormatError, InputError, setting, settings

# A message is cut after 4,000 characters, and half of it may be the names of the columns.
_LONGEST_OPTIONS = 2000

# What people call a column of labels.
_LABELS = {"label", "labels", "y", "y_true", "target", "truth", "class"}


@dataclass(frozen=True)
class Selection:
    """The columns of scores; ``by_values`` if their values have yet to confirm it."""

    scores: list[str]
    by_values: bool = False


def select_columns(table: Table, roles: Roles) -> Selection:
    """The columns of scores of a table, or an error that lists its columns."""
    for role, name in roles.by_role.items():
        if role in roles.unused:
            continue
        if name in table.lists:
            must = "name is one value" if role == "ids" else f"{role[:-1]} is one {'number' if role == 'weights' else 'value'}"
            other = setting(roles.argument(role), A_NAME)
            raise InputError(f"{table.path} has lists in column {name!r}, and a {must}. Pass another {other}.")
        if name not in table.names:
            raise InputError(
                f"{table.path} has no column {name!r}, only {join_names(table.names)}. {remedy_for(role, roles, table.names)}"
            )
    selection = _selection(table, roles)
    if selection is None:
        raise undecided_error(table, [name for name in _not_ignored(table, roles) if name not in roles.special], roles)
    return selection


def _not_ignored(table: Table, roles: Roles) -> list[str]:
    """The columns that the caller does not leave out."""
    ignored = set(match_columns(roles.ignore, table.names, argument="ignore", where=str(table.path)))
    return [name for name in table.names if name not in ignored]


def _selection(table: Table, roles: Roles) -> Selection | None:
    """The columns of scores by what the caller says, the calibration or their names; None where these do not say it."""
    where = str(table.path)
    left = _not_ignored(table, roles)
    if isinstance(roles.columns, str) and (roles.columns in left or not is_pattern(roles.columns)):
        return Selection(_one_column(roles, left, where))
    if roles.columns is not None:
        return Selection(_columns_asked_for(roles, left, where))
    if roles.fitted is not None and set(table.names).issuperset(roles.fitted):
        return Selection(score_columns(roles.fitted, left, roles.special, None, where=where))
    lists = [name for name in roles.usual_names if name in table.lists]
    if lists:
        return Selection(lists[:1])
    if roles.fitted is not None:
        raise InputError(
            f"The calibration was fitted to the columns {join_names(roles.fitted)}, but {where} has only "
            f"{join_names(table.names)}. Rename its columns, or fit again."
        )
    candidates = [name for name in left if name not in roles.special]
    sure = (len(candidates) == 1 and candidates[0] in roles.usual_names) or by_names(candidates, roles.classes)
    if not sure and (not roles.labelled or len(candidates) < 3):
        return None
    return Selection(candidates, by_values=not sure)


def propose(roles: Roles, works: Callable[[Roles], bool], **options: str | Sequence[str]) -> str | None:
    """Arguments (names, or lists of names) as they are typed; None unless the file is read with them.

    ``works`` takes the roles with the new arguments, tries them on the file, and says so. Errors in the input count as no.
    """
    names = [name for value in options.values() for name in ([value] if isinstance(value, str) else value)]
    # Commas separate names, and a message shows neither several blanks in a row nor control characters as they are.
    if any("," in name or name != " ".join(name.split()) or not name.isprintable() for name in names):
        return None
    text = settings({roles.argument(option): value for option, value in options.items()})
    changed: dict[str, Any] = {option: v if isinstance(v, str) else tuple(v) for option, v in options.items()}
    try:
        return text if len(text) <= _LONGEST_OPTIONS and works(replace(roles, **changed)) else None
    except (InputError, FormatError):
        return None


def remedy_for(role: str, roles: Roles, present: Sequence[str]) -> str:
    """What to do where no column or array has the name of ``role``: scores, labels, weights, clusters, groups or ids."""
    others = {*(name for other, name in roles.by_role.items() if other != "labels"), *(roles.fitted or ())}
    likely = [name for name in present if name.lower() in _LABELS] if role == "labels" else []
    if len(likely) == 1 and (options := propose(roles, lambda new: new.labels not in others, labels=likely[0])):
        return f"If its labels are {likely[0]!r}, pass {options}."
    if role == "groups" and roles.groups_remembered:
        return f"The calibration has a temperature per group: name the groups of this file with {setting('groups')}."
    return f"Name yours with {setting(roles.argument(role), A_NAME)}."


def as_objects(values: Sequence[Any]) -> HostArray:
    """Values as they are in an array: NumPy would turn numbers beside text into text."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _one_column(roles: Roles, left: Sequence[str], where: str) -> list[str]:
    """The one column that the caller names."""
    name, argument = roles.columns, setting("columns", A_NAME)
    assert isinstance(name, str)
    if name not in left:
        raise InputError(f"{where} has no column {name!r}, only {join_names(left)}. Name yours with {argument}.")
    if name in roles.special:
        raise InputError(f"{argument} must name scores, got {name!r}, which is the column of {roles.special[name]}.")
    return [name]


def _columns_asked_for(roles: Roles, left: Sequence[str], where: str) -> list[str]:
    """The columns that the caller names; those of a calibration cannot be others."""
    assert roles.columns is not None
    patterns = [roles.columns] if isinstance(roles.columns, str) else roles.columns
    chosen = score_columns(patterns, left, roles.special, roles.classes, where=where)
    if roles.fitted is not None and chosen != list(roles.fitted):
        raise InputError(
            "columns",
            f"be those that the calibration was fitted to, {join_names(roles.fitted)}, in that order",
            got=join_names(chosen),
            remedy=f"Leave {setting('columns')} out.",
        )
    return chosen


def undecided_error(table: Table, candidates: Sequence[str], roles: Roles) -> InputError:
    """An error that lists the columns that may hold scores, and says what to type, or what is needed."""
    if not candidates:
        return InputError(f"{table.path} has no column of scores, only {join_names(table.names)}.")
    row_numbers = next((name for name in candidates if looks_like_row_numbers(name)), None)
    looks = "" if row_numbers is None else f" The column {row_numbers!r} looks like row numbers."
    if row_numbers == "":
        looks = " The first column has no name and looks like row numbers."
    numbers, labels = _first_rows(table, candidates, roles)
    truth: list[Any] = []  # as numbers where labels are
    if labels is not None and not any(isinstance(label, list | dict | bytes | None) for label in labels):
        truth = spell_as_classes(labels, None).tolist()

    def works(changed: Roles) -> bool:
        selection = _selection(table, changed)
        if selection is None or not numbers.keys() >= set(selection.scores):
            return False
        scores, classes = np.column_stack([numbers[name] for name in selection.scores]), changed.classes
        if len(selection.scores) > 1:
            refuse_permuted(selection.scores, classes)
        if selection.by_values:
            return labels is not None and by_values(scores, labels)
        if classes is not None and labels is not None and not set(spell_as_classes(labels, classes)) <= set(map(str, classes)):
            return False
        if (wanted := _n_classes(truth, changed)) or labels is not None:
            return bool(wanted == max(2, scores.shape[1]))
        return selection.scores[0] in table.lists or by_names(selection.scores, None)

    ways = _ways(candidates, roles, numbers, truth)
    tried = (f"{sentence} {typed}." for sentence, options in ways if (typed := propose(roles, works, **options)))
    remedy = next(tried, None) or _what_is_needed(truth, len(numbers), roles)
    return InputError(f"{table.path} does not say which columns are scores: {join_names(candidates)}.{looks} {remedy}")


def _first_rows(table: Table, candidates: Sequence[str], roles: Roles) -> tuple[dict[str, HostArray], HostArray | None]:
    """The columns of numbers, or of lists, in the first rows that count, and their labels, if the file must have them."""
    place, numbers, labels = {name: index for index, name in enumerate(table.names)}, dict[str, HostArray](), None
    with suppress(FormatError):  # which is raised again once the columns are known
        block = next(table.blocks())
        counted = np.ones(block.n_rows, dtype=bool)
        if roles.labelled:
            labels = as_objects(block.values(place[roles.labels]))
            if roles.weights is not None:
                counted &= block.numbers([place[roles.weights]])[:, 0] != 0
            if roles.ignore_index is not None:
                counted &= differ(labels, roles.ignore_index)
            labels = labels[counted]
        for name in candidates if counted.any() else ():
            with suppress(FormatError):  # text
                numbers[name] = block.numbers([place[name]])[counted].astype(np.float64)
    return numbers, labels


def _n_classes(truth: Sequence[Any], roles: Roles) -> int | None:
    """How many classes there are, as the calibration, the classes or else the labels say."""
    if roles.n_classes or roles.classes is not None:
        return roles.n_classes or len(roles.classes or ())
    is_whole = bool(truth) and all(isinstance(label, int | float) and label % 1 == 0 <= label for label in truth)
    return int(max(truth)) + 1 if is_whole else None


def _ways(
    candidates: Sequence[str], roles: Roles, numbers: dict[str, HostArray], truth: Sequence[Any]
) -> Iterator[tuple[str, dict[str, str | Sequence[str]]]]:
    """What may be proposed: sentences that end in options, and these."""
    # Row numbers, splits and flags are constant or whole numbers. But a constant may also be the score of a class to which the
    # others are compared, and then one of the others may be no score.
    lists = [name for name, column in numbers.items() if column.shape[1] > 1]
    usual = [name for name in numbers if name not in lists and not looks_like_row_numbers(name)]
    likely = [name for name in usual if not constant_or_whole(numbers[name]).any()]
    no_constant = not any((column == column[0]).all() for column in numbers.values())
    if len(lists or likely) == 1 and (lists or no_constant):
        (name,) = lists or likely
        yield f"If {name!r} holds the scores, pass", {"columns": name}
    others = [name for name in candidates if name not in likely]
    words = [str(label) for label in roles.classes or dict.fromkeys(truth) if roles.classes or isinstance(label, str)]
    classes = class_parts(likely) if words and likely else []
    if roles.classes is not None and set(words) <= set(numbers):
        yield "The classes are the names of columns: pass", {"columns": words}
    elif words and set(words) == set(classes):  # another column may be that of a class without samples
        yield "The labels are the names of columns: pass", {"ignore": [*roles.ignore, *others], "classes": classes}
    if likely and 0 < len(others) <= MOST_NAMES and (no_constant or without_prefix(likely) is not None):
        yield f"If the scores are all columns except {join_names(others)}, pass", {"ignore": [*roles.ignore, *others]}
    prefixes = dict.fromkeys(re.sub(r"[^\W_]+\Z", "", name) or name.rstrip("0123456789") for name in numbers)
    sets = {prefix: sum(name.startswith(prefix) for name in candidates) for prefix in prefixes if prefix}
    fitting = [prefix for prefix, number in sets.items() if number == _n_classes(truth, roles) and not is_pattern(prefix)]
    if len(fitting) == 1:
        yield f"If the scores are the columns that begin with {fitting[0]!r}, pass", {"columns": [f"{fitting[0]}*"]}


def _what_is_needed(truth: Sequence[Any], n_columns: int, roles: Roles) -> str:
    """What to type, without names: nothing proves which ones they are."""
    columns, classes = setting("columns", NAMES), setting("classes", NAMES)
    if roles.classes is None and any(isinstance(label, str) for label in truth):
        return f"Name the columns of scores with {columns}, and the label of each of them, in the same order, with {classes}."
    largest = (_n_classes(truth, roles) or 1) - 1 if truth and roles.classes is None else 0
    if 0 < largest < n_columns:
        one = f", or the one score of label 1 with {setting('columns', A_NAME)}" if largest == 1 else ""
        return f"The labels are 0 to {largest}: name one column of scores per class, in this order, with {columns}{one}."
    return f"Name the columns of scores with {columns}, or the others with {setting('ignore', NAMES)}."


def refuse_table_options(path: Path, roles: Roles) -> None:
    """Refuse what can be said of tables only, for files of arrays."""
    options = {"columns": _array(roles) is None, "ignore": roles.ignore, "delimiter": roles.delimiter}
    options |= {"decimal": roles.decimal != ".", "max_rows": roles.max_rows is not None}
    for argument, value in options.items():
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
    remedy = remedy_for(role, roles, file.names)
    if role == "scores" and roles.columns is None and "probabilities" in file.names:
        remedy = f"Name yours with {setting('columns', A_NAME)}, or pass {setting('input', 'probabilities')}."
        if roles.calibrated:
            remedy = "The calibration was fitted to logits: pass a file of logits, or fit again to probabilities."
    raise InputError(f"{file.path} has no array {wanted!r}, only {join_names(file.names)}. {remedy}")


def without_groups(path: Path) -> InputError:
    """The error where a calibration needs groups, and a .npy file has none."""
    return InputError(
        f"{path} holds scores only, and the calibration has a temperature per group. Pass a file of scores and groups, such as "
        ".npz."
    )
