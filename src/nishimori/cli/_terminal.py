"""Print results on standard output, notes and warnings on standard error."""

import json
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import nishimori
from nishimori._support.escape import encodable, printable
from nishimori._support.formatting import decimals_of, join_names
from nishimori._support.json import to_plain
from nishimori._support.progress import hide_progress, print_line
from nishimori._support.tables import BREAKS, Tabular
from nishimori.errors import SameRowsWarning

if TYPE_CHECKING:  # the help needs no NumPy
    from nishimori._evaluation.metrics.metric import Metric
    from nishimori._evaluation.scorecard import Scorecard

# Characters of a message; the longest of ours, a list of twelve names, has about a thousand.
_LONGEST = 4000

# Of errors that are smaller still, as those of two calibrations that are nearly the same, nothing is left to see.
_MOST_DECIMALS = 7


def _width() -> float:
    """The width of the terminal; unlimited for a file or a pipe, because programs need whole lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else inf


_quiet: ContextVar[bool] = ContextVar("_quiet", default=False)


def note(text: str) -> None:
    """Print a line about what happened, unless --quiet was typed."""
    if not _quiet.get():
        print_line(text)


@contextmanager
def output_options(*, quiet: bool, fail_on_warning: bool) -> Iterator[None]:
    """Apply --quiet (neither notes nor progress) and --fail-on-warning (code 3 after a warning) to a command."""
    with ExitStack() as stack:
        if quiet:
            stack.callback(_quiet.reset, _quiet.set(True))
            stack.enter_context(hide_progress())
        warned = stack.enter_context(collect_warnings())
        yield
    if fail_on_warning and warned:
        sys.exit(3)


def note_columns(columns: Sequence[str] | None) -> None:
    """Print which columns hold scores, if there is one column per class."""
    if columns is not None:
        note(f"Scores are the {len(columns)} columns {join_names(columns)}")


def print_text(text: str) -> None:
    """Print a line of the result; where the terminal is narrower, what follows its first line is indented."""
    parts = re.split(f"({BREAKS.pattern})", _shown(text))  # every other one is where a line can be broken
    joined = "".join(part if place % 2 else part.replace(" ", "\N{NO-BREAK SPACE}") for place, part in enumerate(parts))
    lines = textwrap.wrap(joined, _width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)  # type: ignore[arg-type]
    print_lines("\n".join(lines).replace("\N{NO-BREAK SPACE}", " "))


def print_version() -> None:
    """Print the version and the kernel in use."""
    from nishimori._kernels import native  # noqa: PLC0415 - NumPy

    print_text(f"{nishimori.__version__} ({native.description()})")


def _shown(text: str) -> str:
    """Text in the characters of standard output, so that tables fit its width."""
    return encodable(printable(text), getattr(sys.stdout, "encoding", None))


def print_json(content: dict[str, Any]) -> None:
    """Print the result for machines."""
    with writing_results():
        sys.stdout.write(json_text(content) + "\n")


def print_result(
    result: Any, form: str, about: Mapping[str, Any], tables: Iterable[Tabular] = (), lines: Iterable[str] = ()
) -> None:
    """Print a result as "json" with the fields in ``about``, as "markdown" or "latex", or as tables and lines."""
    if form == "json":
        print_json(result.to_dict() | about)
    elif form != "text":
        print_lines(getattr(result, f"to_{form}")())
    else:
        for table in tables:
            print_tabular(table)
        for line in lines:
            print_text(line)


def json_text(content: dict[str, Any]) -> str:
    """One line of JSON. Numbers that are not finite, such as the loss at a masked label, are null."""
    return json.dumps(to_plain(content), allow_nan=False)


@contextmanager
def writing_results() -> Iterator[None]:
    """Report a failure to write results; `one_line_errors` ends the program if the reader has ended."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"The result cannot be written to standard output: {error.strerror}.") from None


def as_row(card: "Scorecard") -> dict[str, float | None]:
    """A row of the table, and the standard errors of its numbers."""
    shown = {name: estimate for name, estimate in card.estimates.items() if estimate.metric.in_tables}
    row: dict[str, float | None] = {"temperature": card.temperature}
    row |= {name: estimate.value for name, estimate in shown.items()}
    return row | {f"{name}_se": estimate.se for name, estimate in shown.items()}


def print_table(rows: Mapping[str, Mapping[str, float | None]], metrics: "Sequence[Metric] | None" = None) -> None:
    """Print the result for people: one row per temperature, and a row of standard errors below it, if any are known."""
    from nishimori._evaluation.metrics.table import default_metrics, in_tables  # noqa: PLC0415 - NumPy

    shown = in_tables(default_metrics() if metrics is None else metrics)
    shown = [metric for metric in shown if any(metric.label in row for row in rows.values())]
    percent = {metric.label for metric in shown if metric.in_percent}
    headers = {"temperature": "T"} | {metric.label: metric.shown for metric in shown}
    cells = []
    for name, row in rows.items():
        pairs = [_pair(row.get(key), row.get(f"{key}_se"), percent=key in percent) for key in headers]
        cells.append([name, *(value for value, _ in pairs)])
        if any(error for _, error in pairs):
            cells.append(["±", *(error for _, error in pairs)])
    print_tabular(Tabular(["", *headers.values()], cells))


def _pair(value: float | None, error: float | None, *, percent: bool) -> tuple[str, str]:
    """A number and its standard error, both to two digits of the error; default digits if the error is not known."""
    scale, unit, decimals = (100, " %", 2) if percent else (1, "", 4)
    if value is None:
        return "", ""
    if error is None or not isfinite(error):
        return f"{scale * value:.{decimals}f}{unit}".replace("-", "−"), ""
    if error > 0:
        decimals = min(decimals_of(scale * error), _MOST_DECIMALS)
    return f"{scale * value:.{decimals}f}{unit}".replace("-", "−"), f"{scale * error:.{decimals}f}{unit}"


def print_tabular(table: Tabular) -> None:
    """Print a table and an empty line; on a narrow terminal, further columns follow below."""
    shown = Tabular(list(map(_shown, table.headers)), [list(map(_shown, row)) for row in table.rows])
    print_lines(f"{shown.text(_width())}\n\n")


def print_lines(text: str) -> None:
    """Print lines of the result as they are, however long they are."""
    with writing_results():
        sys.stdout.write("".join(f"{_shown(line)}\n" for line in text.splitlines() or [""]))


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print_line(_in_one_line(message), label="warning:", style="bold yellow")


def _in_one_line(message: Warning | str) -> str:
    return brief(" ".join(str(message).split()))


def brief(text: str) -> str:
    """The beginning and the end of a text that is too long."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} [...] {text[-_LONGEST // 2 :]}"


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the texts of the block's warnings; the warning about the same rows comes first."""
    texts: list[str] = []
    shown: Any = warnings.showwarning

    def show(message: Warning | str, *rest: Any, **more: Any) -> None:
        texts.insert(0 if isinstance(message, SameRowsWarning) else len(texts), _in_one_line(message))
        shown(message, *rest, **more)

    warnings.showwarning = show
    try:
        yield texts
    finally:
        warnings.showwarning = shown
