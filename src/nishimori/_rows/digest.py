"""Which rows these are: a digest of how many there are, of how many classes, and of about a thousand of them with their labels.

Rows are those of positive weight, counted in the order in which they are read. Those whose number is a multiple of a stride are
kept; it is a power of two, and doubles whenever more than 1,024 are kept. So the digest does not depend on how rows are cut
into batches, nor is their number needed in advance. Values are those of float64, as they were passed: another dtype that holds
the same values, a file, and an array give the same digest. Other orders, or rows of which only a part is the same, do not.
"""

from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from nishimori._rows.rows import most_copied
from nishimori._rows.scores import Scores
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

# At most this many rows are kept, and fewer of rows with thousands of classes: 8 MiB of float64 take half a millisecond.
_ROWS, _NUMBERS = 1024, 2**20

# An odd number with about as many ones as zeros, as in Knuth's multiplicative hashing.
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

# So many numbers are worked on at a time.
_IN_CACHE = 2**15

# NumPy's product is the faster one for so few columns.
_FEW = 64


class RowDigest:
    """The digest of rows that come in batches, one after the other."""

    def __init__(self) -> None:
        self._n_rows = self._n_classes = 0
        self._stride = 1
        self._kept: list[HostArray] = []  # a number for each row that is kept

    def add(self, scores: Scores, labels: Any, weights: Any) -> None:
        """Take the next rows; ``labels`` are columns, and ``weights`` are None for ones."""
        counted = None
        if weights is not None and not arrays.are_ones(weights):
            counted = np.flatnonzero(arrays.on_host(weights))
        n_rows = scores.n_samples if counted is None else len(counted)
        before, self._n_rows, self._n_classes = self._n_rows, self._n_rows + n_rows, scores.n_classes
        self._widen_stride()
        first = -before % self._stride
        if first >= n_rows:
            return
        rows: slice | HostArray = slice(first, n_rows, self._stride)
        if counted is not None:
            rows = counted[rows]
        elif scores.is_scattered:
            rows = np.arange(first, n_rows, self._stride)
        some = scores.array[rows, ...] if isinstance(rows, slice) else arrays.rows_at(scores.array, rows)
        self._kept.append(_numbers_of(some, labels[rows]))

    def _widen_stride(self) -> None:
        """Double the stride until few enough rows are kept, and drop those that are between."""
        most, factor = most_copied(_ROWS, self._n_classes, _NUMBERS), 1
        while -(-self._n_rows // (self._stride * factor)) > most:
            factor *= 2
        if factor > 1:
            self._stride *= factor
            self._kept = [np.concatenate(self._kept)[::factor]] if self._kept else []

    @property
    def text(self) -> str | None:
        """The digest of all rows so far; None if there are none."""
        if not self._kept:
            return None
        sizes = np.array([self._n_rows, self._n_classes], np.uint64)
        return sha256(np.concatenate([sizes, *self._kept]).astype("<u8", copy=False).tobytes()).hexdigest()[:32]


def digest_of(scores: Scores, labels: Any, weights: Any) -> str | None:
    """The digest of rows that are all there; ``weights`` are None for ones."""
    digest = RowDigest()
    digest.add(scores, labels, weights)
    return digest.text


@cache
def _factors(number: int) -> HostArray:
    """As many different odd numbers."""
    factors: HostArray = (2 * np.arange(number, dtype=np.uint64) + 1) * _MIXER
    return factors


def _numbers_of(scores: Any, labels: Any) -> HostArray:
    """A number for each row: the sum of the bits of its values and its label, each times a number of its column's own."""
    stored = arrays.on_host(scores)
    stored = stored.reshape(len(stored), -1)
    own, step = _factors(stored.shape[1] + 1), max(1, _IN_CACHE // stored.shape[1])
    parts = [_row_sums(stored[start : start + step], own[:-1]) for start in range(0, len(stored), step)]
    hashes: HostArray = parts[0] if len(parts) == 1 else np.concatenate(parts)
    hashes += arrays.on_host(labels).astype(np.uint64) * own[-1]
    return hashes


def _row_sums(stored: HostArray, factors: HostArray) -> HostArray:
    values = stored.astype(np.float64, order="C")
    values += 0.0  # which has no negative zero
    bits = values.view(np.uint64)
    # The last bits of float32 numbers are zero in float64, and products move bits upwards only.
    bits ^= bits >> _HALF
    sums: HostArray = bits @ factors if len(factors) < _FEW else np.einsum("ij,j->i", bits, factors)
    return sums
