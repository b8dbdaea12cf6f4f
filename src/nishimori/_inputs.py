"""What the user passed, as batches that the rest of the library can trust.

A `Batches` can be read again and again; each reading yields float64 `Batch`es of a size that suits the device, so that beyond
the caller's own arrays only one block of rows is in memory at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from nishimori import _array
from nishimori._array import Array, HostArray, namespace
from nishimori._labels import Classes, checked_weights, class_indices
from nishimori._scores import Input, Scores, scores
from nishimori.errors import InputError


@dataclass(frozen=True)
class Batch:
    """Some rows: float64 logits (n, k), the true column of each, and a positive weight each.

    ``given`` are the probabilities whose logarithms the logits are, where probabilities were passed.
    """

    logits: Array
    labels: Array
    weights: Array
    has_masks: bool = False
    given: Array | None = None
    memo: dict[float, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def xp(self) -> Any:
        """The array API functions of this batch's library."""
        return namespace(self.logits)

    @cached_property
    def top(self) -> Array:
        """The predicted class of each row; of equal maxima the first."""
        return self.xp.argmax(self.logits, axis=1)

    @cached_property
    def drops(self) -> Array:
        """How far each logit lies below the maximum of its row: 0 at the top, 0 where masked, else negative or 0.

        The physics depends on differences alone, and taken from the top they keep their digits whatever constant a row carries.
        """
        drops = self.logits - self.at(self.logits, self.top)[:, None]
        return drops if self.live is None else self.xp.where(self.live, drops, self.xp.zeros_like(drops))

    @cached_property
    def live(self) -> Array | None:
        """Which entries are not masked; None if all are live."""
        return self.logits > -inf if self.has_masks else None

    @cached_property
    def label_drops(self) -> Array:
        """The drop of each row's true class: 0 if it is a top class, -inf if it is masked."""
        return self.at(self.logits, self.labels) - self.at(self.logits, self.top)

    @cached_property
    def ones(self) -> Array:
        """A one for each class, to sum over classes with."""
        return self.xp.ones_like(self.logits[0, :])

    def at(self, table: Array, columns: Array) -> Array:
        """One entry of each row."""
        return self.xp.take_along_axis(table, columns[:, None], axis=1)[:, 0]

    def total(self, rows: Array) -> float:
        """The weighted sum of one number a row."""
        return float(self.xp.sum(self.weights * rows))


class Batches:
    """Checked rows, readable any number of times."""

    def __init__(self, scores: Scores, labels: HostArray, weights: HostArray, label_name: str) -> None:
        self.scores = scores
        self.labels = labels
        self.weights = weights
        self.label_name = label_name

    @property
    def n_samples(self) -> int:
        return self.scores.n_samples

    @property
    def n_classes(self) -> int:
        return self.scores.n_classes

    def __iter__(self) -> Iterator[Batch]:
        for rows in self.scores.blocks():
            (logits, given), labels, weights = self.scores.exact(rows), self.labels[rows], self.weights[rows]
            if not weights.all():  # a weight of zero is zero copies: the row is not there
                (kept,) = np.nonzero(weights)
                if not len(kept):
                    continue
                logits, labels, weights = _array.rows_at(logits, kept), labels[kept], weights[kept]
                given = None if given is None else _array.rows_at(given, kept)
            batch = Batch(
                logits,
                _array.beside(labels, logits),
                _array.beside(weights, logits),
                has_masks=self.scores.n_masked > 0,
                given=given,
            )
            yield batch
            batch.memo.clear()  # it refers back to the batch, which only the garbage collector would find

    def sample(self, size: int) -> "Batches":
        """A random ``size`` of the rows, the same ones each time."""
        # Random, not every n-th: a stride aliases with periodic data.
        index = np.sort(np.random.default_rng(0).choice(self.n_samples, size, replace=False))
        return Batches(self.scores.sample(index), self.labels[index], self.weights[index], self.label_name)


def batches(
    logits: Any,
    labels: Any,
    sample_weight: Any = None,
    *,
    input: Input = "logits",
    classes: Classes = None,
    names: tuple[str, str] = ("logits", "labels"),
) -> Batches:
    """Check everything once; ``names`` are what the caller's signature calls the first two arguments."""
    checked = scores(logits, input=input, name=names[0])
    columns = class_indices(labels, classes, checked, names[1])
    return Batches(checked, columns, checked_weights(sample_weight, checked.n_samples), names[1])


def inverse(temperature: Any, name: str = "temperature") -> float:
    """β from a temperature the user passed as ``name``."""
    try:
        beta = 1 / float(temperature) if not isinstance(temperature, str | bool) else 0.0
    except (TypeError, ValueError, ZeroDivisionError):
        beta = 0.0
    if not 0 < beta < inf:
        raise InputError(f"`{name}` must be a finite positive number, got {temperature!r}.")
    return beta


def is_whole(value: Any) -> bool:
    """Whether ``value`` is an integer; True and 1.0 are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
