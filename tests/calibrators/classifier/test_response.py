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

from nishimori import CalibratedClassifier, GroupConsistency, TemperatureScaling
from nishimori.errors import InputError, InputWarning, NotConvergedError, NoTemperatureError

X, Y = three_classes()
SEARCH = GridSearchCV(SVC(), {"decision_function_shape": ["ovo"]}, cv=2)
SAME = "The classifier gives every sample the same score."


class Unfinished(TemperatureScaling):
    """A calibrator whose search never ends well."""

    def fit(self, X, y=None, sample_weight=None, *, clusters=None):
        raise NotConvergedError("The search did not converge. There are too few different scores.")


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


@pytest.mark.parametrize("method", ["ts", "ec", "vector", "isotonic", "platt"])
@pytest.mark.parametrize("ensemble", [False, True])
def test_a_classifier_that_gives_every_sample_the_same_score_is_refused(method, ensemble):
    features, labels = np.zeros((100, 1)), np.repeat([0, 1], [60, 40])  # 40 is no multiple of 3, so frequencies differ by fold
    model = CalibratedClassifier(DummyClassifier(strategy="prior"), method, cv=3, ensemble=ensemble)
    with pytest.raises(NoTemperatureError) as raised:
        model.fit(features, labels)
    place = " in fold 1 of 3" if ensemble else ""
    assert str(raised.value) == (
        f"The scores of the classifier cannot be calibrated{place}. {SAME} Such scores say nothing about a sample. Check "
        "features and labels, use another classifier, or pass `fallback='none'` to keep such scores as they are."
    )
    with pytest.warns(InputWarning, match=f"'none' is used instead of '{method}'.*{SAME}"):
        kept = model.set_params(fallback="none").fit(features, labels)
    np.testing.assert_allclose(kept.predict_proba(features)[:, 1], 0.4, rtol=0.01)


def test_the_same_score_for_every_sample_can_be_kept_as_it_is():
    fitted = CalibratedClassifier(DummyClassifier(strategy="prior"), "none").fit(X, Y)
    np.testing.assert_allclose(fitted.predict_proba(X[:1])[0], np.bincount(Y) / len(Y), rtol=1e-12)


def test_folds_of_one_sample_do_not_make_scores_constant():
    rows = np.r_[:30]
    alone = CalibratedClassifier(LogisticRegression(C=0.01), "ts", cv=LeaveOneOut()).fit(X[rows], Y[rows])
    assert alone.calibrator_.temperature_ > 0


def test_a_search_that_did_not_converge_says_why_and_in_which_fold():
    start, cause = (
        "The scores of the classifier cannot be calibrated",
        "The search did not converge. There are too few different scores. Pass `fallback='none'` to keep such scores as they "
        "are.",
    )
    for ensemble, place, end in (
        (False, "", ""),
        (True, " in fold 1 of 3", " With ensemble=False all folds are calibrated together, on more samples."),
    ):
        with pytest.raises(NotConvergedError) as raised:
            CalibratedClassifier(LogisticRegression(), Unfinished(), cv=3, ensemble=ensemble).fit(X, Y)
        assert str(raised.value) == f"{start}{place}. {cause}{end}"


def test_a_fold_without_weight_is_named():
    weights = np.ones(400)
    weights[:200] = 0
    halves = [(np.r_[:400], np.r_[200:400]), (np.r_[:400], np.r_[:200])]
    with pytest.raises(InputError) as raised:
        CalibratedClassifier(LogisticRegression(), "ts", cv=halves, ensemble=True).fit(X, Y, weights)
    with pytest.raises(InputError) as alone:
        TemperatureScaling().fit(np.eye(3)[Y[:200]], Y[:200], weights[:200])
    assert str(raised.value) == f"{alone.value} This is about the test part of fold 2 of 2."


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
