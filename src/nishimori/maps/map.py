"""What calibration does to logits: a frozen map with named parameters. It is what calibrators produce and what is saved."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from nishimori._rows.scores import Scores
from nishimori._support.arrays import Array, is_writable, like, on_device_of, row_max, with_rows
from nishimori.maps.softmax import log_softmax_of_drops, softmax_of_drops


class Map(ABC):
    """A function from logits to logits; the softmax of its result is calibrated.

    Attributes
    ----------
    kind : str
        Its name on disk.
    format_version : int
        The first version of the file format that has it.
    keeps_predictions : bool
        Whether the largest logit of each row stays the largest. Predictions and accuracy are then those of the logits as they
        were. It is checked on some rows when a calibrator is fitted, loaded or evaluated.
    needs_groups : bool
        Whether `apply` needs the group of each row.
    """

    kind: ClassVar[str]
    format_version: ClassVar[int] = 3
    keeps_predictions: bool = False
    needs_groups: bool = False

    @abstractmethod
    def apply(self, logits: Array, groups: Any = None) -> Array:
        """The calibrated logits of each row, in the array library and dtype of ``logits``.

        ``groups`` name the group of each row, for maps that treat groups differently; all others ignore it.
        """

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The parameters by name, as plain numbers and lists."""

    @property
    def n_classes(self) -> int | None:
        """How many classes logits must have; None if it does not matter."""
        return None

    @property
    def in_words(self) -> str:
        """What the map is called in messages."""
        return f"the map of the kind {self.kind!r}"

    def exponents(self, logits: Array, groups: Any = None) -> Array:
        """Calibrated logits minus the largest of their row: what the softmax exponentiates."""
        mapped = self.apply(logits, groups)
        return mapped - row_max(mapped)

    def probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The softmax of the calibrated logits."""
        return softmax_of_drops(self.exponents(logits, groups))

    def log_probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The logarithms of the calibrated probabilities, exact also where those round to 0 or 1."""
        return log_softmax_of_drops(self.exponents(logits, groups))


class WideMap(Map):
    """A map that is the same for all groups and computed in float64, whatever the dtype of the logits."""

    @abstractmethod
    def apply_in_double(self, logits: Array) -> Array:
        """The calibrated logits of each row in float64."""

    def apply(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """The calibrated logits of each row, in the array library and dtype of ``logits``."""
        with np.errstate(over="ignore"):  # beyond the range of the dtype, as in float16 beyond 65,504: infinite
            return like(self.apply_in_double(logits), logits)

    def exponents(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """Calibrated logits minus the largest of their row, subtracted in float64 before they are rounded."""
        with np.errstate(over="ignore"):
            mapped = self.apply_in_double(logits)
            return like(mapped - row_max(mapped), logits)


def in_blocks(given: Scores, rule: Callable[[slice | None], Array]) -> Array:
    """``rule`` of all rows of ``given`` in one array of their library, filled a block at a time: no table is held besides it.

    ``rule`` gives the result of each row of a block, or of all rows if it gets None, as where a library cannot fill arrays. It
    takes the rows from `Scores.logits` or `Scores.table`, which check them.
    """
    blocks = list(given.blocks()) if is_writable(given.array) else [None]
    result = first = rule(blocks[0])
    if len(blocks) > 1:
        result = with_rows(first, given.n_samples)
        result[blocks[0], ...] = first
        for rows in blocks[1:]:
            result[rows, ...] = rule(rows)
    return on_device_of(result, given.array) if type(result) is np.ndarray else result
