"""The results of kernels, and the temperatures that share work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nishimori._rows.rows import Sum
from nishimori._support.arrays import Array, HostArray

N_SUMS = 36
"""How many sums `block_sums` gives for the pair of confidence and energy, each at its own β.

With the gap g of the confidence of a row, its derivatives g′, g″, ... in β, the gap h of the energy, the mean drop m, the drop
d of the true class, and r = 1 for a right answer, they are:

- Σwg, Σw|g|, Σwg′, Σwg″, Σwg‴, Σw²g′²
- Σwh, −Σw(m + d), Σwh′, Σwh″, Σwh‴, Σw²h′²
- Σwg², Σwh², Σwgh and the same with w²
- Σw, Σw², Σwr, Σwd
- Σwg′², Σwh′²
- Σwg′h′, Σwgg′, Σwhh′, Σwgh′, Σwhg′ and the same with w²
- Σwg⁗, Σwh⁗
"""


class PowerSums(NamedTuple):
    """Sums over the classes of each row, in float64.

    Attributes
    ----------
    peak : array of shape (n,)
        The largest logit of each row.
    top : array of shape (n,), or None
        The column of the first largest logit of each row. None where no row has several largest ones: the logit at a class
        then tells whether it is the top class.
    sums : array of shape (n_betas, order + 1, n)
        Σ d^j exp(βd) over the classes outside the N largest, for j from 0 to ``order``, with d = z - peak.
    betas : tuple of float
        The inverse temperatures, which `power_sums` of kernel.py adds to what a kernel's own function returns.
    """

    peak: Array
    top: Array | None
    sums: Array
    betas: tuple[float, ...] = ()

    def has(self, beta: float, order: int = 0) -> bool:
        """Whether the sums at one β are among these, up to the power ``order``."""
        return beta in self.betas and self.sums.shape[1] > order

    def at(self, beta: float) -> Array:
        """The sums at one β, (order + 1, n)."""
        return self.sums[self.betas.index(beta), ...]


class AnswerSums(NamedTuple):
    """Sums over the rows whose top class is true, or not: of their weights and of the squares. How many are right or masked."""

    right: float
    wrong: float
    right_squares: float
    wrong_squares: float
    n_right: float
    n_at_masks: float


class Counted(NamedTuple):
    """A kernel's counts in unchecked rows: rows of positive weight, and their contents.

    A kernel that does not tell bad rows from masks counts only where there are neither.

    ``chance`` is the weight of random guesses that are right. ``n_bad`` is the number of rows with NaN, +inf, no class at all,
    or a label that is not the number of a class.
    """

    n_rows: float
    n_masked: float
    chance: float
    n_bad: float


class BlockSums(NamedTuple):
    """The sums of a pair of observables over a block of rows, without a number per row, and what the labels say.

    ``counted`` is None where the kernel has counted nothing, because some logit is not an ordinary number.
    """

    sums: HostArray
    answers: AnswerSums
    counted: Counted | None


SCORES = ("wrong", "confidence", "nll", "brier")
"""The scores of a row: whether its answer is wrong, the probability of the predicted class, the loss, and the Brier score."""


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


FARTHEST = 4
"""The largest distance in nodes between two gaps with summed products."""


@dataclass(frozen=True)
class NodeSums(Sum):
    """Sums of some rows; ``+`` pools two sets of rows.

    With the confidence c of a row, its correctness r, the mean drop m, the drop d of the true class, and the gaps g = c - r and
    h = m - d:

    Attributes
    ----------
    counts : (7,)
        How many rows and right answers; Σw and Σw² of right and of wrong answers (Σw·r, Σw(1-r), Σw²·r, Σw²(1-r)); Σw·d.
    gaps : (ends and nodes, 13)
        In increasing order of β, from 0 to ∞. Σw·c of wrong answers and Σw(1-c) of right ones; minus the slope of Σw·c, and its
        curvature; Σw·m, its slope and curvature; Σw·g², Σw·g·h, Σw·h², and the same with w². Slopes are in β.
    metrics : (nodes, 4)
        Σw·c, Σw·log Z with Z counted from the top class, Brier score, and half of its slope.
    crossed : (nodes, 2, 8)
        Σw·g·h and Σw²·g·h with h some nodes higher: -4 to -1 and 1 to 4; 0 where there is none.
    bins : (nodes, bins, 5)
        Σw, Σw·c, Σw·r, Σw² and Σw²·g².
    """

    counts: HostArray
    gaps: HostArray
    metrics: HostArray
    crossed: HostArray
    bins: HostArray

    @classmethod
    def zeros(cls, n_nodes: int, n_bins: int) -> "NodeSums":
        """The sums of no rows."""
        shapes = (7,), (n_nodes + 2, 13), (n_nodes, 4), (n_nodes, 2, 2 * FARTHEST), (n_nodes, n_bins, 5)
        return cls(*map(np.zeros, shapes))

    def arrays(self) -> tuple[HostArray, ...]:
        """The arrays in the order of their names."""
        return self.counts, self.gaps, self.metrics, self.crossed, self.bins


def doublings(betas: Sequence[float]) -> list[list[tuple[int, float]]]:
    """The positions and values of ``betas`` as chains in which each β is twice the one before.

    exp(2βd) is the square of exp(βd), so that a chain needs one exponential. A β that is given twice is in two chains.
    """
    left: dict[float, list[int]] = {}
    for i, beta in enumerate(betas):
        left.setdefault(beta, []).append(i)
    chains = []
    for first in sorted(left):
        while left[first]:
            chain, beta = [], first
            while left.get(beta):
                chain.append((left[beta].pop(), beta))
                beta *= 2
            chains.append(chain)
    return chains
