"""How sure an ECE is: against draws of gaps, against SciPy's folded normal, and against draws of labels."""

import numpy as np
import pytest
import reference
from scipy.optimize import brentq
from scipy.stats import foldnorm, gamma

from nishimori import evaluate
from nishimori._sums.binned_gaps import BinnedGaps, Folded, _upper_quantile

# Gaps of 400 rows of weight 1 in six bins: clear ones, unclear ones, an empty bin.
GAPS = np.array([0.05, -0.03, 0.004, -0.002, 0.012, 0.0])
SQUARES = np.array([0.06, 0.03, 0.02, 0.015, 0.03, 0.0])
PLAIN = BinnedGaps(GAPS, SQUARES / 400, GAPS / 400, 1 / 400)


def clustered():
    """Gaps of 80 clusters that share rows of all bins."""
    rng = np.random.default_rng(0)
    gaps = 0.0015 * rng.normal(size=(6, 80)) + 0.001 * rng.normal(size=80) + GAPS[:, None] / 80
    return BinnedGaps(gaps.sum(axis=1), gaps @ gaps.T, gaps.sum(axis=1) / 80, 1 / 80)


@pytest.mark.parametrize("gaps", [PLAIN, clustered()], ids=["rows", "clusters"])
@pytest.mark.parametrize("size", [0.0, 0.03, 0.2])
def test_the_measured_ece_has_the_mean_and_the_spread_of_draws(gaps, size):
    shares = np.abs(gaps.gaps) / np.abs(gaps.gaps).sum()
    true = size * shares * np.sign(gaps.gaps)
    drawn = np.abs(np.random.default_rng(1).multivariate_normal(true, gaps.covariance, size=100_000)).sum(axis=1)
    (mean,), (error,) = gaps._moments_of_ece(np.array([size]), shares, gaps.errors)
    assert mean == pytest.approx(drawn.mean(), rel=0.005)
    # Where signs are open, covariances through the weight of all rows are left out.
    assert error == pytest.approx(drawn.std(), rel=0.03)


def test_the_covariance_is_that_of_sums_over_a_weight_that_varies():
    rng = np.random.default_rng(0)
    place, misses = rng.integers(4, size=500), rng.normal(0.3, 0.4, size=500)
    weights = rng.exponential(size=500)
    sums = np.bincount(place, weights * misses, 4)
    gaps = sums / weights.sum()
    rows = weights[:, None] * (misses[:, None] * (place[:, None] == np.arange(4)) - gaps) / weights.sum()
    squares = (np.bincount(place, (weights * misses) ** 2, 4), np.bincount(place, weights**2 * misses, 4))
    found = BinnedGaps(gaps, *(each / weights.sum() ** 2 for each in (*squares, (weights**2).sum())))
    np.testing.assert_allclose(found.covariance, rows.T @ rows, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.errors**2, np.diag(rows.T @ rows), rtol=1e-9)


def test_folded_numbers_are_those_of_scipy():
    sizes, errors = np.array([[0.0, 0.1, 1.0, 30.0, 2.0]]), np.array([1.0, 0.5, 0.5, 1.0, 0.0])
    found = Folded.from_normal(sizes, errors)
    for i in range(4):
        exact = foldnorm(sizes[0, i] / errors[i], scale=errors[i])
        assert (found.mean[0, i], found.variance[0, i]) == pytest.approx((exact.mean(), exact.var()), rel=1e-8)
    assert (found.mean[0, 4], found.variance[0, 4], found.clarity[0, 4]) == (2, 0, 1)


def test_the_corrected_ece_explains_what_was_measured():
    shares, errors = np.abs(GAPS) / np.abs(GAPS).sum(), PLAIN.errors

    def mean(size):
        return sum(foldnorm(size * s / e, scale=e).mean() for s, e in zip(shares, errors, strict=True) if e > 0)

    expected = brentq(lambda size: mean(size) - np.abs(GAPS).sum(), 0, 1)
    assert PLAIN.corrected == pytest.approx(expected, abs=1e-10)
    assert 0 < PLAIN.corrected < PLAIN.value
    noise = BinnedGaps(GAPS / 100, SQUARES / 400, GAPS / 100 / 400, 1 / 400)
    assert noise.corrected == 0
    assert noise.interval(0.95).low == 0
    assert noise.interval(0.95).high > 10 * noise.value  # it was luck


def test_the_lower_limit_is_zero_if_redrawn_labels_explain_the_ece():
    def low(nulls):
        return BinnedGaps(GAPS, SQUARES / 400, GAPS / 400, 1 / 400, nulls).interval(0.95).low

    assert low(None) == low(SQUARES / 400) > 0
    assert low(10 * SQUARES / 400) == 0


def test_the_upper_quantile_is_nearly_that_of_a_gamma_distribution():
    for mean, error in ((1.0, 0.75), (1.0, 0.3), (5.0, 0.1)):
        exact = gamma((mean / error) ** 2, scale=error**2 / mean)
        for reach, level in ((1.644854, 0.95), (1.959964, 0.975), (2.575829, 0.995)):
            found = _upper_quantile(np.array([mean]), np.array([error]), np.array([reach]))
            assert found[0] == pytest.approx(exact.ppf(level), rel=0.01)


@pytest.mark.parametrize(
    ("temperature", "strategy"), [(1.0, "uniform"), (1.0, "quantile"), (0.6, "uniform"), (0.6, "quantile")]
)
def test_intervals_cover_the_ece_of_infinitely_many_samples(temperature, strategy):
    rng, inside, errors, raw = np.random.default_rng(0), 0, [], []
    logits = 3 * rng.normal(size=(400, 4))
    calibrated = reference.softmax(logits)
    claimed, accuracy = reference.softmax(logits, temperature).max(axis=1), calibrated.max(axis=1)
    for _ in range(200):
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 1
        card = evaluate(logits, labels, temperature=temperature, strategy=strategy, n_bins=10)
        edges = card.reliability.upper[:-1] * (1 + 1e-12)
        true = np.abs(np.bincount(np.searchsorted(edges, claimed), claimed - accuracy)).sum() / 400
        low, high = card.interval("ece")
        inside += low <= true <= high
        errors.append(card.ece_corrected - true)
        raw.append(card.ece - true)
    assert inside / 200 > 0.93  # confidences are the same each time, so intervals are a little too wide
    if temperature == 1:  # otherwise the signs of most gaps are clear, and there is nothing to correct
        assert 0 < np.mean(errors) < 0.5 * np.mean(raw)


def test_labels_redrawn_from_the_model_reject_zero_rarely_and_miscalibration_often():
    rng, rejected, found = np.random.default_rng(0), 0, 0
    for _ in range(300):
        logits = 3 * rng.normal(size=(300, 4))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        rejected += evaluate(logits, labels).interval("ece", 0.9).low > 0
        found += evaluate(logits, labels, temperature=0.3).interval("ece", 0.9).low > 0
    assert 0.02 < rejected / 300 < 0.08  # one side of 90 %
    assert found / 300 > 0.95
