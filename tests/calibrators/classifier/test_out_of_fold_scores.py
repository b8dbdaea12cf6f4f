"""What is calibrated on what: scores of samples that the classifier has not seen."""

import numpy as np
import pytest
import reference
import reference_floor
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut, ShuffleSplit, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from small_problems import NAMES, named, three_classes, two_classes

from nishimori import CalibratedClassifier, ExpectationConsistency, TemperatureScaling, evaluate


def test_pooled_scores_are_those_of_cross_validation():
    X, y = named()
    fitted = CalibratedClassifier(LogisticRegression(), "ts", cv=4, keep_scores=True).fit(X, y)
    expected = cross_val_predict(LogisticRegression(), X, y, cv=StratifiedKFold(4), method="decision_function")
    np.testing.assert_allclose(fitted.out_of_fold_scores_, expected, rtol=1e-12)
    assert np.array_equal(fitted.out_of_fold_rows_, np.arange(400))
    labels = np.searchsorted(NAMES, y)
    assert fitted.calibrator_.temperature_ == pytest.approx(reference.ts_temperature(expected, labels), rel=1e-8)
    whole = LogisticRegression().fit(X, y)
    scaled = whole.decision_function(X) / reference.ts_temperature(expected, labels)
    np.testing.assert_allclose(fitted.predict_proba(X), reference.softmax(scaled), rtol=1e-7)
    assert evaluate(fitted.out_of_fold_scores_, y, calibrator=fitted.calibrator_).n_samples == 400


def test_a_classifier_that_knows_its_training_data_by_heart_is_not_believed():
    X, y = three_classes()
    nearest = CalibratedClassifier(KNeighborsClassifier(1), "ec")
    assert nearest.fit(X, y).predict_proba(X).max(axis=1).mean() < 0.7  # it is always right about samples it has seen
    assert KNeighborsClassifier(1).fit(X, y).score(X, y) == 1


def test_an_ensemble_averages_probabilities_and_its_logarithm_is_exact():
    X, y = three_classes()
    fitted = CalibratedClassifier(LogisticRegression(), "ts", cv=3, ensemble=True).fit(X, y)
    members = []
    for train, test in StratifiedKFold(3).split(X, y):
        model = LogisticRegression().fit(X[train], y[train])
        T = reference.ts_temperature(model.decision_function(X[test]), y[test])
        members.append(reference.softmax(model.decision_function(X) / T))
    np.testing.assert_allclose(fitted.predict_proba(X), np.mean(members, axis=0), rtol=1e-7)
    np.testing.assert_allclose(fitted.predict_log_proba(X), np.log(np.mean(members, axis=0)), rtol=1e-6)
    assert np.array_equal(fitted.predict(X), np.mean(members, axis=0).argmax(axis=1))
    assert not hasattr(fitted, "calibrator_")
    far = np.full((1, X.shape[1]), 1e4)
    assert fitted.predict_proba(far).min() == 0
    assert np.isfinite(fitted.predict_log_proba(far)).all()


def test_fitting_again_forgets_what_is_no_longer_true():
    X, y = named()
    model = CalibratedClassifier(LogisticRegression(), "ts", keep_scores=True).fit(X, y)
    model.set_params(ensemble=True, keep_scores=False).fit(X, y)
    assert not any(hasattr(model, name) for name in ("calibrator_", "estimator_", "out_of_fold_scores_"))


def test_a_fit_that_fails_leaves_the_classifier_as_it_was():
    X, y = named()
    model = CalibratedClassifier(LogisticRegression(), "ts").fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.full(400, "ant"))
    assert np.array_equal(model.predict_proba(X), before)


def test_samples_may_be_held_out_once_or_one_by_one():
    X, y = three_classes()
    held_out = CalibratedClassifier(LogisticRegression(), "ts", cv=ShuffleSplit(1, test_size=0.5, random_state=0)).fit(X, y)
    assert held_out.calibrator_.n_samples_ == 200
    one_by_one = CalibratedClassifier(GaussianNB(), "ts", cv=LeaveOneOut()).fit(X[:60], y[:60])
    assert one_by_one.calibrator_.n_samples_ == 60


def test_masks_of_rows_are_folds_too():
    X, y = three_classes()
    halves = np.arange(400) < 200
    masked = CalibratedClassifier(LogisticRegression(), "ts", cv=[(halves, ~halves), (~halves, halves)]).fit(X, y)
    rows = [(np.flatnonzero(halves), np.flatnonzero(~halves))]
    numbered = CalibratedClassifier(LogisticRegression(), "ts", cv=[*rows, rows[0][::-1]]).fit(X, y)
    assert np.array_equal(masked.predict_proba(X), numbered.predict_proba(X))


class Reversed(ClassifierMixin, BaseEstimator):
    """A classifier that lists its classes from the last to the first, as it may."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = self.model_.classes_[::-1]
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def decision_function(self, X):
        scores = self.model_.decision_function(X)
        return -scores if scores.ndim == 1 else scores[:, ::-1]


@pytest.mark.parametrize("problem", [two_classes, three_classes], ids=["binary", "multiclass"])
def test_columns_follow_the_labels_whatever_the_order_of_the_classifier(problem):
    X, y = problem()
    usual, backwards = (CalibratedClassifier(model, "ts").fit(X, y) for model in (LogisticRegression(), Reversed()))
    assert backwards.classes_.tolist() == sorted(set(y))
    np.testing.assert_allclose(backwards.predict_proba(X), usual.predict_proba(X), rtol=1e-9)


def test_log_probabilities_are_logits():
    X, y = three_classes()
    fitted = CalibratedClassifier(GaussianNB(), "ts", response_method="predict_log_proba").fit(X, y)
    scores = cross_val_predict(GaussianNB(), X, y, cv=StratifiedKFold(5), method="predict_log_proba")
    assert fitted.calibrator_.temperature_ == pytest.approx(reference.ts_temperature(scores, y), rel=1e-8)
    assert fitted.calibrator_.input == "logits"


def test_the_floor_raises_the_zeros_of_a_forest():
    X, y = three_classes()
    forest = RandomForestClassifier(10, random_state=0)
    p = cross_val_predict(forest, X, y, cv=StratifiedKFold(5), method="predict_proba")
    assert (p == 0).any()
    for model in (CalibratedClassifier(forest, "ts", floor=0.01), CalibratedClassifier(forest, TemperatureScaling(floor=0.01))):
        fitted = clone(model).fit(X, y)
        expected = reference.ts_temperature(np.log(np.maximum(p, 0.01)), y)
        assert fitted.calibrator_.temperature_ == pytest.approx(expected, rel=1e-6)
        assert fitted.predict_proba(X).min() > 0


@pytest.mark.parametrize("model", [RandomForestClassifier(10, random_state=0), GaussianNB()], ids=["forest", "naive Bayes"])
def test_the_floor_is_chosen_from_the_scores_that_the_calibrator_is_fitted_to(model):
    X, y = three_classes()
    p = cross_val_predict(model, X, y, cv=StratifiedKFold(5), method="predict_proba")
    best = reference_floor.best_floor(p, y)
    fitted = CalibratedClassifier(model, "ts").fit(X, y)
    assert (fitted.calibrator_.floor_, fitted.floor) == (best, "auto")
    expected = reference.ts_temperature(np.log(np.maximum(p, best)), y)
    assert fitted.calibrator_.temperature_ == pytest.approx(expected, rel=1e-6)
    kept = CalibratedClassifier(model, TemperatureScaling(floor=0.003)).fit(X, y)
    assert kept.calibrator_.floor_ == 0.003
    unchanged = CalibratedClassifier(model, "none").fit(X, y)
    np.testing.assert_allclose(unchanged.predict_proba(X), clone(model).fit(X, y).predict_proba(X), atol=1e-12)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are the probabilities of the classes 0 and 1."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return X.argmax(axis=1)

    def predict_proba(self, X):
        return X


def test_weights_count_when_a_floor_is_chosen():
    sure, unsure = np.array([1 - 1e-8, 1e-8]), np.array([0.9, 0.1])
    p = np.r_[np.tile(sure, (300, 1)), np.tile(unsure, (300, 1))]
    y = np.r_[np.arange(300) % 30 == 0, np.arange(300) % 3 == 0].astype(int)  # some answers are wrong
    surprise = (p[:, 0] > 0.95) & (y == 1)
    chosen = {}
    for weight in (1e-6, 1.0):
        weights = np.where(surprise, weight, 1.0)
        chosen[weight] = CalibratedClassifier(Given(), "ts").fit(p, y, sample_weight=weights).calibrator_.floor_
    # Surprises make small probabilities expensive; without them they are right.
    assert chosen[1e-6] <= 1e-6 < chosen[1.0]


def test_the_floor_of_a_smooth_classifier_changes_nothing():
    X, y = two_classes()
    fitted = CalibratedClassifier(LogisticRegression(C=1e-3), "ts", response_method="predict_proba").fit(X, y)
    scores = cross_val_predict(LogisticRegression(C=1e-3), X, y, cv=StratifiedKFold(5), method="predict_log_proba")
    assert fitted.calibrator_.floor_ < np.exp(scores.min())
    assert fitted.calibrator_.temperature_ == pytest.approx(reference.ts_temperature(scores, y), rel=1e-8)


def test_mean_confidence_equals_accuracy_on_the_pooled_scores():
    X, y = two_classes()
    fitted = CalibratedClassifier(LogisticRegression(), ExpectationConsistency(), keep_scores=True).fit(X, y)
    p = fitted.calibrator_.predict_proba(fitted.out_of_fold_scores_)
    assert p.max(axis=1).mean() == pytest.approx(np.mean(p.argmax(axis=1) == y), abs=1e-9)
    assert fitted.out_of_fold_scores_.shape == (400,)


def test_a_frozen_classifier_may_know_classes_that_the_data_lack():
    from sklearn.frozen import FrozenEstimator

    X, y = named()
    frozen = FrozenEstimator(LogisticRegression().fit(X[:200], y[:200]))
    some = np.arange(400) >= 200
    some &= y != "bee"
    fitted = CalibratedClassifier(frozen, "ts").fit(X[some], y[some])
    assert fitted.classes_.tolist() == NAMES.tolist()
    labels = np.searchsorted(NAMES, y[some])
    expected = reference.ts_temperature(frozen.decision_function(X[some]), labels)
    assert fitted.calibrator_.temperature_ == pytest.approx(expected, rel=1e-8)
