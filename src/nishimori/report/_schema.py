"""What the dictionary of a report must hold, so that page, Markdown and JSON can be made of it.

A rule is a function of a value and of its place in the dictionary, which raises a `FormatError` that names the place and says
what must be there. Keys that no rule names may be there too, as JSON: later versions of the same format may have more of them.
What is not known, or not finite, is None in most places.
"""

import reprlib
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NoReturn

from nishimori._methods.record import present_name
from nishimori.errors import FormatError
from nishimori.report._content import metrics_of, scores_of_slider

Rule = Callable[[Any, str], None]

# More than any number of ours, and small enough to be multiplied and printed.
_LARGEST = 1e300

# No report of ours has more than six levels.
_DEEPEST = 50

_REMEDY = "Make the report again."

# Lower and upper edge, confidence, accuracy with its limits, share, and the number of samples, which earlier reports lack.
_PER_BIN = 8


def with_present_names(value: Any, key: str = "") -> Any:
    """The results with methods as they are called now; earlier reports have other names for some."""
    if isinstance(value, dict):
        return {name: with_present_names(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [with_present_names(entry, key) for entry in value]
    return present_name(value) if key in ("method", "recommended", "best", "choice", "other", "names", "unjudged") else value


def check_results(results: Mapping[str, Any]) -> None:
    """Refuse a dictionary from which a report cannot be made."""
    _check_json(dict(results), "", 0)
    _REPORT(dict(results), "")
    _check_metrics(results)
    _check_slider(results["slider"])
    _check_recommended(results)
    if results["data"].get("positive") is not None:
        _check_second_class(results)
    if results.get("gate") is not None:
        _check_gate(results["gate"], results["recommended"])


def _refuse(place: str, wanted: str, value: Any) -> NoReturn:
    raise FormatError(f"`results` is damaged: {place} must be {wanted}, got {brief(value)}. {_REMEDY}")


def brief(value: Any) -> str:
    """The beginning of a value as Python writes it."""
    try:
        return reprlib.repr(value)
    except ValueError:  # a whole number of thousands of digits
        return f"a value of the type {type(value).__name__}"


def _check_json(value: Any, place: str, depth: int) -> None:
    """Refuse what is not JSON."""
    if depth > _DEEPEST:
        raise FormatError(f"`results` is damaged: {place[:40]}... is nested too deeply. {_REMEDY}")
    if isinstance(value, dict):
        for name, entry in value.items():
            if not isinstance(name, str):
                _refuse(place or "`results`", "a dictionary with texts as keys", value)
            _check_json(entry, _inside(place, name), depth + 1)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            _check_json(entry, f"{place}[{number}]", depth + 1)
    elif not (value is None or isinstance(value, str | bool) or _is_number(value)):
        _refuse(place, "a finite number, text, None, a list or a dictionary", value)


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _must(wanted: str, is_right: Callable[[Any], bool]) -> Rule:
    """The rule that a value is right; ``wanted`` says what is."""

    def rule(value: Any, place: str) -> None:
        if not is_right(value):
            _refuse(place, wanted, value)

    return rule


_TEXT = _must("text", lambda value: isinstance(value, str))
_FLAG = _must("true or false", lambda value: isinstance(value, bool))
_NONE = _must("None", lambda value: value is None)
_NUMBER = _must("a finite number", _is_number)
_POSITIVE = _must("a positive finite number", lambda value: _is_number(value) and value > 0)


def _whole(least: int, most: float = _LARGEST) -> Rule:
    limits = f"of at least {least}" if most == _LARGEST else f"from {least} to {most:g}"
    return _must(f"a whole number {limits}", lambda n: _is_number(n) and isinstance(n, int) and least <= n <= most)


def _between(low: float, high: float) -> Rule:
    return _must(f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high)


def _one_of(*values: str) -> Rule:
    return _must(f"one of {', '.join(map(repr, values))}", lambda value: value in values)


def _or_none(rule: Rule) -> Rule:
    return lambda value, place: None if value is None else rule(value, place)


def _list(rule: Rule, least: int = 0, most: float = inf) -> Rule:
    def check_list(value: Any, place: str) -> None:
        if not (isinstance(value, list) and least <= len(value) <= most):
            length = f"{least}" if least == most else f"{least} to {most:g}"
            wanted = {(0, inf): "a list", (1, inf): "a list that is not empty"}.get((least, most), f"a list of {length} values")
            _refuse(place, wanted, value)
        for number, entry in enumerate(value):
            rule(entry, f"{place}[{number}]")

    return check_list


def _record(needed: Mapping[str, Rule], more: Mapping[str, Rule] | None = None) -> Rule:
    """A dictionary with some keys, and perhaps with some others."""

    def rule(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            _refuse(place, f"a dictionary with the keys {', '.join(needed)}" if needed else "a dictionary", value)
        for name, own in needed.items():
            if name not in value:
                raise FormatError(f"`results` is damaged: {_inside(place, name)} is missing. {_REMEDY}")
            own(value[name], _inside(place, name))
        for name, own in (more or {}).items():
            if name in value:
                own(value[name], _inside(place, name))

    return rule


def _same(names: str, rule: Rule) -> dict[str, Rule]:
    """One rule for several keys."""
    return dict.fromkeys(names.split(), rule)


_UNKNOWN = _or_none(_NUMBER)
_COUNT = _whole(0)
_FITTED = _same("method title", _TEXT) | {"temperature": _or_none(_POSITIVE), "why": _or_none(_TEXT)}
_FITTED |= _same("temperature_se temperature_low temperature_high", _UNKNOWN)


def _method(value: Any, place: str) -> None:
    """A row of the table of methods, which has differences from the model as it is or has none of them."""
    _record(_FITTED | {"confidence": _UNKNOWN})(value, place)
    if "worst_class" in value:  # which earlier reports lack
        _record(_same("gap gap_se error", _UNKNOWN) | _same("worst_class worst_group", _or_none(_WORST)))(value, place)


def _check_metrics(results: Mapping[str, Any]) -> None:
    """Each method has each metric that the report lists, and perhaps differences from the model as it is."""
    listed = metrics_of(results)
    for number, metric in enumerate(listed):
        if not any(metric["name"] in method for method in results["methods"]):
            _refuse(f"metrics[{number}].name", "the name of a metric that the methods have", metric["name"])
    for number, method in enumerate(results["methods"]):
        place = f"methods[{number}]"
        needed_metrics = [(metric["name"], "") for metric in listed]
        if method.get("nll_difference") is not None:
            needed_metrics += [(metric["name"], "_difference") for metric in listed if metric["direction"] is not None]
        for name, what in needed_metrics:
            numbers = {f"{name}{what}": _UNKNOWN}
            limits = _same(f"{name}{what}_low {name}{what}_high", _UNKNOWN)
            in_percent = next(metric["in_percent"] for metric in listed if metric["name"] == name)
            needed = numbers if in_percent else numbers | {f"{name}{what}_se": _UNKNOWN}
            _record(needed, limits)(method, place)
    scores = _record({metric["name"]: _UNKNOWN for metric in scores_of_slider(results)})
    for key in ("places", "methods"):
        for number, place in enumerate(results["slider"].get(key, [])):
            scores(place, f"slider.{key}[{number}]")


def _gaps(value: Any, place: str) -> None:
    """The table of classes or of groups; ``several`` is there for all rows or for none."""
    kinds = ["before", "one", *(["several"] if isinstance(value, dict) and "several" in value else [])]
    total = _record(_same("mean_abs_gap low high", _NUMBER) | _same("n_off n", _COUNT))
    gap = _record({"confidence": _NUMBER, "gap": _NUMBER, "se": _UNKNOWN, "off": _FLAG})
    row: dict[str, Rule] = {"name": _TEXT, "n": _COUNT, "accuracy": _NUMBER, **dict.fromkeys(kinds, gap)}
    row |= {"temperature": _or_none(_POSITIVE), "temperature_se": _UNKNOWN}
    _record({"rows": _list(_record(row)), **dict.fromkeys(kinds, total)}, {"of_one_class": _list(_TEXT)})(value, place)


_BINS = _list(_list(_UNKNOWN, _PER_BIN - 1, _PER_BIN))
_SCORES = {
    **_same("confidence ece nll", _UNKNOWN),  # which the charts show
    "bins": _BINS,
}
_PLACE = _record({"temperature": _POSITIVE, "names": _list(_TEXT), **_SCORES}, {"positive_bins": _BINS})
_OTHER_PLACE = _record(
    {"temperature": _NONE, "names": _list(_TEXT, 1), "accuracy": _NUMBER, **_SCORES}, {"positive_bins": _BINS}
)
_MISTAKE = _record(
    {
        "row": _COUNT,
        "id": _or_none(_TEXT),
        **_same("predicted label", _TEXT),
        **_same("confidence confidence_after true_probability", _NUMBER),
    }
)
_CONFUSION = _record({**_same("predicted label", _TEXT), "n": _COUNT, **_same("share confidence", _between(0, 1))})
_CURVE = _list(_list(_between(0, 1), 2, 2))
_METRIC = _record(
    {**_same("name title", _TEXT), "in_percent": _FLAG, "direction": _or_none(_one_of("lower", "higher"))}, {"is_signed": _FLAG}
)
_CHOSEN = _record(
    {
        "method": _TEXT,
        "temperature": _or_none(_POSITIVE),
        **_same("temperature_se nll_percent nll_p_value error_points error_p_value ece_points ece_p_value", _UNKNOWN),
        "changed_predictions": _between(0, 1),
    }
)
_WORST = _record(
    {"name": _TEXT, **_same("n n_off n_all", _COUNT), **_same("confidence accuracy gap", _NUMBER), "se": _UNKNOWN, "off": _FLAG}
)
_HEADLINE = _record({**_same("now after", _TEXT), **_same("off off_after", _FLAG)})
_VERDICT = _one_of("pass", "inconclusive", "cannot be judged", "fail")
_JUDGED = _record(
    {"method": _TEXT, "verdict": _VERDICT, "checks": _list(_record({**_same("title limits", _TEXT), "verdict": _VERDICT}), 1)}
)
_RECOMMENDATION = _record(
    {
        "reference": _TEXT,
        "as_is": _or_none(_TEXT),
        **_same("simplest best", _or_none(_CHOSEN)),
        "p_value": _UNKNOWN,
        "action": _or_none(_one_of("calibrate", "nothing", "leave", "open")),
        "sentences": _list(_TEXT),
    },
    _same("choice other", _or_none(_TEXT)),
)
_REPORT = _record(
    {
        **_same("title code", _TEXT),
        "verdict": _record(
            {**_same("status headline summary advice classes", _TEXT), "sentences": _list(_TEXT)},
            {**_same("groups caveats", _TEXT), "headlines": _list(_HEADLINE, 1)},
        ),
        "data": _record(
            {
                **_same("n_validation n_measured n_classes", _COUNT),
                "measured_on": _one_of("test", "validation"),
                "is_sketch": _FLAG,
                "accuracy": _NUMBER,
            },
            {"data_digest": _or_none(_TEXT), "positive": _or_none(_record({"name": _TEXT, "share": _between(0, 1)}))},
        ),
        "level": _between(0, 1),
        "n_bins": _whole(1),
        "recommended": _or_none(_TEXT),
        "temperatures": _list(_record(_FITTED | {"method": _one_of("ts", "ec", "adaptive", "auto")})),
        "methods": _list(_method, 1),
        "slider": _record({"places": _list(_PLACE, 1), "start": _COUNT}, {"methods": _list(_OTHER_PLACE)}),
        "classes": _or_none(_gaps),
        "groups": _or_none(_gaps),
        "mistakes": _or_none(_list(_MISTAKE)),
        "absent": _list(_record(_same("what why", _TEXT))),
        "tests": _record({}),
        "provenance": _record(
            {
                **_same("made_on library_version command", _TEXT),
                "files": _list(_record({**_same("role name sha256", _TEXT), "bytes": _COUNT})),
            }
        ),
        "warnings": _list(_TEXT),
    },
    {
        "confusions": _or_none(_list(_CONFUSION)),
        "risk_coverage": _or_none(_record(_same("before one", _CURVE))),
        "metrics": _list(_METRIC),
        "best": _or_none(_TEXT),
        "recommendation": _RECOMMENDATION,
        "gate": _or_none(_record({"methods": _list(_JUDGED, 1), "unjudged": _list(_TEXT)})),
    },
)


def _check_slider(slider: Mapping[str, Any]) -> None:
    """The slider starts at one of its places, and one of them is the model as it is."""
    places = slider["places"]
    _whole(0, len(places) + len(slider.get("methods", [])) - 1)(slider["start"], "slider.start")
    if all(place["temperature"] != 1 for place in places):
        temperatures = [place["temperature"] for place in places]
        _refuse("slider.places", "a list of which one has the temperature 1", temperatures)


def _check_recommended(results: Mapping[str, Any]) -> None:
    """The model as it is and the methods to use are among the methods that have numbers."""
    fitted = [method["method"] for method in results["methods"] if method["confidence"] is not None]
    if "none" not in fitted:
        _refuse("methods", "a list of which one has the method 'none' and its numbers", fitted)
    names = [name for name in fitted if name != "none"]
    wanted = f"None or one of the methods that have numbers{''.join(f', {name!r}' for name in names)}"
    if results["recommended"] is not None and results["recommended"] not in names:
        _refuse("recommended", wanted, results["recommended"])
    if results.get("best") is not None and results["best"] not in names:
        _refuse("best", wanted, results["best"])
    other = (results.get("recommendation") or {}).get("other")
    if other is not None and other not in names:
        _refuse("recommendation.other", wanted, other)


def _check_second_class(results: Mapping[str, Any]) -> None:
    """Of two classes, methods have numbers of the second one, and all places have its bins."""
    needed = _record(_same("positive_gap positive_ece", _NUMBER) | {"positive_gap_se": _UNKNOWN})
    for number, method in enumerate(results["methods"]):
        if method["confidence"] is not None:
            needed(method, f"methods[{number}]")
    for key in ("places", "methods"):
        for number, place in enumerate(results["slider"].get(key, [])):
            _record({"positive_bins": _BINS})(place, f"slider.{key}[{number}]")


def _check_gate(gate: Mapping[str, Any], recommended: str | None) -> None:
    """The model as it is was judged, and the method to use was or says that it was not, all by the same bounds."""
    judged = [method["method"] for method in gate["methods"]]
    for name in ("none", *filter(None, [recommended])):
        if name not in (*judged, *gate["unjudged"]):
            _refuse("gate.methods", f"a list of which one has the method {name!r}", judged)
    if "none" not in judged:
        _refuse("gate.methods", "a list of which one has the method 'none'", judged)
    for number, method in enumerate(gate["methods"]):
        if len(method["checks"]) != len(gate["methods"][0]["checks"]):
            _refuse(f"gate.methods[{number}].checks", "as many checks as those of the first method", len(method["checks"]))
