"""Scores that cannot be calibrated are found after the classifier is fitted, and the error names fold and cause."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from small_problems import three_classes

from nishimori import CalibratedClassifier, GroupConsistency
from nishimori.errors import InputError

X, Y = three_classes()
SEARCH = GridSearchCV(SVC(), {"decision_function_shape": ["ovo"]}, cv=2)
SAME = "The classifier gives every sample the same score."


@pytest.mark.parametrize(
    "classifier",
    [SEARCH, make_pipeline(StandardScaler(), SEARCH), FrozenEstimator(clone(SEARCH).fit(X, Y))],
    ids=["search", "pipeline", "frozen"],
)
@pytest.mark.parametrize("ensemble", [False, True])
def test_pairs_of_classes_that_a_search_chose_are_refused(classifier, ensemble):
    with pytest.raises(InputError) as raised:
        CalibratedClassifier(classifier, "ec", cv=3, ensemble=ensemble).fit(X, Y)
    assert str(raised.value) == (
        f"`estimator` must give one decision value per class, got {type(classifier).__name__} with "
        "decision_function_shape='ovo', which gives one per pair of classes. Set decision_function_shape='ovr'."
    )


def test_pairs_of_classes_that_only_the_last_fit_chose_are_refused():
    class Last(SVC):
        def fit(self, X, y, sample_weight=None):
            self.best_estimator_ = SVC(decision_function_shape="ovo" if len(X) == 400 else "ovr")
            return super().fit(X, y, sample_weight)

    with pytest.raises(InputError, match="which gives one per pair of classes"):
        CalibratedClassifier(Last(), "ec", cv=3).fit(X, Y)


def test_a_search_that_chose_one_value_per_class_is_calibrated():
    search = GridSearchCV(SVC(decision_function_shape="ovo"), {"decision_function_shape": ["ovr"]}, cv=2)
    found, alone = (CalibratedClassifier(each, "ts", cv=3).fit(X, Y) for each in (search, SVC()))
    assert found.calibrator_.temperature_ == pytest.approx(alone.calibrator_.temperature_, rel=1e-12)


def test_the_same_score_for_every_sample_can_be_kept_as_it_is():
    fitted = CalibratedClassifier(DummyClassifier(strategy="prior"), "none").fit(X, Y)
    np.testing.assert_allclose(fitted.predict_proba(X[:1])[0], np.bincount(Y) / len(Y), rtol=1e-12)


def test_folds_of_one_sample_do_not_make_scores_constant():
    rows = np.r_[:30]
    alone = CalibratedClassifier(LogisticRegression(C=0.01), "ts", cv=LeaveOneOut()).fit(X[rows], Y[rows])
    assert alone.calibrator_.temperature_ > 0


def test_accuracy_of_a_classifier_with_routed_groups_takes_groups():
    groups = np.where(np.arange(400) % 3, "old", "new")
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = GroupConsistency(by="groups").set_fit_request(groups=True).set_predict_proba_request(groups=True)
        model = CalibratedClassifier(LogisticRegression(), calibrator, cv=3)
        fitted = clone(model).fit(X, Y, groups=groups)
        weights = 1.0 + np.arange(400) % 4
        expected = accuracy_score(Y, LogisticRegression().fit(X, Y).predict(X), sample_weight=weights)
        assert fitted.score(X, Y, weights, groups=groups) == expected
        search = GridSearchCV(model, {"estimator__C": [1.0]}, cv=2).fit(X, Y, groups=groups)
        assert 0.4 < search.best_score_ < 1
