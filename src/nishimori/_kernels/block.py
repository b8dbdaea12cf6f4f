"""What a kernel returns, and how it is told which temperatures share work."""

from collections.abc import Sequence
from typing import NamedTuple

from nishimori._support.arrays import Array

LARGEST = 1e100
"""The cubes of larger logits overflow float64. Real ones are far smaller; masks are -inf or, often, the lowest float32."""


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
    """

    peak: Array
    top: Array | None
    sums: Array


class RowsNearBeta(NamedTuple):
    """Rows as functions of β near one β: what an expansion of them consists of; see `nishimori._fit.expansion`.

    Attributes
    ----------
    rest : array of shape (n,)
        Σ exp(βd) over the classes other than the top one.
    cumulants : array of shape (6, n)
        The cumulants of d in these classes.
    label_drops : array of shape (n,)
        The d of the true class.
    right : array of shape (n,)
        Whether the top class is true.
    is_usual : bool
        Whether all logits are ordinary numbers; if one is not, the others must not be used before a check.
    """

    rest: Array
    cumulants: Array
    label_drops: Array
    right: Array
    is_usual: bool = True


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
