"""Metrics as scorers of scikit-learn, in cross-validation and searches."""

import pickle

import numpy as np
import pytest
import reference
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import check_scoring, log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.svm import LinearSVC

import nishimori
from nishimori import CalibratedClassifier, metrics
from nishimori.errors import InputError

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
MODEL = LogisticRegression(max_iter=500).fit(X, NAMES)


def test_it_is_the_metric_of_the_probabilities_with_more_for_better():
    p = MODEL.predict_proba(X)
    edges = np.linspace(0, 1, 11)
    expected = reference.ece(p.max(axis=1), p.argmax(axis=1) == Y, edges)
    assert metrics.scorer("ece", n_bins=10)(MODEL, X, NAMES) == pytest.approx(-expected, rel=1e-12)
    assert metrics.scorer("nll")(MODEL, X, NAMES) == pytest.approx(-log_loss(NAMES, p), rel=1e-12)
    assert metrics.scorer("accuracy")(MODEL, X, NAMES) == MODEL.score(X, NAMES)
    gap = p.max(axis=1).mean() - MODEL.score(X, NAMES)
    assert metrics.scorer(metrics.gap)(MODEL, X, NAMES) == pytest.approx(-abs(gap), rel=1e-12)
    assert metrics.scorer("top_n_accuracy(top_n=2)")(MODEL, X, NAMES) == 1


def test_two_classes_and_a_fold_that_lacks_a_class():
    two = Y < 2
    model = LogisticRegression().fit(X[two][::3], NAMES[two][::3])
    assert metrics.scorer("nll")(model, X[two], NAMES[two]) == pytest.approx(
        -log_loss(NAMES[two], model.predict_proba(X[two])), rel=1e-9
    )
    virginica = Y == 2
    p = MODEL.predict_proba(X[virginica])
    assert metrics.scorer("nll")(MODEL, X[virginica], NAMES[virginica]) == pytest.approx(np.log(p[:, 2]).mean(), rel=1e-12)


def test_cross_validation_and_searches_take_it():
    scoring = {"ece": metrics.scorer("ece"), "nll": metrics.scorer("nll"), "own": "neg_log_loss"}
    found = cross_validate(LogisticRegression(max_iter=500), X, NAMES, scoring=scoring, cv=3)
    np.testing.assert_allclose(found["test_nll"], found["test_own"], rtol=1e-9)
    search = GridSearchCV(LogisticRegression(max_iter=500), {"C": [1e-3, 1]}, scoring=metrics.scorer("nll"), n_jobs=2).fit(X, Y)
    assert search.best_params_ == {"C": 1}
    assert check_scoring(MODEL, scoring=metrics.scorer("brier"))(MODEL, X, NAMES) < 0
    copy = pickle.loads(pickle.dumps(metrics.scorer("ece", n_bins=7)))
    assert copy(MODEL, X, NAMES) == metrics.scorer("ece", n_bins=7)(MODEL, X, NAMES)


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning", "ignore::nishimori.errors.FewErrorsWarning")
@pytest.mark.parametrize("calibrator", ["ts", "best"])
@pytest.mark.parametrize("ensemble", [False, "pooled", True])
def test_weights_and_groups_are_routed_through_a_search(calibrator, ensemble):
    rng = np.random.default_rng(0)
    weights, groups = rng.uniform(0.5, 2, len(Y)), np.arange(len(Y)) % 10
    seen = []

    class Recorded(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append(None if sample_weight is None else np.array(sample_weight))
            return super().fit(X, y, sample_weight)

    with sklearn.config_context(enable_metadata_routing=True):
        model = CalibratedClassifier(
            Recorded(max_iter=500).set_fit_request(sample_weight=True), calibrator, cv=GroupKFold(3), ensemble=ensemble
        ).set_fit_request(sample_weight=True)
        scoring = metrics.scorer("nll").set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"estimator__C": [0.01, 1.0]}, cv=GroupKFold(4), scoring=scoring)
        search.fit(X, Y, sample_weight=weights, groups=groups)
        assert all(each is not None for each in seen)
        assert set(np.concatenate(seen)) <= set(weights)
        train, test = next(GroupKFold(4).split(X, Y, groups))
        one = CalibratedClassifier(
            LogisticRegression(C=0.01, max_iter=500).set_fit_request(sample_weight=True),
            calibrator,
            cv=GroupKFold(3),
            ensemble=ensemble,
        ).fit(X[train], Y[train], sample_weight=weights[train], groups=groups[train])
        p = one.predict_proba(X[test])
        expected = -log_loss(Y[test], p, sample_weight=weights[test], labels=[0, 1, 2])
        assert search.cv_results_["split0_test_score"][0] == pytest.approx(expected, rel=1e-9)


def test_what_cannot_be_a_scorer_is_refused():
    with pytest.raises(InputError, match="`metric` must be a metric for which high or low values are better, got 'confidence'"):
        metrics.scorer("confidence")
    with pytest.raises(InputError, match="Did you mean 'ece'"):
        metrics.scorer("ecee")
    with pytest.raises(InputError, match="`metric` must have the parameters 'bins', got 'nll'"):
        metrics.scorer("nll", bins=3)
    with pytest.raises(InputError, match="`metric` must be the name of a metric, its function or a Metric"):
        metrics.scorer(log_loss)
    with pytest.raises(AttributeError, match="predict_proba"):
        metrics.scorer("nll")(LinearSVC().fit(X, Y), X, Y)
    with pytest.raises(InputError, match="`y`"):
        metrics.scorer("nll")(MODEL, X, np.where(Y == 2, "other", NAMES))


def test_a_metric_of_ones_own():
    class Doubt(nishimori.Metric):
        name = "doubt"

        def of_rows(self, predictions):
            return 1 - predictions.confidence

    assert metrics.scorer(Doubt())(MODEL, X, NAMES) == pytest.approx(MODEL.predict_proba(X).max(axis=1).mean() - 1, rel=1e-12)


class Fixed(ClassifierMixin, BaseEstimator):
    """Gives its features as probabilities."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return X


def test_rows_that_are_no_probabilities_are_refused():
    with pytest.raises(InputError, match=r"`predict_proba\(X\)` must"):
        metrics.scorer("nll")(Fixed().fit(X, Y), np.full((150, 3), 0.5), Y)
