"""A few inputs of the calibration, kept to check that folding changes nothing but what it should.

Which layer computes the logits, and what follows it, only a run of the network shows. The first batch of a calibration is such
a run: of what the network was called with, however the user's own function calls it, up to four samples are kept on the CPU.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

_MOST_SAMPLES = 4
_MOST_BYTES = 2**24

# What a call may hold besides tensors.
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


class _NotKept(Exception):  # noqa: N818 - it is no error: such a call has no probe
    """A call that cannot be kept."""


@dataclass(frozen=True)
class KeptProbe:
    """What a network was called with: positional and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass
class FirstCall:
    """The first call of a network inside a block, as a probe; None if there was none, or one that cannot be kept."""

    probe: KeptProbe | None = None
    was_called: bool = field(default=False, repr=False)

    def keep(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002 - of a hook
        """Keep some samples of what the network is called with."""
        if self.was_called:
            return
        self.was_called = True
        try:
            tensors = [value for value in _entries((args, kwargs)) if isinstance(value, Tensor) and value.ndim]
            if not tensors:
                return
            n_rows, part = len(tensors[0]), _FirstSamples(len(tensors[0]))
            if n_rows:
                with torch.inference_mode(mode=False), torch.no_grad():
                    self.probe = KeptProbe(part.of(args), part.of(kwargs))
        except _NotKept:
            return


def _entries(value: Any) -> Iterator[Any]:
    """All entries of nested containers."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, tuple | list):
        yield value
        return
    for entry in value:
        yield from _entries(entry)


@dataclass
class _FirstSamples:
    """The first samples of a call with this many, as long as they take few bytes."""

    n_rows: int
    n_bytes: int = 0

    def of(self, value: Any) -> Any:
        """The same value with the first samples of each tensor that has one row per sample."""
        if isinstance(value, Tensor):
            some = value[:_MOST_SAMPLES] if value.ndim and len(value) == self.n_rows else value
            self.n_bytes += some.nbytes
            if self.n_bytes > _MOST_BYTES:
                raise _NotKept
            return some.detach().cpu().clone()
        if isinstance(value, Mapping):
            return {key: self.of(entry) for key, entry in value.items()}
        if type(value) in (tuple, list):
            return type(value)(self.of(entry) for entry in value)
        if isinstance(value, _PLAIN):
            return value
        raise _NotKept


@contextmanager
def keeping_first_call(model: nn.Module) -> Iterator[FirstCall]:
    """Keep what ``model`` is first called with inside the ``with`` block."""
    call = FirstCall()
    try:
        handle = model.register_forward_pre_hook(call.keep, with_kwargs=True)
    except (RuntimeError, TypeError):  # TorchScript takes no such hooks
        yield call
        return
    try:
        yield call
    finally:
        handle.remove()
