"""One-sided limits: a number below and one above what was measured, each on the wrong side of the truth as rarely as is said.

An interval of 90 % has a one-sided limit of 95 % at each end. What these limits add to intervals is that they hold near zero,
where a size |x| cannot be smaller, and for few right or few wrong answers, of which a normal distribution knows too little.
"""

from dataclasses import replace
from math import inf

import numpy as np

from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, normal_quantile

# With fewer wrong or right answers, sums are not close enough to normal to say that a bound is exceeded, or that it is not.
FEW = 10

# At lower levels limits are as much further away than normal ones as at this one: at 0.5 these have no distance.
_LEAST_LEVEL = 0.6

# Bisection to 2**-60 of the width.
_HALVINGS = 60


def one_sided(level: float) -> float:
    """The level of the two-sided interval whose ends are one-sided limits of ``level``, from 0.5 to 1."""
    return 2 * level - 1


def shared(level: float, number: int) -> float:
    """The level at which each of so many limits is wrong so rarely that any of them is as rarely as ``level`` says."""
    return min(1 - (1 - level) / number, 1 - 1e-15)  # no level is 1


def limits_of_share(share: float, number: float, level: float) -> Interval:
    """Limits of a share of this many independent samples, exact where ``number`` is whole.

    C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.
    """
    low, high = _shares(np.array([share]), np.array([number]), 1 - level)
    return Interval(float(low[0]), float(high[0]))


def limits_of_gaps(measured: HostArray, level_low: float, level_high: float) -> tuple[HostArray, HostArray]:
    """Lower and upper limits of abs(confidence - accuracy) of some groups, each end at a level of its own.

    ``measured`` has the rows confidence, accuracy, standard error of their difference, and number of samples. Limits are
    further away the fewer answers are wrong, or right, and so few that hardly any are widen them to those that the exact limits
    of the accuracy leave possible.
    """
    confidences, accuracies, errors, numbers = measured
    sizes, below, above = np.abs(confidences - accuracies), 1 - level_low, 1 - level_high
    low = _lowest_sizes(sizes, errors * stretch(accuracies, numbers, level_low), below)
    high = sizes + normal_quantile(one_sided(level_high)) * errors * stretch(accuracies, numbers, level_high)
    few = are_few(accuracies, numbers)
    least, most = _shares(accuracies, numbers, below)
    low = np.where(few, np.minimum(low, np.maximum(confidences - most, least - confidences)), low)
    least, most = _shares(accuracies, numbers, above)
    high = np.where(few, np.maximum(high, np.maximum(confidences - least, most - confidences)), high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def are_few(shares: HostArray, numbers: HostArray) -> HostArray:
    """Whether shares of so many samples are of so few, or of all but so few, that exact limits are needed."""
    few: HostArray = numbers * np.minimum(shares, 1 - shares) * (1 + 1e-9) < FEW  # which rounding must not decide
    return few


def limits_of_ece(gaps: BinnedGaps, gap: tuple[float, float], share: float, level: float) -> tuple[float, float]:
    """Limits of an ECE from its bins and from the limits of the gap of all samples; ``share`` is that of claims that came true.

    They are further away the fewer claims are true, or false. The ECE is at least the size of the gap, so its upper limit is at
    least that of the gap. Where hardly any claims are true, or false, the errors of bins are not known, and only what the lower
    limit of the gap proves is proven.
    """
    shares, numbers = np.array([share]), np.array([1 / gaps.squares])
    further = stretch(shares, numbers, level)[0]
    low, high = replace(gaps, products=gaps.products * further**2).interval(one_sided(level))
    return min(low, gap[0]) if are_few(shares, numbers)[0] else low, max(high, gap[1])


def stretch(shares: HostArray, numbers: HostArray, level: float) -> HostArray:
    """How much further than a normal limit the exact upper limit of a share is, or of its complement if that is smaller.

    A normal limit forgets that few wrong answers are rarely many by chance, but many rarely few. Where none is wrong it is 1.
    """
    level = max(level, _LEAST_LEVEL)
    rarer, reach = np.minimum(shares, 1 - shares), normal_quantile(one_sided(level))
    normal = reach * np.sqrt(rarer * (1 - rarer) / numbers)
    far = _shares(rarer, numbers, 1 - level)[1] - rarer
    stretched: HostArray = np.maximum(np.divide(far, normal, out=np.ones_like(far), where=rarer * numbers > 0.5), 1)
    return stretched


def _lowest_sizes(sizes: HostArray, errors: HostArray, probability: float) -> HostArray:
    """The least |μ| at which a normal number around μ has at least this size with at least this probability."""
    from scipy.special import ndtr  # noqa: PLC0415 - 50 ms that the shell need not spend before it starts

    ratio = np.divide(sizes, errors, out=np.full_like(sizes, inf), where=errors > 0)
    finite = np.where(np.isfinite(ratio), ratio, 0.0)
    low, high = np.zeros_like(finite), finite.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = ndtr(middle - finite) + ndtr(-middle - finite) >= probability
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(np.isfinite(ratio), low * errors, sizes)


def _shares(shares: HostArray, numbers: HostArray, probability: float) -> tuple[HostArray, HostArray]:
    """The limits of Clopper and Pearson."""
    from scipy.special import betaincinv  # noqa: PLC0415

    hits = shares * numbers
    misses = np.maximum(numbers - hits, 0.0)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1e-12), misses + 1, probability), 0.0)
        high = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, 1e-12), 1 - probability), 1.0)
    return np.minimum(low, shares), np.maximum(high, shares)
