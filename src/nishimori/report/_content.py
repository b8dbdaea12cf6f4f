"""What page and Markdown show of the dictionary, in the order in which they show it."""

from collections.abc import Mapping, Sequence
from typing import Any

from nishimori._rows.labels import first_names
from nishimori.report._text import digits, format_measurement, four, gap, interval, percent, points, whole

_SHORT = {"none": "T = 1", "ts": "TS", "ec": "EC", "adaptive": "adaptive"}

# What reports show that were made before they listed their metrics.
_FIRST = (
    {"name": "confidence", "title": "confidence", "in_percent": True, "direction": None},
    {"name": "ece", "title": "ECE", "in_percent": True, "direction": "lower"},
    {"name": "nll", "title": "NLL", "in_percent": False, "direction": "lower"},
    {"name": "brier", "title": "Brier score", "in_percent": False, "direction": "lower"},
)

# Rows of a table on the page. The dictionary has all of them.
_MOST_ROWS = 1000


def metrics_of(results: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """What the report shows of each method: name, title, direction, and whether it is in percent."""
    found: Sequence[Mapping[str, Any]] = results.get("metrics", _FIRST)
    return found


def scores_of_slider(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The metrics that are known at each place of the slider."""
    return [each for each in metrics_of(results) if each["name"] in results["slider"]["places"][0]]


def method_table(results: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of each method, with errors; a method that could not be fitted has the reason in place of them."""
    shown = metrics_of(results)
    rows = []
    for each in results["methods"]:
        row: dict[str, Any] = {"method": each["method"], "title": each["title"], "why": each["why"], "cells": None}
        if each["confidence"] is not None:
            T = each["temperature"]
            own = ("several", "") if T is None else (format_measurement(T, each["temperature_se"]), "")
            row["cells"] = [own, *(_cell(each, metric) for metric in shown)]
        rows.append(row)
    return {"heads": ["T", *(each["title"] for each in shown)], "rows": rows}


def _cell(row: Mapping[str, Any], metric: Mapping[str, Any]) -> tuple[str, str]:
    """A metric of a method, and its interval where that stands in place of the standard error."""
    name = metric["name"]
    if metric["in_percent"]:
        return percent(row[name]), interval(row, name, "percent")
    return format_measurement(row[name], row[f"{name}_se"]), ""


def difference_table(results: Mapping[str, Any]) -> dict[str, Any]:
    """What methods differ by from the model as it is, in metrics of which some values are better."""
    shown = [each for each in metrics_of(results) if each["direction"] is not None]
    rows = [
        {"method": each["method"], "title": each["title"], "cells": [_difference(each, metric) for metric in shown]}
        for each in results["methods"]
        if each.get("nll_difference") is not None
    ]
    return {"heads": [f"{each['title']} in points" if each["in_percent"] else each["title"] for each in shown], "rows": rows}


def _difference(row: Mapping[str, Any], metric: Mapping[str, Any]) -> tuple[str, str]:
    name = f"{metric['name']}_difference"
    if row[name] == 0 and row.get(f"{name}_se") == 0:  # as the error where no prediction differs
        return "0", ""
    if metric["in_percent"]:
        return points(row[name]), interval(row, name, "points")
    return format_measurement(row[name], row[f"{name}_se"]), ""


def advice(results: Mapping[str, Any]) -> list[str]:
    """What to do, a paragraph each; reports that were made before they had a recommendation have one text."""
    found = results.get("recommendation")
    said = [] if found is None else found["sentences"]
    return said if said and results["verdict"]["advice"] == " ".join(said) else [results["verdict"]["advice"]]


def tags(results: Mapping[str, Any], method: str) -> list[str]:
    """What the tables mark a method as."""
    best = results.get("best")
    if "best" not in results:  # reports that were made before they had one
        return ["recommended"] if method == results["recommended"] else []
    return ["simplest"] * (method == results["recommended"]) + ["best"] * (method == best)


def tiles(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """The four numbers below the verdict."""
    methods = {each["method"]: each for each in results["methods"]}
    before, after = methods["none"], methods.get(results["recommended"] or "none", methods["none"])
    later = results["recommended"] is not None
    return [
        {"name": "Accuracy", "value": percent(results["data"]["accuracy"]), "note": ""},
        {
            "name": "Mean confidence",
            "value": percent(before["confidence"]),
            "note": f"after: {percent(after['confidence'])}" if later else "",
        },
        {"name": "ECE", "value": percent(before["ece"]), "note": f"after: {percent(after['ece'])}" if later else ""},
        {
            "name": "Temperature",
            "value": format_measurement(after["temperature"], after["temperature_se"]) if later else "none found",
            "note": after["title"] if later else "",
        },
    ]


def buttons(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The places of the slider that have a name."""
    found = []
    for name in ("none", "ts", "ec", "adaptive"):
        for i, each in enumerate(results["slider"]["places"]):
            if name in each["names"]:
                text = _SHORT[name] if name == "none" else f"{_SHORT[name]}: {digits(each['temperature'])}"
                found.append({"place": i, "name": text})
    return found


def scores(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each score: at the chosen place, and of the model as it is. The accuracy does not depend on T."""
    places, accuracy = results["slider"]["places"], percent(results["data"]["accuracy"])
    start = places[results["slider"]["start"]]
    as_is = next(each for each in places if each["temperature"] == 1)
    shown = {"now": start, "before": as_is}
    rows = [
        {"name": each["name"], "title": each["title"], **{when: _score(place, each) for when, place in shown.items()}}
        for each in scores_of_slider(results)
    ]
    return [rows[0], {"name": "", "title": "accuracy", "now": accuracy, "before": accuracy}, *rows[1:]]


def _score(place: Mapping[str, Any], metric: Mapping[str, Any]) -> str:
    value = place[metric["name"]]
    return percent(value) if metric["in_percent"] else four(value)


def gap_tables(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tables of predicted classes and of groups, as far as there are any."""
    named = {"classes": ("Predicted classes", "class"), "groups": ("Groups", "group")}
    return [_gap_table(key, *names, results[key]) for key, names in named.items() if results[key] is not None]


def _gap_table(key: str, title: str, noun: str, table: Mapping[str, Any]) -> dict[str, Any]:
    several = "several" in table
    heads = [noun, "n", "accuracy", "confidence", "gap as it is", "gap with one T"]
    heads += [f"T of the {noun}", f"gap with T per {noun}"] if several else []
    rows = [_cells(each, several=several) for each in table["rows"][:_MOST_ROWS]]
    hidden = len(table["rows"]) - len(rows)
    more = f"{whole(hidden)} more are in the JSON of the report (nishimori report --json)." if hidden else ""
    return {
        "id": key,
        "title": title,
        "heads": heads,
        "rows": rows,
        "sorted": 4,
        "more": more,
        "text": _about(table, noun, several=several),
    }


def _cells(row: Mapping[str, Any], *, several: bool) -> list[dict[str, Any]]:
    cells = [
        {"text": row["name"], "value": row["name"]},
        {"text": whole(row["n"]), "value": row["n"]},
        {"text": percent(row["accuracy"]), "value": row["accuracy"]},
        {"text": percent(row["before"]["confidence"]), "value": row["before"]["confidence"]},
        _gap_cell(row["before"]),
        _gap_cell(row["one"]),
    ]
    if several:
        T = row["temperature"]
        cells.append(
            {"text": "" if T is None else format_measurement(T, row["temperature_se"]), "value": "" if T is None else T}
        )
        cells.append(_gap_cell(row["several"]))
    return cells


def _gap_cell(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": gap(found["gap"], found["se"]), "value": abs(found["gap"]), "off": found["off"]}


def _about(table: Mapping[str, Any], noun: str, *, several: bool) -> str:
    """How far classes or groups are off, and what temperatures of their own would do."""
    plural = "predicted classes" if noun == "class" else "groups"

    def sentence_about(name: str) -> str:
        found = table[name]
        limits = f"({100 * found['low']:.2f} to {100 * found['high']:.2f})"
        off = f"{found['n_off']} of {found['n']}"
        return f"{off} {plural} have a significant gap; the mean gap is {100 * found['mean_abs_gap']:.2f} points {limits}."

    text = f"As it is, {sentence_about('before')} With one temperature, {sentence_about('one')}"
    if several:
        text += f" With a temperature per {noun}, {sentence_about('several')}"
    if alike := table.get("of_one_class"):
        which = f"the group {alike[0]!r} have" if len(alike) == 1 else f"each of the groups {first_names(alike)} have"
        text += f" All samples of {which} the same true class: the numbers may not hold for samples of other classes."
    return text


def provenance(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the numbers come from."""
    told = results["provenance"]
    rows = [("Made on", told["made_on"]), ("Library", f"nishimori {told['library_version']}")]
    for each in told["files"]:
        rows.append(
            (f"{each['role'].capitalize()} file", f"{each['name']}, {whole(each['bytes'])} bytes, SHA-256 {each['sha256']}")
        )
    rows.append(("Validation samples", whole(results["data"]["n_validation"])))
    if results["data"]["measured_on"] == "test":
        rows.append(("Test samples", whole(results["data"]["n_measured"])))
    if told["command"]:
        rows.append(("Command", told["command"]))
    return rows
