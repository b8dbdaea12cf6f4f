"""Logistic regression on data finds the exact minimum, or says that it did not."""

from math import inf, nan, sqrt

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory import (
    logistic_regression,
)


def sample(d, alpha, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((round(alpha * d), d)) / sqrt(d)
    return x, np.where(rng.random(len(x)) < expit(x @ rng.standard_normal(d)), 1.0, -1.0)


@pytest.mark.parametrize(("alpha", "penalty"), [(3.0, 1.0), (5.0, 0.01), (1.0, 1e-3), (0.5, 10.0)])
def test_regression_equals_that_of_scikit_learn(alpha, penalty):
    x, y = sample(60, alpha)
    peer = LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-12, solver="newton-cholesky", max_iter=1000)
    np.testing.assert_allclose(logistic_regression(x, y, penalty), peer.fit(x, y).coef_[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("alpha", "penalty"), [(1.0, 1e-4), (1.0, 1e-8), (2.3, 1e-4), (20.0, 1e-4), (3.0, 100.0), (0.02, 1.0)])
def test_the_gradient_vanishes_at_the_weights_also_where_the_samples_are_separable(alpha, penalty):
    x, y = sample(60, alpha)
    weights = logistic_regression(x, y, penalty)
    pull = expit(-y * (x @ weights))
    gradient = penalty * weights - x.T @ (y * pull)
    assert np.linalg.norm(gradient) <= 1e-8 * penalty * np.linalg.norm(weights)


@pytest.mark.parametrize("penalty", [0.0, -1.0, inf, nan, "1"])
def test_regression_refuses_a_penalty_that_is_not_a_positive_finite_number(penalty):
    with pytest.raises(InputError, match="`penalty` must be a positive finite number, got"):
        logistic_regression(*sample(10, 2.0), penalty)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("0 and 1", r"`y` must contain only the labels \+1 and -1, got \[0\.0, 1\.0\]"),
        ("too few", r"`y` shape \(n_samples,\), .* got shapes \(20, 10\) and \(19,\)"),
        ("column", r"`y` shape \(n_samples,\), .* got shapes \(20, 10\) and \(20, 1\)"),
    ],
)
def test_regression_refuses_what_are_not_labels(labels, message):
    x, y = sample(10, 2.0)
    wrong = {"0 and 1": (y + 1) / 2, "too few": y[:-1], "column": y[:, None]}[labels]
    with pytest.raises(InputError, match=message):
        logistic_regression(x, wrong, 1.0)


def test_a_minimum_that_is_not_reached_raises(monkeypatch):
    monkeypatch.setattr("nishimori_paper.theory._logistic_regression._STEPS", 2)
    with pytest.raises(NotConvergedError, match=r"the norm of its gradient is still .* Choose a larger `penalty`"):
        logistic_regression(*sample(20, 5.0), 1e-3)


@pytest.mark.parametrize("alpha", [1.0, 20.0])
def test_the_smallest_penalties_are_solved_too(alpha):
    x, y = sample(40, alpha)
    weights = logistic_regression(x, y, 1e-9)
    gradient = 1e-9 * weights - (x * y[:, None]).T @ (1 / (1 + np.exp(y * (x @ weights))))
    assert np.abs(gradient).max() < 1e-10


def test_regression_on_samples_that_cancel_finds_zero():
    assert logistic_regression([[1.0], [1.0]], [1, -1], 0.5) == 0.0


def test_a_penalty_below_rounding_errors_is_refused():
    with pytest.raises(NotConvergedError, match="Choose a larger `penalty`"):
        logistic_regression(*sample(50, 0.5), 1e-20)
