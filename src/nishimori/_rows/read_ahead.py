"""Reading ahead: a thread prepares the next item while the caller works on the one before."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


def ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """Iterate over ``items`` in their order; a thread reads each while the caller has the one before.

    An error of the pass is raised here with its own traceback. However the iteration ends, the thread has ended and
    ``items`` is closed before control returns to the caller.
    """
    with ThreadPoolExecutor(1, "nishimori reads ahead") as thread:
        try:
            following = thread.submit(next, items, _END)
            while (item := following.result()) is not _END:
                following = thread.submit(next, items, _END)
                yield item
        finally:
            try:
                thread.submit(items.close)
            except RuntimeError:  # the interpreter is ending, and the thread has ended before
                items.close()
