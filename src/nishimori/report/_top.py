"""The top of the page: what is wrong, what calibration leaves of it, what to do, and whether to ship."""

from collections.abc import Mapping, Sequence
from typing import Any

from nishimori._support.formatting import percent as share_text
from nishimori.report._content import four, percent, points, short_name

_INCONCLUSIVE = ("inconclusive", "cannot be judged")

# Characters of a name in a cell of before and after.
_LONGEST = 20


def lines(results: Mapping[str, Any]) -> list[str]:
    """The top of the page as lines of text."""
    verdict, decision = results["verdict"], shipping(results)
    sentences = [f"{verdict['headline']}.", verdict["caveats"], *actions(results), *stays_wrong(results)]
    return [*filter(None, sentences), *([] if decision is None else [f"{decision['decision']}. {decision['text']}"])]


def actions(results: Mapping[str, Any]) -> list[str]:
    """What to do, a sentence for each method, as in `compare`; earlier reports have one text."""
    return results["recommendation"]["sentences"] or [results["verdict"]["advice"]]


def stays_wrong(results: Mapping[str, Any]) -> list[str]:
    """Sentences about predicted classes and groups that are miscalibrated after the recommended methods, if known."""
    methods = {row["method"]: row for row in results["methods"]}
    row, other = methods[results["recommended"] or "none"], methods.get(results["recommendation"]["other"])
    about = (
        (_about_worst(row, other, noun), results["verdict"][key]) for noun, key in (("class", "classes"), ("group", "groups"))
    )
    return [worst or of_all for worst, of_all in about if worst or of_all]


def _about_worst(row: Mapping[str, Any], other: Mapping[str, Any] | None, noun: str) -> str:
    """How often the worst class or group is right, and how many are miscalibrated; empty if unknown or none."""
    worst = row[f"worst_{noun}"]
    if worst is None or not worst["off"]:
        return ""
    decimals = 0 if abs(worst["gap"]) >= 0.02 else 2
    right, claimed = (share_text(worst[name], decimals) for name in ("accuracy", "confidence"))
    when = "As it is" if row["method"] == "none" else f"After {row['method']}"
    several, are = "predicted classes" if noun == "class" else "groups", "are" if worst["n_off"] > 1 else "is"
    later = "" if other is None else f", after {other['method']} {_number_off(other[f'worst_{noun}'])}"
    off = f"{_number_off(worst)} {several} {are} off{later}"
    return f"{when} {noun} {worst['name']} is {right} right at {claimed} mean confidence; {off}."


def _number_off(worst: Mapping[str, Any]) -> str:
    return f"{worst['n_off'] or 'none'} of {worst['n_all']}"


# Before and after

Cell = tuple[str, str, str]
"""A text, a smaller one below it, and "good" or "bad" if it is judged."""


def before_and_after(results: Mapping[str, Any]) -> dict[str, Any]:
    """The deciding numbers, before calibration and after each recommended method: bounds first, if there are any."""
    methods = {method["method"]: method for method in results["methods"]}
    names = [name for name in (results["recommended"], results["recommendation"]["other"]) if name in methods]
    shown = [methods["none"], *(methods[name] for name in names)]
    second = results["data"]["positive"]
    accuracies = (results["data"]["accuracy"] if row["error"] is None else 1 - row["error"] for row in shown)
    rows = [
        *_bounds(results, ["none", *names]),
        ("Share right" if results["data"]["of_claims"] else "Accuracy", _plain(*map(percent, accuracies))),
        ("Mean confidence", _plain(*(percent(row["confidence"]) for row in shown))),
        ("ECE", _plain(*(percent(row["ece"]) for row in shown))),
    ]
    if second is not None:
        means = _plain(*(percent(max(0.0, second["share"] + row["positive_gap"])) for row in shown))
        rows.append((f"Mean P(class {second['name']}); prevalence {percent(second['share'])}", means))
        rows.append((f"ECE of P(class {second['name']})", _plain(*(percent(row["positive_ece"]) for row in shown))))
    rows.append(("NLL", _plain(*(four(row["nll"]) for row in shown))))
    for key, plural in (("class", "Classes"), ("group", "Groups")):
        worst = [row[f"worst_{key}"] for row in shown]
        if all(worst):
            gaps = [(points(group["gap"]), f"{key} {short_name(group['name'], _LONGEST)}", "") for group in worst]
            rows.append((f"Largest {key} gap", gaps))
            rows.append((f"{plural} off", _plain(*(f"{group['n_off']} of {group['n_all']}" for group in worst))))
    return {"heads": ["before", *(f"after {name}" for name in names)], "rows": rows}


def _plain(*texts: str) -> list[Cell]:
    return [(text, "", "") for text in texts]


def _bounds(results: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, list[Cell]]]:
    """A row for each bound: the verdict on each method, and the limits behind it."""
    checks_of = {method["method"]: method["checks"] for method in (results["gate"] or {"methods": []})["methods"]}
    judged = [(check["title"], number) for number, check in enumerate(checks_of.get("none", []))]
    return [
        (title, [_judged(checks_of[name][number] if name in checks_of else None) for name in names]) for title, number in judged
    ]


def _judged(check: Mapping[str, Any] | None) -> Cell:
    if check is None:
        return "not judged", "", ""
    return check["verdict"], check["limits"], {"pass": "good", "fail": "bad"}.get(check["verdict"], "")


# Ship or not


def shipping(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """Whether the model keeps its bounds, uncalibrated or after a recommended method; None if no bound was passed."""
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
