"""How far a long piece of work has come: one callable inside, one bar outside.

Inside the library, work that can take long is given a `Report` and calls it with what is being done, how much of it is done,
and how much there is (None if that is not known). Public functions have a keyword ``progress`` instead: None shows a bar if
standard error is a terminal, True also writes a line per step where it is not, False shows nothing.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nishimori.errors import InputError

Report = Callable[[str, int, int | None], None]


def silent(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""


@contextmanager
def shown(progress: bool | None) -> Iterator[Report]:
    """A report that draws a bar, which disappears when the work is done or fails."""
    if progress is not None and not isinstance(progress, bool):
        raise InputError(f"`progress` must be None, True or False, got {progress!r}.")
    if progress is False:
        yield silent
        return
    from rich.console import Console  # noqa: PLC0415 - 50 ms that silent work need not spend

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield _lines(console) if progress else silent
        return
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    fields = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*fields, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _lines(console: Any) -> Report:
    """A line whenever there is something new to say, for logs."""
    last = ""

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last
        if what != last:
            console.print(f"{done}/{'?' if total is None else total} {what}", markup=False)
        last = what

    return report


@contextmanager
def shown_or_told(progress: bool | None, report: Report | None) -> Iterator[Report]:
    """`shown`, for functions that used to have a keyword ``report``."""
    if report is None:
        with shown(progress) as drawn:
            yield drawn
        return
    warnings.warn(
        "`report` is deprecated and will be removed in 0.3. Pass `progress=True` or `False`.", FutureWarning, stacklevel=4
    )
    yield report
