"""The statistics of calibration tests: the sum of one number per row, and the ECE of labels that are redrawn.

The mean of the number is zero if labels are drawn from the model.

If labels are drawn from the model, each row knows the variance of its own number: c(1 − c) for confidence minus correctness.
The sum of these variances over rows is the variance of the sum. It does not depend on the labels, so a sample without a single
wrong answer has it too. Labels of one cluster need not be independent: where there are clusters, the spread of their sums
takes its place. It is the spread around the mean deviation. Squares of the sums themselves would grow with a deviation that all
clusters share, and the statistic could never exceed the square root of the number of clusters.

The calibration error of labels that are redrawn from the model: what an ECE must exceed to be more than chance.

Confidences stay as they are, and with them the bins; each answer is drawn right with probability c. In a bin with many wrong
answers only their weighted sum is drawn, as a normal number, so that large data sets take no longer than small ones.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import copysign, inf, sqrt
from typing import Literal, NamedTuple

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, counts_of_clusters
from nishimori._sums.census import Census, Count
from nishimori._sums.observables import Confidence, Energy
from nishimori._sums.passes import Findings, KernelPass, together
from nishimori._sums.predictions import Predictions, apply_map
from nishimori._sums.spread import ClusterSums, cluster_sums
from nishimori._support.arrays import Array, HostArray
from nishimori.maps.map import Map

SeFrom = Literal["model", "sample"]
"""Whether a standard error is that of labels drawn from the model, or follows from the sample."""

# A mean deviation below this is rounding.
_ROUNDING = 64 * 2.0**-52

# A bin whose sum has a variance of at least this many squares of its largest weight gets a normal sum. The skewness of the sum
# is then at most 1/20. With normal sums in all bins, the size for 100 samples is 6 % (bench/results/calibration_tests.md).
_NORMAL_FROM = 400.0

# This many random numbers are held at once: 8 MiB.
_AT_ONCE = 2**20


class ScoredRows(NamedTuple):
    """One number per row, and its variance if labels are drawn from the model."""

    value: Array
    variance: Array


class RowScore(ABC):
    """Which number per row is summed."""

    @abstractmethod
    def rows(self, predictions: Predictions) -> ScoredRows:
        """The numbers of one batch."""


@dataclass(frozen=True)
class ConfidenceGap(RowScore):
    """Confidence minus correctness."""

    def rows(self, predictions: Predictions) -> ScoredRows:
        """The gap of expectation consistency, with variance c(1 − c)."""
        gap = Confidence().gap(predictions, Confidence().observed(predictions))
        return ScoredRows(gap.value, predictions.top_probability * predictions.doubt)


@dataclass(frozen=True)
class EnergyGap(RowScore):
    """Expected logit minus the logit of the true class."""

    def rows(self, predictions: Predictions) -> ScoredRows:
        """The gap of temperature scaling; the variance of the logit is its slope in β."""
        gap = Energy().gap(predictions, Energy().observed(predictions))
        return ScoredRows(gap.value, gap.slope)


@dataclass(frozen=True)
class BrierExcess(RowScore):
    """The Brier score of the row minus its mean under the model: 2(Σp² − p_y)."""

    def rows(self, predictions: Predictions) -> ScoredRows:
        """The variance is 4(Σp³ − (Σp²)²) = 4Σp(p − Σp²)², from p/p_top − 1, which keeps its digits near 0."""
        batch, xp = predictions.batch, predictions.batch.xp
        ratio = xp.expm1(predictions.beta * batch.drops)  # p/p_top − 1
        if batch.live is not None:
            ratio = xp.where(batch.live, ratio, -xp.ones_like(ratio))
        p = predictions.class_probabilities
        above = predictions.top_probability[:, None] * (ratio - predictions.over_classes(p * ratio)[:, None])  # p − Σp²
        return ScoredRows(-2 * batch.at(above, batch.labels), 4 * predictions.over_classes(p * above**2))


@dataclass(frozen=True)
class Deviation:
    """The sum over all rows, and its variance under the hypothesis."""

    total: float
    variance: float
    weight: float
    se_from: SeFrom

    @property
    def mean(self) -> float:
        return self.total / self.weight

    @property
    def se(self) -> float:
        """The standard error of the mean."""
        return sqrt(max(self.variance, 0.0)) / self.weight

    @property
    def statistic(self) -> float:
        """The sum over its standard deviation; infinite where labels contradict what the model is certain of."""
        if self.variance > 0:
            return self.total / sqrt(self.variance)
        is_rounding = abs(self.total) <= _ROUNDING * self.weight
        return 0.0 if is_rounding else copysign(inf, self.total)


@dataclass(frozen=True)
class _DeviationSums:
    """Σwg, Σw²v and Σwv."""

    total: float
    square_variance: float
    variance: float

    def __add__(self, other: "_DeviationSums") -> "_DeviationSums":
        return _DeviationSums(
            self.total + other.total,
            self.square_variance + other.square_variance,
            self.variance + other.variance,
        )


@dataclass(frozen=True)
class _Deviate(KernelPass[_DeviationSums | ClusterSums]):
    """The pass that sums the numbers of all rows, or these and the weights over each cluster."""

    score: RowScore
    map_: Map
    in_clusters: bool

    def with_findings(self, batch: Batch) -> tuple[_DeviationSums | ClusterSums, Findings]:
        """The sums of a batch, and its distribution, unless the map gives other logits."""
        predictions = Predictions(*apply_map(self.map_, batch))
        rows = self.score.rows(predictions)
        return self._sums(batch, rows), predictions if predictions.batch is batch else Predictions(batch, 1.0)

    def _sums(self, batch: Batch, rows: ScoredRows) -> _DeviationSums | ClusterSums:
        if self.in_clusters:
            return cluster_sums(batch, [rows.value, batch.xp.ones_like(rows.value)])
        (square_variance,) = batch.totals([rows.variance], squared=True).tolist()
        total, variance = batch.totals(rows).tolist()
        return _DeviationSums(total, square_variance, variance)


@question("has no rows to sum over")
def deviation(data: Rows, score: RowScore, map_: Map, *, counts: bool) -> tuple[Deviation, Census]:
    """The sum over all rows after a map, from one pass; with ``counts`` a weight of w stands for w independent rows."""
    in_clusters = data.clusters is not None
    if in_clusters and counts:
        raise counts_of_clusters()
    sums, census = data.gather(together(_Deviate(score, map_, in_clusters), Count(Confidence()))).items
    if in_clusters:
        return _among_clusters(sums), census
    return Deviation(sums.total, sums.variance if counts else sums.square_variance, census.weight, "model"), census


def _among_clusters(sums: ClusterSums) -> Deviation:
    """The sum and its variance from the sums s and the weights w of all clusters, Σ(s − mean·w)²."""
    values, weights = sums.values
    total, weight = float(values.sum()), float(weights.sum())
    return Deviation(total, float(((values - total / weight * weights) ** 2).sum()), weight, "sample")


# Labels that are redrawn


@dataclass(frozen=True)
class RedrawnAnswers:
    """The bin, the doubt 1 − c, the weight and the correctness of each row: it grows with the rows, 25 bytes each."""

    parts: tuple[tuple[HostArray, HostArray, HostArray, HostArray], ...]

    def __add__(self, other: "RedrawnAnswers") -> "RedrawnAnswers":
        return RedrawnAnswers(self.parts + other.parts)


@dataclass(frozen=True, eq=False)
class Answer:
    """The pass that keeps the bin, the doubt, the weight and the correctness of each row after a map."""

    edges: HostArray
    map_: Map

    def __call__(self, batch: Batch) -> RedrawnAnswers:
        claims = Predictions(*apply_map(self.map_, batch)).bin_claims(self.edges)
        return RedrawnAnswers(((claims.places[:, 0], 1 - claims.claimed[:, 0], claims.weights[:, 0], claims.true[:, 0]),))


class RedrawnECE:
    """The ECE of some answers, and that of answers drawn from the model with the same confidences."""

    def __init__(self, answers: RedrawnAnswers, n_bins: int) -> None:
        parts = zip(*answers.parts, strict=True)
        self.index, self.doubt, self.weights, self.right = (np.concatenate(each) for each in parts)
        self.n_bins = n_bins
        self.variance = self._per_bin(self.weights**2 * self.doubt * (1 - self.doubt))
        heaviest = np.zeros(n_bins)
        np.maximum.at(heaviest, self.index, self.weights)
        self.is_normal = (self.variance >= _NORMAL_FROM * heaviest**2) & (heaviest > 0)

    def _per_bin(self, values: HostArray) -> HostArray:
        return np.bincount(self.index, values, self.n_bins)

    @property
    def observed(self) -> float:
        """The ECE of the labels."""
        return float(np.abs(self._per_bin(self.weights * (~self.right - self.doubt))).sum() / self.weights.sum())

    def draw_eces(self, n_draws: int, seed: int) -> HostArray:
        """The ECE of each of some draws."""
        rng = np.random.default_rng(seed)
        rows = np.flatnonzero(~self.is_normal[self.index])
        at_once = max(1, _AT_ONCE // max(self.n_bins, len(rows)))
        parts = [self._draw(rng, rows, min(at_once, n_draws - start)) for start in range(0, n_draws, at_once)]
        return np.concatenate(parts)

    def _draw(self, rng: np.random.Generator, rows: HostArray, number: int) -> HostArray:
        draw, place = np.nonzero(rng.random((number, len(rows))) < self.doubt[rows])
        row = rows[place]
        sums = np.bincount(draw * self.n_bins + self.index[row], self.weights[row], number * self.n_bins)
        expected = np.bincount(self.index[rows], (self.weights * self.doubt)[rows], self.n_bins)
        normal = rng.normal(size=(number, self.n_bins)) * np.sqrt(self.variance * self.is_normal)
        gaps = sums.reshape(number, self.n_bins) - expected + normal
        ece: HostArray = np.abs(gaps).sum(axis=1) / self.weights.sum()
        return ece
