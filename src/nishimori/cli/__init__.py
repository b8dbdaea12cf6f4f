"""The ``nishimori`` command: fit, apply, eval, compare, gate, diff, show, report, sketch, merge, methods, demo.

Installed packages add commands, see `_app`. Here is how the program starts, and how it ends where there is not enough memory to
start. This module imports next to nothing, so that Ctrl-C ends the program quietly from the start.
"""

import os
import signal

# Bytes of address space. On two cores the endless loop occurs between 320 and 380 MB.
_LEAST = 2**29

NO_MEMORY = "There is not enough memory. Pass a smaller file, raise the memory limit (ulimit -v), or use a larger machine."
"""What to do when memory runs out."""

# What the loader of libraries and the start of a thread say, which have no errors of their own for it.
_NO_ROOM = (
    *("failed to map segment", "cannot allocate memory", "can't start new thread"),
    *("out of memory", "not enough memory", "bad_alloc"),
)


def main() -> None:
    """Run the command; an error that the user can correct is one line and exit code 1."""
    leave_on_ctrl_c()
    _open_standard_descriptors()
    try:
        _refuse_low_limit()
        from nishimori.cli import _run  # noqa: PLC0415 - 0.1 s

        _run.run()
    except Exception as error:
        if not is_out_of_memory(error) or os.environ.get("NISHIMORI_TRACEBACK", "0") not in ("", "0"):
            raise
        # There was too little memory for the imports, or for the message. The end of Python would need some as well.
        os.write(2, f"error: {NO_MEMORY}\n".encode())
        os._exit(1)
    finally:
        interrupt_on_ctrl_c()


def leave_on_ctrl_c() -> None:
    """From now on, end the program at once on Ctrl-C: nothing needs cleanup yet, and imports turn an interrupt into errors.

    Nothing changes where it is ignored, as in background jobs, or has a handler of the caller's own.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        try:  # noqa: SIM105 - contextlib takes a while to import
            signal.signal(signal.SIGINT, _leave)
        except ValueError:
            pass  # only the main thread can do this


def interrupt_on_ctrl_c() -> None:
    """From now on, let Ctrl-C raise `KeyboardInterrupt` again, so that temporary files are removed."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, _frame: object) -> None:
    os._exit(128 + number)


def _open_standard_descriptors() -> None:
    """Open standard streams that are closed; otherwise the first written file would get one of their numbers.

    A library that writes to standard error would then write into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _refuse_low_limit() -> None:
    """Give up if libraries cannot be loaded: SciPy's OpenBLAS would then request memory in an endless loop."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ModuleNotFoundError:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST:
        raise MemoryError


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one of its causes, means that memory ran out, whatever its type."""
    import errno  # noqa: PLC0415

    for cause in causes_of(error):
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno == errno.ENOMEM):
            return True
        if isinstance(cause, ImportError | OSError | RuntimeError) and any(text in str(cause).lower() for text in _NO_ROOM):
            return True
    return False


def causes_of(error: BaseException | None, *, replaced: bool = False) -> list[BaseException]:
    """An error and its causes; with ``replaced``, also errors that another one replaced on purpose."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or (error.__context__ if replaced or not error.__suppress_context__ else None)
    return chain
