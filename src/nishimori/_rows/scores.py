"""Logits or probabilities as the user passed them: their checks, and whether their range fits what they are said to be.

`Scores` holds the caller's own array. Fitting asks it for blocks as they are stored, prediction for blocks in the caller's
precision; neither changes the array, and nothing is inferred from its values: whether it holds logits or probabilities is
what the caller said. Its type and shape are checked when it is made, its values when they are read for the first time.

`ScoreRange` is the range of scores of which the caller has said nothing, and tells whether they can be logits, which is what
they are taken for. Numbers that all lie between 0 and 1 are hardly ever that, and ratings from 1 to 10 neither, so the first is
refused and the second is a warning. Only the range of all rows tells: a later batch, chunk or rank may hold a negative score,
and with it all of them are logits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isinf, prod
from typing import Any, Literal, NamedTuple

import numpy as np

from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace
from nishimori._support.numbers import between, numeric, one_of
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, NoRowsError, setting

Input = Literal["logits", "probabilities"]

Floor = float | Literal["auto"] | None
"""The lowest probability; "auto" if it is chosen from the data, see `_fit.floors`."""


class NotProbabilitiesError(InputError):
    """Scores that the user called probabilities are not probabilities."""


LARGEST = 1e100
"""No logit is larger: the cubes of larger ones overflow float64. Real ones are far smaller; masks are -inf or, often, the
lowest float32."""


class Members(NamedTuple):
    """How many members of an ensemble were averaged, and which dimension of the scores they were, see `members`."""

    size: int
    axis: int


@dataclass(frozen=True)
class Scores:
    """Scores of shape (n, k), or (n,) for the positive class of a binary problem; ``name`` is the caller's name for them.

    ``floor`` raises smaller probabilities; if it is None, only exact zeros are raised, to the smallest number of their dtype.
    ``leading`` is the shape before the classes where that has several dimensions, such as (sequences, tokens): each of these
    positions is a row. The array then has them as one dimension, unless that would take a copy.
    ``remedy`` is what an error advises if they are not the probabilities that they should be.
    ``members`` says of how many members these are the average, whose scores are ``unpooled`` while their range is not judged.
    """

    array: Array
    input: Input
    name: str = "logits"
    floor: float | None = None
    leading: tuple[int, ...] = ()
    remedy: str = ""
    members: Members | None = None
    unpooled: "tuple[Scores, ...]" = ()

    @property
    def logits_remedy(self) -> str:
        """What to do with logits in place of probabilities."""
        return self.remedy or f"If these are logits, pass {setting('input', 'logits')}."

    @property
    def is_binary_score(self) -> bool:
        """Whether one number per row stands for two classes: z for the logits (0, z), p for (1 - p, p)."""
        return len(self.array.shape) == 1

    @property
    def n_samples(self) -> int:
        return int(prod(self.array.shape[:-1] or self.array.shape))

    @property
    def n_classes(self) -> int:
        return 2 if self.is_binary_score else int(self.array.shape[-1])

    @property
    def is_scattered(self) -> bool:
        """Whether the rows cannot be seen as one dimension without a copy; they are then copied a block at a time."""
        return len(self.array.shape) > 2

    def row(self, number: int) -> int | tuple[int, ...]:
        """The index of a row in messages: its number or, where there are several leading dimensions, its position."""
        if not self.leading:
            return number
        inner = np.unravel_index(number % prod(self.leading[1:]), self.leading[1:])
        return (number // prod(self.leading[1:]), *map(int, inner))

    def per_row(self, values: Any, name: str | None = None) -> Any:
        """One value per row: flat if they have the leading shape, repeated if they have only its first dimensions.

        Other shapes are refused where the caller has a ``name`` for the values.
        """
        if not self.leading or values is None or isinstance(values, str):
            return values
        try:
            array = arrays.as_array(values)
        except ValueError:  # rows of different lengths, which are refused later
            return values
        shape = tuple(array.shape)
        if shape and shape == self.leading[: len(shape)]:
            return np.repeat(arrays.on_host(array).reshape(-1), prod(self.leading[len(shape) :]))
        if name is not None and shape != (self.n_samples,):
            shorter = " or ".join(str(self.leading[:length]) for length in range(len(self.leading) - 1, 0, -1))
            raise InputError(name, f"have shape {self.leading}, one per position, or {shorter}, one per sequence", got=shape)
        return values

    def restore_shape(self, rows: Array) -> Array:
        """Results with one row, or one number, per row of the scores, in the leading shape."""
        return namespace(rows).reshape(rows, (*self.leading, *rows.shape[1:])) if self.leading else rows

    @property
    def rounding(self) -> float:
        """The relative error of stored probabilities: the error of a softmax for float32, of rounding for 16 bits."""
        if self.input == "logits" or arrays.kind(self.array) != "float":
            return 0.0
        return arrays.epsilon(self.array) * (0.5 if arrays.is_half(self.array) else 2.0)

    @property
    def slack(self) -> float:
        """How much the sum of a row of probabilities may differ from 1."""
        # Rounding each of many entries to 16 bits moves a sum by a few units of that precision; float32 moves it far less.
        return max(SLACK, 4 * arrays.epsilon(self.array)) if arrays.kind(self.array) == "float" else SLACK

    def blocks(self, most_rows: int | None = None) -> Iterator[slice]:
        """Consecutive rows in blocks whose size suits the device; on a CPU about ``most_rows`` at most."""
        usual = arrays.rows_per_block(self.array, self.n_classes, most_rows)
        step = -(-self.n_samples // max(1, round(self.n_samples / usual)))  # no short block at the end: each has its cost
        return (slice(start, min(start + step, self.n_samples)) for start in range(0, self.n_samples, step))

    def widen(self, stored: Array) -> Array:
        """Rows to compute with, from what `at` gives.

        Logits of float32 and float64 are as they were passed, shorter ones become float32, all others float64.
        """
        return arrays.in_double(stored) if self.input == "probabilities" else arrays.in_single(stored)

    def check(self, values: Array, numbers: Sequence[int] | HostArray) -> bool:
        """Refuse values that cannot be scores; ``numbers`` count the rows. True if some class is masked."""
        if self.input == "logits":
            return _check_logits(self, values, numbers)
        _check_probabilities(self, values, numbers)
        return False

    def as_logits(self, values: Array) -> tuple[Array, Array | None]:
        """Logits (n, k) of checked values, and the probabilities that they came from, if these were passed."""
        table = self._table(values)
        return self._logits(table), table if self.input == "probabilities" else None

    def logits(self, first_row: int = 0, rows: slice | None = None) -> Array:
        """Logits (n, k) of all rows or of one block, checked, in the precision that results are computed in.

        An error counts the rows of the array from ``first_row``.
        """
        return self._logits(self.table(first_row, rows))

    def table(self, first_row: int = 0, rows: slice | None = None) -> Array:
        """The checked scores (n, k) of all rows or of one block as passed: probabilities where those were given."""
        if rows is None:
            self.check_all(first_row)
            stored = arrays.numpy_view(self.at(slice(0, self.n_samples)))
        else:
            stored = self._checked(rows, first_row)
        return self._table(arrays.to_compute(stored))

    def check_all(self, first_row: int = 0) -> None:
        """Refuse values that cannot be scores, block after block."""
        for rows in self.blocks():
            self._checked(rows, first_row)

    def _checked(self, rows: slice, first_row: int) -> Array:
        """Some rows as they are stored; values that cannot be scores are refused."""
        stored = arrays.numpy_view(self.at(rows))
        # Of usual logits a check would find nothing to say; that is known without a copy of them in float64.
        may_be_usual = self.input == "logits" and arrays.kind(stored) == "float" and arrays.fits_double(stored)
        if not (may_be_usual and arrays.is_within(stored, LARGEST)):
            self.check(arrays.in_double(stored), range(first_row + rows.start, first_row + rows.stop))
        return stored

    def sample(self, rows: slice | HostArray) -> "Scores":
        """The rows with these numbers, or in a slice (which is not copied), without their positions."""
        some = self.array[rows, ...] if isinstance(rows, slice) else arrays.rows_at(self.array, rows)
        return replace(self, array=some, leading=(), unpooled=())

    def at(self, rows: slice) -> Array:
        """Some rows in the dtype that they are stored in; a view of them, except where they are scattered.

        On the host, if their own library would read small probabilities as zero.
        """
        values = arrays.rows_between(self.array, rows.start, rows.stop) if self.is_scattered else self.array[rows, ...]
        return arrays.on_host(values) if self.input == "probabilities" and arrays.flushes(values) else values

    def _logits(self, values: Array) -> Array:
        if self.input == "logits":
            return values
        xp = namespace(values)
        # Only an exact zero is raised, to the least its own dtype can hold: a larger floor would move T.
        floor = arrays.smallest_normal(self.array) if arrays.kind(self.array) == "float" else _DOUBLE_FLOOR
        return xp.log(xp.where(values > 0, values, xp.full_like(values, floor)))

    def _table(self, values: Array) -> Array:
        """One column per class, even if one number stands for two classes; no value is below the floor."""
        if self.is_binary_score:
            xp = namespace(values)
            other = xp.zeros_like(values) if self.input == "logits" else 1 - values
            values = xp.stack([other, values], axis=1)
        return values if self.floor is None else arrays.at_least(values, self.floor)


SLACK = 1e-3
"""How much rounding may make a probability exceed 1, or the sum of a row differ from 1."""

# Larger whole numbers are not exact in float64.
_WHOLE = 2.0**53

_DOUBLE_FLOOR = float(np.finfo(np.float64).smallest_normal)


def scores(x: Any, *, input: Input = "logits", name: str = "logits", floor: float | None = None, remedy: str = "") -> Scores:
    """Check type and shape of what the user passed as ``name``."""
    return scores_of(numeric(x, name), input=input, name=name, floor=floor, remedy=remedy)


def scores_of(array: Array, *, input: Input, name: str, floor: float | None = None, remedy: str = "") -> Scores:
    """The scores of an array of numbers, whose shape is checked."""
    check_input(input, floor)
    leading: tuple[int, ...] = ()
    _check_shape(array.shape, name)
    if len(array.shape) > 2:
        leading = tuple(int(length) for length in array.shape[:-1])
        array = arrays.merge_leading(array) if arrays.is_array(array) else array
    checked = Scores(array, input, name, floor, leading, remedy)
    if floor is not None and floor * checked.n_classes >= 1:
        must = f"be below 1/{checked.n_classes}, or it could change which of {checked.n_classes} classes is predicted"
        raise InputError("floor", must, got=repr(floor))
    return checked


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    """Refuse shapes without rows, or with fewer than two columns."""
    other = "(..., n_classes)" if len(shape) > 2 else "(n_samples,) for a binary score"
    must = f"have shape (n_samples, n_classes), or {other}"
    if not shape:
        raise InputError(name, must, got="shape ()", remedy=f"Reshape your data: for one sample pass `[{name}]`.")
    # scikit-learn's checks want the words about a minimum.
    if 0 in (shape[:-1] or shape):
        raise NoRowsError(name, must, got=f"0 sample(s) (shape={tuple(shape)}) while a minimum of 1 is required")
    if len(shape) > 1 and shape[-1] < 2:
        column = f"{name}[:, 0]" if len(shape) == 2 else f"{name}.reshape(-1)"
        got = f"{shape[-1]} feature(s) (shape={tuple(shape)}) while a minimum of 2 is required"
        remedy = f"If it is the score of the positive class, pass it as `{column}`." if shape[-1] else ""
        raise InputError(name, f"{must}, one column per class", got=got, remedy=remedy)


def move_classes_last(name: str, shape: Sequence[int], n_classes: int) -> str:
    """A remedy for scores of several dimensions, if one that is not the last has the size ``n_classes``; else nothing."""
    # The first dimension is rarely that of the classes.
    axis = next((place for place in (*range(1, len(shape) - 1), 0) if shape[place] == n_classes), None)
    if len(shape) < 3 or axis is None:
        return ""
    return f"If the classes are in another dimension, move it last: `numpy.moveaxis({name}, {axis}, -1)`."


def is_auto(floor: Any) -> bool:
    """Whether the floor must be chosen from the data."""
    return isinstance(floor, str) and floor == "auto"


def refuse_auto(floor: Any) -> None:
    """Refuse to choose a floor where nothing is fitted."""
    if is_auto(floor):
        must, got = "be a number or None where nothing is fitted", "'auto': it would be tuned on the labels that it scores"
        fitted = f"Fit a calibrator with {setting('floor', 'auto')} to other data and pass it as {setting('calibrator')}"
        raise InputError("floor", must, got=got, remedy=f"{fitted}: its floor is then used. Or pass a number.")


def check_input(input: Any, floor: Any = None, *, fits: bool = False) -> None:
    """Refuse an unknown ``input`` or an impossible floor; the floor may be "auto" if something is fitted (``fits``)."""
    if input is not None:
        one_of("input", input, Input)
    if floor is None or (is_auto(floor) and fits):  # which has no effect on logits
        return
    if input != "probabilities":
        raise InputError(
            "floor", "be left out for logits: it is the lowest probability", remedy=f"Pass {setting('input', 'probabilities')}."
        )
    refuse_auto(floor)
    if not between("floor", floor, 0, 0.5) > 0:
        raise InputError("floor", "be positive", got="0", remedy="Pass None to raise only exact zeros.")


_FIND_THEM = "Drop those rows or find where the model produced them"


def _check_logits(scores: Scores, values: Array, numbers: Sequence[int] | HostArray) -> bool:
    """Refuse NaN, +inf and rows without a class; whether -inf masks some class."""
    if not arrays.fits_double(scores.array):  # integers and long doubles, whose differences float64 may round away
        named = replace(scores, name=f"`{scores.name}` of type {arrays.dtype_name(scores.array)}")
        rounded = (namespace(values).abs(values) > _WHOLE) & (values != -inf)
        must = "lie between -2**53 and 2**53, where float64 is exact"
        _refuse_first(named, numbers, values, rounded, must, "Subtract the largest score of each row first.")
    if arrays.is_within(values, LARGEST):
        return False
    values = arrays.in_double(values)
    xp, refuse = namespace(values), partial(_refuse_first, scores, numbers)
    masked = values == -inf
    bad = ~((xp.abs(values) <= LARGEST) | masked)
    refuse(values, bad & xp.isfinite(values), f"lie between -{LARGEST:g} and {LARGEST:g}", "Pass -inf to mask a class.")
    refuse(values, bad, "not contain NaN or +inf", f"{_FIND_THEM}; -inf is allowed and masks a class.")
    if scores.is_binary_score:
        must, remedy = "be finite where one score stands for two classes", "Clip the scores, or pass two columns."
        refuse(values, masked, must, remedy)
    empty = xp.all(masked, axis=1)
    refuse(values, empty, "leave each sample at least one class", "Unmask its classes or drop it.", got="only -inf")
    return True


def _check_probabilities(scores: Scores, values: Array, numbers: Sequence[int] | HostArray) -> None:
    """Refuse rows that are not distributions."""
    xp, refuse = namespace(values), partial(_refuse_first, scores, numbers)
    refuse(values, xp.isnan(values), "not contain NaN", f"{_FIND_THEM}.")
    outside = ~((values >= 0) & (values <= (1 if scores.is_binary_score else 1 + SLACK)))
    refuse(values, outside, "be between 0 and 1", scores.logits_remedy, NotProbabilitiesError)
    if scores.is_binary_score:
        return
    totals = xp.sum(values, axis=1)
    sigmoids = "If each class has its own sigmoid, use nishimori.multilabel.MultilabelCalibrator."
    remedy = f"{scores.logits_remedy} {sigmoids}"
    refuse(totals, xp.abs(totals - 1) > scores.slack, "sum to 1 over classes", remedy, NotProbabilitiesError)


def _refuse_first(
    scores: Scores,
    numbers: Sequence[int] | HostArray,
    values: Array,
    bad: Array,
    must: str,
    remedy: str,
    error: type[InputError] = InputError,
    got: str = "",
) -> None:
    """Raise an error about the first of the ``bad`` values, if there are any; ``numbers`` count the rows."""
    if not bool(namespace(bad).any(bad)):
        return
    where = np.argwhere(arrays.on_host(bad))[0]
    got = got or f"{float(arrays.on_host(values)[tuple(where)]):.6g}"
    column = int(where[1]) if len(where) > 1 else None
    raise error(scores.name, must, got=got, remedy=remedy, row=scores.row(int(numbers[where[0]])), column=column)


# --- scores that nothing is said about -------------------------------------------------------------------------------------

# Fewer rows than these may lie between 0 and 1 by chance; the second number is for one score per row.
_ENOUGH_ROWS, _ENOUGH_FLAT = 5, 20

# Almost all logits have a negative one among the first few, which come fast from another device too.
_FIRST_ROWS = 8

# What files have in place of infinity, which JSON has not.
_FAR = 1e300

FIT_AGAIN = "fit a calibrator with `input='probabilities'`"
"""What to do with probabilities where a calibrator takes logits."""

PERCENTAGES = "Divide percentages by 100."
"""What to do with confidences that do not lie between 0 and 1."""

FITTED_TO_PROBABILITIES = "The calibrator was fitted to probabilities. If these are logits, fit one to logits."
"""What to do with logits where a calibrator takes probabilities."""


@dataclass(frozen=True)
class ScoreRange:
    """The range of the scores of some rows of positive weight; ``+`` pools two sets of rows.

    Nothing more is read after a block with a negative score, which settles that these are logits.

    Attributes
    ----------
    lowest, highest : float
        The range of what was read.
    n_rows : int
        How many rows were read.
    are_floats : bool
        Whether the numbers are stored as floating point.
    sum_to_one : bool
        Whether each row sums to 1, as far as the range leaves it open.
    is_flat : bool
        Whether there is one number per row.
    """

    lowest: float = inf
    highest: float = -inf
    n_rows: int = 0
    are_floats: bool = True
    sum_to_one: bool = True
    is_flat: bool = False

    @classmethod
    def from_scores(cls, scores: Scores, weights: HostArray | None = None) -> "ScoreRange":
        """The range of some scores, or of those of all members; rows of weight zero may hold anything."""
        if scores.unpooled:
            of_all = cls()
            for member in scores.unpooled:
                of_all += cls.from_scores(member, weights)
                if of_all.is_settled:
                    break
            return of_all
        first = cls._of_block(scores, weights, slice(0, min(_FIRST_ROWS, scores.n_samples)))
        if first.is_settled:
            return first
        total = cls(are_floats=first.are_floats, is_flat=first.is_flat)
        for rows in scores.blocks():
            total += cls._of_block(scores, weights, rows)
            if total.is_settled:
                break
        return total

    @classmethod
    def _of_block(cls, scores: Scores, weights: HostArray | None, rows: slice) -> "ScoreRange":
        """The range of some consecutive rows."""
        values, is_flat = arrays.numpy_view(scores.at(rows)), scores.is_binary_score
        if weights is not None and not arrays.are_ones(weights):
            values = arrays.rows_at(values, np.flatnonzero(weights[rows]))
        is_float = arrays.kind(values) == "float"
        if not values.shape[0]:
            return cls(are_floats=is_float, is_flat=is_flat)
        values = arrays.in_single(values) if arrays.is_half(values) else values
        xp = namespace(values)
        lowest, highest = float(xp.min(values)), float(xp.max(values))
        sum_to_one = is_float and not is_flat and lowest >= 0 and highest <= 1 + SLACK
        if sum_to_one:
            sum_to_one = bool(xp.all(xp.abs(arrays.row_sum(arrays.in_double(values)) - 1) <= scores.slack))
        return cls(lowest, highest, int(values.shape[0]), is_float, sum_to_one, is_flat)

    def __add__(self, other: "ScoreRange") -> "ScoreRange":
        return ScoreRange(
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            self.n_rows + other.n_rows,
            self.are_floats and other.are_floats,
            self.sum_to_one and other.sum_to_one,
            self.is_flat or other.is_flat,
        )

    @property
    def numbers(self) -> list[float]:
        """The range as finite numbers, for a file; a mask is -inf."""
        return [min(max(float(getattr(self, name)), -_FAR), _FAR) for name in self.__annotations__]

    @property
    def is_settled(self) -> bool:
        """Whether these are logits, whatever else there is. NaN is refused by those who check values."""
        return self.n_rows > 0 and not self.lowest >= 0

    @property
    def _is_decisive(self) -> bool:
        """Whether there are enough rows, no negative scores, and at least two different scores."""
        enough = self.n_rows >= (_ENOUGH_FLAT if self.is_flat else _ENOUGH_ROWS)
        return enough and 0 <= self.lowest < self.highest and not isinf(self.highest)

    @property
    def is_of_probabilities(self) -> bool:
        """Whether practically nothing but probabilities has this range."""
        return self._is_decisive and self.are_floats and self.highest <= 1 + SLACK

    def check(self, name: str, remedy: str = "", logits_setting: str = "", *, of_labels: bool = False) -> None:
        """Refuse scores that look like probabilities, and warn about others that are unlikely to be logits.

        ``name`` is what the caller calls them. ``remedy`` is what to do where they are outputs of a network, which is then to
        be changed, and ``logits_setting`` how to say that they are logits. ``of_labels`` if each number is the probability of
        a label of its own.
        """
        if self.is_of_probabilities:
            probabilities, logits = setting("input", "probabilities"), setting("input", "logits")
            like = ", as probabilities are" if self.is_flat else ", in rows that sum to 1"
            ways = (
                remedy or f"Pass {probabilities} if these are probabilities, or {logits} if they are scores before the softmax."
            )
            if not (self.is_flat or self.sum_to_one):
                like = ", in rows that do not sum to 1, as after a sigmoid per class"
                if not of_labels and "MultilabelCalibrator" not in ways:
                    ways = f"If several classes can be true at once, use nishimori.multilabel.MultilabelCalibrator. {ways}"
            got = f"numbers from {self.lowest:.3g} to {self.highest:.3g} only{like}"
            raise InputError(name, "be declared as logits or probabilities", got=got, remedy=ways)
        if self._is_decisive and self.highest > 1 + SLACK:
            notice(
                f"All `{name}` lie between {self.lowest:.3g} and {self.highest:.3g}, as ratings and counts do, which are not "
                f"logits: logits are scores before the softmax, and some are negative. If these are logits, say so with "
                f"{logits_setting or setting('input', 'logits')}; they are used as such.",
                InputWarning,
            )

    def warn(self, name: str, remedy: str, *, of_sigmoids: bool = False) -> None:
        """Warn if scores look like probabilities, but the calibrator was not fitted to probabilities.

        Some logits to predict from may lie between 0 and 1; ``of_sigmoids`` if these are all there are, which tell.
        """
        if self.is_of_probabilities and (self.sum_to_one or self.is_flat or of_sigmoids):
            what = f"Each row of `{name}` sums to 1" if self.sum_to_one else f"All `{name}` lie between 0 and 1"
            notice(f"{what}, as probabilities do. If these are probabilities, {remedy}; they are used as logits.", InputWarning)


def warn_of_probabilities(scores: Scores, remedy: str, *, of_sigmoids: bool = False) -> None:
    """Warn if scores to predict from look like probabilities, but the calibrator takes logits; see `ScoreRange`."""
    enough = _ENOUGH_FLAT if scores.is_binary_score else _ENOUGH_ROWS
    if scores.input == "logits" and scores.n_samples >= enough:
        ScoreRange.from_scores(scores).warn(scores.name, remedy, of_sigmoids=of_sigmoids)
