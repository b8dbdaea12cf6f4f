"""Certify, with probability 1 - δ, which of the most confident answers are wrong at most a share r of the time.

Learn then test (Angelopoulos et al., arXiv:2110.01052): at up to 80 ranks of confidence, which the confidences alone fix, an
exact binomial test asks whether the answers above are wrong more often than r. The tests are combined by closed testing over
"the first bad rank is j". If it is, errors of the answers above rank j and every later one are a random walk whose steps are
wrong with probability r or more, as long as accuracy does not rise while confidence falls past that rank. So a rank is
certified at a level ℓ_j at which such a walk passes any later test with probability δ at most: exactly, by convolution. A
sequence that stops at the first test that is not passed would need no such level, but refuses where the most confident answers
have a flat error rate, as with label noise: the first tests have the fewest answers.

With clusters, or more rows than the convolution is worth, ℓ shares δ among the tests (Bonferroni).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, e, floor, log, sqrt

import numpy as np
from scipy.special import bdtr, bdtrik, gammaln

from nishimori._support.arrays import HostArray

# With 25 ranks, each answers up to a quarter more than the one before, and the coverage was 1 to 2 points lower.
_RANKS = 80

# The first test has the fewest answers, and decides where the error rate rises quickly.
_FIRST_WEIGHT = 3.0

# Levels that are tried, in equal ratios from the sum of all tests, which is always valid, up to δ: two are 9 % apart.
_LEVELS = 40

# With more rows the tests are so sharp that their level hardly matters, and convolutions would take many seconds.
_MOST_CONVOLVED = 100_000

# Steps whose number of errors is this many standard deviations from its mean have a probability below 1e-20.
_REACH = 10


def least_answers(max_risk: float, delta: float) -> int:
    """How many right answers certify a risk: one more than are tested, because one supplies the threshold."""
    return ceil(log(delta) / log(1 - max_risk)) + 1


def first_cluster_level(delta: float) -> float:
    """The level of the first test where there are clusters."""
    return delta * _FIRST_WEIGHT / (_RANKS + _FIRST_WEIGHT - 1)


@dataclass(frozen=True)
class RankedAnswers:
    """How many answers lie above each of some falling thresholds, and how many of them are wrong.

    ``clusters`` has the numbers of clusters that have an answer there, and the sum of the shares of their answers that are
    wrong.
    """

    thresholds: HostArray
    answered: HostArray
    wrong: HostArray
    clusters: tuple[HostArray, HostArray] | None = None

    @classmethod
    def from_rows(
        cls,
        confidence: HostArray,
        wrong: HostArray,
        max_risk: float,
        delta: float,
        clusters: HostArray | None = None,
        just_below: Callable[[HostArray], HostArray] = np.asarray,
    ) -> "RankedAnswers":
        """Counts at ranks in geometric steps; answers of equal confidence belong together.

        ``just_below`` lowers thresholds by what the last digits of confidences may differ when they are computed again.
        """
        order = np.argsort(-confidence, kind="stable")
        falling, errors = confidence[order], np.cumsum(wrong[order])
        n, least = len(falling), least_answers(max_risk, delta)
        ranks = np.unique(np.rint(np.geomspace(least, n, _RANKS)).astype(np.int64)) if least <= n else np.zeros(0, np.int64)
        thresholds = np.unique(just_below(falling[ranks - 1]))[::-1]
        answered = np.searchsorted(-falling, -thresholds, side="right")
        by_cluster = None if clusters is None else _of_clusters(clusters[order], wrong[order], answered)
        return cls(thresholds, answered, errors[answered - 1], by_cluster)


def _of_clusters(clusters: HostArray, wrong: HostArray, answered: HostArray) -> tuple[HostArray, HostArray]:
    """The number of clusters among the first answers, and the sum over clusters of the share of wrong answers."""
    codes = np.unique(clusters, return_inverse=True)[1]
    numbers, losses = [], []
    for last in answered.tolist():
        sizes = np.bincount(codes[:last], minlength=codes.max() + 1)
        errors = np.bincount(codes[:last], wrong[:last], minlength=codes.max() + 1)
        numbers.append(int((sizes > 0).sum()))
        losses.append(float((errors[sizes > 0] / sizes[sizes > 0]).sum()))
    return np.array(numbers), np.array(losses)


def certified(answers: RankedAnswers, max_risk: float, delta: float) -> int:
    """The number of certified thresholds, which come first; 0 if none is certified."""
    if not len(answers.thresholds):
        return 0
    weights = _weights(len(answers.thresholds))
    if answers.clusters is not None:
        numbers, losses = answers.clusters
        passed = np.flatnonzero(_cluster_p_values(numbers, losses, max_risk) <= delta * weights / weights.sum())
        return int(passed[-1]) + 1 if len(passed) else 0
    tested = answers.answered - 1  # the row whose confidence is the threshold is not tested, but its error counts
    p_values = bdtr(np.minimum(answers.wrong, tested), tested, max_risk)
    levels = np.array(_levels(tuple(tested.tolist()), max_risk, delta))
    done = 0
    while done < len(tested):
        passed = np.flatnonzero(p_values <= np.minimum(delta, weights * levels[done]))
        if not len(passed) or passed[-1] < done:
            break
        done = int(passed[-1]) + 1
    return done


def _weights(number: int) -> HostArray:
    """The factor for the level of each test."""
    weights = np.ones(number)
    weights[0] = _FIRST_WEIGHT
    return weights


@lru_cache(maxsize=16)
def _levels(ranks: tuple[int, ...], risk: float, delta: float) -> tuple[float, ...]:
    """For each rank, the largest level at which a walk from there passes a test with probability ``delta`` at most."""
    tested, weights = np.array(ranks), _weights(len(ranks))
    tried = np.geomspace(delta / weights.sum(), delta, _LEVELS)
    levels = np.full(len(tested), tried[0])
    if tested[-1] <= _MOST_CONVOLVED:
        for level in tried[1:]:
            passes = pass_probabilities(tested, np.minimum(delta, weights * level), risk) <= delta
            if not passes.any():
                break
            levels[passes] = level
    return tuple(np.maximum.accumulate(levels).tolist())


def pass_probabilities(tested: HostArray, levels: HostArray, risk: float) -> HostArray:
    """For each rank j, the probability that a walk with this error rate passes a test at j or later."""
    limits = most_errors(tested, levels, risk)
    most = int(limits.max())
    probabilities = np.zeros(len(tested))
    if most < 0:
        return probabilities
    errors = np.arange(most + 1)
    passes = np.zeros(most + 1)  # by the number of errors so far; with more than `most` none is passed
    for rank in range(len(tested) - 1, -1, -1):
        if rank < len(tested) - 1:
            passes = _before_steps(passes, int(tested[rank + 1] - tested[rank]), risk)
        passes = np.where(errors <= limits[rank], 1.0, passes)
        probabilities[rank] = _probabilities(errors, int(tested[rank]), risk) @ passes
    return probabilities


def _before_steps(passes: HostArray, steps: int, risk: float) -> HostArray:
    """The mean of ``passes`` this many steps earlier, by the number of errors at that step."""
    middle, reach = steps * risk, _REACH * sqrt(steps * risk * (1 - risk)) + _REACH
    low, high = max(0, floor(middle - reach)), min(steps, ceil(middle + reach), len(passes) - 1)
    if low > high:
        return np.zeros_like(passes)
    added = _probabilities(np.arange(low, high + 1), steps, risk)
    shifted = np.concatenate([passes[low:], np.zeros(low)])
    return np.convolve(shifted[::-1], added)[: len(passes)][::-1]


def most_errors(tested: HostArray, levels: HostArray, risk: float) -> HostArray:
    """The most errors with which the test of each rank is passed at its level; -1 if it cannot be."""
    limits = np.floor(bdtrik(levels, tested, risk))
    limits = np.where(bdtr(limits + 1, tested, risk) <= levels, limits + 1, limits)  # the inverse is right up to rounding
    return np.where(bdtr(limits, tested, risk) <= levels, limits, limits - 1).astype(np.int64)


def _probabilities(errors: HostArray, n: int, risk: float) -> HostArray:
    """How probable each number of errors among n answers is; 0 for more than n."""
    possible = np.minimum(errors, n)
    ways = gammaln(n + 1) - gammaln(possible + 1) - gammaln(n - possible + 1)
    return np.where(errors <= n, np.exp(ways + possible * log(risk) + (n - possible) * log(1 - risk)), 0.0)


def _cluster_p_values(numbers: HostArray, losses: HostArray, risk: float) -> HostArray:
    """P-values of a mean share of wrong answers per cluster above the risk (Hoeffding, Bentkus); one cluster is not tested."""
    n = np.maximum(numbers - 1, 1)
    mean = np.minimum(losses / n, 1.0)
    below = np.minimum(mean, risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(below > 0, below * np.log(below / risk), 0.0) + (1 - below) * np.log((1 - below) / (1 - risk))
    bentkus = e * bdtr(np.ceil(n * mean - 1e-9), n, risk)
    return np.where(numbers > 1, np.minimum(np.exp(-n * entropy), bentkus), 1.0)


# More answers than this are not proposed.
_MOST_NEEDED = 2**27


def needed_answers(share: float, rate: float, max_risk: float, delta: float) -> int | None:
    """About how many samples would certify a rank with this share of them and this error rate; None if no number would."""
    if rate >= max_risk:
        return None
    low, high = least_answers(max_risk, delta), _MOST_NEEDED
    level = delta / (_RANKS + _FIRST_WEIGHT - 1)
    while high - low > low // 100:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if bdtr(min(ceil(rate * middle), middle - 1), middle - 1, max_risk) <= level else (middle, high)
        )
    return None if high == _MOST_NEEDED else ceil(high / share)
