"""The bar on a terminal: one line for all the work, with the numbers of a pass that takes long and the time that is left of it.

Passes over small data follow each other faster than one can read, so a pass shows its numbers only after its first second.
rich estimates the time that is left from the last 30 seconds, and only when something new is reported. Pieces of work may take
minutes each, so here it is estimated from the whole pass, counted down between two reports, and not shown once it is overdue.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from time import monotonic

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from nishimori._support.escape import printable

# Seconds. Of passes that take less nobody could read the numbers.
_BRIEF = 1.0

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
        """How long the rest of the pass will take at the pace so far, or None if that is not known."""
        if self.total is None or not self.first < self.done < self.total:
            return None
        expected = (self.last - self.start) * (self.total - self.done) / (self.done - self.first) - (now - self.last)
        # What is being done takes at least until now, so that the pace is at most this.
        after_it = self.total - self.done - self.step
        slowest = (now - self.start) * after_it / (self.done - self.first + self.step)
        if expected >= slowest:
            return max(expected, 0.0)
        return slowest if after_it > 0 else None


class Bar:
    """What is done at the moment, for the columns of the line; calling it is a report."""

    def __init__(self, progress: Progress, width: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False)  # until there is something to say
        self._width, self._bar_width, self._start = width, _WIDEST, monotonic()
        self._step = self._what = ""
        self._pace: Pace | None = None

    def begin(self, step: str) -> None:
        """Name what is done from now on, in place of its passes."""
        self._step, self._pace = printable(step), None
        self._progress.reset(self._task, total=None, visible=True)

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Report how far a pass has come."""
        now, self._what = monotonic(), printable(what)
        others = 2 * len(str(total)) + len("/") + _TIMES + cell_len(self._step or self._what) + 4
        # A bar that grows again would be restless.
        self._bar_width = min(self._bar_width, max(_NARROWEST, self._width - others))
        if self._pace is None or not self._pace.continues(done, total):
            self._pace = Pace.begin(done, total, now)
            self._progress.reset(self._task, total=total, completed=done, visible=True)
            return
        self._pace.advance(done, now)
        self._progress.update(self._task, completed=done)

    @property
    def _long_pass(self) -> Pace | None:
        """The pass that is being made, if it takes long enough to read its numbers."""
        pace = self._pace
        return None if pace is None or pace.done == pace.total or monotonic() - pace.start < _BRIEF else pace

    def text(self) -> Text:
        """What is done, without the number of a pass that is over soon."""
        return Text(self._step or (self._what if self._long_pass else self._what.partition(",")[0]))

    def numbers(self, task: Task) -> Text:
        """How much of a long pass is done."""
        return Text() if self._long_pass is None else MofNCompleteColumn().render(task)

    def drawn(self, task: Task) -> ProgressBar:
        """A bar that fills in a long pass, and only moves otherwise."""
        progress_bar = BarColumn(self._bar_width).render(task)
        progress_bar.total = None if self._long_pass is None else progress_bar.total
        return progress_bar

    def times(self) -> Text:
        """How long the work has taken or, in a long pass, that pass, with the time that is left of it if that is known."""
        now, pace = monotonic(), self._long_pass
        left = None if pace is None else pace.remaining(now)
        begun = self._start if pace is None else pace.start
        elapsed = Text(str(timedelta(seconds=int(now - begun))), style="progress.elapsed")
        return elapsed if left is None else elapsed.append(f" {timedelta(seconds=ceil(left))} left", style="progress.remaining")


class _Field(ProgressColumn):
    """A column that a function of the task draws."""

    def __init__(self, draw: Callable[[Task], RenderableType], *, can_wrap: bool = False) -> None:
        super().__init__(Column(no_wrap=not can_wrap))
        self._draw = draw

    def render(self, task: Task) -> RenderableType:
        return self._draw(task)


@contextmanager
def bar(console: Console) -> Iterator[Bar]:
    """A report that draws a bar, which disappears at the end."""
    with Progress(console=console, transient=True, get_time=monotonic) as progress:
        line = Bar(progress, console.width)
        numbers = _Field(line.numbers)
        # The text is broken into lines if the terminal is narrow; the numbers never are.
        text = _Field(lambda _: line.text(), can_wrap=True)
        wide = console.width >= _WITH_TIMES
        progress.columns = (_Field(line.drawn), numbers, _Field(lambda _: line.times()), text) if wide else (numbers, text)
        yield line
