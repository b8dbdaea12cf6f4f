"""One classifier, the mean of the folds' classifiers, or a calibrator per fold."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC
from small_problems import NAMES, named, three_classes, two_classes

import nishimori
from nishimori import CalibratedClassifier
from nishimori.errors import InputError

FOLDS = StratifiedKFold(4)


@pytest.mark.parametrize(
    ("estimator", "method", "problem"),
    [
        (LinearDiscriminantAnalysis(), "decision_function", two_classes),
        (GaussianNB(), "predict_proba", two_classes),
        (LinearDiscriminantAnalysis(), "decision_function", three_classes),
        (GaussianNB(), "predict_proba", three_classes),
    ],
)
def test_one_calibrator_of_all_scores_is_applied_to_the_mean_of_the_folds_scores(estimator, method, problem):
    X, y = problem()
    kind = "logits" if method == "decision_function" else "probabilities"
    models = [clone(estimator).fit(X[train], y[train]) for train, _ in FOLDS.split(X, y)]
    held_out = [getattr(model, method)(X[test]) for model, (_, test) in zip(models, FOLDS.split(X, y), strict=True)]
    rows = np.concatenate([test for _, test in FOLDS.split(X, y)])
    own = nishimori.calibrator("ts", input=kind).fit(np.concatenate(held_out), y[rows])
    expected = own.predict_proba(np.mean([getattr(model, method)(X) for model in models], axis=0))
    found = CalibratedClassifier(estimator, "ts", cv=FOLDS, ensemble="pooled").fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), expected, atol=1e-9)
    np.testing.assert_allclose(np.exp(found.predict_log_proba(X)), expected, atol=1e-9)
    single = CalibratedClassifier(estimator, "ts", cv=FOLDS).fit(X, y)
    assert found.calibrator_.temperature_ == single.calibrator_.temperature_
    assert len(found.calibrated_classifiers_) == 1
    assert len(found.estimator_.estimators_) == 4


def test_pooled_classifiers_know_text_labels_features_and_pickles():
    X, y = named()
    fitted = CalibratedClassifier(GaussianNB(), "best", cv=3, ensemble="pooled").fit(X, y)
    assert fitted.n_features_in_ == X.shape[1]
    assert set(fitted.predict(X)) == set(NAMES)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), fitted.predict_proba(X))
    scores = fitted.calibrated_classifiers_[0].scores(X)
    np.testing.assert_allclose(scores, np.mean([one.predict_proba(X) for one in fitted.estimator_.estimators_], axis=0))


def test_a_frozen_classifier_is_pooled_with_itself():
    X, y = two_classes()
    frozen = FrozenEstimator(GaussianNB().fit(X[::2], y[::2]))
    pooled, single = (CalibratedClassifier(frozen, "ts", ensemble=way).fit(X[1::2], y[1::2]) for way in ("pooled", False))
    assert np.array_equal(pooled.predict_proba(X), single.predict_proba(X))


def test_values_per_pair_of_classes_are_refused_in_each_fold():
    X, y = three_classes()
    with pytest.raises(InputError, match="decision_function_shape='ovr'"):
        CalibratedClassifier(SVC(decision_function_shape="ovo"), ensemble="pooled").fit(X, y)
