"""Decide whether the data prove that a metric is within its bound, outside it, or neither.

Each check has two one-sided limits. If the metric of infinitely many samples is not within its bound, the upper limit is below
the bound in at most a share 1 - level of all data sets: the model passes as rarely. If it is within its bound, the lower limit
exceeds the bound as rarely: the model fails. A pass needs an estimate within the bound, too: the upper limit of the NLL is
about capped losses. A model passes only if all checks pass, so several of them make a wrong pass rarer; but it fails if one of
them fails, so their lower limits have higher levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, isclose, isfinite, isnan, nan
from numbers import Real
from typing import Any, Literal

import numpy as np

from nishimori._evaluation.group_gaps import GroupGaps
from nishimori._evaluation.limits import Losses, limits_of_gaps, shared
from nishimori._evaluation.metrics.ece import GapOfBins, direction
from nishimori._evaluation.metrics.metric import Metric
from nishimori._evaluation.metrics.table import as_metric, find_metric, names_with_bounds
from nishimori._evaluation.resampling import KeptRows
from nishimori._evaluation.scorecard import Scorecard
from nishimori._support.escape import printable
from nishimori._support.formatting import number_text, percent, round_up
from nishimori._support.json import to_plain
from nishimori._support.numbers import between
from nishimori.errors import InputError, setting

Verdict = Literal["pass", "inconclusive", "cannot be judged", "fail"]
"""The statuses in order of precedence: the last one that occurs is the status of several checks."""

GROUP_GAP = "group_gap"
"""The name of the bound on the gap of each group, which is no metric of all samples."""

# More samples than this many times those at hand are not realistic: the estimate is then closer to the bound than 1/√1000, or
# 3 %, of the distance between estimate and limit.
_MOST_SAMPLES = 1000


@dataclass(frozen=True)
class MetricBound:
    """A limit that a metric must not exceed or, if higher values are better, not fall below.

    ``metric`` is None for the largest gap of any group.
    """

    metric: Metric | None
    value: float

    @property
    def name(self) -> str:
        return GROUP_GAP if self.metric is None else self.metric.label

    @property
    def shown(self) -> str:
        """What the metric is called."""
        return "largest group gap" if self.metric is None else self.metric.shown

    @property
    def in_percent(self) -> bool:
        """Whether values are shares, which are printed in percent."""
        return self.metric is None or self.metric.in_percent

    @property
    def is_lowest(self) -> bool:
        """Whether the metric must not fall below it."""
        return self.metric is not None and self.metric.direction == "higher"


@dataclass(frozen=True)
class Check:
    """One bound, and the verdict of the data on it.

    Attributes
    ----------
    name : str
        What is checked: the name of a metric, or "group_gap".
    value : float
        Its estimate: the bias-corrected one for the ECE, for gaps the size of confidence minus accuracy.
    bound : float
        What it must not exceed or, where higher values are better, fall below.
    low, high : float
        One-sided limits: the true value is below ``low``, or above ``high``, in at most a share 1 - level of data sets each.
        For the NLL, ``high`` is about the mean of min(NLL, ``cap``): no upper limit holds without a largest loss. For the
        certified coverage, ``high`` is NaN: more samples may certify a lower threshold.
    verdict : {"pass", "inconclusive", "cannot be judged", "fail"}
        Fail if ``low`` exceeds the bound, pass if neither ``high`` nor ``value`` does, otherwise inconclusive; where higher
        values are better, the other way round. Where there is a ``reason``, it cannot be judged.
    level : float
        That of the limit that shows a pass.
    fail_level : float
        That of the limit that shows a failure: the same for one check, higher for several.
    n_samples : int
        How many samples had a positive weight.
    needed_samples : float or None
        About how many samples like these would settle an inconclusive check if the estimate stayed: infinite if the estimate
        is so close to the bound that 1,000 times the samples would not do. None for other verdicts, and where nothing can be
        said.
    cap : float or None
        The largest loss that ``high`` knows, where there is one.
    about : str
        More about the value, such as the group that it is of; may be empty.
    caveat : str
        What has to be known before the rest is read: that zeros at true classes decide it; may be empty.
    reason : str
        Why the bound cannot be judged, such as too few samples. Then there are no limits, and they are NaN.
    """

    limit: MetricBound = field(repr=False)
    value: float
    low: float
    high: float
    level: float
    fail_level: float
    n_samples: int
    about: str = ""
    caveat: str = ""
    reason: str = ""
    cap: float | None = None
    of_pass: float = field(default=nan, repr=False)  # the estimate of the limit that shows a pass, where `value` is another one

    @property
    def name(self) -> str:
        return self.limit.name

    @property
    def bound(self) -> float:
        return self.limit.value

    @property
    def verdict(self) -> Verdict:
        if self.reason:
            return "cannot be judged"
        if self.limit.is_lowest:
            fails, passes = self.high < self.bound, self.low >= self.bound
        else:
            fails, passes = self.low > self.bound, self.high <= self.bound
        return "fail" if fails else "pass" if passes and self._is_kept else "inconclusive"

    @property
    def _is_kept(self) -> bool:
        """Whether the estimate is within the bound."""
        return self.value >= self.bound if self.limit.is_lowest else self.value <= self.bound

    @property
    def needed_samples(self) -> float | None:
        if self.verdict != "inconclusive":
            return None
        if isclose(self.value, self.bound, rel_tol=1e-9):
            return inf
        # Limits come closer to the estimate as 1/√n. Which of the two settles it is the one that the estimate is beyond.
        end = self.high if self._is_kept != self.limit.is_lowest else self.low
        best = self.of_pass if self._is_kept and isfinite(self.of_pass) else self.value
        room, width = abs(self.bound - best), abs(end - best)
        number = self.n_samples * (width / room) ** 2
        if not isfinite(number):
            return None
        if number > _MOST_SAMPLES * self.n_samples:
            return inf
        return round_up(max(number, self.n_samples + 1))

    @property
    def title(self) -> str:
        """The check in words, such as "ECE at most 2 %"."""
        word = "least" if self.limit.is_lowest else "most"
        return f"{self.limit.shown} at {word} {self._text(self.bound, exact=True)}"

    @property
    def message(self) -> str:
        """The result in one sentence, after the caveat, if there is one."""
        return " ".join(filter(None, (self.caveat, self._sentence)))

    @property
    def _sentence(self) -> str:
        if self.reason:
            return f"{self.title}: {self.reason}"
        title, bound = self.limit.shown, self._text(self.bound, exact=True)
        value, low, high = (self._text(number) for number in (self.value, self.low, self.high))
        about = f" ({self.about})" if self.about else ""
        cap = "" if self.cap is None else f" of min({title}, {self.cap:g})"
        upper, lower = f"upper bound {high}{cap}", f"lower bound {low}"
        if self.limit.is_lowest:
            passes, fails, may_fail, proof, disproof = "at least", "falls below", "fall below", lower, upper
        else:
            passes, fails, may_fail, proof, disproof = "at most", "exceeds", "exceed", upper, lower
        proof, disproof = f"{100 * self.level:.4g} % {proof}", f"{100 * self.fail_level:.4g} % {disproof}"
        if self.verdict == "pass":
            return f"{title} is {passes} {bound}: {value}{about}; {proof}"
        if self.verdict == "fail":
            return f"{title} {fails} {bound}: {value}{about}; {disproof}"
        if isnan(self.high):
            return f"{title} is not proven to be {passes} {bound}: {value}{about}; {proof}{self._outlook}"
        return f"{title} may {may_fail} {bound}: {value}{about}; {disproof}, {proof}{self._outlook}"

    @property
    def _outlook(self) -> str:
        """How many samples would decide the check, as the end of a sentence; empty if that is not known."""
        if (needed := self.needed_samples) is None:
            return ""
        if needed == inf:
            return "; the estimate is at the bound: no realistic number of samples decides it"
        return f"; about {needed:,.0f} samples would decide it if the estimate stayed the same"

    def __str__(self) -> str:
        return f"{self.verdict}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and texts; a number that is not finite is None."""
        names = ("name", "verdict", "value", "bound", "low", "high", "level", "fail_level", "cap", "needed_samples", "message")
        return to_plain({name: getattr(self, name) for name in names})

    @property
    def limits(self) -> str:
        """The limits as text, or why there are none."""
        low = self._text(self.low)
        return self.reason or (f"at least {low}" if isnan(self.high) else f"{low} to {self._text(self.high)}")

    def _text(self, value: float, *, exact: bool = False) -> str:
        """A number as text; a bound is shown as it was passed."""
        if self.limit.in_percent:
            return f"{100 * value:.6g} %" if exact else percent(value)
        return number_text(value, 6 if exact else 4)


def checked_bounds(bounds: Any) -> tuple[MetricBound, ...]:
    """The passed bounds as numbers, by limit; there must be at least one."""
    such_as = "such as " + setting("bounds", {"ece": 0.02})
    if not isinstance(bounds, Mapping):
        raise InputError("bounds", f"be a dictionary of metrics and numbers, {such_as}", got=f"{bounds!r:.60}")
    numbers = {key: value for key, value in bounds.items() if value is not None}
    if not numbers:
        raise InputError("bounds", f"have at least one bound, {such_as}", got="none")
    return tuple(_checked_bound(key, value) for key, value in numbers.items())


def find_bound(name: str, argument: str) -> Metric | None:
    """The metric that a user typed in ``argument`` to bound it; None for the gap of each group."""
    return None if name == GROUP_GAP else find_metric(name, argument, (*names_with_bounds(), GROUP_GAP))


def _checked_bound(key: Any, bound: Any) -> MetricBound:
    """A bound as a number; refuses one that looks like a percentage, and says which share to pass instead."""
    if isinstance(key, str):
        metric = find_bound(key, "bounds")
    else:
        metric = as_metric(key)
        if metric is None:
            raise InputError("bounds", "have metrics or names of metrics as keys", got=f"{key!r:.60}")
    if metric is not None and metric.direction is None:
        raise InputError("bounds", "be for metrics with a direction: lower or higher values are better", got=repr(metric.label))
    low, high = (0.0, 1.0) if metric is None or isinstance(metric, GapOfBins) else metric.bounds  # of the size of gaps
    limit = MetricBound(metric, nan)
    try:
        return replace(limit, value=between(f"The bound on {limit.name}", bound, low, high))
    except InputError as error:
        if limit.in_percent and isinstance(bound, Real) and 1 < float(bound) <= 100:  # such as 2 for 2 %
            raise error.changed(remedy=f"For {bound:g} %, pass {bound / 100:g}.") from None
        raise


def unjudged_check(limit: MetricBound, card: Scorecard, level: float, reason: str) -> Check:
    """A check that the data cannot decide, with the measured value."""
    value = nan
    if limit.metric is not None:
        value = abs(card.gap) if limit.name == "gap" else card[limit.name].value
    return Check(limit, value, nan, nan, level, level, card.n_samples, reason=reason)


def check_of_card(limit: MetricBound, card: Scorecard, level: float, fail_level: float) -> Check:
    """Check a metric of all samples against its bound."""
    metric = limit.metric
    assert metric is not None, "groups have none"
    estimate = card[metric.label]
    if estimate.se is None:
        raise InputError(f"A bound on {metric.label} needs the standard error of the {metric.shown}: {estimate.reason}")
    low, high, about, value = metric.limits(estimate, card, level)
    if fail_level > level:
        further = metric.limits(estimate, card, fail_level)
        low, high = (low, further.high) if limit.is_lowest else (further.low, high)
    caveat = card.caveat if metric.needs == "label" else ""
    return Check(limit, estimate.value if value is None else value, low, high, level, fail_level, card.n_samples, about, caveat)


def check_of_losses(limit: MetricBound, card: Scorecard, kept: KeptRows, cap: float, level: float, fail_level: float) -> Check:
    """Check the NLL of all samples against its bound, with limits that hold for any distribution of losses."""
    value, bound, n_samples = card.nll, limit.value, card.n_samples
    capped = Losses.from_rows(kept, cap)
    low, high = Losses.from_rows(kept).lower_limit(fail_level, bound), capped.upper_limit(cap, level, bound)
    return Check(limit, value, low, high, level, fail_level, n_samples, caveat=card.caveat, cap=cap, of_pass=capped.mean)


def check_of_groups(limit: MetricBound, gaps: GroupGaps, n_samples: int, level: float, fail_level: float) -> Check:
    """Check the largest gap of any group against its bound.

    The lower limits share the probability 1 - ``fail_level`` between all groups, so that a calibrated model with many groups is
    not called a failure by chance. That every group is within the bound is proven group by group, which needs no such share.
    """
    groups, bound = gaps.groups, limit.value
    columns = ("confidence", "accuracy", "se", "n")
    measured = np.array([[getattr(group, name) for group in groups] for name in columns], dtype=float)
    low, high = limits_of_gaps(measured, shared(fail_level, len(groups)), level)
    sizes = np.abs([group.gap for group in groups])
    largest, fails = int(sizes.argmax()), bool(low.max() > bound)
    decides = int(low.argmax() if fails else high.argmax())
    what = "class" if gaps.by == "prediction" else "group"
    names = [f"{what} {printable(str(group.name))}, n = {group.n}" for group in groups]
    parts = [names[largest], direction(groups[largest].gap)]
    if (n_above := int((low > bound).sum())) > 1:
        parts.append(f"{n_above} of {len(groups)} exceed it")
    about = ", ".join(filter(None, parts))
    if decides != largest:
        about += f"; the {'lower' if fails else 'upper'} bound belongs to {names[decides]}"
    ends = (float(low.max()), float(high.max()))
    return Check(limit, float(sizes[largest]), *ends, level, fail_level, n_samples, about, of_pass=float(sizes[high.argmax()]))
