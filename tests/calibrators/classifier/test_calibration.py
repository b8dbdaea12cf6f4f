"""Valid data never stop a calibrated classifier: very few samples, perfect or useless scores, folds of one class."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneGroupOut, LeaveOneOut, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from small_problems import three_classes, two_classes

import nishimori
from nishimori import CalibratedClassifier, ExpectationConsistency, GroupConsistency, TemperatureScaling
from nishimori._methods.table import BUILT_IN
from nishimori.errors import InputError, InputWarning, NotConvergedError

X, Y = three_classes()
QUIET = pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning", "ignore::UserWarning:sklearn")
MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "naive Bayes": GaussianNB(),
    "SVC": SVC(),
    "forest": RandomForestClassifier(5, random_state=0),
    "neighbours": KNeighborsClassifier(3),
    "tree": DecisionTreeClassifier(random_state=0),
    "linear SVC": LinearSVC(random_state=0),
    "the most frequent class": DummyClassifier(strategy="prior"),
    "equal scores": DummyClassifier(strategy="uniform", random_state=0),
    "a class at random": DummyClassifier(strategy="stratified", random_state=0),
}
TWO = [name for name in BUILT_IN if nishimori.methods()[name].traits.n_classes == "two"]
ANY = [name for name in BUILT_IN if name not in TWO]


class FirstFeature(ClassifierMixin, BaseEstimator):
    """A classifier whose score is the first feature, or all features."""

    def __init__(self, n_scores=1):
        self.n_scores = n_scores

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0] if self.n_scores == 1 else X[:, : self.n_scores]


class Unfinished(TemperatureScaling):
    """A calibrator whose search never ends well."""

    def fit(self, X, y=None, sample_weight=None, *, clusters=None):
        raise NotConvergedError("The search did not converge. There are too few different scores.")


def few(load, n_samples, seed, *, random_labels=False):
    """Some samples of a data set that scikit-learn brings, at least three of each class, and others to test with."""
    features, labels = load(return_X_y=True)
    features, labels = features[labels < 4], labels[labels < 4]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    first = np.concatenate([order[labels[order] == each][:3] for each in np.unique(labels)])
    others = order[~np.isin(order, first)]
    used, unseen = np.r_[first, others[: n_samples - len(first)]], others[n_samples:][:100]
    chosen = rng.permutation(labels[used]) if random_labels else labels[used]
    return features[used], chosen, features[unseen], labels[unseen]


@QUIET
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ensemble", [False, True], ids=["pooled", "ensemble"])
@pytest.mark.parametrize(
    ("load", "n_samples", "random_labels"),
    [(load_iris, 12, False), (load_breast_cancer, 10, False), (load_wine, 20, True), (load_digits, 24, False)],
    ids=["iris", "cancer", "wine with random labels", "digits"],
)
def test_very_few_samples_have_probabilities(load, n_samples, random_labels, ensemble, model):
    features, labels, new, _ = few(load, n_samples, 0, random_labels=random_labels)
    names = ANY + TWO if load is load_breast_cancer else ANY
    # Each cell has every fifth method, so that all methods are fitted to all kinds of data.
    start = (list(MODELS).index(model) + 3 * ensemble) % 5
    # To choose a floor would take as long as all the rest; another test does.
    floor = None if hasattr(MODELS[model], "decision_function") else 1e-3
    for name in names[start::5]:
        p = (
            CalibratedClassifier(MODELS[model], name, cv=3, ensemble=ensemble, floor=floor)
            .fit(features, labels)
            .predict_proba(new)
        )
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)


@QUIET
@pytest.mark.parametrize("model", ["forest", "neighbours", "tree", "naive Bayes"])
@pytest.mark.parametrize("load", [load_breast_cancer, load_digits], ids=["two classes", "four classes"])
def test_zeros_never_make_the_loss_infinite_and_it_is_close_to_that_of_scikit_learn(load, model):
    features, labels, new, truth = few(load, 60, 1)
    for name, peer in (("platt", "sigmoid"), ("isotonic", "isotonic"), ("ts", "temperature")):
        if name == "platt" and load is load_digits:
            continue
        fitted = CalibratedClassifier(MODELS[model], name, cv=3).fit(features, labels)
        expected = CalibratedClassifierCV(MODELS[model], method=peer, cv=3, ensemble=False).fit(features, labels)
        assert 0 < fitted.calibrator_.floor_ < 0.9 / len(fitted.classes_)
        ours, theirs = (log_loss(truth, each.predict_proba(new)) for each in (fitted, expected))
        assert ours < theirs + 0.05, (name, ours, theirs)


@QUIET
def test_searches_ensembles_and_cross_validation_never_stop():
    features, labels, *_ = few(load_iris, 30, 0)
    model = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), "ec", cv=2)
    assert np.isfinite(cross_val_score(model, features, labels, cv=3, scoring="neg_log_loss", error_score="raise")).all()
    names = ["ec", "ts", "adaptive", "bias", "vector", "isotonic"]
    search = GridSearchCV(
        model, {"calibrator": names, "ensemble": [False, True]}, cv=2, scoring="neg_log_loss", error_score="raise"
    )
    assert np.isfinite(search.fit(features, labels).cv_results_["mean_test_score"]).all()
    parts = [("ec", model), ("nb", CalibratedClassifier(GaussianNB(), "matrix", cv=2, floor=1e-3))]
    for joint in (VotingClassifier(parts, voting="soft"), StackingClassifier(parts, cv=2)):
        assert np.isfinite(joint.fit(features, labels).predict_proba(features)).all()


def test_a_classifier_without_mistakes_has_the_confidence_of_half_a_mistake_more():
    features = np.r_[-np.arange(1.0, 31), np.arange(1.0, 31)][:, None]
    labels = np.repeat([0, 1], 30)
    with pytest.warns(InputWarning) as warned:
        fitted = CalibratedClassifier(FirstFeature(), "ec").fit(features, labels)
    assert [str(each.message) for each in warned] == [
        "The method 'ec' has no solution. No temperature fits: all 60 samples are classified correctly, so mean confidence "
        f"could reach accuracy only at T = 0. The logits are divided by T = {fitted.calibrator_.temperature_:.4g} instead, at "
        "which mean confidence is (right + ½)/(n + 1) for n samples."
    ]
    assert fitted.predict_proba(features).max(axis=1).mean() == pytest.approx(60.5 / 61, rel=1e-9)
    assert (fitted.predict(features) == labels).all()


def test_a_fold_without_mistakes_is_named_and_others_are_calibrated_as_ever():
    features = np.r_[-np.ones(30), np.ones(30)][:, None]
    labels = np.r_[np.zeros(30), np.ones(30)].astype(int)
    labels[0] = 1  # one mistake, in the first fold
    with pytest.warns(InputWarning) as warned:
        fitted = CalibratedClassifier(FirstFeature(), "ts", cv=3, ensemble=True).fit(features, labels)
    (message,) = [str(each.message) for each in warned]
    assert message.startswith("The method 'ts' has no solution in fold 2 of 3. No temperature fits: the true class has")
    assert message.endswith(
        'So it is in 1 other fold. With ensemble="pooled" one calibrator is fitted to the samples of all folds.'
    )
    first, second, third = (pair.calibrator for pair in fitted.calibrated_classifiers_)
    assert [first.smooth_labels, second.smooth_labels, third.smooth_labels] == [False, True, True]
    # Platt's targets are (10 + 1) / (10 + 2) with ten samples of each class, and all scores are -1 or 1.
    assert second.predict_proba([1.0])[0, 1] == pytest.approx(11 / 12, rel=1e-9)


def test_a_classifier_that_is_worse_than_chance_gets_equal_probabilities():
    labels = np.arange(60) % 2
    wrong = (1.0 - 2 * labels)[:, None]  # the score is positive for the class 0
    with pytest.warns(InputWarning, match="all classes get the same probability"):
        fitted = CalibratedClassifier(FirstFeature(), "ec").fit(wrong, labels)
    assert fitted.calibrator_.is_uniform_
    np.testing.assert_allclose(fitted.predict_proba(wrong), 0.5, rtol=1e-6)
    assert (fitted.predict(wrong) == 1 - labels).all()  # predictions do not change


@pytest.mark.parametrize("method", ["ts", "ec", "vector", "isotonic", "platt"])
@pytest.mark.parametrize("ensemble", [False, True])
def test_the_same_score_for_every_sample_becomes_the_frequency_of_the_classes(method, ensemble):
    features, labels = np.zeros((100, 1)), np.repeat([0, 1], [60, 40])  # 40 is no multiple of 3, so frequencies differ by fold
    model = CalibratedClassifier(DummyClassifier(strategy="prior"), method, cv=3, ensemble=ensemble)
    place = " in fold . of 3" if ensemble else ""
    why = rf"^The method '{method}' has no solution{place}\. The classifier gives every sample the same score\."
    with pytest.warns(InputWarning, match=why):
        fitted = model.fit(features, labels)
    np.testing.assert_allclose(fitted.predict_proba(features)[:, 1], 0.4, atol=0.02)


def test_a_search_that_did_not_converge_is_told_of():
    why = (
        r"^The method '.*:Unfinished' has no solution\. The search did not converge\. There are too few different scores\. The"
    )
    with pytest.warns(InputWarning, match=why):
        fitted = CalibratedClassifier(LogisticRegression(), Unfinished(), cv=3, keep_scores=True).fit(X, Y)
    expected = TemperatureScaling(smooth_labels=True).fit(fitted.out_of_fold_scores_, Y)
    assert fitted.calibrator_.temperature_ == expected.temperature_


@pytest.mark.parametrize("method", ["platt", "isotonic", "histogram", "beta"])
def test_folds_whose_test_part_has_one_class_are_calibrated(method):
    features, labels = two_classes(60)
    order = np.argsort(labels, kind="stable")
    features, labels = features[order], labels[order]
    ends = [(np.r_[20:60], np.r_[:20]), (np.r_[:40], np.r_[40:60]), (np.r_[:20, 40:60], np.r_[20:40])]
    with pytest.warns(InputWarning, match=f"^The method '{method}' has no solution in fold [12] of 3"):
        fitted = CalibratedClassifier(LogisticRegression(), method, cv=ends, ensemble=True).fit(features, labels)
    kinds = [type(pair.calibrator).__name__ for pair in fitted.calibrated_classifiers_]
    assert kinds == ["TemperatureScaling", "TemperatureScaling", type(nishimori.calibrator(method)).__name__]
    assert np.isfinite(fitted.predict_proba(features)).all()


@QUIET
@pytest.mark.parametrize("cv", [LeaveOneOut(), KFold(4)], ids=["one sample", "folds that are not stratified"])
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("method", ["adaptive", "vector", "isotonic"])
def test_other_folds_are_calibrated(cv, ensemble, method):
    model = CalibratedClassifier(LogisticRegression(), method, cv=cv, ensemble=ensemble).fit(X[:20], Y[:20])
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_fold_without_weight_is_left_out():
    weights = np.ones(400)
    weights[:200] = 0
    halves = [(np.r_[:400], np.r_[200:400]), (np.r_[:400], np.r_[:200])]
    model = CalibratedClassifier(LogisticRegression(), "ts", cv=halves, ensemble=True)
    with pytest.warns(InputWarning, match=r"^All samples of the test part of 'fold 2 of 2' have weight zero"):
        fitted = clone(model).fit(X, Y, weights)
    alone = clone(model).set_params(cv=halves[:1]).fit(X, Y, weights)
    np.testing.assert_array_equal(fitted.predict_proba(X), alone.predict_proba(X))
    with pytest.raises(
        InputError, match=r"be positive for some sample, got only zeros\. This is about the test part of fold 1"
    ):
        clone(model).set_params(cv=halves[1:]).fit(X, Y, weights)


def test_a_fold_that_is_one_cluster_has_no_standard_error_of_clusters():
    hospitals = np.arange(400) // 100
    model = CalibratedClassifier(LogisticRegression(), "ts", cv=LeaveOneGroupOut(), ensemble=True)
    fitted = model.fit(X, Y, groups=hospitals, clusters=hospitals)
    plain = clone(model).fit(X, Y, groups=hospitals)
    for one, other in zip(fitted.calibrated_classifiers_, plain.calibrated_classifiers_, strict=True):
        assert one.calibrator.temperature_ == other.calibrator.temperature_
    with pytest.raises(InputError, match="name at least two clusters"):
        clone(model).set_params(cv=3, ensemble=False).fit(X, Y, clusters=np.zeros(400))


def test_groups_may_be_passed_to_a_calibrator_that_had_no_temperature_per_group():
    groups = np.where(np.arange(60) % 2, "old", "new")
    features, labels = np.r_[-np.arange(1.0, 31), np.arange(1.0, 31)][:, None], np.repeat([0, 1], 30)
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = GroupConsistency(by="groups").set_fit_request(groups=True).set_predict_proba_request(groups=True)
        with pytest.warns(InputWarning, match="^The method 'group' has no solution"):
            fitted = CalibratedClassifier(FirstFeature(), calibrator).fit(features, labels, groups=groups)
        assert np.isfinite(fitted.predict_proba(features, groups=groups)).all()


def test_logarithms_of_zero_are_raised_as_zeros_are():
    forest = RandomForestClassifier(5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the forest takes logarithms of zeros, and few zeros decide T
        logs, plain = (
            CalibratedClassifier(forest, "ts", cv=3, response_method=response, floor=None).fit(X, Y)
            for response in ("predict_log_proba", "predict_proba")
        )
        assert logs.calibrator_.temperature_ == pytest.approx(plain.calibrator_.temperature_, rel=1e-8)
        p = CalibratedClassifier(forest, "vector", cv=3, response_method="predict_log_proba").fit(X, Y).predict_proba(X)
    assert np.isfinite(p).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("method", ["adaptive", "platt", "isotonic", "vector"])
@QUIET
def test_scores_of_any_size_are_calibrated(method, scale):
    rng = np.random.default_rng(0)
    features = scale * rng.normal(size=(60, 1))
    labels = (features[:, 0] / scale + rng.logistic(size=60) > 0).astype(int)
    assert np.isfinite(CalibratedClassifier(FirstFeature(), method).fit(features, labels).predict_proba(features)).all()


def test_a_frozen_classifier_without_mistakes_is_calibrated():
    features, labels = np.r_[-np.arange(1.0, 31), np.arange(1.0, 31)][:, None], np.repeat([0, 1], 30)
    with pytest.warns(InputWarning, match="'ec' has no solution"):
        fitted = CalibratedClassifier(FrozenEstimator(FirstFeature().fit(features, labels)), ExpectationConsistency()).fit(
            features, labels
        )
    assert fitted.calibrator_.smooth_labels
