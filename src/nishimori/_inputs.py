"""Some rows of checked data: what every pass looks at.

A `Batch` holds float64 logits, the column of each row's true class, and a positive weight per row. A source makes it, and
nothing after it checks values again.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

from nishimori import _array
from nishimori._array import Array, namespace

# The spacing of float64 at 1.
_EPSILON = 2.0**-52


@dataclass(frozen=True)
class Batch:
    """Some rows: float64 logits (n, k), the true column of each, and a positive weight for each.

    ``given`` are the probabilities whose logarithms the logits are, where probabilities were passed. ``masked`` says whether
    some logit is -inf; if it is None, that is looked up when it is first needed. ``stored_rounding`` is the relative error of
    probabilities as they were passed.
    """

    logits: Array
    labels: Array
    weights: Array
    given: Array | None = None
    masked: bool | None = None
    stored_rounding: float = 0.0

    @property
    def n_rows(self) -> int:
        return int(self.logits.shape[0])

    @cached_property
    def xp(self) -> Any:
        """The array API functions of this batch's library."""
        return namespace(self.logits)

    @cached_property
    def has_masks(self) -> bool:
        """Whether some class of some row is masked."""
        return bool(self.xp.any(self.logits == -inf)) if self.masked is None else self.masked

    @property
    def passed(self) -> Array:
        """What the order of the classes is taken from: different probabilities can have the same logarithm."""
        return self.logits if self.given is None else self.given

    @cached_property
    def top(self) -> Array:
        """The predicted class of each row; of equal maxima the first."""
        return self.xp.argmax(self.passed, axis=1)

    @cached_property
    def drops(self) -> Array:
        """How far each logit lies below the maximum of its row: 0 at the top, 0 where masked, else negative or 0.

        Probabilities depend on differences alone, and differences from the top keep their digits whatever constant a row has.
        """
        drops = self.logits - self.at(self.logits, self.top)[:, None]
        return drops if self.live is None else self.xp.where(self.live, drops, self.xp.zeros_like(drops))

    @cached_property
    def others(self) -> Array:
        """The drop of each class that is neither the top class nor masked, and -inf for those."""
        nothing = self.xp.full_like(self.drops, -inf)
        drops = self.drops + 0 if self.live is None else self.xp.where(self.live, self.drops, nothing)
        return _array.with_entries(drops, self.top, -inf)

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

    @property
    def rounding(self) -> float:
        """Probabilities that differ by less than this relative amount count as equal: the order of a sum can change so much."""
        return max(self.stored_rounding, _EPSILON * max(16, int(self.logits.shape[1]) / 8))

    @cached_property
    def weight(self) -> float:
        """The sum of the weights."""
        return self.total(self.xp.ones_like(self.weights))

    def at(self, table: Array, columns: Array) -> Array:
        """One entry of each row."""
        return self.xp.take_along_axis(table, columns[:, None], axis=1)[:, 0]

    def total(self, rows: Array) -> float:
        """The weighted sum of one number per row."""
        return float(self.xp.sum(self.weights * rows))
