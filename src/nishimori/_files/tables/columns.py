"""`Roles` says what each column or array is; scores are the columns that are named, or whose names are unambiguous.

One extra column changes every result without a word, so nothing is taken because it happens to be a number.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._rows.column_names import class_parts, refuse_permuted, without_prefix
from nishimori._rows.scores import Input
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import join_names
from nishimori._support.numbers import reads_as_number
from nishimori.errors import InputError, setting

_PATTERN = re.compile(r"[*?\[]")

# More names than these are not printed for the user to type.
_TYPED = 100


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of a table's columns, or a file's arrays, and all other options about a file.

    Attributes
    ----------
    labels : str
        The true class of each row.
    weights, clusters, groups, ids : str or None
        The weight, the cluster, the group and the name of each row, where the caller names them.
    columns : str or tuple of str or None
        The one array or column that holds all scores; or names or patterns of the columns that do.
    ignore : tuple of str
        Names or patterns of columns that hold no scores.
    delimiter, decimal : str
        How delimited text is written.
    input : {"logits", "probabilities"}
        What the scores are, which is also the usual name of their array, see `usual_names`.
    classes : sequence or None
        The label of each column of scores in order.
    ignore_index : int or None
        The label of samples that do not count.
    label_argument : str
        What the caller's signature calls the labels.
    fitted : tuple of str or None
        The columns that a calibration was fitted to.
    n_classes : int or None
        The number of classes of the calibration.
    calibrated : bool
        Whether a calibration says what the scores are.
    groups_remembered : bool
        Whether ``groups`` is what the calibration says that it needs, and not an argument.
    max_rows : int or None
        How many rows a table may have; by default as many as there are in undamaged files of its size.
    more : tuple of Path
        Further files, whose rows follow those of the first one.
    unused : tuple of str
        The roles of columns that this file need not have, such as labels where scores are only calibrated. Where they are
        present, they are still not scores.
    """

    labels: str = "labels"
    weights: str | None = None
    clusters: str | None = None
    groups: str | None = None
    ids: str | None = None
    columns: str | tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    delimiter: str | None = None
    decimal: str = "."
    input: Input = "logits"
    classes: Sequence[Any] | None = None
    ignore_index: int | None = None
    label_argument: str = "labels"
    fitted: tuple[str, ...] | None = None
    n_classes: int | None = None
    calibrated: bool = False
    groups_remembered: bool = False
    max_rows: int | None = None
    more: tuple[Path, ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether the file must have labels."""
        return "labels" not in self.unused

    @property
    def usual_names(self) -> tuple[str, ...]:
        """The usual names of scores, if no argument names them. A column called logits may be declared as probabilities."""
        return (self.input,) if self.calibrated else tuple(dict.fromkeys((self.input, "logits")))

    @property
    def by_role(self) -> dict[str, str]:
        """The names that the caller passed for labels, weights, clusters, groups and ids."""
        names = {role: getattr(self, role) for role in ("labels", "weights", "clusters", "groups", "ids")}
        return {role: name for role, name in names.items() if name}

    def find(self, role: str) -> str | None:
        """The name of the array or column with a role such as weights, if it is to be read."""
        return None if role in self.unused else self.by_role.get(role)

    def argument(self, role: str) -> str:
        """The argument that names a role, or the scores."""
        return {"labels": self.label_argument, "weights": "sample_weight", "scores": "columns"}.get(role, role)

    @property
    def special(self) -> dict[str, str]:
        """The role of each column that is not a score, by name; the first one if a column has several roles."""
        return {name: role for role, name in reversed(self.by_role.items())}


def is_pattern(name: str) -> bool:
    """Whether a name has characters that make it a pattern, such as ``"z_*"``."""
    return bool(_PATTERN.search(name))


def match_columns(patterns: Sequence[str], names: Sequence[str], *, argument: str, where: str) -> list[str]:
    """The columns that names or patterns stand for, in the order passed; matches of a pattern in file order.

    Parameters
    ----------
    patterns : sequence of str
        Names, or patterns such as ``"z_*"``.
    names : sequence of str
        The columns that there are.
    argument : str
        What the caller calls the patterns.
    where : str
        What the caller calls the table.
    """
    present = set(names)
    chosen: dict[str, str] = {}
    for pattern in patterns:
        matches = [pattern] if pattern in present else []
        if not matches and is_pattern(pattern):
            matches = [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            what = "no column that matches" if is_pattern(pattern) else "no column"
            raise InputError(f"{where} has {what} {pattern!r}, only {join_names(names)}. Name yours with {setting(argument)}.")
        for name in matches:
            if name in chosen:
                raise InputError(argument, "name each column once", got=f"{name!r} from {chosen[name]!r} and {pattern!r}")
            chosen[name] = pattern
    return list(chosen)


def score_columns(
    patterns: Sequence[str], names: Sequence[str], special: dict[str, str], classes: Any, *, where: str
) -> list[str]:
    """The score columns that the caller named; ``special`` has the roles of all other columns."""
    chosen = match_columns(patterns, names, argument="columns", where=where)
    for name in chosen:
        if name in special:
            raise InputError("columns", "name columns of scores", got=f"{name!r}, which is the column of {special[name]}")
    if len(chosen) != len(patterns):  # a pattern leaves the order to the file
        _refuse_disorder(chosen, classes)
    return chosen


def by_names(candidates: Sequence[str], classes: Sequence[Any] | None) -> bool:
    """Whether the names of the columns show that they hold one score per class.

    They do if they are the classes, or 0, 1, ..., or what follows a prefix that all of them have, such as ``z_``.
    """
    if len(candidates) < 2:
        return False
    if classes is not None and {str(label) for label in classes} == set(candidates):
        return True
    numbered = [str(k) for k in range(len(candidates))]
    if set(candidates) != set(numbered) and without_prefix(candidates) is None:
        return False
    _refuse_disorder(candidates, classes)
    return True


def by_values(scores: HostArray, labels: HostArray) -> bool:
    """Whether columns with uninformative names can hold one score per class.

    There must be at least three, one more than the largest of the whole-numbered labels, and none may be constant or
    whole-numbered, as row numbers, splits and flags are.
    """
    n_columns = scores.shape[1]
    try:
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError):
        return False
    if n_columns < 3 or not len(numbers) or not (numbers == np.floor(numbers)).all() or numbers.max() + 1 != n_columns:
        return False
    return not constant_or_whole(scores).any()


def classes_of_columns(labels: Sequence[Any], columns: Sequence[str]) -> list[str] | None:
    """The classes in the column names, if all labels are such classes: the names, or their parts after a common prefix.

    Labels that read as numbers are numbers of classes, and say nothing about names.
    """
    different = set(labels)
    if not different or not all(isinstance(label, str) and not reads_as_number(label) for label in different):
        return None
    for names in (columns, without_prefix(columns)):
        if names is not None and different <= set(names):
            return list(names)
    return None


def refuse_doubtful_numbers(labels: Sequence[Any], columns: Sequence[str]) -> None:
    """Refuse labels that can be column numbers, counted from 0, and also names of other columns, such as z_1, z_2."""
    names = class_parts(columns)
    if not all(name.isdecimal() for name in names):
        return
    places = {int(name): place for place, name in enumerate(names)}
    try:
        numbers = sorted(map(float, set(labels)))
    except (TypeError, ValueError):
        return
    if not all(number in places and number < len(names) for number in numbers):
        return
    doubtful = next((int(number) for number in numbers if places[int(number)] != number), None)
    if doubtful is None:
        return
    number, name = columns[doubtful], columns[places[doubtful]]
    got = f"{doubtful}, which may mean {number!r}, counted from 0, or {name!r}, by its name"
    remedy = f"Pass the label of each column in order as {setting('classes')}."
    raise InputError("The labels", "identify their columns unambiguously", got=got, remedy=remedy)


def constant_or_whole(scores: HostArray) -> HostArray:
    """For each column, whether its values are all equal or all whole numbers; masked and missing values count as 0."""
    finite = np.where(np.isfinite(scores), scores, 0)
    flags: HostArray = (finite == finite[0]).all(axis=0) | (finite == np.floor(finite)).all(axis=0)
    return flags


def _refuse_disorder(names: Sequence[str], classes: Sequence[Any] | None) -> None:
    """Refuse columns whose names give the classes in another order."""
    rest = without_prefix(names) if len(names) > 1 else None
    rest = list(names) if rest is None else rest
    if classes is not None:
        refuse_permuted(rest, classes)
    elif all(part.isdecimal() for part in rest):
        order = sorted(range(len(rest)), key=lambda place: int(rest[place]))
        if order != list(range(len(rest))):
            remedy = f"Name each of them in that order with {setting('columns')}, without a pattern."
            if len(names) <= _TYPED:
                remedy = f"Pass {setting('columns', [names[place] for place in order])}."
            raise InputError("The columns of scores", "be in the order of their numbers", got=join_names(names), remedy=remedy)
