"""What the user calls logits or probabilities, kept as it came.

`Scores` holds the caller's own array. Fitting asks it for blocks of float64 logits, prediction for all logits in the caller's
precision; neither changes the array, and nothing is inferred from its values: whether it holds logits or probabilities is
what the caller said. Its type and shape are checked when it is made, its values when they are read for the first time.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np

from nishimori import _array
from nishimori._array import Array, HostArray, namespace
from nishimori.errors import InputError

Input = Literal["logits", "probabilities"]


@dataclass(frozen=True)
class Scores:
    """Scores of shape (n, k), or (n,) for the positive class of a binary problem; ``name`` is the caller's word for them."""

    array: Array
    input: Input
    name: str = "logits"

    @property
    def is_binary_score(self) -> bool:
        """Whether one number per row stands for two classes: z for the logits (0, z), p for (1 - p, p)."""
        return len(self.array.shape) == 1

    @property
    def n_samples(self) -> int:
        return int(self.array.shape[0])

    @property
    def n_classes(self) -> int:
        return 2 if self.is_binary_score else int(self.array.shape[1])

    def blocks(self) -> Iterator[slice]:
        """Consecutive rows, as many at a time as suit the device."""
        step = _array.rows_per_block(self.array, self.n_classes)
        return (slice(start, min(start + step, self.n_samples)) for start in range(0, self.n_samples, step))

    def exact(self, rows: slice, kept: HostArray | None = None) -> Array:
        """Some rows in float64, not yet checked; of those only the ``kept`` ones, if given."""
        stored = self.array[rows, ...]
        return _array.in_double(stored if kept is None else _array.rows_at(stored, kept))

    def check(self, values: Array, numbers: Sequence[int] | HostArray) -> bool:
        """Refuse values that cannot be scores; ``numbers`` count the rows. True if some class is masked."""
        if self.input == "logits":
            return _check_logits(self, values, numbers)
        _check_probabilities(self, values, numbers)
        return False

    def as_logits(self, values: Array) -> tuple[Array, Array | None]:
        """Logits (n, k) of checked values, and the probabilities they are the logarithms of, if those were given."""
        table = self._table(values)
        return self._logits(table), table if self.input == "probabilities" else None

    def logits(self, first_row: int = 0) -> Array:
        """All logits (n, k), checked, in the precision that results are computed in; rows are counted from ``first_row``."""
        for rows in self.blocks():
            self.check(self.exact(rows), range(first_row + rows.start, first_row + rows.stop))
        return self._logits(self._table(_array.to_compute(self.array)))

    def sample(self, index: HostArray) -> "Scores":
        """The rows whose numbers are in ``index``."""
        return replace(self, array=_array.rows_at(self.array, index))

    def _logits(self, values: Array) -> Array:
        if self.input == "logits":
            return values
        xp = namespace(values)
        # Only an exact zero is raised, to the least its own dtype can hold: a larger floor would move T.
        floor = _array.smallest_normal(self.array) if _array.kind(self.array) == "float" else _DOUBLE_FLOOR
        return xp.log(xp.where(values > 0, values, xp.full_like(values, floor)))

    def _table(self, values: Array) -> Array:
        """One column per class, where one number stands for two."""
        if not self.is_binary_score:
            return values
        xp = namespace(values)
        other = xp.zeros_like(values) if self.input == "logits" else 1 - values
        return xp.stack([other, values], axis=1)


# The cubes of larger logits overflow float64. Real ones are far smaller; masks are -inf or, often, the lowest float32.
_LARGEST = 1e100

_DOUBLE_FLOOR = float(np.finfo(np.float64).smallest_normal)


def scores(x: Any, *, input: Input = "logits", name: str = "logits") -> Scores:
    """Check type and shape of what the user passed as ``name``."""
    return scores_of(numeric(x, name), input=input, name=name)


def scores_of(array: Array, *, input: Input, name: str) -> Scores:
    """The same for what is known to be an array of numbers."""
    check_input(input)
    _check_shape(array.shape, name)
    return Scores(array, input, name)


def check_input(input: Any) -> None:
    """Refuse any other word."""
    if input not in get_args(Input):
        raise InputError(f"`input` must be 'logits' or 'probabilities', got {input!r}.")


def numeric(x: Any, name: str) -> Array:
    """``x`` as an array of real numbers, or an error that says what else it is."""
    if type(x) is not np.ndarray:  # the commonest case, for which each check would count
        _refuse_no_array(x, name)
    try:
        array = _array.as_array(x)
    except ValueError:
        raise InputError(f"`{name}` must be a rectangular array of numbers, got rows of different lengths.") from None
    if _array.kind(array) == "complex":
        raise InputError(
            f"`{name}` must be real, got {_array.dtype_name(array)}. Complex data not supported: pass `{name}.real`."
        )
    if _array.kind(array) == "other":
        return _from_objects(array, name)
    return array


def _refuse_no_array(x: Any, name: str) -> None:
    if x is None:
        raise InputError(f"`{name}` must be an array of scores, got None.")
    if isinstance(x, str | os.PathLike):
        raise InputError(f"`{name}` must be an array of scores, got {os.fspath(x)!r}. If that is a file, load it first.")
    if isinstance(x, Mapping):
        raise InputError(f"`{name}` must be an array of scores, got a {type(x).__name__} of {list(x)}. Pass one of its arrays.")
    refuse_hidden(x, name)


def _from_objects(array: Array, name: str) -> Array:
    if array.dtype == object:
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"`{name}` must hold numbers, but one could not be read: {error}.") from None
    what = "text" if array.dtype.kind in "US" else f"an array of type {_array.dtype_name(array)}"
    raise InputError(f"`{name}` must hold numbers, got {what}. Convert it first, for example with `{name}.astype(float)`.")


def refuse_hidden(x: Any, name: str) -> None:
    """Refuse arrays that do not show all their entries: conversion would change their meaning."""
    if _array.is_sparse(x):
        raise InputError(f"`{name}` must be a dense array, got a sparse one. Pass `{name}.toarray()` or `{name}.to_dense()`.")
    if _array.has_hidden_entries(x):
        raise InputError(f"`{name}` must not hide entries, got a NumPy masked array. Pass `{name}.filled(value)`.")


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    wanted = f"`{name}` must have shape (n_samples, n_classes), or (n_samples,) for a binary score"
    if len(shape) not in (1, 2):
        remedy = (
            f"Put the classes last and flatten the rest: `{name}.reshape(-1, n_classes)`."
            if len(shape) > 2
            else f"Reshape your data: for one sample pass `[{name}]`."
        )
        raise InputError(f"{wanted}, got shape {tuple(shape)}. {remedy}")
    if shape[0] == 0:
        raise InputError(f"{wanted}, got 0 sample(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
    if len(shape) == 2 and shape[1] < 2:
        remedy = f" If it is the score of the positive class, pass it as `{name}[:, 0]`." if shape[1] else ""
        raise InputError(
            f"{wanted}, one column per class, got {shape[1]} feature(s) (shape={tuple(shape)}) while a minimum of 2 is "
            f"required.{remedy}"
        )


def _check_logits(scores: Scores, values: Array, numbers: Sequence[int] | HostArray) -> bool:
    """Refuse NaN, +inf and rows without a class; whether -inf masks some class."""
    xp, name = namespace(values), scores.name
    usual = xp.abs(values) <= _LARGEST  # not true of NaN
    if bool(xp.all(usual)):
        return False
    masked = values == -inf
    bad = ~(usual | masked)
    if bool(xp.any(bad & xp.isfinite(values))):
        raise InputError(
            f"`{name}` must lie between -{_LARGEST:g} and {_LARGEST:g}, got {_first(values, bad, numbers)}. "
            "Pass -inf to mask a class."
        )
    if bool(xp.any(bad)):
        raise InputError(
            f"`{name}` must not contain NaN or +inf, got {_first(values, bad, numbers)}. "
            "Drop those rows or find where the model produced them; -inf is allowed and masks a class."
        )
    if scores.is_binary_score:
        raise InputError(
            f"`{name}` must be finite where one score stands for two classes, got {_first(values, masked, numbers)}. "
            "Clip the scores, or pass two columns."
        )
    empty = xp.all(masked, axis=1)
    if bool(xp.any(empty)):
        row = numbers[int(np.argmax(_array.on_host(empty)))]
        raise InputError(
            f"`{name}` must leave each sample at least one class, got only -inf in row {row}. Unmask its classes or drop it."
        )
    return True


def _check_probabilities(scores: Scores, values: Array, numbers: Sequence[int] | HostArray) -> None:
    """Refuse rows that are not distributions."""
    xp, name = namespace(values), scores.name
    outside = ~((values >= 0) & (values <= 1 + 1e-3))  # also true of NaN
    remedy = "If these are logits, pass `input='logits'`."
    if bool(xp.any(outside)):
        raise InputError(f"`{name}` must be between 0 and 1, got {_first(values, outside, numbers)}. {remedy}")
    if scores.is_binary_score:
        if bool(xp.any(values > 1)):
            raise InputError(f"`{name}` must be between 0 and 1, got {_first(values, values > 1, numbers)}. {remedy}")
        return
    totals = xp.sum(values, axis=1)
    # Rounding each of many entries to 16 bits moves a sum by a few units of that precision; float32 moves it far less.
    slack = max(1e-3, 4 * _array.epsilon(scores.array)) if _array.kind(scores.array) == "float" else 1e-3
    off = xp.abs(totals - 1) > slack
    if bool(xp.any(off)):
        row = int(np.argmax(_array.on_host(off)))
        raise InputError(f"`{name}` must sum to 1 over classes, got {float(totals[row]):.6g} in row {numbers[row]}. {remedy}")


def _first(values: Array, bad: Array, numbers: Sequence[int] | HostArray) -> str:
    """The first offending entry, in words."""
    where = np.argwhere(_array.on_host(bad))[0]
    value = float(_array.on_host(values)[tuple(where)])
    column = f", column {where[1]}" if len(where) > 1 else ""
    return f"{value:.6g} in row {numbers[where[0]]}{column}"
