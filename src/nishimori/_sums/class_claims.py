"""The probability of each class in each row, and whether that class is the true one: the data for curves per class.

For two classes there is one claim per row, that of the second class. Otherwise there is one per row and class. Isotonic curves
need the claims themselves, and histogram binning sums per class and bin.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, Sum, combined_by
from nishimori._sums.outcomes import Levels, levels_of
from nishimori._sums.predictions import Predictions
from nishimori._sums.reliability import BinnedClaims, Bins, UnbinnedClaims, uniform_edges
from nishimori._sums.spread import sum_by_cluster
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.maps.class_curves import bin_of, class_probabilities

# This many claims are in memory at once, 256 MB in float64. If there are more, some classes are read after the others.
_MOST_CLAIMS = 2**25

# What 1 + x forgets in float64.
_UNSEEN = 2.0**-53


@dataclass(frozen=True)
class ClassWeights(Sum):
    """The number of rows, and the sums of their weights and squared weights, per true class; ``+`` adds other rows.

    ``n_saturated`` rows have logits so far apart that the largest probability rounds to 1.
    """

    n_rows: int
    weights: HostArray
    squares: HostArray
    n_saturated: int

    def one_sample(self, *, counts: bool) -> float:
        """The weight of one sample: 1 if weights are counts, else the mean effective weight."""
        return 1.0 if counts else float(self.squares.sum() / self.weights.sum())

    def numbers(self, *, counts: bool) -> HostArray:
        """How many samples the rows of each class stand for: the sum of weights that are counts, else (Σw)²/Σw² or 0."""
        if counts:
            return self.weights
        return np.divide(self.weights**2, self.squares, out=np.zeros_like(self.weights), where=self.squares > 0)


def sum_by_class(batch: Batch) -> ClassWeights:
    """The pass that sums weights per class."""
    labels, weights = arrays.on_host(batch.labels), arrays.on_host(batch.weights)
    sums, squares = (np.bincount(labels, values, batch.n_classes) for values in (weights, weights**2))
    # A probability of 1 that was passed as such has lost nothing.
    n_saturated = int((arrays.on_host(Predictions(batch, 1.0).rest) < _UNSEEN).sum()) if batch.probabilities is None else 0
    return ClassWeights(batch.n_rows, sums, squares, n_saturated)


def curve_columns(n_classes: int) -> range:
    """The classes with their own curve."""
    return range(1, 2) if n_classes == 2 else range(n_classes)


@dataclass(frozen=True, eq=False)
class ClassClaims(Sum):
    """Claims of the classes ``columns``, block by block, NaN where a class is masked. Those of other rows add.

    Claims that differ by less than ``rounding``, relative to their size, count as equal.
    """

    columns: range = field(metadata=combined_by(lambda mine, _: mine))
    claimed: tuple[HostArray, ...]
    labels: tuple[HostArray, ...]
    weights: tuple[HostArray, ...]
    rounding: float = field(metadata=combined_by(max))

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


def keep_class_claims(columns: range, batch: Batch) -> ClassClaims:
    """The pass that keeps the claims of some classes."""
    claimed, masked = class_probabilities(batch.double)
    kept = slice(columns.start, columns.stop)
    held = np.where(masked[:, kept], np.nan, claimed[:, kept])
    return ClassClaims(columns, (held,), (arrays.on_host(batch.labels),), (arrays.on_host(batch.weights),), batch.rounding)


def claims_by_class(data: Rows, n_rows: int) -> Iterator[ClassClaims]:
    """The claims of all rows, with one pass per group of classes that fits in memory."""
    columns = curve_columns(data.n_classes)
    step = max(1, _MOST_CLAIMS // n_rows)
    for first in range(columns.start, columns.stop, step):
        yield data.gather(partial(keep_class_claims, range(first, min(first + step, columns.stop))))


# --- claims in bins --------------------------------------------------------------------------------------------------------


def _bin_classes(edges: HostArray, batch: Batch) -> BinnedClaims:
    """The claims of the classes that have a curve, in bins; ``edges`` have a row per curve, and a masked class weight zero."""
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
    return BinnedClaims(edges, places, claimed, true, np.where(masked, 0.0, arrays.on_host(batch.weights)[:, None]))


def tally_classes(edges: HostArray, batch: Batch) -> Bins:
    """The pass that sums per class and bin; ``edges`` have a row per curve."""
    return _bin_classes(edges, batch).bins


def cluster_residuals(edges: HostArray, frequencies: HostArray, batch: Batch) -> HostArray:
    """The pass that sums w·(truth - frequency) over each bin and cluster; ``frequencies`` have a row per curve."""
    assert batch.clusters is not None, "asked for only where there are clusters"
    rows = _bin_classes(edges, batch)
    residuals = rows.weights * (rows.true - frequencies.ravel()[rows.places])
    return sum_by_cluster(batch.clusters, rows.places, residuals, frequencies.size, "bins")


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
    values = data.gather(partial(cluster_residuals, edges, frequencies))
    return np.einsum("bc,bc->b", values, values).reshape(frequencies.shape)
