"""Calibrated logits as data frames, and what is routed to a calibrator inside scikit-learn's pipelines."""

import warnings

import numpy as np
import pytest
import reference
import sklearn
from method_cases import drawn_for
from optional import pd, torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import estimator_checks

import nishimori
from nishimori import GroupConsistency, TemperatureScaling
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(600, 3)
NAMES = ["ant", "bee", "cat"]
CHECKS = [
    "check_get_feature_names_out_error",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_set_output_transform_polars",
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ["ec", "vector", "none"])  # one `transform` serves all
def test_scikit_learn_finds_no_mistake_in_names_and_data_frames(name, check):
    # The labels of the checks are random: smoothed ones have a temperature all the same.
    options = {"smooth_labels": True} if name == "ec" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of 30 samples, and of arrays after data frames, which the checks mix
        getattr(estimator_checks, check)(name, nishimori.calibrator(name, input="logits", **options))


@pytest.mark.parametrize("name", nishimori.methods())
def test_every_method_gives_data_frames_where_they_are_asked_for(name):
    logits, labels = drawn_for(name)
    columns = [f"z_{k}" for k in range(logits.shape[1])]
    frame = pd.DataFrame(logits, columns=columns, index=np.arange(len(logits)) + 7)
    fitted = nishimori.calibrator(name).fit(frame, labels)
    plain = fitted.transform(frame)
    assert type(plain) is np.ndarray
    shown = fitted.set_output(transform="pandas").transform(frame)
    pd.testing.assert_frame_equal(shown, pd.DataFrame(plain, columns=columns, index=frame.index))
    assert type(fitted.predict_proba(frame)) is np.ndarray


@pytest.mark.parametrize("name", nishimori.methods())
def test_every_method_gives_one_column_for_flat_scores(name):
    logits, labels = reference.drawn(600, 2)
    flat = pd.Series(logits[:, 1] - logits[:, 0], index=np.arange(len(logits)) + 7)
    fitted = nishimori.calibrator(name).fit(flat, labels)
    log_p = fitted.predict_log_proba(flat)
    shown = fitted.set_output(transform="pandas").transform(flat)
    assert shown.columns.tolist() == fitted.get_feature_names_out().tolist() == ["class1"]
    assert shown.index.equals(flat.index)
    np.testing.assert_allclose(shown["class1"], log_p[:, 1] - log_p[:, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("classes", "data", "expected"),
    [
        (None, LOGITS, ["class0", "class1", "class2"]),
        (NAMES, LOGITS, NAMES),
        ([5, 7, 9], LOGITS, ["5", "7", "9"]),
        (NAMES, pd.DataFrame(LOGITS, columns=["x", "y", "z"]), ["x", "y", "z"]),
        (None, pd.DataFrame(LOGITS), ["class0", "class1", "class2"]),
    ],
    ids=["numbers", "classes", "classes that are numbers", "columns", "columns without names"],
)
def test_columns_have_the_names_of_the_data_or_of_the_classes(classes, data, expected):
    labels = LABELS if classes is None else np.array(classes)[LABELS]
    fitted = TemperatureScaling(classes=classes).fit(data, labels).set_output(transform="pandas")
    assert fitted.get_feature_names_out().tolist() == expected
    assert fitted.transform(data).columns.tolist() == expected


def test_names_can_be_passed_where_the_data_had_none():
    fitted = TemperatureScaling().fit(LOGITS, LABELS)
    assert fitted.get_feature_names_out(NAMES).tolist() == NAMES
    message = r"input_features should have length equal to number of features \(3\), got 2\. Pass the names of the columns"
    with pytest.raises(InputError, match=message):
        fitted.get_feature_names_out(NAMES[:2])
    fitted.fit(pd.DataFrame(LOGITS, columns=NAMES), LABELS)
    with pytest.raises(InputError, match=r"input_features is not equal to feature_names_in_\. Pass the names"):
        fitted.get_feature_names_out(["a", "b", "c"])


@pytest.mark.parametrize("classes", [None, ["no", "yes"]])
def test_flat_scores_give_one_column_with_the_name_of_the_second_class(classes):
    flat, labels = LOGITS[:, 0], LABELS == 0
    labels = labels.astype(int) if classes is None else np.array(classes)[labels.astype(int)]
    fitted = TemperatureScaling(classes=classes).fit(flat, labels)
    expected = "class1" if classes is None else "yes"
    assert fitted.get_feature_names_out().tolist() == [expected]
    scores = pd.Series(flat, index=np.arange(len(flat)) + 3)
    shown = fitted.set_output(transform="pandas").transform(scores)
    pd.testing.assert_frame_equal(shown, pd.DataFrame({expected: flat / fitted.temperature_}, index=scores.index))
    table = np.column_stack([0 * flat, flat])
    assert fitted.transform(table).shape == (len(flat), 2)  # the same calibrator, for scores with a column per class
    assert fitted.fit(table, labels).get_feature_names_out().tolist() == (classes or ["class0", "class1"])
    assert fitted.fit(flat.tolist(), labels.tolist()).get_feature_names_out().tolist() == [expected]


def test_a_loaded_calibrator_has_the_names_of_the_one_that_was_saved(tmp_path):
    flat, labels = LOGITS[:, 0], (LABELS == 0).astype(int)
    for name, scores, expected in [
        ("flat", flat, ["class1"]),
        ("table", np.column_stack([0 * flat, flat]), ["class0", "class1"]),
    ]:
        TemperatureScaling().fit(scores, labels).save(tmp_path / f"{name}.json")
        loaded = nishimori.load(tmp_path / f"{name}.json")
        assert loaded.get_feature_names_out().tolist() == expected
        loaded.save(tmp_path / f"{name}.json", overwrite=True)
        assert nishimori.load(tmp_path / f"{name}.json").get_feature_names_out().tolist() == expected


def test_a_calibrator_from_a_temperature_gives_data_frames_too():
    ready = nishimori.from_temperature(2.0)
    with sklearn.config_context(transform_output="pandas"):
        assert ready.transform(LOGITS).columns.tolist() == ["class0", "class1", "class2"]
        assert ready.transform(LOGITS[:, 0]).columns.tolist() == ["class1"]
    with pytest.raises(InputError, match="`get_feature_names_out` needs the number of classes, which this calibrator does not"):
        ready.get_feature_names_out()
    assert nishimori.from_temperature(2.0, classes=NAMES).get_feature_names_out().tolist() == NAMES


def test_a_loaded_calibrator_remembers_the_names(tmp_path):
    TemperatureScaling().fit(pd.DataFrame(LOGITS, columns=NAMES), LABELS).save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json").set_output(transform="pandas")
    assert loaded.transform(pd.DataFrame(LOGITS, columns=NAMES)).columns.tolist() == NAMES


def test_tensors_stay_tensors_unless_a_data_frame_is_asked_for():
    fitted = TemperatureScaling().fit(LOGITS, LABELS)
    tensor = torch.from_numpy(LOGITS)
    assert type(fitted.transform(tensor)) is torch.Tensor
    shown = fitted.set_output(transform="pandas").transform(tensor)
    np.testing.assert_array_equal(shown.to_numpy(), LOGITS / fitted.temperature_)
    assert type(fitted.set_output(transform="default").transform(tensor)) is torch.Tensor


def test_a_pipeline_passes_names_through():
    frame = pd.DataFrame(LOGITS, columns=NAMES, index=np.arange(len(LOGITS)) + 1)
    scaler = StandardScaler(with_mean=False)
    pipeline = make_pipeline(scaler, TemperatureScaling()).set_output(transform="pandas").fit(frame, LABELS)
    shown = pipeline.transform(frame)
    assert shown.columns.tolist() == pipeline.get_feature_names_out().tolist() == NAMES
    assert shown.index.equals(frame.index)
    np.testing.assert_allclose(shown.to_numpy(), LOGITS / LOGITS.std(axis=0) / pipeline[-1].temperature_)


def test_clones_stay_set():
    fitted = clone(TemperatureScaling().set_output(transform="pandas")).fit(LOGITS, LABELS)
    assert isinstance(fitted.transform(LOGITS), pd.DataFrame)
    assert isinstance(fitted.fit_transform(LOGITS, LABELS), pd.DataFrame)


# Metadata routing.

SITES = np.array(["here", "there"])[np.arange(600) % 2]
WEIGHTS = 1.0 + np.arange(600) % 3
CLUSTERS = np.arange(600) // 6


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_weights_clusters_and_groups_reach_a_calibrator_inside_a_pipeline():
    requested = GroupConsistency(by="groups").set_fit_request(sample_weight=True, clusters=True, groups=True)
    requested.set_predict_proba_request(groups=True)
    pipeline = make_pipeline(FunctionTransformer(), requested)
    pipeline.fit(LOGITS, LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS, groups=SITES)
    alone = GroupConsistency(by="groups").fit(LOGITS, LABELS, WEIGHTS, clusters=CLUSTERS, groups=SITES)
    np.testing.assert_array_equal(pipeline[-1].temperatures_, alone.temperatures_)
    np.testing.assert_array_equal(pipeline[-1].temperatures_se_, alone.temperatures_se_)
    for left_out in ("sample_weight", "clusters"):
        given = {"sample_weight": WEIGHTS, "clusters": CLUSTERS, "groups": SITES}
        del given[left_out]
        other = clone(pipeline).fit(LOGITS, LABELS, **given)[-1]
        assert not np.allclose(other.temperatures_se_, alone.temperatures_se_, rtol=1e-6)
    temperatures = dict(zip(alone.groups_, alone.temperatures_, strict=True))
    each = np.array([temperatures[site] for site in SITES])
    np.testing.assert_allclose(
        pipeline.predict_proba(LOGITS, groups=SITES), reference.softmax(LOGITS / each[:, None]), rtol=1e-12
    )


@pytest.mark.usefixtures("routing")
def test_groups_reach_a_calibrator_in_the_middle_of_a_pipeline():
    middle = GroupConsistency(by="groups").set_fit_request(groups=True).set_transform_request(groups=True)
    pipeline = make_pipeline(middle, TemperatureScaling().set_predict_proba_request(groups=False)).fit(
        LOGITS, LABELS, groups=SITES
    )
    p = pipeline.predict_proba(LOGITS, groups=SITES)
    calibrated = GroupConsistency(by="groups").fit_transform(LOGITS, LABELS, groups=SITES)
    np.testing.assert_allclose(p, reference.softmax(calibrated, reference.ts_temperature(calibrated, LABELS)), rtol=1e-7)


@pytest.mark.usefixtures("routing")
def test_what_nobody_asked_for_is_refused():
    with pytest.raises(ValueError, match=r"\[clusters\] are passed but are not explicitly set as requested or not requested"):
        make_pipeline(TemperatureScaling()).fit(LOGITS, LABELS, clusters=CLUSTERS)
