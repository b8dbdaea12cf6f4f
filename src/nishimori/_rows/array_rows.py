"""Rows in an array of any library, in memory or on a device, and `ReadOptions`, which say how arrays become rows."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, Literal

import numpy as np

from nishimori._rows.batch import Batch, Clusters, Groups, Names
from nishimori._rows.fingerprint import digest_of
from nishimori._rows.labels import (
    PLAIN,
    Classes,
    Labelling,
    RowIndex,
    check_number_of_clusters,
    checked_weights,
    class_indices,
    numeric_weights,
)
from nishimori._rows.members import scores_of_members
from nishimori._rows.rows import Rows, T, most_copied, reads_unchecked, sum_by_class
from nishimori._rows.scores import Input, Members, ScoreRange, Scores, check_input, scores
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import is_whole, numeric
from nishimori._support.progress import Report, silent
from nishimori.errors import InputError, setting

# Of data with this many numbers more rows are read at a time, to hide the cost of calls.
_LARGE = 2**25
_ROWS_OF_LARGE = 2**16

# Up to this many numbers a sample is a copy of random rows. Larger ones are views of evenly spaced ones, which take no time,
# where a view can be had.
_MOST_RANDOM = 2**14

# A pass that notices by itself what a check would refuse is given enough numbers that a call takes a tenth of a second. One
# that reads each row several times says so (``n_sums``) and is given fewer.
_UNCHECKED_NUMBERS = 2**26


def clusters_of(clusters: Any, weights: HostArray, row: RowIndex = int, *, are_images: bool = False) -> Clusters:
    """The clusters of some rows, at least two of which must have a positive weight."""
    names, codes = Names.of_rows("cluster", clusters, weights, row, only_counted=True)
    check_number_of_clusters(len(names.values), are_images=are_images)
    return Clusters(codes, len(names.values), are_images)


def spread(n_rows: int, size: int) -> HostArray:
    """The numbers of ``size`` random rows, the same ones each time: one random row out of each n/size rows."""
    # Every n-th would alias with periodic data, and drawing them all from all rows would take longer than to compute with them.
    index: HostArray = ((np.arange(size) + np.random.default_rng(0).random(size)) * (n_rows / size)).astype(np.int64)
    return index


def strided(n_rows: int, size: int) -> slice:
    """The numbers of at least ``size`` evenly spaced rows. The step is prime, because data may be periodic."""
    step = n_rows // size
    while any(step % divisor == 0 for divisor in range(2, isqrt(step) + 1)):
        step -= 1
    return slice(None, None, step)


class ArrayRows(Rows):
    """Rows in an array of any library. The first pass checks the values of each block; later ones do not.

    ``at_once`` says whether a pass may try to take all rows unchecked. Where these are part of other rows, errors count from
    ``first_row``, and there are ``n_rows_in_all``.
    """

    def __init__(
        self,
        scores: Scores,
        labels: HostArray,
        weights: HostArray,
        first_row: int = 0,
        n_rows_in_all: int | None = None,
        clusters: Clusters | None = None,
        groups: Groups | None = None,
    ) -> None:
        self.scores = replace(scores, array=arrays.shared_numpy_view(scores.array))
        self.n_numbers = (n_rows_in_all or scores.n_samples) * scores.n_classes  # of all rows
        self.floor, self.input = scores.floor, scores.input
        self.labels = labels
        self.weights = weights
        self.clusters = clusters
        self.groups = groups
        self._first_row = first_row
        self._masked: dict[int, bool | None] = {}  # by the first row of a block that was checked
        is_here = scores.input == "logits" and isinstance(self.scores.array, np.ndarray) and not scores.is_scattered
        self.at_once = is_here and (arrays.are_ones(weights) or bool(weights.any()))

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
        return sum_by_class(self.labels, None if arrays.are_ones(self.weights) else self.weights, self.n_classes)

    def with_floor(self, floor: float | None) -> "ArrayRows":
        """A copy of these rows in which probabilities below ``floor`` are raised to it; None leaves them as passed."""
        duplicate = copy(self)
        duplicate.scores, duplicate.floor = replace(self.scores, floor=floor), floor
        return duplicate

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows, with few calls if it takes rows that were not checked."""
        if not (self.at_once and reads_unchecked(pass_, self._unchecked_batch(slice(0, self.n_rows)))):
            return super().gather(pass_, report)
        total: T | None = None
        step = max(1, _UNCHECKED_NUMBERS // (self.n_classes * getattr(pass_, "n_sums", 1)))
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            sums: T | None = pass_.of_unchecked(self._unchecked_batch(rows))  # type: ignore[attr-defined]
            if sums is None:  # something has to be masked or refused, which is done in blocks
                self.at_once = False
                return super().gather(pass_, report)
            total = sums if total is None else total + sums
            report("Reading", rows.stop, self.n_rows)
        assert total is not None, "there are rows"
        return total

    def _unchecked_batch(self, rows: slice) -> Batch:
        values = self.scores.array[rows]
        clusters = None if self.clusters is None else self.clusters.at_rows(rows)
        groups = None if self.groups is None else self.groups.at_rows(rows)
        return Batch(values, self.labels[rows], self.weights[rows], masked=False, clusters=clusters, groups=groups)

    def __iter__(self) -> Iterator[Batch]:
        """Blocks of a size that suits the device, so that memory holds only one of them besides the caller's array."""
        for rows in self._blocks():
            labels, weights, kept = self.labels[rows], self.weights[rows], None
            if not (arrays.are_ones(weights) or weights.all()):  # a weight of zero is zero copies: the row is not there
                (kept,) = np.nonzero(weights)
                if not len(kept):
                    continue
                labels, weights = labels[kept], weights[kept]
            unchanged = self.scores.at(rows) if kept is None else arrays.rows_at(self.scores.at(rows), kept)
            values = self.scores.widen(unchanged)
            if rows.start not in self._masked:
                first = self._first_row + rows.start
                numbers = range(first, self._first_row + rows.stop) if kept is None else first + kept
                self._masked[rows.start] = self.scores.check(values, numbers)
            logits, probabilities = self.scores.as_logits(values)
            true, heavy = arrays.on_device_of(labels, logits), arrays.on_device_of(weights, logits)
            clusters = None if self.clusters is None else self.clusters.at_rows(rows).at_rows(kept)
            groups = None if self.groups is None else self.groups.at_rows(rows).at_rows(kept)
            masked, rounding = self._masked[rows.start], self.scores.rounding
            half = unchanged if probabilities is None and arrays.is_half(unchanged) else None
            yield Batch(logits, true, heavy, probabilities, masked, rounding, clusters, groups, half)

    def _blocks(self) -> Iterator[slice]:
        return self.scores.blocks(_ROWS_OF_LARGE if self.n_numbers >= _LARGE else None)

    @property
    def has_masks(self) -> bool:
        """Whether a pass has found a masked class."""
        return any(self._masked.values())

    def trust(self, masked: bool | None) -> None:
        """Do not check values, because an earlier pass did; ``masked`` says whether blocks have masks (None: look)."""
        self.at_once = self.at_once and masked is False
        self._masked = dict.fromkeys((rows.start for rows in self._blocks()), masked)

    def sample(self, size: int) -> "ArrayRows | None":
        """About ``size`` of the rows, the same ones each time; None if all their weights are zero."""
        if 2 * size > self.n_rows:
            return self
        rows: slice | HostArray = strided(self.n_rows, size)
        if size * self.n_classes <= _MOST_RANDOM or self.scores.is_scattered:
            rows = spread(self.n_rows, most_copied(size, self.n_classes))
        labels = self.labels[rows]
        weights = arrays.ones(len(labels)) if arrays.are_ones(self.weights) else self.weights[rows]
        if not (arrays.are_ones(weights) or weights.any()):
            return None
        return ArrayRows(self.scores.sample(rows), labels, weights, n_rows_in_all=self.n_rows)


# --- how arrays become rows ------------------------------------------------------------------------------------------------

Guard = Literal["refuse", "warn", "defer"] | None
"""What happens to scores that look like probabilities: "refuse" unless the user said what they are, "warn" if they are measured
with a calibrator of logits, "defer" where whoever opens the rows judges them with others. None where it was said."""


@dataclass(frozen=True)
class ReadOptions:
    """What the user said about scores and labels; ``names`` are the names of these two arguments in the caller's signature.

    ``guard`` says what to do if scores look like probabilities though they are taken for logits. ``probability_remedy`` is
    what the message advises in place of saying what they are, and where they should be probabilities and are not;
    ``logits_setting`` is how to say that they are logits, if not with ``input``.
    ``labelling`` says which rows count. ``by_image`` if positions that share their first dimension are a cluster, where there
    are several dimensions: no other clusters were named.
    """

    input: Input = "logits"
    guard: Guard = None
    classes: Classes = None
    floor: float | None = None
    names: tuple[str, str] = ("logits", "labels")
    probability_remedy: str = ""
    logits_setting: str = ""
    labelling: Labelling = PLAIN
    class_axis: int = -1
    by_image: bool = False
    member_axis: int | None = None

    def scores(self, array: Any) -> Scores:
        """Scores whose type and shape have been checked; those of several members are pooled."""
        if self.member_axis is not None:
            check_input(self.input, self.floor)
            options: Any = {"input": self.input, "floor": self.floor, "remedy": self.probability_remedy}
            name = self.names[0]
            return scores_of_members(numeric(array, name), self.member_axis, class_axis=self.class_axis, name=name, **options)
        if self.class_axis != -1:
            array = classes_last(array, self.class_axis, self.names[0], by_image=self.by_image)
        return scores(array, input=self.input, name=self.names[0], floor=self.floor, remedy=self.probability_remedy)

    def range_of(self, table: Scores, weights: HostArray) -> ScoreRange | None:
        """The range of some scores; None if it need not be judged."""
        return None if self.guard is None else ScoreRange.from_scores(table, weights)

    def check_range(self, score_range: ScoreRange | None) -> None:
        """Refuse scores of this range, or warn about them, as the guard says."""
        if score_range is not None and self.guard == "refuse":
            score_range.check(self.names[0], self.probability_remedy, self.logits_setting)
        elif score_range is not None and self.guard == "warn":
            score_range.warn(self.names[0], self.probability_remedy)

    def parts(
        self, table: Scores, labels: Any, sample_weight: Any, clusters: Any, groups: Any
    ) -> tuple[Any, HostArray, Clusters | None, Groups | None]:
        """One label, checked weight, cluster and group per row of a table; the labels are not looked at yet."""
        labels, sample_weight = self.labelling.apply(labels, sample_weight, table, self.names[1])
        self.labelling.refuse_no_rows(sample_weight, self.names[1], labels)
        are_images = clusters is None and self.has_images(table)
        if are_images:
            clusters = np.arange(table.leading[0])
        clusters, groups = table.per_row(clusters, "clusters"), table.per_row(groups, "groups")
        weights = checked_weights(sample_weight, table.n_samples, table.row)
        together = None if clusters is None else clusters_of(clusters, weights, table.row, are_images=are_images)
        return labels, weights, together, None if groups is None else Groups.from_names(groups, table.n_samples, table.row)

    def has_images(self, table: Scores) -> bool:
        """Whether the rows of a table are pixels whose clusters are images."""
        return self.by_image and len(table.leading) > 1

    def rows(
        self,
        table: Scores,
        labels: Any,
        sample_weight: Any,
        first_row: int = 0,
        n_classes: int | None = None,
        n_rows_in_all: int | None = None,
    ) -> ArrayRows:
        """The rows of a table, their labels and weights checked. All weights may be zero.

        ``n_classes`` is the number of classes of the rows before, if there were any. Errors count from ``first_row``, and the
        size of blocks is that of ``n_rows_in_all``.
        """
        if n_classes is not None and table.n_classes != n_classes:
            raise InputError(self.names[0], f"have {n_classes} classes, like the rows before", got=table.n_classes)
        labels, sample_weight = self.labelling.apply(labels, sample_weight, table, self.names[1])
        if sample_weight is not None:
            sample_weight = numeric_weights(sample_weight)
            if sample_weight.shape == (table.n_samples,) and not sample_weight.any():
                return ArrayRows(table, np.zeros(table.n_samples, np.int64), sample_weight, first_row)
        weights = checked_weights(sample_weight, table.n_samples, lambda number: table.row(first_row + number))
        columns = class_indices(labels, self.classes, table, self.names[1], weights, first_row)
        return ArrayRows(table, columns, weights, first_row, n_rows_in_all)


def classes_last(logits: Any, class_axis: Any, name: str, *, by_image: bool = False) -> Any:
    """A view of the logits that has the classes in the last dimension.

    ``by_image`` if the first dimension is then that of images.
    """
    array = logits if arrays.is_lazy(logits) else numeric(logits, name)
    n_dimensions = len(array.shape)
    if not is_whole(class_axis) or not -n_dimensions <= class_axis < n_dimensions or n_dimensions < 2:
        must = f"be the number of a dimension of `{name}`, which has the shape {tuple(array.shape)}"
        raise InputError("class_axis", must, got=repr(class_axis))
    axis = int(class_axis) % n_dimensions
    if by_image and axis == 0 and n_dimensions > 2:
        raise no_images(class_axis)
    order = (*(other for other in range(n_dimensions) if other != axis), axis)
    return array.transpose(order) if arrays.is_lazy(logits) else arrays.namespace(array).permute_dims(array, order)


def no_images(class_axis: int) -> InputError:
    """The error where classes come first, so that the next dimension may be that of images or one of a single image."""
    alone = f"For one image, pass {setting('clusters', False)}"
    remedy = f"{alone}: pixels then count as independent, and standard errors are too small."
    return InputError(
        "clusters",
        f"be passed where {setting('class_axis', class_axis)}: no dimension before it can be that of images",
        remedy=remedy,
    )
