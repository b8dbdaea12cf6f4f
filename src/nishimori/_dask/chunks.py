"""Logits in chunks of Dask, and what belongs to their rows in the same chunks.

The logits are never cut in another way, except that rows are divided where columns are in several chunks. Labels, weights,
clusters and groups are small, and are cut as the logits are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from math import isnan, prod
from operator import add
from typing import Any
from uuid import uuid4

import numpy as np
from dask.layers import ArrayBlockwiseDep

import dask
from dask import array as dask_array
from nishimori._dask.tasks import MOST_NUMBERS, PLACE, Pick
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError

# How many results of chunks a task adds: few enough that they arrive together, many enough that the tree is flat.
_ADDED = 8


class ChunkPlaces(ArrayBlockwiseDep):  # type: ignore[misc]  # which has no types
    """The place of each chunk along one dimension, as Dask hands it to tasks: a part of each that needs no task of its own."""

    def __init__(self, places: HostArray) -> None:
        super().__init__(((1,) * len(places),))
        self.places = places

    def __getitem__(self, idx: tuple[int, ...]) -> HostArray:
        return self.places[idx[0] : idx[0] + 1]


@dataclass(frozen=True)
class Cut:
    """Logits, and what belongs to their rows in the same chunks, by name."""

    logits: Any
    others: Mapping[str, Any]

    @property
    def leading(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of chunks along each dimension before the classes."""
        chunks: tuple[tuple[int, ...], ...] = self.logits.chunks
        return chunks if len(chunks) == 1 else chunks[:-1]

    @property
    def n_axes(self) -> int:
        """How many dimensions there are before the classes."""
        return len(self.leading)

    @property
    def is_known(self) -> bool:
        """Whether the sizes of chunks are known."""
        return not any(isnan(size) for sizes in self.leading for size in sizes)

    @property
    def n_rows(self) -> int | None:
        return prod(sum(sizes) for sizes in self.leading) if self.is_known else None

    @cached_property
    def places(self) -> list[HostArray]:
        """The place of each chunk, an array with one entry per chunk for each dimension before the classes."""
        by_axis = []
        for sizes in self.leading:
            places = np.zeros(len(sizes), dtype=PLACE)
            places["number"] = range(len(sizes))
            places["first"] = -1 if not self.is_known else [0, *accumulate(sizes)][:-1]
            by_axis.append(places)
        return by_axis

    def sum_over_chunks(self, function: Callable[..., Any], *, scores: bool = True, **shared: Any) -> Any:
        """The sum of ``function`` over all chunks, from one graph.

        It is called with the scores, if wanted, with all others and with the places of a chunk.
        """
        out = tuple(range(self.n_axes))
        if scores and self.logits.numblocks[self.n_axes :] == (1,):
            # An index that stays lets Dask make one task of this one and of those that make the chunk. An index that goes
            # gives a list of chunks.
            out = tuple(range(self.logits.ndim))
        parts = self.blockwise(function, out, *self.arguments(scores=scores), **shared)
        # Results are added in the order of chunks, by a tree whose shape depends on their number alone.
        at_once = dict(enumerate(parts.numblocks)) | {0: _ADDED}
        total = dask_array.reduction(
            parts,
            chunk=_as_it_is,
            combine=_add,
            aggregate=_add,
            name="nishimori-chunk",  # which dashboards show
            dtype=object,
            split_every=at_once,
            concatenate=False,
            meta=np.empty((), dtype=object),
        )
        return total.compute()

    def arguments(self, *, scores: bool = True) -> list[Any]:
        """What a function of one chunk is called with, each followed by its indices, as Dask wants it."""
        axes = tuple(range(self.n_axes))
        arguments = [self.logits, tuple(range(self.logits.ndim))] if scores else []
        for values in self.others.values():
            arguments += [values, axes]
        for axis, places in enumerate(self.places):
            arguments += [ChunkPlaces(places), (axis,)]
        return arguments

    @staticmethod
    def blockwise(function: Callable[..., Any], out: tuple[int, ...], *arguments: Any, dtype: Any = object, **more: Any) -> Any:
        """The chunks that ``function`` makes, which are not looked at before they are computed."""
        meta = np.empty((0,) * len(out), dtype=dtype)
        name = f"nishimori-{uuid4().hex}"
        return dask_array.blockwise(function, out, *arguments, name=name, dtype=dtype, meta=meta, align_arrays=False, **more)

    def random_rows(self, chunks: list[int], size: int) -> "Cut":
        """Random rows of some chunks of the first dimension, kept together; ``size`` of each, or as many as all have."""
        size = min(size, min(self.leading[0][number] for number in chunks) * prod(min(sizes) for sizes in self.leading[1:]))
        axes, whole = tuple(range(self.n_axes)), tuple(range(self.logits.ndim))
        places: list[Any] = []
        for axis, along in enumerate(self.places):
            places += [ChunkPlaces(along if axis else along[chunks]), (axis,)]
        sizes = {0: (size,) * len(chunks)} | {axis: (1,) * len(self.leading[axis]) for axis in axes[1:]}
        pick = Pick(size, self.n_axes)

        def taken(array: Any, index: tuple[int, ...], out: tuple[int, ...], **options: Any) -> Any:
            some = array.blocks[chunks]
            rows = self.blockwise(pick, out, some, index, *places, dtype=array.dtype, adjust_chunks=sizes, **options)
            return rows.rechunk(rows.shape, method="tasks")  # one chunk, because each costs as much time as its rows

        if self.logits.numblocks[self.n_axes :] > (1,):  # one column of chunks is made of several
            column = self.logits.ndim
            logits = taken(self.logits, whole, (*axes, column), new_axes={column: int(self.logits.shape[-1])})
        else:
            logits = taken(self.logits, whole, whole)
        logits, *others = dask.persist(logits, *(taken(values, axes, axes) for values in self.others.values()))
        return Cut(logits, dict(zip(self.others, others, strict=True)))


def split_chunks(logits: Any) -> Any:
    """The logits in chunks of fewer rows, if there are several chunks of columns and the rows of one are too many."""
    cut = Cut(logits, {})
    if not cut.is_known or logits.ndim == cut.n_axes or logits.numblocks[-1] == 1:
        return logits
    inner = prod(max(sizes) for sizes in cut.leading[1:]) * int(logits.shape[-1])
    step = max(1, MOST_NUMBERS // inner)
    if max(cut.leading[0]) <= step:
        return logits
    starts = [0, *accumulate(cut.leading[0])]
    edges = [start for low, high in pairwise(starts) for start in range(low, high, step)]
    # Slices of the rows, which Dask hands on to whatever reads them. Nothing is put together before it is needed.
    return dask_array.concatenate([logits[low:high] for low, high in pairwise([*edges, starts[-1]])])


def align_chunks(values: Any, cut: Cut, name: str, score_name: str) -> Any:
    """One value per row in the chunks of the logits, as an array of Dask; ``name`` is the caller's word for them."""
    leading, shape = cut.leading, tuple(map(sum, cut.leading))
    is_lazy = arrays.is_lazy(values)
    array: Any = values if is_lazy else arrays.on_host(arrays.as_array(values))
    remedy = f"Call `compute_chunk_sizes()` of all Dask arrays first, for example `{score_name}.compute_chunk_sizes()`."
    is_known = cut.is_known and not any(map(isnan, array.shape))
    if not is_known:
        if not is_lazy or tuple(array.numblocks) != tuple(map(len, leading)):
            chunks = f"{array.numblocks} chunks" if is_lazy else f"a {type(values).__name__}"
            raise InputError(
                name,
                f"have the chunks of `{score_name}`, {tuple(map(len, leading))} of unknown sizes",
                got=chunks,
                remedy=remedy,
            )
        return array
    if len(shape) > 1 and array.shape == shape[:1] and name not in _PER_ROW:
        per_sequence = _in_chunks(array, leading[:1])
        column = per_sequence.reshape(-1, *(1,) * (len(shape) - 1))
        return dask_array.broadcast_to(column, shape, chunks=leading)
    if tuple(array.shape) != shape:
        raise InputError(
            name,
            f"have shape {shape}, as `{score_name}` before the classes, one entry per sample",
            got=tuple(array.shape),
        )
    return _in_chunks(array, leading)


# Labels differ within a sequence of tokens; weights, clusters and groups may be the same for all of it.
_PER_ROW = ("labels", "y")


def _in_chunks(values: Any, chunks: tuple[tuple[int, ...], ...]) -> Any:
    """A small array in these chunks."""
    if not arrays.is_lazy(values):
        return dask_array.from_array(_narrow(values), chunks=chunks)
    # With tasks, because the default may be a shuffle, which starts only when all chunks are there.
    return values if values.chunks == chunks else values.rechunk(chunks, method="tasks")


def _narrow(values: HostArray) -> HostArray:
    """Whole numbers in as few bytes as hold them, because they are sent to the workers in every pass."""
    if values.dtype.kind not in "iu" or not values.size:
        return values
    low, high = np.min_scalar_type(values.min()), np.min_scalar_type(values.max())
    return values.astype(np.result_type(low, high), copy=False)


def _as_it_is(part: Any, axis: Any, keepdims: bool) -> Any:  # noqa: ARG001 - as Dask calls it
    """The result of one chunk."""
    return part


def _add(parts: Any, axis: Any, keepdims: bool) -> Any:
    """The sum of some results, from the first to the last; lists of them where there are several dimensions."""
    if not isinstance(parts, list):
        return parts
    first, *others = (_add(part, axis, keepdims) for part in parts)
    return reduce(add, others, first)
