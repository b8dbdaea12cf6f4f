"""The dictionary as one self-contained HTML file, which is readable without JavaScript."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import nishimori.report._charts as charts
import nishimori.report._content as content
import nishimori.report._top as top
from nishimori._support.escape import template_text
from nishimori._support.optional import require
from nishimori.report._content import FILTERS

VEGA_LITE = "6.1"
"""Which Vega-Lite draws the charts: the newest one that vl-convert 1.8 has."""

# Bytes that the JavaScript engine reserves, and bytes of data that it needs; with less it ends the process with a trace.
_LEAST = {"RLIMIT_AS": 72 * 2**30, "RLIMIT_DATA": 2 * 2**30}  # measured: 68 GB of addresses and 1.2 GB are enough

_NO_MEMORY = (
    "There is not enough memory to draw the charts of the page: their JavaScript engine reserves tens of "
    "gigabytes of address space, of which it uses few. Raise the memory limit (ulimit -v), or write the report without "
    "charts, to a file that ends in .md or .json."
)


def page(results: Mapping[str, Any]) -> str:
    """The whole file."""
    markup = require("markupsafe", extra="report", for_="The report").Markup
    specs = {"reliability": charts.reliability(results), "curves": charts.curves(results)}
    (vega, pictures), script = _draw_charts(results, specs), _asset("page.js")
    return str(
        _template().render(
            results=results,
            content=content,
            top=top,
            charts=charts,
            pictures={name: markup(picture) for name, picture in pictures.items()},
            scroll=lambda label: markup(' tabindex="0" role="region" aria-label="{}"').format(label),
            style=markup(_asset("page.css")),
            script=markup(script),
            vega=markup(vega),
            payload=markup(_inert(_payload(results, specs))),
            policy=_policy(vega, script),
        )
    )


@cache
def _template() -> Any:
    """The page to fill in; names are escaped as they are put in."""
    jinja2 = require("jinja2", extra="report", for_="The report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, finalize=_without_controls)
    environment.filters |= FILTERS
    return environment.from_string(_asset("page.html"))


def _without_controls(value: Any) -> Any:
    """A text as the page shows it, escaped; the report's own markup (which has its own class) stays as it is."""
    return template_text(value) if type(value) is str else value


@cache
def _asset(name: str) -> str:
    return files("nishimori.report").joinpath(name).read_text(encoding="utf-8")


def _draw_charts(results: Mapping[str, Any], specs: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The JavaScript of Vega, and the initial charts, which are also shown without JavaScript.

    A chart is an empty text if there is nothing to draw.
    """
    rows = charts.datasets(results, sorted({results["slider"]["start"], content.as_is(results)}))
    after, level = content.after_name(results), results["level"]
    others = {"risk_coverage": charts.risk_coverage(results, after)}
    for key in ("classes", "groups"):
        if (table := results[key]) is not None:
            others[key] = charts.gaps(table, after, level)
            others[f"narrow_{key}"] = charts.gaps(table, after, level, narrow=True)
    drawn_specs = dict(specs) | {name: spec for name, spec in others.items() if spec is not None}
    javascript, drawn = draw([{**spec, "datasets": rows} for spec in drawn_specs.values()])
    pictures = dict.fromkeys(others, "")
    for (name, spec), svg in zip(drawn_specs.items(), drawn, strict=True):
        label = json.dumps(spec["description"])  # a sentence of ours, without anything to escape but its quotes
        pictures[name] = svg.replace("<svg ", f"<svg role='img' aria-label={label} ", 1)
    return javascript, pictures


def draw(specs: Sequence[dict[str, Any]]) -> tuple[str, list[str]]:
    """The JavaScript of Vega, and a picture of each chart as SVG; starting Vega takes a second."""
    vl_convert = require("vl_convert", extra="report", for_="The report")
    _refuse_low_limit()
    return _javascript(), [str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)) for spec in specs]


def _refuse_low_limit() -> None:
    """Refuse to start the JavaScript engine if memory is limited (as by ``ulimit -v``) to less than it needs."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ModuleNotFoundError:
        return
    for name, least in _LEAST.items():
        limit, _ = resource.getrlimit(getattr(resource, name))
        if limit != resource.RLIM_INFINITY and limit < least:
            raise MemoryError(_NO_MEMORY)


@cache
def _javascript() -> str:
    return str(require("vl_convert", extra="report", for_="The report").javascript_bundle(vl_version=VEGA_LITE))


def _payload(results: Mapping[str, Any], specs: Mapping[str, Any]) -> dict[str, Any]:
    """The data for the script of the page."""
    return {
        "places": charts.shown_places(results),
        "start": results["slider"]["start"],
        "accuracy": results["data"]["accuracy"],
        "of_claims": results["data"]["of_claims"],
        "bins": charts.BIN_NAMES,
        "specs": specs,
        "scores": content.scores_of_slider(results),
    }


def _inert(payload: Any) -> str:
    """JSON that is safe inside HTML: names from the data may contain ``</script>``."""
    text = json.dumps(payload, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(*scripts: str) -> str:
    """The content security policy of the page: run only these scripts, and load nothing."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
