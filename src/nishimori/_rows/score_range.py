"""Scores that nobody has said anything about: the range of all of them, and whether they can be logits.

They are taken for logits. Numbers that all lie between 0 and 1 are hardly ever that, and ratings from 1 to 10 neither, so the
first is refused and the second is a warning, unless the caller has said what they are. Only the range of all rows tells:
a later batch, chunk or rank may hold a negative score, and with it all of them are logits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, isinf

import numpy as np

from nishimori._rows.scores import SLACK, Scores
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, setting

# Fewer rows than these may lie between 0 and 1 by chance; the second number is for one score per row.
_ENOUGH_ROWS, _ENOUGH_FLAT = 5, 20

# Almost all logits have a negative one among the first few, which come fast from another device too.
_FIRST_ROWS, _FIRST_COLUMNS = 8, 32

# What files have in place of infinity, which JSON has not.
_FAR = 1e300

FIT_AGAIN = "fit a calibrator with `input='probabilities'`"
"""What to do with probabilities where a calibrator takes logits."""

FITTED_TO_PROBABILITIES = "The calibrator was fitted to probabilities. If these are logits, fit one to logits."
"""What to do with logits where a calibrator takes probabilities."""


@dataclass(frozen=True)
class ScoreRange:
    """The range of the scores of some rows of positive weight; ``+`` pools two sets of rows.

    Nothing more is read after a block with a negative score, which settles that these are logits.

    Attributes
    ----------
    lowest, highest : float
        The range of what was read.
    n_rows : int
        How many rows were read.
    are_floats : bool
        Whether the numbers are stored as floating point.
    sum_to_one : bool
        Whether each row sums to 1, as far as the range leaves it open.
    is_flat : bool
        Whether there is one number per row.
    """

    lowest: float = inf
    highest: float = -inf
    n_rows: int = 0
    are_floats: bool = True
    sum_to_one: bool = True
    is_flat: bool = False

    @classmethod
    def of(cls, scores: Scores, weights: HostArray | None = None) -> "ScoreRange":
        """The range of some scores; rows of weight zero may hold anything."""
        is_float = arrays.kind(scores.array) == "float"
        found = cls(are_floats=is_float, is_flat=scores.is_binary_score)
        for values, is_part in _blocks(scores, weights):
            xp = namespace(values)
            lowest, highest = float(xp.min(values)), float(xp.max(values))
            inside = is_float and lowest >= 0 and highest <= 1 + SLACK
            if is_part:
                if not lowest >= 0:
                    return cls(lowest, highest, int(values.shape[0]), is_float, sum_to_one=False, is_flat=found.is_flat)
                continue
            sums = inside and not found.is_flat and found.sum_to_one
            sum_to_one = sums and bool(xp.all(xp.abs(arrays.row_sum(arrays.in_double(values)) - 1) <= scores.slack))
            found += cls(lowest, highest, int(values.shape[0]), is_float, sum_to_one, found.is_flat)
            if found.is_settled:
                break
        return found

    def __add__(self, other: "ScoreRange") -> "ScoreRange":
        return ScoreRange(
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            self.n_rows + other.n_rows,
            self.are_floats and other.are_floats,
            self.sum_to_one and other.sum_to_one,
            self.is_flat or other.is_flat,
        )

    @property
    def numbers(self) -> list[float]:
        """The range as finite numbers, for a file; a mask is -inf."""
        return [min(max(float(getattr(self, name)), -_FAR), _FAR) for name in self.__annotations__]

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> "ScoreRange":
        """The range that `numbers` came from."""
        lowest, highest, n_rows, *flags = map(float, numbers)
        are_floats, sum_to_one, is_flat = map(bool, flags)
        return cls(lowest, highest, int(n_rows), are_floats, sum_to_one, is_flat)

    @property
    def is_settled(self) -> bool:
        """Whether these are logits, whatever else there is. NaN is refused by those who check values."""
        return self.n_rows > 0 and not self.lowest >= 0

    @property
    def _tells(self) -> bool:
        """Whether there are enough rows without a negative score, and not all scores are equal."""
        enough = self.n_rows >= (_ENOUGH_FLAT if self.is_flat else _ENOUGH_ROWS)
        return enough and 0 <= self.lowest < self.highest and not isinf(self.highest)

    @property
    def is_of_probabilities(self) -> bool:
        """Whether practically nothing but probabilities has this range."""
        return self._tells and self.are_floats and self.highest <= 1 + SLACK

    def check(self, name: str, remedy: str = "", logits_setting: str = "", *, of_labels: bool = False) -> None:
        """Refuse scores that look like probabilities, and warn of others that are hardly logits.

        ``name`` is what the caller calls them. ``remedy`` is what to do where they are outputs of a network, which is then to
        be changed, and ``logits_setting`` how to say that they are logits. ``of_labels`` if each number is the probability of
        a label of its own.
        """
        if self.is_of_probabilities:
            raise InputError(
                name,
                "be said to be logits or probabilities",
                got=f"numbers from {self.lowest:.3g} to {self.highest:.3g} only{self._like}",
                remedy=self._ways_out(remedy, of_labels=of_labels),
            )
        if self._tells and self.highest > 1 + SLACK:
            notice(
                f"All `{name}` lie between {self.lowest:.3g} and {self.highest:.3g}, as ratings and counts do, which are not "
                f"logits: logits are scores before the softmax, and some are negative. If these are logits, say so with "
                f"{logits_setting or setting('input', 'logits')}; they are used as such.",
                InputWarning,
            )

    def warn(self, name: str, remedy: str, *, of_sigmoids: bool = False) -> None:
        """Warn where scores look like probabilities to which a calibrator was not fitted.

        Some logits to predict from may lie between 0 and 1; ``of_sigmoids`` if these are all there are, which tell.
        """
        if self.is_of_probabilities and (self.sum_to_one or self.is_flat or of_sigmoids):
            what = f"Each row of `{name}` sums to 1" if self.sum_to_one else f"All `{name}` lie between 0 and 1"
            notice(f"{what}, as probabilities do. If these are probabilities, {remedy}; they are used as logits.", InputWarning)

    @property
    def _like(self) -> str:
        if self.is_flat:
            return ", as probabilities are"
        return ", in rows that sum to 1" if self.sum_to_one else ", in rows that do not sum to 1, as after a sigmoid per class"

    def _ways_out(self, remedy: str, *, of_labels: bool) -> str:
        """What to do: ``remedy``, or to say what the scores are; and where rows do not sum to 1, what is for several labels."""
        probabilities, logits = setting("input", "probabilities"), setting("input", "logits")
        both = f"Pass {probabilities} if these are probabilities, or {logits} if they are scores before the softmax."
        if self.is_flat or self.sum_to_one or of_labels:
            return remedy or both
        several = "If several classes can be true at once, use nishimori.MultilabelCalibrator."
        if remedy:
            return remedy if "MultilabelCalibrator" in remedy else f"{several} {remedy}"
        return (
            f"{several} If one is true, pass {logits} for scores before the softmax, or {probabilities} for rows that sum to 1."
        )


def _blocks(scores: Scores, weights: HostArray | None) -> Iterator[tuple[Array, bool]]:
    """Scores of rows that count: at first a few numbers, which are only a part of their rows, then all, block by block."""
    n_first = min(_FIRST_ROWS, scores.n_samples)
    for rows, is_part in chain([(slice(0, n_first), True)], ((each, False) for each in scores.blocks())):
        values = arrays.numpy_view(scores.at(rows))
        values = arrays.in_single(values) if arrays.is_half(values) else values
        if is_part and not scores.is_binary_score:
            values = values[:, : min(_FIRST_COLUMNS, scores.n_classes)]
        if weights is not None and not arrays.are_ones(weights):
            kept = np.flatnonzero(weights[rows])
            if len(kept) < rows.stop - rows.start:
                values = arrays.rows_at(values, kept)
        if values.shape[0]:
            yield values, is_part


def warn_of_probabilities(scores: Scores, remedy: str, *, of_sigmoids: bool = False) -> None:
    """Warn where scores to predict from, which a calibrator takes for logits, look like probabilities; see `ScoreRange`."""
    enough = _ENOUGH_FLAT if scores.is_binary_score else _ENOUGH_ROWS
    if scores.input == "logits" and scores.n_samples >= enough:
        ScoreRange.of(scores).warn(scores.name, remedy, of_sigmoids=of_sigmoids)
