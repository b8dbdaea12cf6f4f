"""Scores that do not tell samples apart are answered with the smoothed frequencies of the classes."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut

import nishimori
from nishimori import CalibratedClassifier
from nishimori._calibrators.rescue import fit_always
from nishimori.errors import InputWarning

N = 1000
RARE = np.random.default_rng(0).permutation(N) < 45
FLAG = np.zeros((N, 1))
FLAG[17] = 1
METHODS = ["best", "adaptive", "ec", "ts", "platt", "vector"]


class Rounded(ClassifierMixin, BaseEstimator):
    """Scores that are equal but for the rounding of sums, around ``centre``."""

    def __init__(self, centre=0.0, n_classes=2):
        self.centre = centre
        self.n_classes = n_classes

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        noise = (
            np.finfo(float).eps
            * max(1.0, abs(self.centre))
            * np.random.default_rng(len(X)).normal(size=(len(X), self.n_classes))
        )
        scores = self.centre * np.arange(self.n_classes) + noise
        return scores[:, 1] if self.n_classes == 2 else scores


@pytest.mark.filterwarnings("ignore:All `X` lie between 0 and 1")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("X", [np.ones((N, 1)), FLAG], ids=["constant", "a flag in one row"])
def test_a_balanced_model_of_nothing_gives_the_base_rate(method, X):
    with pytest.warns(InputWarning, match="Each class gets its smoothed frequency instead"):
        fitted = CalibratedClassifier(LogisticRegression(class_weight="balanced"), method).fit(X, RARE)
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], 46 / 1002, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_trees_that_cannot_split_give_the_base_rate(method):
    X, y = np.random.default_rng(1).normal(size=(39, 3)), np.arange(39) < 9
    with pytest.warns(InputWarning, match="The classifier gives every sample the same score"):
        fitted = CalibratedClassifier(HistGradientBoostingClassifier(min_samples_leaf=20), method).fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], 10 / 41, rtol=1e-12)


@pytest.mark.parametrize("centre", [0.0, 1e-16, 3.0, -1e6])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_differences_of_the_size_of_rounding_count_as_none(centre, n_classes):
    y = np.random.default_rng(2).choice(n_classes, size=300, p=[0.7, 0.3] if n_classes == 2 else [0.6, 0.3, 0.1])
    with pytest.warns(InputWarning, match="Each class gets its smoothed frequency instead"):
        fitted = CalibratedClassifier(Rounded(centre, n_classes), "adaptive").fit(np.zeros((300, 1)), y)
    expected = (np.bincount(y) + 1) / (300 + n_classes)
    np.testing.assert_allclose(fitted.predict_proba(np.zeros((5, 1))), np.tile(expected, (5, 1)), rtol=1e-9)


def test_weights_count_in_the_frequencies():
    weights = np.where(RARE, 3.0, 1.0)
    with pytest.warns(InputWarning, match="Each class gets its smoothed frequency instead"):
        fitted = fit_always(nishimori.TemperatureScaling(), np.zeros((N, 2)), RARE.astype(int), weights)
    one = (weights**2).sum() / weights.sum()
    numbers = np.array([955, 135]) / one
    np.testing.assert_allclose(fitted.predict_proba(np.zeros((1, 2))), [(numbers + 1) / (numbers.sum() + 2)], rtol=1e-12)


def test_a_model_that_tells_samples_apart_by_little_is_calibrated_as_usual():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 1))
    y = (X[:, 0] + rng.logistic(size=N)) > 0
    tiny = CalibratedClassifier(LogisticRegression(), "ts").fit(0.02 * X, y)
    assert np.ptp(tiny.predict_proba(0.02 * X)[:, 1]) > 0.3


def test_frequencies_can_be_saved_and_loaded(tmp_path):
    with pytest.warns(InputWarning):
        fitted = CalibratedClassifier(LogisticRegression(class_weight="balanced")).fit(np.ones((N, 1)), RARE)
    fitted.calibrator_.save(tmp_path / "frequencies.json")
    loaded = nishimori.load(tmp_path / "frequencies.json")
    np.testing.assert_array_equal(loaded.predict_proba(np.zeros(3)), fitted.calibrator_.predict_proba(np.zeros(3)))


def _groups_of_equal_samples(informative):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)) if informative else np.ones((60, 3))
    y = (rng.random(60) < 1 / (1 + np.exp(-3 * x[:, 0] * informative))).astype(int)
    X, y, groups = np.repeat(x, 3, axis=0), np.repeat(y, 3), np.repeat(np.arange(60), 3)
    return X, y, list(LeaveOneGroupOut().split(X, y, groups))


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
@pytest.mark.parametrize("ensemble", [False, True], ids=["pooled", "ensemble"])
@pytest.mark.parametrize("response", ["decision_function", "predict_proba"])
def test_a_model_of_features_that_belong_to_a_group_is_kept_where_each_group_is_a_fold(ensemble, response):
    X, y, cv = _groups_of_equal_samples(informative=True)
    fitted = CalibratedClassifier(LogisticRegression(), cv=cv, ensemble=ensemble, response_method=response).fit(X, y)
    assert roc_auc_score(y, fitted.predict_proba(X)[:, 1]) > 0.9


@pytest.mark.parametrize("ensemble", [False, True], ids=["pooled", "ensemble"])
def test_a_model_of_nothing_gives_frequencies_also_where_each_group_is_a_fold(ensemble):
    X, y, cv = _groups_of_equal_samples(informative=False)
    with pytest.warns(InputWarning, match="Each class gets its smoothed frequency instead"):
        fitted = CalibratedClassifier(LogisticRegression(), cv=cv, ensemble=ensemble).fit(X, y)
    sizes = [len(y)] if not ensemble else [3] * 60
    expected = np.mean(
        [(share * n + 1) / (n + 2) for n, share in zip(sizes, [y.mean()] if not ensemble else y[::3], strict=True)]
    )
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
@pytest.mark.parametrize("ensemble", [False, True], ids=["pooled", "ensemble"])
def test_a_frozen_model_is_asked_about_other_samples_too(ensemble):
    X, y, cv = _groups_of_equal_samples(informative=True)
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    fitted = CalibratedClassifier(frozen, cv=cv, ensemble=ensemble).fit(X, y)
    assert roc_auc_score(y, fitted.predict_proba(X)[:, 1]) > 0.9
