"""Choose a kernel, and compute sums over blocks of rows with it.

A kernel is a module with one function, `power_sums`: it takes logits (n, k), some finite positive β and an order, and gives
Σ d^j exp(βd) over the classes of each row but the largest one, d being the distance from the row's largest logit. Everything
that nishimori measures follows from these sums. `kernel_for` chooses the kernel of a data set; the environment variable
``NISHIMORI_KERNEL`` overrules the choice by name.

A kernel may have more functions. `block_sums` gives the sums of a pair of observables over a block, without a number per row;
`score_sums` gives those of native_scores.h, those per bin, and whether something has to be checked; `node_sums` gives what a
sketch keeps of rows, or None if something has to be checked or masked. `takes_unchecked` says whether all these sums can read
all of some logits at once, and notice what a check would refuse; `takes_half` says whether `power_sums` takes logits of half
precision as they are stored, computes in float64, and for every β.

This module is what other folders call, and nothing outside this folder knows which kernel runs. `row_sums` gives sums over the
classes of each row, which `Predictions` are made of, and `block_sums` those over rows too, where the kernel of the batch can do
that. `score_totals`, `group_totals` and `node_sums` are further sums over rows that some kernels make at once, for scorecards,
temperatures per group and sketches; where they return None, or are not offered, the same follows from `row_sums`.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import inf
from types import ModuleType
from typing import Literal

import numpy as np

from nishimori._kernels import array_api, native
from nishimori._kernels.sums import (
    N_SUMS,
    SCORES,
    AnswerSums,
    BinTotals,
    BlockSums,
    Counted,
    NodeSums,
    PowerSums,
    ScoreTotals,
    doublings,
)
from nishimori._rows.batch import Batch
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.formatting import enumeration
from nishimori.errors import InputError

_VARIABLE = "NISHIMORI_KERNEL"

LEAST_SINGLE = 1e-15
"""The lowest β for which float32 holds β, its inverse and products with them at full precision."""

# Numbers of a table that are computed at a time: its few temporary copies, of 256 kB in float64, stay in the cache.
_CACHED = 2**15

_PLAIN_TYPES = (np.dtype(np.float32), np.dtype(np.float64))

# Of the numbers that `block_sums` of a kernel returns; what was counted comes after them.
_N_WITH_ANSWERS = N_SUMS + len(AnswerSums._fields)

# Older ones cannot compile loops over tuples.
_OLDEST_TRITON = (3, 3)


@cache
def kernel_named(name: str) -> ModuleType:
    """The kernel of this name. Its imports happen when it is first used."""
    return import_module(f"nishimori._kernels.{name}")


def kernel_for(array: Array) -> ModuleType:
    """The kernel for data like ``array``."""
    able = _able(array)
    wanted = os.environ.get(_VARIABLE, "")
    if wanted and wanted not in _NAMES:
        raise InputError(_VARIABLE, f"be {enumeration(_NAMES, 'or')}", got=repr(wanted), remedy="Correct or unset it.")
    if wanted == "native" and not native.is_available():
        got = f"{wanted!r} ({native.description()})"
        raise InputError(_VARIABLE, "be a kernel that is installed", got=got, remedy="Unset it.")
    return kernel_named(wanted if wanted in able else able[0])


def computes_in_c(logits: Array) -> bool:
    """Whether the C kernel computes for these logits, and they are a table of float32 or float64."""
    if not isinstance(logits, np.ndarray) or logits.ndim != 2 or logits.dtype.newbyteorder("=") not in _PLAIN_TYPES:
        return False
    return kernel_for(logits) is native


_NAMES = ("numpy", "native", "triton", "array_api")


def _able(array: Array) -> tuple[str, ...]:
    """The names of the kernels that take such an array, the fastest first."""
    if isinstance(array, np.ndarray):
        return ("native", "numpy", "array_api") if native.is_available() else ("numpy", "array_api")
    if arrays.is_on_cuda(array) and _has_triton():
        return ("triton", "array_api")
    return ("array_api",)


@cache
def _has_triton() -> bool:
    if find_spec("triton") is None:
        return False
    # Several distributions hold this package, so that their metadata would have to be searched for.
    return tuple(map(int, import_module("triton").__version__.split(".")[:2])) >= _OLDEST_TRITON


# --- what a batch asks of its kernel: answers are values, and nothing is written into the batch ----------------------------


def kernel_of(batch: Batch) -> ModuleType:
    """The kernel for the rows of a batch."""
    return kernel_for(batch.logits)


def kernel_name(batch: Batch) -> str:
    """The name of the kernel for the rows of a batch, as `FitInfo` gives it."""
    return kernel_of(batch).__name__.rpartition(".")[2]


def power_sums(kernel: ModuleType, logits: Array, betas: Sequence[float], order: int, top_n: int = 1) -> PowerSums:
    """Σ d^j exp(βd) over the classes of each row outside the ``top_n`` largest, for j from 0 to ``order``.

    Computed in the dtype of ``logits`` (n, k), float32 or float64, which have been checked; summed in float64. A class with
    logit -inf has no weight at any β. Both ends, β = 0 and ∞, and several top classes are left to one kernel. Half precision is
    only for kernels that take it.
    """
    is_usual = all(0 < beta < inf for beta in betas) or arrays.is_half(logits)
    sums = kernel.power_sums(logits, betas, order) if top_n == 1 and is_usual else _in_cache(logits, betas, order, top_n)
    return sums._replace(betas=tuple(betas))


def _in_cache(logits: Array, betas: Sequence[float], order: int, top_n: int) -> PowerSums:
    """The same sums by the kernel for any library; its tables of NumPy stay in the cache, a block of rows at a time."""
    n_rows, n_columns = logits.shape
    step = max(1, _CACHED // max(1, n_columns))
    if not isinstance(logits, np.ndarray) or n_rows <= step:
        return array_api.power_sums(logits, betas, order, top_n)
    parts = [array_api.power_sums(logits[start : start + step], betas, order, top_n) for start in range(0, n_rows, step)]
    peaks, tops, sums = (np.concatenate(own, axis=-1) for own in zip(*(part[:3] for part in parts), strict=True))
    return PowerSums(peaks, tops, sums)


def row_sums(batch: Batch, betas: Sequence[float], order: int, top_n: int = 1, *, exact: bool = True) -> PowerSums:
    """Σ d^j exp(βd) over the classes outside the ``top_n`` largest, for j from 0 to ``order``.

    With ``exact`` they are computed in float64, else in the precision of the logits. Those of `stored` logits always are.
    """
    listed = sums_over_columns(batch, betas, order, top_n, exact=exact)
    if batch.has_all_classes:
        return listed
    return listed._replace(sums=listed.sums + batch.other_sums(listed.peak, betas, order))


def sums_over_columns(batch: Batch, betas: Sequence[float], order: int, top_n: int = 1, *, exact: bool = True) -> PowerSums:
    """The `row_sums` over the classes that have a column of their own, and no others."""
    if top_n == 1 and reads_stored(batch):
        logits = as_stored(batch)
    else:
        logits = batch.double if _in_double(betas, exact) else batch.logits
    return power_sums(kernel_of(batch), logits, betas, order, top_n)


def reads_stored(batch: Batch) -> bool:
    """Whether sums come from logits of half precision as they are stored: in float64, and for every β."""
    return batch.stored is not None and _takes(batch, "takes_half", batch.stored)


def block_sums(batch: Batch, beta_ec: float, beta_ts: float, *, exact: bool) -> BlockSums | None:
    """The sums of a pair of observables, where the kernel can do without a number per row; see `N_SUMS`.

    Those that are ``exact`` give a temperature with all digits that are promised; how they do that is the kernel's own
    business. All others are for answers of which a few digits matter.
    """
    kernel = kernel_of(batch)
    if not (is_plain(batch) and hasattr(kernel, "block_sums") and 0 < beta_ec < inf and 0 < beta_ts < inf):
        return None
    exact = _in_double((beta_ec, beta_ts), exact)
    numbers = kernel.block_sums(as_stored(batch), batch.labels, batch.weights, beta_ec, beta_ts, exact=exact)
    counted = Counted(*numbers[_N_WITH_ANSWERS:].tolist()) if len(numbers) > _N_WITH_ANSWERS else None
    return BlockSums(numbers[:N_SUMS], AnswerSums(*numbers[N_SUMS:_N_WITH_ANSWERS].tolist()), counted)


def takes_unchecked(batch: Batch) -> bool:
    """Whether `block_sums` reads all of these rows at once, and notices what a check would refuse."""
    return _takes(batch, "takes_unchecked", batch.logits)


def _takes(batch: Batch, question: str, logits: Array) -> bool:
    """The kernel's answer to a ``question`` about logits; False if it does not have the question."""
    kernel = kernel_of(batch)
    return hasattr(kernel, question) and getattr(kernel, question)(logits)


def as_stored(batch: Batch) -> Array:
    """The logits that sums are computed from."""
    return batch.stored if reads_stored(batch) else batch.logits


def is_plain(batch: Batch) -> bool:
    """Whether logits and labels are enough: logits give the order of classes, and each class has a column."""
    return batch.probabilities is None and batch.predicted is None and batch.has_all_classes


def _in_double(betas: Sequence[float], exact: bool) -> bool:
    return exact or not all(LEAST_SINGLE < beta < 1 / LEAST_SINGLE for beta in betas)


def gives_node_sums(batch: Batch) -> bool:
    """Whether `node_sums` can read these rows, if no logit and no label has to be checked first."""
    if not (hasattr(kernel_of(batch), "node_sums") and is_plain(batch)):
        return False
    # On the host, half precision is counted; see `native.takes_half`.
    return kernel_name(batch) == "triton" or (computes_in_c(batch.logits) and not reads_stored(batch))


def node_sums(batch: Batch, nodes: Sequence[float], beyond: Sequence[float], n_bins: int, bin_scale: float) -> NodeSums | None:
    """The sums of a sketch, if the kernel needs no number per row and node.

    None if it cannot, or if it has found a number that has to be masked or checked. Rows of weight zero may hold anything.
    """
    if not gives_node_sums(batch) or batch.masked:
        return None
    sums: NodeSums | None = kernel_of(batch).node_sums(
        as_stored(batch), batch.labels, batch.weights, nodes, beyond, n_bins, bin_scale
    )
    return sums


# --- sums of the usual scores over rows and per bin, where a kernel makes them without a number per row --------------------

# The C kernel does, in float64, and Triton, in float32, which gives metrics to 1e-6. For all else `Predictions` have the
# numbers of each row.

# `score_totals` takes an exponential per class and β. Sums of powers of one exponential serve a chain of β, each twice the one
# before, and then every row takes some time for each β: with this many classes, and this many β per chain, less in all.
_MANY_CLASSES, _MANY_DOUBLINGS = 512, 3

# The square of a weight of this β, and its inverse, are far from the ends of float64.
_LEAST = 1e-100

# The time of a device is proportional to the number of bins.
_MOST_BINS_ON_DEVICE = 128


def sums_scores(batch: Batch, betas: Sequence[float], n_bins: int, *, positive: bool = False) -> bool:
    """Whether `score_totals` takes these rows at all of these β, and is the fastest way.

    They need not be checked unless they are float64 on a device. ``positive`` if sums of the second of two classes are wanted.
    """
    least, largest = min(betas, default=1.0), max(betas, default=1.0)
    if is_read_in_c(batch.logits, least, largest):
        return batch.n_classes < _MANY_CLASSES or _MANY_DOUBLINGS * len(doublings(betas)) > len(betas)
    is_usual = least > LEAST_SINGLE and largest < 1 / LEAST_SINGLE
    if positive or kernel_name(batch) != "triton" or not (is_plain(batch) and is_usual):
        return False
    is_table = _takes(batch, "takes_unchecked", as_stored(batch)) or arrays.dtype_name(batch.logits) == "float64"
    return is_table and n_bins <= _MOST_BINS_ON_DEVICE


def sums_blocks(batch: Batch) -> bool:
    """Whether blocks that were checked are summed here, too: on a device, where numbers per row would have to be copied."""
    return kernel_name(batch) == "triton" and not batch.masked


def is_read_in_c(logits: Array, least: float, largest: float) -> bool:
    """Whether the C kernel takes these logits, and any β from ``least`` to ``largest``."""
    return _LEAST < least <= largest < 1 / _LEAST and computes_in_c(logits)


def score_totals(
    batch: Batch, beta: float, inner: HostArray, positive: HostArray | None = None, *, counts: bool
) -> ScoreTotals | None:
    """The sums of all rows of a batch, which may have weight zero; None if values must be checked or masked.

    Bins have the edges ``inner`` between them; a confidence on an edge counts in the bin below. ``positive`` are those of the
    probability of the second of two classes; None to leave it out.
    """
    arguments = as_stored(batch), batch.labels, batch.weights, beta, inner
    if computes_in_c(batch.logits):
        sums, bins, is_unusual = native.score_sums(*arguments, positive, counts=counts)
    else:
        sums, bins, is_unusual = kernel_of(batch).score_sums(*arguments, counts=counts)
    weight, units, *_ = sums.tolist()
    if is_unusual or not units > 0:
        return None
    totals, means, scatter = sums[2:].reshape(3, len(SCORES))
    n_rows = batch.n_rows if batch.weights is None else int(batch.xp.count_nonzero(batch.weights))
    n_bins = len(inner) + 1
    further = None if positive is None else BinTotals(*bins[n_bins:].T.copy())
    return ScoreTotals(n_rows, weight, units, totals, means, scatter, BinTotals(*bins[:n_bins].T.copy()), further)


# --- sums over groups with a β of their own; only the C kernel makes them, in float64 --------------------------------------

Method = Literal["ec", "ts"]
"""The method whose gap is summed: expectation consistency or temperature scaling."""


def sums_groups(batch: Batch, betas: HostArray) -> bool:
    """Whether `group_totals` takes these rows, which need not be checked, at these β."""
    return is_read_in_c(batch.logits, float(betas.min()), float(betas.max()))


def group_totals(batch: Batch, codes: HostArray | None, betas: HostArray, method: Method, *, counts: bool) -> HostArray | None:
    """Six sums of each group, (6, groups), of rows that may have weight zero; None if values must be checked or masked.

    They are the number of rows, Σw, Σw·gap, Σw·slope, Σu·variance and Σu·gap², as `nishimori._sums.groups.GroupSums` has them.
    Without ``codes``, the group of a row is its top class.
    """
    sums, is_unusual = native.group_sums(batch.logits, batch.labels, batch.weights, codes, betas, method, counts=counts)
    return None if is_unusual else sums.T


# --- the softmax of rows in one call, which only the C kernel has; `maps.map` has it in array operations -------------------


def softmax(logits: Array, beta: float) -> tuple[HostArray, bool] | None:
    """The softmax of ``beta * logits`` in the precision of the logits, and whether some logit is NaN, infinite or too large.

    -inf masks a class, and its probability is zero. The rows of all others of these are not probabilities. None where no kernel
    computes it.
    """
    is_usual = LEAST_SINGLE < beta < 1 / LEAST_SINGLE
    return native.softmax(logits, beta) if is_usual and computes_in_c(logits) else None
