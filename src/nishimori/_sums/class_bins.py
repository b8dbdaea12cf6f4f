"""Sums per class and bin of its probability: what histogram binning is made of."""

from dataclasses import dataclass

import numpy as np

from nishimori._rows.batch import MOST_CLUSTER_SUMS, Batch
from nishimori._rows.rows import Rows
from nishimori._sums.class_claims import claims_by_class, curve_columns
from nishimori._sums.reliability import Bins, UnbinnedClaims, uniform_edges
from nishimori._sums.spread import ClusterSums
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.class_curves import bin_of, class_probabilities


@dataclass(frozen=True, eq=False)
class _Placed:
    """The rows of a batch: the bin of each class in a count through all bins, its claim, its truth and its weight, (n, m)."""

    places: HostArray
    claimed: HostArray
    true: HostArray
    weights: HostArray

    @classmethod
    def of(cls, batch: Batch, edges: HostArray) -> "_Placed":
        """The bins, claims, truths and weights of a batch; a masked class has weight zero."""
        claimed, masked = class_probabilities(batch.double)
        columns = curve_columns(batch.n_classes)
        kept = slice(columns.start, columns.stop)
        claimed, masked = claimed[:, kept], masked[:, kept]
        if (edges == edges[0]).all():
            places = bin_of(claimed, edges[0])
        else:
            places = np.stack([bin_of(p, each) for p, each in zip(claimed.T, edges, strict=True)], axis=1)
        places += (edges.shape[1] - 1) * np.arange(len(columns))
        true = arrays.on_host(batch.labels)[:, None] == np.array(columns)
        return cls(places, claimed, true, np.where(masked, 0.0, arrays.on_host(batch.weights)[:, None]))


@dataclass(frozen=True, eq=False)
class TallyClasses:
    """The pass that sums per class and bin; ``edges`` have a row per curve."""

    edges: HostArray

    def __call__(self, batch: Batch) -> Bins:
        rows = _Placed.of(batch, self.edges)
        shape = len(self.edges), self.edges.shape[1] - 1
        places, weights, true = rows.places.ravel(), rows.weights.ravel(), rows.true.ravel()

        def sums_per_bin(values: HostArray, at: HostArray) -> HostArray:
            found: HostArray = np.bincount(at, values, shape[0] * shape[1]).reshape(shape)
            return found

        claimed, correct = sums_per_bin(weights * rows.claimed.ravel(), places), sums_per_bin(weights[true], places[true])
        return Bins(self.edges, sums_per_bin(weights, places), claimed, correct, sums_per_bin(weights**2, places))


@dataclass(frozen=True, eq=False)
class ClusterResiduals:
    """The pass that sums w·(truth - frequency) over each bin and cluster; ``frequencies`` have a row per curve."""

    edges: HostArray
    frequencies: HostArray

    def __call__(self, batch: Batch) -> ClusterSums:
        assert batch.clusters is not None, "asked for only where there are clusters"
        rows, number = _Placed.of(batch, self.edges), batch.clusters.number
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
