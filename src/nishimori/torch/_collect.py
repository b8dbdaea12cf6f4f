"""`collect`: the logits of a network on a loader, and the labels.

A loader that shuffles or augments gives other data when it is read again. So it is read once, and logits and labels are kept:
on the CPU, to leave the memory of the device free, and in their own dtype.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from nishimori._census import census
from nishimori._progress import shown
from nishimori._sources import source
from nishimori.errors import InputError
from nishimori.torch._run import answer, check_module, described, device_of, evaluating, logits_of


class Collected(NamedTuple):
    """Logits and labels of all samples of a loader, one row per sample, on the CPU."""

    logits: Tensor
    labels: Tensor


def collect(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    labels: str = "labels",
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Collected:
    """The logits of a network on all samples of a loader, and their labels.

    The loader is read once. The network runs in eval mode and without gradients, under the caller's autocast if there is one;
    afterwards every module has its previous mode.

    Parameters
    ----------
    model : torch.nn.Module
        Returns logits of shape (n, n_classes), or (n,) for a binary score; or an object with ``.logits``; or a dict with
        "logits".
    loader : iterable of batches
        Tuples of the model's positional arguments and, last, the labels; or mappings of the model's keyword arguments and, with
        the key ``labels``, the labels.
    labels : str
        The key of the labels where batches are mappings.
    device : torch.device or str, optional
        Where to run; the model is moved there. By default batches are moved to the device of the model's weights.
    progress : bool, optional
        None shows a bar if standard error is a terminal; True also writes a line where it is not; False shows nothing.

    Returns
    -------
    Collected
        A named tuple of ``logits`` and ``labels``, on the CPU and in their own dtypes.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import collect
    >>> x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    >>> logits, labels = collect(torch.nn.Linear(4, 3), torch.utils.data.DataLoader(list(zip(x, y)), batch_size=4))
    >>> logits.shape, labels
    (torch.Size([6, 3]), tensor([0, 1, 2, 0, 1, 2]))
    """
    found = read(model, loader, labels, device, progress)
    census(source(found.logits, found.labels))  # reads all rows, and so checks their values as the calibrators do
    return found


def read(
    model: nn.Module, loader: Iterable[Any], labels: str, device: torch.device | str | None, progress: bool | None
) -> Collected:
    """All logits and labels. Their shapes are checked, their values are not."""
    check_module(model)
    _check_loader(loader)
    if device is not None:
        model.to(device)
    place = device_of(model) if device is None else torch.device(device)
    rows: list[Tensor] = []
    truth: list[Tensor] = []
    with evaluating(model), shown(progress) as report:
        total = _length(loader)
        report("Reading batches", 0, total)
        for number, batch in enumerate(loader):
            inputs, target = _split(batch, labels)
            logits = logits_of(answer(model, inputs, place))
            _check_logits(logits, rows)
            rows.append(_own(logits))
            truth.append(_labels_of(target, len(logits), number))
            report("Reading batches", number + 1, total)
    if not rows:
        raise InputError(
            "`loader` must yield at least one batch, got none. Check that its dataset is not empty and that `drop_last` does "
            "not drop the only batch; a generator can be read only once."
        )
    return Collected(_joined(rows), _joined(truth))


def _own(values: Tensor) -> Tensor:
    """A copy on the CPU: loaders and workers reuse their memory, and a view would keep the whole tensor that it is part of."""
    return values.detach().to("cpu", copy=True)


def _joined(parts: list[Tensor]) -> Tensor:
    """All rows in one tensor. ``parts`` is emptied meanwhile, so that the rows are not in memory twice."""
    dtype = reduce(torch.promote_types, (part.dtype for part in parts))
    whole = torch.empty(sum(map(len, parts)), *parts[0].shape[1:], dtype=dtype, device="cpu")  # the default may differ
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


def _length(loader: Any) -> int | None:
    """The number of batches, or None if the loader does not know it. Loaders and samplers then raise many types of errors."""
    try:
        return len(loader)
    except Exception:
        return None


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
            f"with the labels under the key {labels!r}."
        )
    return tuple(batch[:-1]), batch[-1]


def _check_logits(logits: Tensor, before: list[Tensor]) -> None:
    """Refuse logits without one row per sample and the same columns, one per class, as in the batches before."""
    shape = tuple(logits.shape)
    by_hand = "and wrap the model with `Calibrated(model, T)`"
    if logits.ndim > 2:
        raise InputError(
            f"`model` must return logits of shape (n, n_classes) or (n,), got {shape}. Put the classes last, flatten the rest, "
            f"find T with `nishimori.temperatures(logits.reshape(-1, n_classes), labels.reshape(-1))` {by_hand}."
        )
    if logits.ndim == 0:
        raise InputError(
            "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row per sample."
        )
    if logits.ndim == 2 and shape[1] < 2:
        raise InputError(
            f"`model` must return one column per class, or shape (n,) for the score of the positive class, got {shape}. Append "
            f"`torch.nn.Flatten(0)` to the model; or find T with `nishimori.temperatures(logits[:, 0], labels)` {by_hand}."
        )
    if before and shape[1:] != tuple(before[0].shape[1:]):
        raise InputError(
            f"`model` must return the same number of classes for every batch, got shape {shape} after {tuple(before[0].shape)}."
        )


def _labels_of(target: Any, n_rows: int, number: int) -> Tensor:
    """One label per row, on the CPU."""
    try:
        found = torch.as_tensor(target)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"The labels of each batch must be class indices, got a {type(target).__name__} that is not numeric in batch "
            f"{number}. Make the loader yield a tensor of integers from 0 to n_classes - 1."
        ) from None
    shape = tuple(found.shape)
    if shape == (n_rows,):
        return _own(found)
    remedy = f"Check that the model returns one row per sample: it returned {n_rows}."
    if shape == (n_rows, 1):
        remedy = "Make the loader yield `labels.flatten()`."
    elif found.ndim == 2 and shape[0] == n_rows:
        remedy = "Make the loader yield one class index per sample."
        if ((found != 0).sum(dim=1) == 1).all():
            remedy = "They are one-hot: make the loader yield `labels.argmax(dim=1)`."
    elif found.ndim == 0:
        remedy = "The loader seems to yield single samples: pass it a `batch_size`."
    raise InputError(f"The labels of each batch must have shape ({n_rows},), got {shape} in batch {number}. {remedy}")
