"""The JavaScript of Vega as one text, which takes vl-convert one to three seconds to make."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from nishimori._optional import require

VEGA_LITE = "6.1"
"""Which Vega-Lite draws the charts: the newest one that vl-convert 1.8 has."""

_PROGRAM = f"import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle(vl_version={VEGA_LITE!r}).encode())"

_running: list["subprocess.Popen[bytes]"] = []


@contextmanager
def made_meanwhile() -> Iterator[None]:
    """Let another process make the text while the block runs, since vl-convert does not let other threads work."""
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
    _running.append(process)
    try:
        yield
    finally:
        _running.remove(process)
        process.kill()  # which does nothing to one that has ended
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@cache
def javascript() -> str:
    """The text: what the other process has made, if there is one, else made here."""
    for process in _running:
        made, _ = process.communicate()
        if process.returncode == 0:
            return made.decode()
    return str(require("vl_convert", extra="report", for_="The report").javascript_bundle(vl_version=VEGA_LITE))
