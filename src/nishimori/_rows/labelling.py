"""Which label belongs to which row, and which rows do not count: labels to ignore, and labels that are one position late.

Language models have a label per token. Some tokens have none, such as padding and prompts, and hold a label that stands for
that. The labels of a causal model are often its own input, so that the label of a position is found at the next one. Neither
needs a copy of the logits: rows that do not count get weight zero, and only the labels move.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._rows.labels import flat_labels, numeric_weights
from nishimori._rows.scores import Scores
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import is_whole
from nishimori.errors import InputError, NoRowsError, setting


@dataclass(frozen=True)
class Labelling:
    """How labels are read. Rows with the label ``ignore_index`` do not count.

    With ``shift_labels``, the label of each position of a sequence is that of the next position, and the last one has none.
    """

    ignore_index: int | None = None
    shift_labels: bool = False

    def __post_init__(self) -> None:
        if self.ignore_index is not None and not is_whole(self.ignore_index):
            raise InputError("ignore_index", "be a whole number, such as -100", got=repr(self.ignore_index))
        if not isinstance(self.shift_labels, bool | np.bool_):
            raise InputError("shift_labels", "be True or False", got=repr(self.shift_labels))

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to do."""
        return self.ignore_index is None and not self.shift_labels

    def apply(self, labels: Any, sample_weight: Any, scores: Scores, name: str) -> tuple[Any, Any]:
        """Labels and weights, one per row of ``scores``. Rows that do not count weigh zero. ``name`` is that of the labels."""
        weights = scores.per_row(sample_weight, "sample_weight")
        if self.is_plain:
            return labels, weights
        flat = flat_labels(labels, scores, name)
        if self.shift_labels and len(scores.leading) < 2:
            raise InputError(
                scores.name,
                "have shape (n_sequences, n_tokens, n_classes) where `shift_labels` is True",
                got=f"{tuple(scores.array.shape)}: it is not known where a sequence ends",
            )
        flat, counted = self.counted_labels(flat, scores.leading)
        if weights is None or not counted.any():
            return flat, None if counted.all() else counted.astype(np.float64)
        given = numeric_weights(weights)
        if given.shape != flat.shape:
            return flat, given  # refused later, as other values are
        return flat, np.where(counted, given, 0.0)  # weights of rows that do not count may be missing

    def counted_labels(self, flat: HostArray, leading: tuple[int, ...]) -> tuple[HostArray, HostArray]:
        """The label of each row, and which rows count. ``leading`` is the shape of the labels before they were made flat."""
        counted = np.ones(len(flat), dtype=bool)
        if self.shift_labels:
            length = leading[-1]
            flat, counted = np.roll(flat, -1), np.arange(len(flat)) % length < length - 1
        if self.ignore_index is not None:
            counted &= differ(flat, self.ignore_index)
        return flat, counted

    def refuse_nothing(self, weights: HostArray | None, name: str, labels: Any = None) -> None:
        """Raise if no row is left to count; ``labels`` tell whether it is the weights that leave none."""
        error = self.nothing(name)
        if error is None or weights is None or weights.any():
            return
        if self.ignore_index is not None and labels is not None and differ(labels, self.ignore_index).any():
            raise NoRowsError(
                "sample_weight", f"be positive for some sample whose label is not {setting('ignore_index')}", got="only zeros"
            )
        raise error

    def nothing(self, name: str) -> NoRowsError | None:
        """The error if no row is left to count; None if that cannot be due to labels."""
        if self.is_plain:
            return None
        what = "only labels that do not count" if self.shift_labels else f"only {self.ignore_index}"
        return NoRowsError(name, f"hold at least one label that is not {setting('ignore_index')}", got=what)


def differ(labels: HostArray, ignored: int) -> HostArray:
    """Which labels are not the one to ignore; text is compared with the number as text."""
    if labels.dtype.kind not in "OU":
        found: HostArray = np.asarray(labels != ignored)
        return found
    return np.array([value != ignored and value != str(ignored) for value in labels.tolist()], dtype=bool)


PLAIN = Labelling()
"""All rows count, and each has its own label."""
