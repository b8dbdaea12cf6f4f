"""Whether logits that are computed again are the same: a few random linear forms of them, summed over all rows.

A loader or a function that makes batches computes its logits again in every pass. If it augments its inputs or leaves dropout
on, each pass sees other data, and what is fitted belongs to none of them. The sums of eight fixed random forms do not depend
on the order of the rows, follow from the sums of the columns, and tell such changes from the rounding of a GPU, however many
rows there are: of n rows that change independently, the sums change by √n times as much as one row, and so does their scale.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from sys import float_info

import numpy as np

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError

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


def _no_sums() -> HostArray:
    return np.zeros(_N_FORMS)


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Sums over rows: of the forms, of their squares (the mean over forms), and of the squared rounding of the logits.

    Only the sums of the forms are those of a later pass; the others are the scale that they are compared with.
    """

    sums: HostArray = field(default_factory=_no_sums)
    squares: float = 0.0
    rounding: float = 0.0

    def __add__(self, other: "Fingerprint") -> "Fingerprint":
        return Fingerprint(self.sums + other.sums, self.squares + other.squares, self.rounding + other.rounding)

    @classmethod
    def from_rows(cls, rows: ArrayRows, *, is_first: bool) -> "Fingerprint":
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
        """How much a later pass differs, as a part of the scale of the first."""
        return _root_mean_square(later.sums - self.sums) / sqrt(max(self.squares, float_info.min))

    def agrees(self, later: "Fingerprint") -> bool:
        """Whether a later pass has given the same logits, up to rounding. NaN, which only the first pass refuses, does not."""
        allowed = max(_LIMIT * sqrt(self.squares), sqrt(self.rounding))
        return _root_mean_square(later.sums - self.sums) <= allowed

    def other_logits(self, later: "Fingerprint", name: str, remedy: str) -> InputError:
        """The error if they are not the same; ``name`` is that of the data, and ``remedy`` what the user can do."""
        return InputError(
            name,
            "give the same logits in every pass over the data",
            got=(
                "logits that change from one pass to the next while rows and labels stay the same: by "
                f"{self.change(later):.2g} of their scale, where rounding stays below {_LIMIT:g}"
            ),
            remedy=(
                "Likely causes are random augmentation, dropout, sampling, or a generator that is not started again "
                f"with the same seed. {remedy}"
            ),
        )


def _root_mean_square(values: HostArray) -> float:
    return sqrt(float(np.mean(values**2)))


def _sum_of_squares(values: Array) -> float:
    """The sum of the squares of all forms of all rows."""
    xp = arrays.namespace(values)
    forms = xp.astype(arrays.on_device_of(_forms(values.shape[1]), values), values.dtype)
    step = max(_FEWEST_ROWS, _UNTHREADED // values.shape[1]) if isinstance(values, np.ndarray) else values.shape[0]
    blocks = (arrays.in_double(values[start : start + step, :] @ forms) for start in range(0, values.shape[0], step))
    return sum(float(xp.sum(block**2)) for block in blocks)


def _squared_size(batch: Batch, values: Array) -> float:
    """The sum of the squares of all numbers by whose size the rounding of logits grows."""
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
