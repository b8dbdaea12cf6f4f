"""What a kernel returns, and how it is told which temperatures share work."""

from collections.abc import Sequence
from typing import NamedTuple

from nishimori._support.arrays import Array, HostArray

N_SUMS = 36
"""How many sums a pair of observables has: see `pair_sums`."""


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
        The inverse temperatures, which `Kernel.power_sums` adds to what a kernel's own function returns.
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
    """What a kernel counts in rows that were not checked before: those of positive weight, and what is in them.

    A kernel that does not tell bad rows from masks counts only where there are neither.

    ``chance`` is the weight of random guesses that are right. ``n_bad`` is the number of rows with NaN, +inf, no class at all,
    or a label that is not the number of a class.
    """

    n_rows: float
    n_masked: float
    chance: float
    n_bad: float


_N_WITH_ANSWERS = N_SUMS + len(AnswerSums._fields)


class BlockSums(NamedTuple):
    """The sums of a pair of observables over a block of rows, without a number per row, and what the labels say.

    ``counted`` is None where the kernel has counted nothing, because some logit is not an ordinary number.
    """

    sums: HostArray
    answers: AnswerSums
    counted: Counted | None

    @classmethod
    def of(cls, found: HostArray) -> "BlockSums":
        """From the numbers of a kernel: the sums, the `AnswerSums`, and perhaps what was `Counted`."""
        counted = Counted(*found[_N_WITH_ANSWERS:].tolist()) if len(found) > _N_WITH_ANSWERS else None
        return cls(found[:N_SUMS], AnswerSums(*found[N_SUMS:_N_WITH_ANSWERS].tolist()), counted)

    @property
    def is_usual(self) -> bool:
        """Whether these are sums of good rows, so that no check is due: at least one, and no bad one."""
        return self.counted is not None and self.counted.n_rows > 0 and not self.counted.n_bad


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
