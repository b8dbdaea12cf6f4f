"""True classes, sample weights, clusters and groups, as NumPy integers and floats, and labels to ignore.

Labels take little memory compared with logits, so they stay on the host and each block of rows is moved to its device.

`Labelling` says which label belongs to which row, and which rows do not count. Language models have a label per token. Some
tokens have none, such as padding and prompts, and hold a label that stands for that. The labels of a causal model are often its
own input, so that the label of a position is found at the next one. Neither needs a copy of the logits: rows that do not count
get weight zero, and only the labels move.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from math import isnan
from typing import Any

import numpy as np

from nishimori._rows.scores import Scores
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import enumeration
from nishimori._support.numbers import is_whole, reads_as_number, refuse_hidden
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, NoRowsError, setting

Classes = Sequence[Any] | HostArray | None

RowIndex = Callable[[int], int | tuple[int, ...]]
"""The index of a row among all rows, for messages: `int`, its number, or its position where rows have several dimensions."""

# Fewer clusters give a standard error that is much too small; from the second number on, 95 % intervals of T cover 94 %
# (bench/results/cluster_coverage.md).
_FEW_CLUSTERS, _ENOUGH_CLUSTERS = 10, 40

# What estimators call labels. Theirs are spelled as classes are, because predictions are compared with them.
_ESTIMATOR_LABELS = "y"

# What `claims` call theirs.
OUTCOMES = "right"

# The texts that tables write for the second and the first of two classes; people also write the others for outcomes.
_TRUTHS = {"true": 1, "false": 0}
_OUTCOME_WORDS = _TRUTHS | {"yes": 1, "no": 0}

_WHAT_OUTCOMES_ARE = "be 0 or 1, true or false, or yes or no"
_OTHER_OUTCOMES = "Write 1 for a right answer and 0 for a wrong one. Drop answers that are neither."

# A table of this many places costs less than sorting, however few samples there are.
_FEW_VALUES = 1000

# Labels that are longer numbers are text.
_LONGEST = 1e15

# Differences of smaller whole numbers are whole numbers of 64 bits.
_WITHIN_INT64 = 2**62


class NotAClassError(InputError):
    """A label is not among the classes that were named."""


def class_labels(classes: Classes, n_classes: int | None = None) -> HostArray:
    """The label of each column: ``classes`` if given, else 0, 1, ...; their number is checked if it is known."""
    if classes is None:
        assert n_classes is not None
        return np.arange(n_classes)
    is_list = hasattr(classes, "__len__") and hasattr(classes, "__getitem__") and not isinstance(classes, str | bytes | Mapping)
    try:
        values = as_given(classes).tolist() if is_list else None
    except ValueError:  # lists of different lengths
        values = None
    if not isinstance(values, list) or any(isinstance(value, list | tuple | set | Mapping) for value in values):
        got = "a nested one" if is_list else f"the {type(classes).__name__} {classes!r:.60}"
        raise InputError("classes", "be a flat list with the label of each column in order", got=got)
    if n_classes is not None and len(values) != n_classes:
        raise InputError("classes", f"name {n_classes} classes, one per column in order", got=len(values))
    if len(values) < 2:
        raise InputError("classes", "name at least 2 classes", got=len(values))
    if len(set(values)) != len(values):
        twice = next(value for i, value in enumerate(values) if value in values[:i])
        raise InputError("classes", "name each class once", got=f"{twice!r} more than once")
    one_type = len({type(value) for value in values}) == 1
    return np.asarray(values) if one_type else np.array(values, dtype=object)


def two_classes(y: Any) -> list[Any] | None:
    """The two classes of labels that are two distinct texts (sorted), or -1 and 1; None for other labels."""
    if isinstance(y, str) or not hasattr(y, "__len__") or arrays.is_lazy(y):
        return None
    try:
        values = np.asarray(y)
    except (ValueError, TypeError):  # lists of different lengths, and what is on a device
        return None
    if values.dtype.kind in "if" and len(values) and values.min() == -1 and values.max() == 1:
        return [-1, 1] if are_signs(values, 2) else None
    labels = set(values.ravel().tolist()) if values.dtype.kind in "OUT" else set()
    if len(labels) != 2 or not all(isinstance(label, str) for label in labels) or all(map(reads_as_number, labels)):
        return None
    return sorted(labels)


def class_indices(y: Any, classes: Classes, scores: Scores, name: str, weights: HostArray, first_row: int = 0) -> HostArray:
    """The column of each sample's true class, as int64; samples of weight zero may have any label, and get column 0.

    Errors count rows from ``first_row``.
    """
    labels = flat_labels(y, scores, name)
    if arrays.are_ones(weights) or weights.all():
        return _columns(labels, classes, scores, name, range(first_row, first_row + len(labels)))
    (kept,) = np.nonzero(weights)
    columns = np.zeros(len(labels), dtype=np.int64)
    columns[kept] = _columns(labels[kept], classes, scores, name, first_row + kept)
    return columns


def _columns(labels: HostArray, classes: Classes, scores: Scores, name: str, rows: Sequence[int] | HostArray) -> HostArray:
    """The column of each label; ``rows`` are the labels' row numbers."""
    if classes is not None:
        return _positions(labels, class_labels(classes, scores.n_classes), name, rows, scores)
    try:
        return _numbered(labels, scores, name, rows)
    except InputError as error:
        if name != OUTCOMES:
            raise
        raise error.changed(must=_WHAT_OUTCOMES_ARE, remedy=_OTHER_OUTCOMES) from None


def _numbered(labels: HostArray, scores: Scores, name: str, rows: Sequence[int] | HostArray) -> HostArray:
    """The column of each label that is a number, or one of the words for numbers."""
    if scores.n_classes == 2:
        labels = _numbers_for_words(labels, _OUTCOME_WORDS if name == OUTCOMES else _TRUTHS)
    labels = _whole(labels, name, scores.n_classes, lambda place: scores.row(int(rows[place])))
    if len(labels) and (labels.min() < 0 or labels.max() >= scores.n_classes):
        first = int(np.argmax((labels < 0) | (labels >= scores.n_classes)))
        remedy = _remedy(labels, labels[first], scores.n_classes)
        must, row = f"be from 0 to {scores.n_classes - 1}", scores.row(int(rows[first]))
        raise InputError(name, must, got=f"{labels[first]:.6g}", remedy=remedy, row=row)
    return labels.astype(np.int64, copy=False)


# What masks of images often have where nothing is labelled: the largest number of eight bits.
_MASK = 255


def _remedy(labels: HostArray, label: Any, n_classes: int) -> str:
    """What to do about integer labels that are not column numbers; ``label`` is the first one."""
    if labels.min() == 1 and labels.max() == n_classes:
        return "Labels start at 0: subtract 1."
    if are_signs(labels, n_classes):
        return f"For the labels -1 and 1 pass {setting('classes', [-1, 1])}."
    if label == _MASK:
        return f"If it marks samples to leave out, as in masks of images, pass {setting('ignore_index', _MASK)}."
    if label >= 0:
        return "Check that every class has its column."
    leave_out = f"To leave out all samples with this label, pass {setting('ignore_index', int(label))}."
    may_be_class = label == -1 and (len(np.unique(labels)) == n_classes or (labels == -1).all())
    return f"If it is a class, number the classes from 0. {leave_out}" if may_be_class else leave_out


def are_signs(labels: HostArray, n_classes: int) -> bool:
    """Whether there are two classes and the labels are -1 and 1."""
    return n_classes == 2 and bool((abs(labels) == 1).all()) and -1 in labels and 1 in labels


def _numbers_for_words(labels: HostArray, words: Mapping[str, int]) -> Any:
    """Replace ``words``, in any case, by their numbers; without such words the labels stay as they are."""
    if arrays.kind(labels) != "other":
        return labels
    numbers = [words.get(str(label).strip().lower()) for label in labels.tolist()]
    if all(number is None for number in numbers):
        return labels
    spelled = labels.astype(object)
    for place, number in enumerate(numbers):
        spelled[place] = spelled[place] if number is None else number
    return spell_as_classes(spelled, None)


def _whole(labels: HostArray, name: str, n_classes: int, row: RowIndex) -> HostArray:
    """Labels as whole numbers; whether they are column numbers is not checked."""
    refused = partial(InputError, name, f"be integers from 0 to {n_classes - 1}")
    if labels.dtype == object and all(_is_number(value) for value in labels.tolist()):
        try:
            labels = labels.astype(np.float64)  # a column of a data frame, say
        except OverflowError:
            raise refused(got="a whole number too large for any class") from None
    if arrays.kind(labels) in ("other", "complex"):
        unread = next((i for i, value in enumerate(labels.tolist()) if not reads_as_number(value)), 0)
        remedy = f"For other labels pass the label of each column in order as {setting('classes')}."
        if _is_missing(labels.tolist()[unread]):
            remedy = "A label is missing. Drop such samples."
        raise refused(got=repr(labels.tolist()[unread]), remedy=remedy, row=row(unread))
    broken = ~((labels == np.floor(labels)) & np.isfinite(labels)) if arrays.kind(labels) == "float" else np.array(False)
    if not broken.any():
        return labels
    first = int(np.argmax(broken))
    if np.isfinite(labels[first]):
        got = f"{labels[first]:.6g}: labels are classes, not continuous values"
        raise refused(got=got, remedy="Check that scores and labels are not swapped.")
    remedy = "Correct the label, or drop such samples."  # one is infinite if a file of text has a number of 400 digits
    raise refused(got=str(labels[first]), remedy=remedy, row=row(first))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)


def _is_missing(value: Any) -> bool:
    return value is None or (not value.strip() if isinstance(value, str) else isinstance(value, float) and isnan(value))


def flat_labels(y: Any, scores: Scores, name: str) -> HostArray:
    """One label per row of the scores, on the host; their values are not checked."""
    if y is None:
        # scikit-learn's checks want these words of an estimator.
        wanted = "this requires y to be passed, but the target y is None" if name == "y" else "pass it"
        raise InputError(name, "be the true class of each sample", got=f"None: {wanted}")
    refuse_hidden(y, name)
    try:
        labels = as_given(y)
    except ValueError:
        raise InputError(name, "be a flat list of labels", got="rows of different lengths") from None
    if labels.shape in ((scores.n_samples,), scores.leading or (scores.n_samples,)):
        return labels.reshape(-1)
    shape = scores.leading or (scores.n_samples,)
    why, remedy = _other_shape(labels, scores, name)
    raise InputError(name, f"be one label per sample, shape {shape}", got=f"shape {labels.shape}{why}", remedy=remedy)


def _other_shape(labels: HostArray, scores: Scores, name: str) -> tuple[str, str]:
    """For labels of a wrong shape: what they look like, and what to do."""
    why = remedy = ""
    if scores.leading:
        remedy = f"Pass one label per position of `{scores.name}`, whose last dimension is that of the classes."
        if labels.shape == (*scores.leading[:1], *scores.leading[2:], scores.n_classes):
            remedy = f"If dimension 1 of `{scores.name}` holds the classes, pass {setting('class_axis', 1)}."
            if name == _ESTIMATOR_LABELS:
                moved = f"pass `{scores.name}` with its dimension 1 moved to the end, as `movedim(1, -1)` does"
                remedy = f"Put the classes last: {moved}."
    elif not labels.ndim:
        remedy = "This is a single label: pass samples in batches, with one label for each."
    elif labels.size == scores.n_samples:
        remedy = f"Pass `{name}.ravel()`."
    elif labels.ndim == 2 and scores.is_binary_score:
        remedy = "Swap the two arguments: scores come first."
    elif labels.ndim == 2 and labels.shape[1] == scores.n_classes:
        remedy = "Pass the true class of each sample."
        if labels.dtype.kind in "biuf" and ((labels == 0) | (labels == 1)).all():
            why, remedy = ", which looks one-hot", f"Pass `{name}.argmax(axis=1)`."
            if (labels.sum(axis=1) != 1).any():
                why = ", with several true classes, or none, in some rows"
                remedy = "For labels that do not exclude each other use nishimori.multilabel, in Python."
    return why, remedy


def as_given(values: Any) -> HostArray:
    """On the host; a list of mixed types stays one, where NumPy would turn its numbers into text."""
    host: HostArray = arrays.on_host(arrays.as_array(values))
    if host.ndim == 1 and host.dtype.kind == "U" and not arrays.is_array(values):
        kept = np.empty(len(host), dtype=object)
        kept[:] = list(values)
        return kept
    return host


def _positions(labels: HostArray, classes: HostArray, name: str, rows: Sequence[int] | HostArray, scores: Scores) -> HostArray:
    if name != _ESTIMATOR_LABELS and (numbers := class_numbers(labels, classes.tolist())) is not None:
        return numbers
    column = {value: i for i, value in enumerate(classes.tolist())}
    indices = np.array([column.get(value, -1) for value in labels.tolist()], dtype=np.int64)
    if (indices < 0).any():
        first = int(np.argmax(indices < 0))
        unlisted = labels[indices < 0].tolist()
        names = list(dict.fromkeys(map(repr, unlisted)))
        got = enumeration([*names[:3], f"{len(names) - 3:,} more"] if len(names) > 3 else names)
        got += f" in {len(unlisted):,} samples, the first" if len(unlisted) > 1 else ""
        add = "Add it to {} if it has a column" if len(names) == 1 else "Add them to {} if they have columns"
        remedy = f"{add.format(setting('classes'))}, or drop those samples."
        if _is_missing(unlisted[0]):
            remedy = "A label is missing. Drop such samples."
        row = scores.row(int(rows[first]))
        raise NotAClassError(name, f"be among {setting('classes')}", got=got, remedy=remedy, row=row)
    return indices


def class_numbers(labels: HostArray, classes: Sequence[Any]) -> HostArray | None:
    """Labels as column numbers, if classes have names but all labels are numbers of classes; None otherwise.

    No label can then be meant as a name, since no name reads as a number.
    """
    if any(not isinstance(label, str) or reads_as_number(label) for label in classes):
        return None
    if labels.dtype == object and all(_is_number(value) and not isinstance(value, bool) for value in labels.tolist()):
        labels = labels.astype(np.float64)
    if labels.dtype.kind not in "iuf" or not ((labels == np.floor(labels)) & (labels >= 0) & (labels < len(classes))).all():
        return None
    numbers: HostArray = labels.astype(np.int64)
    return numbers


def checked_weights(sample_weight: Any, n_samples: int, row: RowIndex = int) -> HostArray:
    """One float64 weight per sample; ones if none were given. ``row`` is the index of a sample in messages."""
    if sample_weight is None:
        return arrays.ones(n_samples)
    weights = numeric_weights(sample_weight)
    if weights.shape != (n_samples,):
        raise InputError("sample_weight", f"have shape ({n_samples},), one weight per sample", got=weights.shape)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        remedy = "A weight counts copies of a sample: give 0 to samples that must not count."
        must, got = "be finite and not negative", f"{weights[first]:.6g}"
        raise InputError("sample_weight", must, got=got, remedy=remedy, row=row(first))
    if not weights.any():
        raise NoRowsError("sample_weight", "be positive for some sample", got="only zeros")
    if not 1e-60 < weights.max() < 1e60:  # so that fourth powers stay in the range of float64
        must, remedy = "lie between 1e-60 and 1e60", "Divide all weights by their mean."
        raise InputError("The largest `sample_weight`", must, got=f"{weights.max():.6g}", remedy=remedy)
    return weights


def numeric_weights(sample_weight: Any) -> HostArray:
    """Weights as float64 on the host; neither their number nor their values are checked."""
    refuse_hidden(sample_weight, "sample_weight")
    try:
        weights: HostArray = arrays.on_host(arrays.as_array(sample_weight))
        if arrays.kind(weights) == "complex":
            raise InputError("sample_weight", "be real", got="complex numbers")
        return weights.astype(np.float64)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("sample_weight", f"hold one number per sample, but one could not be read: {error}") from None


def spell_as_classes(labels: HostArray, classes: Sequence[Any] | None, ignored: int | None = None) -> Any:
    """Labels from a file as numbers, or in the spelling of ``classes`` if there are any: 3.0 in a file is the class "3".

    Where classes have names and all labels are numbers of classes, they become these names. ``ignored`` may be among them.
    """
    if labels.ndim != 1:
        return labels  # refused later, with its shape
    if classes is None:
        with suppress(TypeError, ValueError):  # a text that is no number, which an error will name
            return labels.astype(np.float64) if labels.dtype.kind in "UO" else labels
        return labels
    kept = set() if ignored is None else {str(ignored)}
    names = [str(label) for label in classes]
    values = labels.tolist()
    different = set(values)
    spelling = {value: _spelling(value, {*names, *kept}) for value in different}
    if not any(map(reads_as_number, names)):
        by_number = dict(zip(map(str, range(len(names))), names, strict=True)) | {name: name for name in kept}
        numbers = {value: _spelling(value, set(by_number)) for value in different}
        if set(numbers.values()) <= set(by_number):
            spelling = {value: by_number[text] for value, text in numbers.items()}
    return [spelling[value] for value in values]


def _spelling(value: Any, spellings: set[str]) -> str:
    """The class that a label stands for, or the label as text. Only a whole number may lose its decimals."""
    text = str(value)
    # The limit keeps a short text such as 1e999999999 from becoming a long number.
    if text in spellings or not reads_as_number(text) or abs(float(text)) > _LONGEST:
        return text
    number = Decimal(text)
    whole = str(int(number)) if number == number.to_integral_value() else text
    return whole if whole in spellings else text


def encode_values(
    values: Any, n_samples: int, what: str, row: RowIndex = int, kept: HostArray | None = None
) -> tuple[HostArray, HostArray]:
    """The distinct values of samples, in order, and the index of each sample's value.

    ``what`` is what a value is called; the caller's argument is its plural. Only the ``kept`` samples are looked at, if given.
    """
    name = f"{what}s"
    refuse_name(values, what)
    refuse_hidden(values, name)
    try:
        array: HostArray = as_given(values)
    except ValueError:
        raise InputError(name, "be a flat list", got="rows of different lengths") from None
    if array.shape != (n_samples,):
        raise InputError(name, f"have shape ({n_samples},), one {what} per sample", got=array.shape)
    if kept is not None and len(kept) < n_samples:
        array, every = array[kept], row
        row = lambda place: every(int(kept[place]))  # noqa: E731 - the name of the place among all samples
    if array.dtype.kind in "iu" and (encoded := _encode_whole(array)) is not None:
        return encoded
    is_mixed = array.dtype == object
    missing = np.array([is_absent(value) for value in array.tolist()]) if is_mixed else array != array  # noqa: PLR0124 - NaN
    if missing.any():
        first = int(np.argmax(missing))
        got = "None" if array[first] is None else "NaN"
        raise InputError(name, "not be missing", got=got, remedy=f"Give that row its {what}.", row=row(first))
    try:
        different, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise InputError(name, "hold values of one type, such as numbers or text") from None
    return different, codes


def _encode_whole(values: HostArray) -> tuple[HostArray, HostArray] | None:
    """`numpy.unique` with inverse for whole numbers, without sorting; None if they lie too far apart for a table."""
    if not len(values):
        return None
    low, high = int(values.min()), int(values.max())
    if high - low >= max(len(values), _FEW_VALUES) or max(-low, high) >= _WITHIN_INT64:
        return None
    places = values.astype(np.int64)
    places -= low
    present = np.bincount(places) > 0
    (distinct,) = np.nonzero(present)
    codes = places if len(distinct) == len(present) else (np.cumsum(present) - 1)[places]
    return (distinct + low).astype(values.dtype), codes


def refuse_name(values: Any, what: str) -> None:
    """Refuse the name of a column where only arrays are allowed."""
    if isinstance(values, str):
        column = f"pass the column itself, such as `frame[{values!r}]`, and the scores without it"
        remedy = f"Names of columns are for files; for a data frame, {column}."
        raise InputError(f"{what}s", f"be the {what} of each sample", got=f"the text {values!r}", remedy=remedy)


def is_absent(value: Any) -> bool:
    """Whether the value is None, NaN, or a missing value of pandas."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 - NaN, of any type
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return True


def group_text(name: Any) -> str:
    """The name of a group as text; whole numbers are written without decimals."""
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def group_names(values: Sequence[Any]) -> tuple[Any, ...]:
    """Names of groups from a file: as whole numbers if every name is written like one, else as they are.

    So 7 of a Parquet file, 7.0 and the text 7 of a CSV file are the same group, while the text 007 stays text.
    """
    texts = [group_text(value) for value in values]
    try:
        whole = [int(text) for text in texts]
    except ValueError:
        return tuple(values)
    return tuple(whole) if [str(number) for number in whole] == texts else tuple(values)


def check_number_of_clusters(number: int, *, are_images: bool = False) -> None:
    """Refuse a single cluster, and warn about few: a standard error is computed from the differences between clusters.

    ``are_images`` if the clusters are those that pixels have where no others are named.
    """
    what = "image" if are_images else "cluster"
    if number < 2:
        got = f"one: a standard error is computed from the spread between {what}s"
        if are_images:
            more = f"Use several images, or pass {setting('clusters')} if you know which pixels belong together"
            remedy = (
                f"{more}. With {setting('clusters', False)} pixels count as independent, and standard errors are too small."
            )
            raise InputError("clusters", "be at least two images", got=got, remedy=remedy)
        raise InputError("clusters", "name at least two clusters", got=got, remedy="Leave it out if samples are independent.")
    if number < _FEW_CLUSTERS:
        notice(
            f"Standard errors from {number} {what}s are too small on average and unreliable. Use at least {_ENOUGH_CLUSTERS}.",
            InputWarning,
        )


# --- labels to ignore, and labels that are one position late ---------------------------------------------------------------


@dataclass(frozen=True)
class Labelling:
    """How labels are read. Rows with the label ``ignore_index`` do not count.

    With ``shift_labels``, the label of each position of a sequence is that of the next position, and the last one has none.
    """

    ignore_index: int | None = None
    shift_labels: bool = False

    def __post_init__(self) -> None:
        if self.ignore_index is not None and not is_whole(self.ignore_index):
            raise InputError("ignore_index", "be a whole number, such as -100", got=repr(self.ignore_index))
        if not isinstance(self.shift_labels, bool | np.bool_):
            raise InputError("shift_labels", "be True or False", got=repr(self.shift_labels))

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to do."""
        return self.ignore_index is None and not self.shift_labels

    def apply(self, labels: Any, sample_weight: Any, scores: Scores, name: str) -> tuple[Any, Any]:
        """Labels and weights, one per row of ``scores``. Rows that do not count get weight zero. ``name`` is theirs."""
        weights = scores.per_row(sample_weight, "sample_weight")
        if self.is_plain:
            return labels, weights
        flat = flat_labels(labels, scores, name)
        if self.shift_labels and len(scores.leading) < 2:
            must = "have shape (n_sequences, n_tokens, n_classes) where `shift_labels` is True"
            raise InputError(scores.name, must, got=f"{tuple(scores.array.shape)}: it is not known where a sequence ends")
        flat, counted = self.counted_labels(flat, scores.leading)
        if weights is None or not counted.any():
            return flat, None if counted.all() else counted.astype(np.float64)
        numbers = numeric_weights(weights)
        if numbers.shape != flat.shape:
            return flat, numbers  # refused later, as other values are
        return flat, np.where(counted, numbers, 0.0)  # weights of rows that do not count may be missing

    def counted_labels(self, flat: HostArray, leading: tuple[int, ...]) -> tuple[HostArray, HostArray]:
        """The label of each row, and which rows count. ``leading`` is the shape of the labels before flattening."""
        counted = np.ones(len(flat), dtype=bool)
        if self.shift_labels:
            length = leading[-1]
            flat, counted = np.roll(flat, -1), np.arange(len(flat)) % length < length - 1
        if self.ignore_index is not None:
            counted &= differ(flat, self.ignore_index)
        return flat, counted

    def refuse_no_rows(self, weights: HostArray | None, name: str, labels: Any = None) -> None:
        """Raise if no row is left to count; ``labels`` show whether the weights are the cause."""
        error = self.no_rows_error(name)
        if error is None or weights is None or weights.any():
            return
        if self.ignore_index is not None and labels is not None and differ(labels, self.ignore_index).any():
            raise NoRowsError(
                "sample_weight", f"be positive for some sample whose label is not {setting('ignore_index')}", got="only zeros"
            )
        raise error

    def no_rows_error(self, name: str) -> NoRowsError | None:
        """The error if no row is left to count; None if the labels cannot be the cause."""
        if self.is_plain:
            return None
        what = "only labels that do not count" if self.shift_labels else f"only {self.ignore_index}"
        return NoRowsError(name, f"hold at least one label that is not {setting('ignore_index')}", got=what)


def differ(labels: HostArray, ignored: int) -> HostArray:
    """Which labels are not the ignored one; text is compared with the number as text."""
    if labels.dtype.kind not in "OU":
        counted: HostArray = np.asarray(labels != ignored)
        return counted
    return np.array([value != ignored and value != str(ignored) for value in labels.tolist()], dtype=bool)


PLAIN = Labelling()
"""All rows count, and each has its own label."""
