"""What is certified: crossing probabilities by enumeration, and how rarely a certificate is wrong at the bound."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from nishimori._evaluation.certificate import (
    RankedAnswers,
    _cluster_p_values,
    _levels,
    certified,
    least_answers,
    most_errors,
    needed_answers,
    pass_probabilities,
)

DELTA = 0.05


def crossing(tested, limits, risk):
    """The probability that a Bernoulli walk has at most ``limits`` errors at some rank, by its distribution rank by rank."""
    alive, crossed, before = {0: 1.0}, 0.0, 0
    for m, limit in zip(tested, limits, strict=True):
        steps, after = m - before, {}
        for errors, p in alive.items():
            for more in range(steps + 1):
                after[errors + more] = after.get(errors + more, 0.0) + p * binom.pmf(more, steps, risk)
        crossed += sum(p for errors, p in after.items() if errors <= limit)
        alive, before = {errors: p for errors, p in after.items() if errors > limit}, m
    return crossed


@pytest.mark.parametrize("risk", [0.05, 0.2])
def test_passing_is_as_probable_as_enumeration_says(risk):
    tested, levels = np.array([14, 20, 31, 47]), np.array([0.03, 0.01, 0.02, 0.05])
    limits = most_errors(tested, levels, risk)
    for limit, m, level in zip(limits, tested, levels, strict=True):
        assert limit == -1 or binom.cdf(limit, m, risk) <= level
        assert binom.cdf(limit + 1, m, risk) > level
    found = pass_probabilities(tested, levels, risk)
    for first in range(4):
        assert found[first] == pytest.approx(crossing(tested[first:], limits[first:], risk), abs=1e-12)


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("n", [100, 300, 1000, 10_000])
def test_a_flat_risk_at_the_bound_is_certified_as_rarely_as_promised(n, risk):
    ranked = RankedAnswers.from_rows(-np.arange(n, dtype=float), np.zeros(n), risk, DELTA)
    if not len(ranked.thresholds):
        assert n < least_answers(risk, DELTA)
        return
    tested, weights = ranked.answered - 1, np.ones(len(ranked.answered))
    weights[0] = 3
    levels = np.array(_levels(tuple(tested.tolist()), risk, DELTA))
    assert (np.diff(levels) >= 0).all()
    # All errors have the risk itself, so the first rank is bad if any is: what is certified is certified by the first level.
    probability = pass_probabilities(tested, np.minimum(DELTA, weights * levels[0]), risk)[0]
    assert 0.02 < probability <= DELTA


def rates(kind, n):
    """The probability of an error at each rank, so that some threshold has a cumulative risk above 5 %, or at it."""
    u = (np.arange(n) + 0.5) / n
    if kind == "flat":
        return np.full(n, 0.05 + 1e-9)
    if kind == "steep":  # the risk above a threshold is 5 % at 40 % of the rows
        return np.where(u < 0.4, 0.1 * u / 0.4, 0.5)
    if kind == "flat noise":
        return np.where(u < 0.5, 0.05 + 1e-9, 0.3)
    return np.where(u < 0.1, 0.2, 0.04)  # the most confident are the worst


@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("kind", ["flat", "steep", "flat noise", "worst first"])
def test_a_wrong_certificate_is_as_rare_as_promised(kind, n):
    rng, p, n_draws = np.random.default_rng(0), rates(kind, n), 1500
    true = np.cumsum(p) / np.arange(1, n + 1)
    confidence, wrong = -np.arange(n, dtype=float), 0
    for _ in range(n_draws):
        ranked = RankedAnswers.from_rows(confidence, rng.random(n) < p, 0.05, DELTA)
        number = certified(ranked, 0.05, DELTA)
        wrong += number > 0 and true[ranked.answered[number - 1] - 1] > 0.05
    assert wrong <= binom.ppf(0.9999, n_draws, DELTA)


def test_nine_levels_at_the_bound_are_certified_as_rarely_as_promised():
    rng, wrong, n_draws = np.random.default_rng(1), 0, 1500
    for _ in range(n_draws):
        confidence = rng.integers(1, 10, size=600) / 10
        ranked = RankedAnswers.from_rows(confidence, rng.random(600) < 0.05, 0.05, DELTA)
        wrong += certified(ranked, 0.05, DELTA) > 0
    assert wrong <= binom.ppf(0.9999, n_draws, DELTA)


def test_a_flat_error_rate_below_the_bound_is_certified_far_down():
    rng = np.random.default_rng(0)
    confidence = np.sort(rng.random(2000))[::-1]
    wrong = rng.random(2000) < np.where(np.arange(2000) < 1200, 0.01, 0.3)
    ranked = RankedAnswers.from_rows(confidence, wrong, 0.05, DELTA)
    number = certified(ranked, 0.05, DELTA)
    assert 1100 < ranked.answered[number - 1] < 1500


def test_ties_are_answered_together_and_their_order_does_not_matter():
    rng = np.random.default_rng(0)
    confidence, wrong = rng.integers(1, 10, size=500) / 10, rng.random(500) < 0.1
    ranked = RankedAnswers.from_rows(confidence, wrong, 0.1, DELTA)
    for threshold, answered, errors in zip(ranked.thresholds, ranked.answered, ranked.wrong, strict=True):
        assert answered == (confidence >= threshold).sum()
        assert errors == wrong[confidence >= threshold].sum()
    assert all(first > second for first, second in pairwise(ranked.thresholds))
    order = rng.permutation(500)
    other = RankedAnswers.from_rows(confidence[order], wrong[order], 0.1, DELTA)
    for name in ("thresholds", "answered", "wrong"):
        np.testing.assert_array_equal(getattr(other, name), getattr(ranked, name))


def test_the_least_number_is_enough_if_all_are_right_and_one_less_is_not():
    for risk in (0.01, 0.05, 0.1):
        least = least_answers(risk, DELTA)
        for n, enough in ((least, True), (least - 1, False)):
            ranked = RankedAnswers.from_rows(np.linspace(1, 0.5, n), np.zeros(n), risk, DELTA)
            assert (certified(ranked, risk, DELTA) > 0) == enough
    assert (least_answers(0.05, DELTA), least_answers(0.01, DELTA)) == (60, 300)


def test_p_values_of_clusters_by_the_formula():
    numbers, losses = np.array([1, 101, 101]), np.array([0.0, 2.0, 7.0])
    found = _cluster_p_values(numbers, losses, 0.05)
    assert found[0] == 1

    def divergence(a, b):
        return a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))

    hoeffding, bentkus = np.exp(-100 * divergence(0.02, 0.05)), np.e * binom.cdf(2, 100, 0.05)
    assert found[1] == pytest.approx(min(hoeffding, bentkus))
    assert found[2] == pytest.approx(1.0)


def test_clusters_of_one_row_are_certified_less_than_rows_and_whole_clusters_hardly():
    rng = np.random.default_rng(0)
    wrong = rng.random(2000) < np.where(np.arange(2000) < 1200, 0.01, 0.3)
    confidence = np.linspace(1, 0, 2000)
    by_row, by_one, by_ten = (
        certified_share(confidence, wrong, clusters) for clusters in (None, np.arange(2000), rng.permutation(2000) // 10)
    )
    assert by_ten < by_one <= by_row


def certified_share(confidence, wrong, clusters):
    ranked = RankedAnswers.from_rows(confidence, wrong, 0.05, DELTA, clusters)
    number = certified(ranked, 0.05, DELTA)
    return ranked.answered[number - 1] / len(wrong) if number else 0.0


def test_the_number_that_is_said_to_be_enough_usually_is():
    needed = needed_answers(0.4, 0.02, 0.05, DELTA)
    assert needed_answers(0.4, 0.05, 0.05, DELTA) is None
    rng, done = np.random.default_rng(0), 0
    for _ in range(50):
        wrong = rng.random(needed) < np.where(np.arange(needed) < 0.4 * needed, 0.02, 0.4)
        done += certified_share(np.linspace(1, 0, needed), wrong, None) > 0
    assert done > 25
