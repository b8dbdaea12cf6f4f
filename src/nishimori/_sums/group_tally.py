"""Sums over groups after a map: what confidence minus accuracy of each group, and its error, are made of."""

from dataclasses import dataclass

import numpy as np

from nishimori._kernels.row_sums import row_sums
from nishimori._rows.batch import Batch
from nishimori._sums.groups import Grouping
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, apply_map, inverse_temperatures
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.maps.map import Map


@dataclass(frozen=True)
class GroupTally:
    """Sums over each group: Σw, Σw·confidence, Σw·right, and of squares Σu, Σu·g, Σu·g², Σu·c(1-c). Those of other rows add.

    ``clusters`` are the sums of w·g and of w over each group and cluster, where clusters are independent.
    """

    n_rows: HostArray
    totals: HostArray
    squares: HostArray
    clusters: HostArray | None

    def __add__(self, other: "GroupTally") -> "GroupTally":
        clusters = None if self.clusters is None or other.clusters is None else self.clusters + other.clusters
        return GroupTally(self.n_rows + other.n_rows, self.totals + other.totals, self.squares + other.squares, clusters)

    def of(self, known: HostArray) -> "GroupTally":
        """The sums of some groups."""
        clusters = None if self.clusters is None else self.clusters[:, known]
        return GroupTally(self.n_rows[known], self.totals[:, known], self.squares[:, known], clusters)

    def variances(self, gaps: HostArray) -> HostArray:
        """The variance of the gap of each group, from the deviations of its rows or clusters."""
        if self.clusters is not None:
            deviations = self.clusters[0] - gaps[:, None] * self.clusters[1]
            summed = np.einsum("gc,gc->g", deviations, deviations)
        else:
            units, mixed, squares, _ = self.squares
            summed = squares - 2 * gaps * mixed + gaps**2 * units
        found: HostArray = np.maximum(summed, 0.0) / self.totals[0] ** 2
        return found

    @property
    def nulls(self) -> HostArray:
        """The variance of each gap if labels are drawn from the model, and rows are independent."""
        found: HostArray = self.squares[3] / self.totals[0] ** 2
        return found


@dataclass(frozen=True, eq=False)
class TallyGroups:
    """The pass that sums over each group after each of several maps; ``clustered`` if clusters of rows are independent."""

    grouping: Grouping
    counts: bool
    clustered: bool
    maps: tuple[Map, ...] = ()

    def __call__(self, batch: Batch) -> Sums:
        betas = tuple(dict.fromkeys(inverse_temperatures(self.maps)))
        shared = row_sums(batch, betas, 0) if betas else None
        mapped = (apply_map(map_, batch) for map_ in self.maps)
        return Sums(tuple(self.sums_of(Predictions(rows, beta, shared if rows is batch else None)) for rows, beta in mapped))

    def sums_of(self, predictions: Predictions) -> GroupTally:
        """The sums of each group over the rows of a batch, from their distribution after a map."""
        batch = predictions.batch
        numbers = [
            batch.weights,
            predictions.top_probability,
            predictions.doubt,
            batch.xp.astype(predictions.right, batch.weights.dtype),
        ]
        weights, confidence, doubt, hits = arrays.on_host(batch.xp.stack(numbers))
        codes, number = self.grouping.codes(batch, predictions.top_class), self.grouping.number
        gaps = np.where(hits > 0, -doubt, confidence)  # keeps its digits where the model is nearly sure
        units = weights if self.counts else weights**2

        def sums_per_group(*rows: HostArray) -> HostArray:
            return np.stack([np.bincount(codes, each, number) for each in rows])

        clusters = None
        if self.clustered:
            by_cluster = self.grouping.by_cluster
            clusters = np.stack([by_cluster(batch, codes, weights * gaps), by_cluster(batch, codes, weights)])
        return GroupTally(
            np.bincount(codes, minlength=number),
            sums_per_group(weights, weights * confidence, weights * hits, weights * gaps),
            sums_per_group(units, units * gaps, units * gaps**2, units * confidence * doubt),
            clusters,
        )
