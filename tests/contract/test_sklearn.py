"""scikit-learn's own checks, with the reason for each that cannot hold, and life inside its tools."""

import re
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import reference
import sklearn
from method_cases import drawn_for
from optional import pd
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import nishimori
from nishimori import (
    AdaptiveConsistency,
    Best,
    Beta,
    BiasCorrected,
    CalibratedClassifier,
    ExpectationConsistency,
    GroupConsistency,
    HistogramBinning,
    Isotonic,
    Platt,
    TemperatureScaling,
    VectorScaling,
)
from nishimori._methods import table
from nishimori._methods.table import BUILT_IN
from nishimori.calibrators import (
    ClasswiseTemperature,
    Consistent,
    Dirichlet,
    FixedTemperature,
    Intercept,
    MatrixScaling,
    Quadratic,
    TemperatureMixture,
)
from nishimori.errors import FewErrorsWarning, InputWarning
from nishimori.multilabel import MultilabelCalibrator


class Reason(NamedTuple):
    """Why scikit-learn's checks cannot hold, and a pattern that one of the errors finds which then end a check."""

    why: str
    error: str


CLASSES = Reason(
    "it has two columns and labels other than 0 and 1, but a column of logits is a class",
    "InputError: `y` must be from 0 to 1, got 2",
)
NAMES = Reason(
    "labels that are text need `classes=`: only the caller knows which column is which",
    "InputError: `y` must be integers from 0 to 1, got 'one'",
)
LEARNS = Reason(
    "a calibrator keeps the model's answer and does not learn labels from features",
    "only one class is present|NoTemperatureError|fitted on one label|InputError: `y` must be from 0 to|AssertionError: $",
)
CHANCE = Reason(
    "its random columns do no better than chance at its labels, so there is no temperature, or its error is as large as itself",
    "NoTemperatureError|InputWarning: The temperature of (EC|TS) is used as it is",
)
COLUMN = Reason(
    "a column vector of labels is refused with the remedy, not flattened with a warning",
    r"InputError: `y` must be one label per sample, shape \(30,\), got shape \(30, 1\)",
)
COPIES = Reason(
    "T depends on how many independent samples there are, and a weight of 2 is one of them; with `counts=True` it is two",
    "AssertionError: .*Comparing the output of|InputWarning",
)
FEW = Reason(
    "some classes have no or few rows, and the warning of it is an error here", "InputWarning: There are no samples of"
)
OPEN = Reason(
    "some classes are predicted for fewer than two of its rows, and the warning of it is an error here",
    "InputWarning: .* have fewer than two samples that are predicted as such",
)
TWO = Reason(
    "its data have more than two columns, and a column of logits is a class, of which there must be two",
    "InputError: `X` must have two classes",
)
FLAT = Reason("a flat array is a score of the second class, which is fitted", "AssertionError: Did not raise")
TURNED = Reason(
    "larger scores do not make its second class more likely, and the warning of it is an error here",
    "InputWarning: The second class is not more likely where its score is larger|AssertionError: $",
)
FOLDS = Reason(
    "`cv` is a number of folds, which are made so that clusters stay whole, and not a list of rows",
    "InputError: `cv` must be a whole number of at least 2",
)
TABLE = Reason(
    "its labels have one column or more classes, but a column of logits is a label that a sample has (1) or not (0)",
    "InputError: `y` must (have shape .*, one row per sample and one column per label|hold 0 and 1)",
)
TYPE = Reason(
    "an entry that is no number is an InputError, which is a ValueError, and not a TypeError",
    "InputError: `X` must hold numbers",
)

OF_ALL = {
    "check_classifier_data_not_an_array": CLASSES,
    "check_classifiers_classes": NAMES,
    "check_classifiers_one_label": LEARNS,
    "check_classifiers_train": LEARNS,
    "check_dtype_object": TYPE,
    "check_estimators_fit_returns_self": CLASSES,
    "check_estimators_overwrite_params": CLASSES,
    "check_readonly_memmap_input": CLASSES,
    "check_sample_weights_not_an_array": CLASSES,
    "check_sample_weights_not_overwritten": CLASSES,
    "check_sample_weights_pandas_series": CLASSES,
    "check_sample_weights_shape": CLASSES,
    "check_supervised_y_2d": COLUMN,
}
OF_BOTH_METHODS = OF_ALL | {
    "check_dict_unchanged": CHANCE,
    "check_dont_overwrite_parameters": CHANCE,
    "check_dtype_object": CHANCE,
    "check_estimators_dtypes": CHANCE,
    "check_estimators_nan_inf": CHANCE,
    "check_f_contiguous_array_estimator": CHANCE,
    "check_fit2d_predict1d": CHANCE,
    "check_methods_sample_order_invariance": CHANCE,
    "check_methods_subset_invariance": CHANCE,
}
OF_LOSS = dict.fromkeys(
    (
        *("check_sample_weights_list", "check_sample_weight_equivalence_on_dense_data", "check_supervised_y_2d"),
        *("check_transformer_data_not_an_array", "check_transformer_general", "check_transformer_preserve_dtypes"),
    ),
    CHANCE,
)
OF_AFFINE = OF_BOTH_METHODS | {
    "check_n_features_in_after_fitting": CHANCE,
    "check_sample_weight_equivalence_on_dense_data": COPIES,
}
OF_BINARY = dict.fromkeys(
    (
        *("check_dict_unchanged", "check_dont_overwrite_parameters", "check_dtype_object", "check_estimators_dtypes"),
        *("check_estimators_nan_inf", "check_estimators_pickle", "check_f_contiguous_array_estimator", "check_fit2d_1sample"),
        *("check_fit2d_predict1d", "check_fit_score_takes_y", "check_methods_sample_order_invariance"),
        *("check_methods_subset_invariance", "check_n_features_in_after_fitting", "check_pipeline_consistency"),
        *("check_positive_only_tag_during_fit", "check_sample_weight_equivalence_on_dense_data", "check_sample_weights_list"),
        *("check_transformer_data_not_an_array", "check_transformer_general", "check_transformer_preserve_dtypes"),
    ),
    TWO,
) | {
    "check_classifier_data_not_an_array": CLASSES,
    "check_fit1d": FLAT,
    "check_sample_weights_not_an_array": CLASSES,
    "check_sample_weights_not_overwritten": CLASSES,
    "check_sample_weights_pandas_series": CLASSES,
    "check_sample_weights_shape": CLASSES,
    "check_supervised_y_2d": TWO,
}
OF_CURVES = {name: reason for name, reason in OF_ALL.items() if name != "check_classifiers_one_label"} | {
    "check_estimators_nan_inf": FEW,
    "check_n_features_in_after_fitting": FEW,
    "check_positive_only_tag_during_fit": FEW,
    "check_sample_weight_equivalence_on_dense_data": FEW,
    "check_transformer_data_not_an_array": FEW,
    "check_transformer_general": FEW,
    "check_transformer_preserve_dtypes": FEW,
}
OF_MULTILABEL = (
    "check_all_zero_sample_weights_error",
    "check_classifier_data_not_an_array",
    "check_classifier_multioutput",
    "check_classifiers_classes",
    "check_classifiers_multilabel_output_format_decision_function",
    "check_classifiers_multilabel_output_format_predict",
    "check_classifiers_multilabel_output_format_predict_proba",
    "check_classifiers_multilabel_representation_invariance",
    "check_classifiers_regression_target",
    "check_classifiers_train",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
)
EXPECTED_FAILURES = {
    ExpectationConsistency: OF_BOTH_METHODS
    | dict.fromkeys(("check_fit2d_1sample", "check_fit_idempotent", "check_n_features_in"), CHANCE)
    | dict.fromkeys(("check_n_features_in_after_fitting", "check_sample_weight_equivalence_on_dense_data"), CHANCE),
    TemperatureScaling: OF_BOTH_METHODS
    | OF_LOSS
    | dict.fromkeys(("check_n_features_in_after_fitting", "check_fit_score_takes_y"), CHANCE)
    | dict.fromkeys(("check_pipeline_consistency", "check_estimators_pickle"), CHANCE),
    AdaptiveConsistency: OF_BOTH_METHODS
    | OF_LOSS
    | {"check_n_features_in": CHANCE, "check_n_features_in_after_fitting": CHANCE, "check_fit_idempotent": CHANCE}
    | {"check_classifiers_one_label_sample_weights": LEARNS},
    GroupConsistency: OF_BOTH_METHODS
    | {"check_fit2d_1sample": CHANCE, "check_fit_idempotent": CHANCE, "check_sample_weight_equivalence_on_dense_data": COPIES}
    | {"check_n_features_in": CHANCE, "check_n_features_in_after_fitting": CHANCE, "check_positive_only_tag_during_fit": OPEN}
    | dict.fromkeys((f"check_transformer_{each}" for each in ("data_not_an_array", "general", "preserve_dtypes")), OPEN),
    VectorScaling: OF_AFFINE,
    MatrixScaling: OF_AFFINE,
    Consistent: OF_ALL | {"check_sample_weight_equivalence_on_dense_data": FOLDS},
    BiasCorrected: OF_BOTH_METHODS
    | {
        "check_n_features_in": CHANCE,
        "check_fit2d_1sample": CHANCE,
        "check_fit_idempotent": CHANCE,
        "check_sample_weight_equivalence_on_dense_data": COPIES,
    }
    | {"check_n_features_in_after_fitting": CHANCE, "check_classifiers_one_label_sample_weights": LEARNS}
    | {"check_positive_only_tag_during_fit": FEW, "check_transformer_data_not_an_array": FEW}
    | {"check_transformer_general": FEW, "check_transformer_preserve_dtypes": FEW},
    ClasswiseTemperature: OF_AFFINE,
    TemperatureMixture: OF_BOTH_METHODS | {"check_n_features_in_after_fitting": CHANCE},
    Dirichlet: OF_AFFINE,
    Platt: OF_BINARY,
    Beta: OF_BINARY
    | {"check_classifiers_train": TURNED, "check_estimators_fit_returns_self": TURNED}
    | {"check_estimators_overwrite_params": TURNED, "check_readonly_memmap_input": TURNED},
    Quadratic: OF_BINARY,
    Intercept: OF_BINARY | {"check_classifiers_train": LEARNS},
    Best: {name: reason for name, reason in OF_ALL.items() if name != "check_classifiers_one_label"}
    | {"check_sample_weight_equivalence_on_dense_data": COPIES},
    Isotonic: OF_CURVES,
    HistogramBinning: OF_CURVES,
    MultilabelCalibrator: dict.fromkeys(OF_MULTILABEL, TABLE),  # multilabel/test_estimator.py asks the same of it
}


def errors_of(error: BaseException | None) -> str:
    """The lines of an error and of those that it was raised from."""
    lines = []
    while error is not None:
        lines.append(f"{type(error).__name__}: {' '.join(str(error).split())}")
        error = error.__cause__ or error.__context__
    return "\n".join(lines)


def complaints(estimator, declared: dict[str, Reason]) -> list[str]:
    """Where scikit-learn's checks of an estimator end otherwise than declared."""
    expected = {check: reason.why for check, reason in declared.items()}
    found = []
    for result in check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None):
        name, status, errors = result["check_name"], result["status"], errors_of(result["exception"])
        if status == "failed":
            found.append(f"{name} fails: {errors}")
        elif name in declared and status == "passed":
            found.append(f"{name} passes, although {declared[name].why}")
        elif name in declared and not re.search(declared[name].error, errors, re.MULTILINE):
            found.append(f"{name} fails, but not because {declared[name].why}: {errors}")
    return found


# Every method of the table is checked; one that is not declared above must pass all checks that any calibrator passes.
EVERY = dict.fromkeys([*(table.find(name) for name in BUILT_IN), FixedTemperature, MultilabelCalibrator], OF_ALL)


# Those that fit other methods to parts of the data warn where they cannot tell much, and go on. Two parts take a third
# of the time of five, and every check and every candidate is the same.
GO_ON = {Best, Consistent}
# The checks have numbers between 0 and 1, which are refused unless it is said what they are.
MADE = {
    FixedTemperature: FixedTemperature(2.0, input="logits"),
    Best: Best(cv=2, input="logits"),
    Consistent: Consistent(cv=2, input="logits"),
}


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_scikit_learn_finds_nothing_to_complain_about_but_what_is_declared(cls):
    estimator = MADE[cls] if cls in MADE else cls(input="logits")
    with warnings.catch_warnings():
        for category in (InputWarning, FewErrorsWarning) if cls in GO_ON else ():
            warnings.simplefilter("ignore", category)
        assert complaints(estimator, (EVERY | EXPECTED_FAILURES)[cls]) == []


def test_a_declared_failure_must_fail_and_for_its_reason():
    declared = OF_ALL
    passes = complaints(MADE[FixedTemperature], declared | {"check_fit2d_1feature": CHANCE})
    assert passes == [f"check_fit2d_1feature passes, although {CHANCE.why}"]
    (other,) = complaints(MADE[FixedTemperature], declared | {"check_supervised_y_2d": NAMES})
    assert other.startswith(
        f"check_supervised_y_2d fails, but not because {NAMES.why}: InputError: `y` must be one label per sample"
    )
    (undeclared,) = complaints(
        MADE[FixedTemperature], {name: reason for name, reason in declared.items() if name != "check_supervised_y_2d"}
    )
    assert undeclared.startswith("check_supervised_y_2d fails: InputError: `y` must be one label per sample")


# The checks have data without a temperature, such as random labels. They are smoothed, by how many samples there are.
SMOOTHED = dict.fromkeys((f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")), COPIES)


@pytest.mark.parametrize(("ensemble", "declared"), [(False, {}), ("pooled", {}), (True, SMOOTHED)])
@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
def test_scikit_learn_finds_nothing_to_complain_about_in_a_calibrated_classifier(ensemble, declared):
    assert complaints(CalibratedClassifier(LogisticRegression(), "ts", cv=3, ensemble=ensemble), declared) == []


# What the checks above would have asked, on data that has a temperature.

LOGITS, LABELS = reference.drawn(300, 4)
METHODS = pytest.mark.parametrize(
    "calibrator", [ExpectationConsistency(), ExpectationConsistency(top_n=2), TemperatureScaling(), AdaptiveConsistency()]
)
OUTPUTS = ("predict", "predict_proba", "predict_log_proba", "transform")


@METHODS
def test_fitting_again_changes_nothing(calibrator):
    first = clone(calibrator).fit(LOGITS, LABELS)
    again = clone(calibrator).fit(LOGITS, LABELS).fit(LOGITS, LABELS)
    assert first.temperature_ == again.temperature_


@METHODS
def test_neither_fit_nor_prediction_touches_what_it_should_not(calibrator):
    fitted = clone(calibrator)
    parameters = fitted.get_params()
    fitted.fit(LOGITS, LABELS)
    assert fitted.get_params() == parameters
    assert all(name.endswith("_") for name in vars(fitted).keys() - parameters.keys())
    attributes = dict(vars(fitted))
    for output in OUTPUTS:
        getattr(fitted, output)(LOGITS)
    assert all(vars(fitted)[name] is value for name, value in attributes.items())
    assert vars(fitted).keys() == attributes.keys()


@METHODS
def test_the_answer_for_a_row_depends_neither_on_its_place_nor_on_its_company(calibrator):
    fitted = clone(calibrator).fit(LOGITS, LABELS)
    order = np.random.default_rng(0).permutation(300)
    for output in OUTPUTS:
        whole = getattr(fitted, output)(LOGITS)
        np.testing.assert_allclose(getattr(fitted, output)(LOGITS[order]), whole[order], rtol=1e-13)
        one_by_one = np.concatenate([getattr(fitted, output)(row[None, :]) for row in LOGITS])
        np.testing.assert_allclose(one_by_one, whole, rtol=1e-13)


@METHODS
def test_weights_may_be_a_series_a_list_or_floats_and_stay_as_they_are(calibrator):
    weights = np.arange(300) % 4
    expected = clone(calibrator).fit(LOGITS, LABELS, sample_weight=weights).temperature_
    for given in (pd.Series(weights), weights.tolist(), weights.astype(np.float32)):
        before = np.array(given)
        assert clone(calibrator).fit(LOGITS, LABELS, sample_weight=given).temperature_ == expected
        assert np.array_equal(before, np.array(given))


def problem():
    """A model that is too sure of itself, and data it has not seen."""
    features, classes = make_classification(1200, n_informative=6, n_classes=3, flip_y=0.25, random_state=0)
    model = LogisticRegression(C=100).fit(features[:100], classes[:100])
    return FrozenEstimator(model), features[100:], classes[100:]


@METHODS
def test_cross_validation_scores_logits(calibrator):
    model, features, classes = problem()
    logits = model.decision_function(features)
    scores = cross_val_score(calibrator, logits, classes, scoring="neg_log_loss", cv=3)
    assert scores.mean() > cross_val_score(FixedTemperature(1.0), logits, classes, scoring="neg_log_loss", cv=3).mean()
    probabilities = cross_val_predict(calibrator, logits, classes, method="predict_proba", cv=3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)


def test_a_pipeline_calibrates_behind_a_frozen_model():
    model, features, classes = problem()
    pipeline = make_pipeline(FunctionTransformer(model.decision_function), TemperatureScaling())
    pipeline.fit(features[:600], classes[:600])
    alone = TemperatureScaling().fit(model.decision_function(features[:600]), classes[:600])
    np.testing.assert_array_equal(
        pipeline.predict_proba(features[600:]), alone.predict_proba(model.decision_function(features[600:]))
    )
    assert pipeline.score(features[600:], classes[600:]) == model.score(features[600:], classes[600:])


def test_a_pipeline_passes_probabilities_on():
    model, features, classes = problem()
    pipeline = make_pipeline(FunctionTransformer(model.predict_proba), ExpectationConsistency(input="probabilities"))
    p = pipeline.fit(features, classes).predict_proba(features)
    assert p.max(axis=1).mean() == pytest.approx(model.score(features, classes), abs=1e-9)


def test_a_search_chooses_among_parameters():
    model, features, classes = problem()
    search = GridSearchCV(ExpectationConsistency(), {"top_n": [1, 2]}, scoring="neg_log_loss", cv=3)
    search.fit(model.decision_function(features), classes)
    assert set(search.cv_results_["param_top_n"]) == {1, 2}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_text_labels_pass_through_cross_validation_with_classes():
    names = np.array(["ant", "bee", "cat", "dog"])
    scores = cross_val_score(TemperatureScaling(classes=names), LOGITS, names[LABELS], cv=3)
    assert np.mean(scores) == pytest.approx(np.mean(reference.right(LOGITS, LABELS)), abs=0.01)


def test_weights_are_routed_to_fit_where_they_are_asked_for():
    weights = np.arange(300) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(TemperatureScaling().set_fit_request(sample_weight=True))
        pipeline.fit(LOGITS, LABELS, sample_weight=weights)
    expected = reference.ts_temperature(LOGITS, LABELS, weights)
    assert pipeline[-1].temperature_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", sorted(set(nishimori.methods()) - {"best"}))
def test_groups_for_a_splitter_pass_by_a_calibrator_that_has_no_use_for_them(name):
    logits, labels = drawn_for(name)
    groups, folds = np.arange(600) // 10, GroupKFold(3)
    pipeline = make_pipeline(nishimori.calibrator(name), LogisticRegression())
    expected = [
        clone(pipeline).fit(logits[train], labels[train]).score(logits[test], labels[test])
        for train, test in folds.split(logits, labels, groups)
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_val_score(pipeline, logits, labels, cv=folds, params={"groups": groups}, error_score="raise")
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_groups_that_only_the_chosen_folds_keep_together_are_not_for_predictions():
    plain = Best().get_metadata_routing()
    assert (plain.fit.requests["groups"], plain.predict_proba.requests["groups"]) == (None, False)
    grouped = Best(["ts", GroupConsistency(by="groups")]).get_metadata_routing()
    assert grouped.predict_proba.requests["groups"] is None
    assert Consistent(GroupConsistency(by="groups")).get_metadata_routing().predict.requests["groups"] is None
    with sklearn.config_context(enable_metadata_routing=True):
        told = TemperatureScaling().set_predict_proba_request(groups=True).get_metadata_routing()
    assert told.predict_proba.requests["groups"] is True
