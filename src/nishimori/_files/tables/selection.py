"""Which columns of a table are the scores, by what the caller says of it, and what to type where that is not clear.

`propose` is the only place where arguments are put into an error: it tries them on the file before they are printed. Where the
file does not prove which columns are meant, the error says what is needed and lists no columns to type.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any

import numpy as np

from nishimori._files.tables.block import Block, Table
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

# Columns that must have one value per row, and how an error says so.
_SINGLE = {
    "labels": "label is one value",
    "weights": "weight is one number",
    "clusters": "cluster is one value",
    "groups": "group is one value",
    "ids": "name is one value",
}

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
            other = setting(roles.argument(role), A_NAME)
            raise InputError(f"{table.path} has lists in column {name!r}, and a {_SINGLE[role]}. Pass another {other}.")
        if name not in table.names:
            raise InputError(
                f"{table.path} has no column {name!r}, only {join_names(table.names)}. "
                f"{remedy_for(role, roles, table.names, lambda new: _labels_are_read(table, new))}"
            )
    candidates = _candidates(table, roles)
    selection = _selection(table, roles, candidates)
    if selection is None:
        raise undecided_error(table, candidates, roles)
    return selection


def _candidates(table: Table, roles: Roles) -> list[str]:
    """The columns that may hold scores."""
    return [name for name in _not_ignored(table, roles) if name not in roles.special]


def _not_ignored(table: Table, roles: Roles) -> list[str]:
    """The columns that the caller does not leave out."""
    ignored = set(match_columns(roles.ignore, table.names, argument="ignore", where=str(table.path)))
    return [name for name in table.names if name not in ignored]


def _selection(table: Table, roles: Roles, candidates: Sequence[str]) -> Selection | None:
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
    sure = (len(candidates) == 1 and candidates[0] in roles.usual_names) or by_names(candidates, roles.classes)
    if not sure and (not roles.labelled or len(candidates) < 3):
        return None
    return Selection(list(candidates), by_values=not sure)


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
    except InputError:
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
    return all(isinstance(value, str) or float(value).is_integer() for value in spell_as_classes(truth, None).tolist())


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
    doubt = _Doubt(table, list(candidates), roles, _column_contents(table, candidates, roles))
    rules = (_one_score, _named_by_classes, _named_by_labels, _all_but_a_few, _same_prefix)
    remedy = next((advice for rule in rules if (advice := rule(doubt)) is not None), None) or _what_to_type(doubt)
    return InputError(f"{table.path} does not say which columns are scores: {join_names(candidates)}.{looks} {remedy}")


@dataclass(frozen=True)
class _ColumnContents:
    """The columns that hold one number per row, the lengths of lists, and the labels where there are any."""

    numbers: dict[str, HostArray] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    labels: HostArray | None = None


@dataclass(frozen=True)
class _Doubt:
    """A table, the columns in question, and what the options and the values say."""

    table: Table
    candidates: list[str]
    roles: Roles
    contents: _ColumnContents

    @property
    def numeric(self) -> list[str]:
        """The columns of numbers."""
        return [name for name in self.candidates if name in self.contents.numbers]

    @property
    def likely(self) -> list[str]:
        """The columns of numbers that are neither constant nor whole-numbered, as row numbers, splits and flags are."""
        kept = [name for name in self.numeric if not looks_like_row_numbers(name)]
        return [name for name in kept if not constant_or_whole(self.contents.numbers[name][:, None]).any()]

    @property
    def is_checked(self) -> bool:
        """Whether labels or a calibration say how many columns of scores there are."""
        roles = self.roles
        return self.contents.labels is not None or roles.n_classes is not None or roles.classes is not None

    @property
    def labels_are_text(self) -> bool:
        """Whether the labels are the names of classes that no option lists."""
        labels = self.contents.labels
        return self.roles.classes is None and labels is not None and any(isinstance(label, str) for label in self.truth(None))

    def truth(self, classes: Sequence[Any] | None) -> list[Any]:
        """The labels, spelled as classes are; none if they cannot be labels."""
        labels = self.contents.labels
        if labels is None or any(isinstance(label, list | dict | bytes | None) for label in labels):
            return []
        spelled: list[Any] = np.asarray(spell_as_classes(labels, classes), dtype=object).tolist()
        return spelled

    def propose(self, chosen: Sequence[str], **options: str | Sequence[str]) -> str | None:
        """Options as they are typed, if these columns and no others are then read as scores that the labels fit."""

        def works(roles: Roles) -> bool:
            selection = _selection(self.table, roles, _candidates(self.table, roles))
            return selection is not None and selection.scores == list(chosen) and self._fits(selection, roles.classes)

        return propose(self.roles, works, **options)

    def _fits(self, chosen: Selection, classes: Sequence[Any] | None) -> bool:
        """Whether the values and the number of columns can be the scores of these labels."""
        contents, first = self.contents, chosen.scores[0]
        if len(chosen.scores) == 1:
            n_classes = contents.lengths.get(first, 2)
        else:
            n_classes = len(chosen.scores)
            refuse_permuted(chosen.scores, classes)
        if not all(name in contents.numbers or name in contents.lengths for name in chosen.scores):
            return False
        if self.roles.n_classes not in (None, n_classes) or (classes is not None and len(classes) != n_classes):
            return False
        if chosen.by_values and not (contents.labels is not None and self._by_values(chosen.scores)):
            return False
        if contents.labels is None:
            return self.is_checked or first in contents.lengths or names_say_so(chosen.scores, classes)
        truth = self.truth(classes)
        if classes is not None:
            return bool(truth) and set(truth) <= {str(label) for label in classes}
        return _largest(truth) == n_classes - 1

    def _by_values(self, scores: Sequence[str]) -> bool:
        assert self.contents.labels is not None
        return by_values(np.stack([self.contents.numbers[name] for name in scores], axis=1), self.contents.labels)


def _largest(truth: Sequence[Any]) -> int | None:
    """The largest of labels that are 0, 1, ...; None if they are not."""
    if not truth or not all(isinstance(label, int | float) and label >= 0 and float(label).is_integer() for label in truth):
        return None
    return int(max(truth))


def _column_contents(table: Table, candidates: Sequence[str], roles: Roles) -> _ColumnContents:
    """All rows that count, as `fit` reads them; without labels only the first rows, because such files may be large."""
    place = {name: index for index, name in enumerate(table.names)}
    numbers: dict[str, list[HostArray]] = {name: [] for name in candidates if not table.is_list(name)}
    lengths: dict[str, int] = {}
    labels: list[object] = []
    try:
        for block in table.blocks():
            kept = _rows_that_count(block, roles, table)
            for name in list(numbers):
                column = _numbers(block, place[name])
                if column is None:
                    del numbers[name]
                else:
                    numbers[name].append(column[kept, 0])
            for name in candidates:
                if table.is_list(name) and (lists := _numbers(block, place[name])) is not None:
                    lengths[name] = lists.shape[1]
            if not roles.labelled:
                break
            labels += [label for label, keep in zip(block.values(place[roles.labels]), kept, strict=True) if keep]
    except FormatError:  # about other rows or columns; the user gets to see it once the columns are known
        return _ColumnContents()
    read = {name: np.concatenate(parts) for name, parts in numbers.items()}
    read = {name: column for name, column in read.items() if len(column)}
    return _ColumnContents(read, lengths, as_objects(labels) if roles.labelled else None)


def _rows_that_count(block: Block, roles: Roles, table: Table) -> HostArray:
    """Which rows of a block count: those of positive weight whose label is not the one to ignore."""
    counted = np.ones(block.n_rows, dtype=bool)
    if not roles.labelled:
        return counted
    if roles.weights is not None and not table.is_list(roles.weights):
        counted &= block.numbers([table.names.index(roles.weights)])[:, 0] != 0
    if roles.ignore_index is not None:
        counted &= differ(as_objects(block.values(table.names.index(roles.labels))), roles.ignore_index)
    return counted


def _numbers(block: Block, index: int) -> HostArray | None:
    try:
        return block.numbers([index]).astype(np.float64)
    except FormatError:
        return None


def _one_score(doubt: _Doubt) -> str | None:
    """One column of lists, or one column of numbers where there are two classes."""
    lists, likely = [name for name in doubt.candidates if name in doubt.contents.lengths], doubt.likely
    if len(lists) > 1 or (not lists and len(likely) != 1):
        return None
    (name,) = lists or likely
    if not lists and any(_is_constant(doubt, column) for column in doubt.numeric):
        return None  # which may be the score of a reference class, so that there are two columns
    if (options := doubt.propose([name], columns=name)) is not None:
        return f"If {name!r} holds the scores, pass {options}."
    if lists and doubt.labels_are_text:
        classes = f"the label of each of its numbers, in order, with {setting('classes', NAMES)}"
        return f"If {name!r} holds the scores, name it with {setting('columns', A_NAME)}, and {classes}."
    return None


def _named_by_classes(doubt: _Doubt) -> str | None:
    """Columns that the classes name, where an option or the calibration lists them."""
    classes = None if doubt.roles.classes is None else [str(label) for label in doubt.roles.classes]
    around = None if classes is None else _text_around(classes, doubt.numeric)
    if classes is None or around is None:
        return None
    options = _columns_as_options(doubt, [label.join(around) for label in classes])
    return None if options is None else f"The classes are the names of columns: pass {options}."


def _named_by_labels(doubt: _Doubt) -> str | None:
    """Columns that the labels name, in the order of the file; others are never proposed as classes."""
    labels = list(dict.fromkeys(str(label) for label in doubt.truth(None))) if doubt.labels_are_text else []
    around = _text_around(labels, doubt.numeric)
    if around is None:
        return None
    before, after = around
    classes = sorted(labels, key=lambda label: doubt.table.names.index(label.join(around)))
    chosen = [label.join(around) for label in classes]
    unsure = [name for name in doubt.likely if name not in set(chosen)]
    if before + after and any(name.startswith(before) and name.endswith(after) for name in unsure):
        return None  # such a column is probably a class without samples
    options = _columns_as_options(doubt, chosen, classes=classes)
    if options is None or not unsure:
        return None if options is None else f"The labels are the names of columns: pass {options}."
    are = "is not a class" if len(unsure) == 1 else "are not classes"
    return f"The labels are the names of columns. If {join_names(unsure)}, which no label names, {are}, pass {options}."


def _columns_as_options(doubt: _Doubt, chosen: Sequence[str], **more: Sequence[str]) -> str | None:
    """Options that leave these columns: the others to ignore, or else these by name."""
    others = [name for name in doubt.candidates if name not in set(chosen)]
    ways: list[dict[str, Sequence[str]]] = [{"ignore": [*doubt.roles.ignore, *others]} if others else {}, {"columns": chosen}]
    return next((options for way in ways if (options := doubt.propose(chosen, **way, **more))), None)


def _text_around(classes: Sequence[str], columns: Sequence[str]) -> tuple[str, str] | None:
    """What the names of columns have before and after the names of the classes, such as z_ and nothing.

    None if not all classes have such a column, or if there are several sets, as with logit_cat, logit_dog, prob_cat, prob_dog.
    """
    if len(classes) < 2:
        return None
    present, first = set(columns), max(classes, key=len)
    around = {
        (name[: match.start()], name[match.start() + len(first) :])
        for name in columns
        for match in re.finditer(f"(?={re.escape(first)})", name)
    }
    complete = [pair for pair in around if all(label.join(pair) in present for label in classes)]
    return complete[0] if len(complete) == 1 else None


def _all_but_a_few(doubt: _Doubt) -> str | None:
    """All columns of fractions, if their names or their number say that they are the scores."""
    likely = doubt.likely
    likely_names = set(likely)  # there may be tens of thousands
    others = [name for name in doubt.candidates if name not in likely_names]
    if not likely or not others or len(others) > _SHOWN:
        return None
    if not names_say_so(likely, doubt.roles.classes) and any(_is_constant(doubt, name) for name in others):
        return None  # a constant column may be the score of a class, and another one of them none
    options = doubt.propose(likely, ignore=[*doubt.roles.ignore, *others])
    return None if options is None else f"If the scores are all columns except {join_names(others)}, pass {options}."


def names_say_so(names: Sequence[str], classes: Sequence[Any] | None) -> bool:
    """Whether names say that columns hold one score per class, in the order of the classes."""
    try:
        return by_names(names, classes)
    except InputError:
        return False


def _is_constant(doubt: _Doubt, name: str) -> bool:
    column = doubt.contents.numbers.get(name)
    return column is not None and bool((column == column[0]).all())


def _same_prefix(doubt: _Doubt) -> str | None:
    """Columns with the same prefix, if there is only one such set that can be the scores."""
    prefixes = Counter(re.sub(r"[^\W_]+\Z", "", name) or name.rstrip("0123456789") for name in doubt.numeric)
    proposals = []
    for prefix, count in prefixes.items() if doubt.is_checked else ():
        if prefix and count > 1 and not re.search(r"[*?\[]", prefix):
            scores = [name for name in doubt.candidates if name.startswith(prefix)]
            proposals += [(prefix, options)] if (options := doubt.propose(scores, columns=[f"{prefix}*"])) is not None else []
    if len(proposals) != 1:
        return None
    ((prefix, options),) = proposals
    return f"If the scores are the columns that begin with {prefix!r}, pass {options}."


def _what_to_type(doubt: _Doubt) -> str:
    """What to type, without names: nothing proves which ones they are."""
    columns, classes = setting("columns", NAMES), setting("classes", NAMES)
    if doubt.labels_are_text:
        return f"Name the columns of scores with {columns}, and the label of each of them, in the same order, with {classes}."
    largest = None if doubt.roles.classes is not None else _largest(doubt.truth(None))
    if largest is not None and 0 < largest < len(doubt.numeric):
        one = f", or the one score of label 1 with {setting('columns', A_NAME)}" if largest == 1 else ""
        return f"The labels are 0 to {largest}: name one column of scores per class, in this order, with {columns}{one}."
    return f"Name the columns of scores with {columns}, or the others with {setting('ignore', NAMES)}."
