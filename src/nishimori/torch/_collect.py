"""`collect`: the logits of a network on a loader, and the labels.

A loader that shuffles or augments gives other data when it is read again. So it is read once, and logits and labels are kept:
on the CPU, to leave the memory of the device free, and in their own dtype.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nishimori._census import census
from nishimori._progress import shown
from nishimori._sources import source
from nishimori.errors import InputError
from nishimori.torch._batches import LABELS, Forward, Rule, batches
from nishimori.torch._logits import is_unit
from nishimori.torch._modes import evaluating
from nishimori.torch._run import AS_THEY_ARE, check_module, device_of, short, structure

NO_SOFTMAX = "remove the softmax or sigmoid at the end of the network"
"""What to do where a network returns probabilities."""


class Collected(NamedTuple):
    """Logits and labels of all samples of a loader, one row per sample, on the CPU."""

    logits: Tensor
    labels: Tensor


def collect(
    model: nn.Module,
    loader: Iterable[Any] | tuple[Any, ...],
    *,
    forward: Forward | None = None,
    labels: str = LABELS,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Collected:
    """The logits of a network on all samples of a loader, and their labels.

    The loader is read once. The network runs in eval mode and without gradients, under the caller's autocast if there is one;
    afterwards every module has its previous mode.

    Parameters
    ----------
    model : torch.nn.Module
        Returns logits of shape (n, n_classes), or (n,) or (n, 1) for a binary score; or an object with ``.logits``; or a dict
        with "logits".
    loader : iterable of batches, or a tuple of tensors
        Batches are tuples of the model's positional arguments and, last, the labels; or mappings of the model's keyword
        arguments and, with the key ``labels``, the labels. A tuple of tensors ``(X, y)`` holds all samples, which are read in
        batches of 256; a list is always a sequence of batches.
    forward : callable, optional
        ``forward(model, batch)`` returns logits and labels, for models and batches of any other kind. The batch has been moved
        to the device.
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
    found = read(model, loader, Rule(labels, forward), device, progress)
    rows = source(found.logits, found.labels, probability_remedy=NO_SOFTMAX)
    census(rows)  # reads all rows, and so checks their values as the calibrators do
    return Collected(found.logits, found.labels)


class Rows(NamedTuple):
    """Logits, labels and, if they were asked for, the group of each sample of a loader, on the CPU."""

    logits: Tensor
    labels: Tensor
    groups: np.ndarray[Any, Any] | None


def read(model: nn.Module, loader: Iterable[Any], rule: Rule, device: torch.device | str | None, progress: bool | None) -> Rows:
    """All logits, labels and groups. Their shapes are checked, their values are not."""
    check_module(model)
    rule.check()
    parts = batches(loader)
    place = device_of(model) if device is None else _placed(model, device)
    rows: list[Tensor] = []
    truth: list[Tensor] = []
    groups: list[np.ndarray[Any, Any]] = []
    with evaluating(model), shown(progress) as report:
        total = _length(parts)
        report("Reading batches", 0, total)
        for number, batch in enumerate(parts):
            logits, target, names = rule.apply(model, batch, number, place)
            _check_logits(logits, rows)
            truth.append(_labels_of(target, logits, number))
            if rule.needs_groups:
                groups.append(_groups_of(names, len(logits), number))
            rows.append(_own(logits.flatten() if is_unit(logits) else logits))
            report("Reading batches", number + 1, total)
    if not rows:
        raise InputError(
            "`loader` must yield at least one batch, got none. Check that its dataset is not empty and that `drop_last` does "
            "not drop the only batch; a generator can be read only once."
        )
    return Rows(_joined(rows), _joined(truth), _together(groups) if groups else None)


def _placed(model: nn.Module, device: torch.device | str) -> torch.device:
    """Move the network to ``device``; PyTorch raises many types of errors where it cannot."""
    try:
        place = torch.device(device)
        model.to(place)
    except AS_THEY_ARE:
        raise
    except Exception as error:
        raise InputError(
            f"`device` must be a device on which the network can run here, got {str(device)!r} ({short(error)}). Leave it out "
            "to run where the weights are."
        ) from error
    return place


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


def _length(loader: Any) -> int | None:
    """The number of batches, or None if the loader does not know it. Loaders and samplers then raise many types of errors."""
    try:
        return len(loader)
    except Exception:
        return None


def _check_logits(logits: Tensor, before: list[Tensor]) -> None:
    """Refuse logits without one row per sample and the same columns, one per class, as in the batches before."""
    shape = tuple(logits.shape)
    if logits.ndim > 2:
        raise InputError(
            f"`model` must return logits of shape (n, n_classes) or (n,), got {shape}. For one row per token or pixel, pass "
            "`forward=lambda model, batch: (logits, labels)` that returns `logits.reshape(-1, n_classes)`, with the classes "
            "last, and `labels.reshape(-1)`."
        )
    if logits.ndim == 0:
        raise InputError(
            "`model` must return logits of shape (n, n_classes) or (n,), got a single number. Return one row per sample."
        )
    columns = () if is_unit(logits) else shape[1:]
    if before and columns != tuple(before[0].shape[1:]):
        raise InputError(
            f"`model` must return the same number of classes for every batch, got shape {shape} after {tuple(before[0].shape)}."
        )


def _labels_of(target: Any, logits: Tensor, number: int) -> Tensor:
    """One label per row of ``logits``, on the CPU."""
    n_rows = len(logits)
    try:
        found = torch.as_tensor(target)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"The labels of each batch must be class indices, got a {type(target).__name__} that is not numeric in batch "
            f"{number}. Make the loader yield a tensor of integers from 0 to n_classes - 1."
        ) from None
    shape = tuple(found.shape)
    if is_unit(logits) and shape == (n_rows, 1):  # as `BCEWithLogitsLoss` requires for one output unit
        return _own(found.flatten())
    if shape == (n_rows,):
        return _own(found)
    remedy = f"Check that the model returns one row per sample: it returned {n_rows}."
    if shape == (n_rows, 1):
        remedy = "Make the loader yield `labels.flatten()`."
    elif found.ndim == 2 and shape[0] == n_rows:
        remedy = (
            "Make the loader yield one class index per sample. For labels that do not exclude each other use "
            "nishimori.MultilabelCalibrator."
        )
        if ((found != 0).sum(dim=1) == 1).all():
            remedy = "They are one-hot: make the loader yield `labels.argmax(dim=1)`."
    elif found.ndim == 0:
        remedy = "The loader seems to yield single samples: pass it a `batch_size`."
    raise InputError(f"The labels of each batch must have shape ({n_rows},), got {shape} in batch {number}. {remedy}")


def _groups_of(names: Any, n_rows: int, number: int) -> np.ndarray[Any, Any]:
    """The name of the group of each row of a batch, on the CPU."""
    try:
        found = names.detach().cpu().numpy() if isinstance(names, Tensor) else np.asarray(names)
    except (TypeError, ValueError):  # rows of different lengths, a dtype that NumPy does not have
        found = np.empty(0)
    if found.shape != (n_rows,):
        raise InputError(
            f"The groups of each batch must be a flat list or tensor of {n_rows} names or numbers, one per row of the logits, "
            f"got {structure(names)} in batch {number}."
        )
    return np.array(found)


def _together(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The groups of all batches; NumPy would turn numbers into text beside text."""
    kinds = {"number" if part.dtype.kind in "biuf" else part.dtype.kind for part in parts}
    return np.concatenate(parts if len(kinds) == 1 else [part.astype(object) for part in parts])
