"""The rows of one batch: one per sample, token or pixel, with its label, and whether it counts.

Logits may have any shape before the classes. They are seen as rows without a copy, and stay on the device of the network until
it is known what is to be kept. Rows that do not count, such as those of padding, are never looked at.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Clusters, Groups
from nishimori._rows.labels import Labelling, are_signs, class_indices, encode_values
from nishimori._rows.scores import Scores, scores_of
from nishimori._rows.stream_rows import in_batch
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import numeric
from nishimori.errors import InputError
from nishimori.torch._batches import Returned
from nishimori.torch._run import is_unit, refuse_number, structure


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of batch ``number``. Where ``weights`` are zero, they do not count.

    ``labels`` are as they came, and so are ``groups`` and ``clusters``, one per row, if there are any.
    """

    number: int
    scores: Scores
    labels: HostArray
    weights: HostArray
    groups: HostArray | None
    clusters: HostArray | None

    @cached_property
    def counted(self) -> HostArray:
        """The positions of the rows that count."""
        return np.flatnonzero(self.weights)

    @cached_property
    def columns(self) -> HostArray:
        """The column of the true class of each row. Labels of other classes are refused."""
        if are_signs(self.labels[self.counted], self.scores.n_classes):
            raise InputError(
                "labels", "be 0 and 1 for two classes", got="-1 and 1", remedy="Make the loader yield `(labels + 1) // 2`."
            )
        return class_indices(self.labels, None, self.scores, "labels", self.weights)

    @property
    def n_bytes(self) -> int:
        """The memory that the logits of the rows that count take."""
        array = self.scores.array
        return len(self.counted) * int(array[0].numel()) * int(array.element_size())

    def rows(self, clusters: Clusters | None = None, groups: Groups | None = None) -> ArrayRows:
        """The rows where they are, for sums."""
        return ArrayRows(self.scores, self.columns, self.weights, clusters=clusters, groups=groups)

    def check(self) -> None:
        """Refuse labels and logits that cannot be used."""
        with self.naming_batch():
            for _ in self.rows():
                pass

    def copy_to_cpu(self) -> "BatchRows":
        """A copy on the CPU of the rows that count: loaders and workers reuse their memory."""
        array, index = self.scores.array.detach(), self.counted
        if len(index) < len(array):
            array = array[torch.from_numpy(index).to(array.device)]
        scores = replace(self.scores, array=array.to("cpu", copy=True), leading=())
        groups, clusters = (None if names is None else names[index] for names in (self.groups, self.clusters))
        return BatchRows(self.number, scores, self.labels[index], self.weights[index], groups, clusters)

    @contextmanager
    def naming_batch(self) -> Iterator[None]:
        """Errors inside name the batch."""
        try:
            yield
        except InputError as error:
            raise in_batch(self.number, error) from None


def batch_rows(returned: Returned, number: int, before: tuple[int, ...] | None, labelling: Labelling) -> BatchRows | None:
    """The rows of a batch whose shapes fit together, or None if it has none.

    ``before`` is the shape of the logits of the first batch.
    """
    logits = returned.logits
    _check_logits(logits, before, number)
    labels = _labels_of(returned.labels, logits, number)
    leading = tuple(logits.shape[: -1 if logits.ndim > 1 else None])
    if 0 in leading:
        return None
    flat = logits.reshape(-1) if is_unit(logits) or logits.ndim == 1 else logits.reshape(-1, logits.shape[-1])
    try:
        scores = scores_of(numeric(flat, "logits"), input="logits", name="logits")
        scores = replace(scores, leading=leading if len(leading) > 1 else ())
        plain, weights = labelling.apply(labels.reshape(-1).cpu().numpy(), None, scores, "labels")
    except InputError as error:
        raise in_batch(number, error) from None
    names = {
        what: None if values is None else _names_of(values, scores, what, number)
        for what, values in (("groups", returned.groups), ("clusters", returned.clusters))
    }
    return BatchRows(number, scores, plain, np.ones(len(plain)) if weights is None else weights, **names)


def _check_logits(logits: Tensor, before: tuple[int, ...] | None, number: int) -> None:
    """Refuse logits without rows, or with other columns, one per class, than in the batches before."""
    refuse_number(logits, f" in batch {number}")
    shape = tuple(logits.shape)
    if before is not None and _n_columns(shape) != _n_columns(before):
        raise InputError(
            "model", "return the same number of classes for every batch", got=f"shape {shape} in batch {number} after {before}"
        )


def _n_columns(shape: tuple[int, ...]) -> int:
    """How many numbers a row has; a flat array has one."""
    return 1 if len(shape) == 1 else shape[-1]


def _labels_of(target: Any, logits: Tensor, number: int) -> Tensor:
    """Labels of the shape of the logits before the classes."""
    try:
        labels = target if isinstance(target, Tensor) else torch.as_tensor(target, device="cpu")
        labels = labels.float() if labels.dtype == torch.bfloat16 else labels  # which NumPy does not have
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            "The labels of each batch",
            "be class indices",
            got=f"a {type(target).__name__} that is not numeric in batch {number}",
            remedy="Make the loader yield a tensor of integers from 0 to n_classes - 1.",
        ) from None
    shape, logits_shape = tuple(labels.shape), tuple(logits.shape)
    wanted = logits_shape[:-1] if logits.ndim > 1 else logits_shape
    if shape == wanted or (is_unit(logits) and shape == logits_shape):  # the latter as `BCEWithLogitsLoss` requires it
        return labels.detach()
    return _refuse_shape(labels, wanted, logits_shape, number)


def _refuse_shape(labels: Tensor, wanted: tuple[int, ...], logits_shape: tuple[int, ...], number: int) -> Tensor:
    """Refuse labels of another shape than the logits have before the classes."""
    shape, n_rows = tuple(labels.shape), wanted[0]
    remedy = f"Check that the model returns one row per sample: it returned {n_rows}."
    if len(wanted) > 1:
        remedy = (
            f"The logits have shape {logits_shape}, with the classes last. Make the loader yield one label for each position."
        )
        if shape == (*logits_shape[:1], *logits_shape[2:]):
            remedy = f"If the classes are in dimension 1 of the logits {logits_shape}, pass `class_axis=1`."
    elif shape == (n_rows, 1):
        remedy = "Make the loader yield `labels.flatten()`."
    elif labels.ndim == 2 and shape[0] == n_rows:
        remedy = (
            "Make the loader yield one class index per sample. For labels that do not exclude each other use "
            "nishimori.multilabel.MultilabelCalibrator."
        )
        if ((labels != 0).sum(dim=1) == 1).all():
            remedy = "They are one-hot: make the loader yield `labels.argmax(dim=1)`."
    elif labels.ndim == 0:
        remedy = "The loader seems to yield single samples: pass it a `batch_size`."
    raise InputError("The labels of each batch", f"have shape {wanted}", got=f"{shape} in batch {number}", remedy=remedy)


def _names_of(names: Any, scores: Scores, what: str, number: int) -> HostArray:
    """The group or the cluster of each row of a batch, on the CPU."""
    try:
        values = names.detach().cpu().numpy() if isinstance(names, Tensor) else np.asarray(names)
        per_row = scores.per_row(values)
    except (TypeError, ValueError):  # rows of different lengths, a dtype that NumPy does not have
        per_row = np.empty(0)
    if per_row.shape != (scores.n_samples,):
        wanted = f"be a flat list or tensor of {scores.n_samples} names or numbers, one per row of the logits"
        if scores.leading:
            wanted = f"have shape {scores.leading[:1]}, one name or number per sequence, or {scores.leading}, one per label"
        raise InputError(f"The {what} of each batch", wanted, got=f"{structure(names)} in batch {number}")
    try:
        encode_values(
            names if isinstance(names, list | tuple) and not scores.leading else per_row, len(per_row), what.removesuffix("s")
        )
    except InputError as error:
        raise in_batch(number, error) from None
    return np.array(per_row)


def join_names(parts: list[HostArray]) -> HostArray | None:
    """The groups or clusters of all batches; NumPy would turn numbers into text beside text."""
    if not parts:
        return None
    kinds = {"number" if part.dtype.kind in "biuf" else part.dtype.kind for part in parts}
    return np.concatenate(parts if len(kinds) == 1 else [part.astype(object) for part in parts])
