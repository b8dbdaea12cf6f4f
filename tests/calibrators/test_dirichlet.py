"""Dirichlet calibration: its minimum by SciPy on the plain formulas, and what users pass, get and cannot pass."""

import numpy as np
import pytest
import reference
from optional import torch
from scipy.optimize import minimize

import nishimori
from nishimori.calibrators import Dirichlet
from nishimori.errors import InputError

K = 3


def log_softmax(logits):
    return np.log(reference.softmax(logits))


def drawn(n=500, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, K)) + rng.normal(size=(n, 1))
    matrix, bias = np.array([[0.7, 0.1, 0.0], [0.0, 0.4, 0.1], [-0.1, 0.0, 0.6]]), np.array([0.5, 0.0, -0.5])
    return logits, (log_softmax(logits) @ matrix.T + bias + rng.gumbel(size=logits.shape)).argmax(axis=1)


LOGITS, LABELS = drawn()
OFF = ~np.eye(K, dtype=bool)


def plain(penalty):
    """Matrix and bias by SciPy; ``penalty`` is what is added to the mean cross-entropy, a function of both."""

    def loss(theta):
        matrix, bias = theta[: K * K].reshape(K, K), theta[K * K :]
        return reference.nll(log_softmax(LOGITS) @ matrix.T + bias, LABELS) + penalty(matrix, bias)

    start = np.concatenate([0.5 * np.eye(K).ravel(), np.zeros(K)])
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-8}).x
    return found[: K * K].reshape(K, K), found[K * K :]


def test_off_diagonal_and_intercept_regularisation_is_that_of_the_plain_formula():
    fitted = Dirichlet(odir=(1e-2, 3e-2)).fit(LOGITS, LABELS)
    matrix, bias = plain(lambda W, b: 1e-2 * (W[OFF] ** 2).sum() + 3e-2 * (b**2).sum())
    np.testing.assert_allclose(fitted.parameters_["matrix"], matrix, atol=1e-6)
    np.testing.assert_allclose(fitted.parameters_["bias"], bias, atol=1e-6)
    expected = reference.softmax(log_softmax(LOGITS) @ matrix.T + bias)
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), expected, atol=1e-6)
    assert fitted.determined_ is None


def test_three_strengths_penalise_departures_from_one_temperature():
    fitted = Dirichlet(penalty=(30.0, 80.0, 5.0)).fit(LOGITS, LABELS)
    T, n = reference.ts_temperature(LOGITS, LABELS), len(LABELS)

    def penalty(matrix, bias):
        diagonal = T * np.diag(matrix)
        squares = [((diagonal - diagonal.mean()) ** 2).sum(), ((T * matrix[OFF]) ** 2).sum(), (bias**2).sum()]
        return np.dot([30.0, 80.0, 5.0], squares) / 2 / n

    matrix, bias = plain(penalty)
    np.testing.assert_allclose(fitted.parameters_["matrix"], matrix, atol=1e-6)
    np.testing.assert_allclose(fitted.parameters_["bias"], bias, atol=1e-6)


def test_only_ratios_of_weights_matter_for_regularisation():
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(LABELS))
    one, other = (Dirichlet(odir=(1e-2, 1e-2)).fit(LOGITS, LABELS, factor * weights) for factor in (1, 9))
    np.testing.assert_allclose(other.parameters_["matrix"], one.parameters_["matrix"], atol=1e-7)


def test_without_penalties_every_mean_is_matched():
    fitted = Dirichlet(penalty=None).fit(LOGITS, LABELS)
    gaps = fitted.predict_proba(LOGITS) - np.eye(K)[LABELS]
    np.testing.assert_allclose(gaps.T @ log_softmax(LOGITS) / len(LABELS), 0, atol=1e-7)
    np.testing.assert_allclose(gaps.mean(axis=0), 0, atol=1e-8)
    assert fitted.residual_ < 1e-7


def test_the_row_sums_find_what_a_matrix_of_logits_cannot():
    rng = np.random.default_rng(3)
    logits = 2 * rng.normal(size=(4000, K))
    logits[:, 0] += 4 * rng.normal(size=4000)
    # The first class becomes less likely where the partition function is large.
    matrix = np.array([[1.6, 0.6, 0.6], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    labels = (log_softmax(logits) @ matrix.T + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fit, test = slice(0, 2000), slice(2000, None)
    losses = {}
    for kind in (Dirichlet, nishimori.calibrators.MatrixScaling):
        fitted = kind(penalty=None).fit(logits[fit], labels[fit])
        losses[kind] = reference.nll(fitted.transform(logits[test]), labels[test])
    assert losses[Dirichlet] < losses[nishimori.calibrators.MatrixScaling] - 0.01


def test_few_samples_leave_one_temperature_and_many_do_not():
    few, many = (Dirichlet().fit(*drawn(n)) for n in (30, 3000))
    assert set(few.penalties_) == {"diagonal", "off_diagonal", "bias"}
    assert sum(few.determined_.values()) < 1
    assert sum(many.determined_.values()) > 4
    one = nishimori.TemperatureScaling().fit(*drawn(3000))
    new, truth = drawn(4000, seed=9)
    assert reference.nll(many.transform(new), truth) < reference.nll(new, truth, one.temperature_) - 0.01


def test_standard_errors_are_the_spread_over_data_sets():
    fits = [Dirichlet(penalty=None).fit(*drawn(400, seed)) for seed in range(100, 150)]
    # Only differences between the rows of the matrix matter.
    values = np.array([each.parameters_["matrix"] for each in fits])
    values = values - values.mean(axis=1, keepdims=True)
    errors = np.mean([each.parameters_se_["matrix"] ** 2 for each in fits], axis=0) ** 0.5
    np.testing.assert_allclose(errors, values.std(axis=0, ddof=1), rtol=0.4)
    assert Dirichlet().fit(LOGITS, LABELS).why_no_se_.startswith("The parameters are penalised")


def test_probabilities_are_what_is_calibrated_and_a_constant_per_row_means_nothing():
    expected = Dirichlet().fit(LOGITS, LABELS)
    from_p = Dirichlet(input="probabilities", floor=None).fit(reference.softmax(LOGITS), LABELS)
    shifted = Dirichlet().fit(LOGITS + np.linspace(-30, 30, len(LABELS))[:, None], LABELS)
    for other in (from_p, shifted):
        np.testing.assert_allclose(other.parameters_["matrix"], expected.parameters_["matrix"], atol=1e-7)
    np.testing.assert_allclose(
        from_p.predict_proba(reference.softmax(LOGITS)), expected.predict_proba(LOGITS), rtol=1e-6, atol=1e-9
    )


def test_files_and_tensors_give_the_same_map(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    expected = Dirichlet().fit(LOGITS, LABELS).parameters_["matrix"]
    for given in ((nishimori.rows(tmp_path / "logits.npy", LABELS),), (torch.tensor(LOGITS), torch.tensor(LABELS))):
        np.testing.assert_allclose(Dirichlet().fit(*given).parameters_["matrix"], expected, atol=1e-9)


def test_accuracy_can_be_preserved():
    keeping = Dirichlet(preserve_accuracy=True).fit(LOGITS, LABELS)
    assert (Dirichlet().fit(LOGITS, LABELS).predict(LOGITS) != LOGITS.argmax(axis=1)).any()
    np.testing.assert_array_equal(keeping.predict_proba(LOGITS).argmax(axis=1), LOGITS.argmax(axis=1))


@pytest.mark.parametrize("params", [{}, {"odir": (1e-3, 1e-3), "preserve_accuracy": True}, {"penalty": None}], ids=str)
def test_a_saved_calibrator_is_the_same_again(params, tmp_path):
    fitted = Dirichlet(**params).fit(LOGITS, LABELS)
    fitted.save(tmp_path / "map.json")
    loaded = nishimori.load(tmp_path / "map.json")
    assert type(loaded) is Dirichlet
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), fitted.predict_proba(LOGITS))
    assert loaded.penalties_ == fitted.penalties_
    assert loaded.why_no_se_ == fitted.why_no_se_
    assert (loaded.parameters_se_ is None) == (params.get("penalty", "auto") is not None)


def test_a_large_matrix_has_the_minimum_of_the_plain_formula():
    k, rng = 33, np.random.default_rng(0)
    logits = 2 * rng.normal(size=(400, k))
    labels = (logits + rng.normal(scale=0.5, size=k) + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = Dirichlet(penalty=(30.0, 90.0, 5.0)).fit(logits, labels)
    T, x = reference.ts_temperature(logits, labels), log_softmax(logits)

    def loss(theta):
        departures, bias = theta[1:-k].reshape(k, k), theta[-k:]
        p = reference.softmax(x / T @ (theta[0] * np.eye(k) + departures).T + bias)
        gaps = p - np.eye(k)[labels]
        strengths = np.where(np.eye(k, dtype=bool), 30.0, 90.0)
        value = -np.log(p[np.arange(400), labels]).sum() + (strengths * departures**2).sum() / 2 + 2.5 * (bias**2).sum()
        pulled = gaps.T @ x / T
        slopes = [[np.trace(pulled)], (pulled + strengths * departures).ravel(), gaps.sum(axis=0) + 5.0 * bias]
        return value, np.concatenate(slopes)

    options = {"maxiter": 5000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 50}
    found = minimize(loss, np.r_[1.0, np.zeros(k * k + k)], jac=True, method="L-BFGS-B", options=options).x
    expected = (found[0] * np.eye(k) + found[1:-k].reshape(k, k)) / T
    np.testing.assert_allclose(fitted.parameters_["matrix"], expected, atol=1e-3)


@pytest.mark.parametrize("odir", [1e-3, (1e-3,), (1e-3, -1.0), (1e-3, np.nan), "ab", [1.0, None], (True, False)], ids=str)
def test_regularisation_that_is_not_a_pair_of_strengths_is_refused(odir):
    with pytest.raises(InputError, match=r"^`odir` must be two numbers that are not negative, \(λ, μ\), got "):
        Dirichlet(odir=odir).fit(LOGITS, LABELS)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InputError, match=r"^`penalty` must be left out where `odir` is given, got 3\.0\.$"):
        Dirichlet(penalty=3.0, odir=(1.0, 1.0)).fit(LOGITS, LABELS)
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        Dirichlet().fit(nishimori.Sketch().update(LOGITS, LABELS))
    masked = LOGITS.copy()
    masked[3, (LABELS[3] + 1) % K] = -np.inf
    with pytest.raises(InputError, match="masked"):
        Dirichlet().fit(masked, LABELS)
    with pytest.raises(InputError, match=r"The `penalty` of the biases must be positive where a class has no samples"):
        Dirichlet(penalty=None).fit(LOGITS, np.where(LABELS == 2, 1, LABELS))
