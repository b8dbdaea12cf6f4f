"""The sum of one number per row whose mean is zero if labels are drawn from the model, and the variance of that sum.

If labels are drawn from the model, each row knows the variance of its own number: c(1 − c) for confidence minus correctness.
The sum of these variances over rows is the variance of the sum. It does not depend on the labels, so a sample without a single
wrong answer has it too. Labels of one cluster need not be independent: where there are clusters, the spread of their sums
takes its place. It is the spread around the mean deviation. Squares of the sums themselves would grow with a deviation that all
clusters share, and the statistic could never exceed the square root of the number of clusters.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import copysign, inf, sqrt
from typing import NamedTuple

from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, clusters_in, counts_of_clusters
from nishimori._sums.census import Census, Count
from nishimori._sums.clusters import ClusterSums, cluster_sums
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.observables import Confidence, Energy
from nishimori._sums.passes import Findings, KernelPass, together
from nishimori._sums.predictions import apply_map
from nishimori._support.arrays import Array
from nishimori.maps.map import Map

# A mean deviation below this is rounding.
_ROUNDING = 64 * 2.0**-52


class ScoredRows(NamedTuple):
    """One number per row, and its variance if labels are drawn from the model."""

    value: Array
    variance: Array


class RowScore(ABC):
    """Which number per row is summed."""

    @abstractmethod
    def rows(self, gibbs: Gibbs) -> ScoredRows:
        """The numbers of one batch."""


@dataclass(frozen=True)
class ConfidenceGap(RowScore):
    """Confidence minus correctness."""

    def rows(self, gibbs: Gibbs) -> ScoredRows:
        """The gap of expectation consistency, with variance c(1 − c)."""
        gap = Confidence().gap(gibbs, Confidence().observed(gibbs))
        return ScoredRows(gap.value, gibbs.top * gibbs.doubt)


@dataclass(frozen=True)
class EnergyGap(RowScore):
    """Expected logit minus the logit of the true class."""

    def rows(self, gibbs: Gibbs) -> ScoredRows:
        """The gap of temperature scaling; the variance of the logit is its slope in β."""
        gap = Energy().gap(gibbs, Energy().observed(gibbs))
        return ScoredRows(gap.value, gap.slope)


@dataclass(frozen=True)
class BrierExcess(RowScore):
    """The Brier score of the row minus its mean under the model: 2(Σp² − p_y)."""

    def rows(self, gibbs: Gibbs) -> ScoredRows:
        """The variance is 4(Σp³ − (Σp²)²) = 4Σp(p − Σp²)², from p/p_top − 1, which keeps its digits near 0."""
        batch, xp = gibbs.batch, gibbs.batch.xp
        ratio = xp.expm1(gibbs.beta * batch.drops)  # p/p_top − 1
        if batch.live is not None:
            ratio = xp.where(batch.live, ratio, -xp.ones_like(ratio))
        p = gibbs.probabilities
        above = gibbs.top[:, None] * (ratio - gibbs.over_classes(p * ratio)[:, None])  # p − Σp²
        return ScoredRows(-2 * batch.at(above, batch.labels), 4 * gibbs.over_classes(p * above**2))


@dataclass(frozen=True)
class Deviation:
    """The sum over all rows, and its variance under the hypothesis."""

    total: float
    variance: float
    weight: float

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

    def with_found(self, batch: Batch) -> tuple[_DeviationSums | ClusterSums, Findings]:
        """The sums of a batch, and its distribution, unless the map gives other logits."""
        gibbs = Gibbs(*apply_map(self.map_, batch))
        rows = self.score.rows(gibbs)
        return self._sums(batch, rows), gibbs if gibbs.batch is batch else batch

    def _sums(self, batch: Batch, rows: ScoredRows) -> _DeviationSums | ClusterSums:
        if self.in_clusters:
            return cluster_sums(batch, [rows.value, batch.xp.ones_like(rows.value)])
        (square_variance,) = batch.totals([rows.variance], squared=True).tolist()
        total, variance = batch.totals(rows).tolist()
        return _DeviationSums(total, square_variance, variance)


def deviation(data: Rows, score: RowScore, map_: Map, *, counts: bool) -> tuple[Deviation, Census]:
    """The sum over all rows after a map, from one pass; with ``counts`` a weight of w stands for w independent rows."""
    in_clusters = clusters_in(data) is not None
    if in_clusters and counts:
        raise counts_of_clusters()
    sums, census = data.gather(together(_Deviate(score, map_, in_clusters), Count(Confidence()))).items
    if in_clusters:
        return _among_clusters(sums), census
    return Deviation(sums.total, sums.variance if counts else sums.square_variance, census.weight), census


def _among_clusters(sums: ClusterSums) -> Deviation:
    """The sum and its variance from the sums s and the weights w of all clusters, Σ(s − mean·w)²."""
    values, weights = sums.values
    total, weight = float(values.sum()), float(weights.sum())
    return Deviation(total, float(((values - total / weight * weights) ** 2).sum()), weight)
