"""Sums per bin of confidence: what reliability diagrams and calibration errors are made of.

A *claim* is a probability together with whether it came true. The model makes one claim a row (`of="top"`: its predicted class
is right; `of="positive"`: class 1 is true) or one a class (`of="classwise"`). Claims fall into bins; a bin keeps three sums.

Conventions. Bin i holds edges[i] < p <= edges[i+1], so a claim on an edge counts in the bin below it; p = 0 counts in the first
bin and p = 1 in the last. Equal claims share a bin. Empty bins do not count.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from nishimori import _array
from nishimori._array import HostArray
from nishimori._gibbs import Gibbs
from nishimori._inputs import Batch, Batches, is_whole
from nishimori._moments import gather
from nishimori.errors import InputError, MergeError

Strategy = Literal["uniform", "quantile"]
Norm = Literal["l1", "l2", "max"]
Of = Literal["top", "positive", "classwise"]


@dataclass(frozen=True)
class Bins:
    """Weight, claimed probability and truth summed per bin; a row for each kind of claim."""

    edges: HostArray
    weight: HostArray
    confidence: HostArray
    correct: HostArray

    def __add__(self, other: "Bins") -> "Bins":
        if not np.array_equal(self.edges, other.edges):
            raise MergeError("Bins add only if their edges are the same. Tally both over one set of edges.")
        return Bins(
            self.edges,
            self.weight + other.weight,
            self.confidence + other.confidence,
            self.correct + other.correct,
        )


@dataclass(frozen=True)
class Reliability:
    """Claimed against true frequency, one entry per non-empty bin in order of confidence.

    Attributes
    ----------
    confidence : array
        Mean claimed probability of each bin.
    accuracy : array
        Weighted share of the bin's claims that came true.
    weight : array
        Total sample weight of the bin; the number of samples where none were given.
    gap : array
        Confidence minus accuracy, Δ: positive where the model is overconfident. What `ece` sums.
    lower, upper : array
        The bin holds lower < p <= upper; the first bin also p = 0.
    group : integer array
        The class that the bin belongs to where claims are classwise, else 0.
    """

    confidence: HostArray
    accuracy: HostArray
    weight: HostArray
    lower: HostArray
    upper: HostArray
    group: HostArray

    @classmethod
    def from_bins(cls, bins: Bins) -> "Reliability":
        """Means from sums."""
        group, column = np.nonzero(bins.weight > 0)
        full = (group, column)
        weight = bins.weight[full]
        edges = np.broadcast_to(bins.edges, (len(bins.weight), bins.edges.shape[1]))
        return cls(
            confidence=bins.confidence[full] / weight,
            accuracy=bins.correct[full] / weight,
            weight=weight,
            lower=edges[group, column],
            upper=edges[group, column + 1],
            group=group,
        )

    @property
    def gap(self) -> HostArray:
        gap: HostArray = self.confidence - self.accuracy
        return gap

    def error(self, norm: Norm = "l1") -> float:
        """The calibration error: mean, root mean square or maximum of abs(gap) over bins, averaged over groups."""
        if norm not in get_args(Norm):
            raise InputError(f"`norm` must be 'l1', 'l2' or 'max', got {norm!r}.")
        groups = np.unique(self.group)
        return float(np.mean([self._error(self.group == group, norm) for group in groups]))

    def _error(self, rows: HostArray, norm: Norm) -> float:
        gap, share = np.abs(self.gap[rows]), self.weight[rows] / self.weight[rows].sum()
        if norm == "max":
            return float(gap.max())
        return float(share @ gap) if norm == "l1" else float(np.sqrt(share @ gap**2))


def tally(batch: Batch, edges: HostArray, *, beta: float = 1.0, of: Of = "top") -> Bins:
    """Sort the claims of one batch into bins; ``edges`` has one row, or one for each class."""
    claimed, true = _claims(batch, beta, of)
    weights = _array.on_host(batch.weights)[:, None]
    n_groups, n_bins = claimed.shape[1], edges.shape[1] - 1
    if len(edges) == 1:
        index = np.searchsorted(edges[0, 1:-1], claimed)
    else:
        index = np.stack([np.searchsorted(e[1:-1], p) for e, p in zip(edges, claimed.T, strict=True)], axis=1)
    index += n_bins * np.arange(n_groups)

    def summed(values: HostArray) -> HostArray:
        flat = np.broadcast_to(values, index.shape).ravel()
        return np.bincount(index.ravel(), flat, n_groups * n_bins).reshape(n_groups, n_bins)

    return Bins(edges, summed(weights), summed(weights * claimed), summed(weights * true))


def _claims(batch: Batch, beta: float, of: Of) -> tuple[HostArray, HostArray]:
    """Claimed probabilities and what came true, each (n, groups), on the host."""
    labels = _array.on_host(batch.labels)
    # Given probabilities are claims as they stand: a logarithm and back would move them off the edges they lie on.
    given = batch.given if beta == 1 else None
    if of == "top":
        claimed = Gibbs.of(batch, beta).top if given is None else batch.at(given, batch.top)
        return _array.on_host(claimed)[:, None], _array.on_host(batch.top == batch.labels)[:, None]
    claimed = _array.on_host(Gibbs.of(batch, beta).probabilities if given is None else given)
    if of == "positive":
        return claimed[:, 1:], labels[:, None] == 1
    return claimed, labels[:, None] == np.arange(claimed.shape[1])


def uniform_edges(n_bins: int) -> HostArray:
    """Equal widths: 0, 1/n, 2/n, ..., 1."""
    edges: HostArray = np.arange(n_bins + 1)[None, :] / n_bins
    return edges


def quantile_edges(data: Batches, n_bins: int, *, beta: float, of: Of) -> HostArray:
    """Equal weights: each inner edge is the claim at which the bins below it have their share.

    This has to see the claims themselves, so it keeps one number a row, or one a row and class for classwise claims.
    """
    parts = [(_claims(batch, beta, of)[0], _array.on_host(batch.weights)) for batch in data]
    claimed = np.concatenate([p for p, _ in parts])
    weights = np.concatenate([w for _, w in parts])
    return np.stack([_equal_weight_edges(column, weights, n_bins) for column in claimed.T])


def _equal_weight_edges(claimed: HostArray, weights: HostArray, n_bins: int) -> HostArray:
    order = np.argsort(claimed, kind="stable")
    below = np.cumsum(weights[order])
    total, inner = below[-1], np.arange(1, n_bins)
    if np.all(weights == np.floor(weights)):
        # Whole weights are counts: bins differ by at most one sample, the larger ones first, as `numpy.array_split` has it.
        size, larger = divmod(total, n_bins)
        shares = inner * size + np.minimum(inner, larger)
    else:
        shares = inner * total / n_bins * (1 - 1e-12)  # a hair less, so that rounding in the sum does not skip a sample
    return np.concatenate([[0.0], claimed[order][np.searchsorted(below, shares)], [1.0]])


def bin_edges(data: Batches, n_bins: int, strategy: Strategy, *, beta: float, of: Of = "top") -> HostArray:
    """The edges to `tally` with; quantile ones cost a reading of the data."""
    _check(data, n_bins, strategy, of)
    return uniform_edges(n_bins) if strategy == "uniform" else quantile_edges(data, n_bins, beta=beta, of=of)


def reliability_of(data: Batches, *, beta: float, n_bins: int, strategy: Strategy, of: Of) -> Reliability:
    """The reliability curve of checked data."""
    edges = bin_edges(data, n_bins, strategy, beta=beta, of=of)
    return Reliability.from_bins(gather(data, lambda batch: tally(batch, edges, beta=beta, of=of)))


def _check(data: Batches, n_bins: Any, strategy: Any, of: Any) -> None:
    if not is_whole(n_bins) or n_bins < 1:
        raise InputError(f"`n_bins` must be a positive integer, got {n_bins!r}.")
    if strategy not in get_args(Strategy):
        raise InputError(f"`strategy` must be 'uniform' or 'quantile', got {strategy!r}.")
    if of not in get_args(Of):
        raise InputError(f"`of` must be 'top', 'positive' or 'classwise', got {of!r}.")
    if of == "positive" and data.n_classes != 2:
        raise InputError(
            f"`of` must be 'top' or 'classwise' for {data.n_classes} classes: only a binary problem has a positive class."
        )
