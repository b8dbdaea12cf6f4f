"""One-sided limits against SciPy's exact binomial tests, and their mistakes counted over all outcomes."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, norm

from nishimori._evaluation.limits import limits_of_gaps, limits_of_share


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
