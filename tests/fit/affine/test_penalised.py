"""The affine map of least penalised loss: compared with SciPy on the plain formula, and with the rule for the strengths."""

import numpy as np
import pytest
import reference
from scipy.optimize import minimize

from nishimori._fit.affine.parameters import INFORMATION, PSEUDO, Parameters
from nishimori._fit.affine.penalised import AffineSearch
from nishimori._rows.entry import open_rows
from nishimori.errors import NotConvergedError

KINDS = pytest.mark.parametrize("is_matrix", [False, True], ids=["vector", "matrix"])


def drawn(n, k, seed=0):
    """Logits, and labels from a map that is far from one temperature."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    scale = np.eye(k) + rng.normal(scale=0.2, size=(k, k))
    return logits, (logits @ scale.T + rng.normal(scale=0.5, size=k) + rng.gumbel(size=(n, k))).argmax(axis=1)


def plain_loss(theta, x, labels, weights, is_matrix, strengths):
    """The penalised loss and its gradient from the formulas: θ is β, the departures of the scale, the biases."""
    n, k = x.shape
    departures, bias = theta[1:-k], theta[-k:]
    D = departures.reshape(k, k) if is_matrix else np.diag(departures)
    p = reference.softmax(x @ (theta[0] * np.eye(k) + D).T + bias)
    gaps = weights[:, None] * (p - np.eye(k)[labels])
    penalties = np.full((k, k), strengths[1])
    np.fill_diagonal(penalties, strengths[0])
    loss = -weights @ np.log(p[np.arange(n), labels]) + (penalties * D**2).sum() / 2 + strengths[-1] * (bias**2).sum() / 2
    by_scale = gaps.T @ x
    pulled = by_scale + penalties * D
    pulled = pulled.ravel() if is_matrix else np.diag(pulled)
    return loss, np.concatenate([[np.trace(by_scale)], pulled, gaps.sum(axis=0) + strengths[-1] * bias])


def plain_minimum(logits, labels, temperature, is_matrix, strengths, weights=None):
    x = (logits - logits.mean(axis=1, keepdims=True)) / temperature
    k = x.shape[1]
    weights = np.ones(len(x)) if weights is None else weights
    start = np.r_[1.0, np.zeros((k * k if is_matrix else k) + k)]
    options = {"maxiter": 5000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 50}
    found = minimize(
        plain_loss, start, (x, labels, weights, is_matrix, strengths), jac=True, method="L-BFGS-B", options=options
    )
    return found.x


def searched(logits, labels, is_matrix, given, weights=None, unit=1.0):
    parameters = Parameters(logits.shape[1], is_matrix)
    return AffineSearch(open_rows(logits, labels, weights), parameters, 1.3, unit, None if given is None else np.array(given))


@KINDS
def test_the_minimum_is_that_of_the_plain_formula(is_matrix):
    logits, labels = drawn(400, 4)
    weights = np.random.default_rng(1).uniform(0.2, 2, size=400)
    strengths = [8.0, 20.0, 3.0] if is_matrix else [8.0, 3.0]
    found = searched(logits, labels, is_matrix, strengths, weights).minimum()
    expected = plain_minimum(logits, labels, 1.3, is_matrix, strengths, weights)
    np.testing.assert_allclose(found.theta, expected, atol=1e-5)
    assert found.residual < 1e-6


def test_a_large_matrix_has_the_minimum_of_the_plain_formula():
    logits, labels = drawn(500, 33)
    search = searched(logits, labels, True, [30.0, 90.0, 5.0])
    assert not search.is_exact
    found = search.minimum()
    expected = plain_minimum(logits, labels, 1.3, True, [30.0, 90.0, 5.0])
    np.testing.assert_allclose(found.theta, expected, atol=1e-3)


@pytest.mark.parametrize(("k", "is_matrix", "given"), [(12, True, [30.0, 90.0, 5.0]), (60, False, [30.0, 5.0])])
def test_many_parameters_with_their_whole_curvature_have_the_minimum_of_the_plain_formula(k, is_matrix, given):
    logits, labels = drawn(700, k)
    search = searched(logits, labels, is_matrix, given)
    assert search.is_exact
    found = search.minimum()
    np.testing.assert_allclose(found.theta, plain_minimum(logits, labels, 1.3, is_matrix, given), atol=2e-5)
    assert found.residual < 1e-6


def test_penalties_that_float32_cannot_see_beside_the_curvature_are_seen():
    logits, labels = drawn(900, 12)
    x = (logits - logits.mean(axis=1, keepdims=True)) / 1.3
    given = [1e-5, 1e-5, 1e-5]
    found = searched(logits, labels, True, given).minimum()
    _, gradient = plain_loss(found.theta, x, labels, np.ones(900), True, given)
    assert np.abs(gradient).max() < 1e-4


def test_weights_in_other_units_change_nothing_but_the_penalties():
    logits, labels = drawn(300, 4)
    once = searched(logits, labels, True, [8.0, 20.0, 3.0]).minimum()
    halved = searched(logits, labels, True, [8.0, 20.0, 3.0], np.full(300, 2.0), unit=0.5).minimum()
    np.testing.assert_allclose(halved.theta, once.theta, atol=1e-7)


def exact_hessian(x, p, is_matrix):
    """Σ (diag p − ppᵀ) ⊗ ξξᵀ by the formula, by β, the departures and the biases."""
    n, k = x.shape
    features = np.zeros((n, k, 1 + (k * k if is_matrix else k) + k))
    for i in range(k):
        features[:, i, 0] = x[:, i]
        features[:, i, -k + i] = 1
        if is_matrix:
            features[:, i, 1 + i * k : 1 + (i + 1) * k] = x
        else:
            features[:, i, 1 + i] = x[:, i]
    mean = np.einsum("nk,nkm->nm", p, features)
    return np.einsum("nk,nka,nkb->ab", p, features, features) - mean.T @ mean


@pytest.mark.parametrize(
    ("is_matrix", "n", "k"), [(False, 40, 4), (False, 600, 4), (True, 40, 4), (True, 600, 4), (True, 1500, 11)]
)
def test_strengths_balance_what_the_data_determine_with_the_size_of_the_departures(is_matrix, n, k):
    logits, labels = drawn(n, k)
    found = searched(logits, labels, is_matrix, None).minimum()
    x = (logits - logits.mean(axis=1, keepdims=True)) / 1.3
    diagonal = 1 + np.arange(k) * (k + 1 if is_matrix else 1)
    bias = np.arange(-k, 0) + len(found.theta)
    off = np.setdiff1d(np.arange(1, len(found.theta)), np.r_[diagonal, bias])
    blocks = [diagonal, off, bias] if is_matrix else [diagonal, bias]
    first = np.diag(exact_hessian(x, reference.softmax(x), is_matrix))
    D = found.theta[1:-k].reshape(k, k) if is_matrix else np.diag(found.theta[1:-k])
    p = reference.softmax(x @ (found.theta[0] * np.eye(k) + D).T + found.theta[-k:])
    matrix = exact_hessian(x, p, is_matrix)
    for places, strength in zip(blocks, found.strengths, strict=True):
        matrix[places, places] += strength
    variances = np.diag(np.linalg.inv(matrix))
    for places, strength, determined in zip(blocks, found.strengths, found.determined, strict=True):
        gamma = len(places) - strength * variances[places].sum()
        assert determined == pytest.approx(gamma, rel=0.02)
        least, factor = (30, 1) if places is diagonal else (100, 10) if places is off else (2, 1)
        relative = factor * first[places].mean() * (INFORMATION / first[bias].mean()) ** 3
        assert (relative > least) == (n < 100)
        usual = max(least, relative)
        assert strength == pytest.approx((gamma + PSEUDO) / ((found.theta[places] ** 2).sum() + PSEUDO / usual), rel=0.02)


def test_labels_from_one_temperature_leave_nothing_to_determine():
    rng = np.random.default_rng(2)
    logits = 2 * rng.normal(size=(1500, 5))
    labels = (logits / 1.3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    found = searched(logits, labels, True, None).minimum()
    assert np.abs(found.theta[1:]).max() < 0.15
    departed = searched(*drawn(1500, 5), True, None).minimum()
    assert (departed.strengths < found.strengths).all()


@pytest.mark.parametrize(("k", "is_matrix"), [(3, False), (3, True), (33, True)], ids=["vector", "matrix", "large"])
def test_separated_data_without_penalties_are_refused(k, is_matrix):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, k))
    labels = np.r_[np.arange(k), (logits[k:] + np.linspace(1, -1, k)).argmax(axis=1)]
    logits[np.arange(k), np.arange(k)] += 9
    with pytest.raises(NotConvergedError, match=r"separated .*perfectly.* Use `penalty='auto'`, or more"):
        searched(logits, labels, is_matrix, [0.0] * (3 if is_matrix else 2)).minimum()


def test_the_search_for_a_large_matrix_ends_where_all_samples_are_separated_unless_a_penalty_holds_it():
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(60, 33)), rng.integers(0, 33, size=60)
    labels[:33] = np.arange(33)
    search = searched(logits, labels, True, [0.0, 0.0, 0.0])
    with pytest.raises(NotConvergedError, match=r"^No finite parameters fit best: after \d+ passes, all samples are separated"):
        search.minimum()
    assert search.n_passes < 60  # not the 400 after which the search gives up
    assert np.isfinite(searched(logits, labels, True, [1e-3, 1e-3, 1e-3]).minimum().theta).all()
