"""Check numbers and words that users pass: a whole number, a temperature, an array of real numbers, one of some words.

Each check returns the number in the type that the library computes with, or the array, or raises an `InputError` that names the
argument.
"""

import os
from collections.abc import Mapping
from functools import partial
from math import inf, isfinite, nan
from typing import Any, TypeVar, get_args

import numpy as np

from nishimori._support import arrays
from nishimori._support.arrays import Array
from nishimori.errors import InputError

# Beyond these, squares of intermediate results leave the range of float64.
_LEAST, _MOST = 1e-30, 1e30

T = TypeVar("T")


def is_whole(value: Any) -> bool:
    """Whether ``value`` is an integer; True and 1.0 are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole(name: str, value: Any, least: int, most: int | None = None, *, which_is: str = "") -> int:
    """``value`` as an int, if it is a whole number from ``least`` to ``most``; ``which_is`` adds an explanation."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most}" + (which_is and f", {which_is}")
        raise InputError(name, f"be a whole number {wanted}", got=repr(value))
    return int(value)


def positive(name: str, value: Any) -> float:
    """``value`` as a float, if it is a positive finite number."""
    number = _real(value)
    if not (isfinite(number) and number > 0):
        raise InputError(name, "be a positive finite number", got=repr(value))
    return between(name, number, _LEAST, _MOST)


def between(name: str, value: Any, low: float, high: float) -> float:
    """``value`` as a float, if it lies between the two, both included."""
    if not low <= _real(value) <= high:
        raise InputError(name, f"lie between {low:g} and {high:g}", got=repr(value))
    return float(value)


def temperature(value: Any, name: str = "temperature") -> float:
    """``value`` as a float, if it and its inverse are finite positive numbers."""
    number = _real(value)
    if not (0 < number < inf and 1 / number < inf):
        raise InputError(name, "be a finite positive number", got=repr(value))
    return number


def _real(value: Any) -> float:
    """A number, or an array of no dimensions, as a float, and anything else, such as the text "1" or True, as NaN."""
    if isinstance(value, str | bytes | bool | np.bool_) or np.ndim(value):
        return nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return nan
    except OverflowError:
        return inf


def one_of(name: str, value: T, words: Any) -> T:
    """``value``, if it is one of the ``words`` of a Literal."""
    if not isinstance(value, str) or value not in get_args(words):
        *others, last = map(repr, get_args(words))
        raise InputError(name, f"be {', '.join(others)} or {last}", got=repr(value))
    return value


# --- arrays of numbers ----------------------------------------------------------------------------------------------------


def numeric(x: Any, name: str) -> Array:
    """``x`` as an array of real numbers; otherwise an error that says what it is."""
    if type(x) is not np.ndarray:  # the commonest case, for which each check would count
        _refuse_no_array(x, name)
    try:
        array = arrays.as_array(x)
    except InputError:
        raise  # of a container that says by itself why it is no array
    except ValueError:
        raise InputError(name, "be a rectangular array of numbers", got="rows of different lengths") from None
    if arrays.dtype_name(array).startswith(("float8_", "float6_", "float4_", "q")):
        raise InputError(
            name, f"not be of type {arrays.dtype_name(array)}, which is too coarse", remedy="Convert it to float32."
        )
    if arrays.kind(array) == "complex":
        raise InputError(
            name, "be real", got=arrays.dtype_name(array), remedy=f"Complex data not supported: pass `{name}.real`."
        )
    if arrays.kind(array) == "other":
        return _from_objects(array, name)
    return array


def _refuse_no_array(x: Any, name: str) -> None:
    refused = partial(InputError, name, "be an array of scores")
    if x is None:
        raise refused("None")
    if isinstance(x, str | os.PathLike):
        raise refused(repr(os.fspath(x)), "If that is a file, load it first.")
    if isinstance(x, list | tuple) and x and all(map(_names_a_file, x)):
        several = "To fit or evaluate several files, update a Sketch with each"
        raise refused("paths of files", f"{several}: `for path in paths: sketch.update(path)`.")
    if isinstance(x, Mapping):
        raise refused(f"a {type(x).__name__} of {list(x)}", "Pass one of its arrays.")
    refuse_hidden(x, name)


def _names_a_file(value: Any) -> bool:
    """Whether ``value`` is a path, or text that ends like the name of a file and is not a number."""
    if isinstance(value, str):
        return bool(os.path.splitext(value)[1]) and not reads_as_number(value)
    return isinstance(value, os.PathLike)


def _from_objects(array: Array, name: str) -> Array:
    if array.dtype == object:
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(name, f"hold numbers, but one could not be read: {error}") from None
    what = "text" if array.dtype.kind in "US" else f"an array of type {arrays.dtype_name(array)}"
    # What a method of somebody's own returns, such as `EntropyScaling.start`, is no array at hand.
    remedy = f"Convert it first, for example with `{name}.astype(float)`." if name.isidentifier() else ""
    raise InputError(name, "hold numbers", got=what, remedy=remedy)


_HIDDEN = {
    "sparse": ("be a dense array", "a sparse one", "Pass `{0}.toarray()` or `{0}.to_dense()`."),
    "without values": ("be a dense array with values", "a nested or a meta tensor", "Pass an ordinary tensor."),
    "masked": ("not hide entries", "a NumPy masked array", "Pass `{0}.filled(value)`."),
}


def refuse_hidden(x: Any, name: str) -> None:
    """Refuse arrays that do not show all their entries: conversion would change their meaning."""
    if hidden := arrays.hidden_entries(x):
        must, got, remedy = _HIDDEN[hidden]
        raise InputError(name, must, got, remedy.format(name))


def reads_as_number(value: Any) -> bool:
    """Whether ``value`` is a finite number, or text that reads as one."""
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):
        return False
