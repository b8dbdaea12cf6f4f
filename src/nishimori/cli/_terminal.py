"""What the command shows: results on standard output, everything else on standard error.

Exit codes: 0 done, 1 an error that one line explains, 2 wrong usage, 3 kept for checks that say no.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from math import isfinite
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from nishimori._moments import watched_by
from nishimori.errors import NishimoriError

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]

_HEADERS = {
    "temperature": "T",
    "error": "error",
    "confidence": "confidence",
    "ece": "ECE",
    "brier": "Brier",
    "nll": "NLL",
}
_PERCENT = ("error", "confidence", "ece")


def _err() -> Console:
    # Made anew each time, so that whatever stands for standard error now is used.
    return Console(stderr=True, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """A line about what happened."""
    _err().print(text, markup=False)


def print_text(text: str) -> None:
    """A line of the result."""
    Console(highlight=False, soft_wrap=True).print(text, markup=False)


def print_json(content: dict[str, Any]) -> None:
    """The result for machines: one line. What is not finite, such as the loss at a masked label, is null."""
    sys.stdout.write(json.dumps(_finite(content), allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def print_table(rows: dict[str, dict[str, float]], title: str | None = None) -> None:
    """The result for people: one row for each temperature."""
    table = Table(title=title, title_justify="left", title_style="")
    table.add_column("")
    for header in _HEADERS.values():
        table.add_column(header, justify="right")
    for name, values in rows.items():
        cells = (f"{100 * values[key]:.2f} %" if key in _PERCENT else f"{values[key]:.4f}" for key in _HEADERS)
        table.add_row(name, *cells)
    Console(highlight=False).print(table)


_STYLES = {"agrees": "green", "explained": "yellow", "differs": "red"}


def print_rows(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """Any table: a column for each key that has a value somewhere; numbers to six digits."""
    table = Table(title=title, title_justify="left", title_style="bold")
    shown = [name for name in max(rows, key=len) if any(row.get(name) is not None for row in rows)]
    for name in shown:
        numeric = all(isinstance(row.get(name), int | float | None) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in shown))
    # A file or a pipe has no width to keep to.
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = escape(f"{value:.6g}" if isinstance(value, float) else str(value))
    return f"[{_STYLES[text]}]{text}[/]" if text in _STYLES else text


@contextmanager
def steps(*, lines: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that names each step of a long piece of work and guesses what is left; only on a terminal, and gone when done.

    Elsewhere nothing is shown or, with ``lines``, a line whenever there is something new to say.
    """
    console = _err()
    if not console.is_terminal:
        last = ""

        def say(what: str, done: int, total: int) -> None:
            nonlocal last
            if lines and what != last:
                note(f"{done}/{total} {what}")
            last = what

        yield say
        return
    fields = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*fields, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """A bar that fills with each pass over the data; only on a terminal, and gone when done."""
    console = _err()
    if not console.is_terminal:
        yield lambda _: None
        return
    fields = (TextColumn(what), BarColumn(), TextColumn("pass {task.fields[n]}"), TimeElapsedColumn())
    bar = Progress(*fields, console=console, transient=True)
    with bar:
        task = bar.add_task(what, total=1.0, n=1)
        passes = 1

        def report(fraction: float) -> None:
            nonlocal passes
            bar.update(task, completed=min(fraction, 0.999), n=passes)  # a bar that is full once stops its clock
            passes += fraction >= 1

        with watched_by(report):
            yield report


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show warnings and foreseen errors as one line each; the latter end the program with code 1."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no α gets a question mark
    try:
        yield
    except (NishimoriError, OSError, ModuleNotFoundError) as error:
        _err().print(f"[bold red]error:[/] {escape(' '.join(str(error).split()))}")
        sys.exit(1)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _err().print(f"[bold yellow]warning:[/] {escape(str(message))}")
