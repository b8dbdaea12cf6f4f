"""What a fitted calibrator knows, keeps and refuses."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
import reference
from optional import ml_dtypes, pd, torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling, from_temperature, temperatures
from nishimori._rows.array_rows import ArrayRows
from nishimori.calibrators import FixedTemperature
from nishimori.errors import InputError, NoTemperatureError

LOGITS, LABELS = reference.drawn(300, 4)
NAMES = ["ant", "bee", "cat", "dog"]
TABLE = pd.DataFrame(LOGITS, columns=NAMES)
METHODS = pytest.mark.parametrize(
    ("method", "definition", "gap"),
    [
        (ExpectationConsistency, reference.ec_temperature, reference.ec_gap),
        (TemperatureScaling, reference.ts_temperature, reference.ts_gap),
    ],
    ids=["ec", "ts"],
)


@METHODS
def test_fit_leaves_a_temperature_its_classes_and_a_fit_info(method, definition, gap):
    logits = LOGITS.copy()
    logits[0, (LABELS[0] + 1) % 4] = logits[1, (LABELS[1] + 2) % 4] = -np.inf
    weights = np.append(0.0, np.ones(299))
    calibrator = method()
    assert calibrator.fit(logits, LABELS, weights) is calibrator
    assert type(calibrator.temperature_) is float
    assert calibrator.temperature_ == pytest.approx(definition(logits, LABELS, weights), rel=1e-8)
    assert calibrator.classes_.tolist() == [0, 1, 2, 3]
    assert calibrator.n_features_in_ == 4
    assert not hasattr(calibrator, "feature_names_in_")
    fit_info = calibrator.fit_info_
    assert fit_info.residual == pytest.approx(gap(logits, LABELS, calibrator.temperature_, weights), abs=1e-12)
    assert abs(fit_info.residual) < 1e-9
    assert fit_info.n_samples == calibrator.n_samples_ == 299
    assert fit_info.accuracy == pytest.approx(np.mean(reference.right(logits, LABELS)[1:]))
    assert (fit_info.n_masked, fit_info.n_zeros) == (1, 0)  # the other mask is in a row of weight zero, which is not there
    assert fit_info.n_passes == calibrator.n_passes_


@METHODS
def test_n_passes_is_how_often_all_rows_were_read(method, definition, gap, monkeypatch):
    readings = []

    def counted(self, *arguments):
        readings.append(self.n_rows)
        return read(self, *arguments)

    read = ArrayRows.gather
    monkeypatch.setattr(ArrayRows, "gather", counted)
    logits, labels = reference.drawn(200_000, 4)  # more than the sample in which a fit looks for a class that is off
    calibrator = method().fit(logits, labels)
    assert calibrator.n_passes_ == readings.count(200_000)


def test_expectation_consistency_makes_mean_confidence_equal_accuracy():
    p = ExpectationConsistency().fit(LOGITS, LABELS).predict_proba(LOGITS)
    assert p.max(axis=1).mean() == pytest.approx((p.argmax(axis=1) == LABELS).mean(), abs=1e-9)


def test_top_n_makes_mean_top_n_mass_equal_top_n_accuracy():
    p = ExpectationConsistency(top_n=2).fit(LOGITS, LABELS).predict_proba(LOGITS)
    assert np.sort(p, axis=1)[:, -2:].sum(axis=1).mean() == pytest.approx(reference.right(LOGITS, LABELS, 2).mean(), abs=1e-9)


def test_temperature_scaling_is_at_the_minimum_of_the_loss():
    found = TemperatureScaling().fit(LOGITS, LABELS).temperature_
    least = reference.nll(LOGITS, LABELS, found)
    assert least < min(reference.nll(LOGITS, LABELS, found * f) for f in (0.9, 0.999, 1.001, 1.1))


def test_fit_transform_gives_the_scaled_logits():
    calibrator = ExpectationConsistency()
    scaled = calibrator.fit_transform(LOGITS, LABELS)
    np.testing.assert_array_equal(scaled, LOGITS / calibrator.temperature_)


def test_score_is_the_accuracy_with_numbers_and_with_names():
    accuracy = reference.right(LOGITS, LABELS).mean()
    names = np.array(NAMES)[LABELS]
    assert ExpectationConsistency().fit(LOGITS, LABELS).score(LOGITS, LABELS) == pytest.approx(accuracy)
    assert ExpectationConsistency(classes=NAMES).fit(LOGITS, names).score(LOGITS, names) == pytest.approx(accuracy)


def test_a_known_temperature_is_ready_to_use():
    calibrator = from_temperature(2)
    np.testing.assert_allclose(calibrator.predict_proba(LOGITS), reference.softmax(LOGITS, 2), rtol=1e-12)
    assert calibrator.temperature_ == 2.0
    assert from_temperature(np.float32(0.5)).temperature_ == 0.5
    p = reference.softmax(LOGITS)
    np.testing.assert_allclose(
        from_temperature(3, input="probabilities").predict_proba(p), reference.softmax(LOGITS, 3), rtol=1e-9
    )


def test_a_known_temperature_with_classes_checks_the_number_of_columns():
    calibrator = from_temperature(2, classes=NAMES)
    assert calibrator.predict(LOGITS[:2]).tolist() == [NAMES[k] for k in LOGITS[:2].argmax(axis=1)]
    with pytest.raises(InputError, match="4"):
        calibrator.predict_proba(LOGITS[:, :3])


def test_fixed_temperature_keeps_its_temperature_when_fitted():
    fitted = FixedTemperature(2.5, classes=NAMES).fit(TABLE, np.array(NAMES)[LABELS])
    assert (fitted.temperature_, fitted.n_samples_, fitted.feature_names_in_.tolist()) == (2.5, 300, NAMES)


def test_an_unfitted_calibrator_says_so():
    for calibrator in (ExpectationConsistency(), TemperatureScaling(), FixedTemperature()):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            calibrator.predict_proba(LOGITS)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            calibrator.save("never.json")


UNFITTABLE = {
    "no temperature": (NoTemperatureError, LOGITS, LOGITS.argmin(axis=1)),
    "bad labels": (InputError, LOGITS, LABELS + 1),
    "columns in another order than the classes": (InputError, pd.DataFrame(LOGITS, columns=NAMES[::-1]), LABELS),
    "names of mixed types": (InputError, pd.DataFrame(LOGITS, columns=["a", 1, 2, 3]), LABELS),
}


@pytest.mark.parametrize(("error", "X", "y"), UNFITTABLE.values(), ids=UNFITTABLE)
@pytest.mark.parametrize("make", [ExpectationConsistency, TemperatureScaling])
def test_a_fit_that_fails_leaves_the_calibrator_as_it_was(make, error, X, y):
    y = [NAMES[k] if k < 4 else "eel" for k in y]
    calibrator = make(classes=NAMES).fit(LOGITS, np.array(NAMES)[LABELS])
    before = deepcopy(vars(calibrator))
    with pytest.raises(error):
        calibrator.fit(X, y)
    assert vars(calibrator).keys() == before.keys()
    assert all(np.array_equal(value, before[key]) for key, value in vars(calibrator).items())


def test_clone_copies_the_parameters_and_forgets_the_fit():
    fitted = ExpectationConsistency(top_n=2, input="logits", classes=NAMES).fit(LOGITS, np.array(NAMES)[LABELS])
    copy = clone(fitted)
    expected = {"top_n": 2, "smooth_labels": False, "input": "logits", "classes": NAMES, "floor": "auto"}
    assert copy.get_params() == expected == fitted.get_params()
    assert not hasattr(copy, "temperature_")
    assert clone(from_temperature(2.0, input="probabilities", floor=None)).get_params() == {
        "temperature": 2.0,
        "input": "probabilities",
        "classes": None,
        "floor": None,
    }


def test_set_params_changes_the_next_fit():
    calibrator = ExpectationConsistency().fit(LOGITS, LABELS)
    calibrator.set_params(top_n=2).fit(LOGITS, LABELS)
    assert calibrator.temperature_ == pytest.approx(reference.ec_temperature(LOGITS, LABELS, top_n=2), rel=1e-8)


@pytest.mark.parametrize("classes", [None, NAMES])
def test_a_pickle_predicts_the_same(classes):
    labels = LABELS if classes is None else np.array(classes)[LABELS]
    for fitted, X in (
        (ExpectationConsistency(classes=classes).fit(TABLE, labels), TABLE),
        (TemperatureScaling(classes=classes).fit(TABLE, labels), TABLE),
        (from_temperature(2.0, classes=classes), LOGITS),
    ):
        copy = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(copy.predict_proba(X), fitted.predict_proba(X))
        np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
        assert getattr(copy, "fit_info_", None) == getattr(fitted, "fit_info_", None)


def test_permuted_or_renamed_columns_are_refused_everywhere():
    fitted = ExpectationConsistency().fit(TABLE, LABELS)
    assert fitted.feature_names_in_.tolist() == NAMES
    for other in (TABLE[NAMES[::-1]], TABLE.rename(columns={"ant": "eel"})):
        for apply in (fitted.predict_proba, fitted.predict_log_proba, fitted.predict, fitted.transform):
            with pytest.raises(InputError, match="feature names should match"):
                apply(other)


def test_fitting_again_without_names_forgets_them():
    calibrator = ExpectationConsistency().fit(TABLE, LABELS).fit(LOGITS, LABELS)
    assert not hasattr(calibrator, "feature_names_in_")
    with pytest.warns(UserWarning, match="fitted without feature names"):
        calibrator.predict_proba(TABLE.rename(columns={"ant": "eel"}))


def test_classes_in_another_order_than_the_named_columns_are_refused_before_the_search():
    with pytest.raises(InputError, match="must be in the order of the columns"):
        ExpectationConsistency(classes=NAMES[::-1]).fit(TABLE, np.array(NAMES)[LABELS])


def probabilities_with_zeros():
    p = reference.softmax(LOGITS)
    p[p < 0.02] = 0
    return p / p.sum(axis=1, keepdims=True)


@METHODS
@pytest.mark.parametrize(
    ("store", "tiny"),
    [
        (np.float64, np.finfo(np.float64).smallest_normal),
        (np.float32, np.finfo(np.float32).smallest_normal),
        (np.float16, np.finfo(np.float16).smallest_normal),
        (ml_dtypes.bfloat16, np.finfo(np.float32).smallest_normal),
        (torch.float32, np.finfo(np.float32).smallest_normal),
        (torch.float16, np.finfo(np.float16).smallest_normal),
        (torch.bfloat16, np.finfo(np.float32).smallest_normal),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
def test_an_exact_zero_counts_as_the_smallest_normal_number_of_its_dtype(method, definition, gap, store, tiny):
    p = probabilities_with_zeros()
    stored = torch.from_numpy(p).to(store) if isinstance(store, torch.dtype) else p.astype(store)
    exact = stored.double().numpy() if isinstance(store, torch.dtype) else stored.astype(np.float64)
    fitted = method(input="probabilities", floor=None).fit(stored, LABELS)
    expected = definition(np.log(np.where(exact == 0, float(tiny), exact)), LABELS)
    assert fitted.temperature_ == pytest.approx(expected, rel=1e-8)
    assert fitted.fit_info_.n_zeros == (exact == 0).sum() > 0


@METHODS
def test_probabilities_their_logarithms_and_the_logits_have_one_temperature(method, definition, gap):
    p = reference.softmax(LOGITS)
    fits = [
        method().fit(LOGITS, LABELS),
        method().fit(np.log(p), LABELS),
        method(input="probabilities", floor=None).fit(p, LABELS),
    ]
    assert [fit.temperature_ for fit in fits] == pytest.approx([definition(LOGITS, LABELS)] * 3, rel=1e-8)
    assert fits[2].fit_info_.n_zeros == 0
    for fit, scores in zip(fits, (LOGITS, np.log(p), p), strict=True):
        np.testing.assert_allclose(fit.predict_proba(scores), reference.softmax(LOGITS, fits[0].temperature_), rtol=1e-7)
    assert temperatures(p, LABELS, input="probabilities", floor=None).ts == pytest.approx(
        temperatures(LOGITS, LABELS).ts, rel=1e-8
    )


def test_what_looks_like_probabilities_is_refused_and_stays_logits_where_that_is_said():
    p = reference.softmax(LOGITS)
    with pytest.raises(InputError, match=r"^`X` must be declared as logits or probabilities, got numbers from"):
        TemperatureScaling().fit(p, LABELS)
    fitted = TemperatureScaling(input="logits").fit(p, LABELS)
    assert (fitted.input, fitted.input_) == ("logits", "logits")
    assert fitted.temperature_ == pytest.approx(reference.ts_temperature(p, LABELS), rel=1e-8)


def test_logits_for_a_calibrator_of_probabilities_are_answered_with_what_helps():
    fitted = TemperatureScaling(input="probabilities").fit(reference.softmax(LOGITS), LABELS)
    said = r"The calibrator was fitted to probabilities\. If these are logits, fit one to logits\.$"
    for use in (lambda: fitted.predict_proba(LOGITS), lambda: nishimori.evaluate(LOGITS, LABELS, calibrator=fitted)):
        with pytest.raises(InputError, match=said):
            use()
    assert TemperatureScaling().fit(LOGITS, LABELS).predict_proba(LOGITS).shape == LOGITS.shape


def test_one_hot_probabilities_are_calibrated_too():
    certain = np.eye(4)[LOGITS.argmax(axis=1)]
    fitted = ExpectationConsistency(input="probabilities", floor=None).fit(certain, LABELS)
    assert fitted.fit_info_.n_zeros == 900
    assert fitted.predict_proba(certain).max(axis=1).mean() == pytest.approx(fitted.fit_info_.accuracy, abs=1e-9)
