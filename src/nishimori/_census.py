"""What the rows are: how many, how heavy, how many right, how many zeros and masks. It adds, like every other sum."""

from dataclasses import astuple, dataclass
from math import inf
from typing import Any

from nishimori._inputs import Batch
from nishimori._observables import Confidence, TopN
from nishimori._sources import Source


@dataclass(frozen=True)
class Census:
    """Counts of the rows of positive weight; `weight` and `right` are sums of weights, all else numbers of rows or entries.

    ``n_at_masks`` counts rows whose true class is masked.
    """

    n_rows: int
    n_right: int
    n_zeros: int
    n_masked: int
    n_at_masks: int
    weight: float
    right: float

    def __add__(self, other: "Census") -> "Census":
        return Census(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def accuracy(self) -> float:
        return self.right / self.weight


@dataclass(frozen=True)
class Count:
    """The pass; an answer is right if ``right`` is at the true class what it is at the top."""

    right: Confidence | TopN

    def __call__(self, batch: Batch) -> Census:
        xp = batch.xp
        right = self.right.observed(batch) == 0
        return Census(
            n_rows=batch.n_rows,
            n_right=_number(right, xp),
            n_zeros=0 if batch.given is None else _number(batch.given == 0, xp),
            n_masked=_number(batch.logits == -inf, xp) if batch.has_masks else 0,
            n_at_masks=_number(xp.isinf(batch.label_drops), xp) if batch.has_masks else 0,
            weight=batch.weight,
            right=batch.total(xp.astype(right, batch.weights.dtype)),
        )


def census(data: Source) -> Census:
    """The census of a source, from one reading."""
    return data.gather(Count(Confidence()))


def _number(flags: Any, xp: Any) -> int:
    return int(xp.sum(xp.astype(flags, xp.int64)))
