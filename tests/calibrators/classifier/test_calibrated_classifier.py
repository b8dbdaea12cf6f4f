"""Life inside scikit-learn: pipelines, searches, data frames, routing of metadata, copies and files."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from optional import pd
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import get_tags
from small_problems import NAMES, named, three_classes, two_classes

import nishimori
from nishimori import CalibratedClassifier, GroupConsistency, TemperatureScaling


def test_a_pipeline_can_be_calibrated_and_a_calibrated_classifier_can_end_one():
    X, y = named()
    inside = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), "ts").fit(X, y)
    behind = make_pipeline(StandardScaler(), CalibratedClassifier(LogisticRegression(), "ts")).fit(X, y)
    assert inside.calibrator_.temperature_ == pytest.approx(behind[-1].calibrator_.temperature_, rel=1e-3)
    assert set(behind.predict(X)) == set(NAMES)
    assert behind.score(X, y) == pytest.approx(np.mean(behind.predict(X) == y))


def test_a_search_chooses_the_classifier_and_the_method():
    X, y = three_classes()
    grid = {"estimator__C": [1e-3, 1.0], "calibrator": ["ec", "none", TemperatureScaling()]}
    search = GridSearchCV(CalibratedClassifier(LogisticRegression(), cv=3), grid, scoring="neg_log_loss", cv=2).fit(X, y)
    found = {
        (row["calibrator"] if isinstance(row["calibrator"], str) else "ts", row["estimator__C"]): score
        for row, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert len(found) == 6
    assert np.isfinite(list(found.values())).all()
    # A penalty as strong as this makes the model much too unsure, which calibration mends.
    assert found["ec", 1e-3] > found["none", 1e-3] + 0.01
    assert search.best_estimator_.calibrator_.temperature_ > 0


def test_several_scores_of_one_cross_validation():
    X, y = two_classes()
    found = cross_validate(CalibratedClassifier(SVC(), "ec"), X, y, cv=3, scoring=["neg_log_loss", "roc_auc", "accuracy"])
    assert found["test_neg_log_loss"].min() > -np.log(2)
    assert found["test_roc_auc"].min() > 0.7
    assert found["test_accuracy"].min() > 0.7


def test_a_data_frame_keeps_its_names_and_refuses_others():
    X, y = named()
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    fitted = CalibratedClassifier(LogisticRegression(), "ts").fit(frame, pd.Series(y))
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    assert fitted.n_features_in_ == X.shape[1]
    assert fitted.classes_.tolist() == NAMES.tolist()
    expected = CalibratedClassifier(LogisticRegression(), "ts").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(fitted.predict_proba(frame), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict_proba(frame[frame.columns[::-1]])


def test_a_polars_frame_is_data_like_any_other():
    polars = pytest.importorskip("polars")
    X, y = named()
    frame = polars.DataFrame(X, schema=[f"x{i}" for i in range(X.shape[1])])
    fitted = CalibratedClassifier(LogisticRegression(), "ts").fit(frame, polars.Series(y.tolist()))
    expected = CalibratedClassifier(LogisticRegression(), "ts").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(fitted.predict_proba(frame), expected, rtol=1e-12)


def test_sparse_features_and_kernels_are_split_as_the_classifier_needs():
    X, y = two_classes()
    dense = CalibratedClassifier(LogisticRegression(), "ts").fit(X, y).predict_proba(X)
    sparse = CalibratedClassifier(LogisticRegression(), "ts").fit(csr_array(X), y).predict_proba(csr_array(X))
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)
    kernel = CalibratedClassifier(SVC(kernel="precomputed"), "ts").fit(X @ X.T, y).predict_proba(X @ X.T)
    linear = CalibratedClassifier(SVC(kernel="linear"), "ts").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(kernel, linear, atol=1e-3)


def test_tools_know_what_the_calibrated_classifier_takes():
    kernel, forest = (get_tags(CalibratedClassifier(each)) for each in (SVC(kernel="precomputed"), RandomForestClassifier()))
    assert kernel.input_tags.pairwise
    assert not forest.input_tags.pairwise
    assert forest.classifier_tags.multi_class
    assert not forest.classifier_tags.multi_label  # a forest takes several labels per sample, and a calibrated one does not
    assert is_classifier(CalibratedClassifier())


def test_copies_parameters_and_files_keep_the_classifier(tmp_path):
    X, y = named()
    fitted = CalibratedClassifier(LogisticRegression(), nishimori.ExpectationConsistency(top_n=1)).fit(X, y)
    joblib.dump(fitted, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "model.joblib")):
        assert np.array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    changed = clone(fitted).set_params(estimator__C=0.5, calibrator__top_n=2, cv=3).fit(X, y)
    assert (changed.estimator_.C, changed.calibrator_.top_n) == (0.5, 2)
    assert fitted.get_params()["calibrator__top_n"] == 1
    fitted.calibrator_.save(tmp_path / "calibration.json")
    again = nishimori.load(tmp_path / "calibration.json")
    np.testing.assert_array_equal(again.predict_proba(fitted.estimator_.decision_function(X)), fitted.predict_proba(X))


def test_the_calibrator_passed_in_is_not_touched():
    X, y = named()
    given = TemperatureScaling()
    fitted = CalibratedClassifier(LogisticRegression(), given).fit(X, y)
    assert given.classes is None
    assert not hasattr(given, "map_")
    assert fitted.calibrator_.classes_.tolist() == NAMES.tolist()


def test_folds_that_are_fitted_at_the_same_time_find_what_one_after_the_other_finds():
    X, y = three_classes()
    one, two = (CalibratedClassifier(LogisticRegression(), "ts", ensemble=True, n_jobs=n) for n in (None, 2))
    one.fit(X, y)
    with joblib.parallel_config(backend="threading"):  # new processes take seconds to start
        two.fit(X, y)
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))


def test_groups_go_to_the_splitter_and_clusters_to_the_error_bar():
    X, y = (np.repeat(each, 2, axis=0) for each in three_classes(300))  # each sample twice
    pairs = np.repeat(np.arange(300), 2)
    model = CalibratedClassifier(LogisticRegression(), "ts", cv=GroupKFold(3), keep_scores=True)
    independent = clone(model).fit(X, y, groups=pairs).calibrator_
    together = clone(model).fit(X, y, groups=pairs, clusters=pairs).calibrator_
    assert together.temperature_ == independent.temperature_
    # Twice the same sample is no more information: the variance is twice as large as that of independent samples.
    assert together.temperature_se_ == pytest.approx(np.sqrt(2) * independent.temperature_se_, rel=0.01)
    scores = clone(model).fit(X, y, groups=pairs).out_of_fold_scores_
    assert np.array_equal(scores[::2], scores[1::2])  # copies were scored by the same classifier, so they were in one fold


def test_metadata_are_routed_to_those_who_request_them():
    X, y = three_classes()
    weights, sites = 0.5 + np.arange(400) % 3, np.where(np.arange(400) % 2, "north", "south")
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = GroupConsistency(by="groups").set_fit_request(groups=True).set_predict_proba_request(groups=True)
        estimator = LogisticRegression().set_fit_request(sample_weight=False)
        model = CalibratedClassifier(estimator, calibrator, cv=4).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(X, y, sample_weight=weights, groups=sites)
        p = pipeline.predict_proba(X, groups=sites)
        assert np.array_equal(pipeline.predict(X, groups=sites), p.argmax(axis=1))
        np.testing.assert_allclose(np.exp(pipeline.predict_log_proba(X, groups=sites)), p, rtol=1e-12)
    fitted = pipeline[-1]
    assert set(fitted.calibrator_.groups_) == {"north", "south"}
    scaled = StandardScaler().fit_transform(X)
    plain = CalibratedClassifier(LogisticRegression(), "none", cv=4, keep_scores=True).fit(scaled, y)  # the same folds
    alone = GroupConsistency(by="groups").fit(plain.out_of_fold_scores_, y, weights, groups=sites)
    np.testing.assert_allclose(fitted.calibrator_.temperatures_, alone.temperatures_, rtol=1e-9)


def right_by_hand(model, X, y, groups, folds, *, to_predict=()):
    """The share of right answers in the test part of each fold, of a model that is fitted to the rest."""
    shares = []
    for train, test in folds.split(X, y, groups if isinstance(folds, GroupKFold) else None):
        fitted = clone(model).fit(X[train], y[train], groups=groups[train])
        p = fitted.predict_proba(X[test], **dict.fromkeys(to_predict, groups[test]))
        shares.append(np.mean(fitted.classes_[p.argmax(axis=1)] == y[test]))
    return shares


@pytest.mark.parametrize("calibrator", ["best", "ts", "group", "vector+ec"])
def test_a_grouped_cross_validation_with_routing_has_the_scores_of_its_folds(calibrator):
    X, y = three_classes()
    groups, folds = np.arange(400) // 5, GroupKFold(3)
    model = CalibratedClassifier(LogisticRegression(), calibrator, cv=GroupKFold(3))
    expected = right_by_hand(model, X, y, groups, folds)
    with sklearn.config_context(enable_metadata_routing=True):
        found, theirs = (
            cross_validate(each, X, y, cv=folds, params={"groups": groups}, error_score="raise")["test_score"]
            for each in (model, CalibratedClassifierCV(LogisticRegression(), cv=GroupKFold(3)))
        )
        search = GridSearchCV(model, {"estimator__C": [0.5, 1.0]}, cv=folds, error_score="raise").fit(X, y, groups=groups)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found, theirs, atol=0.05)
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(expected), rel=1e-12)


def test_a_cross_validation_passes_groups_on_to_a_temperature_per_group():
    X, y = three_classes()
    groups, folds = np.arange(400) % 4, StratifiedKFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = GroupConsistency(by="groups").set_fit_request(groups=True).set_predict_proba_request(groups=True)
        model = CalibratedClassifier(LogisticRegression(), calibrator)
        expected = right_by_hand(model, X, y, groups, folds, to_predict=["groups"])
        found = cross_validate(model, X, y, cv=folds, params={"groups": groups}, error_score="raise")["test_score"]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_temperature_per_group_needs_a_request_for_its_groups():
    X, y = three_classes()
    groups = np.arange(400) % 4
    with sklearn.config_context(enable_metadata_routing=True):
        model = CalibratedClassifier(LogisticRegression(), GroupConsistency(by="groups"), cv=GroupKFold(3))
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            model.fit(X, y, groups=groups)


@pytest.mark.parametrize("ensemble", [False, True])
def test_weights_reach_the_default_classifier_and_its_calibrator_with_routing_and_without(ensemble):
    X, y = two_classes()
    weights = 0.5 + np.arange(400) % 3
    model = CalibratedClassifier(calibrator="ts", ensemble=ensemble)
    expected = clone(model).fit(X, y, sample_weight=weights).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(model).fit(X, y, sample_weight=weights).predict_proba(X)
    assert np.array_equal(routed, expected)
    assert not np.allclose(clone(model).fit(X, y).predict_proba(X), expected, atol=1e-3)


def test_metadata_for_predictions_need_routing():
    X, y = three_classes()
    fitted = CalibratedClassifier(LogisticRegression(), "ts").fit(X, y)
    with pytest.raises(
        nishimori.errors.InputError, match=r"`groups` can be passed to `predict_proba` only with metadata routing"
    ):
        fitted.predict_proba(X, groups=y)


def test_further_arguments_reach_the_classifier():
    X, y = two_classes()
    start = np.ones((1, X.shape[1]))
    fitted = CalibratedClassifier(SGDClassifier(max_iter=5, tol=None, random_state=0), "none").fit(X, y, coef_init=start)
    alone = SGDClassifier(max_iter=5, tol=None, random_state=0)
    assert np.array_equal(fitted.estimator_.coef_, alone.fit(X, y, coef_init=start).coef_)
    assert not np.array_equal(fitted.estimator_.coef_, alone.fit(X, y).coef_)


def test_calibration_lowers_the_loss_of_new_samples():
    X, y = three_classes(1200)
    overconfident = SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0)
    before = log_loss(y[600:], clone(overconfident).fit(X[:600], y[:600]).predict_proba(X[600:]))
    for ensemble in (False, True):
        fitted = CalibratedClassifier(overconfident, ensemble=ensemble).fit(X[:600], y[:600])
        assert log_loss(y[600:], fitted.predict_proba(X[600:])) < 0.8 * before
