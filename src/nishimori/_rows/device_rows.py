"""Rows on a CUDA device, which a pass may sum in one call."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from nishimori._rows.array_rows import ArrayRows, strided
from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.fingerprint import digest_of
from nishimori._rows.labels import Classes, class_indices
from nishimori._rows.rows import Rows, T, reads_unchecked, sum_by_class
from nishimori._rows.scores import Members, Scores
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.progress import Report, silent

# Logits of these types can be read as they are; float64 takes so long that a check of its own does not matter.
_AS_THEY_ARE = {"float32", "float16", "bfloat16"}

# A pass over fewer numbers takes hardly longer than to start it.
_LARGE = 2**24


class DeviceRows(Rows):
    """Rows that stay on a CUDA device; a pass that takes unchecked rows reads all of them at once.

    Nothing is checked beforehand, because a check would be another pass: such a pass counts the rows that a check would
    refuse. If there are any, and for all other passes, the rows are read in blocks, and each block is checked.

    ``name`` is what the caller calls the labels. Columns that lie beside the logits stay there; all others are checked here.
    """

    def __init__(
        self,
        scores: Scores,
        labels: Any,
        weights: HostArray,
        classes: Classes = None,
        name: str = "labels",
        clusters: Clusters | None = None,
        groups: Groups | None = None,
    ) -> None:
        self.scores, self.clusters, self.groups = scores, clusters, groups
        are_flat = arrays.is_on_cuda(labels) and tuple(labels.shape) == (scores.n_samples,)
        are_beside = are_flat and arrays.kind(labels) == "int" and labels.device == scores.array.device
        if classes is not None or not are_beside:  # else the kernel checks them
            labels = arrays.on_device_of(class_indices(labels, classes, scores, name, weights), scores.array)
        self.labels: Array = arrays.as_array(labels)
        self.weights: Array | None = None if arrays.are_ones(weights) else arrays.on_device_of(weights, scores.array)
        self._host_weights, self._name = weights, name

    @property
    def n_classes(self) -> int:
        return self.scores.n_classes

    @property
    def n_rows(self) -> int:
        return self.scores.n_samples

    @property
    def members(self) -> Members | None:  # type: ignore[override]
        return self.scores.members

    @property
    def digest(self) -> str | None:
        return digest_of(self.scores, self.labels, self.weights)

    @property
    def class_weights(self) -> HostArray | None:
        return sum_by_class(self.labels, self.weights, self.n_classes)

    @cached_property
    def _in_blocks(self) -> ArrayRows:
        labels = class_indices(self.labels, None, self.scores, self._name, self._host_weights)
        return ArrayRows(self.scores, labels, self._host_weights, clusters=self.clusters, groups=self.groups)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._in_blocks)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows; one transfer to the host if the pass takes unchecked rows."""
        sums: T | None = None
        if reads_unchecked(pass_, self._unchecked_batch):
            sums = pass_.of_unchecked(self._unchecked_batch)  # type: ignore[attr-defined]
        if sums is None:
            return self._in_blocks.gather(pass_, report)  # whose checks say what is wrong, and where
        report("Reading", self.n_rows, self.n_rows)
        return sums

    @property
    def _unchecked_batch(self) -> Batch:
        return Batch(self.scores.array, self.labels, self.weights, clusters=self.clusters, groups=self.groups)

    def sample(self, size: int) -> "DeviceRows":
        """About ``size`` evenly spaced rows; only labels and weights are copied.

        All of them, where a device needs no more time for them than for a part.
        """
        if 2 * size > self.n_rows or self.n_rows * self.n_classes < _LARGE:
            return self
        rows = strided(self.n_rows, size)
        labels, weights = self.labels[rows].contiguous(), self._host_weights[rows]
        return DeviceRows(self.scores.sample(rows), labels, weights, name=self._name)


def can_stay_on_device(scores: Scores) -> bool:
    """Whether scores on a CUDA device can be read without conversion: a table of logits with few bits."""
    return scores.input == "logits" and scores.array.ndim == 2 and arrays.dtype_name(scores.array) in _AS_THEY_ARE
