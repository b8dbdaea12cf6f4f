"""The required contents of a report's dictionary, from which page, Markdown and JSON are made.

Keys that no table names may be there too, as JSON: later versions of the same format may have more of them. What earlier
reports lack has a default in the tables, or follows from what they have: `present_results` gives every report the format of
today, which is the only one that the page and the others know. What is not known, or not finite, is None in most places.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nishimori._methods.record import present_name
from nishimori._support.json import (
    FLAG,
    NUMBER,
    POSITIVE,
    TEXT,
    JsonError,
    Kind,
    Maybe,
    Shape,
    any_shape,
    between,
    check_shape,
    list_of,
    one_of,
    same,
    whole,
)
from nishimori.errors import FormatError
from nishimori.report._content import metrics_of, scores_of_slider

# What reports show that were made before they listed their metrics.
_FIRST_METRICS = [
    {"name": "confidence", "title": "confidence", "in_percent": True, "direction": None, "is_signed": False},
    {"name": "ece", "title": "ECE", "in_percent": True, "direction": "lower", "is_signed": False},
    {"name": "nll", "title": "NLL", "in_percent": False, "direction": "lower", "is_signed": False},
    {"name": "brier", "title": "Brier score", "in_percent": False, "direction": "lower", "is_signed": False},
]

# Lower and upper edge, confidence, accuracy with its limits, share, and the number of samples, which earlier reports lack.
_PER_BIN = 8

_NAME, _UNKNOWN, _COUNT, _SHARE = (TEXT, None), (NUMBER, None), whole(0), between(0, 1)  # names and numbers may be None

_FITTED = {
    **same("method title", TEXT),
    "temperature": (POSITIVE, None),
    "why": _NAME,
    **same("temperature_se temperature_low temperature_high", _UNKNOWN),
}
_WORST = {"name": TEXT, **same("confidence accuracy gap", NUMBER), "off": FLAG, **same("n_off n_all", _COUNT)}
_METHOD = {
    **_FITTED,
    "confidence": _UNKNOWN,
    **same("gap gap_se error", Maybe(_UNKNOWN, None)),
    **same("worst_class worst_group", Maybe((_WORST, None), None)),
}


def _gaps(value: Any) -> Shape:
    """The table of classes or of groups; either all rows have ``several``, or none has."""
    kinds = "before one several" if isinstance(value, dict) and "several" in value else "before one"
    row = {
        "name": TEXT,
        "n": _COUNT,
        "accuracy": NUMBER,
        **same(kinds, {"confidence": NUMBER, "gap": NUMBER, "se": _UNKNOWN, "off": FLAG}),
        "temperature": (POSITIVE, None),
        "temperature_se": _UNKNOWN,
    }
    total = same("mean_abs_gap low high", NUMBER) | same("n_off n", _COUNT)
    return {"rows": list_of(row), **same(kinds, total), "of_one_class": Maybe(list_of(TEXT))}


_BINS = list_of(list_of(_UNKNOWN, _PER_BIN - 1, _PER_BIN))
_SCORES = {**same("confidence ece nll", _UNKNOWN), "bins": _BINS}  # which the charts show
_PLACE = {"temperature": POSITIVE, "names": list_of(TEXT), **_SCORES, "positive_bins": Maybe(_BINS)}
_OTHER_PLACE = _PLACE | {
    "temperature": Kind("None", lambda value: value is None),
    "names": list_of(TEXT, 1),
    "accuracy": NUMBER,
}
_RECOMMENDATION = {
    "best": ({"method": TEXT, "changed_predictions": _SHARE}, None),
    "sentences": list_of(TEXT),
    **same("choice other", Maybe(_NAME)),  # `present_results` adds the second
}
_NO_RECOMMENDATION: dict[str, Any] = {
    "reference": "none",
    **dict.fromkeys(("as_is", "simplest", "best", "p_value", "action", "choice", "other")),
    "sentences": [],
}
_VERDICT = one_of("pass", "inconclusive", "cannot be judged", "fail")
_JUDGED = {
    "method": TEXT,
    "verdict": _VERDICT,
    "checks": list_of({**same("title limits", TEXT), "verdict": _VERDICT}, 1),
}
_METRIC = {
    **same("name title", TEXT),
    "in_percent": FLAG,
    "direction": (one_of("lower", "higher"), None),
    "is_signed": Maybe(FLAG, False),
}
_CURVE = list_of(list_of(_SHARE, 2, 2))
_THRESHOLD = {
    **same("method verdict", TEXT),
    **same("coverage max_risk level", _SHARE),
    **same("confidence coverage_low risk", _UNKNOWN),
}
_REPORT = {
    **same("title code", TEXT),
    "verdict": {
        **same("status headline summary advice classes", TEXT),
        **same("groups caveats", Maybe(TEXT, "")),
        "sentences": list_of(TEXT),
        "headlines": Maybe(list_of({**same("now after", TEXT), **same("off off_after", FLAG)}, 1)),
    },
    "data": {
        **same("n_validation n_measured n_classes", _COUNT),
        "measured_on": one_of("test", "validation"),
        "of_claims": Maybe(FLAG, False),
        "error_bars": Maybe(TEXT, ""),
        "is_sketch": FLAG,
        "accuracy": NUMBER,
        "data_digest": Maybe(_NAME, None),
        "positive": Maybe(({"name": TEXT, "share": _SHARE}, None), None),
    },
    "level": _SHARE,
    "n_bins": whole(1),
    "recommended": _NAME,
    "best": Maybe(_NAME, None),
    "temperatures": list_of(_FITTED | {"method": one_of("ts", "ec", "adaptive", "auto")}),
    "methods": list_of(_METHOD, 1),
    "slider": {"places": list_of(_PLACE, 1), "start": _COUNT, "methods": Maybe(list_of(_OTHER_PLACE), [])},
    **same("classes groups", (_gaps, None)),
    "mistakes": (
        list_of(
            {
                "row": _COUNT,
                "id": _NAME,
                **same("predicted label", TEXT),
                **same("confidence confidence_after true_probability", NUMBER),
            }
        ),
        None,
    ),
    "absent": list_of(same("what why", TEXT)),
    "tests": {},
    "provenance": {
        **same("made_on library_version command", TEXT),
        "files": list_of({**same("role name sha256", TEXT), "bytes": _COUNT}),
    },
    "warnings": list_of(TEXT),
    "confusions": Maybe(
        (list_of({**same("predicted label", TEXT), "n": _COUNT, **same("share confidence", _SHARE)}), None), None
    ),
    "risk_coverage": Maybe((same("before one", _CURVE), None), None),
    "threshold": Maybe((_THRESHOLD, None), None),
    "metrics": Maybe(list_of(_METRIC), _FIRST_METRICS),
    "recommendation": Maybe(_RECOMMENDATION, _NO_RECOMMENDATION),
    "gate": Maybe(({"methods": list_of(_JUDGED, 1), "unjudged": list_of(TEXT)}, None), None),
}


def present_results(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results in the current form; refuses a dictionary from which a report cannot be made."""
    try:
        checked: dict[str, Any] = check_shape(dict(results), _REPORT)
        check_shape(checked, _references(checked))
    except JsonError as error:
        raise FormatError(f"`results` is damaged: {error}. Make the report again.") from None
    verdict, n = checked["verdict"], checked["data"]["n_measured"]
    is_off = verdict["status"] in ("overconfident", "underconfident", "uneven")
    verdict.setdefault("headlines", [{"now": verdict["headline"], "off": is_off, "after": "", "off_after": False}])
    if "other" not in checked["recommendation"]:  # the best method is there for those whose predictions may change
        best = checked["recommendation"]["best"]
        is_other = best is not None and best["method"] != checked["recommended"] and best["changed_predictions"]
        checked["recommendation"]["other"] = best["method"] if is_other else None
    for place in (*checked["slider"]["places"], *checked["slider"]["methods"]):
        for name in {"bins", "positive_bins"} & set(place):
            place[name] = [bin_ if len(bin_) == _PER_BIN else [*bin_, bin_[-1] * n] for bin_ in place[name]]
    present: dict[str, Any] = _with_present_names(checked)
    return present


def _with_present_names(value: Any, key: str = "") -> Any:
    """The results with the current names of methods; earlier reports have other names for some."""
    if isinstance(value, dict):
        return {name: _with_present_names(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [_with_present_names(entry, key) for entry in value]
    return present_name(value) if key in ("method", "recommended", "best", "choice", "other", "names", "unjudged") else value


def _references(results: Mapping[str, Any]) -> Shape:
    """Check that parts of a report agree: named methods and listed metrics exist."""
    listed, methods, slider, gate = metrics_of(results), results["methods"], results["slider"], results["gate"]
    fitted = [method["method"] for method in methods if method["confidence"] is not None]
    used: Shape = (one_of(*(name for name in fitted if name != "none")), None)
    place: dict[str, Shape] = {metric["name"]: _UNKNOWN for metric in scores_of_slider(results)}
    of_second: dict[str, Shape] = {}
    if results["data"]["positive"] is not None:
        place |= {"positive_bins": _BINS}
        of_second = {**same("positive_gap positive_ece", NUMBER), "positive_gap_se": _UNKNOWN}

    def numbers(method: Mapping[str, Any]) -> Shape:
        has_difference = method.get("nll_difference") is not None
        compared = [metric for metric in listed if metric["direction"] is not None] if has_difference else []
        second = of_second if method["confidence"] is not None else {}
        return _numbers(listed, "") | _numbers(compared, "_difference") | second

    return {
        "metrics": list_of({"name": Kind("a metric that the methods have", lambda name: any(name in row for row in methods))}),
        "methods": Kind("a list with the method 'none' and its numbers", lambda _: "none" in fitted, numbers),
        **same("recommended best", used),
        "recommendation": {"other": Maybe(used)},
        "slider": {
            "places": Kind("a list with the temperature 1", lambda places: 1 in (row["temperature"] for row in places), place),
            "methods": list_of(place),
            "start": whole(0, len(slider["places"]) + len(slider["methods"]) - 1),
        },
        "gate": any_shape if gate is None else _judged(gate, results["recommended"] or "none"),
    }


def _judged(gate: Mapping[str, Any], recommended: str) -> Shape:
    """Check that the uncalibrated model was judged, the recommended method was or says why not, all by the same bounds."""
    judged, n_checks = [method["method"] for method in gate["methods"]], len(gate["methods"][0]["checks"])
    is_whole = "none" in judged and recommended in [*judged, *gate["unjudged"]]
    checks = {"checks": list_of({}, n_checks, n_checks)}
    return {"methods": Kind("a list with the method 'none' and the recommended one", lambda _: is_whole, checks)}


def _numbers(metrics: Sequence[Mapping[str, Any]], what: str) -> dict[str, Shape]:
    """The numbers of a method; metrics that are not in percent need a standard error for the table."""
    numbers: dict[str, Shape] = {}
    for metric in metrics:
        name, error = f"{metric['name']}{what}", Maybe(_UNKNOWN) if metric["in_percent"] else _UNKNOWN
        numbers |= {name: _UNKNOWN, f"{name}_low": Maybe(_UNKNOWN), f"{name}_high": Maybe(_UNKNOWN), f"{name}_se": error}
    return numbers
