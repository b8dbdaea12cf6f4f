"""What the numbers mean, in the words at the top of the page."""

from typing import Any

from nishimori._evaluation.compare import FLATTERS
from nishimori._evaluation.comparison import Comparison
from nishimori._evaluation.recommendation import miscalibration
from nishimori._evaluation.scorecard import Scorecard
from nishimori._support.formatting import value_with_error
from nishimori._support.intervals import normal_quantile

TITLES = {
    "none": "No calibration",
    "ts": "Temperature scaling (TS)",
    "ec": "Expectation consistency (EC)",
    "adaptive": "Adaptive",
    "class temperatures": "Class temperatures (group)",
    "group temperatures": "Group temperatures (group)",
    "platt": "Platt scaling (platt)",
    "beta": "Beta calibration (beta)",
    "bias": "Bias correction (bias)",
    "vector": "Vector scaling (vector)",
}
"""The methods of the page by the names that the dictionary has for them."""

_NO_TEMPERATURE = "No temperature could be fitted; the table below says why."


def verdict_of(found: Comparison) -> dict[str, Any]:
    """A status, a headline, what to do, and further sentences."""
    card, advised = found["none"].scorecard, found.recommendation
    assert card is not None, "the model as it is needs no fit"
    assert advised is not None, "which every comparison has"
    gap, error = (card.gap, card.gap_se)
    status = _status(found)
    headline = _HEADLINES[status]
    if status == "calibrated" and advised.action == "open":  # the validation data say otherwise
        headline += " on the test data"
    advice = " ".join(advised.sentences)
    if not any(each.temperature is not None for each in found if each.method != "none"):
        advice = " ".join(filter(None, (_NO_TEMPERATURE, advice)))
    # The page says these at its top.
    shown = {*advised.sentences, found.about_classes, found.about_groups, found.same_rows}
    return {
        "status": status,
        "headline": f"Zeros at true classes; {headline.lower()}" if found.caveat else headline,
        "summary": " ".join(filter(None, (_first_of_all(found), found.caveat, _summary(card, gap, error)))),
        "advice": advice,
        "classes": found.about_classes,
        "groups": found.about_groups,
        "sentences": [each for each in found.verdicts if each not in shown],
        "gap": gap,
        "gap_se": error,
    }


def _first_of_all(found: Comparison) -> str:
    """That methods were measured on what they were fitted to, if so."""
    return found.same_rows or (FLATTERS if found.flatters else "")


_HEADLINES = {
    "overconfident": "Overconfident",
    "underconfident": "Underconfident",
    "uneven": "Wrong in places, not significantly on average",
    "calibrated": "No miscalibration found",
    "unknown": "Measured without error bars",
}


def _status(found: Comparison) -> str:
    """What the model as it is shows, in agreement with what is recommended."""
    card, advised = found["none"].scorecard, found.recommendation
    assert card is not None, "the model as it is needs no fit"
    if card.gap_se is None:
        return "unknown"
    if abs(card.gap) > normal_quantile(found.level) * card.gap_se:
        return "overconfident" if card.gap > 0 else "underconfident"
    helps = advised is not None and advised.action == "calibrate"
    return "uneven" if helps or miscalibration(found["none"], found.level) else "calibrated"


def _summary(card: Scorecard, gap: float, error: float | None) -> str:
    """Confidence against accuracy in a sentence."""
    size = value_with_error(100 * abs(gap), None if error is None else 100 * error) if error else f"{100 * abs(gap):.2f}"
    side = "above" if gap >= 0 else "below"
    return (
        f"Mean confidence is {100 * card.confidence:.1f} %, accuracy is {100 * card.accuracy:.1f} %: confidence is {size} "
        f"points {side} accuracy."
    )
