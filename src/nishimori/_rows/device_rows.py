"""Rows on a CUDA device, of which a pass may give the sums in one call."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from nishimori._rows.array_rows import ArrayRows, strided
from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.fingerprint import digest_of
from nishimori._rows.labels import Classes, class_indices
from nishimori._rows.rows import Rows, T, reads_unchecked
from nishimori._rows.scores import Scores
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.progress import Report, silent

# Logits of these types can be read as they are; float64 takes so long that a check of its own does not matter.
_AS_THEY_ARE = {"float32", "float16", "bfloat16"}

# A pass over fewer numbers takes hardly longer than to start it.
_LARGE = 2**24


class DeviceRows(Rows):
    """Rows on a CUDA device. They stay there, and a pass that takes rows as they are reads all of them at once.

    Nothing is checked beforehand, because a check would be another pass: such a pass counts the rows that a check would
    refuse. If there are any, and for all other passes, the rows are read in blocks, and each block is checked.

    ``labels`` are columns on the device, ``weights`` are there too, or None for ones. ``in_blocks`` makes the other source,
    which is given the same ``clusters`` and ``groups``.
    """

    def __init__(
        self,
        scores: Scores,
        labels: Array,
        weights: Array | None,
        in_blocks: Callable[[], ArrayRows],
        clusters: Clusters | None = None,
        groups: Groups | None = None,
    ) -> None:
        self.scores = scores
        self.labels = labels
        self.weights = weights
        self._make_blocks = in_blocks
        self.clusters = clusters
        self.groups = groups

    @property
    def n_classes(self) -> int:
        return self.scores.n_classes

    @property
    def n_rows(self) -> int:
        return self.scores.n_samples

    @property
    def digest(self) -> str | None:
        return digest_of(self.scores, self.labels, self.weights)

    @cached_property
    def _in_blocks(self) -> ArrayRows:
        rows = self._make_blocks()
        rows.clusters, rows.groups = self.clusters, self.groups
        return rows

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._in_blocks)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows: with one transfer to the host if it takes them as they are."""
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
        """About ``size`` of the rows at equal distances: only labels and weights are copied.

        All of them, where a device needs no more time for them than for a part.
        """
        if 2 * size > self.n_rows or self.n_rows * self.n_classes < _LARGE:
            return self
        rows = strided(self.n_rows, size)
        scores = self.scores.sample(rows)
        labels, weights = self.labels[rows].contiguous(), None if self.weights is None else self.weights[rows].contiguous()

        def in_blocks() -> ArrayRows:
            heavy = arrays.ones(scores.n_samples) if weights is None else arrays.on_host(weights)
            return ArrayRows(scores, class_indices(labels, None, scores, "labels", heavy), heavy)

        return DeviceRows(scores, labels, weights, in_blocks)


def can_stay_on_device(scores: Scores) -> bool:
    """Whether scores on a CUDA device can be read as they are: logits of few bits, in a table."""
    return scores.input == "logits" and scores.array.ndim == 2 and arrays.dtype_name(scores.array) in _AS_THEY_ARE


def on_device(
    scores: Scores,
    labels: Any,
    weights: HostArray,
    classes: Classes,
    name: str,
    clusters: Clusters | None = None,
    groups: Groups | None = None,
) -> DeviceRows:
    """The rows as `DeviceRows`; ``name`` is what the caller calls the labels."""

    def in_blocks() -> ArrayRows:
        return ArrayRows(scores, class_indices(labels, classes, scores, name, weights), weights)

    columns = _columns(labels, scores) if classes is None else None
    if columns is None:
        columns = arrays.on_device_of(in_blocks().labels, scores.array)
    heavy = None if arrays.are_ones(weights) else arrays.on_device_of(weights, scores.array)
    return DeviceRows(scores, columns, heavy, in_blocks, clusters, groups)


def _columns(labels: Any, scores: Scores) -> Array | None:
    """Labels that are on the device already, for the kernel to check; None for all others."""
    flat = arrays.is_on_cuda(labels) and tuple(labels.shape) == (scores.n_samples,)
    if not flat or arrays.kind(labels) != "int" or labels.device != scores.array.device:
        return None
    return arrays.as_array(labels)
