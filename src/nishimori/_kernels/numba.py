"""Power sums compiled by Numba: the fastest kernel for NumPy arrays."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from nishimori._kernels.block import PowerSums, RowsNearBeta, doublings
from nishimori._kernels.half import takes_half
from nishimori._kernels.numba_exp import OFFSET
from nishimori._kernels.numba_fits import N_SUMS, fill_expanded_total, fill_expansion, fill_total
from nishimori._kernels.numba_half import fill_half, fill_half_expansion, fill_half_total
from nishimori._kernels.numba_loops import fill
from nishimori._rows.scores import LARGEST
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

__all__ = ["block_sums", "expand", "expanded_sums", "power_sums", "takes_half", "takes_unchecked"]

MAX_ORDER = 6


class _Plan(NamedTuple):
    """How to get the sums at some betas. A chain is a list of betas each twice the one before: one exp, then squares."""

    terms: HostArray
    """(chains, 4): the power of two that scales d, β·log2(e) of the scaled d in two parts, the smallest scaled d."""
    chains: HostArray
    """Where in ``places`` each chain starts, and the end."""
    places: HostArray
    """The index of each β in the caller's list."""
    factors: HostArray
    """(betas, 7): what undoes the scale in the sum of each power, in the order of ``places``."""
    zero: Any
    limit: Any
    """The largest logit that is usual."""


_LOG2_E = Fraction(math.log2(math.e)) + Fraction(2.0355273740931033e-17)


def _term(beta: float, dtype: "np.dtype[Any]") -> tuple[float, float, float, float]:
    # Powers of d alone would overflow float32 if logits are large and β is small; those of scaled d stay below 1e14.
    scale = math.ldexp(1.0, math.frexp(beta)[1] - 1)
    exponent = Fraction(beta) / Fraction(scale) * _LOG2_E
    # One float32 factor would multiply every d by (1 + 3e-8), and T would have this error.
    high = float(dtype.type(float(exponent)))
    return scale, high, float(exponent - Fraction(high)), -OFFSET[dtype] / high


@lru_cache(maxsize=64)
def _plan(betas: tuple[float, ...], dtype: "np.dtype[Any]", doubling: bool) -> _Plan:
    assert dtype in OFFSET, "half precision is widened to float32 by the caller"
    stored = dtype
    chains = [[i for i, _ in chain] for chain in doublings(betas)] if doubling else [[i] for i in range(len(betas))]
    regular = [betas[i] for chain in chains for i in chain]
    # Squaring doubles the relative error, and float32 has none to spare; nor does it hold the scale of an extreme β.
    if any(len(chain) > 1 for chain in chains) or any(not 2.0**-60 < beta < 2.0**60 for beta in regular):
        dtype = np.dtype(np.float64)
    terms = [_term(betas[chain[0]], dtype) for chain in chains]
    undo = [1.0 / term[0] for term, chain in zip(terms, chains, strict=True) for _ in chain]
    with np.errstate(over="ignore"):
        factors = np.asarray(undo, float).reshape(-1, 1) ** np.arange(MAX_ORDER + 1)
    return _Plan(
        np.asarray(terms, dtype).reshape(-1, 4),
        np.cumsum([0, *map(len, chains)]),
        np.asarray([i for chain in chains for i in chain], np.int64),
        np.minimum(factors, np.finfo(float).max),  # infinite times no class would be NaN
        stored.type(0),
        stored.type(min(LARGEST, float(np.finfo(stored).max))),
    )


def _fixed(x: HostArray, dtype: Any) -> HostArray:
    """``x`` contiguous and read-only: one type for all arrays, so that each function is compiled once."""
    fixed = np.require(np.asarray(x), dtype, ["C", "A"])[:]
    fixed.flags.writeable = False
    return fixed


# Logits that have to be copied, or converted, are so many at a time.
_COPIED = 2**18


def _pieces(logits: HostArray, dtype: "np.dtype[Any]") -> Iterator[tuple[slice, HostArray]]:
    """All rows at once if they can be read as they are, else as many as are copied at a time."""
    n, n_classes = logits.shape
    step = n if _is_plain(logits) and logits.dtype == dtype else _COPIED // n_classes
    for start in range(0, max(n, 1), max(step, 1)):
        rows = slice(start, min(start + max(step, 1), n))
        yield rows, _fixed(logits[rows], dtype)


def _is_plain(logits: HostArray) -> bool:
    return logits.flags.c_contiguous and logits.flags.aligned


def takes_unchecked(logits: HostArray) -> bool:
    """Whether these can be read as they are."""
    return logits.ndim == 2 and (logits.dtype in OFFSET or takes_half(logits)) and _is_plain(logits)


class _Half(NamedTuple):
    """Rows in half precision as the compiled loops take them."""

    bits: HostArray
    values: HostArray

    @classmethod
    def of(cls, logits: HostArray) -> "_Half":
        return cls(_fixed(arrays.half_bits(logits), np.uint16), arrays.half_values(arrays.dtype_name(logits)))


@lru_cache(maxsize=64)
def _half_plan(betas: tuple[float, ...], doubling: bool) -> tuple[Any, ...]:
    """The plan in float64 of those betas that are usual, with the places of all betas, of β = 0 and of β = ∞."""
    usual = [i for i, beta in enumerate(betas) if 0 < beta < math.inf]
    plan = _plan(tuple(betas[i] for i in usual), np.dtype(np.float64), doubling)
    places = np.asarray(usual, np.int64)[plan.places]
    ends = (np.asarray([i for i, beta in enumerate(betas) if beta == end], np.int64) for end in (0, math.inf))
    return (*plan._replace(places=places), *ends)


def power_sums(logits: HostArray, betas: Sequence[float], order: int) -> PowerSums:
    """Power sums for finite positive ``betas``, outside the largest class."""
    assert 0 <= order <= MAX_ORDER
    if takes_half(logits):
        return _half_power_sums(logits, betas, order)
    plan = _plan(tuple(betas), logits.dtype, doubling=True)
    parts = []
    for _, z in _pieces(logits, logits.dtype):
        top, sums = np.empty(len(z), np.int64), np.empty((len(betas), order + 1, len(z)))
        fill(z, plan, top, sums)
        parts.append(PowerSums(z[np.arange(len(z)), top], top, sums))
    if len(parts) == 1:
        return parts[0]
    peak, top = np.concatenate([part.peak for part in parts]), np.concatenate([part.top for part in parts])
    return PowerSums(peak, top, np.concatenate([part.sums for part in parts], axis=2))


def _half_power_sums(logits: HostArray, betas: Sequence[float], order: int) -> PowerSums:
    n, rows = len(logits), _Half.of(logits)
    peak, top, sums = np.empty(n, np.float32), np.empty(n, np.int64), np.empty((len(betas), order + 1, n))
    fill_half(*rows, _half_plan(tuple(betas), doubling=True), peak, top, sums)
    return PowerSums(peak, top, sums)


def block_sums(
    logits: HostArray, labels: HostArray, weights: HostArray, beta_ec: float, beta_ts: float, *, exact: bool = False
) -> HostArray:
    """The sums of a pair of observables; see `pair_sums`. What was counted comes with them if no logit is unusual."""
    betas = (beta_ec,) if beta_ec == beta_ts else (beta_ec, beta_ts)
    dtype = np.dtype(np.float64) if exact else logits.dtype
    total, is_unusual = np.zeros(N_SUMS + 4), False
    labels, weights = _fixed(labels, np.int64), _fixed(weights, np.float64)
    if takes_half(logits):
        is_unusual = fill_half_total(*_Half.of(logits), labels, weights, _half_plan(betas, doubling=False), total)
    else:
        plan = _plan(betas, dtype, doubling=False)
        for rows, z in _pieces(logits, dtype):
            is_unusual |= fill_total(z, labels[rows], weights[rows], plan, total)
    if is_unusual:
        return total[:N_SUMS]
    total[N_SUMS:] = np.count_nonzero(weights), 0, total[18] / logits.shape[1], 0
    return total


def expand(logits: HostArray, labels: HostArray, weights: HostArray, beta: float, *, exact: bool = False) -> RowsNearBeta:
    """Rows as functions of β near ``beta``; see `nishimori._fit.expansion`. Rows of weight zero do not depend on β."""
    n, is_unusual = len(logits), False
    columns = RowsNearBeta(np.empty(n), np.empty((MAX_ORDER, n)), np.empty(n), np.empty(n, bool))
    labels, weights = _fixed(labels, np.int64), _fixed(weights, np.float64)
    if takes_half(logits):
        plan = _half_plan((beta,), doubling=False)
        is_unusual = fill_half_expansion(*_Half.of(logits), labels, weights, plan, tuple(columns[:4]))
        return columns._replace(is_usual=not is_unusual)
    dtype = np.dtype(np.float64) if exact else logits.dtype
    for rows, z in _pieces(logits, dtype):
        part = tuple(each[..., rows] for each in columns[:4])
        is_unusual |= fill_expansion(z, labels[rows], weights[rows], _plan((beta,), dtype, doubling=False), part)
    return columns._replace(is_usual=not is_unusual)


def expanded_sums(rows: RowsNearBeta, weights: HostArray, step_ec: float, step_ts: float) -> HostArray:
    """The sums of a pair of observables a step away, each, and what the last cumulant changes."""
    total = np.zeros(N_SUMS + 2)
    fill_expanded_total(tuple(rows[:4]), _fixed(weights, np.float64), np.array([step_ec, step_ts]), total)
    return total
