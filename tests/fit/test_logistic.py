"""Sums of a logistic regression on functions of a score: the loss and its derivatives are those of the formulas."""

from functools import partial

import numpy as np
import pytest
from scipy.special import log_expit

from nishimori._fit.logistic import Regression, measure_loss, overview
from nishimori._rows.entry import open_rows

RNG = np.random.default_rng(0)
SCORES = 3 * RNG.normal(size=50)
LABELS = (SCORES + RNG.logistic(size=50) > 0).astype(int)
WEIGHTS = RNG.uniform(0.5, 2, size=50)
DATA = open_rows(SCORES, LABELS, WEIGHTS)
TERMS = ("ln p", "-ln(1-p)")
SMOOTHING = (0.1, 0.03)
REGRESSION = Regression.from_overview(TERMS, DATA.gather(partial(overview, TERMS)), has_constant=True, smoothing=SMOOTHING)
X = np.array([1.7, 0.4, -0.6])


def sums(x=X):
    return DATA.gather(partial(measure_loss, REGRESSION, np.asarray(x)))


def test_the_loss_is_the_cross_entropy_of_smoothed_labels():
    a, b, c = REGRESSION.to_coefficients @ X
    f = a * log_expit(SCORES) - b * log_expit(-SCORES) + c
    targets = np.where(LABELS == 1, 1 - SMOOTHING[1], SMOOTHING[0])
    expected = -(WEIGHTS * (targets * log_expit(f) + (1 - targets) * log_expit(-f))).sum()
    assert sums().loss == pytest.approx(expected, rel=1e-12)
    assert sums().weight == pytest.approx(WEIGHTS.sum(), rel=1e-12)


def test_gradient_and_curvature_are_the_derivatives_of_the_loss():
    step = 1e-5
    around = [(sums(X + step * e), sums(X - step * e)) for e in np.eye(3)]
    gradient = [(after.loss - before.loss) / (2 * step) for after, before in around]
    curvature = [(after.gradient - before.gradient) / (2 * step) for after, before in around]
    np.testing.assert_allclose(sums().gradient, gradient, rtol=1e-6)
    np.testing.assert_allclose(sums().curvature, curvature, rtol=1e-6)


def test_an_overview_adds_up():
    whole = DATA.gather(partial(overview, TERMS))
    parts = [
        open_rows(SCORES[r], LABELS[r], WEIGHTS[r]).gather(partial(overview, TERMS)) for r in (slice(0, 20), slice(20, None))
    ]
    found = parts[0] + parts[1]
    positive = LABELS == 1
    assert found.classes.n_rows == 50
    assert (found.least[1], found.largest[0]) == (SCORES[positive].min(), SCORES[~positive].max())
    assert found.classes.numbers(counts=True)[1] == pytest.approx(WEIGHTS[positive].sum())
    alike = WEIGHTS[positive].sum() ** 2 / (WEIGHTS[positive] ** 2).sum()
    assert found.classes.numbers(counts=False)[1] == pytest.approx(alike)
    np.testing.assert_array_equal(found.lows, [log_expit(SCORES).min(), -log_expit(-SCORES).max()])
    np.testing.assert_array_equal(found.highs, whole.highs)
