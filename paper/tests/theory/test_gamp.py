"""Message passing on data has the overlaps of the limit, and agrees with a Gibbs sampler."""

from math import inf, nan, sqrt

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory import (
    Affine,
    Constant,
    Logit,
    Posterior,
    Probit,
    bayes_optimal,
    gamp,
)


def data(teacher, alpha, d, seed):
    """A teacher's weights with |w*|² = ρd, Gaussian samples and their labels."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(d)
    weights *= sqrt(teacher.rho * d / (weights @ weights))
    x = rng.standard_normal((round(alpha * d), d)) / sqrt(d)
    right = rng.random(len(x)) < teacher.probability(x @ weights / teacher.temperature)
    return weights, x, np.where(right, 1, -1)


@pytest.mark.parametrize(
    ("teacher", "alpha", "factor"),
    [
        (Logit(), 3.0, 1.0),
        (Affine(), 2.0, 1.0),
        (Constant(), 3.0, 1.0),
        (Probit(temperature=0.5, rho=2.0), 2.0, 1.0),
        (Logit(), 3.0, 0.6),
        (Affine(), 2.0, 1.5),
    ],
    ids=repr,
)
def test_message_passing_has_the_overlaps_of_the_limit_within_four_standard_errors(teacher, alpha, factor):
    d, T = 300, factor * teacher.temperature
    limit = bayes_optimal(teacher, alpha, temperature=T)
    found = []
    for seed in range(100, 116):
        weights, x, y = data(teacher, alpha, d, seed)
        posterior = gamp(x, y, teacher, temperature=T)
        assert posterior.residual <= 1e-9
        m, q = weights @ posterior.weights / d, posterior.weights @ posterior.weights / d
        found.append([m, q, posterior.v, Posterior(teacher, T, m, q, posterior.v).error])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / sqrt(len(found))
    assert (np.abs(mean - [limit.m, limit.q, limit.v, limit.error]) < 4 * error).all()


@pytest.mark.parametrize("T", [0.7, 1.5])
def test_message_passing_agrees_with_a_gibbs_sampler(T):
    # Albert and Chib: a label is the sign of a Gaussian around the score; given these Gaussians, the weights are Gaussian.
    teacher, d = Probit(temperature=0.7, rho=1.5), 150
    _, x, y = data(teacher, 3.0, d, seed=1)
    found = gamp(x, y, teacher, temperature=T)
    rng = np.random.default_rng(0)
    covariance = np.linalg.inv(np.eye(d) / teacher.rho + x.T @ x / T**2)
    root = np.linalg.cholesky(covariance)
    regress = covariance @ x.T / T**2
    weights, samples = found.weights, []
    for _ in range(3000):
        score = y * (x @ weights)
        latent = score - T * ndtri(rng.random(len(y)) * ndtr(score / T))  # its sign is that of the label
        weights = regress @ (y * latent) + root @ rng.standard_normal(d)
        samples.append(weights)
    mean, spread = np.mean(samples[200:], axis=0), np.var(samples[200:], axis=0).mean()
    np.testing.assert_allclose(mean @ found.weights / (found.weights @ found.weights), 1.0, atol=0.02)
    assert np.linalg.norm(mean - found.weights) < 0.1 * np.linalg.norm(mean)
    np.testing.assert_allclose(found.v, spread, rtol=0.03)


def test_message_passing_from_a_nearby_solution_gives_the_same_result_in_no_more_steps():
    _, x, y = data(Logit(), 3.0, 200, seed=0)
    cold = gamp(x, y, "logit")
    near = gamp(x, y, "logit", temperature=1.01)
    warm = gamp(x, y, "logit", start=near)
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-7)
    np.testing.assert_allclose(warm.v, cold.v, rtol=1e-7)
    assert warm.steps <= cold.steps


def test_message_passing_changes_sign_with_the_labels_or_the_samples():
    _, x, y = data(Affine(), 2.0, 200, seed=0)
    np.testing.assert_allclose(gamp(x, -y, "affine").weights, -gamp(x, y, "affine").weights, atol=1e-9)
    np.testing.assert_allclose(gamp(-x, -y, "affine").weights, gamp(x, y, "affine").weights, atol=1e-9)


X = np.random.default_rng(0).standard_normal((6, 3))
Y = np.array([1, -1, 1, 1, -1, 1])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, Y[:5], r"`x` must have shape \(n_samples, d\) and `y` shape \(n_samples,\), .* got shapes \(6, 3\) and \(5,\)"),
        (X[0], Y[:3], r"got shapes \(3,\) and \(3,\)"),
        (X, Y[:, None], r"got shapes \(6, 3\) and \(6, 1\)"),
        (X, (Y + 1) // 2, r"`y` must contain only the labels \+1 and -1, got \[0\.0, 1\.0\]"),
        (X, np.where(Y > 0, 2, -2), r"`y` must contain only the labels \+1 and -1, got \[-2\.0, 2\.0\]"),
        (X, np.where(Y > 0, nan, -1), r"`y` must contain only the labels \+1 and -1, got \[-1\.0, nan\]"),
        (np.where(X > 1, nan, X), Y, "`x` must be finite, got NaN or infinity"),
        (np.where(X > 1, inf, X), Y, "`x` must be finite, got NaN or infinity"),
        (X[:, :0], Y, r"with at least one sample and one column, got shapes \(6, 0\) and \(6,\)"),
        (X, ["up"] * 6, r"`x` and `y` must be arrays of numbers, got what NumPy cannot convert \(could not convert string"),
    ],
    ids=["fewer labels", "one row", "column", "0 and 1", "2 and -2", "nan label", "nan", "inf", "no columns", "words"],
)
def test_message_passing_refuses_what_are_not_samples_and_labels(x, y, message):
    with pytest.raises(InputError, match=message):
        gamp(x, y, "logit")


@pytest.mark.parametrize("name", ["temperature", "tol"])
def test_message_passing_refuses_what_is_not_positive(name):
    with pytest.raises(InputError, match=f"`{name}` must (be a positive finite number|lie between)"):
        gamp(X, Y, "logit", **{name: 0.0})


def test_message_passing_on_other_data_says_that_it_did_not_converge():
    x = np.ones((40, 30)) + 0.01 * np.random.default_rng(0).standard_normal((40, 30))
    with pytest.raises(NotConvergedError, match=r"did not converge in 2000 steps: .* It requires samples from N\(0, I/d\)"):
        gamp(100 * x, np.resize([1, -1], 40), "logit", temperature=0.1)


def test_a_start_in_other_dimensions_is_refused():
    start = gamp(X[:, :2], Y, "logit")
    with pytest.raises(InputError, match=r"`start` must be a solution in 3 dimensions, like `x`, got one in 2\."):
        gamp(X, Y, "logit", start=start)
