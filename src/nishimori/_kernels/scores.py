"""Sums of the usual scores over rows and per bin of confidence, where a kernel makes them without a number per row.

Only the C kernel does, in float64. For all else `nishimori._sums.predictions` has the numbers of each row.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nishimori._kernels import native
from nishimori._kernels.block import doublings
from nishimori._kernels.kernel import computes_in_c
from nishimori._rows.batch import Batch
from nishimori._support.arrays import Array, HostArray

SCORES = ("wrong", "confidence", "nll", "brier")
"""The scores of a row: whether its answer is wrong, the probability of the predicted class, the loss, and the Brier score."""

# `score_totals` takes an exponential per class and β. Sums of powers of one exponential serve a chain of β, each twice the one
# before, and then every row takes some time for each β: with so many classes, and so many β per chain, less in all.
_MANY_CLASSES, _MANY_DOUBLINGS = 512, 3

# The square of a weight of this β, and its inverse, are far from the ends of float64.
_LEAST = 1e-100


class BinTotals(NamedTuple):
    """Sums per bin, with the confidence c of a row, r = 1 if its answer is right, and u as for `ScoreTotals`.

    Those of w, wc, wr, w², u(c - r)², u(c - r) and uc(1 - c).
    """

    weight: HostArray
    confidence: HostArray
    correct: HostArray
    squares: HostArray
    products: HostArray
    crossed: HostArray
    nulls: HostArray


class ScoreTotals(NamedTuple):
    """Sums of the `SCORES` x of rows of weight w, with u = w² or, where weights are counts, u = w.

    Attributes
    ----------
    n_rows, weight, units
        How many rows have a positive weight, Σw and Σu.
    totals, means, scatter : array of shape (scores,)
        Σwx, Σux/Σu and Σu(x - Σux/Σu)².
    bins : BinTotals
        Sums per bin.
    """

    n_rows: int
    weight: float
    units: float
    totals: HostArray
    means: HostArray
    scatter: HostArray
    bins: BinTotals


def sums_scores(batch: Batch, betas: Sequence[float]) -> bool:
    """Whether `score_totals` takes these rows, which need not be checked, at all of these β, and is the fastest way."""
    if not is_read_in_c(batch.logits, min(betas, default=1.0), max(betas, default=1.0)):
        return False
    return batch.n_classes < _MANY_CLASSES or _MANY_DOUBLINGS * len(doublings(betas)) > len(betas)


def is_read_in_c(logits: Array, least: float, largest: float) -> bool:
    """Whether the C kernel takes these logits, and any β from ``least`` to ``largest``."""
    return _LEAST < least <= largest < 1 / _LEAST and computes_in_c(logits)


def score_totals(batch: Batch, beta: float, inner: HostArray, *, counts: bool) -> ScoreTotals | None:
    """The sums of all rows of a batch, which may have weight zero; None if there is something to check or to mask.

    Bins have the edges ``inner`` between them; a confidence on an edge counts in the bin below.
    """
    sums, bins, is_unusual = native.score_sums(batch.logits, batch.labels, batch.weights, beta, inner, counts=counts)
    weight, units, *_ = sums.tolist()
    if is_unusual or not units > 0:
        return None
    totals, means, scatter = sums[2:].reshape(3, len(SCORES))
    return ScoreTotals(int(np.count_nonzero(batch.weights)), weight, units, totals, means, scatter, BinTotals(*bins.T.copy()))
