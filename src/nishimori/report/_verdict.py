"""Explain the numbers in the words at the top of the page."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from nishimori._evaluation.compare import FLATTERS
from nishimori._evaluation.comparison import Compared, Comparison
from nishimori._evaluation.recommendation import what_is_off
from nishimori._evaluation.scorecard import Scorecard
from nishimori._support.formatting import number_text, value_with_error
from nishimori._support.intervals import normal_quantile

TITLES = {
    "none": "No calibration",
    "ts": "Temperature scaling (TS)",
    "ec": "Expectation consistency (EC)",
    "adaptive": "Adaptive",
    "class temperatures": "Class temperatures (group)",
    "group temperatures": "Group temperatures (group)",
    "intercept": "Intercept",
    "platt": "Platt scaling (platt)",
    "beta": "Beta calibration (beta)",
    "isotonic": "Isotonic regression",
    "histogram": "Histogram binning",
    "bias": "Bias correction (bias)",
    "vector": "Vector scaling (vector)",
}
"""The titles of the methods on the page, by their names in the dictionary."""

_NO_TEMPERATURE = "No temperature could be fitted; the table of methods says why."


@dataclass(frozen=True)
class Headline:
    """What is wrong with the uncalibrated model, and what calibration leaves of it; empty if that is not known.

    ``off`` and ``off_after`` say whether it is significant.
    """

    now: str
    off: bool
    after: str = ""
    off_after: bool = False

    def __str__(self) -> str:
        return f"{self.now}; {self.after}" if self.after else self.now


def verdict_of(comparison: Comparison, second: str, *, of_claims: bool = False) -> dict[str, Any]:
    """A status, headlines, what to do, and further sentences; ``second`` is the name of the last class."""
    card, advised = comparison["none"].card, comparison.recommendation
    headlines = _headlines(comparison, second)
    advice = " ".join(advised.sentences)
    if not of_claims and not any(row.temperature is not None for row in comparison if row.method != "none"):
        advice = " ".join(filter(None, (_NO_TEMPERATURE, advice)))
    # The page says these elsewhere.
    shown = {*advised.sentences, comparison.about_classes, comparison.about_groups, comparison.same_rows}
    return {
        "status": _status(comparison),
        "headline": ". ".join(
            ["Some true labels got probability 0"] * bool(comparison.caveat) + [str(headline) for headline in headlines]
        ),
        "headlines": [asdict(headline) for headline in headlines],
        "caveats": " ".join(filter(None, (comparison.same_rows or FLATTERS * comparison.flatters, comparison.caveat))),
        "summary": _summary(card),
        "advice": advice,
        "classes": comparison.about_classes,
        "groups": comparison.about_groups,
        "sentences": [verdict for verdict in comparison.verdicts if verdict not in shown],
        "gap": card.gap,
        "gap_se": card.gap_se,
    }


def _status(comparison: Comparison) -> str:
    """The status and headline of the uncalibrated model, in agreement with the recommendation."""
    card = comparison["none"].card
    if card.gap_se is None:
        return "unknown"
    off = what_is_off(comparison["none"], comparison.level)
    if off == "gap":
        return "overconfident" if card.gap > 0 else "underconfident"
    return "uneven" if off or comparison.recommendation.action == "calibrate" else "calibrated"


def second_share(card: Scorecard) -> float | None:
    """The share of samples in the second of two classes; None for more classes, and from a sketch."""
    gap = card.estimates.get("positive_gap")
    return None if gap is None or gap.gaps is None else gap.gaps.true_share


# What is wrong now, and what is left of it


def _headlines(comparison: Comparison, second: str) -> list[Headline]:
    """Headlines: confidence against accuracy and, for two classes, the second class, first if it is miscalibrated."""
    of_confidence, of_second = _about_confidence(comparison), _about_second(comparison, second)
    if of_second is None:
        return [of_confidence]
    if not of_second.off:
        return [of_confidence, of_second]
    return [of_second, of_confidence] if _status(comparison) in ("overconfident", "underconfident") else [of_second]


def _about_confidence(comparison: Comparison) -> Headline:
    card, status = comparison["none"].card, _status(comparison)
    if status == "calibrated":
        is_open = comparison.recommendation.action == "open"
        return Headline("No miscalibration found" + " on the test data" * is_open, off=False)
    if status == "uneven":
        return _about_places(comparison)
    size = 100 * abs(card.gap)
    digits = 1 if size >= 1 else 2  # after the point
    now = f"{status.capitalize()} by {size:.{digits}f} points"
    if status == "unknown":
        now = f"Confidence {size:.{digits}f} points {'above' if card.gap >= 0 else 'below'} accuracy, without error bars"

    def left(row: Compared) -> tuple[str, bool]:
        gap, error = row.card.gap, row.card.gap_se
        off = error is not None and abs(gap) > normal_quantile(comparison.level) * error
        turned = off and gap * card.gap < 0
        return f"{('overconfident by ' if gap > 0 else 'underconfident by ') * turned}{100 * abs(gap):.{digits}f}", off

    return _headline(comparison, now, left, off=status != "unknown")


def _about_places(comparison: Comparison) -> Headline:
    """What is wrong if mean confidence does not differ significantly from accuracy."""
    off = what_is_off(comparison["none"], comparison.level)
    if off in ("classes", "groups"):
        what, name = ("predicted classes", "by_class") if off == "classes" else ("groups", "by_group")
        gaps = getattr(comparison["none"], name)
        now = f"Wrong in places: {len(gaps.off)} of {len(gaps)} {what} off"
        return _headline(comparison, now, lambda row: (str(len(getattr(row, name).off)), bool(getattr(row, name).off)))
    if off == "ece":

        def left(row: Compared) -> tuple[str, bool]:
            card = row.card
            return f"{100 * card.ece:.1f} %", card.ece_se is not None and card.interval("ece", comparison.level).low > 0

        return _headline(comparison, f"Wrong in places: ECE {left(comparison['none'])[0]}", left)

    now = f"Wrong in places: NLL {number_text(comparison['none'].card.nll)}"
    return _headline(comparison, now, lambda row: (number_text(row.card.nll), False))


def _about_second(comparison: Comparison, name: str) -> Headline | None:
    """The mean probability of the second of two classes against its share of the samples; None for more classes."""
    z = normal_quantile(comparison.level)

    def left(row: Compared) -> tuple[str, bool]:
        gap, share = row.card["positive_gap"], second_share(row.card)
        return f"{100 * (gap.value + (share or 0)):.3g} %", gap.se is not None and abs(gap.value) > z * gap.se

    card = comparison["none"].card
    if (share := second_share(card)) is None:
        return None
    mean, off = left(comparison["none"])
    start = f"P(class {name}) is too {'high' if card.positive_gap > 0 else 'low'}: mean" if off else f"Mean P(class {name})"
    return _headline(comparison, f"{start} {mean}, prevalence {100 * share:.3g} %", left, off=off)


def _headline(comparison: Comparison, now: str, left: Callable[[Compared], tuple[str, bool]], *, off: bool = True) -> Headline:
    """The error now and, if a method is recommended, what it leaves: as text, and whether that is significant."""
    choice = comparison.recommendation.choice
    if choice in (None, "none"):
        return Headline(now, off)
    text, is_off = left(comparison[choice])
    return Headline(now, off, f"after calibration {text}{', on the same data' * comparison.flatters}", is_off)


def _summary(card: Scorecard) -> str:
    """Confidence against accuracy in a sentence."""
    gap, error = card.gap, card.gap_se
    size = value_with_error(100 * abs(gap), 100 * error) if error else f"{100 * abs(gap):.2f}"
    side = "above" if gap >= 0 else "below"
    true = "the share right" if card.of_claims else "accuracy"
    return (
        f"Mean confidence is {100 * card.confidence:.1f} %, {true} is {100 * card.accuracy:.1f} %: confidence is {size} "
        f"points {side} {true}."
    )
