"""Power sums in C: the usual kernel for NumPy arrays.

The library is compiled when nishimori is installed (``hatch_build.py``), from ``native.c``. It has several variants of each
function, for processors with and without AVX2 and AVX-512; the best that this processor can run is taken, or the one that the
environment variable ``NISHIMORI_NATIVE_VARIANT`` names. Calls release Python's global lock.

Rows are read in blocks of a fixed size, whose sums are added in their order. So with ``NISHIMORI_THREADS`` several blocks are
read at once, and the digits are the same for any number of threads.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL, Structure, byref, c_char_p, c_double, c_int, c_int64, c_void_p, cast
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nishimori._kernels.sums import NodeSums, PowerSums, doublings
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import enumeration
from nishimori.errors import InputError

MAX_ORDER = 5

# A number of 16 bits has one of 65,536 values, and the logits of a language model take about 3,000 of them in bfloat16 and
# 20,000 in float16. So a row of 151,936 classes is read once, to count how often each value occurs. All sums, at any number of
# β, then follow from these few values in float64, with one exponential for each of them. To look for the values that occur in
# a row takes as long as the arithmetic of about this many classes.
MANY = 2**13
"""Rows of half precision with fewer classes are not counted."""

_NAMES = {"win32": "nishimori.dll", "darwin": "libnishimori.dylib"}
_LIBRARY = Path(__file__).with_name(_NAMES.get(sys.platform, "libnishimori.so"))

# Those of native.c.
_ABI = 7
_N_SUMS = 42
_NO_MEMORY = -1

_VARIABLE = "NISHIMORI_NATIVE_VARIANT"
VARIANTS = ("avx512", "avx2", "baseline")
"""The best first."""

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

# The exponents that are added to powers of two, and how many bits the first part of a product with one may have.
_OFFSET = {_SINGLE: 125, _DOUBLE: 1021}
_SHORT = {_SINGLE: 16, _DOUBLE: 42}


# --- the library -----------------------------------------------------------------------------------------------------------


class _TermInC(Structure):
    _fields_ = [(name, c_double) for name in ("scale", "smallest", "high", "low", "unit_high", "unit_low")]


class _PlanInC(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("n_chains", "n_betas", "n_at_zero", "n_at_infinity")),
        *((name, c_void_p) for name in ("terms", "chains", "places", "at_zero", "at_infinity", "factors")),
    ]


_P, _N, _I, _D = c_void_p, c_int64, c_int, c_double
_ARGUMENTS = {
    "power_sums": (_I, _P, _N, _N, _P, _I, _P, _P, _P),
    "block_sums": (_I, _P, _N, _P, _P, _N, _N, _P, _P),
    "node_sums": (_I, _P, _P, _P, _N, _N, _P, _N, _I, _D, _P, _P, _P, _P, _P),
    "softmax": (_I, _P, _N, _N, _P, _P),
    "group_sums": (_I, _P, _P, _P, _P, _N, _N, _P, _P, _N, _I, _I, _P),
    "score_sums": (_I, _P, _P, _P, _N, _N, _P, _D, _I, _P, _N, _P, _N, _P, _P),
    "half_power_sums": (_P, _P, _N, _N, _P, _I, _P, _P, _P),
    "half_block_sums": (_P, _P, _P, _P, _N, _N, _P, _P),
}


@dataclass(frozen=True)
class Library:
    """The loaded library, or why there is none."""

    functions: Any = None
    variants: tuple[str, ...] = ()
    """What this processor can run, the best first."""
    source: str = ""
    """A digest of the files that it was compiled from."""
    problem: str = ""


@cache
def library() -> Library:
    """The library that came with nishimori, loaded when it is first asked for."""
    if not _LIBRARY.exists():
        return Library(problem="no C compiler when it was installed")
    try:
        functions = CDLL(str(_LIBRARY))
        functions.nishimori_variants.restype = functions.nishimori_source.restype = c_char_p
        functions.nishimori_supports.argtypes = (c_char_p,)
        if functions.nishimori_abi() != _ABI:
            return Library(problem=f"{_LIBRARY.name} is of another version; install nishimori again")
        compiled = functions.nishimori_variants().decode().split()
    except (OSError, AttributeError) as error:
        return Library(problem=f"{_LIBRARY.name} cannot be loaded: {error}")
    able = tuple(name for name in VARIANTS if name in compiled and functions.nishimori_supports(name.encode()))
    return Library(functions, able, functions.nishimori_source().decode())


def is_available() -> bool:
    """Whether the library exists and can be loaded."""
    return library().functions is not None


def variant() -> str:
    """The variant that runs."""
    wanted, able = os.environ.get(_VARIABLE, ""), library().variants
    if wanted and wanted not in able:
        choices = enumeration(able, "or")
        why = "which this processor or library lacks" if wanted in VARIANTS else "which is none"
        raise InputError(_VARIABLE, f"be {choices}", got=f"{wanted!r}, {why}", remedy="Correct or unset it.")
    return wanted or able[0]


def description() -> str:
    """The kernel for NumPy arrays as text, such as ``native kernel, avx2``."""
    return f"native kernel, {variant()}" if is_available() else f"NumPy only: {library().problem}"


@cache
def _function(name: str, of_variant: str) -> Any:
    function = getattr(library().functions, f"nishimori_{name}_{of_variant}")
    function.argtypes, function.restype = _ARGUMENTS[name], c_int
    return function


def _call(name: str, *arguments: Any) -> bool:
    """Whether some logit or label has to be checked."""
    converted = (argument.ctypes.data if isinstance(argument, np.ndarray) else argument for argument in arguments)
    returned = _function(name, variant())(*converted)
    if returned == _NO_MEMORY:
        raise MemoryError
    return bool(returned)


# --- which sums ------------------------------------------------------------------------------------------------------------

_LOG2_E = Fraction(math.log2(math.e)) + Fraction(2.0355273740931033e-17)


@lru_cache(maxsize=64)
def _term(beta: float, dtype: "np.dtype[Any]") -> _TermInC:
    # Powers of d alone would overflow float32 if logits are large and β is small; those of scaled d stay below 1e14.
    scale = math.ldexp(1.0, math.frexp(beta)[1] - 1)
    exponent = Fraction(beta) / Fraction(scale) * _LOG2_E
    # One float32 factor would multiply every d by (1 + 3e-8), and T would have this error.
    high = float(dtype.type(float(exponent)))
    unit = 1 / exponent  # between 1/3 and 1
    unit_high = Fraction(round(unit * 2 ** _SHORT[dtype]), 2 ** _SHORT[dtype])
    parts = exponent - Fraction(high), unit_high, unit - unit_high
    return _TermInC(scale, -_OFFSET[dtype] / high, high, *map(float, parts))


@dataclass(frozen=True)
class _ExpPlan:
    """A plan for the sums at some betas: the arguments for C, and the objects that keep them in memory."""

    in_double: bool
    c: Any
    kept: tuple[Any, ...]


@lru_cache(maxsize=64)
def _exp_plan(betas: tuple[float, ...], dtype: "np.dtype[Any]", doubling: bool) -> _ExpPlan:
    """The plan for ``betas``, among which 0 and ∞ are only for half precision."""
    usual = [i for i, beta in enumerate(betas) if 0 < beta < math.inf]
    at_zero, at_infinity = (np.asarray([i for i, beta in enumerate(betas) if beta == end], np.int64) for end in (0, math.inf))
    regular = [betas[i] for i in usual]
    chains = [[i for i, _ in chain] for chain in doublings(regular)] if doubling else [[i] for i in range(len(regular))]
    # Squaring doubles the relative error, and float32 has none to spare; nor does it hold the scale of an extreme β.
    if any(len(chain) > 1 for chain in chains) or any(not 2.0**-60 < beta < 2.0**60 for beta in regular):
        dtype = _DOUBLE
    terms = (_TermInC * len(chains))(*(_term(regular[chain[0]], dtype) for chain in chains))
    undo = [1.0 / term.scale for term, chain in zip(terms, chains, strict=True) for _ in chain]
    with np.errstate(over="ignore"):
        factors = np.asarray(undo, float).reshape(-1, 1) ** np.arange(MAX_ORDER + 1)
    factors = np.minimum(factors, np.finfo(float).max)  # infinite times no class would be NaN
    ends = np.cumsum([0, *map(len, chains)], dtype=np.int64)
    places = np.asarray([usual[i] for chain in chains for i in chain], np.int64)
    kept = ends, places, at_zero, at_infinity, factors
    sizes = len(chains), len(regular), len(at_zero), len(at_infinity)
    plan = _PlanInC(*sizes, cast(terms, c_void_p), *(array.ctypes.data for array in kept))
    return _ExpPlan(dtype == _DOUBLE, cast(byref(plan), c_void_p), (plan, terms, *kept))


# --- logits as C reads them ------------------------------------------------------------------------------------------------

# This many logits take about a millisecond, which hides the cost of a call. Those that have to be copied are copied in blocks.
_BLOCK = 2**19

_THREADS = "NISHIMORI_THREADS"
S = TypeVar("S")


def _n_threads() -> int:
    wanted = os.environ.get(_THREADS) or "1"
    if not (wanted.isascii() and wanted.isdigit() and int(wanted) > 0):
        raise InputError(_THREADS, "be a number of threads, such as 2", got=repr(wanted), remedy="Correct or unset it.")
    return int(wanted)


def _in_blocks(logits: HostArray, work: Callable[[slice], S], multiple: int = 1) -> list[S]:
    """The results of ``work`` per block of rows, in order: at least one; all but the last have a ``multiple`` of rows."""
    n, n_classes = logits.shape
    step = max(_BLOCK // max(n_classes, 1) // multiple, 1) * multiple
    blocks = [slice(start, min(start + step, n)) for start in range(0, max(n, 1), step)]
    n_threads = min(_n_threads(), len(blocks))
    if n_threads == 1:
        return [work(rows) for rows in blocks]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, blocks))


def _contiguous(x: HostArray, dtype: Any) -> HostArray:
    return np.require(np.asarray(x), dtype, ["C", "A"])


def _rows(logits: HostArray, rows: slice) -> HostArray:
    """Some rows in a layout that C can read: unchanged if possible, else a copy."""
    return _contiguous(logits[rows], _dtype(logits))


def _rows_apart(logits: HostArray, rows: slice) -> tuple[HostArray, int]:
    """Some rows, not copied if each lies in one piece, and by how many numbers the next one begins after it."""
    some, size = logits[rows], logits.itemsize
    if not (_has_whole_rows(some) and some.strides[0] >= 0 and some.strides[0] % size == 0):
        some = _rows(logits, rows)
    return some, some.strides[0] // size


def _has_whole_rows(logits: HostArray) -> bool:
    """Whether C can read each row where it is."""
    return logits.strides[1] == logits.itemsize and logits.flags.aligned and logits.dtype.isnative


def _dtype(logits: HostArray) -> "np.dtype[Any]":
    """Their type, in the byte order of this machine."""
    dtype: np.dtype[Any] = logits.dtype.newbyteorder("=")
    assert dtype in _OFFSET, "half precision is widened to float32 by the caller"
    return dtype


def _kind(logits: HostArray, in_double: bool) -> int:
    """FLOAT, WIDENED or DOUBLE in native.c."""
    return 2 if _dtype(logits) == _DOUBLE else int(in_double)


def takes_unchecked(logits: HostArray) -> bool:
    """Whether `block_sums` can read these logits, and notices what a check would refuse. Rows may be apart in memory."""
    return logits.ndim == 2 and (logits.dtype in _OFFSET or takes_half(logits)) and _has_whole_rows(logits)


def takes_half(logits: HostArray) -> bool:
    """Whether these are rows of half precision with enough classes that counting their values pays."""
    return arrays.is_half(logits) and logits.ndim == 2 and logits.shape[1] >= MANY


def _half(logits: HostArray) -> tuple[HostArray, HostArray]:
    """Rows in half precision: their bits, and what each pattern of bits stands for."""
    return _contiguous(logits.view(np.uint16), np.uint16), arrays.half_values(arrays.dtype_name(logits))


# --- the kernel ------------------------------------------------------------------------------------------------------------


def power_sums(logits: HostArray, betas: Sequence[float], order: int) -> PowerSums:
    """Power sums for finite positive ``betas``, outside the largest class."""
    assert 0 <= order <= MAX_ORDER
    is_half = takes_half(logits)
    plan = _exp_plan(tuple(betas), _DOUBLE if is_half else _dtype(logits), True)

    def work(rows: slice) -> PowerSums:
        n, n_classes = rows.stop - rows.start, logits.shape[1]
        dtype = _SINGLE if is_half else _dtype(logits)
        results = np.empty(n, dtype), np.empty(n, np.int64), np.empty((len(betas), order + 1, n))
        if is_half:
            _call("half_power_sums", *_half(logits[rows]), n, n_classes, plan.c, order + 1, *results)
        else:
            z = _rows(logits, rows)
            _call("power_sums", _kind(z, plan.in_double), z, n, n_classes, plan.c, order + 1, *results)
        return PowerSums(*results)

    parts = _in_blocks(logits, work)
    if len(parts) == 1:
        return parts[0]
    peak, top = np.concatenate([part.peak for part in parts]), np.concatenate([part.top for part in parts])
    return PowerSums(peak, top, np.concatenate([part.sums for part in parts], axis=2))


def block_sums(
    logits: HostArray, labels: HostArray, weights: HostArray, beta_ec: float, beta_ts: float, *, exact: bool = False
) -> HostArray:
    """The sums of a pair of observables; see `N_SUMS`. What was counted comes with them if no logit is unusual."""
    betas = (beta_ec,) if beta_ec == beta_ts else (beta_ec, beta_ts)
    labels = _contiguous(labels, np.int64)
    heavy = None if arrays.are_ones(weights) else _contiguous(weights, np.float64)
    is_half = takes_half(logits)
    plan = _exp_plan(betas, _DOUBLE if exact or is_half else _dtype(logits), False)

    def work(rows: slice) -> tuple[HostArray, bool]:
        sums = np.zeros(_N_SUMS)
        some = None if heavy is None else heavy[rows]
        arguments = labels[rows], some, rows.stop - rows.start, logits.shape[1], plan.c, sums
        if is_half:
            return sums, _call("half_block_sums", *_half(logits[rows]), *arguments)
        z, apart = _rows_apart(logits, rows)
        return sums, _call("block_sums", _kind(z, plan.in_double), z, apart, *arguments)

    parts = _in_blocks(logits, work)
    total = np.zeros(_N_SUMS)
    for sums, _ in parts:
        total += sums
    if any(is_unusual for _, is_unusual in parts):
        return total
    n_rows = len(labels) if heavy is None else np.count_nonzero(heavy)
    return np.append(total, [n_rows, 0, total[18] / logits.shape[1], 0])


# --- what a sketch keeps ---------------------------------------------------------------------------------------------------

_TILE = 8  # rows that C reads together


def node_sums(
    logits: HostArray,
    labels: HostArray,
    weights: HostArray,
    nodes: Sequence[float],
    beyond: Sequence[float],
    n_bins: int,
    bin_scale: float,
) -> NodeSums | None:
    """What a sketch keeps of rows at each of its ``nodes``; None if some logit or label has to be checked first.

    ``beyond`` is twice the β of those nodes for which no node is that. A confidence c is in the bin ceil(c·``bin_scale``) - 1.
    Rows of weight zero may hold anything.
    """
    plan = _exp_plan((*nodes, *beyond), _DOUBLE, True)
    ends, places = plan.kept[2:4]  # of the chains
    assert {*places[ends[1:] - 1].tolist()} == {*range(len(nodes), len(nodes) + len(beyond))}, "twice each node is there"
    labels, weights = _contiguous(labels, np.int64), _contiguous(weights, np.float64)
    unusual: list[slice] = []  # blocks; the others need not be read then

    def work(rows: slice) -> NodeSums:
        total = NodeSums.zeros(len(nodes), n_bins)
        if unusual:
            return total
        z = _rows(logits, rows)
        arguments = labels[rows], weights[rows], rows.stop - rows.start, logits.shape[1], plan.c, len(nodes), n_bins, bin_scale
        if _call("node_sums", _kind(z, True), z, *arguments, *total.arrays()):
            unusual.append(rows)
        return total

    parts = _in_blocks(logits, work, _TILE)
    return None if unusual else sum(parts[1:], parts[0])


# --- probabilities, scores and groups ----------------------------------------------------------------------------------------


def softmax(logits: HostArray, beta: float) -> tuple[HostArray, bool]:
    """The probabilities of logits of float32 or float64 at a finite positive ``beta``, in their precision.

    Also whether some logit has to be checked: one that is NaN, infinite or too large. -inf masks a class, whose probability is
    0.
    """
    dtype = _dtype(logits)
    probabilities, term = np.empty(logits.shape, dtype), byref(_term(beta, dtype))

    def work(rows: slice) -> bool:
        z = _rows(logits, rows)
        return _call("softmax", _kind(z, False), z, *z.shape, term, probabilities[rows])

    return probabilities, any(_in_blocks(logits, work))


# The numbers of native_scores.h: how many scores there are, and how many sums they and a bin have.
_N_SCORES = 4
_N_SCORE_SUMS = 2 + 3 * _N_SCORES
_N_BIN_SUMS = 7


def score_sums(
    logits: HostArray,
    labels: HostArray,
    weights: HostArray,
    beta: float,
    inner: HostArray,
    positive: HostArray | None = None,
    *,
    counts: bool,
) -> tuple[HostArray, HostArray, bool]:
    """The sums of native_scores.h over all rows and per bin, in float64, and whether something has to be checked.

    ``inner`` are the edges between bins. Where there are two classes, ``positive`` are those between bins of the probability
    of the second one, which come after the others.
    """
    own = np.empty(0) if positive is None else positive
    labels, weights = _contiguous(labels, np.int64), _contiguous(weights, np.float64)
    inner, own = _contiguous(inner, np.float64), _contiguous(own, np.float64)
    n_bins, n_positive = len(inner) + 1, 0 if positive is None else len(own) + 1
    term = byref(_term(beta, _DOUBLE))

    def work(rows: slice) -> tuple[HostArray, HostArray, bool]:
        sums, bins, z = np.zeros(_N_SCORE_SUMS), np.zeros((n_bins + n_positive, _N_BIN_SUMS)), _rows(logits, rows)
        arguments = z, labels[rows], weights[rows], *z.shape, term, beta, counts, inner, n_bins, own, n_positive, sums, bins
        return sums, bins, _call("score_sums", _kind(z, True), *arguments)

    parts = _in_blocks(logits, work)
    sums, bins, is_unusual = zip(*parts, strict=True)
    return _join_score_sums(np.stack(sums)), np.add.reduce(bins), any(is_unusual)


def _join_score_sums(parts: HostArray) -> HostArray:
    """The sums of all blocks, from those of each: squares around the means of all."""
    units, means = parts[:, 1, None], parts[:, 2 + _N_SCORES : 2 + 2 * _N_SCORES]
    total: HostArray = np.add.reduce(parts)
    if len(parts) > 1 and total[1] > 0:
        mean = (units * means).sum(axis=0) / total[1]
        total[2 + _N_SCORES : 2 + 2 * _N_SCORES] = mean
        total[2 + 2 * _N_SCORES :] += (units * (means - mean) ** 2).sum(axis=0)
    return total


_N_GROUP_SUMS = 6
_METHODS = {"ec": 0, "ts": 1}


def group_sums(
    logits: HostArray,
    labels: HostArray,
    weights: HostArray,
    codes: HostArray | None,
    betas: HostArray,
    method: str,
    *,
    counts: bool,
) -> tuple[HostArray, bool]:
    """The sums of native_groups.h of each group, (groups, 6), and whether something has to be checked.

    ``betas`` are those of the groups, ``codes`` the groups of the rows; without them, the group of a row is its top class.
    """
    labels, weights, betas = _contiguous(labels, np.int64), _contiguous(weights, np.float64), _contiguous(betas, np.float64)
    codes = None if codes is None else _contiguous(codes, np.int64)
    one = byref(_term(1.0, _DOUBLE))

    def work(rows: slice) -> tuple[HostArray, bool]:
        sums, z, own = np.zeros((len(betas), _N_GROUP_SUMS)), _rows(logits, rows), None if codes is None else codes[rows]
        arguments = z, labels[rows], own, weights[rows], *z.shape, one, betas, len(betas), _METHODS[method], counts, sums
        return sums, _call("group_sums", _kind(z, True), *arguments)

    parts = _in_blocks(logits, work)
    return np.add.reduce([sums for sums, _ in parts]), any(is_unusual for _, is_unusual in parts)
