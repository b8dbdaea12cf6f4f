"""What the user passed, as an array of real numbers of a shape that scores can have, or an error that says what else it is."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from nishimori._support import arrays
from nishimori._support.arrays import Array
from nishimori.errors import InputError, NoRowsError


def numeric(x: Any, name: str) -> Array:
    """``x`` as an array of real numbers, or an error that says what else it is."""
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
    if x is None:
        raise InputError(name, "be an array of scores", got="None")
    if isinstance(x, str | os.PathLike):
        raise InputError(name, "be an array of scores", got=repr(os.fspath(x)), remedy="If that is a file, load it first.")
    if isinstance(x, Mapping):
        raise InputError(
            name, "be an array of scores", got=f"a {type(x).__name__} of {list(x)}", remedy="Pass one of its arrays."
        )
    refuse_hidden(x, name)


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


def refuse_hidden(x: Any, name: str) -> None:
    """Refuse arrays that do not show all their entries: conversion would change their meaning."""
    if arrays.is_sparse(x):
        raise InputError(
            name, "be a dense array", got="a sparse one", remedy=f"Pass `{name}.toarray()` or `{name}.to_dense()`."
        )
    if arrays.is_without_values(x):
        raise InputError(
            name, "be a dense array with values", got="a nested or a meta tensor", remedy="Pass an ordinary tensor."
        )
    if arrays.has_hidden_entries(x):
        raise InputError(name, "not hide entries", got="a NumPy masked array", remedy=f"Pass `{name}.filled(value)`.")


def check_shape(shape: tuple[int, ...], name: str) -> None:
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
        raise InputError(
            name,
            f"{must}, one column per class",
            got=f"{shape[-1]} feature(s) (shape={tuple(shape)}) while a minimum of 2 is required",
            remedy=f"If it is the score of the positive class, pass it as `{column}`." if shape[-1] else "",
        )


def reads_as_number(value: Any) -> bool:
    """Whether ``value`` is a finite number, or text that reads as one."""
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):
        return False
