"""The bar on a terminal: one line for all the work, with the numbers of a pass that takes long and the time that is left of it.

Passes over small data follow each other faster than one can read, so after a brief pass the next one shows its numbers only
after its first second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from nishimori._support.escape import printable

# Seconds. Of passes that take less nobody could read the numbers.
_BRIEF = 1.0

# Narrower terminals have no room for a bar and times.
_WITH_TIMES = 60
_BAR = 10

# Seconds of reports from which the time that is left is estimated: pieces of work may take minutes each.
_PERIOD = 3600.0


class Bar:
    """What is done at the moment; calling it is a report."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._id = progress, progress.add_task("", total=None, visible=False, numbers="")
        (self._task,) = progress.tasks
        self._total: int | None = None
        self._step, self._begun, self._was_brief = "", monotonic(), False

    def begin(self, step: str) -> None:
        """Name what is done from now on, in place of its passes."""
        self._step, self._task.total = printable(step), None
        self._progress.update(self._id, description=self._step, numbers="", visible=True)

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Report how far a pass has come."""
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


@contextmanager
def bar(console: Console) -> Iterator[Bar]:
    """A report that draws a bar, which disappears at the end."""
    numbers = TextColumn("{task.fields[numbers]}", style="progress.download")
    # The text is broken into lines if the terminal is narrow; the numbers never are.
    text = TextColumn("{task.description}", markup=False, table_column=Column())
    wide = (BarColumn(_BAR), numbers, TimeElapsedColumn(), TimeRemainingColumn(), text)
    columns = wide if console.width >= _WITH_TIMES else (numbers, text)
    with Progress(*columns, console=console, transient=True, get_time=monotonic, speed_estimate_period=_PERIOD) as progress:
        yield Bar(progress)
