"""`gate`: check a model against bounds, and say whether the data prove that it keeps or exceeds them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf, nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, get_args
from xml.etree import ElementTree

import numpy as np

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, open_calibrated
from nishimori._evaluation.checks import (
    Check,
    MetricBound,
    Verdict,
    check_of_card,
    check_of_groups,
    check_of_losses,
    checked_bounds,
    unjudged_check,
)
from nishimori._evaluation.group_gaps import gaps_after, names_of_groups
from nishimori._evaluation.limits import shared
from nishimori._evaluation.metrics.means import Nll
from nishimori._evaluation.metrics.metric import Metric
from nishimori._evaluation.metrics.table import AskedMetrics, asked_metrics
from nishimori._evaluation.resampling import KeptRows
from nishimori._evaluation.scorecard import Scorecard, scorecards, warn_of_one_temperature
from nishimori._rows.batch import Batch
from nishimori._rows.labels import Classes
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, Sum, combined_by
from nishimori._sums.groups import By
from nishimori._sums.predictions import Predictions, apply_map
from nishimori._sums.reliability import Strategy
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, NamedEntries, plural, short_repr
from nishimori._support.escape import workflow_text, xml_text
from nishimori._support.numbers import between, one_of, positive, whole
from nishimori._support.tables import Tabular
from nishimori.errors import InputError, setting
from nishimori.maps.class_curves import class_probabilities
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of

if TYPE_CHECKING:
    from nishimori._evaluation.threshold import Threshold

SUITE = "nishimori gate"
"""The name of the test suite in a pipeline."""

TABLE_HEADERS = ("check", "verdict", "what was found")
"""The columns of the table with a sentence per check."""

MIN_SAMPLES = 100
"""The fewest independent samples for a verdict. With fewer, an accuracy of 50 % has limits more than ten points away."""

NLL_CAP = 10.0
"""In nats: to judge a pass, a larger loss (a true class of probability 5e-5 or less) counts as this one."""

MOST_LEVEL = 1 - 1e-9
"""The largest level: those of several checks, and of many groups, must not round to 1."""

# What float32 logits of one row and another differ by where a network gives the same answer to both.
_ROUNDING = 1e-6

# How JUnit's XML and GitHub show a check by how it ended; "error" where none could be made. What is allowed to be inconclusive
# counts as skipped, so that it is seen and does not fail.
_SHOWN = {"pass": ("system-out", "notice"), "fail": ("failure", "error"), "allowed": ("skipped", "warning")}
_SHOWN |= dict.fromkeys(("inconclusive", "cannot be judged", "error"), ("error", "error"))


class CheckOutcome(NamedTuple):
    """One check: the bound, the verdict, and a sentence with its numbers; ``allowed`` if it does not stop the release."""

    title: str
    verdict: Verdict | Literal["error"]
    message: str
    allowed: bool = False

    @property
    def shown_as(self) -> tuple[str, str]:
        """The JUnit XML element, and the GitHub command."""
        return _SHOWN["allowed" if self.allowed else self.verdict]


@dataclass(frozen=True, repr=False)
class Gate(NamedEntries[Check]):
    """The checks of a model, and whether it passes. ``print`` shows one line per check.

    Attributes
    ----------
    checks : tuple of Check
        One for each bound.
    n_samples : int
        How many samples had a positive weight.
    level : float
        That of the verdicts: a model that does not keep all bounds passes, and one that keeps them fails, in at most a share
        1 - ``level`` of data sets each.
    allow_inconclusive : bool
        Whether a model passes although a check is inconclusive.
    min_samples : int
        How many samples, or clusters of them, a verdict needs.
    verdict : {"pass", "inconclusive", "cannot be judged", "fail"}
        The worst of the verdicts of all checks.
    passed : bool
        Whether all checks pass, or are inconclusive where that is allowed.
    failed : tuple of Check
        Those that stop it.
    """

    checks: tuple[Check, ...]
    n_samples: int
    level: float
    allow_inconclusive: bool = False
    min_samples: int = MIN_SAMPLES

    @property
    def verdict(self) -> Verdict:
        return max((check.verdict for check in self.checks), key=get_args(Verdict).index)

    @property
    def failed(self) -> tuple[Check, ...]:
        allowed = ("pass", "inconclusive") if self.allow_inconclusive else ("pass",)
        return tuple(check for check in self.checks if check.verdict not in allowed)

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def _entries(self) -> list[tuple[str, Check]]:
        return [(check.name, check) for check in self.checks]

    def _record(self, check: Check) -> dict[str, Any]:
        return check.to_dict()

    def __repr__(self) -> str:
        names = tuple(check.name for check in self.checks)
        return short_repr(self, verdict=self.verdict, passed=self.passed, checks=names, n_samples=self.n_samples)

    @property
    def _display(self) -> Display:
        allowed = "; inconclusive is allowed" if self.allow_inconclusive else ""
        title = f"{self.verdict.capitalize()} ({plural(self.n_samples, 'sample')}{allowed})"
        return Display(title, (Tabular(TABLE_HEADERS[1:], [(check.verdict, check.message) for check in self.checks]),))

    @property
    def table(self) -> Tabular:
        """The checks as a table with a sentence each."""
        return Tabular(TABLE_HEADERS, [(check.title, check.verdict, check.message) for check in self.checks])

    def to_markdown(self) -> str:
        """The checks as a Markdown table, such as for the summary of a job."""
        return self.table.markdown()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries."""
        own = ("passed", "verdict", "level", "allow_inconclusive", "n_samples", "min_samples")
        return {name: getattr(self, name) for name in own} | {"checks": [check.to_dict() for check in self.checks]}

    def to_junit(self) -> str:
        """A JUnit file, which Jenkins, GitLab, Azure and others show as tests.

        A check that is inconclusive or cannot be judged is an error; one that is allowed to be inconclusive is a skipped test.
        """
        return junit(SUITE, self._outcomes)

    def to_github(self) -> str:
        """A workflow command of GitHub Actions per check: an error, a warning or a notice on the page of the run."""
        return "\n".join(map(workflow_command, self._outcomes))

    @property
    def _outcomes(self) -> list[CheckOutcome]:
        allowed = "inconclusive" if self.allow_inconclusive else None
        return [CheckOutcome(check.title, check.verdict, check.message, check.verdict == allowed) for check in self.checks]


@takes_rows(words=CALIBRATORS_WORD)
def gate(
    logits: Any,
    labels: Any = None,
    *,
    bounds: Mapping[Any, float] | None = None,
    max_risk: float | None = None,
    min_coverage: float | None = None,
    level: float = 0.95,
    allow_inconclusive: bool = False,
    min_samples: int = MIN_SAMPLES,
    nll_cap: float = NLL_CAP,
    temperature: float | None = None,
    calibrator: Any = None,
    by: By | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    **options: Unpack[RowOptions],
) -> Gate:
    """Decide whether a model keeps its bounds, exceeds one, or the data do not decide.

    Parameters
    ----------
    logits : array, path, batches, `Sketch` or `Rows`
        Scores before the softmax, of shape (n_samples, n_classes): an array of NumPy, PyTorch, JAX, CuPy or Dask. A flat array
        z means the binary logits (0, z); with more dimensions, such as (sequences, tokens, vocabulary), each position before
        the classes is a sample. Or the path of a file, a loader of batches ``(logits, labels)``, or what `rows` returns.
    labels : array of shape (n_samples,), or as ``logits`` before the classes
        The true class of each sample: its column, or one of ``classes``. For a file, the name of its array or column. Left out
        where ``logits`` brings them.
    bounds : dict of metrics to numbers
        What each metric must not exceed or, where higher values are better, fall below, such as ``{"ece": 0.02}``. Metrics are
        names, functions of `nishimori.metrics`, or a `Metric` of your own. That of the gap is on its size, and "group_gap"
        is the size of confidence minus accuracy of each group, or of each predicted class. Bounds on shares are from 0 to 1:
        2 % is 0.02. At least one bound, or ``max_risk``, must be there.
    max_risk : float, optional
        Pass only if a `threshold` of confidence is certified above which at most this share of the answers is wrong. It is
        found in these data, and may differ from the one that you use.
    min_coverage : float, optional
        Pass only if at least this share of samples is answered above that threshold, by the lower limit of the coverage.
    level : float
        A model that does not keep all bounds passes in at most a share 1 - ``level`` of data sets, and one that keeps them all
        fails as rarely. From 0.5 to 1 - 1e-9.
    allow_inconclusive : bool
        Whether the model may pass although a check is inconclusive, neither pass nor fail. It may not if one cannot be judged.
    min_samples : int
        With fewer samples, or fewer clusters where these are given, no check can be judged. Samples whose weights w differ
        count as (Σw)²/Σw². Neither can a model be judged that gives the same probabilities for every sample.
    nll_cap : float
        A bound on the NLL is passed by the mean of min(NLL, ``nll_cap``), in nats: rare losses without a largest one could
        raise the mean by any amount and not be seen. The measured NLL must keep the bound, too. A failure is judged on the
        NLL itself. The bound must be below the cap. With weights, or clusters of different sizes, these limits assume that
        none is larger than the largest seen.
    temperature : float, optional
        Divide the logits by this first; 1 by default.
    calibrator : calibrator, optional
        A fitted calibrator to apply first, instead of a temperature.
    by : {"prediction", "groups"}, optional
        What makes a group of "group_gap": the predicted class, or what ``groups`` says; by default groups where those are
        given.
    n_bins : int
        Number of bins of the calibration error.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal weight.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

    Returns
    -------
    Gate
        With `checks`, `verdict` and `passed`; print it for one line per check.

    Examples
    --------
    >>> import nishimori
    >>> test = nishimori.data.load("cifar10/resnet20").test
    >>> print(nishimori.gate(test.logits, test.labels, bounds={"gap": 0.02, "error": 0.2}))
    Fail (10,000 samples)
    <BLANKLINE>
    verdict  what was found
    -------  -----------------------------------------------------------------------
    fail     gap exceeds 2 %: 6.87 % (confidence is above accuracy); 97.5 % lower
             bound 6.22 %
    pass     error is at most 20 %: 16.29 %; 95 % upper bound 16.91 %
    """
    wanted = Wanted(bounds, level, allow_inconclusive, n_bins, strategy, min_samples, nll_cap, max_risk, min_coverage)
    data, map_ = open_calibrated(logits, labels, options, temperature=temperature, calibrator=calibrator)
    classes = options.get("classes")
    if by is None:  # the groups may take a pass, so they are asked for only where a bound is on them
        has_group_gap = any(limit.metric is None for limit in wanted.limits)
        by = "groups" if has_group_gap and data.groups is not None else "prediction"
    own = getattr(calibrator, "classes", None) if classes is None else classes
    after = name_of_map("`calibrator`", calibrator, map_)
    return judge(data, map_, wanted, by, own, calibrator=calibrator, after=after)


def name_of_map(name: str, calibrator: Any, map_: Map) -> str:
    """What a warning calls the map that is judged: ``name`` for a calibrator's, otherwise its temperature."""
    return name if calibrator is not None else f"T = {temperature_of(map_):.4g}"


@dataclass(frozen=True)
class Wanted:
    """What to check, and how; validated before any data are read."""

    bounds: Mapping[Any, float] | None
    level: float
    allow_inconclusive: bool = False
    n_bins: int = 15
    strategy: Strategy = "uniform"
    min_samples: int = MIN_SAMPLES
    nll_cap: float = NLL_CAP
    max_risk: float | None = None
    min_coverage: float | None = None

    def __post_init__(self) -> None:
        whole("min_samples", self.min_samples, 1)
        if between("level", self.level, 0.5, 1) > MOST_LEVEL:
            raise InputError("level", "be at most 1 - 1e-9", got=f"{self.level!r}, at which data can prove nothing")
        positive("nll_cap", self.nll_cap)
        if self.min_coverage is not None:
            between("min_coverage", self.min_coverage, 0, 1)
            if self.max_risk is None:
                raise InputError("min_coverage", "be passed together with `max_risk`, the allowed share of wrong answers")
        if self.max_risk is not None and not 0 < between("max_risk", self.max_risk, 0, 1) < 1:
            raise InputError("max_risk", "be a share between 0 and 1, such as 0.05", got=repr(self.max_risk))
        for limit in self.limits:
            if isinstance(limit.metric, Nll) and limit.value >= self.nll_cap:
                must = f"be below {setting('nll_cap')}, {self.nll_cap:g}"
                raise InputError("The bound on nll", must, got=f"{limit.value:g}", remedy="Raise the cap.")

    @cached_property
    def limits(self) -> tuple[MetricBound, ...]:
        """The bounds as numbers."""
        return () if self.max_risk is not None and not self.bounds else checked_bounds(self.bounds)


def judge(
    data: Rows, map_: Map, wanted: Wanted, by: By, classes: Classes = None, *, calibrator: Any = None, after: str = ""
) -> Gate:
    """The checks of rows after a map: one pass for all samples, and one more for groups.

    ``after`` names the map in the warning about the second of two classes; without a name there is none.
    """
    level = wanted.level
    one_of("by", by, By)
    metrics = asked_metrics([limit.metric for limit in wanted.limits if limit.metric is not None], "bounds")
    for bounded in filter(None, (limit.metric for limit in wanted.limits)):  # which a scorecard may leave out for these data
        bounded.check(data)
    if any(isinstance(limit.metric, Nll) for limit in wanted.limits):
        metrics = AskedMetrics.from_metrics((*metrics, LossOfSamples()), metrics.named)
    (card,) = scorecards(data, [map_], n_bins=wanted.n_bins, strategy=wanted.strategy, metrics=metrics)
    if after and not any(limit.metric is not None and limit.metric.of_bins == "positive" for limit in wanted.limits):
        warn_of_one_temperature({after: card})  # which no bound is about
    reason = _why_not_judged(data, map_, card, wanted)
    gaps = None
    if not reason and any(limit.metric is None for limit in wanted.limits):
        (gaps,) = gaps_after(data, [map_], by, names_of_groups(data, by, classes), level)

    def check(limit: MetricBound, fail_level: float) -> Check:
        if reason:
            return unjudged_check(limit, card, level, reason)
        if limit.metric is None:
            assert gaps is not None, "which were measured above"
            return check_of_groups(limit, gaps, card.n_samples, level, fail_level)
        is_nll = isinstance(limit.metric, Nll)
        if card[limit.metric.label].value == inf:  # for which infinitely many samples cannot make up
            about = "a true class has probability 0" if is_nll else "some samples are infinite"
            return Check(limit, inf, inf, inf, level, fail_level, card.n_samples, about)
        if is_nll and LossOfSamples.name in card.estimates:
            return check_of_losses(limit, card, card[LossOfSamples.name].sums, wanted.nll_cap, level, fail_level)
        return check_of_card(limit, card, level, fail_level)

    checks = _all_checks(wanted.limits, check, level)
    if wanted.max_risk is not None:
        from nishimori._evaluation.threshold import threshold_of  # noqa: PLC0415 - SciPy

        checks += (_check_of_threshold(threshold_of(data, map_, calibrator, wanted.max_risk, level, classes), wanted),)
    return Gate(checks, card.n_samples, level, wanted.allow_inconclusive, wanted.min_samples)


class CertifiedCoverage(Metric):
    """The share of samples that are answered above a certified threshold."""

    name = "certified_coverage"
    title = "certified coverage"
    direction = "higher"
    bounds = (0.0, 1.0)
    in_percent = True

    def of_rows(self, predictions: Predictions) -> Any:
        """Raise: this is no mean over rows; `threshold` measures it."""
        raise NotImplementedError


def _check_of_threshold(certificate: "Threshold", wanted: Wanted) -> Check:
    """Check whether a threshold is certified and covers enough answers."""
    assert wanted.max_risk is not None, "which asks for it"
    limit = MetricBound(CertifiedCoverage(), wanted.min_coverage or 0.0)
    of_risk = f"at most {100 * wanted.max_risk:g} % wrong"
    if certificate.confidence is None:
        why = f"no threshold is certified at {100 * wanted.max_risk:g} %: {certificate.why.rstrip('.')}"
        return Check(limit, 0.0, nan, nan, wanted.level, wanted.level, certificate.n_samples, reason=why)
    if certificate.coverage_low is None and wanted.min_coverage:
        why = "coverage has no limits for clusters; leave out the least coverage"
        return Check(limit, certificate.coverage, nan, nan, wanted.level, wanted.level, certificate.n_samples, reason=why)
    low = certificate.coverage_low or 0.0
    about = f"answers with a confidence of at least {certificate.confidence:.4g}, {of_risk}"
    return Check(limit, certificate.coverage, low, nan, wanted.level, wanted.level, certificate.n_samples, about)


def _all_checks(limits: Sequence[MetricBound], check: Callable[[MetricBound, float], Check], level: float) -> tuple[Check, ...]:
    """All checks; each fails at a level chosen so that a good model rarely fails any of them.

    The limits of k checks have the level 1 - (1 - level)/k, and those of the others a lower one once some have failed. S. Holm,
    Scand. J. Stat. 6 (1979) 65.
    """
    decided: dict[MetricBound, Check] = {}
    left = list(limits)
    while left:
        checks = {limit: check(limit, shared(level, len(left))) for limit in left}
        decided |= checks
        still = [limit for limit in left if checks[limit].verdict != "fail"]
        if len(still) == len(left):
            break
        left = still
    return tuple(decided[limit] for limit in limits)


def _why_not_judged(data: Rows, map_: Map, card: Scorecard, wanted: Wanted) -> str:
    """Why the data cannot be judged at all; empty if they can."""
    number, what = (card.n_samples, "sample") if card.n_clusters is None else (card.n_clusters, card.cluster_name)
    # Weights that differ tell as much as (Σw)²/Σw² equal ones. With `counts`, a row is as many samples as its weight says.
    effective = round(1 / card["gap"].squares)
    weighted = effective < number
    if weighted or data.counts:
        number = effective
    if number < wanted.min_samples:
        reason = f"there is only one {what}" if number == 1 else f"there are only {number} {what}s"
        if weighted:
            reason = f"the weights reduce the information to {number} {what}{'s' * (number != 1)}"
        return f"{reason}, and at least {wanted.min_samples} are needed"
    if is_constant(data, map_, card.confidence, card.confidence_se):
        return "the model gives the same probabilities for every sample"
    return ""


class LossOfSamples(Metric):
    """The NLL of each sample, kept in 16 bytes per sample, or 24 with clusters."""

    name = "nll_of_samples"
    needs = "label"
    keeps_sums = True

    def sums(self, predictions: Predictions) -> KeptRows:
        """The losses of a batch."""
        return KeptRows.from_predictions(predictions, -predictions.log_likelihood)

    def of_sums(self, sums: KeptRows) -> tuple[float, None]:
        """The mean loss, with the standard error of the NLL."""
        values, weights = sums.columns
        return float(weights @ values / weights.sum()), None


# A model that always says the same cannot be judged. A constant answer can be calibrated by chance or by construction, as the
# share of the most frequent class is, and its ECE is one gap of one bin.


@dataclass(frozen=True)
class _OutputRange(Sum):
    """The lowest and the highest probability of each class; ``+`` pools two sets of rows."""

    low: HostArray = field(metadata=combined_by(np.minimum))
    high: HostArray = field(metadata=combined_by(np.maximum))


def _find_range(map_: Map, batch: Batch) -> _OutputRange:
    """Find the lowest and the highest probability of each class in a batch after a map."""
    mapped, beta = apply_map(map_, batch)
    probabilities, _ = class_probabilities(beta * mapped.double)
    return _OutputRange(probabilities.min(axis=0), probabilities.max(axis=0))


@question("has no rows to look at")
def is_constant(data: Rows, map_: Map, confidence: float, confidence_se: float | None) -> bool:
    """Whether the model gives all rows the same probabilities, up to rounding.

    Rows are read only where the confidence hardly varies: its standard error is at most its standard deviation.
    """
    if confidence_se is None or confidence_se > _ROUNDING * confidence:
        return False
    outputs = data.gather(partial(_find_range, map_))
    return bool((outputs.high - outputs.low <= _ROUNDING * outputs.high).all())


# The checks in the forms that continuous integration reads: JUnit's XML, and the workflow commands of GitHub


def junit(suite: str, outcomes: Sequence[CheckOutcome]) -> str:
    """A JUnit file: one test case per check."""
    elements = [outcome.shown_as[0] for outcome in outcomes]
    columns = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    numbers = {"tests": str(len(elements)), **{name: str(elements.count(element)) for name, element in columns.items()}}
    root = ElementTree.Element("testsuites", numbers)
    inside = ElementTree.SubElement(root, "testsuite", {"name": xml_text(suite), **numbers, "time": "0"})
    for outcome, element in zip(outcomes, elements, strict=True):
        title, message = xml_text(outcome.title), xml_text(outcome.message)
        case = ElementTree.SubElement(inside, "testcase", {"classname": xml_text(suite), "name": title, "time": "0"})
        if element == "skipped":
            ElementTree.SubElement(case, element, {"message": f"{outcome.verdict}: {message}"})
        else:
            about = {} if element == "system-out" else {"message": message, "type": outcome.verdict}
            ElementTree.SubElement(case, element, about).text = message
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def workflow_command(outcome: CheckOutcome) -> str:
    """A line that GitHub Actions shows as an error, a warning or a notice of the run."""
    title = workflow_text(f"{outcome.verdict}: {outcome.title}").replace(":", "%3A").replace(",", "%2C")
    return f"::{outcome.shown_as[1]} title={title}::{workflow_text(outcome.message)}"
