"""Warnings that name the line of the user's own code."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Notice = tuple[str, type[Warning]]
"""The message and the category of a notice."""

_collector: ContextVar[list[Notice] | None] = ContextVar("collector", default=None)


def notice(message: str, category: type[Warning]) -> None:
    """Warn at the line that called nishimori, directly or through scikit-learn; or hand the warning to `collect_notices`."""
    if (collector := _collector.get()) is not None:
        collector.append((message, category))
        return
    levels, frame = 1, sys._getframe()  # what `warnings` itself uses
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("nishimori", "sklearn"):
        levels, frame = levels + 1, frame.f_back
    warnings.warn(message, category, stacklevel=levels)


@contextmanager
def collect_notices() -> Iterator[list[Notice]]:
    """Collect all notices inside the block and do not show them: one warning can then describe many fits.

    Unlike `warnings.catch_warnings`, it changes nothing for other threads.
    """
    notices: list[Notice] = []
    token = _collector.set(notices)
    try:
        yield notices
    finally:
        _collector.reset(token)
