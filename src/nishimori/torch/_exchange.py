"""What each rank of a process group has, on every rank; and one error on every rank if something fails on one of them.

Ranks wait for each other in every call of `torch.distributed`. A rank that raises an error while the others wait would leave
them waiting until the timeout of the group, which is half an hour by default. So an error is caught, the others are told, and
then all of them raise it.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch.distributed as dist

from nishimori.errors import FormatError, InputError, MergeError, NishimoriError

V = TypeVar("V")

# Messages up to this size, 1 MiB, come from all ranks at once. Of larger ones, which come one by one, only one is in memory.
_AT_ONCE = 2**20


class Exchange:
    """The ranks of a process group, which tell each other what they have.

    All methods are collective: every rank of the group must call them, in the same order.
    """

    def __init__(self, group: "dist.ProcessGroup | None" = None) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise InputError(
                "Several ranks need a process group, got none. Start the script with `torchrun` and call "
                "`torch.distributed.init_process_group()` first."
            )
        self._group = group
        self.rank = dist.get_rank(group)
        if self.rank < 0:
            raise InputError("group", "be a process group that this rank belongs to", got="one of other ranks")

    def values(self, make: Callable[[], Any]) -> Iterator[Any]:
        """What ``make`` returns on each rank, in the order of the ranks.

        If it fails on some rank, every rank raises the same error, which names the first rank that failed. Only there its
        cause is the original error. A rank that is interrupted, or that exits, raises just that.
        """
        failure: BaseException | None = None
        try:
            message = pickle.dumps(make())
        except BaseException as error:  # also where a rank is interrupted
            failure, message = error, pickle.dumps(self._error_of_rank(error))
        shown = message if failure is not None or len(message) <= _AT_ONCE else None
        gathered: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(gathered, (failure is None, shown), group=self._group)
        failed = next((text for is_value, text in gathered if not is_value), None)
        if failed is None:
            return (
                _unpickle(self._message_of(rank, message) if text is None else text) for rank, (_, text) in enumerate(gathered)
            )
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        raise _unpickle(failed) from failure

    def own_value(self, make: Callable[[], V]) -> V:
        """What ``make`` returns on this rank, if it fails on none."""
        values: list[V] = []
        for _ in self.values(lambda: values.append(make())):
            pass
        return values[0]

    def _message_of(self, rank: int, message: bytes) -> bytes:
        """The large message of one rank, which that rank sends to all others."""
        box = [message if rank == self.rank else None]
        sender = rank if self._group is None else dist.get_global_rank(self._group, rank)
        dist.broadcast_object_list(box, src=sender, group=self._group)
        assert box[0] is not None, "the rank has sent it"
        return box[0]

    def _error_of_rank(self, error: BaseException) -> NishimoriError:
        """An error that names this rank; one that is not the library's own becomes an `InputError`.

        Code that catches one must do so on every rank, or on none.
        """
        rank = f"Rank {self.rank}"
        if isinstance(error, InputError):
            return error.changed(where=f"{rank}: {error.where}" if error.where else rank)
        text = str(error) if isinstance(error, NishimoriError) else f"{type(error).__name__}: {error}".removesuffix(": ")
        kind = type(error) if isinstance(error, FormatError | MergeError) else InputError
        return kind(f"{rank}: {text}")


def _unpickle(message: bytes) -> Any:
    """What another rank has sent. It runs the same script, so it is trusted as this one is."""
    return pickle.loads(message)  # noqa: S301
