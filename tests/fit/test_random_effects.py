"""The variance between groups: where the equations of Paule and Mandel, and of the lower limit, hold."""

import numpy as np
import pytest
import reference_groups
from scipy.stats import chi2

from nishimori._fit.random_effects import variance_between, variance_limit

RNG = np.random.default_rng(0)
VARIANCES = RNG.uniform(0.01, 0.5, 12)
ESTIMATES = 0.6 * RNG.normal(size=12) + np.sqrt(VARIANCES) * RNG.normal(size=12)


def test_the_estimate_is_where_q_is_one_less_than_the_number_of_groups():
    found = variance_between(ESTIMATES, VARIANCES)
    assert found == pytest.approx(reference_groups.variance_at(ESTIMATES, VARIANCES, 11), rel=1e-9)
    assert found > 0.1


def test_the_lower_limit_is_where_q_is_its_upper_quantile():
    found = variance_limit(ESTIMATES, VARIANCES, 0.95)
    assert found == pytest.approx(reference_groups.variance_at(ESTIMATES, VARIANCES, chi2.ppf(0.95, 11)), rel=1e-9)
    assert 0 < found < variance_between(ESTIMATES, VARIANCES)


def test_differences_that_errors_explain_have_no_variance_between_groups():
    alike = 0.5 * np.sqrt(VARIANCES) * np.resize([1, -1], 12)
    assert variance_between(alike, VARIANCES) == 0
    assert variance_limit(alike, VARIANCES, 0.95) == 0


def test_one_group_has_no_variance_between_groups():
    assert variance_between(ESTIMATES[:1], VARIANCES[:1]) == 0
    assert variance_limit(ESTIMATES[:1], VARIANCES[:1], 0.95) == 0


def test_the_estimate_is_right_on_average_and_the_limit_exceeds_the_truth_in_a_twentieth_of_all_cases():
    rng, truth = np.random.default_rng(1), 0.25
    variances = rng.uniform(0.05, 0.3, 20)
    draws = rng.normal(size=(400, 20)) * np.sqrt(variances + truth)
    estimates = np.array([variance_between(each, variances) for each in draws])
    limits = np.array([variance_limit(each, variances, 0.95) for each in draws])
    assert estimates.mean() == pytest.approx(truth, abs=4 * estimates.std() / 20)
    assert (limits > truth).mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 400))


def test_groups_that_are_known_much_better_than_others_do_not_break_the_search():
    variances = np.array([1e-12, 1e-12, 1.0, 1e12])
    estimates = np.array([0.0, 1.0, 0.3, 1e5])
    found = variance_between(estimates, variances)
    assert found == pytest.approx(reference_groups.variance_at(estimates, variances, 3), rel=1e-6)
