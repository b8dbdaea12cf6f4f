"""Everything that the page shows, as a plain dictionary: numbers, texts, lists and dictionaries, JSON as it is.

The renderers know nothing but this dictionary. What cannot be told from the data, such as the worst mistakes of a sketch, is
listed under "absent" with the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.groups import GroupConsistency
from nishimori._evaluation.compare import compare
from nishimori._evaluation.compared_methods import (
    BY_GROUP,
    ONE_TEMPERATURE,
    Methods,
    calibrators_by_name,
    fit_usual,
)
from nishimori._evaluation.comparison import Compared, Comparison
from nishimori._evaluation.curve import cards_around
from nishimori._evaluation.differences import absent_parts
from nishimori._evaluation.gate import Wanted, judge
from nishimori._evaluation.metrics.metric import Metric
from nishimori._evaluation.metrics.table import default_metrics, in_tables
from nishimori._evaluation.scorecard import Scorecard
from nishimori._rows.labels import class_labels
from nishimori._rows.rows import Rows, without_chosen_floor
from nishimori._sums.groups import By
from nishimori._sums.reliability import Reliability
from nishimori._support.intervals import normal_quantile, wilson_limits
from nishimori._support.warnings import collect_notices
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.report._errors import errors_of
from nishimori.report._groups import class_table, group_table, worst_group
from nishimori.report._verdict import TITLES, second_share, verdict_of

FORMAT = 1
"""The version of the dictionary."""


@dataclass(frozen=True)
class Asked:
    """What the user said about the data, and about the numbers to make from them."""

    classes: Any
    input: Any
    floor: float | None
    counts: bool
    level: float
    n_bins: int
    methods: Methods = ()
    metrics: Sequence[Any] | None = None
    bounds: Mapping[Any, float] | None = None

    @property
    def meaning(self) -> dict[str, Any]:
        """What the scores are."""
        return {"input": self.input, "classes": self.classes, "floor": self.floor}


def results_of(validation: Rows, test: Rows | None, ids: Any, asked: Asked) -> dict[str, Any]:
    """The dictionary: fits to the validation data, and what they do to the test data or, without these, to the same data."""
    wanted = None if asked.bounds is None else Wanted(asked.bounds, asked.level, n_bins=asked.n_bins)
    data = validation if test is None else test
    absent = absent_parts(validation) or absent_parts(data)
    further = _further_methods(asked, by_groups=validation.groups is not None)
    usual = fit_usual(validation, test, asked.meaning, counts=asked.counts, without=further)
    found = _compare(validation, test, usual.fitted, further, asked)
    fitted = {name: each for name, each in usual.fitted.items() if isinstance(each, GroupConsistency)}
    advised = found.recommendation
    assert advised is not None, "which every comparison has"
    one = found[advised.choice or "none"]
    chosen = [each.temperature for each in found if each.temperature is not None and each.method != "none"]
    methods = [_method_row(each, found.level) for each in found]
    names = class_labels(asked.classes, data.n_classes).tolist()
    return {
        "format": FORMAT,
        "verdict": verdict_of(found, str(names[-1])),
        "data": _about(found, data, str(names[-1])),
        "level": asked.level,
        "recommended": None if one.method == "none" else one.method,
        "best": None if advised.best is None else advised.best.method,
        "recommendation": asdict(advised),
        "temperatures": [_temperature(each) for each in methods if each["method"] in ONE_TEMPERATURE[1:]],
        "metrics": [_about_metric(each) for each in _shown(found.methods[0].metrics, error=found.predictions_differ)],
        "methods": methods,
        "slider": _slider(data, found, chosen, one, asked),
        "classes": None if absent else class_table(found, one.method, fitted.get("class temperatures")),
        "groups": None if absent else group_table(data, found, one.method, fitted.get("group temperatures")),
        **(
            {"mistakes": None, "confusions": None, "risk_coverage": None}
            if absent
            else errors_of(without_chosen_floor(data), _map_of(one), ids, names)
        ),
        "gate": None if wanted is None else _gate(found, without_chosen_floor(data), wanted, asked),
        "absent": [*absent, *({"what": f"The method {name}", "why": why} for name, why in usual.left_out.items())],
        "tests": found.to_dict()["tests"],
        "warnings": list(filter(None, [found.same_rows])),
    }


def _compare(
    validation: Any, test: Any, usual: Mapping[str, Calibrator], further: "Mapping[str, str | Calibrator]", asked: Asked
) -> Comparison:
    meaning = asked.meaning
    methods: dict[str, str | Calibrator] = {name: name for name in ONE_TEMPERATURE}
    methods |= {**usual, **further}
    options: dict[str, Any] = {"level": asked.level, "n_bins": asked.n_bins, "metrics": asked.metrics}
    return compare(validation, test_logits=test, methods=methods, **meaning, **options)


def _further_methods(asked: Asked, *, by_groups: bool) -> "Mapping[str, str | Calibrator]":
    """Calibrators that the user asks for, besides those that every page has."""
    given: Any = asked.methods
    if not given:
        return {}
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = [each for each in given if each not in ONE_TEMPERATURE]
    found = calibrators_by_name(given, asked.meaning, by_groups=by_groups, of_rows=True) if given else {}
    for name in found:
        if name in (*ONE_TEMPERATURE, *BY_GROUP):
            raise InputError("methods", "have names that no other method of the page has", got=repr(name))
    return found


def _shown(metrics: Sequence[Metric], *, error: bool = False) -> list[Metric]:
    """The metrics that depend on T, and those that were asked for; the ``error`` where predictions differ between methods."""
    return [each for each in in_tables(metrics) if error or not (each.of_predictions and each.by_default)]


def _about_metric(metric: Metric) -> dict[str, Any]:
    names = {"name": metric.label, "title": metric.shown, "direction": metric.direction}
    return {**names, "in_percent": metric.in_percent, "is_signed": metric.is_signed}


def _method_row(method: Compared, level: float) -> dict[str, Any]:
    """A method with all its numbers, intervals and differences from the model as it is."""
    numbers = method.numbers(level)
    for name, difference in method.differences.items():
        low, high = (None, None) if difference.se is None else difference.interval(level)
        numbers |= {f"{name}_difference_low": low, f"{name}_difference_high": high}
    card = method.scorecard
    numbers |= {"ece_corrected": None} if card is None else card.corrected
    numbers |= {"gap": None, "gap_se": None} if card is None else {"gap": card.gap, "gap_se": card.gap_se}
    numbers |= {"worst_class": worst_group(method.by_class), "worst_group": worst_group(method.by_group)}
    return {"title": TITLES.get(method.method, method.method), **numbers}


def _gate(found: Comparison, data: Rows, wanted: Wanted, asked: Asked) -> dict[str, Any]:
    """What `gate` says about the model as it is, and after the methods to use unless they were fitted to the same data."""
    assert found.recommendation is not None, "which every comparison has"
    used = [each for each in found.recommendation.methods if each != "none"]
    by: By = "prediction" if data.groups is None else "groups"
    judged = []
    for name in ("none", *([] if found.flatters else used)):
        with collect_notices():  # the comparison has said what there is to say
            made = judge(data, _map_of(found[name]), wanted, by, asked.classes, counts=asked.counts)
        checks = [
            {**numbers, "title": each.title, "limits": each.reason or each.cells[3]}
            for each, numbers in zip(made.checks, made.to_dict()["checks"], strict=True)
        ]
        judged.append({"method": name, "verdict": made.verdict, "checks": checks})
    return {"methods": judged, "unjudged": used if found.flatters else []}


def _map_of(method: Compared) -> Map:
    assert method.map is not None, "which every method to use has"
    return method.map


def _about(found: Comparison, data: Rows, second: str) -> dict[str, Any]:
    card = found["none"].scorecard
    assert card is not None, "the model as it is needs no fit"
    return {
        "n_validation": found.n_validation,
        "n_measured": found.n_test,
        "measured_on": "test" if found.is_test else "validation",
        "n_classes": data.n_classes,
        "is_sketch": bool(absent_parts(data)),
        "data_digest": data.digest,
        "accuracy": card.accuracy,
        "accuracy_se": card.accuracy_se,
        "positive": None if (share := second_share(card)) is None else {"name": second, "share": share},
    }


def _temperature(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("method", "title", "temperature", "temperature_se", "temperature_low", "temperature_high", "why")
    return {name: row[name] for name in names}


def _slider(data: Rows, found: Comparison, chosen: Sequence[float], one: Compared, asked: Asked) -> dict[str, Any]:
    """The scores at each place of the slider in order of T, then those of methods to use that have no T; it starts at ``one``.

    The places of methods have names.
    """
    cards: dict[float, Scorecard] = {}
    for card in cards_around(data, chosen, n_bins=asked.n_bins, counts=asked.counts):
        cards[float(card.temperature or 1.0)] = card
    names: dict[float, list[str]] = {}
    for each in found:
        if each.temperature is not None and each.scorecard is not None:
            cards[each.temperature] = each.scorecard
            names.setdefault(each.temperature, []).append(each.method)
    places = [_place(cards[T], names.get(T, []), asked.level) for T in sorted(cards)]
    assert found.recommendation is not None, "which every comparison has"
    cards_of_methods = {name: found[name].scorecard for name in found.recommendation.methods if found[name].temperature is None}
    methods = [
        _place(card, [name], asked.level) | {"accuracy": card.accuracy}
        for name, card in cards_of_methods.items()
        if card is not None
    ]
    start = next(i for i, each in enumerate([*places, *methods]) if one.method in each["names"])
    return {"places": places, "methods": methods, "start": start}


def _place(card: Scorecard, names: list[str], level: float) -> dict[str, Any]:
    found = {
        "temperature": card.temperature,
        "names": names,
        **{each.name: card[each.name].value for each in _shown(default_metrics()) if each.name in card.estimates},
        "bins": _bins(card.reliability, level),
    }
    return found if card.positive_reliability is None else found | {"positive_bins": _bins(card.positive_reliability, level)}


def _bins(curve: Reliability, level: float) -> list[list[float]]:
    """The rows of a reliability diagram, with Wilson intervals."""
    low, high = wilson_limits(curve.accuracy, curve.count, normal_quantile(level))
    share = curve.weight / curve.weight.sum()
    columns = (curve.lower, curve.upper, curve.confidence, curve.accuracy, low, high, share, curve.count)
    # Eight digits: what a picture shows, and a file that stays small.
    rounded: list[list[float]] = np.round(np.stack(columns, axis=1), 8).tolist()
    return rounded
