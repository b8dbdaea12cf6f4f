"""Sums over the decisions about each label: what the scores of labels are made of, from one pass."""

from dataclasses import dataclass

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._sums.groups import Grouping
from nishimori._sums.predictions import Predictions, apply_map, sums_for_scores
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.maps.map import Map

TOTALS = ("weight", "probability", "presence", "brier", "nll")
"""The weighted sums per label, in the order of `LabelSums.totals`; the first is that of the weights themselves."""


@dataclass(frozen=True)
class LabelSums:
    """Sums over the known decisions about each label; those of other decisions add.

    Attributes
    ----------
    n_rows : array of shape (labels,)
        How many decisions are known.
    totals : array of shape (5, labels)
        See `TOTALS`.
    squares : array of shape (4, labels)
        Σw²d², Σw²d, Σw² and Σw²p(1 - p), where d is the probability p minus whether the label is there.
    bins : array of shape (labels, bins)
        Σw·d over the decisions whose p is in a bin.
    clusters : array of shape (2, labels, clusters) or None
        Σw·d and Σw over each cluster, if samples belong to clusters.
    """

    n_rows: HostArray
    totals: HostArray
    squares: HostArray
    bins: HostArray
    clusters: HostArray | None

    def __add__(self, other: "LabelSums") -> "LabelSums":
        clusters = None if self.clusters is None or other.clusters is None else self.clusters + other.clusters
        return LabelSums(
            self.n_rows + other.n_rows,
            self.totals + other.totals,
            self.squares + other.squares,
            self.bins + other.bins,
            clusters,
        )

    @property
    def means(self) -> HostArray:
        """The totals, each divided by the weight of its label; NaN for a label that is never known."""
        with np.errstate(invalid="ignore"):
            means: HostArray = self.totals / self.totals[0]
            return means

    @property
    def gaps(self) -> HostArray:
        """Mean probability minus prevalence."""
        gaps: HostArray = self.means[1] - self.means[2]
        return gaps

    @property
    def gap_errors(self) -> HostArray:
        """The standard errors of the gaps: what the labels show, but not less than what a calibrated model would have."""
        gaps, (products, crossed, squares, null) = np.nan_to_num(self.gaps), self.squares
        shown = products - 2 * gaps * crossed + gaps**2 * squares
        if self.clusters is not None:
            deviations = self.clusters[0] - gaps[:, None] * self.clusters[1]
            shown = np.einsum("lc,lc->l", deviations, deviations)
        with np.errstate(invalid="ignore"):
            errors: HostArray = np.sqrt(np.maximum(shown, null)) / self.totals[0]
            return errors

    @property
    def calibration_errors(self) -> HostArray:
        """The expected calibration error of the probability of each label."""
        with np.errstate(invalid="ignore"):
            errors: HostArray = np.abs(self.bins).sum(axis=1) / self.totals[0]
            return errors


@dataclass(frozen=True, eq=False)
class MeasureLabels:
    """The pass that gives the sums of each label after a map; ``clustered`` if the caller named clusters of samples."""

    map_: Map
    edges: HostArray
    n_labels: int
    clustered: bool

    def __call__(self, batch: Batch) -> LabelSums:
        mapped, beta = apply_map(self.map_, batch)
        predictions = Predictions(mapped, beta, sums_for_scores(mapped, [beta]))
        claims = predictions.bin_claims(self.edges, "positive")
        grouping = Grouping("groups", self.n_labels)
        codes, n_bins = grouping.codes(batch), self.edges.shape[1] - 1
        p, there, weights = claims.claimed[:, 0], claims.true[:, 0], claims.weights[:, 0]
        brier, nll = arrays.on_host(batch.xp.stack([predictions.brier, predictions.nll]))
        misses, units = p - there, weights**2

        def sums_per_label(values: HostArray) -> HostArray:
            return np.bincount(codes, values, self.n_labels)

        places = codes * n_bins + claims.places[:, 0]
        sums = (weights, weights * misses)
        clusters = [grouping.by_cluster(batch, codes, rows) for rows in reversed(sums)] if self.clustered else None
        return LabelSums(
            n_rows=np.bincount(codes, minlength=self.n_labels),
            totals=np.stack([sums_per_label(weights), *(sums_per_label(weights * rows) for rows in (p, there, brier, nll))]),
            squares=np.stack([sums_per_label(units * rows) for rows in (misses**2, misses, np.ones_like(p), p * (1 - p))]),
            bins=np.bincount(places, sums[1], self.n_labels * n_bins).reshape(self.n_labels, n_bins),
            clusters=None if clusters is None else np.stack(clusters),
        )
