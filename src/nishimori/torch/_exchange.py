"""What each rank of a process group has, on every rank; and one error on every rank if something fails on one of them.

Ranks wait for each other in every call of `torch.distributed`. A rank that raises an error while the others wait would leave
them waiting until the timeout of the group, which is half an hour by default. So an error is caught, the others are told, and
then all of them raise it.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError, InputError, MergeError, NishimoriError

V = TypeVar("V")

# Values of all ranks are sent at once up to this size, 64 MiB. Larger ones come one after the other, so that only two of them
# are in memory.
_AT_ONCE = 2**26


class Exchange:
    """The ranks of a process group, which tell each other what they have.

    All methods are collective: every rank of the group must call them, in the same order. Values travel on the device that the
    backend of the group can send from.
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
        self.size = dist.get_world_size(group)
        self._device = _device_of(group)

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
        lengths = torch.zeros(self.size, dtype=torch.int64, device=self._device)
        lengths[self.rank] = len(message) if failure is None else -len(message)
        dist.all_reduce(lengths, group=self._group)
        sizes: list[int] = lengths.tolist()
        failed = next((rank for rank, size in enumerate(sizes) if size < 0), None)
        if failed is not None:
            first_error = _unpickle(self._message_of(failed, message, -sizes[failed]))
            if failure is not None and not isinstance(failure, Exception):
                raise failure
            raise first_error from failure
        return self._receive(message, sizes)

    def own_value(self, make: Callable[[], V]) -> V:
        """What ``make`` returns on this rank, if it fails on none."""
        values: list[V] = []
        for _ in self.values(lambda: values.append(make())):
            pass
        return values[0]

    def sum_over_ranks(self, numbers: HostArray) -> HostArray:
        """The sum of a flat float64 array over all ranks, the same on each of them to the last bit."""
        total = torch.from_numpy(np.array(numbers, dtype=np.float64)).to(self._device)
        dist.all_reduce(total, group=self._group)
        # Backends may add in another order on each rank, so that the last bits would differ.
        dist.broadcast(total, self._global(0), group=self._group)
        sums: HostArray = total.cpu().numpy()
        return sums

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

    def _receive(self, message: bytes, sizes: list[int]) -> Iterator[Any]:
        """The values of all ranks, whose messages have the lengths ``sizes``."""
        if self.size * max(sizes) > _AT_ONCE:
            for rank, size in enumerate(sizes):
                yield _unpickle(self._message_of(rank, message, size))
            return
        padded = torch.zeros(max(sizes), dtype=torch.uint8, device=self._device)
        padded[: len(message)] = self._tensor(message)
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded, group=self._group)
        for part, size in zip(parts, sizes, strict=True):
            yield _unpickle(_bytes(part[:size]))

    def _message_of(self, rank: int, message: bytes, size: int) -> bytes:
        """The message of one rank, of this size."""
        mine = rank == self.rank
        tensor = self._tensor(message) if mine else torch.empty(size, dtype=torch.uint8, device=self._device)
        dist.broadcast(tensor, self._global(rank), group=self._group)
        return message if mine else _bytes(tensor)

    def _tensor(self, message: bytes) -> Tensor:
        return torch.frombuffer(bytearray(message), dtype=torch.uint8).to(self._device)

    def _global(self, rank: int) -> int:
        """The number of a rank of this group among all ranks of the job."""
        return rank if self._group is None else dist.get_global_rank(self._group, rank)


def _unpickle(message: bytes) -> Any:
    """What another rank has sent. It runs the same script, so it is trusted as this one is."""
    return pickle.loads(message)  # noqa: S301


def _bytes(tensor: Tensor) -> bytes:
    content: bytes = tensor.cpu().numpy().tobytes()
    return content


def _device_of(group: "dist.ProcessGroup | None") -> torch.device:
    """The CPU if the group can send from there, as gloo can, else the current device of its kind, as for NCCL."""
    kinds = [backend.partition(":")[0] for backend in dist.get_backend_config(group).split(",")]
    return torch.device("cpu" if "cpu" in kinds else kinds[0])
