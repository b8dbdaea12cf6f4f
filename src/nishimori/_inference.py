"""How sure: intervals, and what several temperatures vary together, from sums that a fit has made anyway.

A temperature is where the mean of a gap is zero, so its error is that of an estimating equation: the spread of the gaps over
their slope. Nothing is assumed about how labels come about. Two temperatures of the same rows vary together, because their gaps
do. Everything is in log T, in which errors are closest to normal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from nishimori._array import HostArray
from nishimori._moments import GapSums
from nishimori._numbers import between
from nishimori._observables import Observable

# exp of more is infinite.
_LARGEST_REACH = 700.0


class Interval(NamedTuple):
    """A range of numbers."""

    low: float
    high: float


def normal_quantile(level: float) -> float:
    """How many standard errors to each side an interval of this level reaches, if errors are normal; `level` is checked."""
    level = between("level", level, 0, 1)
    return NormalDist().inv_cdf((1 + level) / 2) if level < 1 else inf


def interval_around(value: float, error: float, level: float) -> Interval:
    """The interval of a number whose error is normal."""
    reach = normal_quantile(level) * error if error > 0 else 0.0
    return Interval(value - reach, value + reach)


def interval_in_ratio(value: float, error: float, level: float) -> Interval:
    """The interval of a positive number whose logarithm has a normal error; ``error`` is the standard error of the number."""
    reach = normal_quantile(level) * error / value
    factor = exp(reach) if reach < _LARGEST_REACH else inf
    return Interval(value / factor, value * factor)


@dataclass(frozen=True)
class Joint:
    """The log T of several observables, and their covariance.

    Attributes
    ----------
    observables : tuple of Observable
        In the order of `logs`.
    logs : array of shape (m,)
        The logarithms of the temperatures.
    covariance : array of shape (m, m)
        That of the logarithms.
    """

    observables: tuple[Observable, ...]
    logs: HostArray
    covariance: HostArray

    @classmethod
    def of(cls, observables: Sequence[Observable], logs: Sequence[float], gaps: GapSums) -> "Joint | None":
        """From the sums at the temperatures, or a short step away; None if they do not have all observables."""
        places = {item.observable: i for i, item in enumerate(gaps.items)}
        if any(each not in places for each in observables):
            return None
        chosen = [places[each] for each in observables]
        slopes = np.array([gaps.items[i].slope[0] * gaps.items[i].betas[0] for i in chosen])
        if not (np.abs(slopes) > 0).all():
            return None
        covariance = gaps.square_products[np.ix_(chosen, chosen)] / np.outer(slopes, slopes)
        return cls(tuple(observables), np.array(logs, dtype=float), covariance)

    def log_error(self, position: int) -> float:
        """The standard error of one of the logarithms."""
        return sqrt(float(self.covariance[position, position]))
