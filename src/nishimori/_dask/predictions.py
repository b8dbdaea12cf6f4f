"""Lazy predictions for Dask arrays, in the same chunks of rows and computed where the chunks are."""

from collections.abc import Callable
from functools import partial
from math import isnan
from typing import Any

import numpy as np

from nishimori._dask.chunks import Cut, align_chunks
from nishimori._dask.tasks import chunk_name
from nishimori._methods.fitted_method import refuse_members
from nishimori._support.arrays import HostArray
from nishimori._support.warnings import collect_notices
from nishimori.errors import InputError


def lazily(calibrator: Any, method: str, X: Any, groups: Any) -> Any:
    """The lazy result of a calibrator's method for a Dask array."""
    refuse_members(calibrator, "arrays of Dask")
    if isnan(X.shape[-1]) and X.ndim > 1:
        raise InputError("X", "have a known number of classes", remedy="Call `X.compute_chunk_sizes()` first.")
    cut = Cut(X, {} if groups is None else {"groups": align_chunks(groups, Cut(X, {}), "groups", "X")})
    like = _of_one_row(calibrator, method, X, has_groups=groups is not None)
    axes, column = tuple(range(len(cut.leading))), X.ndim
    out, new_axes = (axes, {}) if like.ndim == 1 else ((*axes, column), {column: like.shape[1]})
    predict = partial(_predict, getattr(calibrator, method), like[:0])
    return cut.blockwise(predict, out, dtype=like.dtype, new_axes=new_axes)


def _of_one_row(calibrator: Any, method: str, X: Any, *, has_groups: bool) -> HostArray:
    """The result of a method for one row like the rows of ``X``; raises the same errors as for all rows."""
    row = np.zeros((1,) if X.ndim == 1 else (1, int(X.shape[-1])), dtype=X.dtype)
    if X.ndim > 1:
        row[0, 0] = 1  # also a row of probabilities
    with collect_notices():
        prediction = getattr(calibrator, method)(row, *([["?"]] if has_groups else []))
    if not isinstance(prediction, np.ndarray):
        raise InputError(
            "The output", "be an array where `X` is a Dask array", remedy='Call `set_output(transform="default")`.'
        )
    return prediction


def _predict(method: Callable[..., Any], nothing: HostArray, scores: Any, *values: Any) -> HostArray:
    """The predictions for one chunk; ``nothing`` is the result for no rows."""
    *groups, numbers, slices = values
    leading, rows = scores.shape[: len(slices)], scores.reshape(-1, *scores.shape[len(slices) :])
    if not len(rows):  # a chunk may be empty after a selection
        return nothing.reshape(*leading, *nothing.shape[1:])
    try:
        with collect_notices():  # a warning per chunk would be many
            prediction: HostArray = method(rows, *(names.reshape(-1) for names in groups))
    except InputError as error:
        raise error.changed(where=chunk_name(numbers, slices, scores, counts_inside=True)) from None
    return prediction.reshape(*leading, *prediction.shape[1:])
