"""Batches of a loader, or of tensors in place of one, and what a network returns for each of them.

By default the entries of a batch are the arguments of the network, and one of them holds the labels. A function ``forward`` of
the user replaces this rule. Where a network fails, the error describes the batch and how it was passed on.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from nishimori.errors import InputError
from nishimori.torch._logits import logits_of
from nishimori.torch._run import AS_THEY_ARE, answer, described, listed, moved, short, structure

Forward = Callable[[nn.Module, Any], tuple[Any, ...]]

LABELS = "labels"
"""The default key of the labels."""

# Large enough to keep a GPU busy, small enough for its memory with images of usual size.
_ROWS_PER_BATCH = 256

_FORWARD = "`forward=lambda model, batch: (logits, labels)`"
_WITH_GROUPS = "`forward=lambda model, batch: (logits, labels, groups)`"


class Returned(NamedTuple):
    """What a network and its batch gave: logits, and labels and groups as they came."""

    logits: Tensor
    labels: Any
    groups: Any = None


class Rule(NamedTuple):
    """How logits and labels follow from a batch."""

    labels: str = LABELS
    forward: Forward | None = None
    needs_groups: bool = False

    def check(self) -> None:
        """Refuse what cannot be used before the first batch is read."""
        if self.forward is not None and not callable(self.forward):
            raise InputError(
                f"`forward` must be a function of the model and a batch, got a {type(self.forward).__name__}. Pass {_FORWARD}."
            )
        if self.forward is not None and self.labels != LABELS:
            raise InputError(
                f"`labels` must be left out where `forward` is passed, got {self.labels!r}: `forward` returns the labels."
            )
        if self.forward is None and self.needs_groups:
            raise InputError(
                "`forward` must return the group of each sample where each group has its own temperature (by='groups'), got "
                f"no `forward`. Pass {_WITH_GROUPS}."
            )

    def apply(self, model: nn.Module, batch: Any, number: int, device: torch.device | None) -> Returned:
        """The logits that ``model`` returns for batch ``number``, with labels and groups as they came."""
        if self.forward is None:
            return self._usual(model, batch, number, device)
        return self._defined(self.forward, model, batch, number, device)

    def _usual(self, model: nn.Module, batch: Any, number: int, device: torch.device | None) -> Returned:
        inputs, target = _split(batch, self.labels)
        try:
            output = answer(model, moved(inputs, device))
        except AS_THEY_ARE:
            raise
        except Exception as error:
            raise InputError(
                f"`model` must accept the batches of `loader`, got {short(error)} in batch {number}. The batch is "
                f"{structure(batch)}, and it was passed as `{_call(batch, self.labels)}`. To call the model in another way, "
                f"pass `forward`, {_example(batch, self.labels)}"
            ) from error
        remedy = f"Pass {_FORWARD}, which picks the logits; or wrap the model in a module that does."
        return Returned(logits_of(output, remedy), target)

    def _defined(self, forward: Forward, model: nn.Module, batch: Any, number: int, device: torch.device | None) -> Returned:
        """What the user's own function returns."""
        wanted, parts = ("logits, labels and groups", 3) if self.needs_groups else ("logits and labels", 2)
        try:
            with torch.inference_mode():
                returned = forward(model, moved(batch, device))
        except AS_THEY_ARE:
            raise
        except Exception as error:
            raise InputError(
                f"`forward` must return the {wanted} of each batch, got {short(error)} in batch {number}. The batch is "
                f"{structure(batch)}."
            ) from error
        if not isinstance(returned, tuple | list) or len(returned) != parts:
            remedy = f"Return a tuple `({', '.join(Returned._fields[:parts])})`."
            if parts == 2 and isinstance(returned, tuple | list) and len(returned) == 3:
                remedy += " Groups are for `calibrate(..., method=nishimori.GroupConsistency(by='groups'))`."
            raise InputError(
                f"`forward` must return the {wanted} of each batch, got {described(returned)} in batch {number}. {remedy}"
            )
        output, *others = returned
        return Returned(logits_of(output, "Return the tensor of logits first.", who="forward"), *others)


def batches(loader: Any) -> Iterable[Any]:
    """``loader`` itself, or the batches of a tuple of tensors; anything that yields no batches is refused."""
    if isinstance(loader, Dataset) and not isinstance(loader, IterableDataset):
        raise InputError(
            f"`loader` must yield batches, got a {type(loader).__name__}, which yields samples. "
            "Pass `torch.utils.data.DataLoader(dataset, batch_size=256)`."
        )
    if isinstance(loader, tuple) and len(loader) > 1 and isinstance(loader[0], Tensor | np.ndarray):
        return _of_tensors(loader)
    if not isinstance(loader, Iterable) or isinstance(loader, Tensor | np.ndarray | Mapping | str):
        raise InputError(
            f"`loader` must yield batches of inputs and labels, got a {type(loader).__name__}. "
            "Pass a `torch.utils.data.DataLoader`, or the tensors as a tuple `(X, y)`."
        )
    return loader


def _of_tensors(parts: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Batches of tensors that hold all samples: inputs and, last, labels. No data is copied."""
    *whole, target = parts
    try:
        whole.append(target if isinstance(target, Tensor) else torch.as_tensor(target))
    except (TypeError, ValueError, RuntimeError):
        whole.append(target)
    if not all(isinstance(part, Tensor) and part.ndim for part in whole):
        kinds = " and ".join(type(part).__name__ for part in parts)
        raise InputError(
            f"`loader` must hold tensors where it is a tuple `(X, y)`, got {kinds}. Convert each with "
            "`torch.as_tensor(X, dtype=torch.float32)`; pass a sequence of batches as a list."
        )
    lengths = [len(part) for part in whole]
    if len(set(lengths)) > 1:
        raise InputError(
            f"`loader` must hold one entry per sample in each tensor of `(X, y)`, got {' and '.join(map(str, lengths))} "
            "entries. Pass a sequence of batches as a list."
        )
    return list(zip(*(part.split(_ROWS_PER_BATCH) for part in whole), strict=True)) if lengths[0] else []


def _split(batch: Any, labels: str) -> tuple[Any, Any]:
    """The inputs and the labels of a batch."""
    if isinstance(batch, Mapping):
        if labels not in batch:
            raise InputError(
                f"`labels` must be the key of the labels in each batch, got {labels!r} for a batch with the keys {list(batch)}."
                " Pass the right key, or make the loader yield the labels."
            )
        return {key: value for key, value in batch.items() if key != labels}, batch[labels]
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise InputError(
            f"`loader` must yield inputs and labels together, got {described(batch)}. Make it yield tuples (x, y), or dicts "
            f"with the labels under the key {labels!r}; for other batches pass {_FORWARD}. Pass plain tensors as a tuple "
            "`(X, y)`."
        )
    return tuple(batch[:-1]), batch[-1]


def _call(batch: Any, labels: str) -> str:
    """How the model was called, in terms of the batch."""
    if isinstance(batch, Mapping):
        return f"model({listed(f'{key}=batch[{key!r}]' for key in batch if key != labels)})"
    return f"model({listed(f'batch[{i}]' for i in range(len(batch) - 1))})"


def _example(batch: Any, labels: str) -> str:
    """Another call, of one input alone. Only a mapping says which entry holds the labels; in a tuple they could be anywhere."""
    if isinstance(batch, Mapping):
        first = next((key for key in batch if key != labels), labels)
        return f"for example `forward=lambda model, batch: (model(batch[{first!r}]), batch[{labels!r}])`."
    return (
        "for example `forward=lambda model, batch: (model(batch[i]), batch[j])`, where i is the position of the field that "
        f"holds the inputs and j the position of the field that holds the labels, counted from 0 to {len(batch) - 1}."
    )
