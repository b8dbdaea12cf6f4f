"""Claims: one number per answer that says how likely it is right, and whether it was.

They are rows of two classes, wrong and right, in which nothing is predicted: what a row claims is always that it is right, and
its confidence is the probability of that, also below 1/2. So everything that measures confidence against what came true takes
claims as they are. What the rows are read from, the `Rows` inside know.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, Self, Unpack

import numpy as np

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch
from nishimori._rows.entry import ANNEXES, kind_of, open_rows
from nishimori._rows.labels import OUTCOMES
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.rows import Rows, RowsInside, T
from nishimori._rows.scores import PERCENTAGES
from nishimori._support.arrays import Array, as_array, on_host
from nishimori._support.display import plural
from nishimori._support.numbers import numeric, one_of
from nishimori._support.progress import Report, silent
from nishimori.errors import InputError, setting

ClaimInput = Literal["probabilities", "logits", "scores"]

# Less than this is left for other classes than the predicted one only by rounding.
_LEAST = 2.0**-52

_FROM_CLASSES = (
    "For a classifier, pass `nishimori.rows(logits, labels)`: it claims that each of its answers is right. Or pass the "
    "probability of one class, and whether that class is the true one."
)

_TWO_CLASSES = "a claim is right or wrong"
_NOT_OF_CLAIMS = {
    "classes": f"{_TWO_CLASSES}: pass 1 or True for right",
    "class_axis": _TWO_CLASSES,
    "shift_labels": "each answer already has its own confidence",
    "member_axis": "each answer has one confidence: pool the members first",
}

_WORDS: dict[str, str | tuple[str, str]] = {
    "input": (
        '{"probabilities", "logits", "scores"}',
        'What ``confidence`` holds: "probabilities" from 0 to 1, their log-odds ("logits"), or "scores" on any other '
        "scale, such as a judge's scores from 1 to 10, which mean nothing until a calibrator has been fitted to them.",
    ),
    "floor": "Smaller probabilities are raised to this, larger ones lowered to 1 minus this; by default only exact 0 and 1.",
}

NAMES = ("confidence", OUTCOMES)
"""The columns, or arrays, of a file, which are called as the arguments are."""

# What the numbers are called.
_CALLED = {"probabilities": "confidence", "logits": "log-odds", "scores": "scores"}


def remedy_for_others() -> str:
    """What to do if confidences do not lie between 0 and 1."""
    return f"{PERCENTAGES} For scores on another scale, such as 1 to 10, pass {setting('input', 'scores')}."


@dataclass(frozen=True)
class ClaimBatch(Batch):
    """Rows of two classes, whose second column is the claim."""

    @classmethod
    def from_batch(cls, batch: Batch) -> Self:
        """The same rows as claims."""
        return cls(*(getattr(batch, part.name) for part in fields(Batch)))

    @property
    def is_claim(self) -> bool:
        return True

    @cached_property
    def top(self) -> Array:
        """What is claimed of each row: that it is right."""
        return self.xp.ones_like(self.labels)


@dataclass(frozen=True)
class _Converted:
    """A pass that converts each batch of the wrapped rows first; it can be sent to other processes."""

    convert: Callable[[Batch], Batch]
    pass_: Callable[[Batch], Any]

    def __call__(self, batch: Batch) -> Any:
        return self.pass_(self.convert(batch))


class Claims(RowsInside):
    """Rows with one claim each; ``input`` is "scores" if a calibrator must first turn the numbers into probabilities.

    ``confidence`` are the numbers as they were passed. Without labels there is nothing to sum, only something to apply to.
    """

    is_claims, are_scores = True, False
    kind = "Claims object"
    arguments = NAMES

    def __init__(self, inside: Rows, confidence: Any = None, *, are_scores: bool = False, has_labels: bool = True) -> None:
        super().__init__(inside)
        self.confidence = confidence
        self.are_scores = are_scores
        self.has_labels = has_labels

    def __repr__(self) -> str:
        """How many answers there are and, where the numbers are in memory, their range and the share that is right."""
        rows = self.inside
        parts = [] if self.n_rows is None else [plural(self.n_rows, "answer")]
        if isinstance(rows, ArrayRows) and self.confidence is not None and rows.weights.any():
            numbers = np.asarray(on_host(as_array(self.confidence)), dtype=np.float64)[rows.weights > 0]
            what = _CALLED["scores" if self.are_scores else rows.input]
            parts.append(f"{what} {numbers.min():.2f} to {numbers.max():.2f}")
            if self.has_labels:
                parts.append(f"{100 * np.average(rows.labels, weights=rows.weights):.0f} % right")
        return f"Claims: {', '.join(parts)}" if parts else "Claims"

    def _of(self, inside: Rows) -> "Claims":
        """Other rows as the same kind of claims."""
        return Claims(inside, are_scores=self.are_scores, has_labels=self.has_labels)

    def __iter__(self) -> Iterator[Batch]:
        self._refuse_unlabelled()
        return (ClaimBatch.from_batch(batch) for batch in self.inside)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all claims."""
        self._refuse_unlabelled()
        return self.inside.gather(_Converted(ClaimBatch.from_batch, pass_), report)

    def _refuse_unlabelled(self) -> None:
        if not self.has_labels:
            raise InputError("right", "say whether each answer was right", got="None", remedy="Pass 0 or 1 per answer.")

    def sample(self, size: int) -> Rows | None:
        """About ``size`` of the claims."""
        part = self.inside.sample(size)
        return part if part is None else self._of(part)

    def with_floor(self, floor: float | None) -> Rows | None:
        """Claims of at least ``floor``, and at most 1 - ``floor``."""
        part = self.inside.with_floor(floor)
        return part if part is None else self._of(part)

    @property
    def kept(self) -> Rows | None:
        part = self.inside.kept
        return part if part is None else self._of(part)

    def check_range(self, name: str) -> None:
        """As for the wrapped rows."""
        self.inside.check_range(name)

    def on_digest(self, callback: Callable[[str], None]) -> None:
        """As for the wrapped rows."""
        self.inside.on_digest(callback)


@takes_rows(refuses=_NOT_OF_CLAIMS, words=_WORDS, defaults={"input": "probabilities"})
def claims(
    confidence: Any,
    right: Any = None,
    *,
    columns: str | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    **options: Unpack[RowOptions],
) -> Rows:
    """Answers with one confidence each, and whether each was right: from a language model, a judge or a detector.

    A claim says "this answer is right with probability p". Nothing is decided at p = 1/2, and no class is predicted. What this
    returns goes wherever rows go: `evaluate`, `compare`, `gate`, `diff`, `threshold`, the `fit` of "intercept", "platt",
    "beta", "isotonic", "histogram" and "best", reports and plots.

    Parameters
    ----------
    confidence : array of shape (n_samples,), path, or batches
        The confidence of each answer. Or the path of a file, or a loader of batches ``(confidence, right)``.
    right : array of shape (n_samples,), optional
        Whether each answer was right: 0 or 1, False or True, or the texts yes and no. For a file, the name of its column,
        "right" by default. For an array, it may be left out where a calibrator is applied, by its `predict_proba`.
    columns : str, optional
        For a file: the column of the confidences, "confidence" by default.
    delimiter, decimal : str
        For .csv and .tsv files, as for `rows`.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``floor``, ``ignore_index``.

    Returns
    -------
    Rows
        The claims, to pass in place of logits and labels.

    Examples
    --------
    >>> import nishimori
    >>> stated = [0.9, 0.8, 0.95, 0.9, 0.6]
    >>> right = [1, 0, 1, 1, 0]
    >>> card = nishimori.evaluate(nishimori.claims(stated, right))
    >>> print(f"stated {card.confidence:.2f}, right {card.accuracy:.2f}")
    stated 0.83, right 0.60
    """
    holds: Any = one_of("input", options.pop("input", "probabilities"), ClaimInput)
    kind = kind_of(confidence, right)
    is_flat = len(getattr(confidence, "shape", ())) == 1
    if kind == "rows" or (kind in ANNEXES and kind != "file" and not is_flat):  # of a classifier
        return _of_answers(confidence, right, holds, options)
    of_file: dict[str, Any] = {}
    if kind == "file":
        of_file = {"columns": columns or NAMES[0]} | ({"delimiter": delimiter} if delimiter else {})
        of_file |= {"decimal": decimal} if decimal != "." else {}
        right = OUTCOMES if right is None else right
    elif columns is not None or delimiter is not None or decimal != ".":
        misplaced = "columns" if columns is not None else "delimiter" if delimiter is not None else "decimal"
        raise InputError(misplaced, f"be left out where `confidence` is a {type(confidence).__name__}: it is for files")
    has_labels = right is not None or kind == "batches"
    if kind in ("array", "stored"):
        shape = tuple(numeric(confidence, "confidence").shape)
        if len(shape) != 1:
            remedy = _FROM_CLASSES if len(shape) == 2 else "Pass `confidence.reshape(-1)`, and `right` in the same way."
            raise InputError("confidence", "be one number per answer", got=f"shape {shape}", remedy=remedy)
        right = [0] * shape[0] if right is None else right
    meaning: Any = {"input": "logits" if holds == "scores" else holds, "names": NAMES}
    inside = open_rows(confidence, right, of_file=of_file, probability_remedy=remedy_for_others(), **meaning, **options)
    if inside.n_classes != 2:
        raise InputError("confidence", "be one number per answer", got=f"{inside.n_classes} columns", remedy=_FROM_CLASSES)
    return Claims(inside, confidence, are_scores=holds == "scores", has_labels=has_labels)


def _of_answers(data: Any, right: Any, input: str, options: RowOptions) -> Claims:
    """The answers of a classifier as claims."""
    others = {"right": right, "input": None if input == "probabilities" else input, **options}
    for name, value in others.items():
        if value not in (None, False):
            remedy = "Pass it when you make the Rows object."
            raise InputError(name, "be left out where `confidence` is a Rows object", remedy=remedy)
    if getattr(data, "is_claims", False):
        return data
    return Claims(AnswersOfClasses(open_rows(data)))


def _answers_of(batch: Batch) -> Batch:
    """The answers of a batch: rows of two classes, wrong and right, with the confidence of the predicted class."""
    xp = batch.xp
    weights = (
        xp.exp(batch.drops) if batch.live is None else xp.where(batch.live, xp.exp(batch.drops), xp.zeros_like(batch.drops))
    )
    others = xp.sum(weights, axis=1) - 1  # loses digits of confidences near 1, which nobody can tell from 1
    rest = xp.where(others > _LEAST, others, xp.full_like(others, _LEAST))
    logits = xp.stack([xp.log(rest), xp.zeros_like(rest)], axis=1)
    labels = xp.astype(batch.right, batch.labels.dtype)
    return Batch(logits, labels, batch.weights, masked=False, clusters=batch.clusters, groups=batch.groups)


class AnswersOfClasses(RowsInside):
    """The answers of a classifier, each right or wrong, with the confidence of its predicted class."""

    n_classes = 2

    def __iter__(self) -> Iterator[Batch]:
        return (_answers_of(batch) for batch in self.inside)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all answers."""
        return self.inside.gather(_Converted(_answers_of, pass_), report)

    def sample(self, size: int) -> Rows | None:
        """About ``size`` of the answers."""
        part = self.inside.sample(size)
        return part if part is None else AnswersOfClasses(part)
