"""Multiple-choice samples of lm-evaluation-harness: the log-likelihood of each choice, and which one is right.

``lm_eval --log_samples`` writes ``samples_TASK_TIME.jsonl``, a line per question and filter. It writes ``target`` as text, in
which the number of a choice cannot be distinguished from the text "3" of one. Which of the two a task uses is decided by the
accuracies that stand beside it: a reading of the targets must give the recorded accuracy of every line.
"""

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from nishimori._files.tables.lines import LineFile
from nishimori._support.arrays import HostArray
from nishimori._support.disk import existing_file
from nishimori._support.formatting import join_names
from nishimori._support.numbers import is_whole, one_of
from nishimori.errors import FormatError, InputError

Metric = Literal["acc", "acc_norm", "acc_bytes"]
LabelOf = Callable[[Mapping[str, Any]], int]

# What the harness writes in each line, whatever the task.
_KEYS = {"doc_id", "target", "arguments", "filtered_resps"}

_BOOLS = {"True": 1, "False": 0}  # of a target that was a bool, which Python takes for a number

_CALL = "nishimori.integrations.lm_eval.read"


class Samples(NamedTuple):
    """The questions of a multiple-choice task: pass both, as in ``temperatures(*samples)``.

    Attributes
    ----------
    logits : array of shape (n_questions, most choices of a question)
        The score of each choice, -inf where a question has fewer choices.
    labels : integer array of shape (n_questions,)
        The number of the right choice, from 0.
    """

    logits: HostArray
    labels: HostArray


@dataclass(frozen=True)
class SampleFile:
    """The samples of a file, and the line of each."""

    samples: Samples
    lines: HostArray


@dataclass(frozen=True)
class _SampleLine:
    """One line: the object, the texts and log-likelihoods of its choices."""

    line: int
    content: Mapping[str, Any]
    choices: list[str]
    scores: HostArray
    differ_in_context: bool

    @property
    def texts(self) -> list[str]:
        """The choices without the space that the harness puts before each: it does not count as a character."""
        spaced = all(choice.startswith(" ") for choice in self.choices)
        return [choice[1:] if spaced else choice for choice in self.choices]

    def predicted(self, metric: Metric) -> int:
        """The choice that the harness scores for a metric."""
        return int(np.argmax(self.by_metric(metric)))

    def by_metric(self, metric: Metric) -> HostArray:
        """The scores that decide the choice for a metric; two metrics divide them by the characters or bytes of a choice."""
        if metric == "acc":
            return self.scores
        lengths = [len(text if metric == "acc_norm" else text.encode()) for text in self.texts]
        scores: HostArray = self.scores / np.array(lengths)
        return scores


def is_samples(path: Path) -> bool:
    """Whether a file is one of the harness's, by the keys of its first line."""
    if not path.name.lower().endswith(".jsonl") or not path.is_file():
        return False
    with closing(LineFile(path)) as file:
        line = next(iter(file), "")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return False  # the reader of tables says what is wrong
    return isinstance(content, dict) and set(content) >= _KEYS


def read_samples(path: Path, *, metric: Metric = "acc", filter: str | None = None, labels: LabelOf | None = None) -> SampleFile:
    """The questions of one file; see `nishimori.integrations.lm_eval.read`."""
    one_of("metric", metric, Metric)
    if labels is not None and not callable(labels):
        raise InputError(
            "labels", "be a function that returns the number of the right choice for the object of a line", got=repr(labels)
        )
    questions = list(_questions(existing_file(path), filter))
    filters = list(dict.fromkeys(str(question.content.get("filter")) for question in questions))
    if len(filters) > 1:
        must = f"name one of the filters that {path} has, {join_names(filters)}"
        raise InputError("filter", must, remedy=f"The file has each question once per filter: {_CALL}(path, filter=...).")
    if not questions:
        raise FormatError(f"{path} has no samples" + ("." if filter is None else f" of the filter {filter!r}."))
    logits = np.full((len(questions), max(len(question.scores) for question in questions)), -np.inf)
    for row, question in zip(logits, questions, strict=True):
        if metric != "acc" and not all(question.texts):
            reason = "a choice is empty, and has no score per character"
            raise InputError("metric", "be 'acc'", got=repr(metric), remedy=f"{path}, line {question.line}: {reason}.")
        row[: len(question.scores)] = question.by_metric(metric)
    truth = _truth(path, questions, metric, labels)
    return SampleFile(Samples(logits, np.array(truth)), np.array([question.line for question in questions]))


def _questions(path: Path, filter_name: str | None) -> Iterator[_SampleLine]:
    with closing(LineFile(path)) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                content = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FormatError(f"{where}: not a JSON object: {error!s:.100}.") from None
            if not isinstance(content, dict) or not set(content) >= _KEYS:
                lacks = join_names(sorted(_KEYS - set(content if isinstance(content, dict) else ())))
                remedy = "Run `lm_eval --log_samples`, of version 0.4.3 or later."
                raise FormatError(f"{where}: not a sample of lm-evaluation-harness, which has {lacks}. {remedy}")
            if filter_name is None or content.get("filter") == filter_name:
                yield _question(where, number, content)


def _question(where: str, number: int, content: Mapping[str, Any]) -> _SampleLine:
    """The choices in one line."""
    responses, pairs = content["filtered_resps"], _arguments(content["arguments"])
    scores = [_score(where, response) for response in responses] if isinstance(responses, list) else []
    if len(scores) < 2:
        remedy = "Only tasks of multiple choice (`output_type: multiple_choice`) have logits."
        raise FormatError(f"{where}: one log-likelihood instead of one per choice. {remedy}")
    if len(pairs) != len(scores):
        raise FormatError(f"{where}: {len(scores)} log-likelihoods for {len(pairs)} `arguments`.")
    if "acc_mutual_info" in content:  # the choices stand there again, without the question
        pairs, scores = pairs[: len(pairs) // 2], scores[: len(scores) // 2]
    contexts, choices = [context for context, _ in pairs], [choice for _, choice in pairs]
    return _SampleLine(number, content, choices, np.array(scores), len(set(contexts)) > 1)


def _arguments(arguments: Any) -> list[tuple[str, str]]:
    """Context and continuation of each request: a dictionary since version 0.4.3, earlier a list of lists."""
    requests = arguments.values() if isinstance(arguments, Mapping) else arguments
    pairs = [list(request.values() if isinstance(request, Mapping) else request)[:2] for request in requests]
    return [(str(context), str(choice)) for context, choice in (pair for pair in pairs if len(pair) == 2)]


def _score(where: str, response: Any) -> float:
    """The log-likelihood in one response, which the harness writes as a pair of texts."""
    if not isinstance(response, Sequence) or isinstance(response, str) or len(response) != 2:
        remedy = "Only tasks of multiple choice have logits. For generated answers with confidences use nishimori.claims."
        raise FormatError(f"{where}: must have a log-likelihood per choice, got {response!r:.60}. {remedy}")
    try:
        score = float(response[0])
    except (TypeError, ValueError):
        score = np.nan
    if np.isnan(score):
        raise FormatError(f"{where}: a log-likelihood must be a number, got {response[0]!r:.60}.")
    return score


# --- which choice is right ------------------------------------------------------------------------------------------------


class _NotReadError(Exception):
    """An interpretation of the targets does not fit one line."""

    def __init__(self, question: _SampleLine, reason: str) -> None:
        super().__init__(reason)
        self.question = question


def _truth(path: Path, questions: list[_SampleLine], metric: Metric, label_of: LabelOf | None) -> list[int]:
    """The right choice of each question, by the only interpretation of the targets that fits all lines."""
    readings: dict[str, Callable[[_SampleLine], int]] = {"number": _by_number, "text": _by_text}
    if label_of is not None:
        readings = {"labels": lambda question: _by_caller(question, label_of)}
    fits: list[list[int]] = []
    failures: list[_NotReadError] = []
    for read in readings.values():
        try:
            fits.append(
                [_confirmed(question, read(question), metric, by_caller=label_of is not None) for question in questions]
            )
        except _NotReadError as failure:
            failures.append(failure)
    if not fits:
        worst = max(failures, key=lambda failure: failure.question.line)
        raise _refusal(path, worst.question, f"{worst}.")
    if any(truth != fits[0] for truth in fits):
        first = next(question for row, question in enumerate(questions) if len({truth[row] for truth in fits}) > 1)
        reason = f"the target {first.content['target']!r} is the number of one choice and the text of another."
        raise _refusal(path, first, reason)
    return fits[0]


def _refusal(path: Path, question: _SampleLine, reason: str) -> InputError:
    remedy = "Pass a function that takes the object of a line and returns the number of the right choice, from 0: "
    example = f'{_CALL}({str(path)!r}, labels=lambda sample: sample["doc"]["answer"]).'
    return InputError(f"{path}, line {question.line}: {reason} {remedy}{example}")


def _target(question: _SampleLine) -> str:
    """The target as text; for a list with one entry, its entry."""
    if question.differ_in_context:
        raise _NotReadError(question, "its choices differ in the context, so the target does not say which one is right")
    target = question.content["target"]
    if isinstance(target, str) and target.startswith("[") and target.endswith("]"):
        try:
            target = ast.literal_eval(target)
        except (SyntaxError, ValueError):
            return str(target)
    if isinstance(target, list):
        if len(target) != 1:
            raise _NotReadError(question, f"the target {target!r:.60} is {len(target)} choices, but a label is one")
        (target,) = target
    return str(target)


def _by_number(question: _SampleLine) -> int:
    target, n_choices = _target(question), len(question.choices)
    index = _BOOLS.get(target, int(target) if target.isascii() and target.isdigit() else n_choices)
    if index >= n_choices:
        raise _NotReadError(question, _no_choice(question, target))
    return index


def _by_text(question: _SampleLine) -> int:
    target = _target(question)
    places = [place for place, choice in enumerate(question.choices) if choice.strip() == target.strip()]
    if len(places) != 1:
        raise _NotReadError(question, _no_choice(question, target))
    return places[0]


def _no_choice(question: _SampleLine, target: str) -> str:
    choices = join_names([choice.strip() for choice in question.choices])
    return f"the target {target!r:.60} is neither the number nor the text of one of its choices, {choices}"


def _by_caller(question: _SampleLine, label_of: LabelOf) -> int:
    label, n_choices = label_of(question.content), len(question.choices)
    if not is_whole(label) or not 0 <= label < n_choices:
        raise _NotReadError(question, f"`labels` returns {label!r:.60}, but the choices are 0 to {n_choices - 1}")
    return int(label)


def _confirmed(question: _SampleLine, label: int, metric: Metric, *, by_caller: bool) -> int:
    """The label, if the harness scored the question in agreement with it."""
    for name in dict.fromkeys(("acc", metric)):
        recorded = question.content.get(name)
        if recorded is None or (by_caller and str(question.content["target"]).startswith("[")):  # several may be right there
            continue
        if recorded not in (0, 1):
            reason = f"{name!r} is {recorded!r:.20} instead of 0 or 1, so the task does not have a single right choice"
            raise _NotReadError(question, reason)
        predicted = question.predicted(name)
        if bool(recorded) != (predicted == label):
            reason = f"choice {label} cannot be right: the model prefers choice {predicted}, and {name!r} is {recorded:g}"
            raise _NotReadError(question, reason)
    return label
