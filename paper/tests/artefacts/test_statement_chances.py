"""Probabilities that a criterion fails by chance, against simulation and second computations."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from nishimori_paper.artefacts._statements import _chance, _resamples

DRAWS = np.random.default_rng(0).normal(size=(200_000, 3))


def near(share):
    """Within five standard errors of a share of the draws."""
    return pytest.approx(share, abs=5 * np.sqrt(max(share * (1 - share), 1e-4) / len(DRAWS)))


def test_limits_are_the_quantiles_of_the_normal_distribution():
    assert pytest.approx(norm.ppf(0.95), abs=1e-12) == _chance.ONE_SIDED
    assert pytest.approx(norm.ppf(0.975), abs=1e-12) == _chance.TWO_SIDED


def test_one_of_several_estimates_of_zero_is_too_far_away():
    errors = np.array([0.5, 1.0, 2.0])
    assert _chance.beyond(1.5, 2.0) == near((np.abs(2 * DRAWS[:, 0]) > 1.5).mean())
    assert _chance.any_beyond(1.5, errors) == near((np.abs(DRAWS * errors) > 1.5).any(axis=1).mean())


def test_one_of_several_positive_numbers_is_measured_as_negative():
    values, errors = np.array([0.5, 2.0, -0.1]), np.array([1.0, 0.5, 0.2])
    assert _chance.any_wrong_sign(values, errors) == near((values + DRAWS * errors < 0).any(axis=1).mean())


def test_non_inferiority_fails_although_both_are_equal():
    lower = 0.4 * DRAWS[:, 0] - norm.ppf(0.95) * 0.4
    assert _chance.not_inferior_fails(0.5, 0.4) == near((lower < -0.5).mean())


@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
def test_equivalence_fails_although_both_are_equal(margin):
    errors = np.array([0.2, 0.3, 0.4])
    outside = np.abs(DRAWS * errors) + norm.ppf(0.975) * errors > margin
    assert _chance.equivalence_fails(margin, 0.4) == near(outside[:, 2].mean())
    assert _chance.any_equivalence_fails(margin, errors) == near(outside.any(axis=1).mean())


def test_events_that_happen_together():
    p = np.array([0.1, 0.5, 0.7])
    happen = (norm.cdf(DRAWS) < p).sum(axis=1)
    assert _chance.either(*p) == pytest.approx(1 - 0.9 * 0.5 * 0.3)
    for count in range(4):
        assert _chance.at_least(count, p) == near((happen >= count).mean())


def test_the_share_of_orders_with_a_high_rank_correlation():
    found = [spearmanr(order, range(5)).statistic for order in permutations(range(5))]
    for limit in (0.0, 0.49, 0.51, 0.85):  # the values are multiples of 0.1
        assert _chance.rank_correlation_above(limit, 5) == np.mean(np.array(found) > limit)


def test_a_probability_has_two_digits_and_a_very_small_one_a_bound():
    assert [_chance.in_words(p) for p in (0.000999, 0.001, 0.01234, 0.5, 1.0)] == ["under 0.001", "0.001", "0.012", "0.5", "1"]


def test_the_farther_limit_of_an_interval_has_no_sign():
    for mean in (0.3, -0.3):
        found = {"mean": mean, "error": 0.1}
        assert _resamples.farther_limit(found) == pytest.approx(max(abs(mean + z * 0.1) for z in norm.ppf([0.025, 0.975])))


def test_the_error_of_a_mean_over_networks_is_that_of_images_or_that_of_networks():
    values = [1.0, 2.0, 3.0]
    together = [[0.0, 6.0]] * 3  # all networks move with the images
    apart = [[0.0, 6.0], [6.0, 0.0], [3.0, 3.0]]  # what they share cancels
    assert _resamples.pooled(values, together) == pytest.approx({"mean": 2.0, "error": np.std([0.0, 6.0], ddof=1)})
    assert _resamples.pooled(values, apart) == pytest.approx({"mean": 2.0, "error": 1 / np.sqrt(3)})
