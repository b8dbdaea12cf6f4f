"""Power sums of rows in half precision from the values that occur in them.

A number of 16 bits has one of 65,536 values, and the logits of a language model take about 3,000 of them in bfloat16 and 20,000
in float16. So a row of 151,936 classes is read once, to count how often each value occurs. All sums, at any number of β, then
follow from these few values in float64, with one exponential for each of them.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from nishimori._kernels.sums import PowerSums, doublings
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

N_VALUES = 2**16
"""How many patterns 16 bits have."""

# To look for the values that occur in a row takes as long as the arithmetic of about this many classes.
MANY = 2**13
"""Rows of fewer classes are not counted."""


def takes_half(logits: HostArray) -> bool:
    """Whether these are rows of half precision with enough classes that counting them pays."""
    return arrays.is_half(logits) and logits.ndim == 2 and logits.shape[1] >= MANY


def power_sums(logits: HostArray, betas: Sequence[float], order: int) -> PowerSums:
    """Power sums at any ``betas``, 0 and ∞ among them, outside the largest class."""
    bits, values = arrays.half_bits(logits), arrays.half_values(arrays.dtype_name(logits))
    n = len(bits)
    peak, top, sums = np.empty(n, np.float32), np.empty(n, np.int64), np.empty((len(betas), order + 1, n))
    for i, row in enumerate(bits):
        numbers = np.bincount(row, minlength=N_VALUES)
        (present,) = np.nonzero(numbers)
        present = present[values[present] > -inf]  # masked classes have no weight
        distinct, numbers = values[present], numbers[present].astype(np.float64)
        largest = distinct.argmax()
        patterns = present[distinct == distinct[largest]]  # two if the largest is zero, which may have a sign
        peak[i], top[i] = distinct[largest], np.logical_or.reduce([row == pattern for pattern in patterns]).argmax()
        numbers[largest] -= 1
        _fill(distinct - distinct[largest], numbers, betas, sums[:, :, i])
    return PowerSums(peak, top, sums)


def _fill(drops: HostArray, numbers: HostArray, betas: Sequence[float], sums: HostArray) -> None:
    """The sums of one row: of all powers at each β."""
    powers = np.vander(drops, sums.shape[1], increasing=True) * numbers[:, None]
    usual = [i for i, beta in enumerate(betas) if 0 < beta < inf]
    for i in set(range(len(betas))) - set(usual):
        sums[i] = powers.sum(axis=0) if betas[i] == 0 else powers[drops == 0].sum(axis=0)
    for chain in doublings([betas[i] for i in usual]):
        weights = np.exp(chain[0][1] * drops)
        for j, (i, _) in enumerate(chain):
            if j:
                weights = weights * weights
            sums[usual[i]] = weights @ powers
