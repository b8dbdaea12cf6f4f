"""Where scikit-learn's `CalibratedClassifierCV` does the same thing, the numbers are the same."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from small_problems import three_classes, two_classes

from nishimori import CalibratedClassifier, TemperatureScaling

CV = StratifiedKFold(4, shuffle=True, random_state=1)
# scikit-learn minimises a loss by comparing its values, which fixes log T to the square root of the rounding error.
CLOSE = {"rtol": 0, "atol": 1e-7}


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("problem", [two_classes, three_classes], ids=["binary", "multiclass"])
def test_temperature_scaling_of_decision_values_is_that_of_scikit_learn(problem, ensemble):
    X, y = problem()
    ours = CalibratedClassifier(LinearSVC(random_state=0), "ts", cv=CV, ensemble=ensemble).fit(X[:300], y[:300])
    theirs = CalibratedClassifierCV(LinearSVC(random_state=0), method="temperature", cv=CV, ensemble=ensemble)
    np.testing.assert_allclose(ours.predict_proba(X[300:]), theirs.fit(X[:300], y[:300]).predict_proba(X[300:]), **CLOSE)
    assert len(ours.calibrated_classifiers_) == len(theirs.calibrated_classifiers_) == (1 if ensemble is False else 4)


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("problem", [two_classes, three_classes], ids=["binary", "multiclass"])
def test_temperature_scaling_of_probabilities_is_that_of_scikit_learn(problem, ensemble):
    X, y = problem()
    model = KNeighborsClassifier(60)  # its probabilities are far from 0, where 2e-16 that scikit-learn adds would count
    ours = CalibratedClassifier(model, "ts", cv=CV, ensemble=ensemble, floor=None).fit(X[:300], y[:300])
    theirs = CalibratedClassifierCV(model, method="temperature", cv=CV, ensemble=ensemble).fit(X[:300], y[:300])
    assert ours.response_method_ == "predict_proba"
    np.testing.assert_allclose(ours.predict_proba(X[300:]), theirs.predict_proba(X[300:]), **CLOSE)


def test_the_temperature_of_scikit_learn_is_twice_as_large_for_a_binary_decision_value():
    X, y = two_classes()
    ours = CalibratedClassifier(LinearSVC(random_state=0), "ts", cv=CV).fit(X, y)
    theirs = CalibratedClassifierCV(LinearSVC(random_state=0), method="temperature", cv=CV, ensemble=False).fit(X, y)
    (calibrator,) = theirs.calibrated_classifiers_[0].calibrators  # it maps a value x to the logits (-x, x)
    assert 1 / calibrator.beta_ == pytest.approx(2 * ours.calibrator_.temperature_, rel=1e-7)


def test_weights_count_as_in_scikit_learn():
    X, y = three_classes()
    weights = 0.1 + np.arange(400) % 4
    ours = CalibratedClassifier(LinearSVC(random_state=0), "ts", cv=CV).fit(X, y, sample_weight=weights)
    theirs = CalibratedClassifierCV(LinearSVC(random_state=0), method="temperature", cv=CV, ensemble=False)
    expected = theirs.fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(ours.predict_proba(X), expected, **CLOSE)
    without = CalibratedClassifier(LinearSVC(random_state=0), "ts", cv=CV).fit(X, y).predict_proba(X)
    assert np.abs(without - expected).max() > 1e-3


@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis(), KNeighborsClassifier(50)], ids=["scores", "probabilities"])
def test_all_data_calibrate_a_frozen_classifier(model):
    X, y = three_classes()
    frozen = FrozenEstimator(model.fit(X[:100], y[:100]))
    ours = CalibratedClassifier(frozen, "ts", floor=None).fit(X[100:], y[100:], sample_weight=np.ones(300))
    theirs = CalibratedClassifierCV(frozen, method="temperature").fit(X[100:], y[100:])
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), **CLOSE)
    scores = model.decision_function(X[100:]) if hasattr(model, "decision_function") else np.log(model.predict_proba(X[100:]))
    alone = TemperatureScaling().fit(scores, y[100:])
    assert ours.calibrator_.temperature_ == pytest.approx(alone.temperature_, rel=1e-12)
    assert ours.estimator_ is frozen
    assert ours.calibrator_.n_samples_ == 300
