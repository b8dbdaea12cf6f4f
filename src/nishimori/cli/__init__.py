"""The ``nishimori`` command: fit, apply, eval, compare, gate, diff, show, report, sketch, merge, methods, demo.

Installed packages add commands, see `_commands`. This module imports nothing that takes time, so that Ctrl-C ends the program
quietly from the start.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nishimori.cli import _memory


def main() -> None:
    """Run the command; an error that the user can correct is one line and exit code 1."""
    _open_standard_descriptors()
    try:
        _memory.refuse_low_limit()
        with leaving_on_ctrl_c():
            from nishimori.cli import _run  # noqa: PLC0415 - 0.1 s
        _run.run()
    except Exception as error:
        if not _memory.is_out_of_memory(error) or os.environ.get("NISHIMORI_TRACEBACK", "0") not in ("", "0"):
            raise
        # There was too little memory for the imports, or for the message. The end of Python would need some as well.
        os.write(2, _memory.OUT_OF_MEMORY)
        os._exit(1)


def _open_standard_descriptors() -> None:
    """Open those of input, output and errors that are closed, or the first file to be written would get one of their numbers.

    A library that writes to standard error would then write into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


@contextmanager
def leaving_on_ctrl_c() -> Iterator[None]:
    """End the program at once on Ctrl-C: nothing needs cleaning up yet, and modules turn an interrupt into errors of theirs."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as in background jobs, or a caller's own
        yield
        return
    try:
        signal.signal(signal.SIGINT, _leave)
    except ValueError:  # only the main thread can do this
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)
