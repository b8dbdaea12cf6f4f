"""Everything that the page shows, as a plain dictionary that can be written as JSON.

The renderers know nothing but this dictionary. What cannot be told from the data, such as the worst mistakes of a sketch, is
listed under "absent" with the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from nishimori._calibrators.calibrator import Calibrator
from nishimori._evaluation.compare import compare
from nishimori._evaluation.compared_methods import (
    BY_GROUP,
    ONE_TEMPERATURE,
    Methods,
    calibrators_by_name,
    fit_usual,
    methods_for,
)
from nishimori._evaluation.comparison import Compared, Comparison
from nishimori._evaluation.curve import cards_around
from nishimori._evaluation.differences import absent_parts
from nishimori._evaluation.gate import Wanted, judge
from nishimori._evaluation.group_gaps import GroupGaps
from nishimori._evaluation.metrics.metric import Metric
from nishimori._evaluation.metrics.table import default_metrics, in_tables
from nishimori._evaluation.scorecard import Scorecard
from nishimori._evaluation.threshold import threshold_of
from nishimori._rows.batch import Batch
from nishimori._rows.labels import class_labels
from nishimori._rows.rows import Rows, without_chosen_floor
from nishimori._sums.groups import By
from nishimori._sums.reliability import Reliability
from nishimori._support import arrays
from nishimori._support.display import plural
from nishimori._support.intervals import normal_quantile, wilson_limits
from nishimori._support.warnings import collect_notices
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.report._errors import PairSums, errors_of
from nishimori.report._verdict import TITLES, second_share, verdict_of

FORMAT = 1
"""The version of the dictionary."""

# What medicine and credit scoring expect, beside what every scorecard has.
_OF_TWO_CLASSES = ("auc", "calibration_intercept", "calibration_slope")

# The share of answers that may be wrong, in what the page says about them.
_MAX_RISK = 0.05

_OF_TEMPERATURE = ("method", "title", "temperature", "temperature_se", "temperature_low", "temperature_high", "why")


def results_of(
    validation: Rows,
    test: Rows | None,
    meaning: Mapping[str, Any],
    *,
    ids: Any,
    methods: Methods,
    metrics: Sequence[Any] | None,
    bounds: Mapping[Any, float] | None,
    level: float,
    n_bins: int,
) -> dict[str, Any]:
    """The dictionary: fits to the validation data, and their effect on the test data or, without any, on the same data.

    ``meaning`` is what the scores are: input, classes and floor. The rest is as for `Report`.
    """
    if validation.are_scores:
        remedy = "Fit a calibrator, and report `claims(calibrator.predict_proba(claims(...)), right)`."
        raise InputError("Claims", "be probabilities for a report", got="scores", remedy=remedy)
    wanted = None if bounds is None else Wanted(bounds, level, n_bins=n_bins)
    data = validation if test is None else test
    absent = absent_parts(validation) or absent_parts(data)
    further = _further_methods(methods, meaning, by_groups=validation.groups is not None)
    usual, left_out = ({}, {}) if validation.is_claims else fit_usual(validation, test, meaning, without=further)
    first = methods_for(validation) if validation.is_claims else ONE_TEMPERATURE
    tried: dict[str, str | Calibrator] = {**{name: name for name in first}, **usual, **further}
    of_two = () if absent or data.is_claims or data.n_classes != 2 else _OF_TWO_CLASSES
    named = metrics if not of_two or isinstance(metrics, str) else list(dict.fromkeys([*(metrics or ()), *of_two]))
    options: dict[str, Any] = {**meaning, "level": level, "n_bins": n_bins, "metrics": named}
    comparison = compare(validation, test_logits=test, methods=tried, **options)
    advised = comparison.recommendation
    one = comparison[advised.choice or "none"]
    chosen = [row.temperature for row in comparison if row.temperature is not None and row.method != "none"]
    rows = [_method_row(row, level) for row in comparison]
    names = ["wrong", "right"] if data.is_claims else class_labels(meaning["classes"], data.n_classes).tolist()
    classes = groups = None
    if not absent and not data.is_claims:
        name = "class temperatures"
        classes = _gap_table(comparison, "by_class", one.method, name, usual.get(name))
    if not absent and data.groups is not None:
        name = "group temperatures"
        groups = _gap_table(comparison, "by_group", one.method, name, usual.get(name))
        groups["of_one_class"] = _groups_of_one_class(data)
    return {
        "format": FORMAT,
        "verdict": verdict_of(comparison, str(names[-1]), of_claims=data.is_claims),
        "data": _about(comparison, data, str(names[-1])),
        "level": level,
        "recommended": None if one.method == "none" else one.method,
        "best": None if advised.best is None else advised.best.method,
        "recommendation": asdict(advised),
        "temperatures": [{name: row[name] for name in _OF_TEMPERATURE} for row in rows if row["method"] in ONE_TEMPERATURE[1:]],
        "metrics": [
            {"name": metric.label, "title": metric.shown}
            | {name: getattr(metric, name) for name in ("direction", "in_percent", "is_signed")}
            for metric in _shown(comparison.methods[0].metrics, error=comparison.predictions_differ)
        ],
        "methods": rows,
        "slider": _slider(data, comparison, chosen, one, n_bins),
        "classes": classes,
        "groups": groups,
        **(
            {"mistakes": None, "confusions": None, "risk_coverage": None}
            if absent
            else errors_of(without_chosen_floor(data), _map_of(one), ids, names)
            | ({"confusions": None} if data.is_claims else {})
        ),
        "threshold": None if absent or test is None else _threshold(without_chosen_floor(data), one, level),
        "gate": None if wanted is None else _gate(comparison, without_chosen_floor(data), wanted, meaning["classes"]),
        "absent": [*absent, *({"what": f"The method {name}", "why": why} for name, why in left_out.items())],
        "tests": comparison.to_dict()["tests"],
        "warnings": list(filter(None, [comparison.same_rows])),
    }


def _further_methods(named: Any, meaning: Mapping[str, Any], *, by_groups: bool) -> "Mapping[str, str | Calibrator]":
    """Calibrators that the user requests, in addition to the usual ones."""
    if not named:
        return {}
    if isinstance(named, Sequence) and not isinstance(named, str):
        named = [method for method in named if method not in ONE_TEMPERATURE]
    calibrators = calibrators_by_name(named, meaning, by_groups=by_groups, of_rows=True) if named else {}
    for name in calibrators:
        if name in (*ONE_TEMPERATURE, *BY_GROUP):
            raise InputError("methods", "have names that differ from all other methods of the page", got=repr(name))
    return calibrators


def _shown(metrics: Sequence[Metric], *, error: bool = False) -> list[Metric]:
    """The metrics that depend on T, and requested ones; also the ``error`` if predictions differ between methods."""
    return [metric for metric in in_tables(metrics) if error or not (metric.of_predictions and metric.by_default)]


def _method_row(method: Compared, level: float) -> dict[str, Any]:
    """A method with all its numbers, intervals and differences from the uncalibrated model."""
    numbers = method.numbers(level)
    for name, difference in method.differences.items():
        low, high = (None, None) if difference.se is None else difference.interval(level)
        numbers |= {f"{name}_difference_low": low, f"{name}_difference_high": high}
    card = method.scorecard
    numbers |= {"ece_corrected": None} if card is None else card.corrected
    numbers |= {"gap": None, "gap_se": None} if card is None else {"gap": card.gap, "gap_se": card.gap_se}
    numbers |= {"worst_class": _worst_group(method.by_class), "worst_group": _worst_group(method.by_group)}
    return {"title": TITLES.get(method.method, method.method), **numbers}


def _gate(comparison: Comparison, data: Rows, wanted: Wanted, classes: Any) -> dict[str, Any]:
    """Verdicts of `gate` on the uncalibrated model, and after recommended methods unless these were fitted to the same data."""
    used = [method for method in comparison.recommendation.methods if method != "none"]
    by: By = "prediction" if data.groups is None else "groups"
    judged = []
    for name in ("none", *([] if comparison.flatters else used)):
        with collect_notices():  # the comparison has said what there is to say
            gate = judge(data, _map_of(comparison[name]), wanted, by, classes)
        checks = [
            {**numbers, "title": check.title, "limits": check.limits}
            for check, numbers in zip(gate.checks, gate.to_dict()["checks"], strict=True)
        ]
        judged.append({"method": name, "verdict": gate.verdict, "checks": checks})
    return {"methods": judged, "unjudged": used if comparison.flatters else []}


def _threshold(data: Rows, one: Compared, level: float) -> dict[str, Any] | None:
    """The certified threshold after the recommended method; None unless each sample counts once."""
    try:
        threshold = threshold_of(data, _map_of(one), None, _MAX_RISK, level)
    except InputError:
        return None
    names = ("confidence", "coverage", "coverage_low", "risk", "max_risk", "level", "verdict")
    return {"method": one.method, **{name: getattr(threshold, name) for name in names}}


def _map_of(method: Compared) -> Map:
    assert method.map is not None, "which every method to use has"
    return method.map


def _about(comparison: Comparison, data: Rows, second: str) -> dict[str, Any]:
    card = comparison["none"].card
    return {
        "n_validation": comparison.n_validation,
        "n_measured": comparison.n_test,
        "measured_on": "test" if comparison.is_test else "validation",
        "n_classes": data.n_classes,
        "of_claims": data.is_claims,
        "is_sketch": bool(absent_parts(data)),
        "error_bars": _error_bars(card),
        "data_digest": data.digest,
        "accuracy": card.accuracy,
        "accuracy_se": card.accuracy_se,
        "positive": None if (share := second_share(card)) is None else {"name": second, "share": share},
    }


def _error_bars(card: Scorecard) -> str:
    """What error bars take as independent; empty where these are samples."""
    if card.n_clusters is None:
        return ""
    which = " (first axis)" if card.cluster_name == "image" else ""
    return f"by {card.cluster_name}{which}: {plural(card.n_clusters, card.cluster_name)}"


def _slider(data: Rows, comparison: Comparison, chosen: Sequence[float], one: Compared, n_bins: int) -> dict[str, Any]:
    """The scores at each slider position in order of T, then of recommended methods without T; it starts at ``one``.

    The places of methods have names.
    """
    around = [] if data.is_claims else cards_around(data, chosen, n_bins=n_bins)
    cards = {float(card.temperature or 1.0): card for card in around}
    names: dict[float, list[str]] = {}
    for row in comparison:
        if row.temperature is not None:
            cards[row.temperature] = row.card
            names.setdefault(row.temperature, []).append(row.method)
    places = [_place(cards[T], names.get(T, []), comparison.level) for T in sorted(cards)]
    used = [comparison[name] for name in comparison.recommendation.methods]
    methods = [
        _place(row.card, [row.method], comparison.level) | {"accuracy": row.card.accuracy}
        for row in used
        if row.temperature is None
    ]
    start = next(i for i, place in enumerate([*places, *methods]) if one.method in place["names"])
    return {"places": places, "methods": methods, "start": start}


def _place(card: Scorecard, names: list[str], level: float) -> dict[str, Any]:
    place = {
        "temperature": card.temperature,
        "names": names,
        **{metric.name: card[metric.name].value for metric in _shown(default_metrics()) if metric.name in card.estimates},
        "bins": _bins(card.reliability, level),
    }
    return place if card.positive_reliability is None else place | {"positive_bins": _bins(card.positive_reliability, level)}


def _bins(curve: Reliability, level: float) -> list[list[float]]:
    """The rows of a reliability diagram, with Wilson intervals."""
    low, high = wilson_limits(curve.accuracy, curve.count, normal_quantile(level))
    share = curve.weight / curve.weight.sum()
    columns = (curve.lower, curve.upper, curve.confidence, curve.accuracy, low, high, share, curve.count)
    # Eight digits: what a picture shows, and a file that stays small.
    rounded: list[list[float]] = np.round(np.stack(columns, axis=1), 8).tolist()
    return rounded


# The tables of predicted classes and of groups


def _gap_table(comparison: Comparison, which: str, one: str, several: str, fitted: Any) -> dict[str, Any]:
    """One row per group, the worst before calibration first: uncalibrated, after one method, and with one T per group.

    ``which`` is "by_class" or "by_group", ``one`` the method to use, and ``several`` the one that is ``fitted`` with a
    temperature for each group, if it could be.
    """
    gaps: dict[str, GroupGaps | None] = {row.method: getattr(row, which) for row in comparison}
    shown = {"before": gaps["none"], "one": gaps[one], "several": gaps.get(several)}
    measured = {name: of_all for name, of_all in shown.items() if of_all is not None}
    temperatures = {} if fitted is None else _temperatures(fitted)
    rows = []
    for group in measured["before"].worst_first:
        row: dict[str, Any] = {"name": str(group.name), "n": group.n, "accuracy": group.accuracy}
        for name, of_all in measured.items():
            own = of_all[group.name]
            row[name] = {"confidence": own.confidence, "gap": own.gap, "se": own.se, "p_value": own.p_value, "off": own.is_off}
        row["temperature"], row["temperature_se"] = temperatures.get(group.name, (None, None))
        rows.append(row)
    return {"rows": rows, **{name: _mean_gap(of_all) for name, of_all in measured.items()}}


def _mean_gap(gaps: GroupGaps) -> dict[str, Any]:
    names = ("mean_abs_gap", "mean_abs_gap_corrected", "low", "high", "n_off", "n")
    numbers = (gaps.mean_abs_gap, gaps.mean_abs_gap_corrected, *gaps.interval(), len(gaps.off), len(gaps))
    return dict(zip(names, numbers, strict=True))


def _temperatures(fitted: Any) -> Mapping[Any, tuple[float, float | None]]:
    """T and its error, by the name of the group."""
    names = fitted.groups_ if isinstance(fitted.groups_, tuple) else fitted.groups_.tolist()
    values, errors = fitted.temperatures_.tolist(), fitted.temperatures_se_
    listed: list[float | None] = [None] * len(values) if errors is None else errors.tolist()
    return dict(zip(names, zip(values, listed, strict=True), strict=True))


def _worst_group(gaps: GroupGaps | None) -> dict[str, Any] | None:
    """The class or group with the largest gap (among significant gaps, if there are any), and how many are significant."""
    if gaps is None:
        return None
    worst = gaps.worst_first[0]
    names = ("n", "confidence", "accuracy", "gap", "se")
    row = {"name": str(worst.name), **{name: getattr(worst, name) for name in names}, "off": worst.is_off}
    return row | {"n_off": len(gaps.off), "n_all": len(gaps)}


def _groups_of_one_class(data: Rows) -> list[str]:
    """The groups with a single true class: their numbers may not hold for other samples of the group."""
    groups, n_classes = data.groups, data.n_classes
    assert groups is not None

    def pairs(batch: Batch) -> PairSums:
        assert batch.groups is not None
        labels = arrays.on_host(batch.labels).astype(np.int64)
        return PairSums.of_rows(batch.groups.codes * n_classes + labels, np.ones((1, batch.n_rows)))

    places, classes = np.unique(data.gather(pairs).pairs // n_classes, return_counts=True)
    return [str(groups.names[place]) for place in places[classes == 1]]
