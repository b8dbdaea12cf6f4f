"""What a command asks of a file, which columns of a table that means, and what to type where that is not clear.

For the latter the values of a table are read again, and options are only proposed if the command would accept them.
"""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._array import HostArray
from nishimori._scores import Input
from nishimori._tables import Block, Table, listed
from nishimori._tables._columns import (
    by_names,
    by_values,
    constant_or_whole,
    looks_like_row_numbers,
    matched,
    named,
    without_prefix,
)
from nishimori.errors import FormatError, InputError

# As many names as `listed` shows.
_SHOWN = 12

# What people call a column of labels.
_LABELS = {"label", "labels", "y", "y_true", "target", "truth", "class"}


@dataclass(frozen=True)
class Names:
    """What the options of a command, or the calibration that it uses, say about a file.

    Attributes
    ----------
    input : {"logits", "probabilities"}
        What the scores are, which is also the default name of their array.
    scores : str or None
        The name of the array, or of the one column, of scores, where an option gives it.
    labels, weights, clusters, groups : str or None
        The names of the arrays or columns of labels, weights, clusters and groups.
    columns, ignore : tuple of str
        Names or patterns of the columns that hold scores, and of those that do not.
    classes : sequence or None
        The label of each column of scores in order.
    fitted : tuple of str or None
        The columns that the calibration was fitted to.
    calibrated : bool
        Whether a calibration says what the scores are.
    groups_remembered : bool
        Whether ``groups`` is what a calibration says that it needs, and not an option.
    delimiter, decimal : str
        How delimited text is written.
    ignore_index : int or None
        The label of samples that do not count.
    """

    input: Input = "logits"
    scores: str | None = None
    labels: str = "labels"
    weights: str | None = None
    clusters: str | None = None
    groups: str | None = None
    columns: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    classes: Sequence[Any] | None = None
    fitted: tuple[str, ...] | None = None
    calibrated: bool = False
    groups_remembered: bool = False
    delimiter: str | None = None
    decimal: str = "."
    ignore_index: int | None = None

    @property
    def array(self) -> str:
        """The name of the array of scores."""
        return self.scores or self.input

    @property
    def special(self) -> dict[str, str]:
        """What the columns that are not scores are, by name."""
        others = {self.weights: "weights", self.clusters: "clusters", self.groups: "groups"}
        return {self.labels: "labels"} | {name: what for name, what in others.items() if name}


@dataclass(frozen=True)
class Selection:
    """The columns of scores; ``by_values`` if their values have yet to confirm it."""

    scores: list[str]
    by_values: bool = False


def selected(table: Table, names: Names, *, labelled: bool) -> Selection:
    """The columns of scores of a table, or an error that lists its columns; ``labelled`` if labels must be there too.

    The groups of rows are needed with and without labels.
    """
    where, known = str(table.path), set(table.names)
    for name, what in names.special.items():
        if name not in known and (labelled or what == "groups"):
            raise InputError(
                f"{where} has no column {name!r}, only {listed(table.names)}. {remedy_for(what, names, table.names)}"
            )
    ignored = set(matched(names.ignore, table.names, argument="ignore", where=where))
    left = [name for name in table.names if name not in ignored]
    if names.scores is not None:
        return Selection(_one_column(names, left, where))
    if names.columns is not None:
        return Selection(_asked(names, left, where))
    if names.fitted is not None and known.issuperset(names.fitted):
        return Selection(named(names.fitted, left, names.special, None, where=where))
    if names.input in known and table.is_list(names.input):
        return Selection([names.input])
    if names.fitted is not None:
        raise InputError(
            f"The calibration was fitted to the columns {listed(names.fitted)}, but {where} has only {listed(table.names)}. "
            "Rename its columns, or fit again."
        )
    candidates = [name for name in left if name not in names.special]
    sure = candidates == [names.input] or by_names(candidates, names.classes)
    if not sure and (not labelled or len(candidates) < 3):
        raise undecided(table, candidates, names, labelled=labelled)
    return Selection(candidates, by_values=not sure)


def remedy_for(what: str, names: Names, present: Sequence[str]) -> str:
    """What to do where no column or array has the name of ``what``: scores, labels, weights, clusters or groups."""
    likely = [name for name in present if name.lower() in _LABELS] if what == "labels" else []
    if likely:
        return f"If its labels are {likely[0]!r}, pass --labels {shlex.quote(likely[0])}."
    if what == "groups" and names.groups_remembered:
        return "The calibration has a temperature per group: name the groups of this file with --groups."
    return f"Name yours with --{what}."


def _one_column(names: Names, left: Sequence[str], where: str) -> list[str]:
    """The column that --scores names."""
    if names.columns is not None:
        raise InputError("--scores names one column, and --columns several. Pass only one of them.")
    assert names.scores is not None
    if names.scores not in left:
        raise InputError(f"{where} has no column {names.scores!r}, only {listed(left)}. Name yours with --scores.")
    if names.scores in names.special:
        raise InputError(f"--scores must name scores, got {names.scores!r}, which is the column of the labels or weights.")
    return [names.scores]


def _asked(names: Names, left: Sequence[str], where: str) -> list[str]:
    """The columns that --columns names; those of a calibration cannot be others."""
    assert names.columns is not None
    chosen = named(names.columns, left, names.special, names.classes, where=where)
    if names.fitted is not None and chosen != list(names.fitted):
        raise InputError(
            f"--columns must be those that the calibration was fitted to, {listed(names.fitted)}, in that order, got "
            f"{listed(chosen)}. Leave --columns out."
        )
    return chosen


def undecided(table: Table, candidates: Sequence[str], names: Names, *, labelled: bool) -> InputError:
    """An error that lists the columns that may hold scores, and says what to type; ``labelled`` if there are labels too."""
    if not candidates:
        return InputError(f"{table.path} has no column of scores, only {listed(table.names)}.")
    numbers = next((name for name in candidates if looks_like_row_numbers(name)), None)
    looks = "" if numbers is None else f" The column {numbers!r} looks like row numbers."
    if numbers == "":
        looks = " The first column has no name and looks like row numbers."
    remedy = _remedy(_Doubt(table, list(candidates), names, _contents(table, candidates, names, labelled=labelled)))
    return InputError(f"{table.path} does not say which columns are scores: {listed(candidates)}.{looks} {remedy}")


@dataclass(frozen=True)
class _Contents:
    """The columns that hold one number per row, and the labels where there are any."""

    numbers: dict[str, HostArray]
    labels: HostArray | None


@dataclass(frozen=True)
class _Doubt:
    """A table, the columns in question, and what the options and the values say."""

    table: Table
    candidates: list[str]
    names: Names
    contents: _Contents

    @property
    def likely(self) -> list[str]:
        """The columns of numbers that are neither constant nor whole-numbered, as row numbers, splits and flags are."""
        numbers = self.contents.numbers
        kept = [name for name in self.candidates if name in numbers and not looks_like_row_numbers(name)]
        return [name for name in kept if not constant_or_whole(numbers[name][:, None]).any()]

    @property
    def is_binary(self) -> bool:
        """Whether the labels, where there are any, allow one score per row."""
        return self.contents.labels is None or len({str(label) for label in self.contents.labels}) <= 2

    def accepted(self, left: Sequence[str], classes: Sequence[str] | None) -> bool:
        """Whether these columns alone would be taken as scores."""
        try:
            if by_names(left, classes):
                return True
        except InputError:
            return False
        if self.contents.labels is None or len(left) < 3:
            return False
        return by_values(np.stack([self.contents.numbers[name] for name in left], axis=1), self.contents.labels)


def _contents(table: Table, candidates: Sequence[str], names: Names, *, labelled: bool) -> _Contents:
    """All rows that count, as `fit` reads them; without labels only the first rows, because such files may be large."""
    place = {name: index for index, name in enumerate(table.names)}
    numbers: dict[str, list[HostArray]] = {name: [] for name in candidates if not table.is_list(name)}
    labels: list[object] = []
    try:
        for block in table.blocks():
            weighed = labelled and names.weights is not None and not table.is_list(names.weights)
            kept = block.numbers([place[names.weights or ""]])[:, 0] != 0 if weighed else np.ones(block.n_rows, dtype=bool)
            for name in list(numbers):
                column = _numbers(block, place[name])
                if column is None:
                    del numbers[name]
                else:
                    numbers[name].append(column[kept])
            if not labelled:
                break
            labels += [label for label, keep in zip(block.values(place[names.labels]), kept, strict=True) if keep]
    except FormatError:  # about other rows or columns; the user gets to see it once the columns are known
        return _Contents({}, None)
    truth = np.empty(len(labels), dtype=object)
    truth[:] = labels
    read = {name: np.concatenate(parts) for name, parts in numbers.items()}
    return _Contents({name: column for name, column in read.items() if len(column)}, truth if labelled else None)


def _numbers(block: Block, index: int) -> HostArray | None:
    try:
        return block.numbers([index])[:, 0].astype(np.float64)
    except FormatError:
        return None


def _remedy(doubt: _Doubt) -> str:
    """One sentence, with options to type."""
    lists = [name for name in doubt.candidates if doubt.table.is_list(name)]
    likely = doubt.likely
    known = set(likely)  # there may be tens of thousands
    other = [name for name in doubt.candidates if name not in known]
    if len(lists) == 1 or (not lists and len(likely) == 1 and doubt.is_binary):
        (name,) = lists or likely
        return f"If {name!r} holds the scores, pass --scores {shlex.quote(name)}."
    classes = _named_by_labels(doubt, likely)
    ignored = _option("--ignore", [*doubt.names.ignore, *other])
    if classes is not None and (spelled := _option("--classes", classes)) is not None and (not other or ignored is not None):
        options = f"{ignored} {spelled}" if other else spelled
        return f"The labels are the names of columns: pass {options}."
    if other and ignored is not None and len(other) <= _SHOWN and doubt.accepted(likely, doubt.names.classes):
        return f"If the scores are all columns except {listed(other)}, pass {ignored}."
    prefix = _shared_prefix(doubt)
    if prefix is not None:
        return f"If the scores are the columns that begin with {prefix!r}, pass {_option('--columns', [prefix + '*'])}."
    scores = likely if len(likely) > 1 else [name for name in doubt.candidates if name in doubt.contents.numbers]
    asked = _option("--columns", scores)
    if asked is not None and 1 < len(scores) <= _SHOWN:
        return f"If the scores are {listed(scores)}, pass {asked}."
    return "Name the columns of scores with --columns, or the others with --ignore, separated by commas."


def _option(option: str, values: Sequence[str]) -> str | None:
    """An option as it is typed, or None where a name has what separates names."""
    if any("," in value or value != value.strip() for value in values):
        return None
    return f"{option} {shlex.quote(','.join(values))}"


def _named_by_labels(doubt: _Doubt, likely: Sequence[str]) -> list[str] | None:
    """The classes in the order of the columns, if the labels are text and each is the name of a column."""
    if doubt.names.classes is not None or doubt.contents.labels is None or len(likely) < 2:
        return None
    found = {str(label) for label in doubt.contents.labels}
    for classes in (list(likely), without_prefix(likely)):
        if classes is not None and found <= set(classes) and not all(each.isdecimal() for each in classes):
            return classes if doubt.accepted(likely, classes) else None
    return None


def _shared_prefix(doubt: _Doubt) -> str | None:
    """The prefix of most columns, if a pattern with it stands for columns of numbers only."""
    prefixes = Counter(re.sub(r"[^\W_]+\Z", "", name) or name.rstrip("0123456789") for name in doubt.candidates)
    prefix, count = prefixes.most_common(1)[0]
    if (
        not prefix
        or count < 2
        or 2 * count < len(doubt.candidates)
        or re.search(r"[*?\[,]", prefix)
        or prefix != prefix.strip()
    ):
        return None
    try:
        known = {*doubt.candidates, *doubt.names.special}
        left = [name for name in doubt.table.names if name in known]
        chosen = named([prefix + "*"], left, doubt.names.special, doubt.names.classes, where=str(doubt.table.path))
    except InputError:
        return None
    return prefix if all(name in doubt.contents.numbers for name in chosen) else None
