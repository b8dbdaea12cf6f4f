"""How a run of the command starts and ends: signals, errors in one line, exit codes.

The version is printed from here, because typer takes longer to import than all the rest of that answer.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from types import FrameType

from nishimori.cli import leaving_on_ctrl_c
from nishimori.cli._terminal import one_line_errors, print_version
from nishimori.cli._wording import option_text
from nishimori.errors import InputError, arguments_written

_PATH_OPTIONS = ("-o", "--output", "--data", "--calibration", "--plot", "--junit")


def run() -> None:
    """Run the command that was typed and end the program with its exit code."""
    with arguments_written(partial(option_text, cache(_options))), one_line_errors(), _cleaning_up_when_stopped():
        code = _answer(sys.argv[1:])
    if code:
        sys.exit(code)


def _answer(words: list[str]) -> int:
    if words == ["--version"]:
        print_version()
        return 0
    _refuse_empty_paths(words)
    with leaving_on_ctrl_c():
        from nishimori.cli import _app  # noqa: PLC0415 - 0.1 s
    return _app.invoke()


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


def _options() -> set[str]:
    """The options of the command that was typed."""
    from nishimori.cli import _app  # noqa: PLC0415 - only messages that name an argument need them

    return _app.options_typed()
