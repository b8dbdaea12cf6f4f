"""Vega, by vl-convert: its JavaScript as one text, and charts as pictures. To start it takes one to three seconds."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

from nishimori._support.optional import require

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

_NO_MEMORY = (
    "There is not enough memory to draw the charts of the page: the JavaScript engine that draws them reserves tens of "
    "gigabytes of address space, of which it uses few. Raise the limit of memory (ulimit -v), or write the report without "
    "charts, to a file that ends in .md or .json."
)

# A thread sees only what it started itself, so that two threads never write to one process.
_running: ContextVar["subprocess.Popen[bytes] | None"] = ContextVar("_running", default=None)


class Drawn(NamedTuple):
    """The JavaScript of Vega, and a picture of each chart as SVG."""

    javascript: str
    pictures: list[str]


@contextmanager
def start_meanwhile() -> Iterator[None]:
    """Let another process start Vega while the block runs, since vl-convert does not let other threads work."""
    pipe, program = subprocess.PIPE, [sys.executable, "-c", _PROGRAM]
    process = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)  # noqa: S603
    before = _running.set(process)
    try:
        yield
    finally:
        _running.reset(before)
        process.kill()  # which does nothing to one that has ended
        process.communicate()


def draw(charts: Sequence[dict[str, Any]]) -> Drawn:
    """What a page needs of Vega: made by another process, if this thread has started one or memory is limited, else here.

    Without enough memory the JavaScript engine ends its process and prints a trace, which must not be the caller's process.
    """
    process, is_limited = _running.get(), _is_limited()
    if process is None and is_limited:
        with start_meanwhile():
            return draw(charts)
    if process is not None:
        _running.set(None)  # one process draws the charts of one page
        output, _ = process.communicate(json.dumps(charts).encode())
        if process.returncode == 0:
            return Drawn(*json.loads(output))
        if is_limited or process.returncode < 0:
            raise MemoryError(_NO_MEMORY)
    vl_convert = require("vl_convert", extra="report", for_="The report")
    pictures = [str(vl_convert.vegalite_to_svg(chart, vl_version=VEGA_LITE)) for chart in charts]
    return Drawn(_javascript(), pictures)


def _is_limited() -> bool:
    """Whether the memory of this process is limited, as by ``ulimit -v``."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ModuleNotFoundError:
        return False
    limits = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


@cache
def _javascript() -> str:
    vl_convert = require("vl_convert", extra="report", for_="The report")
    return str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))
