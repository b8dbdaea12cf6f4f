"""Power sums of NumPy arrays, in place and in pieces that stay in the cache of one core.

Arrays of float32 are exponentiated as they are; at most a thousand float32 numbers are summed before float64 takes over. With
many classes a piece lies in memory row by row. With few it is transposed, because loops over ten classes would cost more than
the arithmetic.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from nishimori._kernels.sums import PowerSums, doublings
from nishimori._support.arrays import HostArray

# Elements per piece. Five tables of this size stay in 2 MiB of cache; with fewer elements the calls cost more than the work.
_PIECE = 2**16

# Below this number of classes rows are transposed. Measured: at 100 classes the two ways cost the same.
_FEW = 100

# How many float32 numbers are added before float64 takes over: BLAS keeps 64 partial sums, of 16 numbers each then.
_ADDENDS = 1024

# Smaller exponents are raised to this: they have no weight, and arithmetic below the smallest normal number is slow.
_LEAST = {np.dtype(np.float32): -87.0, np.dtype(np.float64): -708.0}

# The sixth power of this is far from the end of float64.
_SMALL = 1e-40

# Smaller weights would have squares below the smallest normal number.
_LEAST_SQUARED = {np.dtype(np.float32): 2.0**-63, np.dtype(np.float64): 2.0**-511}


def power_sums(logits: HostArray, betas: Sequence[float], order: int) -> PowerSums:
    """Power sums for finite positive ``betas``, outside the largest class."""
    n, k = logits.shape
    n_pieces = -(-n * k // _PIECE)
    step = -(-n // min(n, n_pieces))  # pieces of the same size
    piece = _piece(step, k, logits.dtype)
    peak, top = np.empty(n, logits.dtype), np.empty(n, np.int64)
    sums = np.empty((len(betas), order + 1, n))
    chains = doublings(betas)
    decided = True
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        peak[rows] = piece.load(logits[rows], top[rows])
        for chain in chains:
            _add_chain(piece, chain, sums[:, :, rows])
        decided = decided and not piece.tied
    if isinstance(piece, _RowByRow):
        return PowerSums(peak, top, sums)
    return PowerSums(peak, None if decided else logits.argmax(axis=1), sums)


_memory = threading.local()


def _piece(n_rows: int, n_classes: int, dtype: "np.dtype[Any]") -> "_Piece":
    """Tables to work with. Each thread keeps some from its last calls: new ones take as long as the work of a small block."""
    pieces: dict[tuple[int, Any], _Piece] = _memory.__dict__.setdefault("pieces", {})
    piece = pieces.get((n_classes, dtype))
    if piece is None or piece.n_rows < n_rows:
        if len(pieces) > 1:
            pieces.clear()
        piece = (_Transposed if n_classes < _FEW else _RowByRow)(n_rows, n_classes, dtype)
        pieces[n_classes, dtype] = piece
    return piece


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
        moments = np.empty(sums.shape[1:])
        piece.moments(moments, keep=doubled + 1 < len(chain))
        if rounding:  # float32 rounds β; what that changes is known from the next power
            moments[:-1] += rounding * 2**doubled * moments[1:]
        _scale(moments, 1 / float(rounded), 1 / (1 + bias) ** 2**doubled, sums[i])


def _scale(moments: HostArray, unit: float, factor: float, sums: HostArray) -> None:
    """Turn sums of powers of βd into those of powers of d."""
    if _SMALL < unit < 1 / _SMALL:
        np.multiply(moments, factor * unit ** np.arange(len(moments))[:, None], out=sums)
        return
    for j in range(1, len(moments)):  # one factor after the other: a power of an extreme β would overflow
        moments[j:] *= unit
    np.multiply(moments, factor, out=sums)


class _Piece(ABC):
    """Some rows and tables of their drops d, exponents x = βd, weights exp(x) and squares x²."""

    tied: bool
    squares_are_known: bool

    def __init__(self, n_rows: int, shape: tuple[int, int], dtype: "np.dtype[Any]") -> None:
        self.n_rows = n_rows
        self._room = tuple(np.zeros(shape, dtype) for _ in range(5))

    @abstractmethod
    def load(self, rows: HostArray, top: HostArray) -> HostArray:
        """Take the drops of some rows and return their largest logits; ``top`` may be told where those are."""

    @abstractmethod
    def leave_out(self) -> None:
        """Set the weight of the top class of each row to zero."""

    def use(self, rows: Any) -> None:
        """Work with a part of the tables."""
        self.drops, self.exponents, self.weights, self.squares, self.products = (table[rows] for table in self._room)

    def exponentiate(self, beta: Any) -> None:
        """Weights at β, without the top class."""
        np.multiply(self.drops, beta, out=self.exponents)
        least = _LEAST[self.drops.dtype]
        if not self.exponents.min() >= least:
            np.maximum(self.exponents, self.drops.dtype.type(least), out=self.exponents)
        np.exp(self.exponents, out=self.weights)
        self.leave_out()
        self.squares_are_known = False

    def square(self) -> None:
        """Weights at twice the β."""
        # There is always a weight that is too small: that of the top class is zero.
        np.maximum(self.weights, self.drops.dtype.type(_LEAST_SQUARED[self.drops.dtype]), out=self.weights)
        np.multiply(self.weights, self.weights, out=self.weights)

    @abstractmethod
    def moments(self, out: HostArray, *, keep: bool) -> None:
        """Fill ``out`` (order + 1, n) with Σ x^j exp(x) of each row; the weights are overwritten unless ``keep``."""


class _RowByRow(_Piece):
    """A table row per row of logits, cut into groups of classes of equal length; the last one is padded."""

    def __init__(self, n_rows: int, n_classes: int, dtype: "np.dtype[Any]") -> None:
        n_groups = -(-n_classes // _ADDENDS)
        self._group = -(-n_classes // n_groups)
        self._ones = np.ones(self._group, dtype)
        self._n_classes = n_classes
        super().__init__(n_rows, (n_rows, n_groups * self._group), dtype)

    def load(self, rows: HostArray, top: HostArray) -> HostArray:
        self.use(slice(len(rows)))
        self._index = np.arange(len(rows))
        rows.argmax(axis=1, out=top)
        self._top = top
        self.tied = False
        peak: HostArray = rows[self._index, top]
        np.subtract(rows, peak[:, None], out=self.drops[:, : self._n_classes])
        return peak

    def leave_out(self) -> None:
        self.weights[self._index, self._top] = 0
        self.weights[:, self._n_classes :] = 0

    def moments(self, out: HostArray, *, keep: bool) -> None:
        """Two powers from each product: the sums of x·y and of x²·y, with y = exp(x), x²·exp(x), and so on."""
        order, powers, room = len(out) - 1, self.weights, self.products if keep else self.weights
        out[0] = self._sum_groups(np.vecdot(self._in_groups(powers), self._ones))
        if order > 1 and not self.squares_are_known:
            np.multiply(self.exponents, self.exponents, out=self.squares)
            self.squares_are_known = True
        for j in range(1, order + 1, 2):
            if j > 1:
                powers = np.multiply(powers, self.squares, out=room)
            for i, power in enumerate((self.exponents, self.squares)[: order + 1 - j]):
                out[j + i] = self._sum_groups(np.vecdot(self._in_groups(powers), self._in_groups(power)))

    def _in_groups(self, table: HostArray) -> HostArray:
        return table.reshape(len(table), -1, self._group)

    @staticmethod
    def _sum_groups(groups: HostArray) -> HostArray:
        added: HostArray = groups[:, 0] if groups.shape[1] == 1 else groups.sum(axis=1, dtype=np.float64)
        return added


class _Transposed(_Piece):
    """A table row per class."""

    def __init__(self, n_rows: int, n_classes: int, dtype: "np.dtype[Any]") -> None:
        self._is_top = np.empty((n_classes, n_rows), bool)
        super().__init__(n_rows, (n_classes, n_rows), dtype)

    def load(self, rows: HostArray, top: HostArray) -> HostArray:  # noqa: ARG002 - costs more than it saves
        n_rows = len(rows)
        self.use((slice(None), slice(n_rows)))
        np.copyto(self.drops, rows.T)
        peak: HostArray = self.drops.max(axis=0)
        np.subtract(self.drops, peak, out=self.drops)
        self._tops = np.equal(self.drops, 0, out=self._is_top[:, :n_rows])
        self.tied = bool(np.count_nonzero(self._tops) > n_rows)
        return peak

    def leave_out(self) -> None:
        np.subtract(self.weights, self._tops, out=self.weights)

    def moments(self, out: HostArray, *, keep: bool) -> None:
        powers, room = self.weights, self.products if keep else self.weights
        out[0] = powers.sum(axis=0)
        if self.tied:  # the weights of all top classes were set to zero, and all but one of them belong to the sum
            out[0] += self._tops.sum(axis=0) - 1
        for j in range(1, len(out)):
            powers = np.multiply(powers, self.exponents, out=room)
            out[j] = powers.sum(axis=0)
