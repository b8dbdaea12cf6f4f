"""Confidence and energy together: the sums of one block of rows at one β each, which is what nearly every reading wants.

They follow from power sums; a kernel that can do it without a number per row does it itself (`Kernel.block_sums`).

There are `N_SUMS` of them, in this order: for confidence Σwg, Σw|g|, then Σw of the first three derivatives of the gap g in β,
and Σw²·slope²; for energy the same, with |⟨d⟩| + |d at the label| in place of |g|; Σw·gE², Σw·gT², Σw·gE·gT; the same three
with w²; Σw, Σw², Σw over right answers, and Σw·d at the labels. What carries products of gaps to another β follows, with s for
the slope: Σw·sE², Σw·sT², Σw·sE·sT, Σw·gE·sE, Σw·gT·sT, Σw·gE·sT, Σw·gT·sE, and the last five of these with w².
"""

from typing import Any

import numpy as np

from nishimori._rows.batch import N_SUMS
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray

__all__ = ["N_SUMS", "pair_sums"]

_ORDER = 4


def pair_sums(batch: Any, beta_ec: float, beta_ts: float, *, exact: bool) -> HostArray:
    """The sums of one batch."""
    fused: HostArray | None = batch.block_sums(beta_ec, beta_ts, exact=exact)
    if fused is not None:
        return fused
    betas = (beta_ec,) if beta_ec == beta_ts else (beta_ec, beta_ts)
    powers = batch.power_sums(betas, _ORDER, exact=exact)
    xp, w, label_drops = batch.xp, batch.weights, batch.label_drops
    gap, slope, weighted_slope, confidence = _confidence(powers[0, ...], batch.right, w, xp)
    excess, variance, weighted_variance, energy = _energy(powers[-1, ...], label_drops, w, xp)
    weighted, weighted_excess = w * gap, w * excess
    with np.errstate(invalid="ignore"):  # an infinite gap, of a masked label, times a slope of zero; such sums are not used
        slope_products = [
            *(weighted_slope @ slope, weighted_variance @ variance, weighted_slope @ variance),
            *(gap @ weighted_slope, excess @ weighted_variance, gap @ weighted_variance, excess @ weighted_slope),
            *(weighted_slope @ weighted_variance, weighted @ weighted_slope, weighted_excess @ weighted_variance),
            *(weighted @ weighted_variance, weighted_excess @ weighted_slope),
        ]
    sums = [
        *confidence,
        *energy,
        *(weighted @ gap, weighted_excess @ excess, weighted @ excess),
        *(weighted @ weighted, weighted_excess @ weighted_excess, weighted @ weighted_excess),
        *(xp.sum(w), w @ w, w @ xp.astype(batch.right, w.dtype), w @ label_drops),
        *slope_products,
    ]
    return np.array(sums) if isinstance(w, np.ndarray) else arrays.on_host(xp.stack(sums))


# The derivatives of an average in β are its joint cumulants with the drop. They are summed term by term: a product of two
# vectors costs a third of a new vector. With c the confidence and mⱼ = ⟨dʲ⟩,
#     c' = -c·m₁,   c'' = c(2m₁² - m₂),   c''' = c(6m₁m₂ - 6m₁³ - m₃)
#     m₁' = m₂ - m₁²,   m₁'' = m₃ - 3m₁m₂ + 2m₁³,   m₁''' = m₄ - 4m₁m₃ - 3m₂² + 12m₁²m₂ - 6m₁⁴


def _confidence(powers: Array, right: Array, w: Array, xp: Any) -> tuple[Array, Array, Array, list[Any]]:
    """The gap of the confidence in each row, its slope, that times the weight, and its six sums."""
    c = 1 / (1 + powers[0, ...])
    table = powers[:4, ...] * c
    doubt, m1, m2, m3 = (table[j, ...] for j in range(4))
    gap = xp.where(right, -doubt, c)
    wc, square, slope = w * c, m1 * m1, -(c * m1)
    wc1, weighted_slope = wc * m1, w * slope
    curvature = 2 * (wc @ square) - wc @ m2
    jerk = 6 * (wc1 @ m2) - 6 * (wc1 @ square) - wc @ m3
    sums = [w @ gap, w @ xp.abs(gap), -(wc @ m1), curvature, jerk, weighted_slope @ weighted_slope]
    return gap, slope, weighted_slope, sums


def _energy(powers: Array, label_drops: Array, w: Array, xp: Any) -> tuple[Array, Array, Array, list[Any]]:
    """The gap of the energy in each row, its slope, that times the weight, and its six sums."""
    table = powers[1:5, ...] * (1 / (1 + powers[0, ...]))
    m1, m2, m3, m4 = (table[j, ...] for j in range(4))
    gap, square = m1 - label_drops, m1 * m1
    w1, w2, wsquare = w * m1, w * m2, w * square
    variance = m2 - square
    weighted_variance = w * variance
    curvature = w @ m3 - 3 * (w1 @ m2) + 2 * (w1 @ square)
    jerk = w @ m4 - 4 * (w1 @ m3) - 3 * (w2 @ m2) + 12 * (wsquare @ m2) - 6 * (wsquare @ square)
    size = -(w @ m1 + w @ label_drops)  # neither is ever positive
    sums = [w @ gap, size, xp.sum(weighted_variance), curvature, jerk, weighted_variance @ weighted_variance]
    return gap, variance, weighted_variance, sums
