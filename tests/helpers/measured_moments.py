"""The moments of one observable, where tests look at nothing else, and the sums that kernels return for a pair of them."""

import numpy as np

from nishimori._kernels.sums import N_SUMS
from nishimori._sums import moments
from nishimori._sums.observables import Confidence, Energy


def measure(batch, observable, betas):
    """The moments of one observable on one batch."""
    return moments.Measure(((observable, tuple(betas)),))(batch).items[0]


def pair_sums(batch, beta_ec, beta_ts, *, exact=True):
    """The sums of confidence and energy in the order in which kernels return them."""
    found = moments.Measure(((Confidence(), (beta_ec,)), (Energy(), (beta_ts,))), exact)(batch)
    ec, ts = found.items
    sums = np.empty(N_SUMS)
    for places, one in zip(moments._MOMENTS, (ec, ts), strict=True):
        sums[places] = np.concatenate([one.excess, one.size, *one.derivatives])
    sums[moments._PRODUCTS] = [found.products, found.square_products]
    sums[moments._SLOPE_PRODUCTS] = found.slope_products
    sums[18:22] = ec.weight, found.squares, ec.observed + ec.weight, ts.observed
    return sums
