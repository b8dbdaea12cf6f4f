"""What cannot work says so in words that help: data, folds, classifiers and calibrators."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest, StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from small_problems import named, three_classes, two_classes

import nishimori
from nishimori import (
    CalibratedClassifier,
    ExpectationConsistency,
    GroupConsistency,
    TemperatureScaling,
)
from nishimori.errors import InputError, InputWarning

X, Y = three_classes()
NAMED = named()[1]


class Scores(ClassifierMixin, BaseEstimator):
    """A classifier that gives the score of the first feature, or what a test wants."""

    def __init__(self, scores=None, copies=None):
        self.scores = scores
        self.copies = copies

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        if self.scores is None:
            return X[:, 0] if self.copies is None else np.tile(X[:, :1], self.copies)
        return np.broadcast_to(np.asarray(self.scores), (len(X), *np.shape(self.scores)))


class Independent(TemperatureScaling):
    """A calibrator that takes all samples as independent."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, y, sample_weight)


class Binary(TemperatureScaling):
    """A calibrator of two classes."""

    traits = replace(TemperatureScaling.traits, n_classes="two")


def refusal(model, features=X, labels=Y, error=InputError, **params):
    with pytest.raises(error) as raised:
        model.fit(features, labels, **params)
    return str(raised.value)


MODEL = CalibratedClassifier(LogisticRegression(), "ts")
SETS = {
    "a name of no method": (
        {"calibrator": "ecc"},
        "The method must be one of ",
    ),
    "a class instead of a calibrator": (
        {"calibrator": ExpectationConsistency},
        "`calibrator` must be the name of a method or a calibrator, got a class. Pass `ExpectationConsistency()`.",
    ),
    "something else": (
        {"calibrator": LogisticRegression()},
        "`calibrator` must be the name of a method, such as 'ec', or a calibrator, got LogisticRegression().",
    ),
    "a calibrator of probabilities behind logits": (
        {"calibrator": ExpectationConsistency(input="probabilities")},
        "`calibrator` must take logits, because the scores come from `decision_function`, got input='probabilities'. Leave "
        "`input` out, or pass `response_method='predict_proba'`.",
    ),
    "a method for two classes": (
        {"calibrator": Binary()},
        f"`calibrator` must work for 3 classes, got '{__name__}:Binary', which is for two. Use 'vector' or 'matrix', for "
        "example.",
    ),
    "a floor without probabilities": (
        {"floor": 0.01},
        "`floor` must be left out, because the scores come from `decision_function` and have none, got 0.01. It raises "
        "probabilities: pass `response_method='predict_proba'` if you want them.",
    ),
    "two floors": (
        {"floor": 0.01, "response_method": "predict_proba", "calibrator": ExpectationConsistency(floor=0.1)},
        "`floor` must be passed once, got 0.01, and 0.1 of the `calibrator`.",
    ),
    "a floor that is a word": (
        {"floor": "low", "response_method": "predict_proba"},
        "`floor` must lie between 0 and 0.5, got 'low'.",
    ),
    "an unknown response": (
        {"response_method": "predict"},
        "`response_method` must be 'auto', 'decision_function', 'predict_proba' or 'predict_log_proba', got 'predict'.",
    ),
    "an unknown ensemble": (
        {"ensemble": "yes"},
        "`ensemble` must be True, False, 'pooled' or 'auto', got 'yes'.",
    ),
    "a regression": (
        {"estimator": LinearRegression()},
        "`estimator` must be a classifier with `decision_function` or `predict_proba`, got LinearRegression, which has "
        "neither. Pass a classifier that gives scores or probabilities.",
    ),
    "a class instead of a classifier": (
        {"estimator": LogisticRegression},
        "`estimator` must be a classifier, got a class. Pass `LogisticRegression()`.",
    ),
    "a classifier that lacks a part": (
        {"estimator": StackingClassifier([("lr", LogisticRegression())])},
        "`estimator` must be a classifier with `decision_function` or `predict_proba`, got StackingClassifier, which has "
        "neither. Pass a classifier that gives scores or probabilities.",
    ),
    "a frozen classifier that is not fitted": (
        {"estimator": FrozenEstimator(LogisticRegression())},
        "`estimator` must be a classifier that has `classes_` after `fit`, got FrozenEstimator. Pass a classifier of one "
        "target.",
    ),
    "no probabilities where they are wanted": (
        {"estimator": Scores(), "response_method": "predict_proba"},
        "`estimator` must be a classifier with `predict_proba`, got Scores, which has none. Pass a classifier that gives "
        "scores or probabilities.",
    ),
    "clusters": (
        {"estimator": KMeans(2)},
        "`estimator` must be a classifier with `decision_function` or `predict_proba`, got KMeans, which has neither. Pass a "
        "classifier that gives scores or probabilities.",
    ),
    "outliers": (
        {"estimator": IsolationForest(n_estimators=2, random_state=0)},
        "`estimator` must be a classifier that has `classes_` after `fit`, got IsolationForest. Pass a classifier of "
        "one target.",
    ),
    "one decision value per pair of classes": (
        {"estimator": SVC(decision_function_shape="ovo")},
        "`estimator` must give one decision value per class, got SVC with decision_function_shape='ovo', which gives one per "
        "pair of classes. Set decision_function_shape='ovr'.",
    ),
    "too few scores": (
        {"estimator": Scores([1.0, 2.0])},
        "`estimator` must give one score per class from `decision_function`, shape (n_samples, 3), got shape (80, 2) from "
        "Scores. Choose another `response_method`.",
    ),
    "scores that are no numbers": (
        {"estimator": Scores([np.nan, 0.0, 1.0])},
        "`estimator` must give finite scores, got nan from Scores.decision_function for sample 0 of the test part of fold 1 of "
        "5. Check its training: features may need scaling, or a parameter may be too large.",
    ),
    "scores that are text": (
        {"estimator": Scores(["a", "b", "c"])},
        "`estimator` must give numbers, got an array of type <U1 from Scores.decision_function.",
    ),
    "no folds for a fitted classifier": (
        {"cv": "prefit"},
        "`cv` must be a number of folds, a splitter or pairs of rows, got 'prefit'. Leave it out, and wrap the fitted "
        "classifier in `sklearn.frozen.FrozenEstimator` instead.",
    ),
    "groups that are not routed": (
        {"calibrator": GroupConsistency(by="groups")},
        "`calibrator` must get groups of its own with by='groups', got none. Without metadata routing, `groups` go to the "
        "splitter: see `sklearn.set_config(enable_metadata_routing=True)`, and request them with "
        "`set_fit_request(groups=True)`.",
    ),
    "no folds": ({"cv": []}, "`cv` must have at least one fold, got none. A generator can be used once only: pass a list."),
    "an empty fold": (
        {"cv": [(np.arange(400), np.arange(0))]},
        "`cv` must hold out samples in each fold, got none in fold 1 of 1.",
    ),
}


@pytest.mark.parametrize(("params", "message"), SETS.values(), ids=SETS)
def test_a_parameter_that_cannot_work_is_refused(params, message):
    found = refusal(clone(MODEL).set_params(**params), error=nishimori.errors.NishimoriError)
    assert found == message or (message.endswith(" ") and found.startswith(message))


def test_a_single_class_is_refused():
    assert refusal(MODEL, labels=np.full(400, "ant")) == "`y` must have samples of at least 2 classes, got one class, 'ant'."
    found = refusal(MODEL, sample_weight=(Y == 2).astype(float))
    assert found == "`y` must have samples of positive weight of at least 2 classes, got one class, 2."
    frozen = CalibratedClassifier(FrozenEstimator(LogisticRegression().fit(X, Y)), "ts")
    one = refusal(frozen, X[Y == 1], Y[Y == 1])
    assert one == "`y` must have samples of at least 2 classes, got one class, 1."
    assert len(frozen.fit(X[Y < 2], Y[Y < 2]).classes_) == 3  # a class that only the classifier knows is no error


def test_labels_that_are_no_classes_are_refused():
    start = "`y` must hold one class per sample. Unknown label type: "
    assert refusal(MODEL, labels=X[:, 0]) == start + "continuous. Pass one class per sample, as numbers or text."
    table = refusal(MODEL, labels=np.eye(3, dtype=int)[Y])
    assert table == (
        start + "multilabel-indicator. Classes must exclude each other. For several labels per sample, pass the scores to "
        "nishimori.multilabel.MultilabelCalibrator."
    )
    several = refusal(MODEL, labels=np.stack([Y, Y + 1], axis=1))
    assert several == start + "multiclass-multioutput. Pass one class per sample, as numbers or text."
    missing = refusal(MODEL, labels=np.where(Y == 1, np.nan, Y))
    assert missing == "`y` must hold a class for each sample. Input y contains NaN. Drop such samples."
    mixed = (
        "`y` must hold one class per sample. Some labels are missing (None), or numbers and text are mixed. Drop samples "
        "without a label, and use only numbers or only text."
    )
    for labels, strange in ((NAMED, None), (NAMED, 3), (Y, None), (Y, "ant")):
        for row in (0, 5):
            with_strange = labels.astype(object)
            with_strange[row] = strange
            assert refusal(MODEL, labels=with_strange) == refusal(MODEL, labels=with_strange.tolist()) == mixed
    deep = refusal(MODEL, labels=Y.reshape(-1, 1, 1))
    assert deep == start + "unknown. Pass one class per sample, as numbers or text."
    assert refusal(MODEL, labels=[], features=X[:0]) == "`y` must be the true class of each sample, got 0 samples."


def test_a_class_that_a_fold_cannot_learn_is_refused():
    labels = np.where(np.arange(len(Y)) < 2, "cat", "ant")
    labels[-len(Y) // 3 :] = "dog"
    found = refusal(clone(MODEL).set_params(cv=KFold(3)), labels=labels)
    assert found == (
        "`cv` must leave samples of each class to fit to, got none of class 'cat' in fold 1 of 3. `y` has 2 in all. Use "
        "stratified folds, more samples of the class, or drop it."
    )


def test_more_folds_than_samples_are_refused():
    found = refusal(MODEL, features=X[:6], labels=[0, 0, 0, 1, 1, 1], error=ValueError)
    assert found == "n_splits=5 cannot be greater than the number of members in each class."


def test_weights_that_the_classifier_does_not_take_are_used_for_calibration_only():
    weights = 1.0 + np.arange(400) % 3
    with pytest.warns(InputWarning, match=r"`sample_weight` is used for the calibration only: KNeighborsClassifier.fit"):
        fitted = CalibratedClassifier(KNeighborsClassifier(30), "ts", floor=None, keep_scores=True).fit(X, Y, weights)
    alone = nishimori.TemperatureScaling(input="probabilities", floor=None).fit(fitted.out_of_fold_scores_, Y, weights)
    assert fitted.calibrator_.temperature_ == alone.temperature_


def test_clusters_that_the_calibrator_does_not_take_are_refused():
    found = refusal(CalibratedClassifier(LogisticRegression(), Independent()), clusters=Y)
    assert found == "`clusters` must be left out: Independent.fit does not take it."


def test_a_frozen_classifier_must_know_the_classes():
    frozen = FrozenEstimator(LogisticRegression().fit(*two_classes()))
    assert refusal(CalibratedClassifier(frozen)) == (
        "`y` must hold classes that the frozen classifier knows, 0, 1, got 2. Drop those samples, or fit the classifier to all "
        "classes."
    )


def test_true_classes_of_probability_zero_are_counted_and_the_floor_is_named():
    with pytest.warns(InputWarning, match="floor"):
        CalibratedClassifier(KNeighborsClassifier(3), "ts", floor=None).fit(X, Y)
