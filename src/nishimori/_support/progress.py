"""How far a long piece of work has come: one callable inside, one bar outside.

Inside the library, work that can take long is given a `Report` and calls it with what is being done, how much of it is done,
and how much there is (None if that is not known). If less is done than before, another pass has begun. Public functions have a
keyword ``progress`` instead: None shows a bar if standard error is a terminal, True also writes a line per step where it is
not, False shows nothing.
"""

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import StringIO
from typing import TYPE_CHECKING

from nishimori._support.escape import printable
from nishimori.errors import InputError

if TYPE_CHECKING:
    from nishimori._support.progress_bar import Bar

Report = Callable[[str, int, int | None], None]


_hidden: ContextVar[bool] = ContextVar("_hidden", default=False)

# The bar of a block around this one, which also shows what is done inside it.
_bar: "ContextVar[Bar | None]" = ContextVar("_bar", default=None)


@contextmanager
def hide_progress() -> Iterator[None]:
    """Draw no bar while the block runs, whatever ``progress`` is."""
    before = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(before)


def silent(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""


@contextmanager
def show_progress(progress: bool | None) -> Iterator[Report]:
    """A report that draws a bar, which disappears when the work is done or fails; a block inside another one has its bar."""
    if progress is not None and not isinstance(progress, bool):
        raise InputError("progress", "be None, True or False", got=repr(progress))
    if progress is False or _hidden.get():
        yield silent
        return
    if (outer := _bar.get()) is not None:
        yield outer
        return
    from rich.console import Console  # noqa: PLC0415 - 50 ms that silent work need not spend

    console = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        yield _lines() if progress else silent
        return
    from nishimori._support.progress_bar import bar  # noqa: PLC0415

    with bar(console) as drawn:
        before = _bar.set(drawn)
        try:
            yield drawn
        finally:
            _bar.reset(before)


def begin_step(what: str) -> None:
    """Name on the bar, if one is drawn, what is done from now on."""
    if (drawn := _bar.get()) is not None:
        drawn.begin(what)


def _lines() -> Report:
    """A line whenever there is something new to report, for logs."""
    last = ""

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last
        if what != last:
            print_line(f"{done}/{'?' if total is None else total} {what}")
        last = what

    return report


def print_line(text: str, *, label: str = "", style: str = "") -> None:
    """Print a line on standard error; work goes on if it cannot be written, as if the reader has ended or the disk is full."""
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if sys.stderr is None:  # closed
        return
    line = StringIO()  # printing directly, rich would end the program on a closed pipe
    console = Console(file=line, force_terminal=sys.stderr.isatty() or None, soft_wrap=True)
    shown = f"{label} {printable(text)}" if label else printable(text)
    if sys.stderr.isatty():  # which would break lines inside words
        shown = textwrap.fill(shown, console.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    console.print(Text.assemble((shown[: len(label)], style), shown[len(label) :]))
    with suppress(OSError):
        sys.stderr.write(line.getvalue())
        sys.stderr.flush()
