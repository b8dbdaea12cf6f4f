"""Confidence intervals of means, ratios and shares whose standard errors are known."""

from math import erfc, exp, inf, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.numbers import between

# exp of more is infinite.
_LARGEST_REACH = 700.0


class Interval(NamedTuple):
    """A range of numbers."""

    low: float
    high: float


def normal_quantile(level: float) -> float:
    """The half-width of a normal interval of this level, in standard errors; `level` is checked."""
    level = between("level", level, 0, 1)
    return NormalDist().inv_cdf((1 + level) / 2) if level < 1 else inf


def two_sided(statistic: float) -> float:
    """The probability that a standard normal number is at least as far from zero."""
    return erfc(abs(statistic) / sqrt(2))


def interval_around(value: float, error: float, level: float) -> Interval:
    """The interval of a number with a normal error."""
    reach = normal_quantile(level) * error if error > 0 else 0.0
    return Interval(value - reach, value + reach)


def interval_in_ratio(value: float, error: float, level: float) -> Interval:
    """The interval of a positive number with a normal error of its logarithm; ``error`` is the number's standard error."""
    reach = normal_quantile(level) * error / value
    factor = exp(reach) if reach < _LARGEST_REACH else inf
    return Interval(value / factor, value * factor)


def number_behind(share: float, variance: float, squares: float) -> float:
    """The effective number of samples for the variance of a share; ``squares`` is Σw²/(Σw)².

    If all answers are alike, the variance is only rounding, and there are as many samples as have these weights.
    """
    spread = share * (1 - share)
    return spread / variance if spread > 0 and variance > 1e-24 * squares else 1 / squares


def interval_of_share(share: float, number: float, level: float) -> Interval:
    """The interval of a share of this many independent samples."""
    reach = normal_quantile(level)
    if reach == inf:
        return Interval(0.0, 1.0)
    low, high = wilson_limits(np.array([share]), np.array([number]), reach)
    return Interval(float(low[0]), float(high[0]))


def wilson_limits(shares: HostArray, numbers: HostArray, reach: float) -> tuple[HostArray, HostArray]:
    """Wilson's score intervals of shares of this many samples: inside [0, 1], and never of width zero.

    E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209.
    """
    part = reach**2 / numbers
    centre = (shares + part / 2) / (1 + part)
    half = reach / (1 + part) * np.sqrt(shares * (1 - shares) / numbers + part / (4 * numbers))
    # Rounding may leave the share outside, or the end outside [0, 1], by an ulp.
    return np.clip(np.minimum(centre - half, shares), 0, 1), np.clip(np.maximum(centre + half, shares), 0, 1)
