"""Logits in Dask chunks, with labels and other data of the rows in the same chunks.

The logits are never cut in another way, except where the classes of a row are in several chunks. Labels, weights, clusters and
groups are small, and are cut as the logits are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isnan, prod
from operator import add
from typing import Any
from uuid import uuid4

import numpy as np
from dask.layers import ArrayBlockIdDep, ArraySliceDep

import dask
from dask import array as dask_array
from nishimori._dask.tasks import Part, pick_rows
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError

# How many logits are put together where classes are in several chunks: 128 MiB in single precision.
MOST_NUMBERS = 2**25

# How many results of chunks a task adds: few enough that they arrive together, many enough that the tree is flat.
_ADDED = 8


@dataclass(frozen=True)
class Cut:
    """Logits, and the other data of their rows in the same chunks, by name."""

    logits: Any
    others: Mapping[str, Any]

    @property
    def leading(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of chunks along each dimension before the classes."""
        chunks: tuple[tuple[int, ...], ...] = self.logits.chunks
        return chunks if len(chunks) == 1 else chunks[:-1]

    @property
    def is_known(self) -> bool:
        """Whether the sizes of chunks are known."""
        return not any(isnan(size) for sizes in self.leading for size in sizes)

    @property
    def n_rows(self) -> int | None:
        return prod(sum(sizes) for sizes in self.leading) if self.is_known else None

    def blockwise(
        self, function: Callable[..., Any], out: Sequence[int], *, scores: bool = True, dtype: Any = object, **more: Any
    ) -> Any:
        """The chunks that ``function`` creates, without inspection before they are computed.

        It is called with the scores of a chunk, if wanted, with all others, with the numbers of the chunk and with the slices
        that it is.
        """
        axes = tuple(range(len(self.leading)))
        arguments = [self.logits, tuple(range(self.logits.ndim))] if scores else []
        for values in (*self.others.values(), ArrayBlockIdDep(self.leading), ArraySliceDep(self.leading)):
            arguments += [values, axes]
        name, meta = f"nishimori-{uuid4().hex}", np.empty((0,) * len(out), dtype=dtype)
        more |= {"name": name, "dtype": dtype, "meta": meta, "align_arrays": False, "concatenate": True}
        return dask_array.blockwise(function, out, *arguments, **more)

    def sum_over_chunks(self, function: Callable[..., Part], *, scores: bool = True, **shared: Any) -> Part:
        """The sum of ``function`` over all chunks, from one graph; raises the error of the first invalid chunk.

        It is called as `blockwise` says.
        """
        # The index of the classes stays, so that Dask makes one task of this one and of those that make the chunk.
        parts = self.blockwise(function, range(self.logits.ndim if scores else len(self.leading)), scores=scores, **shared)
        # Results are added in the order of chunks, by a tree whose shape depends on their number alone.
        at_once = dict(enumerate(parts.numblocks)) | {0: _ADDED}
        total = dask_array.reduction(
            parts,
            chunk=lambda part, axis, keepdims: part,  # noqa: ARG005 - as Dask calls it
            combine=_add,
            aggregate=_add,
            name="nishimori-chunk",  # which dashboards show
            dtype=object,
            split_every=at_once,
            concatenate=False,
            meta=np.empty((), dtype=object),
        )
        part: Part = total.compute()
        if part.refusal is not None:
            raise part.refusal
        return part

    def random_rows(self, chunks: list[int], size: int) -> "Cut":
        """Random rows of some chunks of the first dimension, kept together; ``size`` of each, or as many as all have."""
        size = min(size, min(self.leading[0][number] for number in chunks) * prod(min(sizes) for sizes in self.leading[1:]))
        leading = ((size,) * len(chunks), *((1,) * len(sizes) for sizes in self.leading[1:]))

        def taken(array: Any) -> Any:
            some, sizes = array.blocks[chunks], (*leading, *array.chunks[len(leading) :])
            rows = some.map_blocks(pick_rows, size, len(leading), dtype=array.dtype, chunks=sizes, meta=some._meta)
            return rows.rechunk(rows.shape, method="tasks")  # one chunk, because each costs as much time as its rows

        logits, *others = dask.persist(taken(self.logits), *map(taken, self.others.values()))
        return Cut(logits, dict(zip(self.others, others, strict=True)))


def with_whole_rows(logits: Any) -> Any:
    """The logits with all classes of a row in one chunk, which has fewer rows than before if it were too large."""
    if logits.ndim == 1 or logits.numblocks[-1] == 1:
        return logits
    first, *inner = logits.chunks[:-1]
    in_first_row = prod(max(sizes) for sizes in inner) * int(logits.shape[-1])
    if not max(first) * in_first_row > MOST_NUMBERS:  # also if the sizes are not known
        return logits.rechunk({-1: -1}, method="tasks")
    step = max(1, MOST_NUMBERS // in_first_row)
    rows = tuple(min(step, size - start) for size in first for start in range(0, size, step))
    return logits.rechunk({0: rows, -1: -1}, method="tasks")


def align_chunks(values: Any, cut: Cut, name: str, score_name: str) -> Any:
    """One value per row in the chunks of the logits, as a Dask array; ``name`` is the caller's name for them."""
    leading, shape = cut.leading, tuple(map(sum, cut.leading))
    is_lazy = arrays.is_lazy(values)
    array: Any = values if is_lazy else arrays.on_host(arrays.as_array(values))
    if not cut.is_known or any(map(isnan, array.shape)):
        n_chunks = tuple(map(len, leading))
        if is_lazy and tuple(array.numblocks) == n_chunks:
            return array
        raise InputError(
            name,
            f"have the same chunks as `{score_name}`, {n_chunks} of unknown sizes",
            got=f"{array.numblocks} chunks" if is_lazy else f"a {type(values).__name__}",
            remedy=f"Call `compute_chunk_sizes()` of all Dask arrays first, for example `{score_name}.compute_chunk_sizes()`.",
        )
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
    """Whole numbers in the smallest dtype, because they are sent to the workers in every pass."""
    if values.dtype.kind not in "iu" or not values.size:
        return values
    low, high = np.min_scalar_type(values.min()), np.min_scalar_type(values.max())
    return values.astype(np.result_type(low, high), copy=False)


def _add(parts: Any, axis: Any, keepdims: bool) -> Any:
    """The sum of some results, from the first to the last; lists of them where there are several dimensions."""
    if not isinstance(parts, list):
        return parts
    first, *others = (_add(part, axis, keepdims) for part in parts)
    return reduce(add, others, first)
