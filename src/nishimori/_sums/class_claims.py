"""The probability of each class in each row, and whether that class is the true one: what curves per class are fitted to.

For two classes there is one claim per row, that of the second class. Otherwise there is one per row and class. Isotonic curves
need the claims themselves, and histogram binning sums per class and bin.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nishimori._rows.batch import MOST_CLUSTER_SUMS, Batch
from nishimori._rows.rows import Rows, Sum
from nishimori._sums.outcomes import Levels, levels_of
from nishimori._sums.predictions import Predictions
from nishimori._sums.reliability import Bins, UnbinnedClaims, uniform_edges
from nishimori._sums.spread import ClusterSums
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.class_curves import bin_of, class_probabilities

# This many claims are in memory at once, 256 MB in float64. If there are more, some classes are read after the others.
_MOST_CLAIMS = 2**25

# What 1 + x forgets in float64.
_UNSEEN = 2.0**-53


@dataclass(frozen=True)
class ClassWeights(Sum):
    """The number of rows, and the sums of their weights and squared weights, per true class. Those of other rows add.

    ``n_saturated`` rows have logits so far apart that the largest probability rounds to 1.
    """

    n_rows: int
    weights: HostArray
    squares: HostArray
    n_saturated: int

    def one_sample(self, *, counts: bool) -> float:
        """The weight that stands for one sample: 1 where weights are counts, and else that of equal weights."""
        return 1.0 if counts else float(self.squares.sum() / self.weights.sum())

    def number(self, *, counts: bool) -> float:
        """How many samples the rows stand for: the sum of weights that are counts, else (Σw)²/Σw²."""
        return float(self.weights.sum()) / self.one_sample(counts=counts)

    def numbers(self, *, counts: bool) -> HostArray:
        """The same for the rows of each class; 0 where there are none."""
        if counts:
            return self.weights
        numbers: HostArray = np.divide(self.weights**2, self.squares, out=np.zeros_like(self.weights), where=self.squares > 0)
        return numbers


def sum_by_class(batch: Batch) -> ClassWeights:
    """The pass that sums weights per class."""
    labels, weights = arrays.on_host(batch.labels), arrays.on_host(batch.weights)
    sums, squares = (np.bincount(labels, values, batch.n_classes) for values in (weights, weights**2))
    # A probability of 1 that was passed as such has lost nothing.
    n_saturated = int((arrays.on_host(Predictions(batch, 1.0).rest) < _UNSEEN).sum()) if batch.probabilities is None else 0
    return ClassWeights(batch.n_rows, sums, squares, n_saturated)


def curve_columns(n_classes: int) -> range:
    """The classes that have a curve of their own."""
    return range(1, 2) if n_classes == 2 else range(n_classes)


@dataclass(frozen=True, eq=False)
class ClassClaims:
    """Claims of the classes ``columns``, block by block, NaN where a class is masked. Those of other rows add.

    Claims that differ by less than ``rounding``, relative to their size, count as equal.
    """

    columns: range
    claimed: tuple[HostArray, ...]
    labels: tuple[HostArray, ...]
    weights: tuple[HostArray, ...]
    rounding: float

    def __add__(self, other: "ClassClaims") -> "ClassClaims":
        return ClassClaims(
            self.columns,
            self.claimed + other.claimed,
            self.labels + other.labels,
            self.weights + other.weights,
            max(self.rounding, other.rounding),
        )

    def in_order(self) -> Iterator[tuple[HostArray, HostArray, HostArray]]:
        """For each class, the claims in increasing order, whether each came true, and the weights. Masked ones are left out."""
        for place, column in enumerate(self.columns):
            values = np.concatenate([block[:, place] for block in self.claimed])
            order = np.argsort(values)[: len(values) - np.isnan(values).sum()]  # NaN comes last
            true = np.concatenate([block == column for block in self.labels])
            yield values[order], true[order], np.concatenate(self.weights)[order]

    def levels(self) -> Iterator[Levels]:
        """For each class, sums over equal claims."""
        for claimed, true, weights in self.in_order():
            yield levels_of(claimed, true, weights, self.rounding) if len(claimed) else Levels(claimed, weights, weights)


@dataclass(frozen=True)
class KeepClaims:
    """The pass that keeps the claims of some classes."""

    columns: range

    def __call__(self, batch: Batch) -> ClassClaims:
        claimed, masked = class_probabilities(batch.double)
        kept = slice(self.columns.start, self.columns.stop)
        held = np.where(masked[:, kept], np.nan, claimed[:, kept])
        labels = arrays.on_host(batch.labels)
        return ClassClaims(self.columns, (held,), (labels,), (arrays.on_host(batch.weights),), batch.rounding)


def claims_by_class(data: Rows, n_rows: int) -> Iterator[ClassClaims]:
    """The claims of all rows, from one pass for each group of classes that are in memory at once."""
    columns = curve_columns(data.n_classes)
    step = max(1, _MOST_CLAIMS // n_rows)
    for first in range(columns.start, columns.stop, step):
        yield data.gather(KeepClaims(range(first, min(first + step, columns.stop))))


# --- claims in bins --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Placed:
    """The rows of a batch: the bin of each class in a count through all bins, its claim, its truth and its weight, (n, m)."""

    places: HostArray
    claimed: HostArray
    true: HostArray
    weights: HostArray

    @classmethod
    def from_batch(cls, batch: Batch, edges: HostArray) -> "_Placed":
        """The bins, claims, truths and weights of a batch; a masked class has weight zero."""
        claimed, masked = class_probabilities(batch.double)
        columns = curve_columns(batch.n_classes)
        kept = slice(columns.start, columns.stop)
        claimed, masked = claimed[:, kept], masked[:, kept]
        if (edges == edges[0]).all():
            places = bin_of(claimed, edges[0])
        else:
            places = np.stack([bin_of(p, own) for p, own in zip(claimed.T, edges, strict=True)], axis=1)
        places += (edges.shape[1] - 1) * np.arange(len(columns))
        true = arrays.on_host(batch.labels)[:, None] == np.array(columns)
        return cls(places, claimed, true, np.where(masked, 0.0, arrays.on_host(batch.weights)[:, None]))


@dataclass(frozen=True, eq=False)
class TallyClasses:
    """The pass that sums per class and bin; ``edges`` have a row per curve."""

    edges: HostArray

    def __call__(self, batch: Batch) -> Bins:
        rows = _Placed.from_batch(batch, self.edges)
        shape = len(self.edges), self.edges.shape[1] - 1
        places, weights, true = rows.places.ravel(), rows.weights.ravel(), rows.true.ravel()

        def sums_per_bin(values: HostArray, at: HostArray) -> HostArray:
            sums: HostArray = np.bincount(at, values, shape[0] * shape[1]).reshape(shape)
            return sums

        claimed, correct = sums_per_bin(weights * rows.claimed.ravel(), places), sums_per_bin(weights[true], places[true])
        return Bins(self.edges, sums_per_bin(weights, places), claimed, correct, sums_per_bin(weights**2, places))


@dataclass(frozen=True, eq=False)
class ClusterResiduals:
    """The pass that sums w·(truth - frequency) over each bin and cluster; ``frequencies`` have a row per curve."""

    edges: HostArray
    frequencies: HostArray

    def __call__(self, batch: Batch) -> ClusterSums:
        assert batch.clusters is not None, "asked for only where there are clusters"
        rows, number = _Placed.from_batch(batch, self.edges), batch.clusters.number
        residuals = rows.weights * (rows.true - self.frequencies.ravel()[rows.places])
        places = rows.places * number + batch.clusters.codes[:, None]
        sums = np.bincount(places.ravel(), residuals.ravel(), self.frequencies.size * number)
        return ClusterSums(sums.reshape(self.frequencies.size, number))


def quantile_edges(data: Rows, n_bins: int, n_rows: int) -> tuple[HostArray, int]:
    """The edges of bins of equal weight, for each curve, and how many passes they took."""
    edges, n_passes = [], 0
    for some in claims_by_class(data, n_rows):
        n_passes += 1
        for claimed, _, weights in some.in_order():
            has_any = len(claimed) > 0
            edges.append(UnbinnedClaims((claimed[:, None],), (weights,)).edges(n_bins) if has_any else uniform_edges(n_bins))
    return np.concatenate(edges), n_passes


def cluster_squares(data: Rows, edges: HostArray, frequencies: HostArray) -> HostArray:
    """The squares of the residuals of clusters, summed per class and bin."""
    clusters = data.clusters
    assert clusters is not None, "asked for only where there are clusters"
    if frequencies.size * clusters.number > MOST_CLUSTER_SUMS:
        raise InputError(
            "clusters",
            (f"be fewer for {frequencies.size:,} bins in all classes: at most {MOST_CLUSTER_SUMS // frequencies.size:,}"),
            got=f"{clusters.number:,}",
            remedy="Leave `clusters` out, or use fewer bins.",
        )
    values = data.gather(ClusterResiduals(edges, frequencies)).values
    squares: HostArray = np.einsum("bc,bc->b", values, values).reshape(frequencies.shape)
    return squares
