"""One-sided limits against SciPy's exact binomial tests and a replay of bets, and their mistakes counted."""

from math import log

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, norm

from nishimori._evaluation import limits
from nishimori._evaluation.limits import LARGEST_RISK, Game, Losses, limits_of_gaps, limits_of_share
from nishimori._evaluation.resampling import KeptRows


def gap_limits(confidence, accuracy, error, number, level_low=0.95, level_high=0.95):
    low, high = limits_of_gaps(np.array([[confidence], [accuracy], [error], [number]], dtype=float), level_low, level_high)
    return float(low[0]), float(high[0])


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 20), (20, 20), (400, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.99])
def test_limits_of_a_share_are_those_of_clopper_and_pearson(k, n, level):
    one_sided = {"confidence_level": level, "method": "exact"}
    low = binomtest(k, n, alternative="greater").proportion_ci(**one_sided).low
    high = binomtest(k, n, alternative="less").proportion_ci(**one_sided).high
    assert limits_of_share(k / n, n, level) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("size", "error"), [(0.05, 0.01), (0.02, 0.01), (0.3, 0.001)])
def test_a_size_exceeds_its_lower_limit_as_often_as_is_said(size, error):
    def exceeded(mean):
        return norm.sf(size, mean, error) + norm.cdf(-size, mean, error) - 0.05

    low, high = gap_limits(0.5 + size, 0.5, error, 1e12)
    expected = brentq(exceeded, 0, size, xtol=1e-15) if exceeded(0) < 0 else 0.0
    assert low == pytest.approx(expected, abs=1e-7)
    assert high == pytest.approx(size + norm.ppf(0.95) * error, rel=1e-6)


def test_a_size_that_a_calibrated_model_can_have_leaves_zero_possible():
    assert gap_limits(0.519, 0.5, 0.01, 1e6)[0] == 0  # 1.9 errors, of which both signs together allow 1.96
    assert gap_limits(0.521, 0.5, 0.01, 1e6)[0] > 0


@pytest.mark.parametrize(("wrong", "n"), [(12, 600), (32, 2000), (80, 5000), (520, 1000)])
def test_a_gap_with_the_error_of_its_share_has_the_exact_upper_limit_of_the_share(wrong, n):
    share = wrong / n
    _, high = gap_limits(1.0, 1 - share, np.sqrt(share * (1 - share) / n), n)
    rarer = min(wrong, n - wrong)
    exact = binomtest(rarer, n, alternative="less").proportion_ci(0.95, method="exact").high
    assert high == pytest.approx(share + exact - rarer / n, rel=1e-9)


@pytest.mark.parametrize("accuracy", [0.98, 0.984, 0.99, 0.9])
@pytest.mark.parametrize("n", [600, 2000, 5000])
def test_the_upper_limit_of_an_overconfident_model_with_few_errors_is_too_low_in_at_most_five_percent(n, accuracy):
    k = np.arange(n + 1)
    share = k / n
    errors = np.sqrt(share * (1 - share) / n)
    _, high = limits_of_gaps(np.array([np.ones(n + 1), share, errors, np.full(n + 1, float(n))]), 0.95, 0.95)
    assert binom.pmf(k, n, accuracy)[high < 1 - accuracy].sum() <= 0.05


def test_without_an_error_both_limits_are_the_size():
    assert gap_limits(0.75, 0.5, 0.0, 1e6) == (0.25, 0.25)


def test_three_right_answers_do_not_prove_that_accuracy_is_high():
    low, high = gap_limits(0.999, 1.0, 1e-4, 3)
    assert low == 0
    assert high == pytest.approx(0.999 - 0.05 ** (1 / 3))


@pytest.mark.parametrize("confidence", [0.5, 0.6, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("accuracy", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("n", [1, 2, 5, 12, 20, 60, 200])
def test_no_limit_is_wrong_more_often_than_is_said(n, confidence, accuracy):
    """Over all numbers of right answers; sums of more than ten are only nearly normal, so they may exceed 5 % a little."""
    k = np.arange(n + 1)
    share = k / n
    errors = np.sqrt(np.maximum(share * (1 - share), confidence * (1 - confidence)) / n)
    low, high = limits_of_gaps(np.array([np.full(n + 1, confidence), share, errors, np.full(n + 1, float(n))]), 0.95, 0.95)
    size, chances = abs(confidence - accuracy), binom.pmf(k, n, accuracy)
    assert chances[low > size].sum() <= 0.067
    assert chances[high < size].sum() <= 0.067


# Mean losses by betting, against a slow replay of the bets, and their mistakes where normal limits make many

RNG = np.random.default_rng(0)
SKEWED = np.minimum(RNG.exponential(size=700) ** 2, 10.0)


def equal(values):
    return Losses.from_values(values, np.ones(len(values)), counts=False)


def slow_capital(values, weights, mean, sign, most, goal):
    """The logarithm of the final capital of losses in one order, with one loss after the other."""
    n, rounds = len(values), np.unique(np.linspace(0, len(values), 101).round().astype(int))
    capital = bet = 0.0
    for place in range(n):
        if place in rounds:
            seen, own = values[:place], weights[:place]
            middle = (own * seen).sum() / own.sum() if place else 0.0
            variance = (mean + ((own * (seen - middle)) ** 2).sum()) / (1 + place)
            bet = min((2 * max(goal - capital, 0) / ((n - place) * variance)) ** 0.5, most)
        capital += log(1 + sign * bet * weights[place] * (values[place] - mean))
    return capital


@pytest.mark.parametrize(("mean", "sign"), [(2.5, -1.0), (1.5, 1.0)])
@pytest.mark.parametrize("weights", [np.ones(700), RNG.exponential(size=700)], ids=["equal", "weights"])
def test_the_capital_is_what_bets_on_one_loss_after_the_other_win(mean, sign, weights):
    losses = Losses.from_values(SKEWED, weights, counts=False)
    game = Game.in_random_orders(losses)
    found = game.capital(mean, sign, 0.02, 0.9)
    assert losses.weights.mean() == pytest.approx(1)
    for order in range(2):
        slow = slow_capital(game.values[order], game.weights[order], mean, sign, 0.02, log(2 / 0.1))
        assert found[order] == pytest.approx(slow, rel=1e-9)
    assert game.excess(mean, sign, 0.02, 0.9) == pytest.approx(np.log(np.exp(found).mean() * 0.1), rel=1e-9)


def test_every_order_holds_every_loss():
    orders = Game.in_random_orders(equal(SKEWED)).values
    assert len(np.unique(orders, axis=0)) == 32
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.sort(SKEWED))


@pytest.mark.parametrize("bound", [1.0, 1.8, 2.0, 2.2, 3.0])
def test_a_limit_is_on_that_side_of_the_bound_that_the_bets_prove(bound):
    losses = equal(SKEWED)
    game = Game.in_random_orders(losses)
    passes = game.excess(bound, -1.0, 0.1, 0.95) >= 0
    fails = game.excess(bound, 1.0, LARGEST_RISK / bound, 0.95) >= 0
    assert (losses.upper_limit(10.0, 0.95, bound) <= bound) == passes
    assert (losses.lower_limit(0.95, bound) > bound) == fails
    assert losses.lower_limit(0.95, bound) < losses.mean < losses.upper_limit(10.0, 0.95, bound)


def test_limits_miss_a_mean_that_rare_losses_decide_in_at_most_five_percent():
    """One loss in 200 is 10: of 100 samples, most have none, and normal limits miss the mean of 0.05 in half of the cases."""
    rng, missed, normal = np.random.default_rng(1), 0, 0
    for _ in range(100):
        values = np.where(rng.random(100) < 0.005, 10.0, 0.0)
        missed += equal(values).upper_limit(10.0, 0.95, 0.05) <= 0.05
        normal += values.mean() + 1.645 * values.std() / 10 <= 0.05
    assert normal > 30
    assert missed <= 5


def test_a_lower_limit_does_not_take_what_was_never_seen_for_impossible():
    """One loss in 200 is 0 and all others are 1: without a zero in the data, a normal limit is 1, above the mean of 0.995."""
    assert equal(np.ones(100)).lower_limit(0.95, 0.995) < 0.995
    assert equal(np.ones(100)).lower_limit(0.95, 0.5) > 0.5


def test_the_limits_of_equal_losses_come_closer_with_more_of_them():
    few, many = (equal(np.full(n, 0.3)).upper_limit(10.0, 0.95, 1.0) for n in (100, 10_000))
    assert 0.3 < many < few < 0.7
    assert equal(np.zeros(100)).lower_limit(0.95, 0.1) == 0


def test_counts_are_as_many_samples_and_weights_are_not():
    counts = RNG.integers(1, 4, size=700).astype(float)
    found = Losses.from_values(SKEWED, counts, counts=True)
    repeated = equal(np.repeat(SKEWED, counts.astype(int)))
    assert found.mean == pytest.approx(repeated.mean)
    assert found.upper_limit(10.0, 0.95, 5.0) == pytest.approx(repeated.upper_limit(10.0, 0.95, 5.0), rel=1e-12)
    scaled = Losses.from_values(SKEWED, 7 * counts, counts=False)
    assert scaled.upper_limit(10.0, 0.95, 5.0) == Losses.from_values(SKEWED, counts, counts=False).upper_limit(10.0, 0.95, 5.0)


@pytest.mark.parametrize("factor", [10**4, 10**10, 10**14])
def test_counts_beyond_memory_have_the_limits_of_as_many_samples_as_it_holds(factor, monkeypatch):
    """The counts sum to so much that no array could hold the samples; 70,000 that are spread evenly have their mean."""
    monkeypatch.setattr(limits, "_MOST_SAMPLES", 70_000)
    counts = np.arange(700) % 3 + 1.0
    found = Losses.from_values(SKEWED, factor * counts, counts=True)
    mean = counts @ SKEWED / counts.sum()
    error = np.sqrt(counts @ (SKEWED - mean) ** 2 / counts.sum() / 70_000)
    assert len(found.values) == 70_000
    assert found.mean == pytest.approx(mean, abs=0.01 * error)
    assert mean + 1.5 * error < found.upper_limit(10.0, 0.95, 5.0) < mean + 3 * error
    assert mean - 3 * error < found.lower_limit(0.95, 0.1) < mean - 1.5 * error


def test_fractional_counts_are_as_many_samples_as_they_sum_to():
    found = Losses.from_values(SKEWED, np.full(700, 0.3), counts=True)
    assert len(found.values) == 210
    assert found.mean == pytest.approx(SKEWED.mean(), rel=0.02)
    assert len(Losses.from_values(SKEWED, np.full(700, 1e-4), counts=True).values) == 1
    widths = [each.upper_limit(10.0, 0.95, 5.0) - each.mean for each in (found, equal(SKEWED))]
    assert 1.4 < widths[0] / widths[1] < 2.4, "0.3 of the samples have limits that are about 1.8 times as far away"


def test_copies_in_clusters_are_one_loss_each_and_batches_add():
    codes = np.arange(700)
    one = KeptRows(((SKEWED, np.ones(700)),), (codes,), counts=False)
    both = Losses.from_rows(one + one, 10.0)
    alone = Losses.from_rows(KeptRows(((SKEWED, np.ones(700)),), (None,), counts=False), 10.0)
    assert both.upper_limit(10.0, 0.95, 5.0) == pytest.approx(alone.upper_limit(10.0, 0.95, 5.0), rel=1e-12)
    assert Losses.from_rows(one + one, 2.0).mean == pytest.approx(np.minimum(SKEWED, 2).mean())


def test_losses_of_any_size_have_a_lower_limit():
    values = np.append(SKEWED, 1e300)
    kept = KeptRows(((values, np.ones(701)),), (None,), counts=False)
    assert 0.5 < Losses.from_rows(kept).lower_limit(0.95, 0.5) < SKEWED.mean()
