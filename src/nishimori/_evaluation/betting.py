"""Limits of a mean loss, whatever its distribution: what a gambler would have won who bet against the mean.

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
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import inf, log

import numpy as np

from nishimori._evaluation.metrics.metric import Metric
from nishimori._evaluation.metrics.resampling import KeptRows
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import HostArray

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
_HALVINGS = 7


class LossOfSamples(Metric):
    """The NLL of each sample, which is kept: 16 bytes per sample, or 24 with clusters."""

    name = "nll_of_samples"
    needs = "label"
    keeps_sums = True

    def sums(self, predictions: Predictions) -> KeptRows:
        """The losses of a batch."""
        return KeptRows.from_predictions(predictions, -predictions.log_likelihood)

    def of_sums(self, sums: KeptRows) -> tuple[float, None]:
        """Their mean; its standard error is that of the NLL."""
        values, weights = sums.columns
        return float(weights @ values / weights.sum()), None


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
        """Losses in any order with weights, of which only ratios matter unless they are ``counts`` of samples."""
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
        """Several permutations, whose seed is a digest of the losses that does not depend on how they were rounded."""
        n = len(self.values)
        digest = sha256(f"{n} {self.mean:.6e} {self.weights @ self.values**2:.6e}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "little"))
        number = min(max(_LOSSES_IN_ORDERS // n, _FEWEST_ORDERS), _MOST_ORDERS, max(_LOSSES_IN_MEMORY // n, 1))
        return np.array([rng.permutation(n) for _ in range(number)])

    def upper_limit(self, cap: float, level: float, bound: float) -> float:
        """An upper limit of the mean of losses of at most ``cap``; it is at most ``bound`` if the bets disprove that mean."""
        game, most = Game.in_random_orders(self), 1 / (cap * self.weights.max())

        def excess(mean: float) -> float:
            return float(game.excess(mean, -1.0, most, level))

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
        """A normal standard error of the mean, near which to look for limits."""
        return float(np.sqrt(self.weights**2 @ (self.values - self.mean) ** 2) / self.weights.sum())


@dataclass(frozen=True, eq=False)
class Game:
    """Losses in some orders, cut into rounds with one bet each, and what is known before each round."""

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
        """The logarithm of the mean capital at the end, over that which disproves ``mean`` at a level."""
        capital = self.capital(mean, sign, most, level)
        largest = capital.max()
        return float(largest + np.log(np.exp(capital - largest).mean()) + log(1 - level))

    def capital(self, mean: float, sign: float, most: float, level: float) -> HostArray:
        """The logarithm of the capital of each order at the end, with bets of at most ``most``; 1 bets on larger losses."""
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
    """Each of some sorted losses as often as its count says.

    Of counts that are not whole, or are more than `_MOST_SAMPLES`, these are the losses at even steps through all of them, as
    many as the counts sum to: their mean is that of all, and they vary less than as many random ones.
    """
    ends = counts.cumsum()
    number = int(min(max(round(float(ends[-1])), 1), _MOST_SAMPLES))
    places = np.searchsorted(ends, (np.arange(number) + 0.5) * (ends[-1] / number), side="right")
    samples: HostArray = values[np.minimum(places, len(values) - 1)]
    return samples


def _crossing(excess: Callable[[float], float], estimate: float, end: float, se: float) -> float:
    """The mean at which the capital is just enough: between the estimate, which it does not disprove, and an end."""
    inside = max if end < estimate else min
    near, reach = estimate, (2 * se or abs(end - estimate) / 64) * (1 if end > estimate else -1)  # also of equal losses
    while excess(far := inside(estimate + reach, end)) <= 0:
        if far == end:
            return end
        near, reach = far, 1.5 * reach
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        near, far = (near, middle) if excess(middle) > 0 else (middle, far)
    return far
