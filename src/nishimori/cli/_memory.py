"""What the command does where memory runs out. This module imports nothing that takes time or memory."""

import errno
import re

NO_MEMORY = "There is not enough memory. Pass a smaller file, raise the limit of memory (ulimit -v), or use a larger machine."
"""What to do when memory runs out."""

# Bytes of address space. On two cores the endless loop occurs between 320 and 380 MB.
_LEAST = 2**29

OUT_OF_MEMORY = f"error: {NO_MEMORY}\n".encode()
"""The same for the end of a program that has no memory left to make a message."""

_NO_ROOM = re.compile(
    "failed to map segment|cannot allocate memory|can't start new thread|out of memory|not enough memory|bad_alloc",
    re.IGNORECASE,
)


def refuse_low_limit() -> None:
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
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
