"""Which columns of a table are the scores, by what the caller says of it, and what to type where that is not clear.

`propose` is the only place where arguments are put into an error: it tries them on the file before they are printed. Where its
first rows do not prove which columns are meant, the error says what is needed and lists no columns to type.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np

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
from nishimori._rows.column_names import join_names, refuse_permuted
from nishimori._rows.labels import differ, spell_as_classes
from nishimori._support.arrays import HostArray
from nishimori.errors import A_NAME, NAMES, FormatError, InputError, setting, settings

# As many names as `join_names` shows.
_SHOWN = 12

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
        if name in table.names and table.is_list(name):
            must = "name is one value" if role == "ids" else f"{role[:-1]} is one {'number' if role == 'weights' else 'value'}"
            other = setting(roles.argument(role), A_NAME)
            raise InputError(f"{table.path} has lists in column {name!r}, and a {must}. Pass another {other}.")
        if name not in table.names:
            raise InputError(
                f"{table.path} has no column {name!r}, only {join_names(table.names)}. "
                f"{remedy_for(role, roles, table.names, lambda new: _labels_are_read(table, new))}"
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
    where, present = str(table.path), set(table.names)
    left = _not_ignored(table, roles)
    if isinstance(roles.columns, str) and (roles.columns in left or not is_pattern(roles.columns)):
        return Selection(_one_column(roles, left, where))
    if roles.columns is not None:
        return Selection(_columns_asked_for(roles, left, where))
    if roles.fitted is not None and present.issuperset(roles.fitted):
        return Selection(score_columns(roles.fitted, left, roles.special, None, where=where))
    lists = [name for name in roles.usual_names if name in present and table.is_list(name)]
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
    """Arguments as they are typed, if ``works`` says that the file is read with them; else None.

    Parameters
    ----------
    roles : Roles
        What the caller says.
    works : callable
        Takes the same with the new arguments, tries that on the file, and says whether the file can be read so. Errors in the
        input count as no.
    **options : str or sequence of str
        The values to propose, each a name or several names.
    """
    typed: dict[str, Any] = {}
    changed: dict[str, Any] = {}
    for option, value in options.items():
        values = [value] if isinstance(value, str) else list(value)
        # Commas separate names, and a message shows neither several blanks in a row nor control characters as they are.
        if any("," in name or name != " ".join(name.split()) or not name.isprintable() for name in values):
            return None
        typed[roles.argument(option)] = value if isinstance(value, str) else values
        changed[option] = value if isinstance(value, str) else tuple(values)
    text = settings(typed)
    try:
        return text if len(text) <= _LONGEST_OPTIONS and works(replace(roles, **changed)) else None
    except (InputError, FormatError):
        return None


def remedy_for(role: str, roles: Roles, present: Sequence[str], works: Callable[[Roles], bool]) -> str:
    """What to do where no column or array has the name of ``role``: scores, labels, weights, clusters, groups or ids."""
    likely = [name for name in present if name.lower() in _LABELS] if role == "labels" else []
    if len(likely) == 1 and (options := propose(roles, works, labels=likely[0])) is not None:
        return f"If its labels are {likely[0]!r}, pass {options}."
    if role == "groups" and roles.groups_remembered:
        return f"The calibration has a temperature per group: name the groups of this file with {setting('groups')}."
    return f"Name yours with {setting(roles.argument(role), A_NAME)}."


def _labels_are_read(table: Table, roles: Roles) -> bool:
    """Whether the first rows of a table have labels where the options say so."""
    others = [name for role, name in roles.by_role.items() if role != "labels"]
    if table.is_list(roles.labels) or roles.labels in (*others, *(roles.fitted or ())):
        return False
    block = next(table.blocks())
    return can_be_labels(block.values(table.names.index(roles.labels)), roles.classes)


def can_be_labels(values: Sequence[Any], classes: Sequence[Any] | None) -> bool:
    """Whether values are text or whole numbers, and among the classes where those are known."""
    truth = as_objects([value for value in values if not (value in (None, "") or (isinstance(value, float) and isnan(value)))])
    if not len(truth) or any(isinstance(value, list | dict | bytes) for value in truth):
        return False
    if classes is not None:
        return set(spell_as_classes(truth, classes)) <= {str(label) for label in classes}
    return all(isinstance(value, str) or value % 1 == 0 for value in spell_as_classes(truth, None).tolist())


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
    numbers = next((name for name in candidates if looks_like_row_numbers(name)), None)
    looks = "" if numbers is None else f" The column {numbers!r} looks like row numbers."
    if numbers == "":
        looks = " The first column has no name and looks like row numbers."
    rows = _first_rows(table, candidates, roles)
    remedy = _what_is_needed(rows, roles)
    for sentence, chosen, options in _ways(candidates, roles, rows):

        def works(changed: Roles, wanted: Sequence[str] = chosen) -> bool:
            selection = _selection(table, changed)
            return selection is not None and selection.scores == wanted and rows.agree(selection, changed)

        if (typed := propose(roles, works, **options)) is not None:
            remedy = f"{sentence} {typed}."
            break
    return InputError(f"{table.path} does not say which columns are scores: {join_names(candidates)}.{looks} {remedy}")


@dataclass(frozen=True)
class _FirstRows:
    """What the first rows that count hold: columns of numbers, the lengths of lists, and labels, if the file must have them."""

    numbers: dict[str, HostArray]
    lengths: dict[str, int]
    labels: HostArray | None

    @property
    def truth(self) -> list[Any]:
        """The labels, as numbers where they are; none if they cannot be labels."""
        if self.labels is None or any(isinstance(label, list | dict | bytes | None) for label in self.labels):
            return []
        spelled: list[Any] = np.asarray(spell_as_classes(self.labels, None), dtype=object).tolist()
        return spelled

    def n_classes(self, roles: Roles) -> set[int]:
        """How many classes there are, as the calibration, the classes or else the labels say; empty if nothing does."""
        stated = {count for count in (roles.n_classes, roles.classes and len(roles.classes)) if count}
        truth = () if stated else self.truth
        whole = bool(truth) and all(isinstance(label, int | float) and label % 1 == 0 <= label for label in truth)
        return {int(max(truth)) + 1} if whole else stated

    def agree(self, chosen: Selection, roles: Roles) -> bool:
        """Whether the number of these columns and their values are those of scores."""
        scores, classes, n_classes = chosen.scores, roles.classes, self.n_classes(roles)
        if not all(name in self.numbers or name in self.lengths for name in scores):
            return False
        if len(scores) > 1:
            refuse_permuted(scores, classes)
        if classes is not None and self.labels is not None:
            return n_classes == {len(scores)} and set(spell_as_classes(self.labels, classes)) <= set(map(str, classes))
        if chosen.by_values:
            return self.labels is not None and by_values(np.stack([self.numbers[name] for name in scores], 1), self.labels)
        if not n_classes:
            return self.labels is None and (scores[0] in self.lengths or names_say_so(scores, None))
        return n_classes == {len(scores) if len(scores) > 1 else self.lengths.get(scores[0], 2)}


def _first_rows(table: Table, candidates: Sequence[str], roles: Roles) -> _FirstRows:
    """The first rows that count: those of positive weight whose label is not the one to ignore."""
    place, rows = {name: index for index, name in enumerate(table.names)}, _FirstRows({}, {}, None)
    with suppress(FormatError):  # which is raised again once the columns are known
        block = next(table.blocks())
        counted = np.ones(block.n_rows, dtype=bool)
        if roles.labelled:
            if roles.weights is not None:
                counted &= block.numbers([place[roles.weights]])[:, 0] != 0
            labels = as_objects(block.values(place[roles.labels]))
            if roles.ignore_index is not None:
                counted &= differ(labels, roles.ignore_index)
            rows = replace(rows, labels=labels[counted])
        for name in candidates if counted.any() else ():
            with suppress(FormatError):  # text
                column = block.numbers([place[name]])[counted].astype(np.float64)
                if table.is_list(name):
                    rows.lengths[name] = column.shape[1]
                else:
                    rows.numbers[name] = column[:, 0]
    return rows


_Way = tuple[str, list[str], dict[str, str | Sequence[str]]]


def _ways(candidates: Sequence[str], roles: Roles, rows: _FirstRows) -> Iterator[_Way]:
    """What may be proposed: sentences that end in options, the columns that these choose, and the options."""

    def all_but(others: Sequence[str]) -> dict[str, str | Sequence[str]]:
        return {"ignore": [*roles.ignore, *others]} if others else {}

    # Row numbers, splits and flags are constant or whole numbers. But a constant may also be the score of a class to which the
    # others are compared, and then one of the others may be no score.
    usual = [name for name in rows.numbers if not looks_like_row_numbers(name)]
    likely = [name for name in usual if not constant_or_whole(rows.numbers[name][:, None]).any()]
    constant = any((column == column[0]).all() for column in rows.numbers.values())
    lists = list(rows.lengths)
    if len(lists) == 1 or (not lists and len(likely) == 1 and not constant):
        name = (lists or likely)[0]
        yield f"If {name!r} holds the scores, pass", [name], {"columns": name}

    stated = roles.classes is not None
    classes = [str(label) for label in roles.classes or dict.fromkeys(rows.truth) if stated or isinstance(label, str)]
    starts = [name.removesuffix(classes[0]) for name in rows.numbers if classes and name.endswith(classes[0])]
    starts = [start for start in starts if all(start + label in rows.numbers for label in classes)]
    if len(starts) == 1 and len(classes) > 1:
        named = [starts[0] + label for label in classes]
        in_file, others = ([name for name in candidates if (name in set(named)) is kept] for kept in (True, False))
        if stated:
            yield (
                "The classes are the names of columns: pass",
                named,
                all_but(others) if named == in_file else {"columns": named},
            )
        elif set(likely) <= set(named):  # another one may be that of a class without samples
            more = {"classes": [name.removeprefix(starts[0]) for name in in_file]}
            yield "The labels are the names of columns: pass", in_file, all_but(others) | more

    others = [name for name in candidates if name not in set(likely)]
    if likely and 0 < len(others) <= _SHOWN and (not constant or names_say_so(likely, roles.classes)):
        yield f"If the scores are all columns except {join_names(others)}, pass", likely, all_but(others)

    prefixes = {re.sub(r"[^\W_]+\Z", "", name) or name.rstrip("0123456789") for name in rows.numbers} - {""}
    sets = {prefix: [name for name in candidates if name.startswith(prefix)] for prefix in prefixes if not is_pattern(prefix)}
    sets = {prefix: names for prefix, names in sets.items() if {len(names)} == rows.n_classes(roles)}
    if len(sets) == 1:
        ((prefix, names),) = sets.items()
        yield f"If the scores are the columns that begin with {prefix!r}, pass", names, {"columns": [f"{prefix}*"]}


def names_say_so(names: Sequence[str], classes: Sequence[Any] | None) -> bool:
    """Whether names say that columns hold one score per class, in the order of the classes."""
    try:
        return by_names(names, classes)
    except InputError:
        return False


def _what_is_needed(rows: _FirstRows, roles: Roles) -> str:
    """What to type, without names: nothing proves which ones they are."""
    columns, classes = setting("columns", NAMES), setting("classes", NAMES)
    if roles.classes is None and any(isinstance(label, str) for label in rows.truth):
        return f"Name the columns of scores with {columns}, and the label of each of them, in the same order, with {classes}."
    n_classes = rows.n_classes(roles) if rows.truth and roles.classes is None else set()
    largest = max(n_classes, default=1) - 1
    if 0 < largest < len(rows.numbers):
        one = f", or the one score of label 1 with {setting('columns', A_NAME)}" if largest == 1 else ""
        return f"The labels are 0 to {largest}: name one column of scores per class, in this order, with {columns}{one}."
    return f"Name the columns of scores with {columns}, or the others with {setting('ignore', NAMES)}."
