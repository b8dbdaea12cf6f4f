"""Whole answers of a language model, and multiple choice: from log-probabilities of tokens to scores that can be calibrated.

The probability of an answer is the product of the probabilities of its tokens. `answers` adds up their logarithms. `log_odds`
turns the sums into binary scores, whose labels say whether each answer is right. `choices` puts the choices of each question
into one row of logits. Calibrators and metrics take these scores.
"""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from nishimori._rows.labels import encode_values
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import between, numeric
from nishimori.errors import InputError

__all__ = ["Answers", "Choices", "answers", "choices", "log_odds"]

# The difference of a logit and the logarithm of a sum of exponentials can be so far above zero in float32.
_ROUNDING = 1e-4


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True)
class Answers:
    """Log-probabilities of whole answers.

    Attributes
    ----------
    log_probabilities : array of shape (n_answers,)
        The logarithm of the probability of each answer: the sum over its tokens.
    n_tokens : integer array of shape (n_answers,)
        How many tokens each answer has.
    ids : array of shape (n_answers,)
        What ``answer_ids`` calls each answer, or its number: 0, 1, ...
    """

    log_probabilities: HostArray
    n_tokens: HostArray
    ids: HostArray

    @property
    def means(self) -> HostArray:
        """The mean log-probability of the tokens of each answer: the logarithm of the geometric mean of their probabilities."""
        means: HostArray = self.log_probabilities / self.n_tokens
        return means

    def __repr__(self) -> str:
        return f"Answers({len(self.ids)} answers, {int(self.n_tokens.sum())} tokens)"


@dataclass(frozen=True)
class Choices:
    """The questions of a multiple-choice test as rows of logits.

    Attributes
    ----------
    logits : array of shape (n_questions, most choices of a question)
        The log-probability of each choice, in the order in which they came. Where a question has fewer choices, -inf, which
        masks a class.
    ids : array of shape (n_questions,)
        What ``question_ids`` calls each question, in the order in which they first came.
    rows, columns : integer arrays of shape (n_choices,)
        Where in ``logits`` each choice is.
    """

    logits: HostArray
    ids: HostArray
    rows: HostArray
    columns: HostArray

    def labels(self, right: Any) -> HostArray:
        """The column of each question's right choice, from one entry per choice that says whether it is right."""
        remedy = "If you know the column of the right choice, pass that column as the label."
        marked = _marks(right, "right", f"each of the {len(self.rows)} choices", self.rows.shape, remedy)
        number = np.bincount(self.rows[marked], minlength=len(self.ids))
        if (number != 1).any():
            first = int(np.argmax(number != 1))
            raise InputError(
                "right",
                "mark one choice of each question",
                got=f"{number[first]} for question {self.ids.tolist()[first]!r}",
                remedy="Drop such questions.",
            )
        labels = np.empty(len(self.ids), np.int64)
        labels[self.rows[marked]] = self.columns[marked]
        return labels

    def __repr__(self) -> str:
        return f"Choices({len(self.ids)} questions, up to {self.logits.shape[1]} choices)"


def answers(token_log_probabilities: Any, answer_ids: Any = None, *, mask: Any = None) -> Answers:
    """Log-probabilities of whole answers, from the log-probabilities of their tokens.

    Parameters
    ----------
    token_log_probabilities : array of shape (n_answers, n_tokens), list of lists, or array of shape (n_tokens,)
        The logarithm of the probability that the model gave to each token, after the tokens before it. A list may hold answers
        of different lengths. A flat array needs ``answer_ids``.
    answer_ids : array of shape (n_tokens,), optional
        Which answer each token of a flat array belongs to, as numbers or text.
    mask : bool array of the shape of a table of log-probabilities, optional
        True where a token belongs to the answer, False at padding and at the question. Values there are not looked at.

    Returns
    -------
    Answers
        The sums of log-probabilities in float64, and the number of tokens. Answers are in the order in which they first came.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import sequences
    >>> whole = sequences.answers([np.log([0.5, 0.5]), np.log([0.9])])
    >>> np.exp(whole.log_probabilities).round(3), whole.n_tokens, np.exp(whole.means).round(3)
    (array([0.25, 0.9 ]), array([2, 1]), array([0.5, 0.9]))
    """
    name = "token_log_probabilities"
    if answer_ids is not None and mask is not None:
        raise InputError("mask", "be left out with `answer_ids`", remedy="Drop the tokens that belong to no answer.")
    if answer_ids is not None:
        values = _flat_logs(token_log_probabilities, name, ", as `answer_ids`,")
        ids, codes = _codes(answer_ids, len(values), "answer_id")
        return Answers(np.bincount(codes, values, len(ids)), np.bincount(codes, minlength=len(ids)), ids)
    if mask is None and isinstance(token_log_probabilities, list | tuple):
        return _of_lists(token_log_probabilities, name)
    table = arrays.on_host(numeric(token_log_probabilities, name))
    if table.ndim != 2:
        raise InputError(
            name,
            "have shape (n_answers, n_tokens)",
            got=table.shape,
            remedy=f"For a flat array pass `answer_ids`, for one answer `[{name}]`.",
        )
    kept = np.ones(table.shape, bool)
    if mask is not None:
        kept = _marks(mask, "mask", "each token", table.shape, "True marks the tokens of the answer.")
    number = np.count_nonzero(kept, axis=1)
    if not len(number) or not number.all():
        which = f"none in answer {int(np.argmin(number))}" if len(number) else "no answers"
        raise InputError("Each answer", "have at least one token", got=which, remedy="Drop such answers, or check `mask`.")
    values = _checked_logs(np.where(kept, table, 0), name)
    return Answers(values.sum(axis=1), number, np.arange(len(values)))


def log_odds(log_probabilities: Any, *, floor: float | None = None) -> HostArray:
    """The log-odds ln p - ln(1 - p) from ln p: the binary scores of answers.

    Parameters
    ----------
    log_probabilities : array of shape (n_answers,)
        ln p of each answer, as `answers` returns.
    floor : float, optional
        Smaller p and smaller 1 - p are raised to this. Without it, p = 1 and p = 0 are refused, because their log-odds are
        infinite.

    Returns
    -------
    array of shape (n_answers,)
        A flat binary score in float64, whose labels are 1 for right answers and 0 for wrong ones. It is exact to rounding where
        p itself would be rounded to 1 or to 0.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import sequences
    >>> sequences.log_odds([np.log(0.5), -1e-20, -1000.0]).round(3) + 0.0
    array([    0.   ,    46.052, -1000.   ])
    """
    name = "log_probabilities"
    values = _flat_logs(log_probabilities, name)
    surprise = -values
    with np.errstate(divide="ignore"):  # p = 1 is refused below, or raised to the floor
        near_one = -np.log(np.expm1(np.minimum(surprise, log(2))))
    far = np.maximum(surprise, log(2))
    odds: HostArray = np.where(surprise < log(2), near_one, -far - np.log1p(-np.exp(-far)))
    if floor is not None:
        most = log(1 / between("floor", floor, np.finfo(float).smallest_normal, 0.5) - 1)
        return np.clip(odds, -most, most)
    if not np.isfinite(odds).all():
        first = int(np.argmin(np.isfinite(odds)))
        raise InputError(
            name,
            "be finite and below 0",
            got=f"{values[first]:g} for answer {first}, whose log-odds are infinite",
            remedy="Pass `floor`, the smallest probability that you consider possible: 6e-8 is the rounding error of float32.",
        )
    return odds


def choices(log_probabilities: Any, question_ids: Any) -> Choices:
    """The choices of multiple-choice questions as rows of logits, one row per question.

    Parameters
    ----------
    log_probabilities : array of shape (n_choices,)
        ln p of each choice: `Answers.log_probabilities`, or `Answers.means` so that long choices are not less likely than short
        ones. -inf for a choice that is impossible.
    question_ids : array of shape (n_choices,)
        Which question each choice belongs to, as numbers or text.

    Returns
    -------
    Choices
        Logits for `temperatures`, `evaluate`, the metrics and the calibrators with temperatures. Calibrators with parameters of
        each class refuse -inf, and so questions with different numbers of choices.

    Examples
    --------
    >>> from nishimori import sequences
    >>> questions = sequences.choices([-1.0, -2.0, -0.5, -3.0, -4.0], ["a", "a", "b", "b", "b"])
    >>> questions.logits
    array([[-1. , -2. , -inf],
           [-0.5, -3. , -4. ]])
    >>> questions.labels([True, False, False, False, True])
    array([0, 2])
    """
    name = "log_probabilities"
    values = _flat_logs(log_probabilities, name, ", as `question_ids`,")
    ids, rows = _codes(question_ids, len(values), "question_id")
    number = np.bincount(rows)
    if (number < 2).any():
        first = int(np.argmax(number < 2))
        raise InputError(
            "Each question",
            "have at least two choices",
            got=f"one for question {ids.tolist()[first]!r}",
            remedy="Drop such questions.",
        )
    order = np.argsort(rows, kind="stable")
    columns = np.empty(len(rows), np.int64)
    columns[order] = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
    logits = np.full((len(ids), int(number.max())), -np.inf)
    logits[rows, columns] = values
    return Choices(logits, ids, rows, columns)


def _of_lists(lists: list[Any] | tuple[Any, ...], name: str) -> Answers:
    """Answers of any lengths, one list or array of log-probabilities per answer."""
    if not lists:
        raise InputError(name, "hold at least one answer", got="none")
    remedy = "For a flat list of all tokens pass `answer_ids`; drop answers without tokens."
    parts = [_flat_logs(tokens, f"{name}[{number}]", remedy=remedy) for number, tokens in enumerate(lists)]
    sums, lengths = np.array([part.sum() for part in parts]), np.array([len(part) for part in parts])
    return Answers(sums, lengths, np.arange(len(parts)))


def _flat_logs(x: Any, name: str, beside: str = "", remedy: str = "") -> HostArray:
    """A flat array of log-probabilities; ``beside`` names an argument of the same length in messages."""
    values = arrays.on_host(numeric(x, name))
    if values.ndim != 1 or not len(values):
        must = f"be a flat array{beside} with at least one entry"
        raise InputError(name, must, got=f"shape {values.shape}", remedy=remedy)
    return _checked_logs(values, name)


def _checked_logs(values: HostArray, name: str) -> HostArray:
    """Log-probabilities in float64: none is NaN or positive, and rounding errors above zero are set to zero."""
    wide = values.astype(np.float64)
    bad = ~(wide <= _ROUNDING)
    if bad.any():
        row, *column = (int(number) for number in np.argwhere(bad)[0])
        value = wide[(row, *column)]
        remedy = "Take the logarithm of probabilities first." if 0 < value <= 1 else "Find where the model produced it."
        must, got = "be logarithms of probabilities, at most 0", f"{value:g}"
        raise InputError(name, must, got=got, remedy=remedy, row=row, column=column[0] if column else None)
    return np.minimum(wide, 0.0)


def _marks(values: Any, name: str, where: str, shape: tuple[int, ...], remedy: str) -> HostArray:
    """The marks as booleans."""
    marks = arrays.on_host(numeric(values, name))
    if marks.shape != shape or not np.isin(marks, (0, 1)).all():
        raise InputError(
            name,
            f"be True or False (1 or 0) for {where}, of shape {shape}",
            got=f"{arrays.dtype_name(marks)} of shape {marks.shape}{', with other values' if marks.shape == shape else ''}",
            remedy=remedy,
        )
    marked: HostArray = marks != 0
    return marked


def _codes(ids: Any, length: int, what: str) -> tuple[HostArray, HostArray]:
    """The names in order of first appearance, and the index of each entry's name."""
    names, codes = encode_values(ids, length, what)
    if isinstance(names[0], str):
        names = names.astype(np.str_)
    order = np.argsort(np.unique(codes, return_index=True)[1])
    return names[order], np.argsort(order)[codes]
