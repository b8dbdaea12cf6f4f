"""What a model says about the rows of a batch after a map: what every metric is made of.

`Predictions` are what a `Metric` gets. Sums per bin of confidence, and how these vary, serve the reliability curve and the ECE.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

import numpy as np

from nishimori._kernels.scores import BinTotals
from nishimori._rows.batch import MOST_CLUSTER_SUMS, Batch
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.clusters import ClusterSums
from nishimori._sums.gibbs import Gibbs, sums_for_scores
from nishimori._sums.outcomes import OneClaim
from nishimori._sums.passes import Sums
from nishimori._sums.reliability import Bins, Reliability, Sorted, UnbinnedClaims, claims, sort_claims, uniform_edges
from nishimori._sums.spread import unit_weights
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError
from nishimori.maps.claims import check_claims
from nishimori.maps.floored import Floored
from nishimori.maps.kinds import claims_to_check
from nishimori.maps.map import Map, apply_checked
from nishimori.maps.temperature import temperature_of

POSITIVE_EDGES = uniform_edges(15)
"""The bins of the probability of the second of two classes."""


@dataclass(frozen=True)
class GapSpread:
    """What the gaps of bins vary with, where rows are independent: sums of squares per bin, and of squared weights."""

    products: HostArray
    crossed: HostArray
    nulls: HostArray
    squares: float

    def __add__(self, other: "GapSpread") -> "GapSpread":
        return GapSpread(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def binned_gaps(self, bins: Bins) -> BinnedGaps:
        """The gap of each bin, and how the gaps vary together."""
        weight = bins.weight.sum()
        gaps = (bins.confidence - bins.correct)[0] / weight
        products, crossed, squares, nulls = (
            each / weight**2 for each in (self.products, self.crossed, self.squares, self.nulls)
        )
        return BinnedGaps(gaps, products, crossed, squares, nulls, float(bins.correct.sum() / weight))


@dataclass(frozen=True)
class ClusterGapSpread:
    """What the gaps of bins vary with, where clusters are independent: gaps per bin and cluster, and weights of clusters.

    ``nulls`` are those of independent rows: how labels of one cluster depend on each other, a calibrated model does not say.
    """

    gaps: ClusterSums
    weights: HostArray
    nulls: HostArray

    def __add__(self, other: "ClusterGapSpread") -> "ClusterGapSpread":
        return ClusterGapSpread(self.gaps + other.gaps, self.weights + other.weights, self.nulls + other.nulls)

    def binned_gaps(self, bins: Bins) -> BinnedGaps:
        """The gap of each bin, and how the gaps vary together."""
        weight = bins.weight.sum()
        gaps = (bins.confidence - bins.correct)[0] / weight
        crossed, squares = self.gaps.values @ self.weights, float(self.weights @ self.weights)
        products, crossed, squares, nulls = (each / weight**2 for each in (self.gaps.products, crossed, squares, self.nulls))
        return BinnedGaps(gaps, products, crossed, squares, nulls, float(bins.correct.sum() / weight))


@dataclass(frozen=True)
class BinSums:
    """Sums per bin of confidence and how they vary; those of other rows add."""

    bins: Bins
    spread: GapSpread | ClusterGapSpread

    def __add__(self, other: "BinSums") -> "BinSums":
        # Both are of one kind: either all rows have clusters or none has.
        return BinSums(self.bins + other.bins, self.spread + other.spread)  # type: ignore[operator]

    @classmethod
    def of_totals(cls, edges: HostArray, found: BinTotals, units: float) -> "BinSums":
        """From the sums of a kernel over independent rows; ``units`` is the sum of their squared weights."""
        weight, confidence, correct, squares, products, crossed, nulls = found
        bins = Bins(edges, weight[None], confidence[None], correct[None], squares[None])
        return cls(bins, GapSpread(products, crossed, nulls, units))

    @cached_property
    def curve(self) -> Reliability:
        """Confidence against accuracy, bin by bin."""
        return Reliability.from_bins(self.bins)

    @cached_property
    def gaps(self) -> BinnedGaps:
        """The gap of each bin, and how the gaps vary together."""
        return self.spread.binned_gaps(self.bins)

    @property
    def n_clusters(self) -> int | None:
        """How many clusters the rows belong to; None if each row is independent."""
        return int((self.spread.weights > 0).sum()) if isinstance(self.spread, ClusterGapSpread) else None


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about some samples after calibration, and what is true: what a `Metric` gets.

    All arrays are NumPy's, whatever library the data come from, with an entry or a row per sample.

    Attributes
    ----------
    labels : integer array of shape (n,)
        The column of each true class.
    probabilities : array of shape (n, n_classes)
        The calibrated probability of each class.
    predicted : integer array of shape (n,)
        The column of each predicted class.
    confidence : array of shape (n,)
        The probability of each predicted class.
    correct : boolean array of shape (n,)
        Whether each predicted class is the true one.
    log_likelihood : array of shape (n,)
        The logarithm of the probability of each true class, exact also where the probability rounds to 0 or 1.
    weights : array of shape (n,)
        The weight of each sample. What `Metric.of_rows` returns is weighted later.
    n_classes : int
        How many classes there are.
    clusters : integer array of shape (n,), or None
        The number of the cluster of each sample, where samples belong together.
    counts : bool
        Whether a weight of w stands for w independent samples.

    Notes
    -----
    Of top-k log-probabilities, `confidence` and `correct` are known for sure, and `labels`, `predicted` and `probabilities` are
    refused: their columns are places in the lists.
    """

    gibbs: Gibbs
    edges: HostArray
    counts: bool = False
    of: OneClaim = "top"  # what bins are about
    zero: float | None = None  # what replaces a true class's probability of 0 in losses; None for the least of its dtype

    @cached_property
    def positive(self) -> "Predictions":
        """The same, with bins of the probability of the second of two classes in place of those of the predicted class."""
        return replace(self, edges=POSITIVE_EDGES, of="positive")

    @property
    def batch(self) -> Batch:
        """The rows, with their logits after all maps but a temperature."""
        return self.gibbs.batch

    @property
    def n_classes(self) -> int:
        return self.batch.n_classes

    @property
    def clusters(self) -> HostArray | None:
        return None if self.batch.clusters is None else self.batch.clusters.codes

    def _refuse_lists(self, name: str) -> None:
        if not self.batch.has_all_classes:
            raise InputError(
                f"A metric of top-k log-probabilities must not use `{name}`: their columns are places in the lists. Pass all "
                "logits, or use `confidence` and `correct`."
            )

    @cached_property
    def labels(self) -> HostArray:
        self._refuse_lists("labels")
        return arrays.on_host(self.batch.labels)

    @cached_property
    def weights(self) -> HostArray:
        return arrays.on_host(self.batch.weights)

    @cached_property
    def probabilities(self) -> HostArray:
        self._refuse_lists("probabilities")
        return claims(self.gibbs, "classwise")

    @cached_property
    def predicted(self) -> HostArray:
        self._refuse_lists("predicted")
        return arrays.on_host(self.gibbs.predicted)

    @cached_property
    def confidence(self) -> HostArray:
        return claims(self.gibbs, "top")[:, 0]

    @cached_property
    def correct(self) -> HostArray:
        return arrays.on_host(self.gibbs.right)

    @cached_property
    def losses(self) -> Array:
        """The loss of each row, in the array library of the batch."""
        if self.zero is None or self.batch.given is None:
            return self.gibbs.nll
        batch, xp = self.batch, self.batch.xp
        is_zero = batch.at(batch.given, batch.labels) == 0
        return xp.where(is_zero, xp.full_like(self.gibbs.nll, -log(self.zero)), self.gibbs.nll)

    @cached_property
    def log_likelihood(self) -> HostArray:
        return -arrays.on_host(self.losses)

    @cached_property
    def claims(self) -> Sorted:
        """What is claimed of each row, and its bin."""
        return sort_claims(self.gibbs, self.edges, self.of)

    @cached_property
    def misses(self) -> HostArray:
        """What is claimed of each row minus whether it came true."""
        found: HostArray = self.claims.claimed[:, 0] - self.claims.true[:, 0]
        return found

    @cached_property
    def binned(self) -> BinSums:
        """Sums per bin of what is claimed, and how they vary."""
        return BinSums(self.claims.bins, self._gap_spread())

    def _gap_spread(self) -> GapSpread | ClusterGapSpread:
        """What the gaps of bins vary with."""
        claims, batch = self.claims, self.batch
        units = unit_weights(batch, counts=self.counts)
        c = claims.claimed[:, 0]
        nulls = claims.sums_per_bin((units * (c * (1 - c)))[:, None])[0]
        if batch.clusters is not None:
            return self._cluster_gaps(nulls)
        crossed = units * self.misses
        products, crossed = (claims.sums_per_bin(each[:, None])[0] for each in (crossed * self.misses, crossed))
        return GapSpread(products, crossed, nulls, float(units.sum()))

    def _cluster_gaps(self, nulls: HostArray) -> ClusterGapSpread:
        """The gap of each bin in each cluster."""
        clusters, weights = self.batch.clusters, self.claims.weights[:, 0]
        assert clusters is not None, "asked for only where there are clusters"
        n_bins = self.edges.shape[1] - 1
        if n_bins * clusters.number > MOST_CLUSTER_SUMS:
            most = MOST_CLUSTER_SUMS // clusters.number
            raise InputError("n_bins", f"be at most {most} where there are {clusters.number} clusters", got=n_bins)
        places = self.claims.places[:, 0] * clusters.number + clusters.codes
        gaps = np.bincount(places, weights * self.misses, n_bins * clusters.number).reshape(n_bins, clusters.number)
        return ClusterGapSpread(ClusterSums(gaps), np.bincount(clusters.codes, weights, clusters.number), nulls)


@dataclass(frozen=True)
class CollectClaims:
    """The pass that keeps the confidences at several maps."""

    maps: tuple[Map, ...]

    def __call__(self, batch: Batch) -> Sums:
        return Sums(tuple(UnbinnedClaims.of(Gibbs(*apply_map(each, batch)), "top") for each in self.maps))


def predictions_after(
    maps: Sequence[Map], edges: Sequence[HostArray], batch: Batch, *, counts: bool = False, zero: float | None = None
) -> Iterator[Predictions]:
    """The predictions for a batch after each of several maps, one at a time; all that are temperatures take one kernel call.

    ``zero`` replaces probabilities of 0 in losses, see `Predictions`.
    """
    betas = inverse_temperatures(maps)
    known = sums_for_scores(batch, betas) if betas else None
    for map_, own in zip(maps, edges, strict=True):
        mapped, beta = apply_map(map_, batch)
        gibbs = Gibbs(mapped, beta, known if mapped is batch else sums_for_scores(mapped, [beta]))
        yield Predictions(gibbs, own, counts, zero=zero)


def inverse_temperatures(maps: Sequence[Map]) -> list[float]:
    """The β of those maps that are temperatures."""
    return [1 / temperature for map_ in maps if (temperature := temperature_of(map_)) is not None]


def apply_map(map_: Map, batch: Batch) -> tuple[Batch, float]:
    """A batch, and the β whose distribution of it is that after calibration."""
    if isinstance(map_, Floored):
        batch, map_ = batch.raised_to(map_.floor), map_.map
    temperature = temperature_of(map_)
    if temperature is not None:
        return batch, 1 / temperature
    mapped = apply_checked(map_, batch.double, batch.groups)
    if claims_to_check(map_):
        check_claims(map_, batch.double, mapped)
    return batch.with_logits(mapped, same_top=map_.keeps_predictions), 1.0
