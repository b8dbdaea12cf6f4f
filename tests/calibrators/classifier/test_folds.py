"""Folds as scikit-learn makes them: repeated ones, random parts, and classes with a single sample."""

import warnings

import numpy as np
import pytest
import reference
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.naive_bayes import GaussianNB
from small_problems import three_classes

from nishimori import Best, CalibratedClassifier
from nishimori.errors import FewErrorsWarning, InputWarning

X, Y = three_classes()
FIVE = list(StratifiedKFold(5).split(X, Y))


def fitted(cv, method="ec", **options):
    return CalibratedClassifier(GaussianNB(), method, cv=cv, keep_scores=True, **options).fit(X, Y)


@pytest.mark.parametrize(
    "cv",
    [
        RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0),
        ShuffleSplit(4, test_size=0.3, random_state=0),
        StratifiedShuffleSplit(6, test_size=0.4, random_state=0),
    ],
)
def test_a_sample_that_is_held_out_several_times_has_its_weight_once(cv):
    found = fitted(cv)
    rows = found.out_of_fold_rows_
    held_out = np.concatenate([test for _, test in cv.split(X, Y)])
    assert rows.tolist() == sorted(held_out)
    weights = 1 / np.bincount(rows)[rows]
    logits = np.log(np.maximum(found.out_of_fold_scores_, found.calibrator_.floor_))
    expected = reference.ec_temperature(logits, Y[rows], weights)
    assert found.calibrator_.temperature_ == pytest.approx(expected, rel=1e-6)
    assert found.calibrator_.n_samples_ == len(rows)
    seen = np.unique(rows)
    np.testing.assert_allclose(found.class_prior_, np.bincount(Y[seen], minlength=3) / len(seen))


@pytest.mark.parametrize("method", ["ec", "ts", "bias", "vector", "matrix"])
@pytest.mark.parametrize("ensemble", [False, "pooled"])
def test_the_same_folds_three_times_are_as_good_as_once(method, ensemble):
    once, thrice = (fitted(cv, method, ensemble=ensemble) for cv in (FIVE, 3 * FIVE))
    np.testing.assert_allclose(thrice.predict_proba(X), once.predict_proba(X), rtol=1e-6)
    if method in ("ec", "ts"):  # copies of a sample say nothing new about T
        assert thrice.calibrator_.temperature_se_ == pytest.approx(once.calibrator_.temperature_se_, rel=0.02)


def test_weights_and_clusters_of_the_user_are_those_of_each_copy():
    weights, clusters = np.random.default_rng(0).uniform(0.5, 2, len(Y)), np.arange(len(Y)) // 3
    calls = {"sample_weight": weights, "clusters": clusters}
    model = CalibratedClassifier(GaussianNB(), "ec", keep_scores=True)
    once, twice = (model.set_params(cv=cv).fit(X, Y, **calls).calibrator_ for cv in (FIVE, 2 * FIVE))
    assert twice.temperature_ == pytest.approx(once.temperature_, rel=1e-9)
    assert twice.temperature_se_ == pytest.approx(once.temperature_se_, rel=1e-6)


def test_best_compares_methods_on_repeated_folds():
    logits, labels = reference.drawn(300, 3)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(logits, labels))
    once, thrice = (Best(["ts", "bias", "vector"], cv=cv).fit(logits, labels).selection_ for cv in (folds, 3 * folds))
    assert thrice.chosen == once.chosen
    assert thrice.n_samples == once.n_samples == 300
    assert thrice.n_folds == 15
    for candidate in once.candidates:
        assert thrice[candidate.name].score == pytest.approx(candidate.score, rel=1e-12)
    repeated = Best(["ts", "vector"], cv=RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0))
    halves = [Best(["ts", "vector"], cv=cv) for cv in split_in_two(repeated.cv, logits, labels)]
    both, first, second = (each.fit(logits, labels).selection_["ts"].score for each in (repeated, *halves))
    assert both == pytest.approx((first + second) / 2, rel=1e-12)


def split_in_two(cv, logits, labels):
    folds = list(cv.split(logits, labels))
    return folds[: len(folds) // 2], folds[len(folds) // 2 :]


@pytest.mark.parametrize("ensemble", [False, "pooled", True])
@pytest.mark.parametrize("method", ["best", "ec", "vector"])
def test_a_class_with_one_sample_is_in_every_training_part(method, ensemble):
    labels = np.array(["ant", "bee", "cat"])[Y]
    labels[7] = "dog"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = CalibratedClassifier(GaussianNB(var_smoothing=0.1), method, ensemble=ensemble).fit(X, labels)
    assert found.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert np.isfinite(np.log(found.predict_proba(X))).all()
    own = [str(each.message) for each in caught if each.category is InputWarning]
    assert own[0] == (
        "Class 'dog' has one sample, which every fold is fitted to and none holds out: nothing is known about how probable "
        "such a class is."
    )
    kinds = [(each.category, str(each.message)[:20]) for each in caught]
    assert len(kinds) == len(set(kinds))


def test_folds_that_hold_out_nothing_else_are_left_out():
    labels = Y[:40].copy()
    labels[3] = 9
    with pytest.warns(InputWarning, match="Class 9 has one sample"):
        found = CalibratedClassifier(GaussianNB(), "ts", cv=LeaveOneOut(), keep_scores=True).fit(X[:40], labels)
    assert sorted({*range(40)} - {*found.out_of_fold_rows_.tolist()}) == [3]


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_two_classes_of_one_sample_are_named_together():
    labels = Y.copy()
    labels[[3, 8]] = 7, 9
    with pytest.warns(InputWarning, match="The classes 7, 9 have one sample each, which every fold"):
        CalibratedClassifier(GaussianNB(), "ts").fit(X, labels)


def test_groups_stay_apart():
    groups = np.arange(len(Y)) // 4
    found = CalibratedClassifier(GaussianNB(), "ec", cv=GroupKFold(5), keep_scores=True).fit(X, Y, groups=groups)
    assert found.out_of_fold_rows_.tolist() == list(range(len(Y)))


@pytest.mark.parametrize(
    ("ensemble", "n", "distance", "advice"),
    [(False, 60, 2.5, "Pass more samples."), (True, 150, 1.5, 'With ensemble="pooled" one calibrator')],
)
def test_a_warning_of_few_errors_says_what_helps(ensemble, n, distance, advice):
    labels = np.arange(n) % 2
    features = np.random.default_rng(0).normal(size=(n, 2)) + distance * labels[:, None] / np.sqrt(2)
    with pytest.warns(FewErrorsWarning) as caught:
        CalibratedClassifier(LogisticRegression(), "ts", ensemble=ensemble).fit(features, labels)
    (message,) = [str(each.message) for each in caught if each.category is FewErrorsWarning]
    assert advice in message
    assert "validation set with" not in message
