"""Recommend one of the compared methods, and another one if predictions may change.

This is the one place where a comparison becomes advice: the verdicts of `compare`, the report, the shell and JSON all take it
from here, so that none of them can contradict another. Methods are told apart by what was measured; only the order of
simplicity knows names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Literal

from nishimori._evaluation.metrics.metric import Difference
from nishimori._evaluation.scorecard import is_second_off
from nishimori._support.formatting import enumeration, format_p_value, signed, value_with_error
from nishimori._support.intervals import normal_quantile

if TYPE_CHECKING:
    from nishimori._evaluation.comparison import Compared

SIMPLEST_FIRST = ("adaptive", "ec", "ts", "intercept")
"""The order in which methods with one temperature are recommended; the last one is for claims."""

Action = Literal["calibrate", "nothing", "leave", "open"]
"""Whether to calibrate: "calibrate" if some method has a significantly lower NLL than no calibration; "nothing" if none has,
and nothing is wrong with the model as it is; "leave" if the simplest method makes it worse; "open" if the tests disagree."""

PairedDifference = Callable[[str, str, str], Difference | None]
"""A function that gives the paired difference in a metric, second method minus first; None for a sketch."""


@dataclass(frozen=True)
class RecommendedMethod:
    """A method, and what it changes compared with the reference of the recommendation.

    Attributes
    ----------
    method : str
        The name of the method.
    temperature, temperature_se : float or None
        T and its standard error, if it has one.
    nll_percent, nll_p_value : float or None
        The relative difference of the NLL in percent, and the p-value of the difference; None where they are not known, and of
        the reference itself.
    error_points, error_p_value : float or None
        The same of the error, in percentage points.
    ece_points, ece_p_value : float or None
        The same of the ECE, in percentage points.
    changed_predictions : float
        The weighted share of samples for which it predicts another class than the model as it is.
    """

    method: str
    temperature: float | None
    temperature_se: float | None
    nll_percent: float | None
    nll_p_value: float | None
    error_points: float | None
    error_p_value: float | None
    ece_points: float | None
    ece_p_value: float | None
    changed_predictions: float

    def changes(self, level: float) -> str:
        """The changes in words, such as "error −3.0 points, NLL −28 %"; empty if none is known."""
        numbers = (
            ("error", self.error_points if self.changed_predictions else None, self.error_p_value, "points"),
            ("NLL", self.nll_percent, self.nll_p_value, "%"),
            ("ECE", self.ece_points, self.ece_p_value, "points"),
        )
        return ", ".join(
            f"{name} {signed(value)} {unit}{' (not significant)' if p is not None and p >= 1 - level else ''}"
            for name, value, p, unit in numbers
            if value is not None
        )


@dataclass(frozen=True)
class Recommendation:
    """The recommendation, from the NLL of all compared methods and from tests of the uncalibrated model.

    Attributes
    ----------
    reference : str
        The method that all changes are compared with: no calibration if it is among the methods, otherwise the first one.
    as_is : str or None
        The name of no calibration, if it is among the methods.
    simplest : RecommendedMethod or None
        The method of one temperature, which never changes a prediction: the adaptive method if it is among the methods, else
        EC, else TS, else the first one that has a temperature. One whose NLL is above that of no calibration does not count.
    best : RecommendedMethod or None
        The method of the lowest NLL if that is significantly lower than the NLL of the simplest one, otherwise the simplest
        one. No method that was compared has a significantly lower NLL. None where differences are not known, if no calibration
        is better, and if a method of several parameters was measured on the data that it was fitted to.
    choice : str or None
        The method to use. That is `simplest`, unless `best` changes no prediction either, or `simplest` leaves the mean
        probability of the second of two classes off and `best` does not; without a `simplest` it is `best`. No calibration if
        nothing has to be done, or if the model is better left as it is. None where no method can be recommended.
    other : str or None
        The method to use instead if predictions may change: `best`, if it changes some and is not the choice.
    p_value : float or None
        That of the difference between the NLLs of `best` and `simplest`; None if they are the same, and where it is not known.
    action : {"calibrate", "nothing", "leave", "open"} or None
        Whether to calibrate. "calibrate": some method has a significantly lower NLL than no calibration. "nothing": none has,
        and confidence does not differ significantly from accuracy, neither over all samples nor in bins, predicted classes and
        named groups. "leave": no calibration has a significantly lower NLL than the simplest method, and none has a lower one.
        "open": no NLL is significantly lower, but confidence differs from accuracy. None where it is not known.
    sentences : tuple of str
        The same in words.
    """

    reference: str
    as_is: str | None
    simplest: RecommendedMethod | None
    best: RecommendedMethod | None
    choice: str | None
    other: str | None
    p_value: float | None
    action: Action | None
    sentences: tuple[str, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods to discuss: the choice and the other one, or no calibration if there is no choice."""
        return tuple(filter(None, (self.choice or self.as_is, self.other)))


def recommend(
    rows: "Sequence[Compared]", difference: PairedDifference, level: float, *, off_in_validation: bool, in_sample: bool = False
) -> Recommendation:
    """The recommendation from the fitted methods.

    ``off_in_validation`` if the confidence of the model as it is differs significantly from its accuracy on validation data;
    ``in_sample`` if methods were measured on the data that they were fitted to.
    """
    # Many parameters lower the NLL of the data that they are fitted to, as if beyond chance; one lowers it by about 1/(2n).
    comparable = [row for row in rows if not in_sample or _is_simple(row)]
    choices = _Choice({row.method: row for row in comparable}, difference, level, is_complete=len(comparable) == len(rows))
    as_is = next((row.method for row in rows if row.is_as_is), None)
    others = [row for row in comparable if not row.is_as_is]
    candidates = [row for row in others if as_is is None or not row.card.nll > choices.rows[as_is].card.nll]
    simple = _simplest([row for row in candidates if _is_simple(row)])
    reference = next(iter(choices.rows), rows[0].method) if as_is is None else as_is
    simplest = None if simple is None else choices.advice(simple, reference)
    end = choices.best(simple or as_is, [*filter(None, [as_is]), *(row.method for row in candidates)]) if comparable else None
    action: Action | None = None
    if as_is is not None and choices.knows(as_is):
        usual = _simplest([row for row in others if _is_simple(row)])
        if simple is None and usual is not None and end == as_is and as_is in choices.lower(usual, [as_is]):
            action = "leave"
        elif choices.lower(as_is, list(choices.rows)):
            action = "calibrate"
        else:
            action = "open" if off_in_validation or what_is_off(choices.rows[as_is], level) else "nothing"
    best = None if end in (None, as_is) or not choices.is_complete else choices.advice(end, reference)
    p_value = None if best is None or simple in (None, best.method) else choices.p_value(simple or "", best.method)
    choice, other = (as_is, None) if action in ("nothing", "leave") else choices.choose(simplest, best)
    recommendation = Recommendation(reference, as_is, simplest, best, choice, other, p_value, action, ())
    return replace(recommendation, sentences=tuple(_sentences(recommendation, choices))) if len(rows) > 1 else recommendation


OFF_IN_WORDS = {
    "gap": "mean confidence differs significantly from accuracy",
    "positive_gap": "the mean probability of the second class differs significantly from its share of the samples",
    "ece": "the ECE is significantly larger than for a calibrated model",
    "classes": "the confidence of some predicted classes differs significantly from their accuracy",
    "groups": "the confidence of some groups differs significantly from their accuracy",
}
"""What can be significantly wrong with confidence, in the order of the checks."""


def what_is_off(row: "Compared", level: float) -> str:
    """The significant problem of the confidence after a method: a key of `OFF_IN_WORDS`, or empty."""
    card, z = row.card, normal_quantile(level)
    for name in ("gap", "positive_gap"):
        gap = card.estimates.get(name)
        if gap is not None and gap.se is not None and abs(gap.value) > z * gap.se:
            return name
    if card.ece_se is not None and card.interval("ece", level).low > 0:
        return "ece"
    if row.by_class is not None and row.by_class.off:
        return "classes"
    return "groups" if row.by_group is not None and row.by_group.off else ""


def _is_simple(row: "Compared") -> bool:
    """Whether a method has one parameter: a temperature, or the shift of claims."""
    return row.temperature is not None or (row.card.of_claims and row.method in SIMPLEST_FIRST)


def _simplest(rows: "Sequence[Compared]") -> str | None:
    names = [row.method for row in rows]
    return next((name for name in (*SIMPLEST_FIRST, *names) if name in names), None)


@dataclass(frozen=True)
class _Choice:
    """The conclusions from paired differences between methods at a level."""

    rows: "Mapping[str, Compared]"
    difference: PairedDifference
    level: float
    is_complete: bool = True
    """Whether all methods may be compared: several parameters must not be judged on the data of their fit."""

    @property
    def names(self) -> list[str]:
        """The methods in the order of sentences, whatever the table's order: none, one temperature, others."""
        first = [name for name, row in self.rows.items() if row.is_as_is]
        first += [name for name in SIMPLEST_FIRST if name in self.rows]
        return list(dict.fromkeys((*first, *self.rows)))

    def p_value(self, first: str, second: str, metric: str = "nll") -> float | None:
        difference = self.difference(first, second, metric)
        return None if difference is None else difference.p_value

    def knows(self, first: str) -> bool:
        """Whether the difference of at least one method from this one is known."""
        return any(self.p_value(first, name) is not None for name in self.rows if name != first)

    def lower(self, first: str, others: Sequence[str]) -> list[str]:
        """The methods with a significantly lower NLL than the first one, the lowest first."""
        differences = {name: self.difference(first, name, "nll") for name in others if name != first}
        lower = [
            (its.value, name)
            for name, its in differences.items()
            if its is not None and its.value < 0 and its.p_value is not None and its.p_value < 1 - self.level
        ]
        return [name for _, name in sorted(lower)]

    def best(self, start: str | None, names: Sequence[str]) -> str | None:
        """The method that no other one beats with a significantly lower NLL, starting from the simplest one.

        The lowest NLL of all need not be significantly lower than that of the simplest method while another one is. A step to
        the lowest that is, repeated, ends where none is.
        """
        place = start or names[0]
        if not self.knows(place):
            return None
        while lower := self.lower(place, names):
            place = lower[0]
        return place

    def choose(self, simplest: RecommendedMethod | None, best: RecommendedMethod | None) -> tuple[str | None, str | None]:
        """The method to use, and the one to use instead if predictions may change."""
        if simplest is None or best is None or best.method == simplest.method:
            only = simplest or best
            return None if only is None else only.method, None
        corrects = is_second_off(self.rows[simplest.method].card) and not is_second_off(self.rows[best.method].card)
        if corrects or not best.changed_predictions:
            return best.method, None
        return simplest.method, best.method

    def advice(self, name: str, reference: str) -> RecommendedMethod:
        """The changes of a method compared with the reference."""
        row, before = self.rows[name], self.rows[reference].card
        after = row.card
        is_other = name != reference
        nll = 100 * (after.nll / before.nll - 1) if is_other and before.nll > 0 and isfinite(before.nll) else None
        error, ece = (100 * (after[metric].value - before[metric].value) if is_other else None for metric in ("error", "ece"))
        p_values = [self.p_value(reference, name, metric) if is_other else None for metric in ("nll", "error", "ece")]
        return RecommendedMethod(
            method=name,
            temperature=row.temperature,
            temperature_se=row.temperature_se,
            nll_percent=nll if nll is not None and isfinite(nll) else None,
            nll_p_value=p_values[0],
            error_points=error,
            error_p_value=p_values[1],
            ece_points=ece,
            ece_p_value=p_values[2],
            changed_predictions=row.changed_predictions or 0.0,
        )


# The same in words


def _sentences(advice: Recommendation, choices: _Choice) -> list[str]:
    """Sentences: what to do, what the recommended methods change, and what is not known."""
    sentences = [_about_action(advice, choices)]
    if advice.action not in ("nothing", "leave"):
        sentences += _about_methods(advice, choices)
        if advice.simplest is None and (temperatures := _of_one_temperature(advice, choices)):
            sentences.append(f"{_none_of(temperatures)} a lower NLL than no calibration, so no temperature is recommended.")
        sentences.append(_about_others(advice, choices))
    return list(filter(None, sentences))


def _about_action(advice: Recommendation, choices: _Choice) -> str:
    """Say that no calibration is needed, or why this is open although no method has a significantly lower NLL."""
    others = [name for name in choices.names if name != advice.as_is]
    if advice.action == "nothing":
        return (
            f"Nothing has to be done: {_none_of(others, start=False)} a significantly lower NLL than no calibration, and "
            "confidence does not differ significantly from accuracy."
        )
    if advice.action == "leave":
        return (
            "Leave the model as it is: no calibration has a significantly lower NLL than "
            f"{_of_one_temperature(advice, choices)[0]}, and {_none_of(others, start=False)} a significantly lower one."
        )
    if advice.action == "open" and advice.as_is is not None:
        why = OFF_IN_WORDS.get(what_is_off(choices.rows[advice.as_is], choices.level))
        why = why or "mean confidence differs significantly from accuracy on the validation data"
        return f"Inconclusive: {_none_of(others, start=False)} a significantly lower NLL than no calibration, although {why}."
    return ""


def _about_methods(advice: Recommendation, choices: _Choice) -> list[str]:
    """A sentence for the choice and one for the other method; the first one with changes names the reference."""
    by_name = {method.method: method for method in (advice.simplest, advice.best) if method is not None}
    starts = {advice.choice: "If you calibrate, use" if advice.action == "open" else "Use"}
    starts |= {advice.other: "If predictions may change, use"}
    compared, sentences = f" compared with {'no calibration' if advice.reference == advice.as_is else advice.reference}", []
    for name, start in starts.items():
        if name is None:
            continue
        its = by_name[name]
        T = "" if its.temperature is None else f" (T = {value_with_error(its.temperature, its.temperature_se)})"
        among = f", the best of {enumeration(choices.names)}" if its is advice.best and its != advice.simplest else ""
        if changes := its.changes(choices.level):
            changes, compared = f": {changes}{compared}", ""
        share = 100 * its.changed_predictions
        changed = f"{share:{'.0f' if share >= 10 else '.2g'}} % of the predictions" if share else "no prediction"
        keeps = "" if choices.rows[name].card.of_claims else f"; it changes {changed}"
        sentences.append(f"{start} {name}{T}{among}{changes}{keeps}.{_against_simplest(its, advice, choices)}")
    return sentences


def _against_simplest(its: RecommendedMethod, advice: Recommendation, choices: _Choice) -> str:
    """The significant differences between the best and the simplest method; empty if they are the same."""
    if advice.simplest is None or its.method == advice.simplest.method:
        return ""
    sentences, first = "", advice.simplest.method
    if advice.p_value is not None and advice.p_value < 1 - choices.level:
        sentences += f" Its NLL is significantly lower than that of {first} ({format_p_value(advice.p_value)})."
    ece = choices.difference(first, its.method, "ece")
    if ece is not None and ece.value > 0 and ece.p_value is not None and ece.p_value < 1 - choices.level:
        sentences += f" But its ECE is significantly higher than that of {first}, by {100 * ece.value:.2g} points."
    return sentences


def _about_others(advice: Recommendation, choices: _Choice) -> str:
    """Say that no other method is better than the choice, or why that is not known."""
    unknown = "Whether another method is better is not known, because "
    if not choices.is_complete:
        return f"{unknown}methods were measured on the data that they were fitted to. Pass test data."
    if advice.best is None:
        return "" if advice.simplest is None else f"{unknown}the differences between methods have no standard errors."
    others = [name for name in choices.names if name not in (advice.best.method, advice.as_is)]
    return f"{_none_of(others)} a significantly lower NLL." if others and advice.best == advice.simplest else ""


def _of_one_temperature(advice: Recommendation, choices: _Choice) -> list[str]:
    """The methods with one temperature, in the order of preference."""
    return [name for name in choices.names if _is_simple(choices.rows[name]) and name != advice.as_is]


def _none_of(names: Sequence[str], *, start: bool = True) -> str:
    """Subject and verb of a sentence that denies something for each method: "none of ec and ts has"."""
    if len(names) == 1:
        return f"{names[0]} does not have"
    return f"{'None' if start else 'none'} of {enumeration(names)} has"
