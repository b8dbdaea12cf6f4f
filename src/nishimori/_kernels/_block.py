"""What a kernel returns, and how it is told which temperatures share work."""

from collections.abc import Sequence
from typing import NamedTuple

from nishimori._array import Array


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


def doublings(betas: Sequence[float]) -> list[list[tuple[int, float]]]:
    """The positions and values of ``betas`` as chains in which each β is twice the one before.

    exp(2βd) is the square of exp(βd), so that a chain needs one exponential.
    """
    left = {beta: i for i, beta in enumerate(betas)}
    chains = []
    for beta in sorted(left):
        chain = []
        while beta in left:
            chain.append((left.pop(beta), beta))
            beta *= 2  # noqa: PLW2901 - the next of the chain
        if chain:
            chains.append(chain)
    return chains
