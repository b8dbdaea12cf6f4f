"""The bar on a terminal: one pass of the work at a time, with the time that is left of it.

rich estimates the time that is left from the last 30 seconds, and only when something new is reported. Pieces of work may take
minutes each, so here it is estimated from the whole pass, counted down between two reports, and not shown once it is overdue.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from nishimori._support.escape import printable

if TYPE_CHECKING:
    from nishimori._support.progress import Report

# Narrower terminals have no room for a bar and times. On others the bar leaves room for the text, as far as it can.
_WITH_TIMES = 60
_NARROWEST, _WIDEST = 4, 20
_TIMES = len("0:00:00 0:00:00 left")


@dataclass
class Pace:
    """How fast one pass advances; times are in seconds.

    Attributes
    ----------
    total : int or None
        How much there is to do; None if that is not known.
    start, first : float, int
        When the pass began, and how much was done then, as by an earlier run that is continued.
    last, done, step : float, int, int
        When something was last reported, how much was done then, and how much of that was new.
    """

    total: int | None
    start: float
    first: int
    last: float
    done: int
    step: int = 0

    @classmethod
    def begin(cls, done: int, total: int | None, now: float) -> "Pace":
        """The pace of a pass of which nothing is known yet."""
        return cls(total, now, done, now, done)

    def continues(self, done: int, total: int | None) -> bool:
        """Whether a report is about the same pass: no less is done than before, of as much."""
        return done >= self.done and total == self.total

    def advance(self, done: int, now: float) -> None:
        """Note how much is done."""
        if done > self.done:
            self.last, self.step, self.done = now, done - self.done, done

    def remaining(self, now: float) -> float | None:
        """How long the rest of the pass will take at the pace so far, or None if nobody can tell."""
        if self.total is None or not self.first < self.done < self.total:
            return None
        expected = (self.last - self.start) * (self.total - self.done) / (self.done - self.first) - (now - self.last)
        # What is being done takes at least until now, so that the pace is at most this.
        after_it = self.total - self.done - self.step
        slowest = (now - self.start) * after_it / (self.done - self.first + self.step)
        if expected >= slowest:
            return max(expected, 0.0)
        return slowest if after_it > 0 else None


class _Times(ProgressColumn):
    """How long the pass has been running, and how much time is left of it, where that is known."""

    pace: Pace | None = None

    def render(self, task: Task) -> Text:  # noqa: ARG002
        if self.pace is None:
            return Text()
        now = monotonic()
        left = self.pace.remaining(now)
        elapsed = Text(str(timedelta(seconds=int(now - self.pace.start))), style="progress.elapsed")
        return elapsed if left is None else elapsed.append(f" {timedelta(seconds=ceil(left))} left", style="progress.remaining")


@contextmanager
def bar(console: Console) -> "Iterator[Report]":
    """A report that draws a bar, which starts anew with each pass and disappears at the end."""
    times, drawn = _Times(), BarColumn(_WIDEST)
    # The text is broken into lines if the terminal is narrow; the numbers never are.
    what_is_done = TextColumn("{task.description}", markup=False, table_column=Column())
    fields: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), what_is_done)
    if console.width >= _WITH_TIMES:
        fields = (drawn, MofNCompleteColumn(), times, what_is_done)
    with Progress(*fields, console=console, transient=True, get_time=monotonic) as progress:
        task = progress.add_task("", total=None, visible=False)  # until there is something to say

        def report(what: str, done: int, total: int | None) -> None:
            now, pace, text = monotonic(), times.pace, printable(what)
            others = 2 * len(str(total)) + len("/") + _TIMES + cell_len(text) + len(fields)
            room = min(_WIDEST, max(_NARROWEST, console.width - others))
            if pace is None or not pace.continues(done, total):
                times.pace, drawn.bar_width = Pace.begin(done, total, now), room
                progress.reset(task, total=total, completed=done, description=text, visible=True)
                return
            pace.advance(done, now)
            drawn.bar_width = min(drawn.bar_width or _WIDEST, room)  # a bar that grows again would be restless
            progress.update(task, completed=done, description=text)

        yield report
