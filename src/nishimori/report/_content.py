"""The parts of the dictionary that page and Markdown show, in their order, with numbers as text."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from nishimori._support import formatting
from nishimori._support.formatting import count, join_names, number_text, points_with_error, value_with_error

SHORT_TITLES = {"none": "T = 1", "ts": "TS", "ec": "EC", "adaptive": "adaptive"}
"""The names of methods in charts and on buttons."""

# Rows of a table on the page. The dictionary has all of them.
_MOST_ROWS = 1000


CONFUSION_HEADS = ("true class", "predicted", "n", "share of the errors", "mean confidence")

# Shares of all samples of which the text says the error.
_COVERAGES = (0.9, 0.8, 0.5)


def about_data(results: Mapping[str, Any]) -> str:
    """A description of the data: how many samples, and which of them were used in the fit."""
    data = results["data"]
    what = "claims" if data["of_claims"] else "samples"
    fitted = f", fitted to {count(data['n_validation'])} validation {what}" if data["measured_on"] == "test" else ""
    classes = "" if data["of_claims"] else f", {count(data['n_classes'])} classes"
    return f"{count(data['n_measured'])} {data['measured_on']} {what}{fitted}{classes}"


def as_is_name(results: Mapping[str, Any]) -> str:
    """The text for the uncalibrated model where other methods show a temperature."""
    return "as it is" if results["data"]["of_claims"] else "T = 1"


def heading(results: Mapping[str, Any]) -> str:
    """The title of the page."""
    return f"Calibration report: {results['title']}" if results["title"] else "Calibration report"


def after_name(results: Mapping[str, Any]) -> str:
    """The heading of numbers after calibration; empty if no method is recommended."""
    return f"after {results['recommended']}" if results["recommended"] else ""


def metrics_of(results: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The metrics that the report shows for each method: name, title, direction, whether in percent, and a factor."""
    # scikit-learn's `brier_score_loss` sums over classes if there are more than two, and takes the positive class of two.
    half = results["data"]["n_classes"] == 2 and not results["data"]["of_claims"]
    return [
        {
            **metric,
            "title": f"{metric['title']} in points" if metric["is_signed"] else metric["title"],
            "factor": 0.5 if half and metric["name"] == "brier" else 1,
        }
        for metric in results["metrics"]
    ]


def about_brier(results: Mapping[str, Any]) -> str:
    """The convention of the Brier score."""
    if results["data"]["of_claims"]:
        return "The Brier score is the mean of (confidence − right)², from 0 to 1, as in scikit-learn."
    if results["data"]["n_classes"] == 2:
        return (
            "The Brier score is computed for one of the two classes, from 0 to 1, as in scikit-learn: half the sum over both."
        )
    return "The Brier score is summed over classes, from 0 to 2, as in scikit-learn."


def scores_of_slider(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The metrics that are known at each position of the slider."""
    return [metric for metric in metrics_of(results) if metric["name"] in results["slider"]["places"][0]]


def method_table(results: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of each method, with errors; a method that could not be fitted has the reason instead."""
    shown, has_T = metrics_of(results), not results["data"]["of_claims"]
    rows = []
    for method in results["methods"]:
        row: dict[str, Any] = {"method": method["method"], "title": method["title"], "why": method["why"], "cells": None}
        if method["confidence"] is not None:
            T = method["temperature"]
            own = ("several", "") if T is None else (format_measurement(T, method["temperature_se"]), "")
            row["cells"] = [*([own] if has_T else []), *(_number(method, metric) for metric in shown)]
        rows.append(row)
    return {"heads": [*(["T"] if has_T else []), *(metric["title"] for metric in shown)], "rows": rows}


def _number(row: Mapping[str, Any], metric: Mapping[str, Any], what: str = "") -> tuple[str, str]:
    """A metric of a method, or its difference, with a standard error or an interval."""
    name = f"{metric['name']}{what}"
    if what and row[name] == 0 and row.get(f"{name}_se") == 0:  # as the error where no prediction differs
        return "0", ""
    if metric["is_signed"] or (what and metric["in_percent"]):
        return points(row[name]), interval(row, name, "points")
    if metric["in_percent"]:
        return percent(row[name]), interval(row, name, "percent")
    value, error = (None if number is None else metric["factor"] * number for number in (row[name], row[f"{name}_se"]))
    return format_measurement(value, error), ""


def _value(value: float | None, metric: Mapping[str, Any]) -> str:
    """A metric without its error."""
    if metric["is_signed"]:
        return points(value)
    if metric["in_percent"]:
        return percent(value)
    return four(None if value is None else metric["factor"] * value)


def difference_table(results: Mapping[str, Any]) -> dict[str, Any]:
    """The differences between methods and the uncalibrated model, in metrics with a direction."""
    shown = [metric for metric in metrics_of(results) if metric["direction"] is not None]
    rows = [
        {
            "method": method["method"],
            "title": method["title"],
            "cells": [_number(method, metric, "_difference") for metric in shown],
        }
        for method in results["methods"]
        if method.get("nll_difference") is not None
    ]
    # The title of a signed metric says that it is in points.
    heads = [metric["title"] + " in points" * (metric["in_percent"] and not metric["is_signed"]) for metric in shown]
    return {"heads": heads, "rows": rows}


def about_risk(results: Mapping[str, Any]) -> str:
    """The error of all answers and of the most confident answers, as a sentence; empty if it is not known."""
    curves = results["risk_coverage"]
    if curves is None or not curves["one"]:
        return ""
    curve = curves["one"]
    shown = [next((point for point in curve if point[0] >= least - 1e-6), curve[-1]) for least in _COVERAGES]
    parts = [f"{percent(error)} among the most confident {formatting.percent(coverage, 0)}" for coverage, error in shown]
    return f"Of all answers {percent(curve[-1][1])} are wrong; {', '.join(parts)}."


def about_threshold(results: Mapping[str, Any]) -> str:
    """Sentences about the confidence above which answers can be trusted; empty if that is not known."""
    if (threshold := results["threshold"]) is None:
        return ""
    when = "As it is" if threshold["method"] == "none" else f"After {threshold['method']}"
    return f"{when}: {threshold['verdict'][0].lower()}{threshold['verdict'][1:]}"


def confusions(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of the table of classes that the model confuses; empty if they are not known."""
    return [
        (pair["label"], pair["predicted"], count(pair["n"]), percent(pair["share"]), percent(pair["confidence"]))
        for pair in results["confusions"] or []
    ]


def mistakes(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table of the most confident errors, with a text and a sort key per cell; None if there is none."""
    if not results["mistakes"]:
        return None
    has_ids = any(mistake["id"] is not None for mistake in results["mistakes"])
    texts = {**({"id": "id"} if has_ids else {}), "predicted": "predicted", "label": "label"}
    of_claims = {"predicted", "label", "true_probability"} if results["data"]["of_claims"] else set()  # the same in all rows
    numbers = {"confidence": "confidence", "confidence_after": after_name(results), "true_probability": "of the true class"}
    shown = {"row": "row", **texts, **{key: head for key, head in numbers.items() if head}}
    shown = {key: head for key, head in shown.items() if key not in of_claims}
    rows = [
        [{"value": row[key], "text": percent(row[key]) if key in numbers else str(row[key])} for key in shown]
        for row in (mistake | {"id": mistake["id"] or ""} for mistake in results["mistakes"])
    ]
    return {"heads": [{"name": head, "number": key not in texts} for key, head in shown.items()], "rows": rows}


def tags(results: Mapping[str, Any], method: str) -> list[str]:
    """The mark of a method in tables."""
    return ["use"] * (method == results["recommended"]) + ["if predictions may change"] * (
        method == results["recommendation"]["other"]
    )


def buttons(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The named positions of the slider, and the recommended methods that have no position."""
    places = results["slider"]["places"]
    named = [
        {"place": i, "name": as_is_name(results) if name == "none" else f"{title}: {number_text(place['temperature'])}"}
        for name, title in SHORT_TITLES.items()
        for i, place in enumerate(places)
        if name in place["names"]
    ]
    others = enumerate(all_places(results)[len(places) :], len(places))
    return named + [{"place": i, "name": place["names"][0]} for i, place in others]


def all_places(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the page can show: the positions of the slider, and recommended methods without a temperature."""
    return [*results["slider"]["places"], *results["slider"]["methods"]]


def slider_place(results: Mapping[str, Any]) -> int:
    """The initial position of the slider: what the page shows first, or T = 1 if that has no temperature."""
    start = int(results["slider"]["start"])
    return as_is(results) if all_places(results)[start]["temperature"] is None else start


def as_is(results: Mapping[str, Any]) -> int:
    """The position of the slider without calibration."""
    return next(i for i, place in enumerate(results["slider"]["places"]) if place["temperature"] == 1)


def start_name(results: Mapping[str, Any]) -> str:
    """The name of what the page shows first."""
    place = all_places(results)[results["slider"]["start"]]
    if results["data"]["of_claims"] and place["temperature"] is not None:
        return as_is_name(results)
    return str(place["names"][0]) if place["temperature"] is None else f"T = {number_text(place['temperature'])}"


def scores(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each score: at the chosen position, and without calibration. The accuracy does not depend on T."""
    accuracy = results["data"]["accuracy"]
    places = all_places(results)
    shown = {"now": places[results["slider"]["start"]], "before": places[as_is(results)]}
    rows = [
        {
            "name": metric["name"],
            "title": metric["title"],
            **{when: _value(place[metric["name"]], metric) for when, place in shown.items()},
        }
        for metric in scores_of_slider(results)
    ]
    of_accuracy = {when: percent(place.get("accuracy", accuracy)) for when, place in shown.items()}
    return [rows[0], {"name": "accuracy", "title": "accuracy", **of_accuracy}, *rows[1:]]


def gap_tables(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tables of predicted classes and of groups, as far as there are any."""
    named = {"classes": ("Predicted classes", "class"), "groups": ("Groups", "group")}
    after = after_name(results)
    return [_gap_table(key, *names, results[key], after) for key, names in named.items() if results[key] is not None]


def _gap_table(key: str, title: str, noun: str, table: Mapping[str, Any], after: str) -> dict[str, Any]:
    several = "several" in table
    heads = [noun, "n", "accuracy", "confidence", "gap before", *([f"gap {after}"] if after else [])]
    heads += [f"T of the {noun}", f"gap with T per {noun}"] if several else []
    rows = [_cells(row, several=several, later=bool(after)) for row in table["rows"][:_MOST_ROWS]]
    hidden = len(table["rows"]) - len(rows)
    more = f"{count(hidden)} more are in the JSON of the report (nishimori report --json)." if hidden else ""
    return {
        "id": key,
        "title": title,
        "plural": "predicted classes" if noun == "class" else "groups",
        "heads": heads,
        "rows": rows,
        "n_rows": len(table["rows"]),
        "more": more,
        "text": _about(table, noun, after),
    }


def _cells(row: Mapping[str, Any], *, several: bool, later: bool) -> list[dict[str, Any]]:
    cells = [
        {"text": row["name"], "value": row["name"]},
        {"text": count(row["n"]), "value": row["n"]},
        {"text": percent(row["accuracy"]), "value": row["accuracy"]},
        {"text": percent(row["before"]["confidence"]), "value": row["before"]["confidence"]},
        _gap_cell(row["before"]),
        *([_gap_cell(row["one"])] if later else []),
    ]
    if several:
        T = row["temperature"]
        own = {"text": "", "value": ""} if T is None else {"text": format_measurement(T, row["temperature_se"]), "value": T}
        cells += [own, _gap_cell(row["several"])]
    return cells


def _gap_cell(group: Mapping[str, Any]) -> dict[str, Any]:
    text, sign, error = points_with_error(group["gap"], group["se"]).partition(" ± ")
    return {"text": text, "error": f"{sign}{error}", "value": abs(group["gap"]), "off": group["off"]}


def _about(table: Mapping[str, Any], noun: str, after: str) -> str:
    """The gaps of classes or groups, and the effect of a temperature for each."""
    sentences = []
    for key, when in (("before", "before calibration"), ("one", after), ("several", f"with a temperature per {noun}")):
        if key in table and when:
            mean = table[key]
            low, high, size = (f"{100 * mean[name]:.2f}" for name in ("low", "high", "mean_abs_gap"))
            off = f"{mean['n_off']} of {mean['n']} gaps are significant"
            sentences.append(f"{when[0].upper()}{when[1:]}: {off}, mean absolute gap {size} points ({low} to {high}).")
    if alike := table.get("of_one_class"):
        which = f"the group {alike[0]!r} have" if len(alike) == 1 else f"each of the groups {join_names(alike)} have"
        sentences.append(f"All samples of {which} the same true class: the numbers may not hold for samples of other classes.")
    return " ".join(sentences)


def provenance(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The origin of the numbers."""
    origin = results["provenance"]
    rows = [("Made on", origin["made_on"]), ("Library", f"nishimori {origin['library_version']}")]
    rows += [
        (f"{file['role'].capitalize()} file", f"{file['name']}, {count(file['bytes'])} bytes, SHA-256 {file['sha256']}")
        for file in origin["files"]
    ]
    rows.append(("Validation samples", count(results["data"]["n_validation"])))
    if results["data"]["measured_on"] == "test":
        rows.append(("Test samples", count(results["data"]["n_measured"])))
    if results["data"]["error_bars"]:
        rows.append(("Standard errors", results["data"]["error_bars"]))
    if origin["command"]:
        rows.append(("Command", origin["command"]))
    return rows


# How numbers are written


def percent(value: float | None) -> str:
    """A share in percent; None stands for infinity, which JSON cannot hold."""
    return formatting.percent(inf if value is None else value)


def points(value: float | None) -> str:
    """A difference between shares in percentage points."""
    return "" if value is None else points_with_error(value, None)


def four(value: float | None) -> str:
    """A loss."""
    return number_text(inf) if value is None else f"{value:.4f}"


def level(value: float) -> str:
    """The level of an interval."""
    return f"{100 * value:g} %"


def format_measurement(value: float | None, error: float | None) -> str:
    """A number with its error."""
    return value_with_error(inf if value is None else value, error)


def short_name(text: str, longest: int) -> str:
    """A name from the data, cut where it is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


_UNITS = {"number": number_text, "percent": lambda value: f"{100 * value:.2f}", "points": points}


def interval(row: Mapping[str, Any], name: str, unit: str) -> str:
    """The limits of a number, or nothing if they are not known."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or high is None:
        return ""
    return f"({_UNITS[unit](low)} to {_UNITS[unit](high)})"


FILTERS = {function.__name__: function for function in (percent, level, count, number_text, format_measurement, interval)}
