"""The charts of the page as Vega-Lite specifications, plain dictionaries that Vega draws in a browser and vl-convert on paper.

The same specification makes the static picture and the live chart: it has a parameter ``place``, the place of the slider, and
the data sets ``bins`` and ``curve``, of which a static picture gets only what it shows. Ink is ``currentColor``, so that the
page decides between dark and light; the other colours are those of `nishimori.plot`, which the page's style sheet makes
lighter on a dark background.
"""

from collections.abc import Mapping
from typing import Any

from nishimori.plot._style import COLORS

WIDTH = 380
_SMALL = 112

Spec = dict[str, Any]

_INK = "currentColor"
_CONFIG: Spec = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "domainColor": _INK,
        "tickColor": _INK,
        "gridColor": _INK,
        "gridOpacity": 0.12,
        "domainOpacity": 0.5,
        "tickOpacity": 0.5,
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": 500,
    },
    "text": {"color": _INK, "fontSize": 12},
    "title": {"color": _INK, "fontSize": 13, "fontWeight": 500, "anchor": "start"},
    "legend": {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12},
}
_TICKS = [float(f"{digit}e{power}") for power in range(-3, 4) for digit in (1, 2, 5)]
_SHORT = {"none": "T = 1", "ts": "TS", "ec": "EC", "adaptive": "adaptive"}


def datasets(slider: Mapping[str, Any], places: list[int] | None = None) -> dict[str, list[Spec]]:
    """The rows behind the charts; ``places`` are those whose bins are wanted, by default all of them."""
    names = ("lower", "upper", "confidence", "accuracy", "low", "high", "share")
    found = slider["places"]
    wanted = range(len(found)) if places is None else places
    bins = [{"place": i, **dict(zip(names, each, strict=True))} for i in wanted for each in found[i]["bins"]]
    # Other keys, such as the names of methods, are not numbers.
    curve = [{key: value for key, value in each.items() if key not in ("names", "bins")} for each in found]
    return {"bins": bins, "curve": [{"place": i, **each} for i, each in enumerate(curve)]}


def reliability(results: Mapping[str, Any]) -> Spec:
    """Accuracy against confidence with error bars, and the histogram of the confidence below it."""
    as_is = next(i for i, each in enumerate(results["slider"]["places"]) if each["temperature"] == 1)
    x = {"field": "confidence", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"title": None, "format": "%"}}
    y = {"type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"title": "accuracy", "format": "%"}}
    now = [{"filter": "datum.place === place"}]
    before = [{"filter": f"datum.place === {as_is}"}]
    size = {"field": "share", "type": "quantitative", "scale": {"domain": [0, 1], "range": [25, 420]}, "legend": None}
    tip = [
        {"field": "confidence", "type": "quantitative", "format": ".1%", "title": "mean confidence"},
        {"field": "accuracy", "type": "quantitative", "format": ".1%", "title": "accuracy"},
        {"field": "share", "type": "quantitative", "format": ".1%", "title": "share of samples"},
    ]
    diagonal = {
        "data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
        "mark": {"type": "line", "color": _INK, "strokeDash": [5, 4], "opacity": 0.55, "strokeWidth": 1},
        "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
    }
    grey, green = COLORS["before"], COLORS["after"]
    marks = [
        diagonal,
        {
            "transform": before,
            "mark": {"type": "point", "shape": "triangle-up", "color": grey, "size": 45, "strokeWidth": 1.5},
            "encoding": {"x": x, "y": {**y, "field": "accuracy"}},
        },
        {
            "transform": now,
            "mark": {"type": "rule", "color": green, "strokeWidth": 2},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "transform": now,
            "mark": {"type": "point", "shape": "diamond", "filled": True, "color": green, "opacity": 1},
            "encoding": {"x": x, "y": {**y, "field": "accuracy"}, "size": size, "tooltip": tip},
        },
    ]
    return _chart(
        "Reliability diagram: accuracy against confidence in each bin, and below it how many samples have each confidence.",
        results["slider"]["start"],
        [{"width": WIDTH, "height": WIDTH - 60, "layer": marks}, _histogram(now, before)],
    )


def _histogram(now: list[Spec], before: list[Spec]) -> Spec:
    bar_x: Spec = {"field": "lower", "type": "quantitative", "bin": "binned", "scale": {"domain": [0, 1]}}
    bar_x["axis"] = {"title": "confidence (mean of each bin)", "format": "%"}
    y: Spec = {"field": "share", "type": "quantitative", "scale": {"domain": [0, 1]}}
    y["axis"] = {"title": "samples", "format": "%", "tickCount": 3}
    common = {"x": bar_x, "x2": {"field": "upper"}, "y": y}
    return {
        "width": WIDTH,
        "height": 64,
        "layer": [
            {"transform": now, "mark": {"type": "bar", "color": COLORS["after"], "opacity": 0.75}, "encoding": common},
            {
                "transform": before,
                "mark": {"type": "bar", "filled": False, "stroke": COLORS["before"], "strokeWidth": 1.5},
                "encoding": common,
            },
        ],
    }


def curves(results: Mapping[str, Any]) -> Spec:
    """Mean confidence with the accuracy that it has to meet, ECE and NLL, each against T, with the current T marked."""
    accuracy = results["data"]["accuracy"]
    marks = [
        {"temperature": each["temperature"], "name": _SHORT[name]}
        for each in results["slider"]["places"]
        for name in each["names"]
        if name in ("ts", "ec")
    ]
    target = {
        "data": {"values": [{"accuracy": accuracy}]},
        "mark": {"type": "rule", "color": _INK, "strokeDash": [5, 4], "strokeWidth": 1.5},
        "encoding": {"y": {"field": "accuracy", "type": "quantitative"}},
    }
    panels = [
        _panel("confidence", "confidence", COLORS["confidence"], marks, percent=True, more=[target]),
        _panel("ece", "ECE", COLORS["ece"], marks, percent=True),
        _panel("nll", "NLL", COLORS["loss"], marks, percent=False),
    ]
    panels[-1]["layer"][0]["encoding"]["x"]["axis"]["title"] = "temperature T"
    return _chart(
        "Mean confidence, expected calibration error and negative log-likelihood against the temperature. The dashed line is "
        "the accuracy; vertical lines mark the temperatures of EC and TS and the current one.",
        results["slider"]["start"],
        panels,
    )


def _panel(field: str, title: str, color: str, marks: list[Spec], *, percent: bool, more: list[Spec] | None = None) -> Spec:
    x: Spec = {"field": "temperature", "type": "quantitative", "scale": {"type": "log", "nice": False}}
    y: Spec = {"field": field, "type": "quantitative", "scale": {"zero": field == "ece"}}
    y["axis"] = {"title": title, "tickCount": 4, **({"format": "%"} if percent else {})}
    line = {
        "data": {"name": "curve"},
        "mark": {"type": "line", "color": color, "strokeWidth": 2.5},
        "encoding": {"x": {**x, "axis": {"title": None, "values": _TICKS, "format": "~g"}}, "y": y},
    }
    colors = {"domain": ["EC", "TS"], "range": [COLORS["ec"], COLORS["ts"]]}
    chosen = {
        "data": {"values": marks},
        "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [2, 2]},
        "encoding": {"x": x, "color": {"field": "name", "type": "nominal", "scale": colors, "legend": None}},
    }
    now = [{"filter": "datum.place === place"}]
    current = {"data": {"name": "curve"}, "transform": now, "encoding": {"x": x}}
    return {
        "width": WIDTH,
        "height": _SMALL,
        "layer": [
            line,
            *(more or []),
            chosen,
            {**current, "mark": {"type": "rule", "color": COLORS["after"], "strokeWidth": 2, "opacity": 0.8}},
            {
                **current,
                "mark": {
                    "type": "point",
                    "filled": True,
                    "shape": "diamond",
                    "size": 110,
                    "color": COLORS["after"],
                    "opacity": 1,
                },
                "encoding": {"x": x, "y": y},
            },
        ],
    }


def temperatures(results: Mapping[str, Any]) -> Spec | None:
    """T of each method with its interval; None if no method found one."""
    known = [each for each in results["temperatures"] if each["temperature"] is not None]
    if not known:
        return None
    values = [{**each, "name": _SHORT[each["method"]]} for each in known]
    x: Spec = {"type": "quantitative", "scale": {"type": "log", "zero": False, "nice": False, "padding": 16}}
    x["axis"] = {"title": "temperature T", "tickCount": 6, "format": "~g"}
    y = {"field": "name", "type": "nominal", "sort": None, "axis": {"title": None}}
    scale = {"domain": ["TS", "EC", "adaptive"], "range": [COLORS["ts"], COLORS["ec"], COLORS["after"]]}
    color = {"field": "name", "type": "nominal", "scale": scale, "legend": None}
    one = {"data": {"values": [{"one": 1}]}, "mark": {"type": "rule", "color": _INK, "strokeDash": [5, 4], "opacity": 0.6}}
    low, high = {"field": "temperature_low"}, {"field": "temperature_high"}
    spec = {
        "width": WIDTH,
        "height": 34 * len(values),
        "layer": [
            {**one, "encoding": {"x": {**x, "field": "one"}}},
            {
                "transform": [{"filter": "isValid(datum.temperature_low)"}],
                "mark": {"type": "rule", "strokeWidth": 3},
                "encoding": {"x": {**x, **low}, "x2": high, "y": y, "color": color},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
                "encoding": {"x": {**x, "field": "temperature"}, "y": y, "color": color},
            },
        ],
        "data": {"values": values},
    }
    return _chart("Temperature of each method with its confidence interval; the dashed line is T = 1.", 0, [spec])


def _chart(description: str, start: int, parts: list[Spec]) -> Spec:
    """A whole specification; its data sets are filled in where it is drawn."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": description,
        "config": _CONFIG,
        "params": [{"name": "place", "value": start}],
        "data": {"name": "bins"},
        "spacing": 10,
        "vconcat": parts,
    }
