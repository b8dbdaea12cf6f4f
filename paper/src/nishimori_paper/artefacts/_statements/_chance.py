"""The probability that a criterion fails by chance, from the standard errors of the numbers that it compares.

Errors are taken to be normal. Where several numbers must all stay within a limit, they are taken to be independent.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import prod

import numpy as np
from scipy.special import ndtr

ONE_SIDED = 1.6448536269514722
"""Standard errors from the estimate to the 95 % limit on one side."""
TWO_SIDED = 1.959963984540054
"""Standard errors from the estimate to either limit of a 95 % interval."""
_SHOWN = 0.001


def in_words(probability: float) -> str:
    """A probability with two digits; very small ones are shown as a bound."""
    return f"under {_SHOWN:g}" if probability < _SHOWN else f"{probability:.2g}"


def beyond(limit: float, error: float) -> float:
    """The probability that an estimate of zero is further than ``limit`` from zero, on either side."""
    return float(2 * ndtr(-limit / error))


def any_beyond(limit: float, errors: Iterable[float]) -> float:
    """The probability that one of several estimates of zero is further than ``limit`` from zero."""
    return either(*(beyond(limit, error) for error in errors))


def any_wrong_sign(values: Iterable[float], errors: Iterable[float]) -> float:
    """The probability that one of several numbers with these true, positive values is negative on other images."""
    return either(*(float(ndtr(-value / error)) for value, error in zip(values, errors, strict=True)))


def not_inferior_fails(margin: float, error: float) -> float:
    """The probability that the lower 95 % limit of a difference is below −``margin`` although the difference is zero."""
    return float(ndtr(ONE_SIDED - margin / error))


def equivalence_fails(margin: float, error: float) -> float:
    """The probability that the 95 % interval of a difference exceeds ±``margin`` although the difference is zero."""
    return beyond(max(margin - TWO_SIDED * error, 0.0), error)


def any_equivalence_fails(margin: float, errors: Iterable[float]) -> float:
    """The same probability for at least one of several differences."""
    return either(*(equivalence_fails(margin, error) for error in errors))


def either(*probabilities: float) -> float:
    """The probability that at least one of several independent events happens."""
    return 1 - prod(1 - probability for probability in probabilities)


def at_least(count: int, probabilities: Sequence[float]) -> float:
    """The probability that at least ``count`` of several independent events happen."""
    happened = np.array([1.0])  # the distribution of their number
    for p in probabilities:
        happened = np.append(happened * (1 - p), 0.0) + np.append(0.0, happened * p)
    return float(happened[count:].sum())


def rank_correlation_above(limit: float, n: int) -> float:
    """The share of all orders of ``n`` values whose rank correlation with their place exceeds ``limit``."""
    orders = np.array(list(permutations(range(n))), dtype=np.int8)
    moved = ((orders - np.arange(n, dtype=np.int8)).astype(np.int16) ** 2).sum(axis=1)
    return float(np.mean(1 - 6 * moved / (n * (n**2 - 1)) > limit))
