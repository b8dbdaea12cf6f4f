"""Reading ahead: a thread prepares the next item while the caller works on the one before."""

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")

# One item waits while one is worked on and one is read, so three are in memory at a time.
_WAITING = 1


@dataclass(frozen=True)
class _End:
    """What follows the last item: nothing, or the error that ended the pass."""

    error: BaseException | None = None


def ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """Iterate over ``items`` in their order; a thread reads each before it is asked for.

    An error of the pass is raised here with its own traceback. However the iteration ends, the thread has ended and
    ``items`` is closed before control returns to the caller.
    """
    queue: Queue[T | _End] = Queue(_WAITING)
    stopped = Event()

    def read() -> None:
        end = _End()
        try:
            for item in items:
                queue.put(item)
                del item  # while the next one is read, only the queue and the caller hold one
                if stopped.is_set():
                    break
        except BaseException as error:  # raised in the caller's thread instead
            end = _End(error)
        finally:
            items.close()
        queue.put(end)

    thread = Thread(target=read, name="nishimori reads ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := queue.get(), _End):
            yield item
            del item
        error, item = item.error, _End()
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback refers to this frame
    finally:
        stopped.set()
        while thread.is_alive():  # it may wait for room in the queue
            with suppress(Empty):
                queue.get_nowait()
            thread.join(0.01)
