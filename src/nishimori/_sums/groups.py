"""Sums over each group of rows: a few numbers per group, whatever the number of rows.

A group is what a class is predicted for, or what the user names. `MeasureGroups` gives each group a β of its own, for
temperatures per group: each row is scaled by the β of its group, and its distribution is that at β = 1 of the scaled row, so
that any kernel computes it. `TallyGroups` sums after a map, for confidence minus accuracy of each group and its error.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nishimori._kernels.kernel import Method, group_totals, row_sums, sums_groups
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, Sum
from nishimori._sums.observables import Confidence, Energy
from nishimori._sums.outcomes import OneClaim
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, apply_map, inverse_temperatures
from nishimori._sums.spread import sum_by_cluster
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError
from nishimori.maps.map import Map

By = Literal["prediction", "groups"]
"""The definition of groups: by predicted class, or by the user's names."""


def group_names(data: Rows) -> tuple[Any, ...]:
    """The names of the groups of rows, which must exist."""
    if data.groups is None:
        remedy = "Use by='prediction' for the predicted classes."
        raise InputError("groups", "name the group of each sample with by='groups'", got="none", remedy=remedy)
    return data.groups.names


@dataclass(frozen=True)
class Grouping:
    """Which of ``number`` groups a row belongs to."""

    by: By
    number: int

    def codes(self, batch: Batch, predicted: Array | None = None) -> HostArray:
        """The number of the group of each row; ``predicted`` are the predicted classes, if they are known."""
        if self.by == "prediction":
            return arrays.on_host(batch.top if predicted is None else predicted)
        assert batch.groups is not None, "data without groups are refused before they are read"
        return batch.groups.codes

    def sums(self, codes: HostArray, *rows: HostArray) -> HostArray:
        """The sums of several numbers per row over each group, (numbers, groups)."""
        return np.stack([np.bincount(codes, numbers, self.number) for numbers in rows])

    def by_cluster(self, batch: Batch, codes: HostArray, rows: HostArray) -> HostArray:
        """The sum of one number per row over each group and cluster."""
        assert batch.clusters is not None, "asked for only where there are clusters"
        return sum_by_cluster(batch.clusters, codes, rows, self.number, "groups")


@dataclass(frozen=True)
class GroupSums(Sum):
    """Sums over the rows of each group, each of shape (groups,); ``+`` adds other rows.

    Attributes
    ----------
    n_rows, weight : array
        How many rows there are, and their weight.
    gap : array
        Σw·g, where g is the average of the observable under the model minus its value at the true class.
    slope : array
        Its derivative in log β.
    model_variance : array
        The variance that the sum of gaps has if labels are drawn from the model: Σw²·Var(O).
    row_squares : array
        Σw²·g², the same as far as the labels show it, for independent rows. With counts, w instead of w² in both.
    clusters : array of shape (groups, clusters), or None
        The sum of the gaps of each group in each cluster, if rows belong to clusters.
    """

    n_rows: HostArray
    weight: HostArray
    gap: HostArray
    slope: HostArray
    model_variance: HostArray
    row_squares: HostArray
    clusters: HostArray | None = None

    @property
    def variance(self) -> HostArray:
        """The variance of the sum of gaps: from the labels, but not below the model's expectation.

        A group without a single error shows nearly no variance. A group whose confidence is far off shows more than expected.
        """
        squares = self.row_squares if self.clusters is None else np.einsum("gc,gc->g", self.clusters, self.clusters)
        return np.maximum(self.model_variance, squares)

    @property
    def n_units(self) -> HostArray:
        """How many independent rows or clusters each group has."""
        return self.n_rows if self.clusters is None else (self.clusters != 0).sum(axis=1)


@dataclass(frozen=True, eq=False)
class MeasureGroups:
    """The pass that gives the sums of each group at its own β; ``clustered`` if clusters of rows are independent."""

    grouping: Grouping
    observable: Confidence | Energy
    betas: HostArray
    counts: bool = False
    clustered: bool = False

    def __call__(self, batch: Batch) -> GroupSums:
        codes = self.grouping.codes(batch)
        scaled = scaled_rows(batch, self.betas[codes])
        # Neither curvature nor higher derivatives are used, so that one power more than the value needs is enough.
        view = Predictions(scaled, 1.0, row_sums(scaled, (1.0,), self.observable.powers + 1))
        gaps = self.observable.value(view, self.observable.observed(view))
        # Copied from a device together.
        table = arrays.on_host(batch.xp.stack([batch.weights, gaps, *self._slope_and_variance(view)]))
        weights, value, slope, variance = table
        units = weights if self.counts else weights**2
        rows = (weights, weights * value, weights * slope, units * variance, units * value**2)
        weight, gap, slope, expected, squares = self.grouping.sums(codes, *rows)
        clusters = self.grouping.by_cluster(batch, codes, weights * value) if self.clustered else None
        return GroupSums(np.bincount(codes, minlength=self.grouping.number), weight, gap, slope, expected, squares, clusters)

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether a kernel makes these sums, and notices what a check would refuse."""
        return not self.clustered and sums_groups(batch, self.betas)

    def of_unchecked(self, batch: Batch) -> GroupSums | None:
        """The sums of unchecked rows; None if they must be checked. Called only if `reads_unchecked` is true."""
        codes = None if self.grouping.by == "prediction" else self.grouping.codes(batch)
        method: Method = "ec" if isinstance(self.observable, Confidence) else "ts"
        totals = group_totals(batch, codes, self.betas, method, counts=self.counts)
        return None if totals is None else GroupSums(totals[0].astype(np.int64), *totals[1:])

    def _slope_and_variance(self, rows: Predictions) -> tuple[Array, Array]:
        """The slope of the gap, and the variance of the observable under the model: of a choice of two, or of the logit."""
        mean = rows.powers(1)[1, ...] * rows.top_probability
        if isinstance(self.observable, Confidence):
            return -rows.top_probability * mean, rows.top_probability * rows.doubt
        variance = rows.powers(2)[2, ...] * rows.top_probability - mean**2
        return variance, variance


def scaled_rows(batch: Batch, betas: HostArray) -> Batch:
    """The rows of a batch with logits minus the largest of their row, times a positive number per row."""
    # The difference first: a product of large logits would lose its digits.
    drops = arrays.minus_in_double(batch.logits, batch.peak)
    drops *= arrays.on_device_of(betas, drops)[:, None]
    return batch.with_logits(drops, same_top=True)


# --- after a map -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupTally(Sum):
    """Sums over each group: Σw, Σw·claimed, Σw·true, Σw·g, and of squares Σu, Σu·g, Σu·g², Σu·c(1-c). Those of other rows add.

    ``clusters`` are the sums of w·g and of w over each group and cluster, where clusters are independent.
    """

    n_rows: HostArray
    totals: HostArray
    squares: HostArray
    clusters: HostArray | None

    def at_groups(self, chosen: HostArray) -> "GroupTally":
        """The sums of some groups."""
        clusters = None if self.clusters is None else self.clusters[:, chosen]
        return GroupTally(self.n_rows[chosen], self.totals[:, chosen], self.squares[:, chosen], clusters)

    def variances(self, gaps: HostArray) -> HostArray:
        """The variance of the gap of each group, from the deviations of its rows or clusters."""
        if self.clusters is not None:
            deviations = self.clusters[0] - gaps[:, None] * self.clusters[1]
            summed = np.einsum("gc,gc->g", deviations, deviations)
        else:
            units, mixed, squares, _ = self.squares
            summed = squares - 2 * gaps * mixed + gaps**2 * units
        return np.maximum(summed, 0.0) / self.totals[0] ** 2

    @property
    def nulls(self) -> HostArray:
        """The variance of each gap if labels are drawn from the model, and rows are independent."""
        return self.squares[3] / self.totals[0] ** 2


@dataclass(frozen=True, eq=False)
class TallyGroups:
    """The pass that sums over each group after each of several maps; ``clustered`` if clusters of rows are independent.

    ``of`` is what is claimed of each row: that the predicted class is right, or that the second of two classes is true.
    """

    grouping: Grouping
    counts: bool
    clustered: bool
    maps: tuple[Map, ...] = ()
    of: OneClaim = "top"

    def __call__(self, batch: Batch) -> Sums:
        betas = tuple(dict.fromkeys(inverse_temperatures(self.maps)))
        shared = row_sums(batch, betas, 0) if betas else None
        mapped = (apply_map(map_, batch) for map_ in self.maps)
        return Sums(tuple(self.sums_of(Predictions(rows, beta, shared if rows is batch else None)) for rows, beta in mapped))

    def sums_of(self, predictions: Predictions) -> GroupTally:
        """The sums of each group over the rows of a batch, from their distribution after a map."""
        batch = predictions.batch
        if self.of == "top":
            hits = batch.xp.astype(predictions.right, batch.weights.dtype)
            numbers = [batch.weights, predictions.top_probability, predictions.doubt, hits]
            weights, confidence, doubt, hits = arrays.on_host(batch.xp.stack(numbers))
        else:
            weights, confidence = predictions.weights, predictions.claimed(self.of)[:, 0]
            doubt, hits = 1 - confidence, predictions.outcomes(self.of)[:, 0]
        codes, sums_of = self.grouping.codes(batch, predictions.top_class), self.grouping.sums
        gaps = np.where(hits > 0, -doubt, confidence)  # keeps its digits where the model is nearly sure
        units = weights if self.counts else weights**2
        clusters = None
        if self.clustered:
            by_cluster = self.grouping.by_cluster
            clusters = np.stack([by_cluster(batch, codes, weights * gaps), by_cluster(batch, codes, weights)])
        return GroupTally(
            np.bincount(codes, minlength=self.grouping.number),
            sums_of(codes, weights, weights * confidence, weights * hits, weights * gaps),
            sums_of(codes, units, units * gaps, units * gaps**2, units * confidence * doubt),
            clusters,
        )
