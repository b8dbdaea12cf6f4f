"""Progress of long work: the library calls one function, and the user sees one bar.

Inside the library, work that can take long is given a `Report` and calls it with what is being done, how much of it is done,
and how much there is (None if that is not known). If less is done than before, another pass has begun. Public functions have a
keyword ``progress`` instead: None shows a bar if standard error is a terminal, True also writes a line per step where it is
not, False shows nothing.

The bar is one line for all the work, with the numbers of a pass that takes long and the time that is left of it. Passes over
small data follow each other faster than one can read, so after a brief pass the next one shows its numbers only after its first
second.
"""

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING

from nishimori._support.escape import printable
from nishimori.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Report = Callable[[str, int, int | None], None]

# Seconds. Of passes that take less nobody could read the numbers.
_BRIEF = 1.0

# Narrower terminals have no room for a bar and times.
_WITH_TIMES = 60
_BAR = 10

# Seconds of reports from which the time that is left is estimated: pieces of work may take minutes each.
_PERIOD = 3600.0


# The report of a block around this one, which also shows what is done inside it.
_outer: ContextVar[Report | None] = ContextVar("_outer", default=None)


@contextmanager
def hide_progress() -> Iterator[None]:
    """Draw no bar while the block runs, whatever ``progress`` is."""
    with _shown_inside(silent):
        yield


@contextmanager
def _shown_inside(report: Report) -> Iterator[None]:
    before = _outer.set(report)
    try:
        yield
    finally:
        _outer.reset(before)


def silent(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""


@contextmanager
def show_progress(progress: bool | None) -> Iterator[Report]:
    """A report that draws a bar, which disappears when the work is done or fails; inner blocks use the bar of the outer one."""
    if progress is not None and not isinstance(progress, bool):
        raise InputError("progress", "be None, True or False", got=repr(progress))
    if progress is False:
        yield silent
        return
    if (outer := _outer.get()) is not None:
        yield outer
        return
    from rich.console import Console  # noqa: PLC0415 - 50 ms that silent work need not spend

    console = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        yield _lines() if progress else silent
        return
    with _progress_on(console) as shown, _shown_inside(drawn := _Bar(shown)):
        yield drawn


def begin_step(what: str) -> None:
    """Name the next step on the bar, if one is drawn."""
    if isinstance(drawn := _outer.get(), _Bar):
        drawn.begin(what)


class _Bar:
    """The current step; calling it reports progress."""

    def __init__(self, progress: "Progress") -> None:
        self._progress, self._id = progress, progress.add_task("", total=None, visible=False, numbers="")
        (self._task,) = progress.tasks
        self._total: int | None = None
        self._step, self._begun, self._was_brief = "", monotonic(), False

    def begin(self, step: str) -> None:
        """Name the next step, in place of its passes."""
        self._step, self._task.total = printable(step), None
        self._progress.update(self._id, description=self._step, numbers="", visible=True)

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Report the progress of a pass."""
        now, text = monotonic(), printable(what)
        if done < self._task.completed or total != self._total:  # another pass
            self._was_brief = self._task.completed > 0 and now - self._begun < _BRIEF
            self._begun, self._total, self._task.completed = now, total, done
        is_long = done != total and (now - self._begun >= _BRIEF or not self._was_brief)
        if not is_long:
            self._task.total = None  # the bar only moves, and no time is left of it
        self._progress.update(
            self._id,
            total=total if is_long else None,
            completed=done,
            description=self._step or (text if is_long else text.partition(",")[0]),
            numbers=f"{done}/{'?' if total is None else total}" if is_long else "",
            visible=True,
        )


def _progress_on(console: "Console") -> "Progress":
    """The object that draws the bar, which disappears at the end."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    numbers = TextColumn("{task.fields[numbers]}", style="progress.download")
    # The text is broken into lines if the terminal is narrow; the numbers never are.
    text = TextColumn("{task.description}", markup=False, table_column=Column())
    wide = (BarColumn(_BAR), numbers, TimeElapsedColumn(), TimeRemainingColumn(), text)
    columns = wide if console.width >= _WITH_TIMES else (numbers, text)
    return Progress(*columns, console=console, transient=True, get_time=monotonic, speed_estimate_period=_PERIOD)


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
    """Print a line on standard error; work continues if this fails, for example if the reader has ended."""
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
