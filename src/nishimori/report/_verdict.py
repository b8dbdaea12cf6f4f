"""What the numbers mean, in the words at the top of the page."""

from typing import Any

from nishimori._evaluation.comparison import Compared, Comparison
from nishimori._evaluation.scorecard import Scorecard
from nishimori._support.intervals import normal_quantile
from nishimori._support.tables import value_with_error

TITLES = {
    "none": "No calibration",
    "ts": "Temperature scaling (TS)",
    "ec": "Expectation consistency (EC)",
    "adaptive": "Adaptive",
    "class temperatures": "A temperature per predicted class",
    "group temperatures": "A temperature per group",
}
"""The methods of the page by the names that the dictionary has for them."""


_CHOSEN_BY = {"adaptive": "the adaptive method", "ec": "expectation consistency", "ts": "temperature scaling"}


def recommended_method(found: Comparison) -> Compared | None:
    """The method to use: the adaptive one, or EC or TS where it could not be fitted."""
    fitted = {each.method: each for each in found if each.temperature is not None}
    return next((fitted[name] for name in ("adaptive", "ec", "ts") if name in fitted), None)


def verdict_of(found: Comparison) -> dict[str, Any]:
    """A status, a headline, what to do, and further sentences."""
    card = found["none"].scorecard
    assert card is not None, "the model as it is needs no fit"
    gap, error = (card.gap, card.gap_se)
    status = _status(card, gap, error, found.level)
    return {
        "status": status,
        "headline": f"Zeros at true classes; {_HEADLINES[status].lower()}" if found.caveat else _HEADLINES[status],
        "summary": " ".join(filter(None, (found.caveat, _summary(card, gap, error)))),
        "advice": _advice(found, status),
        "classes": _about_classes(found),
        "sentences": list(found.verdicts),
        "gap": gap,
        "gap_se": error,
    }


_HEADLINES = {
    "overconfident": "Overconfident",
    "underconfident": "Underconfident",
    "uneven": "Right on average, wrong in places",
    "calibrated": "No miscalibration found",
    "unknown": "Measured without error bars",
}


def _status(card: Scorecard, gap: float, error: float | None, level: float) -> str:
    if error is None:
        return "unknown"
    if abs(gap) > normal_quantile(level) * error:
        return "overconfident" if gap > 0 else "underconfident"
    return "uneven" if card.interval("ece", level).low > 0 else "calibrated"


def _summary(card: Scorecard, gap: float, error: float | None) -> str:
    """Confidence against accuracy in a sentence."""
    size = value_with_error(100 * abs(gap), None if error is None else 100 * error) if error else f"{100 * abs(gap):.2f}"
    side = "above" if gap >= 0 else "below"
    return (
        f"Mean confidence is {100 * card.confidence:.1f} %, accuracy is {100 * card.accuracy:.1f} %: confidence is {size} "
        f"points {side} accuracy."
    )


def _advice(found: Comparison, status: str) -> str:
    best, before = recommended_method(found), found["none"].scorecard
    if best is None or best.scorecard is None or before is None:
        return "No temperature could be fitted; the table below says why."
    T = value_with_error(best.temperature or 1.0, best.temperature_se)
    about = "about " if best.by_class is None else ""  # a sketch interpolates it
    change = f"the ECE goes from {100 * before.ece:.2f} % to {about}{100 * best.scorecard.ece:.2f} %"
    title = _CHOSEN_BY[best.method]
    if status == "calibrated":
        return f"Nothing has to be done. With T = {T}, which {title} chooses, {change}."
    return f"Divide the logits by T = {T}, which {title} chooses: {change}."


def _about_classes(found: Comparison) -> str:
    """What one temperature leaves to be done for single classes, or nothing if that is little."""
    best, several = recommended_method(found), {each.method: each.by_class for each in found}.get("class temperatures")
    one = None if best is None else best.by_class
    if one is None or several is None or not one.off or several.interval().high >= one.interval().low:
        return ""
    return (
        f"One temperature is not enough: after it, {len(one.off)} of {len(one)} predicted classes are off by more than noise, "
        f"and the mean gap of classes is {100 * one.mean_abs_gap:.2f} points. With a temperature per predicted class it is "
        f"{100 * several.mean_abs_gap:.2f} points."
    )
