"""The charts of the page as Vega-Lite specifications, plain dictionaries that Vega draws in a browser and vl-convert on paper.

The same specification makes the static picture and the live chart: it has a parameter ``place``, the place of the slider, and
the data sets ``bins`` and ``curve``, of which a static picture gets only what it shows. Ink is ``currentColor``, so that the
page decides between dark and light; the other colours are those of `nishimori.plot`, which the page's style sheet makes
lighter on a dark background.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nishimori._support.escape import xml_text
from nishimori._support.intervals import normal_quantile
from nishimori.plot._style import COLORS
from nishimori.report._content import SHORT_TITLES, all_places, as_is, short_name, slider_place

WIDTH = 380
_WIDE = 560
_SMALL = 112

# The chart of classes on a phone: the marks, and the longest name beside them.
_NARROW = 230
_NARROW_NAME = 14

# A share of fewer samples says little: its point is faint.
FEW = 10

# Classes or groups of a chart. The table has all of them.
MOST_GAPS = 15

# Characters of a name on an axis.
_LONGEST = 28

# Where bars of a logarithmic scale begin: one sample is a bar too.
_BASE = 0.7

BIN_NAMES = ("lower", "upper", "confidence", "accuracy", "low", "high", "share", "n")
"""The numbers of each bin at a position of the slider, in this order."""

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


def datasets(results: Mapping[str, Any], places: list[int] | None = None) -> dict[str, list[Spec]]:
    """The rows behind the charts; ``places`` selects slider positions whose bins are needed, by default all."""
    shown = shown_places(results)
    wanted = range(len(shown)) if places is None else places
    bins = [{"place": i, **dict(zip(BIN_NAMES, numbers, strict=True))} for i in wanted for numbers in shown[i]["bins"]]
    # Other keys, such as the names of methods, are not numbers.
    curve = [
        {"place": i, **{key: value for key, value in place.items() if key not in ("names", "bins")}}
        for i, place in enumerate(shown)
        if place["temperature"] is not None
    ]
    return {"bins": bins, "curve": curve}


def shown_places(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the page can show (see `all_places`), with the bins of the diagram: for two classes, of the second class."""
    key = "bins" if second_class(results) is None else "positive_bins"
    return [
        {name: value for name, value in place.items() if name != "positive_bins"} | {"bins": place[key]}
        for place in all_places(results)
    ]


def second_class(results: Mapping[str, Any]) -> str | None:
    """The name of the second of two classes, if the diagram shows it; None otherwise."""
    second = results["data"]["positive"]
    return None if second is None else _short_name(second["name"], _LONGEST)


def reliability(results: Mapping[str, Any]) -> Spec:
    """Accuracy against confidence with error bars, before and at the chosen T, and the histogram of the confidence below it.

    Of two classes it is the share of the second one against its probability.
    """
    second = second_class(results)
    names = ("confidence", "accuracy") if second is None else (f"P(class {second})", f"share of class {second}")
    # The largest of two probabilities is never below one half.
    of_two = results["data"]["n_classes"] == 2 and not results["data"]["of_claims"]
    scale = {"domain": [0.5 if of_two and second is None else 0, 1]}
    x = _number("confidence", scale=scale, axis={"title": None, "format": "%"})
    low = scale["domain"][0]
    diagonal = {
        "data": {"values": [{"x": low, "y": low}, {"x": 1, "y": 1}]},
        "mark": {"type": "line", "color": _INK, "strokeDash": [5, 4], "opacity": 0.55, "strokeWidth": 1},
        "encoding": {"x": _number("x", scale=scale), "y": _number("y")},
    }
    now, before = [{"filter": "datum.place === place"}], [{"filter": f"datum.place === {as_is(results)}"}]
    triangle = {"type": "point", "shape": "triangle-up", "filled": True, "color": COLORS["before"], "size": 65}
    diamond = {"type": "point", "shape": "diamond", "filled": True, "color": COLORS["after"], "size": 90}
    marks = [diagonal, *_points(before, triangle, x, 1.5, names), *_points(now, diamond, x, 2, names)]
    what = "accuracy against confidence" if second is None else "share of the second class against its probability"
    return _chart(
        f"Reliability diagram: {what} in each bin, and the number of samples per bin below.",
        results["slider"]["start"],
        [{"width": WIDTH, "height": WIDTH - 60, "layer": marks}, _histogram(now, before, scale, names[0])],
    )


def _points(which: list[Spec], mark: Spec, x: Spec, width: float, names: tuple[str, str]) -> list[Spec]:
    """Bars and points of the bins at one temperature; bins with few samples are faint. ``names`` are the axis titles."""
    y = _number("accuracy", scale={"domain": [0, 1]}, axis={"title": names[1], "format": "%"})
    few = {"condition": {"test": f"datum.n < {FEW}", "value": 0.3}, "value": 1}
    # Vega makes a text of an expression of these titles, and reads \x1b in it as one character.
    of_x, of_y = (name.replace("\\", "\\\\") for name in names)
    tip = [
        _number("confidence", format=".1%", title=f"mean {of_x}"),
        _number("accuracy", format=".1%", title=of_y),
        _number("n", format=",.0f", title="samples"),
        _number("share", format=".1%", title="share of samples"),
    ]
    bar = {"type": "rule", "color": mark["color"], "strokeWidth": width}
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return [
        {"transform": which, "mark": bar, "encoding": {"x": x, **ends, "opacity": few}},
        {"transform": which, "mark": mark, "encoding": {"x": x, "y": y, "opacity": few, "tooltip": tip}},
    ]


def _histogram(now: list[Spec], before: list[Spec], scale: Spec, name: str) -> Spec:
    """The number of samples per bin, on a logarithmic scale, so that bins with few samples are visible."""
    low = scale["domain"][0]
    start = [{"calculate": f"max(datum.lower, {low})", "as": "start"}, {"calculate": f"{_BASE}", "as": "base"}]
    bar_x = _number("start", scale=scale, axis={"title": f"{name} (mean of each bin)", "format": "%"})
    ticks = {"title": "samples", "format": "~s", "values": [10**power for power in range(13)], "labelOverlap": True}
    y = _number("n", scale={"type": "log", "domainMin": _BASE, "nice": False}, axis=ticks)
    common = {"x": bar_x, "x2": {"field": "upper"}, "y": y, "y2": {"field": "base"}}
    shown = {"type": "bar", "color": COLORS["after"], "opacity": 0.75}
    outline = {"type": "bar", "filled": False, "stroke": COLORS["before"], "strokeWidth": 1.5}
    return {
        "width": WIDTH,
        "height": 72,
        "layer": [
            {"transform": now + start, "mark": shown, "encoding": common},
            {"transform": before + start, "mark": outline, "encoding": common},
        ],
    }


def gaps(table: Mapping[str, Any], after: str, level: float, *, narrow: bool = False) -> Spec | None:
    """Confidence minus accuracy of the classes or groups that affect most samples, before and after.

    None if there is none; without ``after``, only before. ``narrow`` is for phones.
    """
    rows = sorted(table["rows"], key=lambda row: row["n"] * abs(row["before"]["gap"]), reverse=True)[:MOST_GAPS]
    if not rows:
        return None
    z = normal_quantile(level)
    names, shown = _labels_of(rows, narrow=narrow), [("before", "before"), *([("one", after)] if after else [])]
    values = [
        {"name": name, "when": when, "gap": 100 * row[key]["gap"], **_ends(row[key], 100 * z)}
        for name, row in zip(names, rows, strict=True)
        for key, when in shown
    ]
    y = {"field": "name", "type": "nominal", "sort": names, "axis": {"title": None, "labelLimit": 230, "grid": True}}
    offset = {"field": "when", "type": "nominal", "sort": ["before", after], "scale": {"paddingOuter": 0.4}}
    labels = "datum.value === 0 ? '0' : format(datum.value, '+~g')"
    axis = {"title": "confidence − accuracy, in points", "tickCount": 4 if narrow else 8, "labelExpr": labels}
    x = _number("gap", axis=axis)
    places = {"y": y, "yOffset": offset, "color": _name("when", {"before": COLORS["before"], after: COLORS["after"]})}
    spec = {
        "width": _NARROW if narrow else _WIDE,
        "height": {"step": 11 if after else 20},
        "data": {"values": values},
        "layer": [
            {
                "data": {"values": [{"zero": 0}]},
                "mark": {"type": "rule", "color": _INK, "opacity": 0.6},
                "encoding": {"x": {**x, "field": "zero"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, **places},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 65, "opacity": 1},
                "encoding": {"x": x, "shape": _name("when", {"before": "triangle-up", after: "diamond"}), **places},
            },
        ],
    }
    description = "Confidence minus accuracy of the worst classes or groups, before and after calibration."
    # A browser may have a wider font than the one that the picture was measured with.
    padding = {"left": (1 if narrow else 10) + 2 * max(map(len, names)), "right": 15, "top": 5, "bottom": 5}
    return {**_chart(description, 0, [spec]), "padding": padding}


def _labels_of(rows: Sequence[Mapping[str, Any]], *, narrow: bool = False) -> list[str]:
    """Axis labels of classes or groups: shortened names with numbers of samples; all are distinct."""
    names: list[str] = []
    for row in rows:
        name = _short_name(row["name"], _NARROW_NAME if narrow else _LONGEST)
        text = name if narrow else f"{name}  (n = {row['n']:,})"
        names.append(text if text not in names else f"{text} {len(names) + 1}")
    return names


def _short_name(text: str, longest: int) -> str:
    """A name from the data without control characters, because one in a picture ends the whole process."""
    return short_name(xml_text(text), longest)


def _ends(group: Mapping[str, Any], z: float) -> Spec:
    """The ends of an error bar; the point itself if the error is not known."""
    error = z * (group["se"] or 0.0)
    return {"low": 100 * group["gap"] - error, "high": 100 * group["gap"] + error}


def risk_coverage(results: Mapping[str, Any], after: str) -> Spec | None:
    """The error of the most confident answers against their share of all samples; None if it is not known."""
    curves_by_time = results["risk_coverage"]
    if curves_by_time is None or not curves_by_time["one"]:
        return None
    values = [
        {"coverage": coverage, "error": error, "when": when}
        for key, when in (("before", "before"), *([("one", after)] if after else []))
        for coverage, error in curves_by_time[key]
    ]
    axis = {"title": "coverage: share of samples answered", "format": "%"}
    place = {
        "x": _number("coverage", scale={"domain": [0, 1]}, axis=axis),
        "y": _number("error", axis={"title": "share of wrong answers", "format": "~%", "tickCount": 5}),
    }
    lines = {
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 2.5},
        "encoding": {
            **place,
            "color": _name("when", {"before": COLORS["before"], after: COLORS["after"]}),
            "strokeDash": _name("when", {"before": [5, 4], after: [1, 0]}),
        },
    }
    layers = [lines]
    if (threshold := results["threshold"]) is not None and threshold["confidence"] is not None:
        point = {"type": "point", "filled": True, "size": 90, "color": COLORS["after"], "opacity": 1}
        at = {"coverage": threshold["coverage"], "error": threshold["risk"]}
        layers.append({"data": {"values": [at]}, "mark": point, "encoding": place})
    spec = {"width": WIDTH, "height": 200, "layer": layers}
    return _chart("Error of the most confident answers against their share of all samples.", 0, [spec])


def curves(results: Mapping[str, Any]) -> Spec:
    """Mean confidence (with the accuracy as its target), ECE and NLL, each against T, with the current T marked."""
    accuracy = results["data"]["accuracy"]
    marks = [
        {"temperature": place["temperature"], "name": SHORT_TITLES[name]}
        for place in results["slider"]["places"]
        for name in place["names"]
        if name in ("ts", "ec")
    ]
    target = {
        "data": {"values": [{"accuracy": accuracy}]},
        "mark": {"type": "rule", "color": _INK, "strokeDash": [5, 4], "strokeWidth": 1.5},
        "encoding": {"y": _number("accuracy")},
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
        slider_place(results),
        panels,
    )


def _panel(field: str, title: str, color: str, marks: list[Spec], *, percent: bool, more: list[Spec] | None = None) -> Spec:
    x = _number("temperature", scale={"type": "log", "nice": False})
    axis = {"title": title, "tickCount": 4, **({"format": "%"} if percent else {})}
    y = _number(field, scale={"zero": field == "ece"}, axis=axis)
    line = {
        "data": {"name": "curve"},
        "mark": {"type": "line", "color": color, "strokeWidth": 2.5},
        "encoding": {"x": {**x, "axis": {"title": None, "values": _TICKS, "format": "~g"}}, "y": y},
    }
    chosen = {
        "data": {"values": marks},
        "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [2, 2]},
        "encoding": {"x": x, "color": _name("name", {"EC": COLORS["ec"], "TS": COLORS["ts"]})},
    }
    current = {"data": {"name": "curve"}, "transform": [{"filter": "datum.place === place"}], "encoding": {"x": x}}
    bar = {"type": "rule", "color": COLORS["after"], "strokeWidth": 2, "opacity": 0.8}
    point = {"type": "point", "filled": True, "shape": "diamond", "size": 110, "color": COLORS["after"], "opacity": 1}
    return {
        "width": WIDTH,
        "height": _SMALL,
        "layer": [
            line,
            *(more or []),
            chosen,
            {**current, "mark": bar},
            {**current, "mark": point, "encoding": {"x": x, "y": y}},
        ],
    }


def _number(field: str, **more: Any) -> Spec:
    """The encoding of a number, such as a position."""
    return {"field": field, "type": "quantitative", **more}


def _name(field: str, shown: Mapping[str, Any]) -> Spec:
    """The encoding of a name, such as a colour, without a legend; ``shown`` maps each name to its value."""
    return {"field": field, "type": "nominal", "scale": {"domain": [*shown], "range": [*shown.values()]}, "legend": None}


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
