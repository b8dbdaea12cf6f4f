"""The ``nishimori`` command: fit, apply, eval, compare, gate, report, sketch, merge, methods, demo, theory, paper.

This module imports nothing that takes time, so that Ctrl-C ends the program quietly from the start.
"""

import errno
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NO_MEMORY = "There is not enough memory. Pass a smaller file, raise the limit of memory (ulimit -v), or use a larger machine."
"""What to do when memory runs out."""

# Bytes of address space. On two cores the endless loop occurs between 320 and 380 MB.
_LEAST = 2**29

_LAST_WORDS = f"error: {NO_MEMORY}\n".encode()  # made while there is memory

_NO_ROOM = re.compile(
    "failed to map segment|cannot allocate memory|can't start new thread|out of memory|not enough memory|bad_alloc",
    re.IGNORECASE,
)


def main() -> None:
    """Run the command; an error that the user can correct is one line and exit code 1."""
    _open_standard_descriptors()
    try:
        _refuse_low_limit()
        with _leaving_on_ctrl_c():
            from nishimori.cli import _app  # noqa: PLC0415 - 0.4 s
        _app.run()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        # There was too little memory for the imports, or for the message. The end of Python would need some as well.
        os.write(2, _LAST_WORDS)
        os._exit(1)


def _refuse_low_limit() -> None:
    """Give up where libraries cannot be loaded: SciPy's OpenBLAS then tries to get memory in an endless loop."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ModuleNotFoundError:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST:
        raise MemoryError


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, means that no more memory can be had, whatever its type is."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        # The loader of libraries and the start of a thread have no errors of their own for it.
        if isinstance(error, ImportError | OSError | RuntimeError) and _NO_ROOM.search(str(error)):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def _open_standard_descriptors() -> None:
    """Open those of input, output and errors that are closed, or the first file to be written would get one of their numbers.

    A library that writes to standard error would then write into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


@contextmanager
def _leaving_on_ctrl_c() -> Iterator[None]:
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
