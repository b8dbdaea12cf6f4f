"""What page and Markdown show of the dictionary, in the order in which they show it."""

from collections.abc import Mapping
from typing import Any

from nishimori._rows.labels import first_names
from nishimori.report._text import digits, format_measurement, four, gap, percent, whole

_SHORT = {"none": "T = 1", "ts": "TS", "ec": "EC", "adaptive": "adaptive"}

_SCORES = (
    ("confidence", "mean confidence", percent),
    ("ece", "ECE", percent),
    ("nll", "NLL", four),
    ("brier", "Brier score", four),
)

# Rows of a table on the page. The dictionary has all of them.
_MOST_ROWS = 1000


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
    rows = [
        {"name": name, "title": title, "now": shown(start[name]), "before": shown(as_is[name])}
        for name, title, shown in _SCORES
    ]
    return [rows[0], {"name": "", "title": "accuracy", "now": accuracy, "before": accuracy}, *rows[1:]]


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
        return f"{off} {plural} are off by more than noise; the mean gap is {100 * found['mean_abs_gap']:.2f} points {limits}."

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
