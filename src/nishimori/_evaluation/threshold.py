"""Find the lowest confidence above which answers are certified to be right often enough."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import log, sqrt
from numbers import Real
from typing import Any, Unpack

import numpy as np

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, open_calibrated
from nishimori._evaluation.certificate import RankedAnswers, certified, first_cluster_level, least_answers, needed_answers
from nishimori._rows.batch import Batch
from nishimori._rows.labels import class_labels
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, Sum, combined_by, is_rows
from nishimori._sums.predictions import Predictions, apply_map
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, Displayed, plural, short_repr
from nishimori._support.formatting import percent, round_up
from nishimori._support.numbers import between
from nishimori._support.tables import Tabular
from nishimori._support.warnings import collect_notices, notice
from nishimori.errors import InputError, SameRowsWarning
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of

_SAME_ROWS = "the calibrator was fitted to these rows, so its confidences depend on their labels. Pass other rows."

# A table of more classes or groups than this is no help.
_MOST_ROWS = 1000

# By so much the confidences of two computations in float64 may differ.
_LAST_DIGITS = 1e-12

_UNWEIGHTED = "each answer counts once in a certificate"


@dataclass(frozen=True, repr=False)
class Threshold(Displayed):
    """The lowest certified confidence. ``print`` shows it in words.

    Attributes
    ----------
    confidence : float or None
        Answer where the confidence is at least this; None if nothing can be certified.
    coverage : float
        The share of these samples that are answered; 0 if none is.
    coverage_low : float or None
        What the share of answered samples is at least, at the same level: by the inequality of Dvoretzky, Kiefer, Wolfowitz and
        Massart. None for clusters.
    risk : float or None
        The share of these answers that are wrong.
    risk_bound : float or None
        What the share of wrong answers is at most, at the level: ``max_risk``, or None if nothing is certified.
    max_risk, level : float
        What was asked for.
    n_answered, n_wrong, n_samples : int
        How many samples are answered, how many of these wrongly, and how many there are.
    n_clusters : int or None
        How many clusters the samples belong to; None if each is independent.
    cluster_name : str
        What a cluster is called: "image" for pixels, where no clusters were named.
    why : str
        Why nothing can be certified; empty if something is.
    n_needed : int or None
        About how many samples would be enough if the share of wrong answers above the best threshold stayed the same. Where
        there are too few samples to test a threshold, how many are needed even if all are right. None if some are certified,
        and where nothing is known.
    curve : array of shape (n_thresholds, 3)
        Threshold, share of samples that are answered and share of the answers that are wrong, at each threshold that was
        tested.
    """

    confidence: float | None
    coverage: float
    coverage_low: float | None
    risk: float | None
    risk_bound: float | None
    max_risk: float
    level: float
    n_answered: int
    n_wrong: int
    n_samples: int
    n_clusters: int | None = None
    cluster_name: str = "cluster"
    why: str = ""
    n_needed: int | None = None
    curve: HostArray = field(default_factory=lambda: np.zeros((0, 3)))
    by: Mapping[str, Tabular] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.confidence is None:
            return f"Threshold(nothing is certified, max_risk={self.max_risk:.4g}, level={self.level:.4g})"
        return short_repr(
            self, confidence=self.confidence, coverage=self.coverage, risk_bound=self.risk_bound, level=self.level
        )

    @property
    def verdict(self) -> str:
        """The result as a sentence."""
        most, level = f"{100 * self.max_risk:g} %", f"{100 * self.level:g} %"
        if self.confidence is None:
            return f"No threshold is certified at {most}: {self.why}"
        of_what = "" if self.n_clusters is None else f", in a random {self.cluster_name}"
        return (
            f"Above {_as_typed(self.confidence)}: {percent(self.coverage, 0)} answered, at most {most} wrong{of_what} "
            f"({level} confidence, for data like these)."
        )

    def table(self, by: str | None = None) -> Tabular:
        """The share of wrong answers above the threshold, by predicted class or by group; these shares are not certified.

        Parameters
        ----------
        by : {"prediction", "groups"}, optional
            By default groups where they are named, else predicted classes.
        """
        names = [name for name in ("groups", "prediction") if name in self.by]
        if by is None and names:
            by = names[0]
        if by is None or by not in self.by:
            got = repr(by) if names or by is not None else "neither predicted classes nor groups in these data"
            raise InputError("by", f"be {' or '.join(map(repr, names)) or 'left out'}", got=got)
        return self.by[by]

    @property
    def _display(self) -> Display:
        rows = []
        if self.confidence is not None:
            low = "" if self.coverage_low is None else f"at least {percent(self.coverage_low)}"
            rows = [
                ("confidence", f"≥ {_as_typed(self.confidence)}", ""),
                ("answered", percent(self.coverage), low),
                ("wrong", percent(self.risk or 0.0), f"at most {100 * self.max_risk:g} %"),
            ]
        clusters = "" if self.n_clusters is None else f" in {plural(self.n_clusters, self.cluster_name)}"
        title = f"When to answer, {plural(self.n_samples, 'sample')}{clusters}"
        tables = [Tabular(("", "of these samples", f"{100 * self.level:g} % limit"), rows)] if rows else []
        tables += [self.by[name] for name in self.by] if rows else []
        notes = (self.verdict, *(("The shares by class or group are not certified.",) if rows and self.by else ()))
        return Display(title, tuple(tables), notes)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries."""
        of_answers = ("confidence", "coverage", "coverage_low", "risk", "risk_bound", "max_risk", "level")
        names = (*of_answers, "n_answered", "n_wrong", "n_samples", "n_clusters", "why", "n_needed")
        numbers = {name: getattr(self, name) for name in names}
        tables = {name: [dict(zip(table.headers, row, strict=True)) for row in table.rows] for name, table in self.by.items()}
        return {**numbers, "verdict": self.verdict, "curve": self.curve.tolist(), "by": tables}


def _as_typed(confidence: float) -> str:
    """A confidence rounded up to four digits after the point, to where the risk is no larger; ``confidence`` is exact."""
    return f"{min(1.0, np.ceil(confidence * 1e4 - 1e-6) / 1e4):.4f}"


@takes_rows(
    refuses={"sample_weight": _UNWEIGHTED, "counts": _UNWEIGHTED},
    words=CALIBRATORS_WORD,
)
def threshold(
    logits: Any,
    labels: Any = None,
    *,
    max_risk: float = 0.05,
    level: float = 0.95,
    temperature: float | None = None,
    calibrator: Any = None,
    **options: Unpack[RowOptions],
) -> Threshold:
    """Find the lowest confidence above which at most a given share of answers is wrong, with a certificate.

    In at most a share 1 − ``level`` of data sets like these, answers above the threshold are wrong more often than ``max_risk``
    on new data. That is exact if accuracy does not rise as confidence falls past the first rank with a higher risk, and holds
    in simulations of other cases.

    Parameters
    ----------
    logits : array, path, batches, or `Rows`
        As for `evaluate`, also `claims`: of samples that neither the model nor the calibrator was fitted to.
    labels : array of shape (n_samples,)
        The true class of each sample.
    max_risk : float
        The share of the answers that may be wrong.
    level : float
        The confidence of the certificate.
    temperature : float, optional
        Divide the logits by this first; 1 by default.
    calibrator : calibrator, optional
        A fitted calibrator to apply first. Answer where its `predict_proba` has a largest probability of ``confidence`` or
        more.
    **options
        What is said about the data, see `rows`: ``clusters``, ``groups``, ``input``, ``classes``, ``floor``,
        ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``. With clusters the risk is that of a random
        answer of a random cluster; with groups the table has the share wrong of each.

    Returns
    -------
    Threshold
        With `confidence`, `coverage`, `risk_bound`, `table`; where nothing can be certified, `confidence` is None and `why`
        says why.

    Warns
    -----
    SameRowsWarning
        If these are the rows that the calibrator was fitted to, in the same order; then nothing is certified. Reordered or
        partly shared rows are not noticed.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> validation, test = network.validation, network.test
    >>> calibrator = nishimori.ExpectationConsistency().fit(validation.logits, validation.labels)
    >>> found = nishimori.threshold(test.logits, test.labels, max_risk=0.05, calibrator=calibrator)
    >>> found.verdict
    'Above 0.8494: 64 % answered, at most 5 % wrong (95 % confidence, for data like these).'
    """
    if not 0 < between("max_risk", max_risk, 0, 1) < 1:
        raise InputError("max_risk", "be a share between 0 and 1, such as 0.05", got=repr(max_risk))
    if not 0 < between("level", level, 0, 1) < 1:
        raise InputError("level", "be a confidence between 0 and 1, such as 0.95", got=repr(level))
    if is_rows(logits) and isinstance(labels, Real):
        remedy = "Pass `max_risk=` and `level=` by name."
        raise InputError("labels", "be left out where `logits` brings its own", got=repr(labels), remedy=remedy)
    with collect_notices():  # about losses, which are not measured here, and about equal rows, which get a warning of their own
        data, map_ = open_calibrated(logits, labels, options, temperature=temperature, calibrator=calibrator)
        certificate = threshold_of(data, map_, calibrator, float(max_risk), float(level), options.get("classes"))
    if certificate.why == _SAME_ROWS:
        notice(certificate.verdict, SameRowsWarning)
    return certificate


@dataclass(frozen=True)
class AnswersAbove(Sum):
    """The confidence of each answer, whether it is wrong, its class, cluster and group: 17 bytes per row or more."""

    confidence: tuple[HostArray, ...]
    wrong: tuple[HostArray, ...]
    predicted: tuple[HostArray, ...]
    clusters: tuple[HostArray, ...]
    groups: tuple[HostArray, ...]
    rounding: float = field(metadata=combined_by(max))  # of the precision of confidences


def keep_ranked(map_: Map, batch: Batch) -> AnswersAbove:
    """The answers of a batch after a map, with their confidences in the precision in which `predict_proba` gives them."""
    predictions = Predictions(*apply_map(map_, batch))
    if ((batch.weights if isinstance(batch.weights, np.ndarray) else arrays.on_host(batch.weights)) != 1).any():
        raise InputError("sample_weight", f"be left out of `threshold`: {_UNWEIGHTED}")
    precision = _precision(batch)
    confidence = predictions.claimed("top")[:, 0].astype(precision).astype(np.float64)
    codes = () if batch.clusters is None else (batch.clusters.codes,)
    groups = () if batch.groups is None else (batch.groups.codes,)
    predicted = arrays.on_host(predictions.top_class) if batch.has_all_classes else np.zeros(batch.n_rows, np.int64)
    return AnswersAbove(
        (confidence,), (~arrays.on_host(predictions.right),), (predicted,), codes, groups, float(np.finfo(precision).eps)
    )


def _precision(batch: Batch) -> Any:
    """The precision of the scores as they were passed, in which `predict_proba` gives confidences."""
    if batch.probabilities is None:
        stored = batch.logits if batch.stored is None else batch.stored
        return {2: np.float16, 4: np.float32}.get(np.dtype(arrays.on_host(stored[:1]).dtype).itemsize, np.float64)
    kinds = (np.float16, np.float32)
    return next((kind for kind in kinds if batch.stored_rounding >= np.finfo(kind).eps / 2), np.float64)


def just_below(precision: Any, values: HostArray) -> HostArray:
    """Confidences lowered to the next representable number; further in float64, because last digits may vary."""
    if precision == np.float64:
        return values - _LAST_DIGITS
    return np.nextafter(values.astype(precision), precision(0)).astype(np.float64)


@question("has no rows to rank")
def threshold_of(data: Rows, map_: Map, calibrator: Any, max_risk: float, level: float, classes: Any = None) -> Threshold:
    """The certificate of rows after a map."""
    delta = 1 - level
    kept = data.gather(partial(keep_ranked, map_))
    confidence, wrong = np.concatenate(kept.confidence), np.concatenate(kept.wrong)
    clusters = np.concatenate(kept.clusters) if data.has_clusters and kept.clusters else None
    n_clusters = None if clusters is None else len(np.unique(clusters))
    n = len(confidence)
    precision = next(kind for kind in (np.float64, np.float32, np.float16) if np.finfo(kind).eps >= kept.rounding)
    # Claims that are not calibrated are compared as they are.
    below = np.asarray if data.is_claims and temperature_of(map_) == 1 else partial(just_below, precision)
    answers = RankedAnswers.from_rows(confidence, wrong, max_risk, delta, clusters, below)
    curve = np.stack([answers.thresholds, answers.answered / n, answers.wrong / answers.answered], axis=1)
    same = getattr(calibrator, "data_digest_", None) is not None and calibrator.data_digest_ == data.digest
    number = 0 if same else certified(answers, max_risk, delta)
    common: dict[str, Any] = {"max_risk": max_risk, "level": level, "n_samples": n, "curve": curve}
    common |= {"n_clusters": n_clusters, "cluster_name": data.cluster_name}
    if not number:
        why, needed = _SAME_ROWS, None
        if not same:
            has_higher = bool(len(answers.thresholds) and answers.thresholds[0] < below(confidence.max()))
            why, needed = _why_not(answers, has_higher, n, n_clusters, data.cluster_name, max_risk, delta)
        return Threshold(None, 0.0, None, None, None, n_answered=0, n_wrong=0, why=why, n_needed=needed, **common)
    place = number - 1
    value, n_answered, n_wrong = float(answers.thresholds[place]), int(answers.answered[place]), int(answers.wrong[place])
    coverage = n_answered / n
    low = None if n_clusters is not None else max(0.0, coverage - sqrt(log(1 / delta) / (2 * n)))
    is_above = confidence >= value
    by: dict[str, Tabular] = {}
    if kept.groups and data.groups is not None:
        by["groups"] = _shares("group", list(data.groups.names), np.concatenate(kept.groups), is_above, wrong)
    if not data.is_claims and data.n_classes <= _MOST_ROWS:
        own = classes if classes is not None else getattr(calibrator, "classes", None) or data.class_names
        names = class_labels(own, data.n_classes).tolist()
        by["prediction"] = _shares("predicted", names, np.concatenate(kept.predicted), is_above, wrong)
    risk = n_wrong / n_answered
    return Threshold(value, coverage, low, risk, max_risk, n_answered=n_answered, n_wrong=n_wrong, by=by, **common)


def _why_not(
    answers: RankedAnswers, has_higher: bool, n: int, n_clusters: int | None, cluster_name: str, max_risk: float, delta: float
) -> tuple[str, int | None]:
    """Why no threshold is certified, and about how many samples would be enough.

    Nothing is known about thresholds with fewer answers above them than can be tested, which more samples would allow.
    ``has_higher`` says whether there are any: some answers are more confident than the highest threshold tested.
    """
    fewest = least_answers(max_risk, delta)
    least = fewest if n_clusters is None else least_answers(max_risk, first_cluster_level(delta))
    number, what = (n, "answer") if n_clusters is None else (n_clusters, cluster_name)
    if number < least:
        there = "there is" if number == 1 else "there are"
        why = f"{there} only {plural(number, what)}, and {least:,} are needed even if all are right."
        return why, least if n_clusters is None else None
    shares, rates, of_what, samples = answers.answered / n, answers.wrong / answers.answered, "", "samples"
    if answers.clusters is not None:
        numbers, losses = answers.clusters
        rates, of_what, samples = losses / numbers, f" in a random {cluster_name}", f"{cluster_name}s"
    higher = (
        f"A threshold is tested with at least {fewest:,} answers above it, so more {samples} allow higher thresholds."
        if has_higher
        else f"No threshold is higher: the {percent(shares[0], 0)} most confident answers have the same confidence."
    )
    if rates.min() >= max_risk:
        place = int(np.argmin(rates))
        best = f"{percent(rates[place])} of the {percent(shares[place], 0)} most confident answers{of_what}"
        return f"too many answers are wrong above every threshold tested. The fewest are {best}. {higher}", None
    needed = [needed_answers(share, rate, max_risk, delta) for share, rate in zip(shares.tolist(), rates.tolist(), strict=True)]
    possible = [one for one in needed if one is not None]
    place = needed.index(min(possible)) if possible else int(np.argmin(rates))
    why = (
        f"{percent(rates[place])} of the {percent(shares[place], 0)} most confident answers are wrong{of_what}, and {number:,} "
        f"{samples} do not prove that it is few enough."
    )
    if n_clusters is not None or not possible:
        return f"{why} More {samples} may.", None
    enough = max(int(round_up(min(possible))), n + 1)
    return f"{why} About {enough:,} samples would if the share of wrong answers stayed the same. {higher}", enough


def _shares(what: str, names: list[Any], codes: HostArray, is_above: HostArray, wrong: HostArray) -> Tabular:
    """How many answers of each class or group are above the threshold, and how many of these are wrong, the worst first."""
    answered = np.bincount(codes[is_above], minlength=len(names))
    errors = np.bincount(codes[is_above], wrong[is_above], minlength=len(names))
    order = sorted(np.flatnonzero(answered).tolist(), key=lambda place: -errors[place] / answered[place])
    rows = [(str(names[place]), f"{answered[place]:,}", percent(errors[place] / answered[place])) for place in order]
    return Tabular((what, "answered", "wrong"), rows)
