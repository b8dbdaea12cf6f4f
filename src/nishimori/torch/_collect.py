"""One reading of a loader: what a network says about each sample, and the label beside it.

A second reading of a loader that shuffles or augments would see other data, so logits and labels are kept from the first:
on the host, so that they do not fill the device, and in the precision they came in.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from nishimori._census import Count
from nishimori._observables import Confidence
from nishimori._sources import source
from nishimori.errors import InputError
from nishimori.torch._run import answer, check_module, device_of, evaluating, logits_of


class Collected(NamedTuple):
    """Logits and labels of the samples of a loader, row by row, on the host."""

    logits: Tensor
    labels: Tensor


def collect(
    model: nn.Module, loader: Iterable[Any], *, labels: str = "labels", device: torch.device | str | None = None
) -> Collected:
    """The logits a network gives on all samples of a loader, and their labels.

    The loader is read once, in eval mode and without gradients, under the caller's autocast if there is one. Afterwards every
    module has the mode it had.

    Parameters
    ----------
    model : torch.nn.Module
        Returns logits of shape (n, n_classes), or (n,) for a binary score; or an object with ``.logits``; or a dict with
        "logits".
    loader : iterable of batches
        Tuples, whose last entry holds the labels and whose other entries are the model's positional arguments; or mappings,
        whose entry ``labels`` holds the labels and whose other entries are the model's keyword arguments. Inputs must be
        tensors already, or what the model makes tensors of itself.
    labels : str
        The key of the labels where batches are mappings.
    device : torch.device or str, optional
        Where to run; the model is moved there. By default batches follow the model to where its weights are.

    Returns
    -------
    Collected
        ``logits`` and ``labels``, on the CPU and in the precision they came in; it unpacks as a pair.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import collect
    >>> x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    >>> logits, labels = collect(torch.nn.Linear(4, 3), torch.utils.data.DataLoader(list(zip(x, y)), batch_size=4))
    >>> logits.shape, labels
    (torch.Size([6, 3]), tensor([0, 1, 2, 0, 1, 2]))
    """
    found = read(model, loader, labels, device)
    source(found.logits, found.labels).gather(Count(Confidence()))  # refuses what no calibrator could use
    return found


def read(model: nn.Module, loader: Iterable[Any], labels: str, device: torch.device | str | None) -> Collected:
    """All logits and labels, with their shapes checked but not their values."""
    check_module(model)
    _check_loader(loader)
    if device is not None:
        model.to(device)
    place = device_of(model) if device is None else torch.device(device)
    rows: list[Tensor] = []
    truth: list[Tensor] = []
    with evaluating(model), _watched(loader) as watched:
        for number, batch in enumerate(watched):
            inputs, target = _split(batch, labels)
            logits = logits_of(answer(model, inputs, place))
            _check_logits(logits, rows)
            rows.append(_own(logits))
            truth.append(_labels_of(target, len(logits), number))
    if not rows:
        raise InputError(
            "`loader` must yield at least one batch, got none. Check that its dataset is not empty and that `drop_last` does "
            "not drop the only batch; a generator can be read just once."
        )
    return Collected(_joined(rows), _joined(truth))


def _own(values: Tensor) -> Tensor:
    """A copy on the host: loaders write their buffers again, workers lend theirs, and a view keeps all it was cut from."""
    return values.detach().to("cpu", copy=True)


def _joined(parts: list[Tensor]) -> Tensor:
    """All rows; ``parts`` is emptied on the way, so that not everything is in memory twice."""
    dtype = reduce(torch.promote_types, (part.dtype for part in parts))
    whole = torch.empty(sum(map(len, parts)), *parts[0].shape[1:], dtype=dtype, device="cpu")  # whatever the default device
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def _check_loader(loader: Any) -> None:
    if isinstance(loader, Dataset) and not isinstance(loader, IterableDataset):
        raise InputError(
            f"`loader` must yield batches, got a {type(loader).__name__}, which yields samples. "
            "Pass `torch.utils.data.DataLoader(dataset, batch_size=256)`."
        )
    if not isinstance(loader, Iterable) or isinstance(loader, Tensor | Mapping | str):
        raise InputError(
            f"`loader` must yield batches of inputs and labels, got a {type(loader).__name__}. "
            "Pass a `torch.utils.data.DataLoader`; for one batch pass `[(x, y)]`."
        )


@contextmanager
def _watched(loader: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """The batches, with a bar that fills while they are taken; only on a terminal, and gone when done or after an error."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        # A generator, because rich asks for the length of what it is given in a way that lets most errors through.
        yield bar.track((batch for batch in loader), total=_length(loader), description="Reading")


def _length(loader: Any) -> int | None:
    """How many batches there are, or None where it cannot tell: samplers raise all kinds of errors."""
    try:
        return len(loader)
    except Exception:
        return None


def _split(batch: Any, labels: str) -> tuple[Any, Any]:
    """The model's inputs and the labels of a batch."""
    if isinstance(batch, Mapping):
        if labels not in batch:
            raise InputError(
                f"`labels` must be the key of the true classes in each batch, got {labels!r} where the keys are {list(batch)}. "
                "Pass the key that holds them, or have the loader yield them."
            )
        return {key: value for key, value in batch.items() if key != labels}, batch[labels]
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        got = f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, tuple | list) else "")
        raise InputError(
            f"`loader` must yield inputs and labels together, got {got}. Have it yield tuples (x, y), or dicts with the "
            f"labels at {labels!r}."
        )
    return tuple(batch[:-1]), batch[-1]


def _check_logits(logits: Tensor, before: list[Tensor]) -> None:
    """Refuse logits that do not have a row for each sample and a column for each class, as all others."""
    shape = tuple(logits.shape)
    by_hand = "and wrap the model with `Calibrated(model, T)`"
    if logits.ndim > 2:
        raise InputError(
            f"`model` must return logits of shape (n, n_classes) or (n,), got {shape}. Put the classes last, flatten the rest, "
            f"find T with `nishimori.temperatures(logits.reshape(-1, n_classes), labels.reshape(-1))` {by_hand}."
        )
    if logits.ndim == 0:
        raise InputError(
            "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row a sample."
        )
    if logits.ndim == 2 and shape[1] < 2:
        raise InputError(
            f"`model` must return one column a class, or shape (n,) for the score of the positive class, got {shape}. Append "
            f"`torch.nn.Flatten(0)` to the model; or find T with `nishimori.temperatures(logits[:, 0], labels)` {by_hand}."
        )
    if before and shape[1:] != tuple(before[0].shape[1:]):
        raise InputError(
            f"`model` must return the same number of classes for every batch, got shape {shape} after {tuple(before[0].shape)}."
        )


def _labels_of(target: Any, n_rows: int, number: int) -> Tensor:
    """One label a row, on the host."""
    try:
        found = torch.as_tensor(target)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"The labels of each batch must be a tensor of column numbers, got a {type(target).__name__} in batch {number}. "
            "Have the loader yield integers from 0."
        ) from None
    shape = tuple(found.shape)
    if shape == (n_rows,):
        return _own(found)
    remedy = f"Check that the model returns one row a sample: it returned {n_rows}."
    if shape == (n_rows, 1):
        remedy = "Have the loader yield `labels.flatten()`."
    elif found.ndim == 2 and shape[0] == n_rows:
        remedy = "They look one-hot: have the loader yield `labels.argmax(dim=1)`."
    elif found.ndim == 0:
        remedy = "The loader seems to yield single samples: give it a `batch_size`."
    raise InputError(f"The labels of each batch must have shape ({n_rows},), got {shape} in batch {number}. {remedy}")
