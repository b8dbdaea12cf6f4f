"""One-sided limits below and above a measured value, each on the wrong side of the truth at the stated rate.

An interval of 90 % has a one-sided limit of 95 % at each end. What these limits add to intervals is that they hold near zero,
where a size |x| cannot be smaller, and for few right or few wrong answers, of which a normal distribution knows too little.

The limits of a mean loss hold whatever its distribution: they are what a gambler would have won who bet against the mean.

Bets of λ(m - x) on losses x in [0, B] do not pay if their mean is at least m, whatever else is true of them: the capital grows
from 1 to 1/(1 - level) in at most a share 1 - level of data sets. So the means m that such a capital disproves are above an
upper limit of the mean; with bets of λ(x - m) they are below a lower limit, for which losses need no largest value. No upper
limit holds for losses without one (R. R. Bahadur and L. J. Savage, Ann. Math. Stat. 27 (1956) 1115), so an upper limit is
about the mean of min(x, B). I. Waudby-Smith and A. Ramdas, J. R. Stat. Soc. B 86 (2024) 1.

The same is true of weights: a bet on a loss of weight w is λw(m - x), and bets are as large as the largest weight allows. So
limits with weights, or with clusters of different sizes, assume that no weight, or cluster, is larger than the largest seen;
where rare heavy rows have other losses, and the data have none of them, the limits are wrong. Without weights and clusters they
hold for every distribution.

A bet may depend on all losses before it: here on their variance, and on how much of the capital is still missing, as in V.
Voráček and F. Orabona, "STaR-Bets" (2025), with limits that are close to normal ones. The losses are bet on in several random
orders, and what counts is the mean capital. The losses are sorted first, and a digest of them is the seed of the orders: rows
in another order have the same limits. Limits are wrong as rarely as is said on average over these orders. They are fixed by the
losses, which is as good as random unless few data sets are possible: with losses of two values only, as of a model with two
outputs, one size of data sets was found at which a limit of 95 % is wrong for 8.7 % of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from math import inf, log

import numpy as np

from nishimori._evaluation.resampling import KeptRows
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, normal_quantile

# With fewer wrong or right answers, sums are not close enough to normal to say that a bound is exceeded, or that it is not.
FEW = 10

# At lower levels limits are as much further away than normal ones as at this one: at 0.5 these have no distance.
_LEAST_LEVEL = 0.6

# Bisection to 2**-60 of the width.
_HALVINGS = 60

# The capital of each order aims at twice what is needed, so that half of the orders decide. So many orders leave a random part
# of the limits of less than a tenth of a standard error; for more losses fewer are enough, and memory allows fewer.
_FEWEST_ORDERS, _MOST_ORDERS = 8, 32
_LOSSES_IN_ORDERS, _LOSSES_IN_MEMORY = 2**16, 2**22

# Of weights that are counts, at most so many samples are bet on, with a third of a gigabyte. Limits of more would be
# closer by less than a thousandth of a standard deviation.
_MOST_SAMPLES = 2**22

# Bets change this many times.
_ROUNDS = 100

# A bet on a larger mean risks at most this share of the capital, so that no loss can end the game.
LARGEST_RISK = 0.75

# Larger losses count as this one, which lowers a lower limit, so that no square overflows.
_LARGEST = 1e50

# Limits are found to about a hundredth of a standard error.
_HALVINGS_OF_BETS = 7


def one_sided(level: float) -> float:
    """The level of the two-sided interval that has one-sided limits of ``level``, from 0.5 to 1, as ends."""
    return 2 * level - 1


def shared(level: float, number: int) -> float:
    """The level for each of this many limits at which all of them hold together with probability ``level``."""
    return min(1 - (1 - level) / number, 1 - 1e-15)  # no level is 1


def limits_of_share(share: float, number: float, level: float) -> Interval:
    """Limits of a share of this many independent samples, exact where ``number`` is whole.

    C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.
    """
    low, high = _shares(np.array([share]), np.array([number]), 1 - level)
    return Interval(float(low[0]), float(high[0]))


def limits_of_gaps(measured: HostArray, level_low: float, level_high: float) -> tuple[HostArray, HostArray]:
    """Lower and upper limits of abs(confidence - accuracy) of some groups, with separate levels for the two ends.

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
    """Whether shares of this many samples are so close to 0 or 1 that exact limits are needed."""
    return numbers * np.minimum(shares, 1 - shares) * (1 + 1e-9) < FEW  # which rounding must not decide


def limits_of_ece(gaps: BinnedGaps, gap: tuple[float, float], share: float, level: float) -> tuple[float, float]:
    """Limits of an ECE from its bins and the limits of the overall gap; ``share`` is the share of claims that came true.

    They are further away the fewer claims are true, or false. The ECE is at least the size of the gap, so its upper limit is at
    least that of the gap. Where hardly any claims are true, or false, the errors of bins are not known, and only what the lower
    limit of the gap proves is proven.
    """
    shares, numbers = np.array([share]), np.array([1 / gaps.squares])
    further = stretch(shares, numbers, level)[0]
    low, high = replace(gaps, products=gaps.products * further**2).interval(one_sided(level))
    return min(low, gap[0]) if are_few(shares, numbers)[0] else low, max(high, gap[1])


def stretch(shares: HostArray, numbers: HostArray, level: float) -> HostArray:
    """How much the exact upper limit of a share (or of its complement, if smaller) exceeds the normal limit.

    A normal limit forgets that few wrong answers are rarely many by chance, but many rarely few. Where none is wrong it is 1.
    """
    level = max(level, _LEAST_LEVEL)
    rarer, reach = np.minimum(shares, 1 - shares), normal_quantile(one_sided(level))
    normal = reach * np.sqrt(rarer * (1 - rarer) / numbers)
    far = _shares(rarer, numbers, 1 - level)[1] - rarer
    return np.maximum(np.divide(far, normal, out=np.ones_like(far), where=rarer * numbers > 0.5), 1)


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


# Mean losses: bets against the mean


@dataclass(frozen=True, eq=False)
class Losses:
    """Independent losses of at least 0, sorted, with their weights, of mean 1."""

    values: HostArray
    weights: HostArray

    @classmethod
    def from_rows(cls, kept: KeptRows, cap: float = inf) -> "Losses":
        """The independent losses, each at most ``cap``: those of rows, or the means of clusters."""
        values, weights = kept.columns
        values = np.clip(values, 0.0, min(cap, _LARGEST))
        if kept.clusters is None:
            return cls.from_values(values, weights, counts=kept.counts)
        totals = np.bincount(kept.clusters, weights)
        return cls.from_values(np.bincount(kept.clusters, weights * values) / totals, totals, counts=False)

    @classmethod
    def from_values(cls, values: HostArray, weights: HostArray, *, counts: bool) -> "Losses":
        """Losses in any order, with weights; only ratios of weights matter, unless they are ``counts`` of samples."""
        order = np.lexsort((weights, values))
        values, weights = values[order], weights[order]
        if counts:  # copies are bet on at different times, as other samples are
            values = _samples(values, weights)
            return cls(values, np.ones(len(values)))
        return cls(values, weights / weights.mean())

    @cached_property
    def mean(self) -> float:
        """The weighted mean."""
        return float(self.weights @ self.values / self.weights.sum())

    @cached_property
    def _orders(self) -> HostArray:
        """Several permutations, seeded by a digest of the losses that does not depend on rounding."""
        n = len(self.values)
        digest = sha256(f"{n} {self.mean:.6e} {self.weights @ self.values**2:.6e}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "little"))
        number = min(max(_LOSSES_IN_ORDERS // n, _FEWEST_ORDERS), _MOST_ORDERS, max(_LOSSES_IN_MEMORY // n, 1))
        return np.array([rng.permutation(n) for _ in range(number)])

    def upper_limit(self, cap: float, level: float, bound: float) -> float:
        """An upper limit of the mean of losses of at most ``cap``; it is at most ``bound`` if the bets disprove that mean."""
        most = 1 / (cap * self.weights.max())
        excess = partial(Game.in_random_orders(self).excess, sign=-1.0, most=most, level=level)
        limit = _crossing(excess, self.mean, cap, self._se)
        return min(limit, bound) if excess(bound) >= 0 else max(limit, float(np.nextafter(bound, inf)))

    def lower_limit(self, level: float, bound: float) -> float:
        """A lower limit of the mean; it is above ``bound`` if the bets disprove that mean."""
        game, most = Game.in_random_orders(self), LARGEST_RISK / self.weights.max()

        def excess(mean: float) -> float:
            return float(game.excess(mean, 1.0, most / mean, level)) if mean > 0 else inf

        if self.mean == 0:
            return 0.0
        limit = _crossing(excess, self.mean, 0.0, self._se)
        return max(limit, float(np.nextafter(bound, inf))) if excess(bound) >= 0 else min(limit, bound)

    @property
    def _se(self) -> float:
        """The normal standard error of the mean, as a scale for the search for limits."""
        return float(np.sqrt(self.weights**2 @ (self.values - self.mean) ** 2) / self.weights.sum())


@dataclass(frozen=True, eq=False)
class Game:
    """Losses in some orders, cut into rounds with one bet each, and the statistics before each round."""

    values: HostArray  # (orders, losses)
    weights: HostArray
    edges: HostArray  # (rounds + 1,): how many losses come before each round
    squares: HostArray  # (orders, rounds + 1): their Σ(w(x - mean))²

    @classmethod
    def in_random_orders(cls, losses: Losses) -> "Game":
        """The losses in random orders."""
        values, weights = losses.values[losses._orders], losses.weights[losses._orders]
        edges = np.unique(np.linspace(0, values.shape[1], _ROUNDS + 1).round().astype(int))

        def before(summands: HostArray) -> HostArray:
            totals = np.zeros((len(summands), len(edges)))
            totals[:, 1:] = np.add.reduceat(summands, edges[:-1], axis=1).cumsum(axis=1)
            return totals

        # Around one middle, squares of losses that are almost equal keep their digits.
        apart, squared = values - losses.mean, weights**2
        mean = before(weights * apart) / np.maximum(before(weights), 1e-300)
        squares = before(squared * apart**2) - 2 * mean * before(squared * apart) + mean**2 * before(squared)
        return cls(values, weights, edges, np.maximum(squares, 0))

    def excess(self, mean: float, sign: float, most: float, level: float) -> float:
        """The logarithm of the mean final capital, relative to the capital that disproves ``mean`` at a level."""
        capital = self.capital(mean, sign, most, level)
        largest = capital.max()
        return float(largest + np.log(np.exp(capital - largest).mean()) + log(1 - level))

    def capital(self, mean: float, sign: float, most: float, level: float) -> HostArray:
        """The logarithm of the final capital of each order, with bets of at most ``most``; sign 1 bets on larger losses."""
        goal = -log(1 - level) + (log(2) if len(self.values) > 1 else 0.0)
        capital, total = np.zeros(len(self.values)), self.edges[-1]
        # The first bets take losses for rare ones of one nat, as if one sample had shown it.
        variances = (max(mean, 1e-12) + self.squares) / (1 + self.edges)
        for place, (start, end) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
            left = (total - start) * variances[:, place]
            bets = sign * np.minimum(np.sqrt(2 * np.maximum(goal - capital, 0) / left), most)
            part = slice(start, end)
            gains = bets[:, None] * self.weights[:, part] * (self.values[:, part] - mean)
            capital = capital + np.log1p(gains).sum(axis=1)
        return capital


def _samples(values: HostArray, counts: HostArray) -> HostArray:
    """Sorted losses, each repeated as often as its count says.

    Of counts that are not whole, or are more than `_MOST_SAMPLES`, these are the losses at even steps through all of them, as
    many as the counts sum to: their mean is that of all, and they vary less than as many random ones.
    """
    ends = counts.cumsum()
    number = int(min(max(round(float(ends[-1])), 1), _MOST_SAMPLES))
    places = np.searchsorted(ends, (np.arange(number) + 0.5) * (ends[-1] / number), side="right")
    return values[np.minimum(places, len(values) - 1)]


def _crossing(excess: Callable[[float], float], estimate: float, end: float, se: float) -> float:
    """The mean that the capital only just disproves, between the estimate and an end of the range."""
    inside = max if end < estimate else min
    near, reach = estimate, (2 * se or abs(end - estimate) / 64) * (1 if end > estimate else -1)  # also of equal losses
    while excess(far := inside(estimate + reach, end)) <= 0:
        if far == end:
            return end
        near, reach = far, 1.5 * reach
    for _ in range(_HALVINGS_OF_BETS):
        middle = (near + far) / 2
        near, far = (near, middle) if excess(middle) > 0 else (middle, far)
    return far
