"""A bound on a metric against what the data say: it holds, it does not, or they do not tell.

Each check has two one-sided limits. If the metric of infinitely many samples is within its bound, the lower limit exceeds the
bound in at most a share 1 - level of all data sets. If it is not, the upper limit is below the bound as rarely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from nishimori._evaluation.group_gaps import GroupGaps
from nishimori._evaluation.limits import FEW, limits_of_gaps, limits_of_share, one_sided
from nishimori._evaluation.scorecard import Scorecard
from nishimori._support.escape import printable
from nishimori._support.intervals import Interval, interval_around, interval_in_ratio, number_behind
from nishimori._support.numbers import between
from nishimori.errors import InputError, setting

Verdict = Literal["pass", "inconclusive", "cannot be judged", "fail"]
"""In the order in which they decide about several checks: the last one that occurs."""

# The name of each check for people, and whether its numbers are shares, which are printed in percent.
TITLES = {
    "ece": ("ECE", True),
    "gap": ("gap", True),
    "error": ("error", True),
    "brier": ("Brier score", False),
    "nll": ("NLL", False),
    "group_gap": ("largest group gap", True),
}

# What a metric cannot exceed, and so a bound on it need not.
_LARGEST = {"ece": 1.0, "gap": 1.0, "error": 1.0, "brier": 2.0, "nll": inf, "group_gap": 1.0}


@dataclass(frozen=True)
class Check:
    """One bound, and what the data say about it.

    Attributes
    ----------
    name : {"ece", "gap", "error", "brier", "nll", "group_gap"}
        What is checked.
    value : float
        Its estimate: for the ECE the one without the bias of small bins, for gaps the size of confidence minus accuracy.
    bound : float
        What it must not exceed.
    low, high : float
        One-sided limits: the true value is below ``low``, or above ``high``, in at most a share 1 - level of data sets each.
    verdict : {"pass", "inconclusive", "cannot be judged", "fail"}
        Pass if ``high`` is at most the bound, fail if ``low`` exceeds it, inconclusive if the bound lies between them. Where
        there is a ``reason``, it cannot be judged.
    level : float
        That of the limits.
    about : str
        More about the value, such as the group that it is of; may be empty.
    caveat : str
        What has to be known before the rest is read: that zeros at true classes decide it; may be empty.
    reason : str
        Why the bound cannot be judged, such as too few samples. Then there are no limits, and they are NaN.
    """

    name: str
    value: float
    bound: float
    low: float
    high: float
    level: float
    about: str = ""
    caveat: str = ""
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.reason:
            return "cannot be judged"
        if self.low > self.bound:
            return "fail"
        return "pass" if self.high <= self.bound else "inconclusive"

    @property
    def title(self) -> str:
        """What is asked, such as "ECE at most 2 %"."""
        return f"{TITLES[self.name][0]} at most {self._text(self.bound, exact=True)}"

    @property
    def message(self) -> str:
        """What was found, in one sentence, after the caveat if there is one."""
        return " ".join(filter(None, (self.caveat, self._found)))

    @property
    def _found(self) -> str:
        if self.reason:
            return f"{self.title}: {self.reason}"
        title, bound = TITLES[self.name][0], self._text(self.bound, exact=True)
        value, low, high = (self._text(each) for each in (self.value, self.low, self.high))
        sure = f"at the level of {100 * self.level:g} %"
        about = f" ({self.about})" if self.about else ""
        if self.verdict == "pass":
            return f"{title} is at most {bound}: {value}{about}, and below {high} {sure}"
        if self.verdict == "fail":
            return f"{title} exceeds {bound}: {value}{about}, and above {low} {sure}"
        return f"{title} may exceed {bound}: {value}{about}, and between {low} and {high} {sure}"

    def __str__(self) -> str:
        return f"{self.verdict}: {self.message}"

    def _text(self, value: float, *, exact: bool = False) -> str:
        """A number as people read it; a bound is shown as it was given."""
        if value == inf:
            return "infinity"
        if TITLES[self.name][1]:
            return f"{100 * value:.6g} %" if exact else f"{100 * value:.2f} %"
        return f"{value:.6g}" if exact else f"{value:.4f}"


def checked_bounds(bounds: dict[str, float | None]) -> dict[str, float]:
    """The bounds that are given, as numbers; at least one must be."""
    given = {name: _checked_bound(name, each) for name, each in bounds.items() if each is not None}
    if not given:
        names = ", ".join(setting(f"max_{name}") for name in bounds)
        raise InputError("At least one bound", f"be given, such as {setting('max_ece', 0.02)}", got=f"none of {names}")
    return given


def _checked_bound(name: str, bound: Any) -> float:
    """A bound as a number; one that was meant in percent is refused with the share to pass instead."""
    try:
        return between(f"max_{name}", bound, 0, _LARGEST[name])
    except InputError as error:
        if is_in_percent(name, bound):
            raise error.changed(remedy=f"For {bound:g} %, pass {bound / 100:g}.") from None
        raise


def is_in_percent(name: str, bound: Any) -> bool:
    """Whether the bound on a share looks like one in percent, such as 2 for 2 %."""
    return TITLES[name][1] and isinstance(bound, Real) and 1 < float(bound) <= 100


def worst(checks: Sequence[Check]) -> Verdict:
    """The verdict that decides about all of them."""
    return max((each.verdict for each in checks), key=get_args(Verdict).index)


def unjudged_check(name: str, bound: float, card: Scorecard, level: float, reason: str) -> Check:
    """A bound that the data cannot be held against, with the value that they have all the same."""
    value = {"gap": abs(card.gap), "group_gap": nan}.get(name)
    return Check(name, getattr(card, name) if value is None else value, bound, nan, nan, level, reason=reason)


def check_of_card(name: str, bound: float, card: Scorecard, level: float) -> Check:
    """A metric of all samples against its bound."""
    known = "ece" if name == "gap" else name  # which has the same sums behind it
    if name == "nll" and card.nll == inf:  # a true class is masked, and infinitely many samples cannot make up for it
        return Check(name, inf, bound, inf, inf, level, "a true class has probability 0")
    if known in card.why_no_se:
        needed = f"the standard error of the {TITLES[name][0]}"
        raise InputError(f"{setting(f'max_{name}')} needs {needed}: {card.why_no_se[known]}")
    assert card.gaps is not None, "whose absence has a reason"
    if name == "gap":
        return Check(name, abs(card.gap), bound, *_gap(card, level), level, _direction(card.gap))
    if name == "error":
        assert card.error_se is not None, "whose absence has a reason"
        number = number_behind(card.error, card.error_se**2, card.gaps.squares)
        return Check(name, card.error, bound, *limits_of_share(card.error, number, level), level)
    if name == "ece":
        low, high = card.interval(name, one_sided(level))
        # The ECE is at least the gap, whose limits know what few wrong answers leave open.
        high = max(high, _gap(card, level).high)
        assert card.ece_corrected is not None, "whose absence has a reason"
        return Check(name, card.ece_corrected, bound, low, high, level, f"{100 * card.ece:.2f} % as measured")
    return _check_of_loss(name, bound, card, level)


def _check_of_loss(name: str, bound: float, card: Scorecard, level: float) -> Check:
    """A mean loss against its bound. Few large losses skew its error, so each limit is the further one of two."""
    value, error = getattr(card, name), getattr(card, f"{name}_se")
    assert card.gaps is not None, "whose absence has a reason"
    low = max(interval_around(value, error, one_sided(level)).low, 0.0)
    high = interval_in_ratio(value, error, one_sided(level)).high if value > 0 else 0.0
    about = ""
    if card.error < FEW * card.gaps.squares:
        high, about = inf, f"fewer than {FEW} wrong answers, which decide it"
    caveat = card.caveat if name == "nll" else ""
    return Check(name, value, bound, low, min(high, _LARGEST[name]), level, about, caveat)


def _gap(card: Scorecard, level: float) -> Interval:
    """The limits of abs(confidence - accuracy) of all samples."""
    assert card.gap_se is not None, "whose absence has a reason"
    assert card.gaps is not None, "whose absence has a reason"
    measured = np.array([[card.confidence], [card.accuracy], [card.gap_se], [1 / card.gaps.squares]])
    low, high = limits_of_gaps(measured, level, level)
    return Interval(float(low[0]), float(high[0]))


def _direction(gap: float) -> str:
    return "confidence is above accuracy" if gap > 0 else "confidence is below accuracy" if gap < 0 else ""


def check_of_groups(bound: float, found: GroupGaps, level: float) -> Check:
    """The largest gap of any group against its bound.

    The lower limits share the probability 1 - level between all groups, so that a calibrated model with many groups is not
    called a failure by chance. That every group is within the bound is proven group by group, which needs no such share.
    """
    groups = found.groups
    columns = ("confidence", "accuracy", "se", "n")
    measured = np.array([[getattr(each, name) for each in groups] for name in columns], dtype=float)
    low, high = limits_of_gaps(measured, 1 - (1 - level) / len(groups), level)
    place = int(low.argmax() if low.max() > bound else high.argmax())
    largest, what = groups[place], "class" if found.by == "prediction" else "group"
    n_above = int((low > bound).sum())
    parts = [f"{what} {printable(str(largest.name))}, n = {largest.n}", _direction(largest.gap)]
    if n_above > 1:
        parts.append(f"{n_above} of {len(groups)} exceed it")
    about = ", ".join(filter(None, parts))
    return Check("group_gap", abs(largest.gap), bound, float(low.max()), float(high.max()), level, about)


def to_dicts(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """The checks as plain dictionaries; a limit that is not finite is None."""
    names = ("name", "verdict", "value", "bound", "low", "high", "level", "message")
    found = [{name: getattr(each, name) for name in names} for each in checks]
    return [{name: None if isinstance(x, float) and not isfinite(x) else x for name, x in each.items()} for each in found]
