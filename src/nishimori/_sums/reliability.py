"""Sums per bin of confidence, for reliability diagrams and calibration errors.

A *claim* is a probability together with whether it came true. The model makes one claim per row (`of="top"`: its predicted
class is right; `of="positive"`: class 1 is true) or one per row and class (`of="classwise"`). Claims fall into bins; a bin
keeps three sums.

Conventions. Bin i holds edges[i] < p <= edges[i+1], so a claim on an edge counts in the bin below it; p = 0 counts in the first
bin and p = 1 in the last. Claims that are equal up to rounding share a bin: one that exceeds an edge by a few units in the last
place counts as on the edge. Empty bins do not count. Probabilities that were passed are divided by the sum of their row.

`Predictions` make the claims of a batch; this module knows what becomes of claims.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from nishimori._kernels.sums import BinTotals
from nishimori._rows.batch import Clusters
from nishimori._rows.rows import Rows, Sum, combined_by
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.spread import sum_by_cluster
from nishimori._support.arrays import HostArray
from nishimori._support.display import PRINTED_ROWS, Display, Displayed, short_repr
from nishimori._support.formatting import count, number_text, percent, points_with_error
from nishimori._support.numbers import one_of, whole
from nishimori._support.tables import Tabular
from nishimori.errors import InputError, MergeError

Strategy = Literal["uniform", "quantile"]
Norm = Literal["l1", "l2", "max"]
Of = Literal["top", "positive", "classwise"]

# Far more than anybody can fill or look at; without a limit a typing error would take all memory.
_MOST_BINS = 100_000


def _same_edges(mine: HostArray, theirs: HostArray) -> HostArray:
    """The edges of bins that can be added."""
    if not np.array_equal(mine, theirs):
        raise MergeError("Bins add only if their edges are the same. Compute both with the same edges.")
    return mine


@dataclass(frozen=True)
class Bins(Sum):
    """Weight, claimed probability, truth and squared weight summed per bin; a row for each kind of claim."""

    edges: HostArray = field(metadata=combined_by(_same_edges))
    weight: HostArray
    confidence: HostArray
    correct: HostArray
    squares: HostArray


@dataclass(frozen=True, repr=False)
class Reliability(Displayed):
    """Claimed against true frequency, one entry per non-empty bin in order of confidence. ``print`` shows a table.

    Attributes
    ----------
    confidence : array
        Mean claimed probability of each bin.
    accuracy : array
        Weighted share of the bin's claims that came true.
    weight : array
        Total sample weight of the bin; the number of samples where none were given.
    count : array
        Effective number of samples of the bin, (Σw)²/Σw²: with equal weights the number of samples. For error bars.
    gap : array
        Confidence minus accuracy, Δ: positive where the model is overconfident. What `ece` sums.
    lower, upper : array
        The bin holds lower < p <= upper; the first bin also p = 0.
    group : integer array
        The class that the bin belongs to where claims are classwise, else 0.
    n_bins : int or None
        How many bins there are, empty ones included; per class where claims are classwise.
    strategy : {"uniform", "quantile"} or None
        Whether the bins have equal widths or equal weights.
    """

    confidence: HostArray
    accuracy: HostArray
    weight: HostArray
    lower: HostArray
    upper: HostArray
    group: HostArray
    count: HostArray
    n_bins: int | None = None
    strategy: Strategy | None = None

    def __repr__(self) -> str:
        return short_repr(self, n_bins=self.n_bins, n_filled=len(self.weight), strategy=self.strategy, error=self.error())

    @property
    def _display(self) -> Display:
        classwise = bool(self.group.any())
        columns = (self.lower, self.upper, self.weight, self.confidence, self.accuracy, self.gap, self.count, self.group)
        rows = []
        for lower, upper, weight, confidence, accuracy, gap, number, group in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            error = (accuracy * (1 - accuracy) / number) ** 0.5
            shares = (percent(confidence, 1), percent(accuracy, 1), points_with_error(gap, error))
            of_class = (str(group),) if classwise else ()
            rows.append((*of_class, f"{number_text(lower)} to {number_text(upper)}", count(weight), *shares))
        headers = (*(("class",) if classwise else ()), "bin", "weight", "confidence", "accuracy", "gap in points")
        notes = ("The gap is confidence minus accuracy; its standard error is that of the accuracy.",)
        return Display("", (Tabular(headers, rows),), notes, n_printed=2 * PRINTED_ROWS)

    @classmethod
    def from_bins(cls, bins: Bins) -> "Reliability":
        """The reliability curve: the means of each bin that has samples, from sums per bin."""
        group, column = np.nonzero(bins.weight > 0)
        full = (group, column)
        weight = bins.weight[full]
        edges = np.broadcast_to(bins.edges, (len(bins.weight), bins.edges.shape[1]))
        n_bins = bins.edges.shape[1] - 1
        return cls(
            confidence=bins.confidence[full] / weight,
            accuracy=bins.correct[full] / weight,
            weight=weight,
            lower=edges[group, column],
            upper=edges[group, column + 1],
            group=group,
            count=np.divide(weight**2, bins.squares[full], out=np.ones_like(weight), where=bins.squares[full] > 0),
            n_bins=n_bins,
            strategy="uniform" if np.array_equal(bins.edges, uniform_edges(n_bins)) else "quantile",
        )

    @property
    def gap(self) -> HostArray:
        return self.confidence - self.accuracy

    def error(self, norm: Norm = "l1") -> float:
        """The calibration error: mean, root mean square or maximum of abs(gap) over bins, averaged over groups."""
        one_of("norm", norm, Norm)
        errors = []
        for rows in (self.group == group for group in np.unique(self.group)):
            gap, share = np.abs(self.gap[rows]), self.weight[rows] / self.weight[rows].sum()
            errors.append({"l1": share @ gap, "l2": np.sqrt(share @ gap**2), "max": gap.max()}[norm])
        return float(np.mean(errors))


@dataclass(frozen=True, eq=False)
class BinnedClaims:
    """The claims of one batch and the bin of each, all on the host: arrays of shape (n, groups), or (n, 1) for weights.

    ``places`` count bins through all groups. With ``counts`` a weight of w stands for w independent rows.
    """

    edges: HostArray
    places: HostArray
    claimed: HostArray
    true: HostArray
    weights: HostArray
    clusters: Clusters | None = None
    counts: bool = False

    @property
    def n_bins(self) -> int:
        """How many bins each group has."""
        return int(self.edges.shape[1]) - 1

    def sums_per_bin(self, values: HostArray) -> HostArray:
        """Sums per bin, (groups, bins), of one number per claim, or of one per row."""
        shape = self.places.shape[1], self.n_bins
        flat = np.broadcast_to(values, self.places.shape).ravel()
        return np.bincount(self.places.ravel(), flat, shape[0] * shape[1]).reshape(shape)

    @property
    def bins(self) -> Bins:
        """The sums for a reliability curve."""
        w, true = self.weights, np.flatnonzero(self.true)
        weight, claimed, squares = (self.sums_per_bin(values) for values in (w, w * self.claimed, w**2))
        # Most claims of a table of classes are false.
        of_true = w.ravel()[true // (self.places.shape[1] // w.shape[1])]
        correct = np.bincount(self.places.ravel()[true], of_true, weight.size).reshape(weight.shape)
        return Bins(self.edges, weight, claimed, correct, squares)

    @cached_property
    def misses(self) -> HostArray:
        """Claim minus outcome of each row, if there is one claim per row."""
        return self.claimed[:, 0] - self.true[:, 0]

    @cached_property
    def units(self) -> HostArray:
        """The weight of a squared number of each row, for independent rows."""
        weights = self.weights[:, 0]
        return weights if self.counts else weights**2

    @cached_property
    def sums(self) -> "BinSums":
        """Sums of claims per bin, and how they vary, if there is one claim per row."""
        c, weights, crossed = self.claimed[:, 0], self.weights[:, 0], self.units * self.misses
        rows = (crossed * self.misses, crossed, self.units * (c * (1 - c)))
        products, crossed, nulls = (self.sums_per_bin(values[:, None])[0] for values in rows)
        clusters = None
        if self.clusters is not None:
            gaps = sum_by_cluster(self.clusters, self.places[:, 0], weights * self.misses, self.n_bins, "bins")
            by_cluster = np.bincount(self.clusters.codes, weights, self.clusters.number)
            clusters = np.vstack([gaps, by_cluster])
        return BinSums(self.bins, products, crossed, nulls, float(self.units.sum()), clusters)


@dataclass(frozen=True)
class BinSums(Sum):
    """Sums per bin of confidence and how they vary; ``+`` adds other rows.

    Attributes
    ----------
    bins : Bins
        What the gaps are made of.
    products, crossed, nulls : array of shape (bins,)
        With the miss m = c - r of each row: Σum², Σum and Σuc(1 - c), what the gaps vary by where rows are independent.
    squares : float
        Σu.
    clusters : array of shape (bins + 1, clusters), or None
        The gap of each bin in each cluster and, below, the weight of each cluster, where clusters are independent. Also then
        ``nulls`` are those of independent rows: how labels of one cluster depend on each other, a calibrated model does not
        say.
    """

    bins: Bins
    products: HostArray
    crossed: HostArray
    nulls: HostArray
    squares: float
    clusters: HostArray | None = None

    @classmethod
    def from_totals(cls, edges: HostArray, totals: BinTotals, units: float) -> "BinSums":
        """From the sums of a kernel over independent rows; ``units`` is the sum of their squared weights."""
        weight, confidence, correct, squares, products, crossed, nulls = totals
        bins = Bins(edges, weight[None], confidence[None], correct[None], squares[None])
        return cls(bins, products, crossed, nulls, units)

    @cached_property
    def curve(self) -> Reliability:
        """Confidence against accuracy, bin by bin."""
        return Reliability.from_bins(self.bins)

    @cached_property
    def gaps(self) -> BinnedGaps:
        """The gap of each bin, and how the gaps vary together."""
        bins, weight = self.bins, self.bins.weight.sum()
        gaps = (bins.confidence - bins.correct)[0] / weight
        sums = (self.products, self.crossed, self.squares, self.nulls)
        if self.clusters is not None:
            table = self.clusters @ self.clusters.T
            sums = (table[:-1, :-1], table[:-1, -1], table[-1, -1], self.nulls)
        products, crossed, squares, nulls = (values / weight**2 for values in sums)
        return BinnedGaps(gaps, products, crossed, squares, nulls, float(bins.correct.sum() / weight))

    @property
    def n_clusters(self) -> int | None:
        """How many clusters the rows belong to; None if each row is independent."""
        return None if self.clusters is None else int((self.clusters[-1] > 0).sum())


def inner_edges(edges: HostArray, rounding: float) -> HostArray:
    """The edges between bins, (groups, bins - 1), moved up so that claims that exceed one by ``rounding`` are below it."""
    inner = edges[:, 1:-1]
    # exp(x) has a relative error of x units in the last place, so small claims need more room.
    digits = np.abs(np.log(np.where(inner > 0, inner, 1.0)))
    return inner * (1 + rounding + np.finfo(float).eps * digits)


@dataclass(frozen=True)
class UnbinnedClaims(Sum):
    """The claims themselves, for quantiles: the only sum here that grows with the rows."""

    parts: tuple[HostArray, ...]
    weights: tuple[HostArray, ...]

    def edges(self, n_bins: int) -> HostArray:
        """Edges for equal weights: below each inner edge lies the share of its bins."""
        claimed, weights = np.concatenate(self.parts), np.concatenate(self.weights)
        return np.stack([_equal_weight_edges(column, weights, n_bins) for column in claimed.T])


def uniform_edges(n_bins: int) -> HostArray:
    """Equal widths: 0, 1/n, 2/n, ..., 1."""
    return np.arange(n_bins + 1)[None, :] / n_bins


def _equal_weight_edges(claimed: HostArray, weights: HostArray, n_bins: int) -> HostArray:
    ratios, are_copies = _weight_ratios(weights)
    order = np.argsort(claimed, kind="stable")
    below = ratios[order]
    if are_copies:  # bins differ by at most one copy, the larger ones first, as `numpy.array_split` has it
        np.cumsum(below, out=below)
        size, larger = divmod(below[-1], n_bins)
    else:  # rounding of a sum in float64 would depend on the unit of the weights, once there are enough rows
        below = np.cumsum(below, dtype=np.longdouble)
        size, larger = below[-1] / n_bins, 0.0
    inner = np.arange(1, n_bins)
    shares = (inner * size + np.minimum(inner, larger)) * (1 - 1e-12)  # slightly less, so that rounding does not skip a sample
    return np.concatenate([[0.0], claimed[order[np.searchsorted(below, shares)]], [1.0]])


def _weight_ratios(weights: HostArray) -> tuple[HostArray, bool]:
    """Weights in units of the smallest one, and whether all are whole, like numbers of copies."""
    ratios: HostArray = weights / weights[weights > 1e-15 * weights.max()].min()  # smaller ones do not matter
    rest = np.rint(ratios)
    rest -= ratios
    np.abs(rest, out=rest)
    are_copies = bool(((rest <= 1e-12 * ratios) | (ratios < 1)).all())
    return np.rint(ratios, out=ratios) if are_copies else ratios, are_copies


def check_bins(n_bins: Any, strategy: Any) -> None:
    """Refuse impossible bins."""
    whole("n_bins", n_bins, 1, _MOST_BINS)
    one_of("strategy", strategy, Strategy)


def check_claim(data: Rows, of: Any, names_of: Any = Of) -> None:
    """Refuse unknown kinds of claims, and kinds that the data do not support."""
    one_of("of", of, names_of)
    if of == "positive" and data.n_classes != 2:
        raise InputError("of", f"not be 'positive' for {data.n_classes} classes: only a binary problem has a positive class")
