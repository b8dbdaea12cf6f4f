"""The decisions of a multilabel model as binary rows: one row per sample and label.

Everything that nishimori fits or measures on two classes then works on them. Only a block of rows is made at a time, from the
caller's own array. The group of a row is its label. Its cluster is its sample, because the labels of a sample are not
independent, or the cluster that the caller names.
"""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from nishimori._calibrators.multilabel.targets import UNKNOWN, check_missing, label_names, label_table
from nishimori._rows.array_rows import clusters_of, spread
from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.entry import kind_of, load_array, stored_scores
from nishimori._rows.labels import Classes, checked_weights
from nishimori._rows.rows import Rows, most_copied
from nishimori._rows.scores import FIT_AGAIN, Input, ScoreRange, Scores, check_input
from nishimori._rows.stored_rows import Stored
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace
from nishimori._support.numbers import numeric
from nishimori.errors import InputError

# Sums per cluster are as long as there are samples, and are added once per block: few large blocks keep that cheap.
_FEWEST_ROWS, _MOST_ROWS, _BLOCKS = 2**13, 2**18, 64

# This many scores are in memory at once where each label is fitted by itself, 16 MB in float64. If there are more, some labels
# are read after the others.
_MOST_SCORES = 2**21


# What to do with scores that are not finite, or too large; no class can be masked.
_NOT_FINITE = "Clip the scores, or find where the model produced them."

Column = tuple[Array, HostArray, dict[str, HostArray]]
"""The known decisions of one label: flat scores, 0 or 1, and weights and clusters (if there are any) as options of a fit."""


class Decisions(Rows):
    """Binary rows, L per sample; the first pass checks the scores of all known decisions.

    ``targets`` is a table of 1, 0 and -1 (not known). ``sample_clusters`` are samples that are not independent; None if the
    labels of a sample are to be taken as independent too.
    """

    def __init__(
        self,
        scores: Scores,
        targets: HostArray,
        weights: HostArray,
        names: tuple[Any, ...],
        sample_clusters: Clusters | None,
        *,
        checked: bool = False,
    ) -> None:
        self.scores, self.floor = scores, scores.floor
        self.targets = targets
        self.weights = weights
        self.names = names
        self.sample_clusters = sample_clusters
        self.groups = Groups(np.arange(len(names)), names)  # each batch has those of its rows
        self._checked = checked

    @property
    def n_classes(self) -> int:
        return 2

    @property
    def n_rows(self) -> int:
        return self.targets.size

    @property
    def clusters(self) -> Clusters | None:  # type: ignore[override]
        """How many clusters there are; each batch has the codes of its rows, and all of them would take much memory."""
        if self.sample_clusters is None:
            return None
        return Clusters(np.broadcast_to(np.int64(0), (self.n_rows,)), self.sample_clusters.number)

    def with_floor(self, floor: float | None) -> "Decisions":
        """A copy of these rows in which probabilities below ``floor`` are raised to it."""
        rows = copy(self)
        rows.scores, rows.floor = replace(self.scores, floor=floor), floor
        return rows

    def independent(self) -> "Decisions":
        """A copy of these rows without clusters."""
        return Decisions(self.scores, self.targets, self.weights, self.names, None, checked=self._checked)

    def __iter__(self) -> Iterator[Batch]:
        for first, values in self._blocks():
            batch = self._batch(first, values)
            if batch is not None:
                yield batch
        self._checked = True

    def sample(self, size: int) -> "Decisions | None":
        """The decisions of random samples, the same ones each time; None where that would take a pass."""
        n_samples, n_labels = self.targets.shape
        number = max(1, most_copied(size, self.n_classes) // n_labels)
        array = self.scores.array
        if isinstance(array, Stored):
            part = array.random_rows(number)
            if part is None:
                return None
            index, values = part
        else:
            index = spread(n_samples, number)
            values = arrays.rows_at(array, index)
        targets, weights = self.targets[index], self.weights[index]
        if not (weights[:, None] * (targets != UNKNOWN)).any():
            return None
        return Decisions(replace(self.scores, array=values), targets, weights, self.names, None)

    def by_label(self) -> Iterator[Column]:
        """The known decisions of each label, from one pass for each group of labels that are in memory at once."""
        n_samples, n_labels = self.targets.shape
        step = max(1, _MOST_SCORES // n_samples)
        for first in range(0, n_labels, step):
            places = range(first, min(first + step, n_labels))
            yield from map(self._column, places, _columns(self.scores.array, places))

    def _column(self, place: int, values: Array) -> Column:
        (kept,) = np.nonzero((self.targets[:, place] != UNKNOWN) & (self.weights > 0))
        options = {"sample_weight": self.weights[kept]}
        if self.sample_clusters is not None and not self.sample_clusters.are_rows:
            options["clusters"] = self.sample_clusters.codes[kept]
        return arrays.rows_at(values, kept), self.targets[kept, place], options

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        """The number of the first sample of each block, and the scores of its samples."""
        n_labels, array = len(self.names), self.scores.array
        most = min(max(_FEWEST_ROWS, self.n_rows // _BLOCKS), _MOST_ROWS)
        first = 0
        for part in array.blocks() if isinstance(array, Stored) else (array,):
            step, n_samples = max(1, arrays.rows_per_block(part, 2, most) // n_labels), int(part.shape[0])
            for start in range(0, n_samples, step):
                yield first + start, part[start : min(start + step, n_samples), ...]
            first += n_samples

    def _batch(self, first: int, values: Array) -> Batch | None:
        """The binary rows of some samples; None if none of their labels is known."""
        n_samples, n_labels = (int(length) for length in values.shape)
        rows = slice(first, first + n_samples)
        labels = self.targets[rows].reshape(-1).astype(np.int64)
        weights = np.repeat(self.weights[rows], n_labels)
        (kept,) = np.nonzero((labels != UNKNOWN) & (weights > 0))
        if not len(kept):
            return None
        array = namespace(values).reshape(values, (-1,))
        flat = replace(self.scores, array=array)
        stored = flat.at(slice(0, len(labels)))
        chosen = flat.widen(stored if len(kept) == len(labels) else arrays.rows_at(stored, kept))
        if not self._checked:
            check_values(chosen, flat, first * n_labels + kept, n_labels)
        logits, probabilities = flat.as_logits(chosen)
        samples, places = np.divmod(kept, n_labels)
        return Batch(
            logits,
            arrays.on_device_of(labels[kept], logits),
            arrays.on_device_of(weights[kept], logits),
            probabilities,
            masked=False,
            stored_rounding=flat.rounding,
            clusters=None if self.sample_clusters is None else self.sample_clusters.at_rows(rows).at_rows(samples),
            groups=Groups(places, self.names),
        )


def _columns(array: Array | Stored, places: range) -> Iterable[Array]:
    """Some columns; those of stored scores are the rows of a new array, which keeps no block in memory."""
    if not isinstance(array, Stored):
        return (array[:, place] for place in places)
    columns = np.empty((len(places), array.shape[0]), array.dtype)
    first = 0
    for values in array.blocks():
        columns[:, first : first + len(values)] = values[:, places.start : places.stop].T
        first += len(values)
    return columns


def open_decisions(
    scores: Scores, X: Any, y: Any, sample_weight: Any, clusters: Any, *, labels: Classes, missing: Any, label_name: str = "y"
) -> Decisions:
    """The decisions of a table of scores, which come from ``X``, and of labels, whose values and names are checked here."""
    n_samples, n_labels = (int(length) for length in scores.array.shape)
    y = load_array(y)
    targets = label_table(y, (n_samples, n_labels), check_missing(missing), label_name)
    names = label_names(labels, X, y, n_labels)
    weights = checked_weights(load_array(sample_weight), n_samples)
    if int(np.count_nonzero(weights)) < 2:
        raise InputError("X", "have at least two samples of positive weight", got=f"n_samples = {n_samples}")
    if not ((targets != UNKNOWN) & (weights > 0)[:, None]).any():
        raise InputError("Some label of some sample", "be known", got="none")
    sample_clusters = Clusters(np.arange(n_samples), n_samples)
    if clusters is not None:
        sample_clusters = clusters_of(load_array(clusters), weights)
    return Decisions(scores, targets, weights, names, sample_clusters)


def scores_in(X: Any, input: Input | None, floor: float | None, name: str = "X") -> Scores:
    """A table of scores, one column per label, whose type and shape have been checked; it may lie outside the memory."""
    check_input(input, floor)
    if arrays.is_lazy(X):
        raise InputError(name, "be in memory or in a file", got="a Dask array", remedy=f"Pass `{name}.compute()`.")
    must = "have shape (n_samples, n_labels)"
    if isinstance(X, list | tuple) and X and all(len(getattr(table, "shape", ())) == 2 for table in X):
        raise InputError(name, must, got=f"{len(X)} tables", remedy=_second_columns(name))
    array: Any = stored_scores(X)
    if array is None and kind_of(X) != "array":
        raise InputError(
            name,
            "be an array of shape (n_samples, n_labels), the path of a .npy file or an array in chunks",
            got=f"a {type(X).__name__}",
            remedy="Batches and tables cannot be read here: collect the scores first.",
        )
    if array is None:
        array = numeric(X, name)
    else:
        numeric(np.empty(0, array.dtype), name)
    shape = tuple(int(length) for length in array.shape)
    if len(shape) != 2:
        remedy = f"Reshape your data: for one label pass `{name}.reshape(-1, 1)`, for one sample `[{name}]`."
        raise InputError(name, must, got=shape, remedy=_second_columns(name) if shape[2:] == (2,) else remedy)
    if not all(shape):
        raise InputError(
            name,
            "have at least one sample and one label",
            got=f"{shape[0]} sample(s) and {shape[1]} feature(s) (shape={shape}) while a minimum of 1 is required",
        )
    return Scores(array, input or "logits", name, floor)


def refuse_probabilities(scores: Scores, weights: HostArray) -> None:
    """Refuse scores that look like probabilities, where the user has not said what they are."""
    _range_of(scores, weights).check(scores.name, of_labels=True)


def warn_of_sigmoids(scores: Scores, weights: HostArray) -> None:
    """Warn where scores to measure, which a calibrator takes for logits, look like probabilities."""
    score_range = _range_of(scores, weights)
    # Each is a probability of its own, whatever the sum of a row is.
    alone = replace(score_range, n_rows=score_range.n_rows * int(scores.array.shape[1]), is_flat=True, sum_to_one=False)
    alone.warn(scores.name, FIT_AGAIN)


def _range_of(scores: Scores, weights: HostArray) -> ScoreRange:
    """The range of a table of scores, as far as it leaves open what they are."""
    score_range, first = ScoreRange(), 0
    for block in scores.array.blocks() if isinstance(scores.array, Stored) else [scores.array]:
        score_range += ScoreRange.from_scores(replace(scores, array=block), weights[first : first + int(block.shape[0])])
        first += int(block.shape[0])
        if score_range.is_settled:
            break
    return score_range


def check_values(values: Array, scores: Scores, places: HostArray, n_labels: int) -> None:
    """Refuse flat scores that cannot be used; ``places`` count them through the table, row by row."""
    try:
        scores.check(values, places)
    except InputError as error:
        row, column = divmod(cast("int", error.row), n_labels)
        remedy = error.remedy if scores.input == "probabilities" else _NOT_FINITE
        raise error.changed(row=row, column=column, remedy=remedy) from None


def _second_columns(name: str) -> str:
    """What to do with the probabilities that forests, trees and neighbours of scikit-learn give for several labels."""
    return (
        "If these are a table per label whose second column is the probability that a sample has it, as a forest gives them, "
        f"pass `np.stack([table[:, 1] for table in {name}], axis=1)`."
    )
