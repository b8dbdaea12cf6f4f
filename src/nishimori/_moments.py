"""Everything nishimori fits is a sum over rows; this is the sum.

A `Moments` is what remains of the data once it has been read. Adding two gives the moments of the rows behind both, so
chunks, processes and days of traffic combine with ``+`` and nothing has to be kept. A *pass* is any function from a `Batch`
to something that adds; `gather` runs one over the data, and `together` makes one of many, to read the data once for all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from nishimori import _array
from nishimori._array import Array
from nishimori._gibbs import Gibbs
from nishimori._inputs import Batch, Batches
from nishimori._observables import Observable


class Sum(Protocol):
    """Something that adds."""

    def __add__(self, other: Self) -> Self: ...


T = TypeVar("T", bound=Sum)


@dataclass(frozen=True)
class Moments:
    """Weighted sums of one observable: at the labels, and under the model at each of some β with two derivatives."""

    weight: float
    unit: float
    observed: float
    expected: np.ndarray[Any, Any]
    slope: np.ndarray[Any, Any]
    curvature: np.ndarray[Any, Any]

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.weight + other.weight,
            self.unit,
            self.observed + other.observed,
            self.expected + other.expected,
            self.slope + other.slope,
            self.curvature + other.curvature,
        )

    @property
    def gap(self) -> np.ndarray[Any, Any]:
        """How far the model's mean lies above the labels', at each β: zero where they are consistent."""
        gap: np.ndarray[Any, Any] = (self.expected - self.observed) / self.weight
        return gap

    @property
    def noise(self) -> np.ndarray[Any, Any]:
        """How large a gap rounding alone can make."""
        # A few units in the last place of the two terms that the gap is the difference of, and of the observable at the top.
        sizes = (np.abs(self.expected) + abs(self.observed)) / self.weight
        noise: np.ndarray[Any, Any] = np.finfo(float).eps * (16 * sizes + 2 * self.unit)
        return noise


def measure(batch: Batch, observable: Observable, betas: Sequence[float]) -> Moments:
    """The moments of one batch."""
    rows = [observable.expected(Gibbs.of(batch, beta)) for beta in betas]
    expected, slope, curvature = np.array([[batch.total(part) for part in parts] for parts in rows]).T
    return Moments(
        weight=batch.total(batch.xp.ones_like(batch.weights)),
        unit=observable.unit,
        observed=batch.total(observable.observed(batch)),
        expected=expected,
        slope=slope,
        curvature=curvature,
    )


@dataclass(frozen=True)
class Answers:
    """How many samples there are and how many are right, counted and weighed."""

    n_samples: int
    n_right: int
    n_at_masks: int
    weight: float
    right: float

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(
            self.n_samples + other.n_samples,
            self.n_right + other.n_right,
            self.n_at_masks + other.n_at_masks,
            self.weight + other.weight,
            self.right + other.right,
        )

    @property
    def accuracy(self) -> float:
        return self.right / self.weight


def average(batches: Batches, rows: Callable[[Gibbs], Array], beta: float) -> float:
    """The weighted mean of one number a row, which may depend on the model's distribution at ``beta``."""

    def total(batch: Batch) -> float:
        return batch.total(rows(Gibbs(batch, beta)))

    return gather(batches, total) / float(batches.weights.sum())


def count(batch: Batch, observable: Observable) -> Answers:
    """The answers of one batch; right is what ``observable`` (a `TopN`) calls right."""
    xp = batch.xp
    right = observable.observed(batch) == 0
    return Answers(
        n_samples=int(batch.labels.shape[0]),
        n_right=int(xp.sum(xp.astype(right, xp.int64))),
        n_at_masks=int(xp.sum(xp.astype(xp.isinf(batch.label_drops), xp.int64))) if batch.has_masks else 0,
        weight=batch.total(xp.ones_like(batch.weights)),
        right=batch.total(xp.astype(right, batch.weights.dtype)),
    )


def log_scale(batch: Batch) -> float:
    """The logarithm of how far the second largest logit lies below the largest, summed: where β has to be found.

    No constant per row moves it, and a mean of logarithms bears near ties and soft masks.
    """
    xp = batch.xp
    lead = xp.max(batch.logits, axis=1) - xp.min(_array.largest(batch.logits, 2), axis=1)
    known = (lead > 0) & xp.isfinite(lead)
    return batch.total(xp.where(known, xp.log(xp.where(known, lead, xp.ones_like(lead))), xp.zeros_like(lead)))


@dataclass(frozen=True)
class Together:
    """Several sums of the same rows; adds item by item."""

    items: tuple[Any, ...]

    def __add__(self, other: "Together") -> "Together":
        return Together(tuple(mine + theirs for mine, theirs in zip(self.items, other.items, strict=True)))


def together(*passes: Callable[[Batch], Any]) -> Callable[[Batch], Together]:
    """One pass that does the work of many while the data is read once."""
    return lambda batch: Together(tuple(pass_(batch) for pass_ in passes))


def gather(batches: Batches, pass_: Callable[[Batch], T]) -> T:
    """The sum of ``pass_`` over all rows."""
    report = _watcher.get()
    total: T | None = None
    done = 0
    for batch in batches:
        sums = pass_(batch)
        total = sums if total is None else total + sums
        done += int(batch.labels.shape[0])
        report(min(done / batches.n_samples, 0.99))
    report(1.0)
    assert total is not None, "no rows of positive weight; the checks refuse that"
    return total


_watcher: ContextVar[Callable[[float], None]] = ContextVar("_watcher", default=lambda _: None)


@contextmanager
def watched_by(report: Callable[[float], None]) -> Iterator[None]:
    """Call ``report`` with the fraction of each pass done, for a progress bar around any fit or metric."""
    token = _watcher.set(report)
    try:
        yield
    finally:
        _watcher.reset(token)
