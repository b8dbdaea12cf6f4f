"""What calibration does to logits: a frozen map with named parameters. It is what calibrators produce and what is saved."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from nishimori._array import Array, beside, is_writable, namespace, row_max, row_sum, with_rows
from nishimori._scores import Scores


class Map(ABC):
    """A function from logits to logits; the softmax of its result is calibrated.

    Attributes
    ----------
    kind : str
        Its name on disk.
    keeps_predictions : bool
        Whether the largest logit of each row stays the largest.
    needs_groups : bool
        Whether `apply` needs the group of each row.
    """

    kind: ClassVar[str]
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

    def exponents(self, logits: Array, groups: Any = None) -> Array:
        """Calibrated logits minus the largest of their row: what the softmax exponentiates."""
        mapped = self.apply(logits, groups)
        return mapped - row_max(mapped)

    def probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The softmax of the calibrated logits."""
        exponents = self.exponents(logits, groups)
        weights = namespace(exponents).exp(exponents)
        return weights / row_sum(weights)

    def log_probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The logarithms of the same, exact also where those round to 0 or 1."""
        exponents = self.exponents(logits, groups)
        xp = namespace(exponents)
        return exponents - xp.log(row_sum(xp.exp(exponents)))


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
    return beside(result, given.array) if type(result) is np.ndarray else result
