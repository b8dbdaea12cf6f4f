"""Labels that do not exclude each other: temperatures, what happens without one, and predictions."""

import pickle

import numpy as np
import pytest
import reference
import reference_groups
from independent_labels import TEMPERATURES, X, Y, drawn, sigmoid, stacked
from optional import array_api_strict, pd, torch
from own_process import measure
from sklearn.base import clone
from sklearn.utils.multiclass import type_of_target

import nishimori
from nishimori import BiasCorrected, Platt
from nishimori._calibrators.multilabel import decisions
from nishimori._files.arrays.stored_array import StoredArray
from nishimori._methods import table
from nishimori._rows import stored_rows
from nishimori.errors import FewErrorsWarning, InputError, InputWarning, NoTemperatureError
from nishimori.multilabel import MultilabelCalibrator

# Temperatures


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_a_shared_temperature_is_that_of_all_decisions_as_binary_rows(method):
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    expected = {"ec": reference.ec_temperature, "ts": reference.ts_temperature}[method](*stacked(X, Y), np.repeat(weights, 3))
    found = MultilabelCalibrator(method, parameters="shared").fit(X, Y, sample_weight=weights)
    assert found.temperature_ == pytest.approx(expected, rel=1e-8)
    np.testing.assert_array_equal(found.temperatures_, [found.temperature_] * 3)
    assert found.n_samples_ == np.count_nonzero(weights)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_copies_of_a_label_do_not_make_the_temperature_more_certain(method):
    # If the decisions of a sample counted as independent, the standard error would be half as large.
    alone = nishimori.calibrator(method).fit(X[:, 1], Y[:, 1])
    found = MultilabelCalibrator(method, parameters="shared").fit(np.tile(X[:, 1:2], 4), np.tile(Y[:, 1:2], 4))
    assert found.temperature_ == pytest.approx(alone.temperature_, rel=1e-8)
    assert found.temperature_se_ == pytest.approx(alone.temperature_se_, rel=1e-6)


def test_copies_of_a_sample_in_one_cluster_do_not_make_any_temperature_more_certain():
    clusters = np.repeat(np.arange(len(X)), 2)
    doubled = (np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0))
    for parameters in ("shared", "per_label", "shrunk"):
        once = MultilabelCalibrator(parameters=parameters).fit(X, Y)
        twice = MultilabelCalibrator(parameters=parameters).fit(*doubled, clusters=clusters)
        # A label may not have less variance than a calibrated model has, which counts the copies, so "shrunk" differs a little.
        rel = 1e-6 if parameters != "shrunk" else 0.05
        np.testing.assert_allclose(twice.temperatures_, once.temperatures_, rtol=rel)
        np.testing.assert_allclose(twice.temperatures_se_, once.temperatures_se_, rtol=rel)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_each_label_can_have_the_temperature_of_its_own_decisions(method):
    found = MultilabelCalibrator(method, parameters="per_label").fit(X, Y)
    solve = {"ec": reference.ec_temperature, "ts": reference.ts_temperature}[method]
    expected = [solve(*stacked(X[:, i], Y[:, i])) for i in range(3)]
    np.testing.assert_allclose(found.temperatures_, expected, rtol=1e-8)
    np.testing.assert_allclose(found.temperatures_, TEMPERATURES, atol=4 * found.temperatures_se_.max())
    assert found.temperature_ is None
    assert found.open_labels_ == ()


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_shrunk_temperatures_are_those_of_the_random_effects_model_with_labels_as_groups(method):
    logits, labels = drawn(300, np.array([1.5, 2.0, 2.0, 3.0]), seed=3)
    groups = np.tile(np.arange(4), 300)
    common, expected, estimated, used = reference_groups.fitted(*stacked(logits, labels), groups, 4, method)
    found = MultilabelCalibrator(method).fit(logits, labels)
    assert found.temperature_ == pytest.approx(common, rel=1e-8)
    np.testing.assert_allclose(found.temperatures_, expected, rtol=1e-5)
    assert found.spread_ == pytest.approx(np.sqrt(estimated), rel=1e-5)
    assert found.used_spread_ == pytest.approx(np.sqrt(used), rel=1e-5)
    assert np.ptp(found.temperatures_) < np.ptp(
        MultilabelCalibrator(method, parameters="per_label").fit(logits, labels).temperatures_
    )


def test_a_method_with_a_bias_makes_the_mean_probability_of_each_label_its_prevalence():
    logits, labels = drawn(2000, shift=np.array([0.0, -3.0, 2.0]))
    shifted = logits + 2.0  # a model that is too sure of every label
    temperature = MultilabelCalibrator(parameters="per_label").fit(shifted, labels)
    bias = MultilabelCalibrator(BiasCorrected(shrink=False), parameters="per_label").fit(shifted, labels)
    assert np.abs(temperature.predict_proba(shifted).mean(axis=0) - labels.mean(axis=0)).max() > 0.05
    np.testing.assert_allclose(bias.predict_proba(shifted).mean(axis=0), labels.mean(axis=0), atol=1e-6)
    assert bias.temperatures_ is None
    assert bias.temperatures_se_ is None


# Labels that are not known, and labels without a temperature


@pytest.mark.parametrize("missing", [-1, float("nan")], ids=["-1", "NaN"])
@pytest.mark.parametrize("parameters", ["shared", "per_label"])
def test_decisions_about_unknown_labels_do_not_count_and_their_scores_may_be_anything(missing, parameters):
    known = np.random.default_rng(2).random(X.shape) < 0.6
    scores, labels = np.where(known, X, np.nan), np.where(known, Y, missing)
    found = MultilabelCalibrator(parameters=parameters, missing=missing).fit(scores, labels)
    if parameters == "shared":
        expected = [reference.ec_temperature(*stacked(X[known], Y[known]))] * 3
    else:
        expected = [reference.ec_temperature(*stacked(X[known[:, i], i], Y[known[:, i], i])) for i in range(3)]
    np.testing.assert_allclose(found.temperatures_, expected, rtol=1e-8)


def with_a_label_that_is_always_right():
    """The last label is never there, and always predicted so."""
    return np.concatenate([X, -5 - np.abs(X[:, :1])], axis=1), np.concatenate([Y, np.zeros_like(Y[:, :1])], axis=1)


def test_a_label_without_a_temperature_gets_that_of_all_decisions_and_is_named():
    logits, labels = with_a_label_that_is_always_right()
    calibrator = MultilabelCalibrator(parameters="per_label", labels=["a", "b", "c", "never"])
    with pytest.warns(InputWarning) as warned:
        calibrator.fit(logits, labels)
    (message,) = [str(each.message) for each in warned]
    assert message.startswith("1 label ('never') has the parameters of all decisions. Reason for 'never': No temperature fits")
    assert calibrator.open_labels_ == ("never",)
    assert calibrator.temperatures_[3] == pytest.approx(reference.ec_temperature(*stacked(logits, labels)), rel=1e-8)
    assert calibrator.temperature_ == calibrator.temperatures_[3]
    np.testing.assert_allclose(calibrator.temperatures_[0], reference.ec_temperature(*stacked(X[:, 0], Y[:, 0])), rtol=1e-8)


def test_a_label_that_is_always_right_has_a_shrunk_temperature_without_a_warning():
    found = MultilabelCalibrator().fit(*with_a_label_that_is_always_right())
    assert found.open_labels_ == ()
    assert 0 < found.temperatures_[3] < found.temperature_


def test_labels_that_are_never_known_are_named_whatever_the_parameters():
    labels = Y.astype(float)
    labels[:, 1] = np.nan
    for parameters, words in {
        "shrunk": r"1 label \(1\) has fewer than two known decisions, or only decisions on which a temperature has hardly any",
        "per_label": r"1 label \(1\) has the parameters of all decisions. Reason for 1: It is known for fewer than two",
    }.items():
        with pytest.warns(InputWarning, match=words):
            found = MultilabelCalibrator(parameters=parameters, missing=float("nan")).fit(X, labels)
        assert found.open_labels_ == (1,)
        assert found.temperatures_[1] == found.temperature_


def test_labels_with_few_errors_share_one_warning():
    logits, labels = drawn(60, np.full(12, 1.0))
    with pytest.warns(FewErrorsWarning) as warned:
        MultilabelCalibrator(parameters="per_label").fit(logits, labels)
    (message,) = [str(each.message) for each in warned]
    assert message.startswith("Labels 0, 1, ")
    assert message.endswith(
        ": So few decisions are right or wrong that the parameters are uncertain. Use a larger validation set, or "
        "parameters='shared'."
    )


def test_other_warnings_of_single_labels_keep_their_words_and_name_the_labels():
    logits = X * [1, -1, -1]
    calibrator = MultilabelCalibrator("beta", parameters="per_label", labels=["right", "reversed", "too"])
    with pytest.warns(InputWarning) as warned:
        calibrator.fit(logits, Y)
    (only,) = warned
    assert only.category is InputWarning
    assert str(only.message).startswith(
        "Labels 'reversed', 'too': The second class is not more likely where its score is larger, so that"
    )
    with pytest.warns(InputWarning, match="^Label 'reversed': The second class is not more likely"):
        clone(calibrator).set_params(labels=["right", "reversed"]).fit(logits[:, :2], Y[:, :2])


def test_no_temperature_of_all_decisions_is_an_error():
    with pytest.raises(NoTemperatureError, match="accuracy"):
        MultilabelCalibrator().fit(X, (X < 0).astype(int))


def test_the_calibrator_of_each_label_is_kept_with_its_parameters_and_their_errors(tmp_path):
    found = MultilabelCalibrator(Platt(smooth_labels=False), parameters="per_label").fit(X, Y)
    told = [each.parameters_ for each in found.calibrators_]
    expected = [sigmoid(each["slope"] * column + each["intercept"]) for each, column in zip(told, X.T, strict=True)]
    np.testing.assert_allclose(found.predict_proba(X), np.transpose(expected), rtol=1e-12)
    for each, column, labels, p in zip(found.calibrators_, X.T, Y.T, expected, strict=True):
        terms = np.stack([column, np.ones(len(X))])
        inverse = np.linalg.inv(terms * (p * (1 - p)) @ terms.T)
        sandwich = inverse @ (terms * (labels - p) ** 2 @ terms.T) @ inverse
        assert list(each.parameters_se_.values()) == pytest.approx(np.sqrt(np.diag(sandwich)), rel=0.01)
    found.save(tmp_path / "labels.json")
    assert nishimori.load(tmp_path / "labels.json").calibrators_ is None


def test_labels_that_share_parameters_share_their_calibrator_and_shrunk_ones_have_none():
    first, second, third = MultilabelCalibrator("ts", parameters="shared").fit(X, Y).calibrators_
    assert first is second is third
    assert MultilabelCalibrator("ts").fit(X, Y).calibrators_ is None
    right = np.c_[Y, X[:, 0] > 0]  # the last label has no temperature
    with pytest.warns(InputWarning, match="the parameters of all decisions"):
        found = MultilabelCalibrator("ts", parameters="per_label").fit(np.c_[X, X[:, 0]], right)
    assert found.calibrators_[3].temperature_ == found.temperature_


# Where scores come from


def test_files_memory_maps_frames_and_tensors_give_the_temperatures_of_the_array(tmp_path):
    expected = MultilabelCalibrator().fit(X, Y)
    np.save(tmp_path / "logits.npy", X)
    np.save(tmp_path / "labels.npy", Y)
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    cases = [
        (mapped, Y),
        (tmp_path / "logits.npy", tmp_path / "labels.npy"),
        (frame, pd.DataFrame(Y, columns=["a", "b", "c"])),
        (torch.tensor(X), torch.tensor(Y)),
        (array_api_strict.asarray(X), Y),
        (X.tolist(), Y.astype(bool).tolist()),
        (np.asfortranarray(X), Y.astype(np.float32)),
    ]
    for parameters in ("shrunk", "per_label"):
        expected = MultilabelCalibrator(parameters=parameters).fit(X, Y)
        for logits, labels in cases:
            found = MultilabelCalibrator(parameters=parameters).fit(logits, labels)
            np.testing.assert_allclose(found.temperatures_, expected.temperatures_, rtol=1e-8)
            np.testing.assert_allclose(found.temperatures_se_, expected.temperatures_se_, rtol=1e-6)


def test_a_memory_map_is_calibrated_and_measured_as_its_array_is(tmp_path):
    np.save(tmp_path / "logits.npy", X)
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    found = MultilabelCalibrator().fit(X, Y)
    np.testing.assert_array_equal(found.predict_proba(mapped), found.predict_proba(X))
    cards = [
        nishimori.multilabel.evaluate_multilabel(each, Y, calibrator=found) for each in (X, mapped, tmp_path / "logits.npy")
    ]
    assert [each.overall.nll for each in cards] == pytest.approx([cards[0].overall.nll] * 3, rel=1e-12)
    with pytest.raises(InputError, match="If that is a file, load it first"):
        found.predict_proba(tmp_path / "logits.npy")


def test_fits_of_single_labels_read_a_file_a_few_labels_at_a_time(tmp_path, monkeypatch):
    np.save(tmp_path / "logits.npy", X)
    readings, blocks = [], StoredArray.blocks
    monkeypatch.setattr(StoredArray, "blocks", lambda file: (readings.append(file), blocks(file))[1])
    monkeypatch.setattr(stored_rows, "rows_per_piece", lambda _: 250)
    monkeypatch.setattr(decisions, "_MOST_SCORES", 2 * len(X))
    found = MultilabelCalibrator("ts", parameters="per_label").fit(tmp_path / "logits.npy", Y)
    assert len(readings) == 1 + 1 + 2  # for a negative score, to check all values, and for two labels at a time
    expected = [reference.ts_temperature(*stacked(X[:, i], Y[:, i])) for i in range(3)]
    np.testing.assert_allclose(found.temperatures_, expected, rtol=1e-8)


def test_fits_of_single_labels_take_the_memory_of_a_few_labels(tmp_path):
    peak, size = measure("multilabel", path=tmp_path / "logits.npy")
    assert peak < size / 2


def test_rows_in_many_blocks_give_the_sums_of_one():
    logits, labels = drawn(40_000, np.array([2.0]))
    found = MultilabelCalibrator(parameters="shared").fit(logits.reshape(-1, 10), labels.reshape(-1, 10))
    assert found.temperature_ == pytest.approx(reference.ec_temperature(*stacked(logits, labels)), rel=1e-8)


def test_labels_are_named_by_the_caller_else_by_the_columns_of_y_else_of_x():
    scores, labels = pd.DataFrame(X, columns=["za", "zb", "zc"]), pd.DataFrame(Y, columns=["a", "b", "c"])
    assert MultilabelCalibrator().fit(X, Y).classes_.tolist() == [0, 1, 2]
    assert MultilabelCalibrator().fit(scores, Y).classes_.tolist() == ["za", "zb", "zc"]
    assert MultilabelCalibrator().fit(scores, labels).classes_.tolist() == ["a", "b", "c"]
    assert MultilabelCalibrator(labels=[7, "b", 2.5]).fit(scores, labels).classes_.tolist() == [7, "b", 2.5]


# Predictions


def test_probabilities_are_sigmoids_of_logits_over_the_temperature_of_each_label():
    found = MultilabelCalibrator().fit(X, Y)
    expected = sigmoid(X / found.temperatures_)
    np.testing.assert_allclose(found.predict_proba(X), expected, rtol=1e-13)
    np.testing.assert_allclose(found.transform(X), X / found.temperatures_, rtol=1e-13)
    np.testing.assert_array_equal(found.predict(X), expected > 0.5)
    assert type_of_target(found.predict(X)) == "multilabel-indicator"
    assert found.score(X, Y) == np.mean(((X > 0) == Y).all(axis=1))


@pytest.mark.parametrize("parameters", ["shared", "per_label"])
def test_a_map_of_any_kind_is_applied_to_the_two_logits_of_each_decision(parameters):
    found = MultilabelCalibrator("vector", parameters=parameters).fit(X, Y)
    for i, map_ in enumerate(found.maps_):
        u = map_.apply(stacked(X[:, i], Y[:, i])[0])
        np.testing.assert_allclose(found.predict_proba(X)[:, i], reference.softmax(u)[:, 1], rtol=1e-12)
        np.testing.assert_allclose(found.transform(X)[:, i], u[:, 1] - u[:, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning", "ignore::nishimori.errors.FewErrorsWarning")
@pytest.mark.parametrize("method", table.names())
def test_every_method_does_to_each_label_what_it_does_to_its_binary_score(method, tmp_path):
    logits, labels = X[:200, :2], Y[:200, :2]
    found = MultilabelCalibrator(method, parameters="per_label").fit(logits, labels)
    found.save(tmp_path / "labels.json")
    p = nishimori.load(tmp_path / "labels.json").predict_proba(logits)
    for i in range(2):
        alone = nishimori.calibrator(method).fit(logits[:, i], labels[:, i])
        np.testing.assert_allclose(p[:, i], alone.predict_proba(logits[:, i])[:, 1], rtol=1e-10)


def test_probabilities_as_input_are_logits_of_the_same_decisions():
    expected = MultilabelCalibrator().fit(X, Y)
    found = MultilabelCalibrator(input="probabilities", floor=None).fit(sigmoid(X), Y)
    np.testing.assert_allclose(found.temperatures_, expected.temperatures_, rtol=1e-6)
    np.testing.assert_allclose(found.predict_proba(sigmoid(X)), expected.predict_proba(X), rtol=1e-6)
    raised = MultilabelCalibrator(input="probabilities", floor=0.01).fit(sigmoid(X), Y)
    low = raised.predict_proba([[0.0, 0.01, 0.5]])
    np.testing.assert_allclose(low, sigmoid(np.log([[0.01, 0.01, 0.5]] / np.array([[1.0, 0.99, 0.5]])) / raised.temperatures_))


def test_results_have_the_library_and_the_precision_of_the_scores():
    found = MultilabelCalibrator().fit(X, Y)
    for dtype in (torch.float16, torch.float32, torch.float64):
        p = found.predict_proba(torch.tensor(X, dtype=dtype))
        assert p.dtype == dtype
        np.testing.assert_allclose(p.double(), found.predict_proba(X), atol=2e-3 if dtype == torch.float16 else 1e-6)
    strict = array_api_strict.asarray(X)
    np.testing.assert_allclose(np.asarray(found.predict_proba(strict)), found.predict_proba(X), rtol=1e-13)
    assert found.predict(torch.tensor(X)).dtype == torch.int64
    assert found.transform(X.astype(np.float32)).dtype == np.float32
    assert found.predict_proba([[1, -2, 3]]).dtype == np.float64


def test_a_calibrator_can_be_cloned_pickled_fitted_again_and_gives_data_frames():
    calibrator = MultilabelCalibrator("ts", parameters="shared", labels=["a", "b", "c"], missing=-1)
    found = clone(calibrator).fit(X, Y)
    assert vars(calibrator) == calibrator.get_params()
    again = pickle.loads(pickle.dumps(found)).fit(X, Y)
    assert again.temperature_ == found.temperature_
    rows = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(found.predict_proba(X)[rows], found.predict_proba(X[rows]))
    frame = found.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["a", "b", "c"]
    assert found.__sklearn_tags__().classifier_tags.multi_label


def test_columns_of_other_names_or_another_number_are_refused_when_predicting():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = MultilabelCalibrator().fit(frame, Y)
    with pytest.raises(InputError, match="feature names should match"):
        found.predict_proba(frame[["b", "a", "c"]])
    with pytest.raises(InputError) as error:
        found.predict_proba(X[:, :2])
    assert str(error.value) == (
        "X has 2 features, but MultilabelCalibrator is expecting 3 features as input: `X` must have one column per label."
    )
