"""The sums behind scorecards, from one reading: totals of the scores of each row, sums per bin, and how both vary."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nishimori._rows.batch import MOST_CLUSTER_SUMS, Batch
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.census import at_zeros
from nishimori._sums.clusters import ClusterSums
from nishimori._sums.gibbs import Gibbs, sums_for_scores
from nishimori._sums.observables import Confidence
from nishimori._sums.passes import Sums
from nishimori._sums.reliability import Bins, Claims, Sorted, sort_claims
from nishimori._sums.spread import ClusterSpread, Spread, spread, unit_weights
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.claims import check_claims
from nishimori.maps.kinds import claims_to_check
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of

SCORES = ("error", "confidence", "brier", "nll")
"""The scores of a row whose means are metrics, in the order of all arrays here."""


@dataclass(frozen=True)
class GapSpread:
    """What the gaps of bins vary with, where rows are independent: sums of squares per bin."""

    products: HostArray
    crossed: HostArray
    nulls: HostArray

    def __add__(self, other: "GapSpread") -> "GapSpread":
        return GapSpread(self.products + other.products, self.crossed + other.crossed, self.nulls + other.nulls)

    def binned_gaps(self, bins: Bins, squares: float) -> BinnedGaps:
        """The gap of each bin, and how the gaps vary together."""
        weight = bins.weight.sum()
        gaps = (bins.confidence - bins.correct)[0] / weight
        return BinnedGaps(gaps, *(each / weight**2 for each in (self.products, self.crossed, squares, self.nulls)))


@dataclass(frozen=True)
class ClusterGapSpread:
    """What the gaps of bins vary with, where clusters are independent: gaps per bin and cluster, and weights of clusters."""

    gaps: ClusterSums
    weights: HostArray

    def __add__(self, other: "ClusterGapSpread") -> "ClusterGapSpread":
        return ClusterGapSpread(self.gaps + other.gaps, self.weights + other.weights)

    def binned_gaps(self, bins: Bins, squares: float) -> BinnedGaps:
        """The gap of each bin, and how the gaps vary together."""
        weight = bins.weight.sum()
        gaps = (bins.confidence - bins.correct)[0] / weight
        crossed = self.gaps.values @ self.weights
        return BinnedGaps(gaps, self.gaps.products / weight**2, crossed / weight**2, squares / weight**2)


@dataclass(frozen=True, eq=False)
class Scored:
    """The rows of a batch after a map: their scores and the bins of their confidences."""

    gibbs: Gibbs
    edges: HostArray

    @property
    def batch(self) -> Batch:
        return self.gibbs.batch

    @cached_property
    def rows(self) -> list[Any]:
        """The scores of each row."""
        return [-Confidence().observed(self.gibbs), self.gibbs.top, self.gibbs.brier, self.gibbs.nll]

    @cached_property
    def claims(self) -> Sorted:
        """The confidence of each row, and its bin."""
        return sort_claims(self.gibbs, self.edges)

    @cached_property
    def misses(self) -> HostArray:
        """Confidence minus correctness of each row."""
        found: HostArray = self.claims.claimed[:, 0] - self.claims.true[:, 0]
        return found

    def gap_spread(self, *, counts: bool) -> GapSpread | ClusterGapSpread:
        """What the gaps of bins vary with."""
        claims, batch = self.claims, self.batch
        if batch.clusters is not None:
            return self.cluster_gaps()
        units = unit_weights(batch, counts=counts)
        c = claims.claimed[:, 0]
        crossed = units * self.misses
        rows = (crossed * self.misses, crossed, units * (c * (1 - c)))
        return GapSpread(*(claims.sums_per_bin(each[:, None])[0] for each in rows))

    def cluster_gaps(self) -> ClusterGapSpread:
        """The gap of each bin in each cluster."""
        clusters, weights = self.batch.clusters, self.claims.weights[:, 0]
        assert clusters is not None, "asked for only where there are clusters"
        n_bins = self.edges.shape[1] - 1
        if n_bins * clusters.number > MOST_CLUSTER_SUMS:
            most = MOST_CLUSTER_SUMS // clusters.number
            raise InputError("n_bins", f"be at most {most} where there are {clusters.number} clusters", got=n_bins)
        places = self.claims.places[:, 0] * clusters.number + clusters.codes
        gaps = np.bincount(places, weights * self.misses, n_bins * clusters.number).reshape(n_bins, clusters.number)
        return ClusterGapSpread(ClusterSums(gaps), np.bincount(clusters.codes, weights, clusters.number))


@dataclass(frozen=True)
class ScoreSums:
    """The sums of some rows after a map; those of other rows add."""

    n_rows: int
    n_at_zeros: int
    weight: float
    totals: HostArray
    bins: Bins
    spread: Spread | ClusterSpread
    gap_spread: GapSpread | ClusterGapSpread

    @classmethod
    def of(cls, scored: Scored, n_at_zeros: int, *, counts: bool) -> "ScoreSums":
        """The sums of a batch after a map; ``n_at_zeros`` rows gave probability zero to their true class."""
        batch = scored.batch
        return cls(
            n_rows=batch.n_rows,
            n_at_zeros=n_at_zeros,
            weight=batch.weight,
            totals=batch.totals(scored.rows),
            bins=scored.claims.bins,
            spread=spread(batch, scored.rows, counts=counts),
            gap_spread=scored.gap_spread(counts=counts),
        )

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        return ScoreSums(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def means(self) -> HostArray:
        return self.totals / self.weight

    @property
    def errors(self) -> HostArray:
        """The standard error of each mean; NaN for an infinite one."""
        with np.errstate(invalid="ignore"):
            found: HostArray = np.sqrt(self.spread.around(self.means)) / self.weight
            return found

    @property
    def n_clusters(self) -> int | None:
        """How many clusters the rows belong to; None if each row is independent."""
        return int((self.gap_spread.weights > 0).sum()) if isinstance(self.gap_spread, ClusterGapSpread) else None

    @property
    def gaps(self) -> BinnedGaps:
        return self.gap_spread.binned_gaps(self.bins, self.spread.squares)


@dataclass(frozen=True, eq=False)
class MeasureScores:
    """The pass that sums the scores after several maps, one distribution at a time."""

    maps: tuple[Map, ...]
    edges: tuple[HostArray, ...]
    counts: bool = False

    def __call__(self, batch: Batch) -> Sums:
        zeros, scored = at_zeros(batch), score_after_maps(self.maps, self.edges, batch)
        return Sums(tuple(ScoreSums.of(each, zeros, counts=self.counts) for each in scored))


@dataclass(frozen=True)
class CollectClaims:
    """The pass that keeps the confidences at several maps."""

    maps: tuple[Map, ...]

    def __call__(self, batch: Batch) -> Sums:
        return Sums(tuple(Claims.of(Gibbs(*apply_map(each, batch)), "top") for each in self.maps))


def score_after_maps(maps: Sequence[Map], edges: Sequence[HostArray], batch: Batch) -> Iterator[Scored]:
    """A batch after each of several maps, one at a time; all that are temperatures take one call of the kernel together."""
    betas = inverse_temperatures(maps)
    known = sums_for_scores(batch, betas) if betas else None
    for map_, own in zip(maps, edges, strict=True):
        mapped, beta = apply_map(map_, batch)
        yield Scored(Gibbs(mapped, beta, known if mapped is batch else sums_for_scores(mapped, [beta])), own)


def inverse_temperatures(maps: Sequence[Map]) -> list[float]:
    """The β of those maps that are temperatures."""
    return [1 / temperature for map_ in maps if (temperature := temperature_of(map_)) is not None]


def apply_map(map_: Map, batch: Batch) -> tuple[Batch, float]:
    """A batch, and the β whose distribution of it is that after calibration."""
    temperature = temperature_of(map_)
    if temperature is not None:
        return batch, 1 / temperature
    mapped = map_.apply(batch.double, batch.groups)
    if claims_to_check(map_):
        check_claims(map_, batch.double, mapped)
    return batch.with_logits(mapped, same_top=map_.keeps_predictions), 1.0
