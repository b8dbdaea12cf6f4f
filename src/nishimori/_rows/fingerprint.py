"""Find out whether two sets of rows are the same: exactly, by a digest, or up to rounding, by a fingerprint of their logits.

A digest says which rows these are, also after years and in another format: it is made of how many there are, of how many
classes, and of about a thousand of them with their labels. Rows are those of positive weight, counted in the order in which
they are read. Those whose number is a multiple of a stride are kept; it is a power of two, and doubles whenever more than 1,024
are kept. So the digest does not depend on how rows are cut into batches, nor is their number needed in advance. Values are
those of float64, as they were passed: another dtype that holds the same values, a file, and an array give the same digest.
Other orders, or rows of which only a part is the same, do not.

A fingerprint says whether logits that are computed again are the same: it is a few random linear forms of them, summed over all
rows. A loader or a function that makes batches computes its logits again in every pass. If it augments its inputs or leaves
dropout on, each pass sees other data, and what is fitted belongs to none of them. The sums of eight fixed random forms do not
depend on the order of the rows, follow from the sums of the columns, and tell such changes from the rounding of a GPU, however
many rows there are: of n rows that change independently, the sums change by √n times as much as one row, and so does their
scale.
"""

from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from math import sqrt
from sys import float_info
from typing import TYPE_CHECKING, Any

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._rows.rows import Sum, most_copied
from nishimori._rows.scores import Scores
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray

if TYPE_CHECKING:
    from nishimori._rows.array_rows import ArrayRows

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
    """The digest of rows that arrive in batches, and the rows that are kept for it.

    ``n_numbers`` is how many scores may be kept; the digest is made of at most 1,024 rows.
    """

    def __init__(self, n_numbers: int | None = None) -> None:
        self._n_rows = self._n_classes = 0
        self._stride = 1
        self._n_numbers = n_numbers
        self._kept: list[SpacedRows] = []

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
        numbers = [scores.sample(rows).array, labels[rows], *([] if counted is None else [weights[rows]])]
        # Copies: a view would keep its whole batch in memory.
        self._kept.append(SpacedRows(*(arrays.on_host(values).copy() for values in numbers)))

    def _widen_stride(self) -> None:
        """Double the stride until few enough rows are kept, and drop the rows in between."""
        factor = self._factor(self._stride, self._most_kept)
        if factor > 1:
            self._stride *= factor
            self._kept = [part.every(factor) for part in self._joined()]

    @property
    def _most_kept(self) -> int:
        if self._n_numbers is None:
            return self._most_digested
        return max(self._most_digested, self._n_numbers // self._n_classes)

    @property
    def _most_digested(self) -> int:
        return most_copied(_ROWS, self._n_classes, _NUMBERS)

    def _factor(self, stride: int, most: int) -> int:
        factor = 1
        while -(-self._n_rows // (stride * factor)) > most:
            factor *= 2
        return factor

    def _joined(self) -> "list[SpacedRows]":
        return [SpacedRows.joined(self._kept)] if self._kept else []

    @property
    def rows(self) -> "SpacedRows | None":
        """The rows that were kept, in order; None if there are none."""
        return next(iter(self._joined()), None)

    @property
    def text(self) -> str | None:
        """The digest of all rows so far; None if there are none."""
        if not self._kept:
            return None
        factor = self._factor(self._stride, self._most_digested)
        sizes = np.array([self._n_rows, self._n_classes], np.uint64)
        hashes = [_numbers_of(part.scores, part.labels) for part in (rows.every(factor) for rows in self._joined())]
        return sha256(np.concatenate([sizes, *hashes]).astype("<u8", copy=False).tobytes()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class SpacedRows:
    """Some rows on the host: scores as they were passed, columns of the true classes, and weights (None if all are 1)."""

    scores: HostArray
    labels: HostArray
    weights: HostArray | None = None

    @classmethod
    def joined(cls, parts: "list[SpacedRows]") -> "SpacedRows":
        """The rows of several parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        weights = None
        if any(part.weights is not None for part in parts):
            weights = np.concatenate([np.ones(len(part.labels)) if part.weights is None else part.weights for part in parts])
        return cls(np.concatenate([part.scores for part in parts]), np.concatenate([part.labels for part in parts]), weights)

    def every(self, factor: int) -> "SpacedRows":
        """A copy of the rows whose number is a multiple of ``factor``."""
        if factor == 1:
            return self
        weights = None if self.weights is None else self.weights[::factor].copy()
        return SpacedRows(self.scores[::factor].copy(), self.labels[::factor].copy(), weights)


def digest_of(scores: Scores, labels: Any, weights: Any) -> str | None:
    """The digest of a complete set of rows; ``weights`` is None if all are 1."""
    digest = RowDigest()
    digest.add(scores, labels, weights)
    return digest.text


@cache
def _factors(number: int) -> HostArray:
    """Distinct odd numbers, ``number`` of them."""
    factors: HostArray = (2 * np.arange(number, dtype=np.uint64) + 1) * _MIXER
    return factors


def _numbers_of(scores: HostArray, labels: HostArray) -> HostArray:
    """A number for each row: the sum of the bits of its values and its label, each multiplied by a number for its column."""
    stored = scores.reshape(len(scores), -1)
    own, step = _factors(stored.shape[1] + 1), max(1, _IN_CACHE // stored.shape[1])
    parts = [_row_sums(stored[start : start + step], own[:-1]) for start in range(0, len(stored), step)]
    hashes: HostArray = parts[0] if len(parts) == 1 else np.concatenate(parts)
    hashes += labels.astype(np.uint64) * own[-1]
    return hashes


def _row_sums(stored: HostArray, factors: HostArray) -> HostArray:
    values = stored.astype(np.float64, order="C")
    values += 0.0  # which has no negative zero
    bits = values.view(np.uint64)
    # The last bits of float32 numbers are zero in float64, and products move bits upwards only.
    bits ^= bits >> _HALF
    sums: HostArray = bits @ factors if len(factors) < _FEW else np.einsum("ij,j->i", bits, factors)
    return sums


# --- the fingerprint of logits --------------------------------------------------------------------------------------------

_N_FORMS = 8

# How much the sums may change, as a part of the root of the summed squares of the forms. On logits of networks for CIFAR-10,
# computing twice in bfloat16 stays below 5.5e-3 (rounding once below 4e-3), and normal noise of half a logit is above 1.2e-2.
_LIMIT = 7e-3

# A class so far below the largest logit of its row is masked, whether by -inf, by the lowest number of a dtype (-65504 in
# float16) or by -1e9. Such numbers would hide every change of the others.
_MASKED = 1e4

# Sums of many numbers in another order differ by more than the spacing of float64.
_SUMMED = 1e-12

# NumPy multiplies matrices of this many logits without threads, which wait for each other beside other busy programs.
_UNTHREADED, _FEWEST_ROWS = 2**15, 32


@lru_cache(maxsize=4)
def _forms(n_classes: int) -> HostArray:
    """Random vectors (n_classes, 8) that sum to zero over classes, so that a constant per row has no effect."""
    forms: HostArray = np.random.default_rng(0).standard_normal((n_classes, _N_FORMS))
    forms -= forms.mean(axis=0)
    return forms


@dataclass(frozen=True, eq=False)
class Fingerprint(Sum):
    """Sums over rows: of the forms, of their squares (the mean over forms), and of the squared rounding of the logits.

    Only the sums of the forms are those of a later pass; the others are the scale that they are compared with.
    """

    sums: HostArray = field(default_factory=lambda: np.zeros(_N_FORMS))
    squares: float = 0.0
    rounding: float = 0.0

    @classmethod
    def from_rows(cls, rows: "ArrayRows", *, is_first: bool) -> "Fingerprint":
        """The fingerprint of all rows of positive weight, in the first pass or in a later one."""
        columns: Array | None = None
        squares = rounding = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for batch in rows:
                values, xp = _without_masks(batch), batch.xp
                sums = xp.sum(values, axis=0, dtype=xp.float64)
                columns = sums if columns is None else columns + sums
                if is_first:
                    squares += _sum_of_squares(values) / _N_FORMS
                    rounding += _squared_size(batch, values)
        if columns is None:
            return cls()
        stored = rows.scores.array
        spacing = max(_SUMMED, arrays.epsilon(stored) if arrays.kind(stored) == "float" else 0.0)
        return cls(np.einsum("k,kj", arrays.on_host(columns), _forms(rows.n_classes)), squares, spacing**2 * rounding)

    def change(self, later: "Fingerprint") -> float:
        """How much a later pass differs, relative to the scale of the first."""
        return sqrt(float(np.mean((later.sums - self.sums) ** 2)) / max(self.squares, float_info.min))

    def agrees(self, later: "Fingerprint") -> bool:
        """Whether a later pass has given the same logits, up to rounding. NaN, which only the first pass refuses, does not."""
        allowed = max(_LIMIT * sqrt(self.squares), sqrt(self.rounding))
        return sqrt(float(np.mean((later.sums - self.sums) ** 2))) <= allowed


def _sum_of_squares(values: Array) -> float:
    """The sum of the squares of all forms of all rows."""
    xp = arrays.namespace(values)
    forms = xp.astype(arrays.on_device_of(_forms(values.shape[1]), values), values.dtype)
    step = max(_FEWEST_ROWS, _UNTHREADED // values.shape[1]) if isinstance(values, np.ndarray) else values.shape[0]
    blocks = (arrays.in_double(values[start : start + step, :] @ forms) for start in range(0, values.shape[0], step))
    return sum(float(xp.sum(block**2)) for block in blocks)


def _squared_size(batch: Batch, values: Array) -> float:
    """The sum of the squares of all numbers that the rounding error of logits grows with."""
    # The logarithm of a probability has the relative error of the probability, whatever its size.
    if batch.probabilities is not None:
        return batch.n_rows * batch.n_classes
    squares = float(batch.xp.sum(values * values))
    if values is batch.logits:
        return squares
    return squares + batch.n_classes * float(batch.xp.sum(arrays.in_double(batch.peak) ** 2))


def _without_masks(batch: Batch) -> Array:
    """The logits, up to a constant per row; 0 where a class is masked."""
    if arrays.is_within(batch.logits, _MASKED / 2):
        return batch.logits  # the forms do not see the constant
    xp = batch.xp
    drops = batch.logits - batch.peak[:, None]
    return xp.where(drops < -_MASKED, xp.zeros_like(drops), drops)
