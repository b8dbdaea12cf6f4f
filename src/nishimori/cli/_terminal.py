"""What the command shows: results on standard output, everything else on standard error.

Exit codes: 0 done, 1 an error that one line explains, 2 wrong usage, 3 kept for checks that say no.
"""

import json
import re
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
from rich.table import Table

from nishimori._scorecard import Scorecard
from nishimori.errors import NishimoriError

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace existing files.")]

# Errors of the library name Python arguments; in the shell these options stand for them.
_OPTIONS = {
    "`overwrite=True`": "--force",
    "`input='logits'`": "--input logits",
    "`input='probabilities'`": "--input probabilities",
    "`input`": "--input",
    "`classes=[...]`": "--classes",
    "`classes`": "--classes",
    "`top_n`": "--top-n",
    "`n_bins`": "--n-bins",
    "`strategy`": "--strategy",
    "ExpectationConsistency": "--method ec",
    "`folder`": "-o",
    "`path`": "-o",
    "`data=`": "--data",
    "`train=True`": "--train",
    "`model`": "--model",
    "`fraction`": "--fraction",
    "`epochs`": "--epochs",
}

HEADERS = {
    "temperature": "T",
    "error": "error",
    "confidence": "confidence",
    "ece": "ECE",
    "brier": "Brier",
    "nll": "NLL",
}
_PERCENT = ("error", "confidence", "ece")


def _err() -> Console:
    # Made again each time, so that whatever is standard error now is used.
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


def as_row(card: Scorecard) -> dict[str, float | None]:
    """A row of the table."""
    return {name: getattr(card, name) for name in HEADERS}


def print_table(rows: Mapping[str, Mapping[str, float | None]], title: str | None = None) -> None:
    """The result for people: one row for each temperature."""
    table = Table(title=title, title_justify="left", title_style="")
    table.add_column("")
    for header in HEADERS.values():
        table.add_column(header, justify="right")
    for name, values in rows.items():
        table.add_row(name, *(_number(values[key], percent=key in _PERCENT) for key in HEADERS))
    Console(highlight=False).print(table)


def _number(value: float | None, *, percent: bool) -> str:
    if value is None:
        return ""
    return f"{100 * value:.2f} %" if percent else f"{value:.4f}"


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
def one_line_errors(options: Callable[[], set[str]]) -> Iterator[None]:
    """Show warnings and foreseen errors as one line each; the latter end the program with code 1."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no α gets a question mark
    try:
        yield
    except (NishimoriError, OSError, ModuleNotFoundError) as error:
        _err().print(f"[bold red]error:[/] {escape(_with_options(' '.join(str(error).split()), options()))}")
        sys.exit(1)


def _with_options(message: str, known: set[str]) -> str:
    """A message of the library, with the command's options in place of the arguments that it names."""
    if "--classes" in known:  # "Pass `classes=['a', 'b']`" with the labels themselves
        message = re.sub(r"`classes=\[('.*?')\]`", lambda found: "--classes " + re.sub("[' ]", "", found[1]), message)
    for argument, option in _OPTIONS.items():
        if option.split()[0] in known:
            message = message.replace(argument, option)
    return message


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _err().print(f"[bold yellow]warning:[/] {escape(str(message))}")
