"""Run the command: signals, one-line errors that name options, exit codes.

Exit codes: 0 done, 1 an error that one line explains, 2 wrong usage, 3 kept for checks that say no, 4 for checks that cannot be
judged, and 128 + the number of the signal that ended the program: 129 SIGHUP, 130 SIGINT (Ctrl-C), 143 SIGTERM, and 141 if
the reader of the output has ended.
"""

import json
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from io import TextIOWrapper
from itertools import pairwise
from types import FrameType
from typing import Any, NoReturn

from nishimori._support.escape import PLAIN
from nishimori._support.progress import print_line
from nishimori.cli import NO_MEMORY, causes_of, is_out_of_memory
from nishimori.cli._terminal import brief, show_warning, writing_results
from nishimori.errors import A_NAME, ABSENT, NAMES, InputError, NishimoriError, arguments_written, in_python

_PATH_OPTIONS = ("-o", "--output", "--data", "--calibration", "--plot", "--junit")

# Options whose names are not those of their arguments; a value is added to those that take one.
_NAMES = {
    "bounds": "--bound",
    "calibrator": "--calibration",
    "y": "--labels",
    "folder": "-o",
    "overwrite": "--force",
    "path": "-o",
    "sample_weight": "--weights",
    "test_groups": "--groups",
}

# Arguments of calibrators, which one option passes on.
_PARAMETERS = {"penalty", "shrink", "smooth_labels"}

# What is in files, and no option.
_IN_FILES = {
    "X": "the file",
    "y": "the labels",
    "scores": "the scores",
    "labels": "the labels",
    "confidence": "the confidences",
}

# Of another command, `sketch`, which made the file.
_ELSEWHERE = {"--temperatures"}


def run() -> None:
    """Run the command that was typed and end the program with its exit code."""
    with arguments_written(partial(option_text, cache(_options))), one_line_errors(), _cleaning_up_when_stopped():
        _refuse_empty_paths(sys.argv[1:])
        from nishimori.cli import _app  # noqa: PLC0415 - 0.1 s, in which an error is one line too

        code = _app.invoke()
    if code:
        sys.exit(code)


def _refuse_empty_paths(words: list[str]) -> None:
    """Refuse ``-o ""``, which an unset variable leaves. Python reads an empty path as the current folder."""
    for word, after in pairwise([*words, "more"]):
        option, sign, value = word.partition("=")
        if option in _PATH_OPTIONS and not (value if sign else after):
            raise InputError(option, "be a path", got="''")


@contextmanager
def _cleaning_up_when_stopped() -> Iterator[None]:
    """Let ``kill`` and a closed terminal raise an exception, so that temporary files are removed on the way out."""
    owner = os.getpid()
    handled: list[signal.Signals] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a process that a library started has nothing of ours to remove
            os._exit(128 + number)
        for handled_signal in handled:
            signal.signal(handled_signal, signal.SIG_IGN)  # a second signal would interrupt the cleaning up
        sys.exit(128 + number)

    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
                signal.signal(number, stop)
                handled.append(number)
    except ValueError:
        pass  # only the main thread can do this
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show warnings and errors as one line each; the latter end the program with code 1."""
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=PLAIN)  # a terminal that has no "−" gets "-"
    try:
        if sys.stdout is None:
            _fail("Standard output is closed, so no result can be printed. Redirect it to a file or to /dev/null.")
        yield
        with writing_results():
            pass  # what typer has printed
    except KeyboardInterrupt:
        sys.exit(130)
    except (BrokenPipeError, SystemExit) as end:
        if not _is_due_to(end, BrokenPipeError):
            raise
        sys.exit(141)  # typer and rich would end with code 1
    except Exception as error:
        if _is_due_to(error, KeyboardInterrupt):  # some modules raise an error of their own when their import is interrupted
            sys.exit(130)
        if os.environ.get("NISHIMORI_TRACEBACK", "0") not in ("", "0"):
            raise
        if is_out_of_memory(error):
            error.__traceback__ = error.__context__ = error.__cause__ = None  # which hold the arrays that take the memory
            sys.stderr.write(f"error: {_about_memory(error)}\n")
            sys.exit(1)
        _fail(error_text(error))
    finally:
        _flush_or_abandon()


def _is_due_to(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(cause, kind) for cause in causes_of(error, replaced=True))


def _fail(message: str) -> NoReturn:
    print_line(brief(message), label="error:", style="bold red")
    sys.exit(1)


def error_text(error: Exception) -> str:
    """The error in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}." if error.filename is None else f"{error.strerror}: {os.fsdecode(error.filename)}."
    if isinstance(error, NishimoriError | OSError | ModuleNotFoundError):
        return text
    return (
        f"Unexpected {type(error).__name__}{f': {text}' if text else ''}. Set NISHIMORI_TRACEBACK=1 and run the command again "
        "to see where. Unless that is in a module of your own, it is a bug in nishimori: please report it."
    )


def _about_memory(error: Exception) -> str:
    """Say that memory ran out: nishimori's own sentence, or NumPy's with a remedy."""
    text = " ".join(str(error).split()) if isinstance(error, MemoryError) else ""
    if text.endswith("."):
        return text
    return NO_MEMORY.replace(".", f" ({text}).", 1) if text else NO_MEMORY


def _flush_or_abandon() -> None:
    """Drop output that cannot be written; otherwise Python retries at exit and fails with its own message and code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


# What messages call the Python arguments that they name


def option_text(options: Callable[[], set[str]], name: str, value: Any = ABSENT) -> str:
    """An argument as an option, with a value if there is one; in Python's form if the command's ``options`` lack it."""
    if name in _IN_FILES and value is ABSENT:
        return _IN_FILES[name]
    typed = options()
    if name in _PARAMETERS and "--param" in typed:
        if value is ABSENT:
            return f"--param {name}"
        return f"--param {name}={value if isinstance(value, str) else json.dumps(value)}"
    option = _NAMES.get(name, f"--{name.replace('_', '-')}")
    if name == "columns" and (value is A_NAME or isinstance(value, str)):
        option = "--scores"  # the option for one name
    if name == "class_axis":  # no command has it
        return f"{in_python(name, value)} in Python, or move them last in the file"
    if option not in typed | _ELSEWHERE:
        return in_python(name, value)
    return option if value is ABSENT or value is True or value is A_NAME else _option_with_value(option, value)


def _option_with_value(option: str, value: Any) -> str:
    """An option with its value as it is typed."""
    if isinstance(value, Mapping):
        return " ".join(f"{option} {name}={entry}" for name, entry in value.items())
    if option in ("--delimiter", "--decimal"):
        return f"{option} tab" if value == "\t" else f"{option} '{value}'"
    if value is NAMES:
        return f"{option} NAME,NAME"
    if not isinstance(value, Sequence) or isinstance(value, str):
        return f"{option} {shlex.quote(str(value))}"
    names = [f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value]
    if any("," in name or name != " ".join(name.split()) for name in names):  # which would be read as other names
        return f"{option} with new names: a comma separates names, so rename the columns"
    return f"{option} {shlex.quote(','.join(names))}"


def _options() -> set[str]:
    """The options of the command that was typed."""
    from nishimori.cli import _app  # noqa: PLC0415 - only messages that name an argument need them

    return _app.options_typed()
