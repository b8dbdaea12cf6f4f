"""A temperature per class: the conditions that it satisfies, its minimum by SciPy, and what users get and cannot pass."""

import numpy as np
import pytest
import reference
from optional import torch
from scipy.optimize import minimize

import nishimori
from nishimori.calibrators import ClasswiseTemperature
from nishimori.errors import InputError

TEMPERATURES = np.array([2.0, 1.5, 1.0, 2.5])


def centred(logits):
    return logits - logits.mean(axis=1, keepdims=True)


def drawn(n=600, seed=0, temperatures=TEMPERATURES):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, len(temperatures)))
    return logits, (centred(logits) / temperatures + rng.gumbel(size=logits.shape)).argmax(axis=1)


LOGITS, LABELS = drawn()


def plain(penalty):
    """The factors by SciPy: cross-entropy plus λ/2·Σ(T·factor − their mean)², where T is that of temperature scaling."""
    one = reference.ts_temperature(LOGITS, LABELS)

    def loss(factors):
        departures = one * (factors - factors.mean())
        return len(LABELS) * reference.nll(centred(LOGITS) * factors, LABELS) + penalty / 2 * departures @ departures

    return minimize(loss, np.full(4, 0.5), method="BFGS", options={"gtol": 1e-7}).x


@pytest.mark.parametrize("penalty", [None, 40.0])
def test_factors_are_those_of_the_plain_formula(penalty):
    fitted = ClasswiseTemperature(penalty=penalty).fit(LOGITS, LABELS)
    expected = plain(penalty or 0.0)
    np.testing.assert_allclose(fitted.parameters_["scale"], expected, atol=1e-6)
    np.testing.assert_allclose(fitted.temperatures_, 1 / expected, rtol=1e-5)
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), reference.softmax(centred(LOGITS) * expected), atol=1e-6)


def test_without_a_penalty_each_class_has_the_same_mean_logit_under_the_model_as_at_the_labels():
    fitted = ClasswiseTemperature(penalty=None).fit(LOGITS, LABELS)
    gaps = (fitted.predict_proba(LOGITS) - np.eye(4)[LABELS]) * centred(LOGITS)
    np.testing.assert_allclose(gaps.mean(axis=0), 0, atol=1e-7)


def test_temperatures_of_classes_are_found():
    fitted = ClasswiseTemperature().fit(*drawn(6000))
    np.testing.assert_allclose(fitted.temperatures_, TEMPERATURES, rtol=0.12)
    assert set(fitted.parameters_) == {"scale"}
    assert set(fitted.penalties_) == set(fitted.determined_) == {"diagonal"}
    assert 2 < fitted.determined_["diagonal"] <= 4


def test_a_constant_per_row_changes_nothing():
    shifts = np.random.default_rng(1).normal(scale=20, size=(len(LABELS), 1))
    one, other = (ClasswiseTemperature().fit(LOGITS + shift, LABELS) for shift in (0.0, shifts))
    np.testing.assert_allclose(other.temperatures_, one.temperatures_, rtol=1e-7)


def test_an_infinite_penalty_leaves_one_temperature():
    fitted = ClasswiseTemperature(penalty=1e9).fit(LOGITS, LABELS)
    np.testing.assert_allclose(fitted.temperatures_, reference.ts_temperature(LOGITS, LABELS), rtol=1e-5)


def test_standard_errors_are_those_of_the_sandwich():
    fitted = ClasswiseTemperature(penalty=None).fit(LOGITS, LABELS)
    x, p = centred(LOGITS), fitted.predict_proba(LOGITS)
    gradients = (p - np.eye(4)[LABELS]) * x
    curvature = np.diag((p * x**2).sum(axis=0)) - (p * x).T @ (p * x)
    covariance = np.linalg.inv(curvature) @ gradients.T @ gradients @ np.linalg.inv(curvature)
    np.testing.assert_allclose(fitted.parameters_se_["scale"], np.sqrt(np.diag(covariance)), rtol=1e-6)
    assert fitted.why_no_se_ is None
    assert ClasswiseTemperature().fit(LOGITS, LABELS).why_no_se_.startswith("The parameters are penalised")


def test_a_class_whose_probability_falls_with_its_logit_has_no_temperature():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(600, 3))
    labels = (centred(logits) * [1.0, 1.0, -0.3] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = ClasswiseTemperature(penalty=None).fit(logits, labels)
    assert fitted.parameters_["scale"][2] < 0
    assert np.isnan(fitted.temperatures_).tolist() == [False, False, True]


def test_a_class_without_samples_has_finite_factors():
    labels = np.where(LABELS == 2, 1, LABELS)
    for penalty in ("auto", None):
        assert np.isfinite(ClasswiseTemperature(penalty=penalty).fit(LOGITS, labels).parameters_["scale"]).all()


def test_accuracy_can_be_preserved():
    changing, keeping = (ClasswiseTemperature(preserve_accuracy=each).fit(LOGITS, LABELS) for each in (False, True))
    assert (changing.predict(LOGITS) != LOGITS.argmax(axis=1)).any()
    np.testing.assert_array_equal(keeping.predict_proba(LOGITS).argmax(axis=1), LOGITS.argmax(axis=1))


def test_files_and_tensors_give_the_same_factors(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    expected = ClasswiseTemperature().fit(LOGITS, LABELS).temperatures_
    for given in ((nishimori.rows(tmp_path / "logits.npy", LABELS),), (torch.tensor(LOGITS), torch.tensor(LABELS))):
        np.testing.assert_allclose(ClasswiseTemperature().fit(*given).temperatures_, expected, rtol=1e-9)


@pytest.mark.parametrize("penalty", ["auto", None])
def test_a_saved_calibrator_is_the_same_again(penalty, tmp_path):
    fitted = ClasswiseTemperature(penalty=penalty).fit(LOGITS, LABELS)
    fitted.save(tmp_path / "map.json")
    loaded = nishimori.load(tmp_path / "map.json")
    assert type(loaded) is ClasswiseTemperature
    np.testing.assert_array_equal(loaded.temperatures_, fitted.temperatures_)
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), fitted.predict_proba(LOGITS))
    assert (loaded.penalties_, loaded.determined_) == (fitted.penalties_, fitted.determined_)
    assert loaded.why_no_se_ == fitted.why_no_se_
    assert (loaded.parameters_se_ is None) == (fitted.parameters_se_ is None) == (penalty == "auto")


@pytest.mark.parametrize("penalty", ["strong", -1.0, (1.0, 2.0), True])
def test_penalties_that_are_not_a_strength_are_refused(penalty):
    with pytest.raises(InputError, match=r"^`penalty` must be 'auto', None, a number that is not negative, got "):
        ClasswiseTemperature(penalty=penalty).fit(LOGITS, LABELS)


def test_sketches_masks_and_correct_samples_are_refused():
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        ClasswiseTemperature().fit(nishimori.Sketch().update(LOGITS, LABELS))
    masked = LOGITS.copy()
    masked[3, (LABELS[3] + 1) % 4] = -np.inf
    with pytest.raises(InputError, match="masked"):
        ClasswiseTemperature().fit(masked, LABELS)
    with pytest.raises(nishimori.errors.NoTemperatureError):
        ClasswiseTemperature().fit(LOGITS, LOGITS.argmax(axis=1))
