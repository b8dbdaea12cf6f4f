"""Power sums in any array library, from tables in float64: for every β, also 0 and ∞, and for any number of top classes."""

from collections.abc import Sequence
from math import inf
from typing import Any

from nishimori._kernels.sums import PowerSums
from nishimori._support import arrays
from nishimori._support.arrays import Array, namespace


def power_sums(logits: Array, betas: Sequence[float], order: int, top_n: int = 1) -> PowerSums:
    """Power sums for any ``betas`` and ``top_n``."""
    z = arrays.in_double(logits)
    xp = namespace(z)
    peak, top = xp.max(z, axis=1), xp.argmax(z, axis=1)
    drops = z - peak[:, None]
    live = drops > -inf
    shares = _outside(drops, top, top_n, xp) if top_n > 1 else arrays.with_entries(xp.astype(live, drops.dtype), top, 0.0)
    drops = xp.where(live, drops, xp.zeros_like(drops))
    ones = xp.ones_like(drops[0, :])
    rows = []
    for beta in betas:
        table = boltzmann(drops, beta, xp) * shares
        for j in range(order + 1):
            rows.append(table @ ones)  # the fastest sum over classes in every array library
            if j < order:
                table = table * drops
    return PowerSums(peak, top, xp.reshape(xp.stack(rows), (len(betas), order + 1, z.shape[0])))


def boltzmann(drops: Array, beta: float, xp: Any) -> Array:
    """exp(βd), and 0 where d is -inf: at β = 0 it is 1 elsewhere, at β = ∞ it is 1 where d is 0."""
    if beta in (0, inf):
        return xp.astype(drops > -inf if beta == 0 else drops == 0, drops.dtype)
    return xp.exp(beta * drops)


def _outside(drops: Array, top: Array, top_n: int, xp: Any) -> Array:
    """The share of each class that lies outside the ``top_n`` largest: 0 or 1, or in between for classes equal to the last."""
    others = arrays.with_entries(drops + 0, top, -inf)
    least = xp.min(arrays.largest(others, top_n - 1), axis=1)[:, None]
    below, ties = (others < least) & (others > -inf), (others == least) & (others > -inf)
    above = _number(others > least, xp)
    n_ties = _number(ties, xp)
    # Of the classes equal to the last one inside, this many are outside.
    left = (n_ties + above - (top_n - 1)) / xp.where(n_ties > 0, n_ties, xp.ones_like(n_ties))
    return xp.where(below, xp.ones_like(drops), xp.where(ties, xp.zeros_like(drops) + left[:, None], xp.zeros_like(drops)))


def _number(flags: Array, xp: Any) -> Array:
    return xp.sum(xp.astype(flags, xp.float64), axis=1)
