"""A flat score z stands for the logits (0, z), a flat probability p for (1 - p, p)."""

import numpy as np
import pytest
import reference
from optional import ml_dtypes, pd, torch
from scipy.special import expit

from nishimori import (
    ExpectationConsistency,
    TemperatureScaling,
    evaluate,
    from_temperature,
    metrics,
    temperature_curve,
    temperatures,
)
from nishimori.errors import InputError, InputWarning

rng = np.random.default_rng(0)
Z = 4 * rng.normal(size=600)
Y = (rng.random(600) < expit(Z / 2)).astype(int)
TWO_COLUMNS = np.stack([np.zeros(600), Z], axis=1)
METHODS = pytest.mark.parametrize("method", [ExpectationConsistency, TemperatureScaling])


@METHODS
def test_a_flat_score_has_the_temperature_of_its_two_columns_and_half_that_of_plus_minus_z(method):
    flat = method().fit(Z, Y)
    definition = reference.ec_temperature if method is ExpectationConsistency else reference.ts_temperature
    assert flat.temperature_ == pytest.approx(definition(TWO_COLUMNS, Y), rel=1e-8)
    assert method().fit(TWO_COLUMNS, Y).temperature_ == pytest.approx(flat.temperature_, rel=1e-12)
    both_signs = method().fit(np.stack([-Z, Z], axis=1), Y)
    assert both_signs.temperature_ == pytest.approx(2 * flat.temperature_, rel=1e-8)
    assert both_signs.predict_proba(np.stack([-Z, Z], axis=1)) == pytest.approx(flat.predict_proba(Z), rel=1e-7)


def test_the_probability_of_a_flat_score_is_the_logistic_function_of_z_over_t():
    calibrator = from_temperature(2.0)
    p = calibrator.predict_proba(Z)
    assert p.shape == (600, 2)
    np.testing.assert_allclose(p, np.stack([expit(-Z / 2), expit(Z / 2)], axis=1), rtol=1e-13)
    np.testing.assert_allclose(calibrator.predict_log_proba(Z), np.log(p), rtol=1e-12)
    assert calibrator.transform(Z).shape == (600,)
    np.testing.assert_array_equal(calibrator.transform(Z), Z / 2)


def test_a_score_of_zero_is_a_tie_and_so_the_first_class():
    assert from_temperature(1.0).predict([-1.0, 0.0, 1.0]).tolist() == [0, 0, 1]
    assert from_temperature(1.0, classes=["no", "yes"]).predict([-1.0, 0.0, 1.0]).tolist() == ["no", "no", "yes"]


@METHODS
def test_flat_probabilities_have_the_temperature_of_their_log_odds(method):
    fitted = method(input="probabilities", floor=None).fit(expit(Z), Y)
    assert fitted.temperature_ == pytest.approx(method().fit(Z, Y).temperature_, rel=1e-8)
    two_columns = method(input="probabilities", floor=None).fit(np.stack([expit(-Z), expit(Z)], axis=1), Y)
    assert two_columns.temperature_ == pytest.approx(fitted.temperature_, rel=1e-8)
    np.testing.assert_allclose(fitted.transform(expit(Z)), Z / fitted.temperature_, rtol=1e-7)
    np.testing.assert_allclose(fitted.predict_proba(expit(Z))[:, 1], expit(Z / fitted.temperature_), rtol=1e-7)


def test_both_temperatures_take_flat_scores_and_flat_probabilities():
    scores, columns, odds = (
        temperatures(Z, Y),
        temperatures(TWO_COLUMNS, Y),
        temperatures(expit(Z), Y, input="probabilities", floor=None),
    )
    assert (scores.ec, scores.ts) == pytest.approx((columns.ec, columns.ts), rel=1e-12)
    assert (odds.ec, odds.ts) == pytest.approx((columns.ec, columns.ts), rel=1e-8)


@METHODS
def test_scores_beyond_the_range_of_a_float32_logistic_function_keep_their_temperature(method):
    large = (20 * Z).astype(np.float32)  # σ(80) is 1 in float32, where clipped losses turn into NaN
    fitted = method().fit(large, Y)
    assert fitted.temperature_ == pytest.approx(20 * method().fit(Z, Y).temperature_, rel=1e-5)
    assert np.isfinite(fitted.predict_proba(large)).all()


def test_probabilities_of_exactly_0_and_1_count_as_the_smallest_normal_and_are_counted():
    p = np.clip(expit(3 * Z), 0.01, 0.99)
    p[:5], p[5:12] = 0.0, 1.0
    with pytest.warns(InputWarning, match="^The true class has probability 0 in 5 of 600 samples, so the temperature of"):
        fitted = TemperatureScaling(input="probabilities", floor=None).fit(p, Y)
    tiny = np.finfo(float).smallest_normal
    logits = np.log(np.stack([np.where(p == 1, tiny, 1 - p), np.where(p == 0, tiny, p)], axis=1))
    assert fitted.fit_info_.n_zeros == 12
    assert fitted.temperature_ == pytest.approx(reference.ts_temperature(logits, Y), rel=1e-8)
    np.testing.assert_allclose(fitted.predict_proba(p), reference.softmax(logits, fitted.temperature_), rtol=1e-9)


FLAT = {"list": Z.tolist(), "series": pd.Series(Z, name="score"), "torch": torch.from_numpy(Z)}


@pytest.mark.parametrize("scores", FLAT.values(), ids=FLAT)
def test_flat_scores_may_be_of_any_library(scores):
    fitted = ExpectationConsistency().fit(scores, Y)
    assert fitted.temperature_ == pytest.approx(reference.ec_temperature(TWO_COLUMNS, Y), rel=1e-8)
    assert (fitted.n_features_in_, fitted.classes_.tolist()) == (2, [0, 1])
    assert tuple(fitted.predict_proba(scores).shape) == (600, 2)


def test_a_calibrator_fitted_to_flat_scores_takes_two_columns_and_the_other_way_round():
    flat, wide = ExpectationConsistency().fit(Z, Y), ExpectationConsistency().fit(TWO_COLUMNS, Y)
    np.testing.assert_allclose(flat.predict_proba(TWO_COLUMNS), wide.predict_proba(Z), rtol=1e-12)


def test_fitting_flat_scores_forgets_the_column_names_of_an_earlier_fit():
    calibrator = ExpectationConsistency().fit(pd.DataFrame(TWO_COLUMNS, columns=["no", "yes"]), Y)
    assert calibrator.feature_names_in_.tolist() == ["no", "yes"]
    calibrator.fit(Z, Y)
    assert not hasattr(calibrator, "feature_names_in_")
    assert calibrator.predict_proba(TWO_COLUMNS).shape == (600, 2)


ALMOST = np.full((1, 10), 0.1)
ALMOST[0, 7] = np.nextafter(0.1, 1)  # whose logarithm is that of 0.1


def test_the_predicted_class_is_that_of_the_probabilities_and_not_of_their_logarithms():
    assert np.log(ALMOST)[0, 7] == np.log(0.1)
    assert from_temperature(2.0, input="probabilities").predict(ALMOST).tolist() == [7]
    assert metrics.accuracy(ALMOST, [7], input="probabilities") == 1
    assert metrics.top_n_accuracy(ALMOST, [7], top_n=1, input="probabilities") == 1
    assert metrics.error(ALMOST, [0], input="probabilities") == 1
    both = np.concatenate([ALMOST, np.eye(10)[:1]])
    assert evaluate(both, [7, 1], input="probabilities", floor=1e-9).accuracy == 0.5


NAMES = ["cat", "dog", "owl"]
WITH_CLASSES = {
    "temperatures": lambda z, y, **k: temperatures(z, y, **k).ec,
    "curve": lambda z, y, **k: temperature_curve(z, y, grid=[2.0], **k).loss[0],
    "evaluate": lambda z, y, **k: evaluate(z, y, **k).nll,
    "nll": metrics.nll,
    "brier": metrics.brier,
    "confidence": metrics.confidence,
    "ece": metrics.ece,
    "reliability": lambda z, y, **k: metrics.reliability(z, y, **k).accuracy.tolist(),
    "error": metrics.error,
    "accuracy": metrics.accuracy,
    "top 2": lambda z, y, **k: metrics.top_n_accuracy(z, y, top_n=2, **k),
}


@pytest.mark.parametrize("use", WITH_CLASSES.values(), ids=WITH_CLASSES)
def test_labels_may_be_names_everywhere_and_follow_the_columns(use):
    logits, labels = reference.drawn(300, 3)
    names = np.array(NAMES)[labels]
    assert use(logits, names, classes=NAMES) == use(logits, labels)
    frame = pd.DataFrame(logits, columns=NAMES)
    assert use(frame, names, classes=NAMES) == use(logits, labels)
    with pytest.raises(InputError, match=r"^`classes` must be in the order of the columns, got"):
        use(frame, names, classes=NAMES[::-1])
    with pytest.raises(InputError, match=r"^`labels` must be integers from 0 to 2, got '\w+' in row 0\. For other labels pass"):
        use(logits, names)


@pytest.mark.parametrize("classes", [None, [0, 1, 2], ["0", "1", "2"]], ids=str)
@pytest.mark.parametrize("label", [1.7, -0.5, np.nan, np.inf])
def test_labels_that_are_not_whole_are_refused(classes, label):
    logits, labels = reference.drawn(30, 3)
    broken = labels.astype(float)
    broken[4] = label
    with pytest.raises(InputError, match=r"^`y` must be"):
        ExpectationConsistency(classes=classes).fit(logits, broken)


MULTI_HOT = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]])
PER_SAMPLE = "`y` must be one label per sample, shape (4,), got shape (4, 3)"
UNUSABLE = {
    "empty": (["0", "2", "", "1"], "`y` must be integers from 0 to 2, got '' in row 2. A label is missing. Drop such samples."),
    "none": ([0, None, 2, 1], "`y` must be integers from 0 to 2, got None in row 1. A label is missing. Drop such samples."),
    "infinite": (
        [0.0, 2.0, 1.0, -np.inf],
        "`y` must be integers from 0 to 2, got -inf in row 3. Correct the label, or drop such samples.",
    ),
    "text": (
        ["0", "2", "x", "1"],
        "`y` must be integers from 0 to 2, got 'x' in row 2. For other labels pass the label of each column in order as "
        "`classes`.",
    ),
    "one-hot": (np.eye(3)[[0, 1, 2, 0]], f"{PER_SAMPLE}, which looks one-hot. Pass `y.argmax(axis=1)`."),
    "multi-hot": (
        MULTI_HOT,
        f"{PER_SAMPLE}, with several true classes, or none, in some rows. For labels that do not exclude each other use "
        "nishimori.multilabel, in Python.",
    ),
    "table": (np.full((4, 3), 0.2), f"{PER_SAMPLE}. Pass the true class of each sample."),
}


@pytest.mark.parametrize(("labels", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_labels_that_cannot_be_used_are_refused_with_the_one_that_cannot(labels, message):
    with pytest.raises(InputError) as raised:
        ExpectationConsistency().fit(reference.drawn(4, 3)[0], labels)
    assert str(raised.value) == message


ODD = {
    "label": lambda: metrics.error(Z, [10**400] * 600),
    "weight": lambda: metrics.error(Z, Y, sample_weight=[10**400] * 600),
    "ragged classes": lambda: metrics.error(Z, Y, classes=[(1,), (1, 2)]),
    "unhashable classes": lambda: metrics.error(Z, Y, classes=[{}, 1]),
    "a set among classes": lambda: metrics.error(Z, Y, classes=[{1}, 2]),
    "no list of classes": lambda: metrics.error(Z, Y, classes=np.array(1)),
    "bytes as classes": lambda: from_temperature(1.0, classes=b"ab"),
    "bytes as temperature": lambda: from_temperature(b"2"),
    "a flag as temperature": lambda: from_temperature(np.True_),
    "strategy": lambda: metrics.ece(Z, Y, strategy=np.array([1, 2])),
    "norm": lambda: metrics.ece(Z, Y, norm=np.array([1, 2])),
    "of": lambda: metrics.ece(Z, Y, of=pd.NA),
    "input": lambda: metrics.ece(Z, Y, input=np.array([1, 2])),
    "float8": lambda: metrics.error(torch.zeros(4, 2).to(torch.float8_e4m3fn), [0, 1, 0, 1]),
    "numpy float8": lambda: metrics.error(np.zeros((4, 2)).astype(ml_dtypes.float8_e4m3fn), [0, 1, 0, 1]),
    "meta": lambda: metrics.error(torch.zeros(4, 2, device="meta"), [0, 1, 0, 1]),
    "quantised": lambda: metrics.error(torch.quantize_per_tensor(torch.zeros(4, 2), 0.1, 0, torch.qint8), [0, 1, 0, 1]),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*quantize:UserWarning")
@pytest.mark.parametrize("use", ODD.values(), ids=ODD)
def test_odd_arguments_are_refused_in_one_line(use):
    with pytest.raises(InputError) as raised:
        use()
    assert "\n" not in str(raised.value)


def test_classes_that_cannot_be_written_are_refused_by_save(tmp_path):
    fixed = from_temperature(2.0, classes=["\ud800", "b"])
    with pytest.raises(InputError, match=r"^`classes` must be text or numbers to be saved as JSON\."):
        fixed.save(tmp_path / "c.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", [np.nan, None, ""], ids=repr)
def test_a_missing_label_is_called_missing_also_where_classes_are_named(missing):
    labels = ["a", missing, "b"]
    with pytest.raises(InputError, match=r"in row 1\. A label is missing\. Drop such samples\.$"):
        metrics.error([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]], labels, classes=["a", "b"])
