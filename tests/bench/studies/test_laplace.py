"""The Laplace approximation of the last layer, against its definition, and the page of the study."""

import numpy as np
import pytest
from scipy.special import log_softmax

K, D, N = 3, 2, 60
RNG = np.random.default_rng(0)
WEIGHT, BIAS = RNG.normal(size=(K, D)), RNG.normal(size=K)
FEATURES = RNG.normal(size=(N, D))
INPUTS = np.column_stack([FEATURES, np.ones(N)])
LABELS = (FEATURES @ WEIGHT.T + BIAS + RNG.gumbel(size=(N, K))).argmax(axis=1)


@pytest.fixture
def study():
    import laplace

    return laplace


@pytest.fixture
def model(study):
    return study.Laplace(WEIGHT, BIAS, FEATURES, 3 * N)


def hessian():
    """Of the loss of all images by the weights and biases, class by class, by differences; each image counts three times."""

    def loss(flat):
        return -3 * log_softmax(INPUTS @ flat.reshape(K, D + 1).T, axis=1)[np.arange(N), LABELS].sum()

    at, steps = np.column_stack([WEIGHT, BIAS]).ravel(), 1e-4 * np.eye(K * (D + 1))
    return np.array(
        [[loss(at + a + b) - loss(at + a - b) - loss(at - a + b) + loss(at - a - b) for a in steps] for b in steps]
    ) / (4e-8)


def test_the_covariance_of_the_logits_is_that_of_the_inverse_hessian(model):
    posterior = np.linalg.inv(hessian() + 0.7 * np.eye(K * (D + 1)))
    mean, covariance = model.logits(FEATURES, 0.7)
    np.testing.assert_allclose(mean, FEATURES @ WEIGHT.T + BIAS)
    for row, found in zip(INPUTS[:5], covariance, strict=False):
        jacobian = np.kron(np.eye(K), row)
        np.testing.assert_allclose(found, jacobian @ posterior @ jacobian.T, rtol=1e-4)


def test_the_precision_of_the_prior_has_the_highest_marginal_likelihood(model):
    square = (WEIGHT**2).sum() + (BIAS**2).sum()

    def evidence(precision):
        total = hessian() + precision * np.eye(K * (D + 1))
        return -precision * square / 2 - np.linalg.slogdet(total)[1] / 2 + K * (D + 1) * np.log(precision) / 2

    found = model.best_precision()
    assert evidence(found) > max(evidence(0.9 * found), evidence(1.1 * found))


def test_the_mean_prediction_is_that_of_drawn_logits_and_probit_is_close_to_it(study):
    mean, covariance = np.array([[1.0, 0.0, -1.0]]), np.array([np.diag([4.0, 1.0, 0.5])])
    root = np.sqrt(np.diag(covariance[0]))
    drawn = np.exp(log_softmax(mean + root * np.random.default_rng(1).normal(size=(20_000, 3)), axis=1)).mean(axis=0)
    np.testing.assert_allclose(np.exp(study.sampled(mean, covariance, n_draws=5000))[0], drawn, atol=0.02)
    expected = mean[0] / np.sqrt(1 + np.pi / 8 * np.diag(covariance[0]))
    np.testing.assert_allclose(study.probit(mean, covariance)[0], log_softmax(expected))
    np.testing.assert_allclose(np.exp(study.probit(mean, covariance))[0], drawn, atol=0.06)


def test_the_study_writes_its_page_from_a_file_of_features(study, run_study, monkeypatch, tmp_path):
    arrays = {"weight": WEIGHT, "bias": BIAS, "train_features": FEATURES}
    for name in ("validation", "test"):
        arrays |= {f"{name}_features": FEATURES, f"{name}_labels": LABELS}
    np.savez(tmp_path / "features.npz", **arrays)
    monkeypatch.setattr(study, "DRAWS", 3)
    run_study("laplace", "--features", tmp_path / "features.npz", "--out", tmp_path)
    page = (tmp_path / "laplace.md").read_text(encoding="utf-8")
    loss = -log_softmax(FEATURES @ WEIGHT.T + BIAS, axis=1)[np.arange(N), LABELS].mean()
    assert f"| uncalibrated | {loss:.4f} |" in page
    assert page.count("| Laplace, ") == 4
