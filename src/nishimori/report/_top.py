"""The top of the page: what is wrong and what is left of it, what to do, what stays wrong, before and after, ship or not."""

from collections.abc import Mapping, Sequence
from typing import Any

from nishimori._support.formatting import points_with_error, signed
from nishimori._support.intervals import normal_quantile
from nishimori.report._text import format_measurement, four, percent, rounded, share, short_name

_INCONCLUSIVE = ("inconclusive", "cannot be judged")

# Characters of a name in a cell of before and after.
_LONGEST = 20


def heading(results: Mapping[str, Any]) -> str:
    """What the page is about."""
    return f"Calibration report: {results['title']}" if results["title"] else "Calibration report"


def after_name(results: Mapping[str, Any]) -> str:
    """What numbers after calibration are called; empty if no method is to be used."""
    return f"after {results['recommended']}" if results["recommended"] else ""


def _methods_to_use(results: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The method to use, and the one to use if predictions may change."""
    return results["recommended"], results["recommendation"]["other"]


def lines(results: Mapping[str, Any]) -> list[str]:
    """All of it in words, a line each."""
    sentences = [f"{results['verdict']['headline']}.", *filter(None, [results["verdict"]["caveats"]])]
    sentences += actions(results)
    sentences += [f"{title}: {text}" for title, text in filter(None, [stays_wrong(results)])]
    if (decision := shipping(results)) is not None:
        sentences.append(f"{decision['decision']}. {decision['text']}")
    return sentences


# What to do


def actions(results: Mapping[str, Any]) -> list[str]:
    """What to do, a sentence for each method."""
    advised = results["recommendation"]
    if advised["action"] == "nothing":
        return ["Nothing has to be done."]
    if advised["action"] == "leave":
        return ["Leave the model as it is: calibration makes it worse."]
    by_name = {method["method"]: method for method in (advised["simplest"], advised["best"]) if method is not None}
    start = "Inconclusive. If you calibrate, use" if advised["action"] == "open" else "Use"
    sentences = []
    for name, words in zip(_methods_to_use(results), (start, "If predictions may change, use"), strict=True):
        if name in by_name:
            sentences.append(f"{words} {name}: {_what_it_does(by_name[name])}.")
    if not sentences and results["recommended"]:  # of an earlier report, which has no recommendation
        return [results["verdict"]["advice"]]
    return sentences or ["No calibration is recommended; the table of methods says why."]


def _what_it_does(method: Mapping[str, Any]) -> str:
    share_moved = method["changed_predictions"]
    moved = f"changes {rounded(share_moved)} of the predictions" if share_moved else "changes no prediction"
    if method["temperature"] is not None:
        return f"one temperature, T = {format_measurement(method['temperature'], method['temperature_se'])}; it {moved}"
    changes = (("error", method["error_points"] if share_moved else None, "points"), ("NLL", method["nll_percent"], "%"))
    parts = [f"{name} {signed(value)} {unit}" for name, value, unit in changes if value is not None]
    return "; ".join(filter(None, (", ".join(parts), f"it {moved}")))


# What stays wrong


def stays_wrong(results: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is significantly wrong after the method to use, or as it is where there is none: a title, and sentences.

    None if it is not known.
    """
    rows = {method["method"]: method for method in results["methods"]}
    one = rows[results["recommended"] or "none"]
    title = f"Still wrong {after_name(results)}" if results["recommended"] else "Wrong as it is"
    if one["gap_se"] is None:  # earlier reports have no numbers, only words
        text = " ".join(filter(None, (results["verdict"]["classes"], results["verdict"]["groups"])))
        return ("What is left", text) if text else None
    other = rows.get(results["recommendation"]["other"] or "")
    possible = [*_means_off(one, results), *(_about_worst(one, other, key, results) for key in ("class", "group"))]
    wrong = list(filter(None, possible))
    if not wrong and one.get("ece_low"):
        wrong = [f"the ECE, {percent(one['ece'])}, is significantly above that of a calibrated model."]
    classes = one["worst_class"]
    among = "" if classes is None else f", neither over all samples nor in {classes['n_all']} predicted classes"
    first, *others = wrong or [f"nothing that is significant{among}."]
    return title, " ".join([first, *(f"{sentence[0].upper()}{sentence[1:]}" for sentence in others)])


def _means_off(row: Mapping[str, Any], results: Mapping[str, Any]) -> list[str]:
    """Mean confidence, and the mean probability of the second of two classes, where they are significantly off."""
    z, sentences, second = normal_quantile(results["level"]), [], results["data"]["positive"]
    if second is not None and _is_off(row, "positive_gap", z):
        mean = share(max(0.0, second["share"] + row["positive_gap"]))
        sentences.append(f"mean P(class {second['name']}) is {mean}, prevalence {share(second['share'])}.")
    if _is_off(row, "gap", z):
        size = format_measurement(100 * abs(row["gap"]), 100 * row["gap_se"])
        sentences.append(f"mean confidence is {size} points {'above' if row['gap'] > 0 else 'below'} accuracy.")
    return sentences


def _is_off(row: Mapping[str, Any], name: str, z: float) -> bool:
    value, error = row[name], row[f"{name}_se"]
    return value is not None and error is not None and bool(abs(value) > z * error)


def _about_worst(row: Mapping[str, Any], other: Mapping[str, Any] | None, key: str, results: Mapping[str, Any]) -> str:
    """The class or group that most samples are affected by of those with significant gaps; empty if there is none."""
    worst, plural = row[f"worst_{key}"], "predicted classes" if key == "class" else "groups"
    if worst is None or not worst["off"]:
        return ""
    part = rounded(min(worst["n"] / max(results["data"]["n_measured"], 1), 1.0))
    text = (
        f"{key} {worst['name']} is {rounded(worst['accuracy'])} right at {rounded(worst['confidence'])} mean confidence "
        f"({part} of the {'answers' if key == 'class' else 'samples'}); {_number_off(worst)} {plural} "
        f"{'are' if worst['n_off'] > 1 else 'is'} off"
    )
    if other is not None and other[f"worst_{key}"] is not None:
        text += f", after {other['method']} {_number_off(other[f'worst_{key}'])}"
    return f"{text}."


def _number_off(worst: Mapping[str, Any]) -> str:
    return f"{worst['n_off'] or 'none'} of {worst['n_all']}"


# Before and after

Cell = tuple[str, str, str]
"""A text, a smaller one below it, and "good" or "bad" where it is judged."""


def before_and_after(results: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that decide, as the model is and after each method to use: bounds first, if there are any."""
    methods = {method["method"]: method for method in results["methods"]}
    names = [name for name in _methods_to_use(results) if name is not None and name in methods]
    shown = [methods["none"], *(methods[name] for name in names)]
    second = results["data"]["positive"]
    rows = [
        *_bounds(results, ["none", *names]),
        ("Accuracy", [_plain(percent(_accuracy(row, results))) for row in shown]),
        ("Mean confidence", [_plain(percent(row["confidence"])) for row in shown]),
        ("ECE", [_plain(percent(row["ece"])) for row in shown]),
    ]
    if second is not None:
        means = [_plain(percent(max(0.0, second["share"] + row["positive_gap"]))) for row in shown]
        rows.append((f"Mean P(class {second['name']}); prevalence {percent(second['share'])}", means))
        rows.append((f"ECE of P(class {second['name']})", [_plain(percent(row["positive_ece"])) for row in shown]))
    rows.append(("NLL", [_plain(four(row["nll"])) for row in shown]))
    for key in ("class", "group"):
        worst = [row[f"worst_{key}"] for row in shown]
        if all(worst):
            rows.append(
                (
                    f"Largest {key} gap",
                    [
                        (points_with_error(group["gap"], None), f"{key} {short_name(group['name'], _LONGEST)}", "")
                        for group in worst
                    ],
                )
            )
            plural = "Classes" if key == "class" else "Groups"
            rows.append((f"{plural} off", [_plain(f"{group['n_off']} of {group['n_all']}") for group in worst]))
    return {"heads": ["before", *(f"after {name}" for name in names)], "rows": rows}


def _plain(text: str) -> Cell:
    return text, "", ""


def _accuracy(row: Mapping[str, Any], results: Mapping[str, Any]) -> float:
    return float(results["data"]["accuracy"] if row["error"] is None else 1 - row["error"])


def _bounds(results: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, list[Cell]]]:
    """A row for each bound: the verdict on each method, and the limits that show it."""
    checks_of = {method["method"]: method["checks"] for method in (results["gate"] or {"methods": []})["methods"]}
    rows = []
    for number, first in enumerate(checks_of.get("none", [])):
        checks = [checks_of[name][number] if name in checks_of else None for name in names]
        rows.append((first["title"], [_unjudged() if check is None else _judged(check) for check in checks]))
    return rows


def _judged(check: Mapping[str, Any]) -> Cell:
    return check["verdict"], check["limits"], {"pass": "good", "fail": "bad"}.get(check["verdict"], "")


def _unjudged() -> Cell:
    return "not judged", "", ""


# Ship or not


def shipping(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """Whether the model keeps its bounds, as it is or after a method to use, with the checks; None if no bound was given."""
    gate = results["gate"]
    if gate is None:
        return None
    verdicts = {method["method"]: method["verdict"] for method in gate["methods"]}
    recommended = results["recommended"]
    passed = [name for name in (recommended, "none", results["recommendation"]["other"]) if verdicts.get(name) == "pass"]
    if passed:
        decision, ok = "Ship it as it is" if passed[0] == "none" else f"Ship it with {passed[0]}", True
    elif gate["unjudged"] or verdicts.get(recommended or "none") in _INCONCLUSIVE:
        decision, ok = "Not decided", None
    else:
        decision, ok = "Do not ship it", False
    shown = passed[0] if passed else recommended if recommended in verdicts else "none"
    checks = next(method["checks"] for method in gate["methods"] if method["method"] == shown)
    when = "as it is" if shown == "none" else f"after {shown}"
    text = "; ".join(f"{check['title']}: {check['verdict']} {when} ({check['limits']})" for check in checks) + "."
    if gate["unjudged"]:
        text += f" {gate['unjudged'][0]} was fitted to these samples: pass test data to judge it."
    return {"decision": decision, "ok": ok, "text": text}
