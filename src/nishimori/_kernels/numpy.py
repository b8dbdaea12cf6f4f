"""Power sums of NumPy arrays, in place and in pieces that stay in the cache of one core.

Arrays of float32 are exponentiated as they are; at most 64 float32 numbers are summed before float64 takes over. A
piece is transposed, with a table row per class, because loops over the few classes of each row would cost more than the
arithmetic.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from nishimori._kernels.sums import PowerSums, doublings
from nishimori._support.arrays import HostArray

# Elements per piece. Four tables of this size stay in 2 MiB of cache; with fewer elements the calls cost more than the work.
_PIECE = 2**16

# Rows per piece at least: with fewer, loops along a table row would be too short.
_FEWEST = 64

# How many float32 numbers are added before float64 takes over.
_ADDENDS = 64

# Smaller exponents are raised to this: they have no weight, and arithmetic below the smallest normal number is slow.
_LEAST = {np.dtype(np.float32): -87.0, np.dtype(np.float64): -708.0}

# Smaller weights would have squares below the smallest normal number.
_LEAST_SQUARED = {np.dtype(np.float32): 2.0**-63, np.dtype(np.float64): 2.0**-511}


def power_sums(logits: HostArray, betas: Sequence[float], order: int) -> PowerSums:
    """Power sums for finite positive ``betas``, outside the largest class."""
    n, k = logits.shape
    step = min(max(_PIECE // k, _FEWEST), n)
    tables = np.empty((4, k * step), logits.dtype)  # for all pieces: new ones would take as long as a part of the work
    peak, sums = np.empty(n, logits.dtype), np.empty((len(betas), order + 1, n))
    chains = doublings(betas)
    is_tied = False
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        piece = _Piece(logits[rows], tables)
        peak[rows], is_tied = piece.peak, is_tied or piece.is_tied
        for chain in chains:
            _add_chain(piece, chain, sums[:, :, rows])
    return PowerSums(peak, logits.argmax(axis=1) if is_tied else None, sums)


@cache
def _bias(dtype: "np.dtype[Any]") -> float:
    """The mean relative error of `numpy.exp`: 5e-9 in float32 on a processor with AVX-512, of which T would show a part."""
    x = -((np.arange(2**16) + 0.5) / 2**13).astype(dtype)
    return float(np.mean(np.exp(x) / np.exp(x.astype(np.float64)) - 1)) if dtype == np.float32 else 0.0


def _add_chain(piece: "_Piece", chain: list[tuple[int, float]], sums: HostArray) -> None:
    """Fill in ``sums`` at the β of one chain."""
    first = chain[0][1]
    rounded = piece.drops.dtype.type(first)
    piece.exponentiate(rounded)
    rounding = first / float(rounded) - 1
    bias = _bias(rounded.dtype)
    for doubled, (i, _) in enumerate(chain):
        if doubled:
            piece.square()
        moments = piece.moments(sums.shape[1])
        if rounding:  # float32 rounds β; what that changes is known from the next power
            moments[:-1] += rounding * 2**doubled * moments[1:]
        for j in range(1, len(moments)):  # from powers of βd to those of d, one β after the other: a power may overflow
            moments[j:] /= float(rounded)
        sums[i] = moments / (1 + bias) ** 2**doubled


class _Piece:
    """Some rows in tables with a row per class: their drops d, exponents x = βd, weights exp(x) and products with powers."""

    def __init__(self, rows: HostArray, tables: HostArray) -> None:
        self.drops, self._exponents, self._weights, self._products = tables[:, : rows.size].reshape(4, *rows.T.shape)
        np.copyto(self.drops, rows.T)
        self.peak: HostArray = self.drops.max(axis=0)
        np.subtract(self.drops, self.peak, out=self.drops)
        self._tops = self.drops == 0
        self.is_tied = bool(np.count_nonzero(self._tops) > len(rows))

    def exponentiate(self, beta: Any) -> None:
        """Set the weights to those at β, without the top classes."""
        np.multiply(self.drops, beta, out=self._exponents)
        np.maximum(self._exponents, self.drops.dtype.type(_LEAST[self.drops.dtype]), out=self._exponents)
        np.exp(self._exponents, out=self._weights)
        np.subtract(self._weights, self._tops, out=self._weights)

    def square(self) -> None:
        """Set the weights to those at twice the β."""
        # There is always a weight that is too small: that of the top class is zero.
        np.maximum(self._weights, self.drops.dtype.type(_LEAST_SQUARED[self.drops.dtype]), out=self._weights)
        np.multiply(self._weights, self._weights, out=self._weights)

    def moments(self, number: int) -> HostArray:
        """Σ x^j exp(x) of each row, from j = 0 on: (number, rows)."""
        sums = np.empty((number, len(self.peak)))
        sums[0] = _sum_classes(self._weights)
        if self.is_tied:  # the weights of all top classes were set to zero, and all but one of them belong to the sum
            sums[0] += self._tops.sum(axis=0) - 1
        powers = self._weights
        for j in range(1, number):
            powers = np.multiply(powers, self._exponents, out=self._products)
            sums[j] = _sum_classes(powers)
        return sums


def _sum_classes(table: HostArray) -> HostArray:
    """The sum over the classes of each row."""
    in_groups = len(table) // _ADDENDS * _ADDENDS
    sums: HostArray = np.ones(len(table) - in_groups, table.dtype) @ table[in_groups:]
    if in_groups:
        groups = np.ones(_ADDENDS, table.dtype) @ table[:in_groups].reshape(-1, _ADDENDS, table.shape[1])
        sums = sums + groups.sum(axis=0, dtype=np.float64)
    return sums
