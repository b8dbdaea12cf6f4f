"""Counts of rows: their number, weight, right answers, zeros and masks. Like every sum, it supports ``+``.

It also decides what users are warned about: answers that are too few, or hardly better than chance, to choose a temperature.

`Evenness` is the weight of rows whose logits differ by rounding only: such rows say nothing about a temperature. A model that
gives every class the same score may compute these scores in different ways, and their last digits differ. At a temperature of
the size of these digits they would decide the probabilities.
"""

from dataclasses import dataclass, field
from math import inf, sqrt
from operator import or_
from typing import Any

import numpy as np

from nishimori._kernels.kernel import kernel_name
from nishimori._kernels.sums import AnswerSums, BlockSums, Counted
from nishimori._rows.batch import Batch
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, Sum, combined_by
from nishimori._sums.observables import Confidence, TopN
from nishimori._sums.passes import Findings, Mean
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import Array
from nishimori._support.warnings import notice
from nishimori.errors import FewErrorsWarning, InputWarning, setting

_FEW = 10

# Where a temperature is refused, an accuracy that exceeds chance by fewer standard errors than this may be the reason.
_NEAR_CHANCE = 4


@dataclass(frozen=True)
class Census(Sum):
    """Counts of the rows of positive weight: names with ``n_`` are numbers of rows or entries, all others sums of weights.

    ``n_at_masks`` and ``n_at_zeros`` count rows whose true class is masked, or has probability zero. Right and wrong answers
    are summed apart, because one may outweigh the other by many orders of magnitude. ``chance`` is what random guesses would
    have for ``right``. ``kernels`` name what computed sums over classes.
    """

    n_rows: int
    n_right: int
    n_zeros: int
    n_masked: int
    n_at_masks: int
    n_at_zeros: int
    right: float
    wrong: float
    right_squares: float
    wrong_squares: float
    chance: float
    kernels: frozenset[str] = field(metadata=combined_by(or_))

    @property
    def weight(self) -> float:
        return self.right + self.wrong

    @property
    def accuracy(self) -> float:
        return self.right / self.weight

    @property
    def effective(self) -> dict[str, float]:
        """The effective numbers of right and wrong answers, as if of equal weight: (Σw)²/Σw² of each."""
        parts = {"right": (self.right, self.right_squares), "wrong": (self.wrong, self.wrong_squares)}
        return {name: weight**2 / squares if squares > 0 else 0.0 for name, (weight, squares) in parts.items()}

    @property
    def above_chance(self) -> float:
        """How many standard errors the accuracy lies above random guessing."""
        spread = sqrt(self.accuracy * (1 - self.accuracy) * (self.right_squares + self.wrong_squares)) / self.weight
        return (self.accuracy - self.chance / self.weight) / spread if spread > 0 else inf


@dataclass(frozen=True)
class Count:
    """The pass that counts rows and answers; an answer is right if ``right`` agrees at the true and the top class."""

    right: TopN

    @property
    def follows(self) -> bool:
        """Whether an answer is right if the top class is true, which kernels count."""
        return isinstance(self.right, Confidence)

    def __call__(self, batch: Batch) -> Census:
        return self.from_findings(batch, Predictions(batch, 1.0))  # the same at every β

    def from_findings(self, batch: Batch, findings: Findings) -> Census:
        """The counts of a batch, from what a kernel has found for another pass."""
        counted = None
        if self.follows and isinstance(findings, BlockSums):
            answers, counted = findings.answers, findings.counted
        else:
            rows = Predictions(batch, 1.0) if isinstance(findings, BlockSums) else findings  # answers are the same at every β
            answers = _answers(rows, rows.right if self.follows else self.right.observed(rows) == 0)
        if counted is None:  # some kernels count rows, masks and right guesses themselves
            n_masked = _number(batch.logits == -inf, batch.xp) if batch.has_masks else 0
            counted = Counted(batch.n_rows, n_masked, self._chance(batch), 0)
        return Census(
            n_rows=int(counted.n_rows),
            n_right=int(answers.n_right),
            n_zeros=0 if batch.probabilities is None else _number(batch.probabilities == 0, batch.xp),
            n_masked=int(counted.n_masked),
            n_at_masks=int(answers.n_at_masks),
            n_at_zeros=at_zeros(batch),
            right=answers.right,
            wrong=answers.wrong,
            right_squares=answers.right_squares,
            wrong_squares=answers.wrong_squares,
            chance=counted.chance,
            kernels=frozenset({kernel_name(batch)}),
        )

    def _chance(self, batch: Batch) -> float:
        """The weight of random guesses that are right."""
        n = self.right.n
        if batch.live is None:
            return batch.weight * n / batch.n_classes
        xp = batch.xp
        live = xp.sum(xp.astype(batch.live, batch.weights.dtype), axis=1)
        return batch.total(xp.where(live > n, n / live, xp.ones_like(live)))


def _answers(rows: Predictions, right: Array) -> AnswerSums:
    """The counts that depend on labels, from whether each answer is right."""
    batch, xp = rows.batch, rows.batch.xp
    flags = xp.astype(right, batch.weights.dtype)
    sums = batch.totals([flags, 1 - flags, batch.weights * flags, batch.weights * (1 - flags)])
    n_at_masks = float(xp.sum(xp.astype(xp.isinf(rows.label_drops), flags.dtype))) if batch.has_masks else 0.0
    right_weight, wrong, right_squares, wrong_squares = sums.tolist()
    return AnswerSums(right_weight, wrong, right_squares, wrong_squares, float(xp.sum(flags)), n_at_masks)


@question("has no rows to count")
def census(data: Rows) -> Census:
    """The census of all rows, from one pass."""
    return data.gather(Count(Confidence()))


def at_zeros(batch: Batch) -> int:
    """How many rows give probability zero to their true class."""
    return 0 if batch.probabilities is None else _number(batch.at(batch.probabilities, batch.labels) == 0, batch.xp)


def count_zeros(batch: Batch) -> Mean:
    """The pass that counts the rows whose true class has probability zero, out of all."""
    return Mean(at_zeros(batch), batch.n_rows)


def _number(flags: Any, xp: Any) -> int:
    return int(xp.sum(xp.astype(flags, xp.int64)))


def warn_if_few(census: Census) -> bool:
    """Warn if very few samples decide the temperature, or answers are hardly better than chance; return whether it did."""
    if (reason := _few(census, 2)) is None:
        return False
    why, remedy = reason
    notice(f"{why}, so the temperature is uncertain; {remedy}.", FewErrorsWarning)
    return True


def reason_of_uncertainty(census: Census, *, by_loss: bool) -> tuple[str, str]:
    """Why a temperature is so uncertain, and what to do, in sentences; ``by_loss`` if it minimises the loss."""
    if by_loss and census.n_at_zeros:
        return (
            f"The true class has probability 0 in {census.n_at_zeros} of {census.n_rows} samples, which decide it.",
            f"Pass {setting('floor', 'auto')}, or as {setting('floor')} the lowest probability that you consider possible.",
        )
    if (reason := _few(census, _NEAR_CHANCE)) is not None:
        why, remedy = reason
        return f"{why}.", f"{remedy[0].upper()}{remedy[1:]}."
    return "A few samples with scores or weights far from those of the others decide it.", "Use a larger validation set."


def _few(census: Census, least: float) -> tuple[str, str] | None:
    """Why few samples decide, and what to do; None unless so. Accuracy must be ``least`` standard errors above chance."""
    n_samples, wanted = census.n_rows, f"use a validation set with at least {_FEW} wrong and {_FEW} right answers"
    what, few = min(census.effective.items(), key=lambda item: item[1])
    number = census.n_right if what == "right" else n_samples - census.n_right
    if number < _FEW:
        return f"Only {number} of {n_samples} validation samples are answered {what}", wanted
    if few < _FEW * (1 - 1e-9):  # ten equal weights count as ten, whatever their sums round to
        why = (
            f"The {number} of {n_samples} validation samples that are answered {what} have such unequal weights that they "
            f"count as {few:.2g}, (Σw)²/Σw²"
        )
        return why, f"{wanted} of similar weight"
    if census.above_chance < least:
        by = "two" if least == 2 else f"{least:g}"
        why = (
            f"Accuracy {census.accuracy:.4g} is less than {by} standard errors above chance, "
            f"{census.chance / census.weight:.4g}"
        )
        remedy = "check that the labels and the columns of the logits use the same class order, or use a larger validation set"
        return why, remedy
    return None


def warn_of_zeros(n_at_zeros: int, n_samples: int, what: str, *, fits: bool = False) -> None:
    """Warn if true classes with probability zero decide ``what``.

    ``fits`` where something is fitted, so that the floor can be chosen from the data.
    """
    if n_at_zeros:
        choice = f", or {setting('floor', 'auto')}" if fits else ""
        notice(
            f"The true class has probability 0 in {n_at_zeros} of {n_samples} samples, so {what} depends on what 0 is replaced "
            f"by: here the smallest positive number of its dtype. Pass {setting('floor')}, the lowest probability that you "
            f"consider possible{choice}.",
            InputWarning,
        )


def verdict_on_zeros(where: str, what: str, *, fits: bool = False) -> str:
    """The caveat if true classes with probability zero decide ``what``; ``where`` counts the samples.

    They do wherever there are any, however few: a zero stands for a loss of 708 (float64) or 87 (float32), of which a
    temperature, a mean loss and their standard errors are made, and that number is arbitrary.
    """
    remedy = f"Pass {setting('floor', 'auto')}, or as {setting('floor')}" if fits else f"Pass as {setting('floor')}"
    return (
        f"The true class has probability 0 in {where}, which decides {what}: 0 is replaced by the smallest positive number of "
        f"its dtype, which is arbitrary. {remedy} the lowest probability that you consider possible."
    )


# --- rows whose logits differ by rounding only -----------------------------------------------------------------------------

# Scores that are computed in float64 differ by some tens of units in the last place; those of a network in float32 by a few. An
# offset of 1e6, which float32 holds to 0.06, is thus no rounding for logits that differ by more than half.
_UNITS_OF_DOUBLE, _UNITS = 64, 4
_DOUBLE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Evenness(Sum):
    """The weight of rows with equal logits up to rounding, the weight of all rows, and the largest such rounding."""

    even: float
    weight: float
    rounding: float = field(metadata=combined_by(max))

    def decides(self, temperature: float) -> bool:
        """Whether the rounding of most rows decides their probabilities at a temperature."""
        return 2 * self.even >= self.weight and temperature <= self.rounding


def measure_evenness(batch: Batch) -> Evenness:
    """The pass that compares the range of each row with the rounding of its largest logit."""
    xp, logits = batch.xp, batch.logits
    live = xp.ones_like(logits, dtype=xp.bool) if batch.live is None else batch.live
    least = xp.min(xp.where(live, logits, xp.full_like(logits, inf)), axis=1)
    size = xp.max(xp.where(live, xp.abs(logits), xp.zeros_like(logits)), axis=1)
    unit = max(_UNITS * arrays.epsilon(logits), _UNITS_OF_DOUBLE * _DOUBLE)
    if batch.probabilities is None:
        rounding = unit * arrays.in_double(size)
    else:  # the logarithm of a probability has its relative error
        rounding = xp.full_like(arrays.in_double(size), max(unit, _UNITS * batch.stored_rounding))
    even = arrays.in_double(batch.peak - least) <= rounding
    largest = float(xp.max(xp.where(even, rounding, xp.zeros_like(rounding))))
    return Evenness(batch.total(xp.astype(even, batch.weights.dtype)), batch.weight, largest)
