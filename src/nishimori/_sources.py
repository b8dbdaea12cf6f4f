"""Where batches come from, and come from again: arrays in memory, or any object with a source's methods.

Everything that nishimori fits or measures asks a `Source` for the sum of a pass over all rows, and for nothing else. So a new
kind of data is one class: it says how many classes there are and yields batches, and every fit and metric works on it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from nishimori import _array
from nishimori._array import HostArray
from nishimori._inputs import Batch
from nishimori._labels import Classes, checked_weights, class_indices, column_names, refuse_permuted
from nishimori._progress import Report, silent
from nishimori._scores import SAY_PROBABILITIES, Input, Scores, scores, warn_if_probabilities
from nishimori.errors import InputError


class Sum(Protocol):
    """Something that adds."""

    def __add__(self, other: Self) -> Self: ...


T = TypeVar("T", bound=Sum)


class Source(Protocol):
    """Rows that can be read again and again. Subclass it to inherit `gather` and `sample`."""

    @property
    def n_classes(self) -> int:
        """How many columns the logits have."""

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, or None where that is not known before reading."""

    def __iter__(self) -> Iterator[Batch]:
        """One reading of the data."""

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows; ``report`` is told how many rows have been read."""
        total: T | None = None
        done = 0
        for batch in self:
            sums = pass_(batch)
            total = sums if total is None else total + sums
            done += batch.n_rows
            report("Reading", done, self.n_rows)
        if total is None:
            raise InputError("The data must have at least one row of positive weight, got none.")
        return total

    def sample(self, size: int) -> "Source | None":  # noqa: ARG002 - for those that can
        """A random ``size`` of the rows, the same ones each time, or None where that would take a reading."""
        return None


class ArraySource(Source):
    """Rows in an array of any library. The first reading checks the values of each block; later ones do not."""

    def __init__(self, scores: Scores, labels: HostArray, weights: HostArray) -> None:
        self.scores = scores
        self.labels = labels
        self.weights = weights
        self._masked: dict[int, bool] = {}  # by the first row of a block that was checked

    @property
    def n_classes(self) -> int:
        return self.scores.n_classes

    @property
    def n_rows(self) -> int:
        return self.scores.n_samples

    def __iter__(self) -> Iterator[Batch]:
        """Blocks of a size that suits the device, so that beyond the caller's array only one of them is in memory."""
        for rows in self.scores.blocks():
            labels, weights, kept = self.labels[rows], self.weights[rows], None
            if not weights.all():  # a weight of zero is zero copies: the row is not there
                (kept,) = np.nonzero(weights)
                if not len(kept):
                    continue
                labels, weights = labels[kept], weights[kept]
            values = self.scores.exact(rows, kept)
            if rows.start not in self._masked:
                numbers = range(rows.start, rows.stop) if kept is None else rows.start + kept
                self._masked[rows.start] = self.scores.check(values, numbers)
            logits, given = self.scores.as_logits(values)
            true, heavy = _array.beside(labels, logits), _array.beside(weights, logits)
            yield Batch(logits, true, heavy, given, self._masked[rows.start], self.scores.rounding)

    def sample(self, size: int) -> "ArraySource | None":
        """A random ``size`` of the rows, the same ones each time; None if all their weights are zero."""
        # Random, not every n-th: a stride aliases with periodic data.
        index = np.sort(np.random.default_rng(0).choice(self.n_rows, size, replace=False))
        if not self.weights[index].any():
            return None
        return ArraySource(self.scores.sample(index), self.labels[index], self.weights[index])


def source(
    logits: Any,
    labels: Any = None,
    sample_weight: Any = None,
    *,
    input: Input = "logits",
    classes: Classes = None,
    floor: float | None = None,
    names: tuple[str, str] = ("logits", "labels"),
    probability_remedy: str = SAY_PROBABILITIES,
) -> Source:
    """What the user passed, as a source; a source passes as it is.

    ``names`` are what the caller's signature calls the first two arguments. ``probability_remedy`` is what the user can do if
    the logits look like probabilities.
    """
    if is_source(logits):
        given = {
            names[1]: labels,
            "sample_weight": sample_weight,
            "classes": classes,
            "floor": floor,
            "input": None if input == "logits" else input,
        }
        for name, value in given.items():
            if value is not None:
                raise InputError(f"`{name}` must be left out where `{names[0]}` is a source, which brings its own.")
        found: Source = logits
        return found
    refuse_permuted(column_names(logits, names[0]), classes)
    table = scores(logits, input=input, name=names[0], floor=floor)
    weights = checked_weights(sample_weight, table.n_samples)
    warn_if_probabilities(table, probability_remedy, weights)
    return ArraySource(table, class_indices(labels, classes, table, names[1], weights), weights)


def is_source(value: Any) -> bool:
    """Whether ``value`` is a source, and not an array or a list."""
    return all(hasattr(value, name) for name in ("gather", "n_classes", "n_rows", "sample"))


class Reported(Source):
    """A source whose readings are counted and shown."""

    def __init__(self, inner: Source, what: str, report: Report) -> None:
        self._inner = inner
        self._what = what
        self._report = report
        self._readings = 0

    @property
    def n_classes(self) -> int:
        return self._inner.n_classes

    @property
    def n_rows(self) -> int | None:
        return self._inner.n_rows

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._inner)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows, told to both reports."""
        self._readings += 1
        what = f"{self._what}, pass {self._readings}"

        def told(step: str, done: int, total: int | None) -> None:
            self._report(what, done, total)
            report(step, done, total)

        return self._inner.gather(pass_, told)

    def sample(self, size: int) -> Source | None:
        """As of the source inside; too short to show."""
        return self._inner.sample(size)
