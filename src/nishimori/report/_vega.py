"""Vega, by vl-convert: its JavaScript as one text, and charts as pictures. To start it takes one to three seconds."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

from nishimori._optional import require

VEGA_LITE = "6.1"
"""Which Vega-Lite draws the charts: the newest one that vl-convert 1.8 has."""

# A first picture starts Vega, before the charts are known.
_PROGRAM = f"""
import json, sys, vl_convert
vl_convert.vegalite_to_svg({{"mark": "point"}}, vl_version={VEGA_LITE!r})
javascript = vl_convert.javascript_bundle(vl_version={VEGA_LITE!r})
pictures = [vl_convert.vegalite_to_svg(each, vl_version={VEGA_LITE!r}) for each in json.load(sys.stdin.buffer)]
sys.stdout.buffer.write(json.dumps([javascript, pictures]).encode())
"""

# A thread sees only what it started itself, so that two threads never write to one process.
_running: ContextVar["subprocess.Popen[bytes] | None"] = ContextVar("_running", default=None)


class Drawn(NamedTuple):
    """The JavaScript of Vega, and a picture of each chart as SVG."""

    javascript: str
    pictures: list[str]


@contextmanager
def started_meanwhile() -> Iterator[None]:
    """Let another process start Vega while the block runs, since vl-convert does not let other threads work."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)  # noqa: S603
    before = _running.set(process)
    try:
        yield
    finally:
        _running.reset(before)
        process.kill()  # which does nothing to one that has ended
        process.communicate()


def drawn(charts: Sequence[dict[str, Any]]) -> Drawn:
    """What a page needs of Vega: by the other process, if this thread has started one, else made here."""
    process = _running.get()
    if process is not None:
        _running.set(None)  # one process draws the charts of one page
        made, _ = process.communicate(json.dumps(charts).encode())
        if process.returncode == 0:
            return Drawn(*json.loads(made))
    vl_convert = require("vl_convert", extra="report", for_="The report")
    pictures = [str(vl_convert.vegalite_to_svg(each, vl_version=VEGA_LITE)) for each in charts]
    return Drawn(_javascript(), pictures)


@cache
def _javascript() -> str:
    vl_convert = require("vl_convert", extra="report", for_="The report")
    return str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))
