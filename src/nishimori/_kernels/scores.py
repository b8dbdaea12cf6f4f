"""Sums of the usual scores over rows and per bin of confidence, where a kernel makes them without a number per row.

The C kernel does, in float64, and Triton, in float32, which gives metrics to 1e-6. For all else `nishimori._sums.predictions`
has the numbers of each row.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nishimori._kernels import native
from nishimori._kernels.block import doublings
from nishimori._kernels.kernel import LEAST_SINGLE, computes_in_c
from nishimori._kernels.row_sums import as_stored, is_plain, kernel_of
from nishimori._rows.batch import Batch
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray

SCORES = ("wrong", "confidence", "nll", "brier")
"""The scores of a row: whether its answer is wrong, the probability of the predicted class, the loss, and the Brier score."""

# `score_totals` takes an exponential per class and β. Sums of powers of one exponential serve a chain of β, each twice the one
# before, and then every row takes some time for each β: with this many classes, and this many β per chain, less in all.
_MANY_CLASSES, _MANY_DOUBLINGS = 512, 3

# The square of a weight of this β, and its inverse, are far from the ends of float64.
_LEAST = 1e-100

# The time of a device is proportional to the number of bins.
_MOST_BINS_ON_DEVICE = 128


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
    positive : BinTotals or None
        The same of the probability of the second of two classes, where it was asked for.
    """

    n_rows: int
    weight: float
    units: float
    totals: HostArray
    means: HostArray
    scatter: HostArray
    bins: BinTotals
    positive: BinTotals | None = None


def sums_scores(batch: Batch, betas: Sequence[float], n_bins: int, *, positive: bool = False) -> bool:
    """Whether `score_totals` takes these rows at all of these β, and is the fastest way.

    They need not be checked unless they are float64 on a device. ``positive`` if sums of the second of two classes are wanted.
    """
    least, largest = min(betas, default=1.0), max(betas, default=1.0)
    if is_read_in_c(batch.logits, least, largest):
        return batch.n_classes < _MANY_CLASSES or _MANY_DOUBLINGS * len(doublings(betas)) > len(betas)
    kernel = kernel_of(batch)
    if positive or kernel.name != "triton" or not (is_plain(batch) and least > LEAST_SINGLE and largest < 1 / LEAST_SINGLE):
        return False
    is_table = kernel.takes_unchecked(as_stored(batch)) or arrays.dtype_name(batch.logits) == "float64"
    return is_table and n_bins <= _MOST_BINS_ON_DEVICE


def sums_blocks(batch: Batch) -> bool:
    """Whether blocks that were checked are summed here, too: on a device, where numbers per row would have to be copied."""
    return kernel_of(batch).name == "triton" and not batch.masked


def is_read_in_c(logits: Array, least: float, largest: float) -> bool:
    """Whether the C kernel takes these logits, and any β from ``least`` to ``largest``."""
    return _LEAST < least <= largest < 1 / _LEAST and computes_in_c(logits)


def score_totals(
    batch: Batch, beta: float, inner: HostArray, positive: HostArray | None = None, *, counts: bool
) -> ScoreTotals | None:
    """The sums of all rows of a batch, which may have weight zero; None if there is something to check or to mask.

    Bins have the edges ``inner`` between them; a confidence on an edge counts in the bin below. ``positive`` are those of the
    probability of the second of two classes; None to leave it out.
    """
    given = as_stored(batch), batch.labels, batch.weights, beta, inner
    if computes_in_c(batch.logits):
        sums, bins, is_unusual = native.score_sums(*given, positive, counts=counts)
    else:
        own = kernel_of(batch).score_sums
        assert own is not None, "which is asked before"
        sums, bins, is_unusual = own(*given, counts=counts)
    weight, units, *_ = sums.tolist()
    if is_unusual or not units > 0:
        return None
    totals, means, scatter = sums[2:].reshape(3, len(SCORES))
    n_rows = batch.n_rows if batch.weights is None else int(batch.xp.count_nonzero(batch.weights))
    n_bins = len(inner) + 1
    further = None if positive is None else BinTotals(*bins[n_bins:].T.copy())
    return ScoreTotals(n_rows, weight, units, totals, means, scatter, BinTotals(*bins[:n_bins].T.copy()), further)
