import warnings

import numpy as np
import pytest
import reference
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling, evaluate, metrics, temperatures
from nishimori._rows.entry import open_rows
from nishimori._sums.census import census
from nishimori.errors import FewErrorsWarning, InputError, InputWarning

EQUAL = pytest.approx


def test_effective_counts_are_the_squared_sum_over_the_sum_of_squares():
    logits, labels = reference.drawn(200, 4)
    weights = np.random.default_rng(3).exponential(size=200)
    found = census(open_rows(logits, labels, weights))
    right = logits.argmax(axis=1) == labels
    for name, rows in (("right", right), ("wrong", ~right)):
        assert found.effective[name] == EQUAL(weights[rows].sum() ** 2 / (weights[rows] ** 2).sum())


def test_the_distance_from_chance_is_counted_in_standard_errors_of_the_weighted_accuracy():
    logits, labels = reference.drawn(200, 4)
    weights = np.random.default_rng(3).exponential(size=200)
    found = census(open_rows(logits, labels, weights))
    accuracy = np.average(logits.argmax(axis=1) == labels, weights=weights)
    error = np.sqrt(accuracy * (1 - accuracy) * (weights**2).sum()) / weights.sum()
    assert found.above_chance == EQUAL((accuracy - 0.25) / error)


def test_chance_is_one_over_the_classes_that_are_not_masked():
    logits, labels = reference.drawn(100, 4)
    logits[:40, 3] = -np.inf
    labels = np.minimum(labels, 2)
    assert census(open_rows(logits, labels)).chance == EQUAL(40 / 3 + 60 / 4)


@pytest.mark.parametrize("fit", [ExpectationConsistency().fit, TemperatureScaling().fit, temperatures])
def test_answers_hardly_better_than_chance_are_a_warning(fit):
    rng = np.random.default_rng(0)
    logits, labels = 3 * rng.normal(size=(1000, 5)), rng.integers(0, 5, size=1000)
    top = logits.argmax(axis=1)
    right = np.flatnonzero(top == labels)
    wrong = np.flatnonzero(top != labels)
    labels[right[215:]] = (labels[right[215:]] + 1) % 5
    labels[wrong[: max(0, 215 - len(right))]] = top[wrong[: max(0, 215 - len(right))]]
    logits[top == labels] *= 1.5  # so that both temperatures exist
    message = (
        r"^Accuracy 0\.215 is less than two standard errors above chance, 0\.2, so the temperature is uncertain; check that"
    )
    with pytest.warns(FewErrorsWarning, match=message) as caught:
        fit(logits, labels)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_one_dominating_weight_is_a_warning():
    logits, labels = reference.drawn(500, 5)
    weights = np.ones(500)
    weights[np.flatnonzero(logits.argmax(axis=1) == labels)[0]] = 1e4
    message = r"^The \d+ of 500 validation samples that are answered right have such unequal weights that they count as 1\.1, "
    with pytest.warns(FewErrorsWarning, match=message):
        ExpectationConsistency().fit(logits, labels, weights)


def test_equal_weights_and_ordinary_answers_are_no_reason_to_warn():
    logits, labels = reference.drawn(500, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        temperatures(logits, labels)
        ExpectationConsistency().fit(logits, labels, np.full(500, 0.25))


X, Y = load_digits(return_X_y=True)
FOREST = RandomForestClassifier(10, random_state=0).fit(X[:1078], Y[:1078])
P, TRUTH = FOREST.predict_proba(X[1078:]), Y[1078:]
N_ZEROS = int((P[np.arange(len(P)), TRUTH] == 0).sum())

ON_TS, AUTO = "the temperature of temperature scaling", ", or `floor='auto'`"
ON_ZEROS = {
    "fit": (TemperatureScaling(input="probabilities", floor=None).fit, ON_TS, AUTO),
    "temperatures": (lambda p, y: temperatures(p, y, input="probabilities", floor=None), ON_TS, AUTO),
    "nll": (lambda p, y: metrics.nll(p, y, input="probabilities"), "the loss", ""),
    "evaluate": (lambda p, y: evaluate(p, y, input="probabilities"), "the loss", ""),
}


@pytest.mark.parametrize(("use", "what", "remedy"), ON_ZEROS.values(), ids=ON_ZEROS)
def test_true_classes_of_probability_zero_are_a_warning_that_counts_them(use, what, remedy):
    assert N_ZEROS > 0
    message = (
        rf"^The true class has probability 0 in {N_ZEROS} of 719 samples, so {what} depends on what 0 is replaced by: here the "
        r"smallest positive number of its dtype\. Pass `floor`, the lowest probability that you consider possible"
        rf"{remedy}\.$"
    )
    with pytest.warns(InputWarning, match=message):
        use(P, TRUTH)


def test_expectation_consistency_and_metrics_without_logarithms_do_not_warn_of_zeros():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ExpectationConsistency(input="probabilities").fit(P, TRUTH)
        metrics.brier(P, TRUTH, input="probabilities")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_with_a_floor_the_temperature_does_not_depend_on_the_dtype(dtype):
    fitted = TemperatureScaling(input="probabilities", floor=1e-6).fit(P.astype(dtype), TRUTH)
    expected = reference.ts_temperature(np.log(np.maximum(P, 1e-6)), TRUTH)
    assert fitted.temperature_ == EQUAL(expected, rel=1e-8 if dtype is np.float64 else 1e-5)


FLOORED = {
    "temperatures": lambda p, y, **k: temperatures(p, y, **k).ts,
    "curve": lambda p, y, **k: nishimori.temperature_curve(p, y, grid=[2.0], **k).loss[0],
    "evaluate": lambda p, y, **k: evaluate(p, y, **k).nll,
    "nll": metrics.nll,
    "brier": metrics.brier,
    "confidence": metrics.confidence,
    "ece": metrics.ece,
    "error": metrics.error,
    "accuracy": metrics.accuracy,
    "top 2": lambda p, y, **k: metrics.top_n_accuracy(p, y, top_n=2, **k),
    "predictions": lambda p, y, **k: nishimori.from_temperature(2.0, **k).predict_proba(p)[0].tolist(),
}


@pytest.mark.parametrize("use", FLOORED.values(), ids=FLOORED)
def test_a_floor_raises_smaller_probabilities_everywhere(use):
    raised = np.maximum(P, 0.01)
    expected = use(np.log(raised), TRUTH, input="logits")
    assert use(P, TRUTH, input="probabilities", floor=0.01) == EQUAL(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("floor", "input", "message"),
    [
        (0.01, "logits", "`floor` must be left out for logits: it is the lowest probability. Pass `input='probabilities'`."),
        (0, "probabilities", "`floor` must be positive, got 0. Pass None to raise only exact zeros."),
        (-1.0, "probabilities", "`floor` must lie between 0 and 0.5, got -1.0."),
        (0.7, "probabilities", "`floor` must lie between 0 and 0.5, got 0.7."),
        ("1e-6", "probabilities", "`floor` must lie between 0 and 0.5, got '1e-6'."),
    ],
)
def test_what_is_no_floor_is_refused(floor, input, message):
    for use in (metrics.nll, ExpectationConsistency(input=input, floor=floor).fit):
        with pytest.raises(nishimori.errors.InputError) as raised:
            use(P, TRUTH, input=input, floor=floor) if use is metrics.nll else use(P, TRUTH)
        assert str(raised.value) == message


def test_a_floor_is_saved_and_loaded(tmp_path):
    TemperatureScaling(input="probabilities", floor=1e-3).fit(P, TRUTH).save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    expected = reference.softmax(np.log(np.maximum(P, 1e-3)), loaded.temperature_)
    np.testing.assert_allclose(loaded.predict_proba(P), expected, rtol=1e-9)
    with pytest.raises(nishimori.errors.InputError, match=r"^`floor` must be that of the calibrator, 0\.001, got 0\.1\.$"):
        evaluate(P, TRUTH, calibrator=loaded, floor=0.1)


LOOKS = {
    "EC": lambda p, y: ExpectationConsistency().fit(p, y),
    "temperatures": temperatures,
    "curve": lambda p, y: nishimori.temperature_curve(p, y, grid=[1.0]),
    "evaluate": evaluate,
    "ece": metrics.ece,
    "predictions": lambda p, y: nishimori.from_temperature(1.5).predict_proba(p),
    "transform": lambda p, y: nishimori.from_temperature(1.5).transform(p),
}


REFUSED = {name: use for name, use in LOOKS.items() if name not in ("predictions", "transform")}


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_scores_between_0_and_1_are_refused_until_the_user_says_what_they_are(use):
    message = (
        r"^`(X|logits)` must be declared as logits or probabilities, got numbers from 0 to 1 only, in rows that sum to 1\. "
        r"Pass `input='probabilities'` if these are probabilities, or `input='logits'` if they are scores before the softmax\.$"
    )
    with pytest.raises(InputError, match=message):
        use(P, TRUTH)


@pytest.mark.parametrize("use", [LOOKS["predictions"], LOOKS["transform"]], ids=["predictions", "transform"])
def test_predicting_from_probabilities_with_a_calibrator_of_logits_is_one_warning(use):
    message = (
        r"^Each row of `X` sums to 1, as probabilities do\. If these are probabilities, fit a calibrator with "
        r"`input='probabilities'`; they are used as logits\.$"
    )
    with pytest.warns(InputWarning, match=message) as caught:
        use(P, TRUTH)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    nishimori.from_temperature(1.5, input="logits").predict_proba(P)


def test_a_binary_score_between_0_and_1_is_refused_from_20_rows_on():
    z, y = np.random.default_rng(0).random(100), np.arange(100) % 2
    with pytest.raises(InputError, match=r"^`logits` must be declared as .* as probabilities are\. Pass `input='prob"):
        metrics.ece(z, y)
    with pytest.raises(InputError, match=r"^`logits` must be declared"):
        metrics.ece(z[:20], y[:20])
    metrics.ece(z[:19], y[:19])
    assert metrics.ece(z, y, input="logits") == EQUAL(metrics.ece(np.stack([0 * z, z], axis=1), y, input="logits"))


def test_outputs_of_a_sigmoid_per_class_name_the_multilabel_calibrator():
    given, labels = sigmoids(4.0)
    with pytest.raises(
        InputError, match=r"rows that do not sum to 1, .*use nishimori\.multilabel\.MultilabelCalibrator\. Pass `input="
    ):
        metrics.ece(given, labels)


ONE_BELOW = P.copy()
ONE_BELOW[-1, -1] = -1e-9
NOT_REFUSED = {
    "one negative, in the last row": ONE_BELOW,
    "whole": np.round(P).astype(int),
    "equal": np.full((719, 10), 0.5),
    "4 rows": P[:4],
    "log-probabilities": np.log(np.maximum(P, 1e-9)),
}


@pytest.mark.parametrize("logits", NOT_REFUSED.values(), ids=NOT_REFUSED)
def test_what_can_be_logits_is_neither_refused_nor_a_warning(logits):
    metrics.ece(logits, TRUTH[: len(logits)])


@pytest.mark.parametrize("kind", [float, int])
def test_ratings_from_1_to_10_are_a_warning_that_input_logits_silences(kind):
    ratings = np.random.default_rng(0).integers(1, 11, size=(100, 3)).astype(kind)
    labels = ratings.argmax(axis=1)
    with pytest.warns(InputWarning, match=r"^All `logits` lie between 1 and 10, .* say so with `input='logits'`"):
        found = metrics.nll(ratings, labels)
    assert metrics.nll(ratings, labels, input="logits") == found == EQUAL(reference.nll(ratings.astype(float), labels))


def test_rows_of_weight_zero_may_hold_anything():
    padding = np.concatenate([np.full((10, 10), -7.0), P])
    weights, labels = np.r_[np.zeros(10), np.ones(len(P))], np.r_[np.zeros(10, int), TRUTH]
    with pytest.raises(InputError, match="must be declared as"):
        metrics.accuracy(padding, labels, sample_weight=weights)
    metrics.accuracy(padding, labels)


def sigmoids(scale, n_rows=200, n_classes=10):
    scores = scale * np.random.default_rng(0).normal(size=(n_rows, n_classes)) - scale / 2
    return 1 / (1 + np.exp(-scores)), np.arange(n_rows) % n_classes


@pytest.mark.parametrize("decades", [7, 9, 15])
def test_effective_counts_do_not_cancel_where_right_answers_outweigh_wrong_ones(decades):
    logits, labels = reference.drawn(400, 4)
    wrong = logits.argmax(axis=1) != labels
    found = census(open_rows(logits, labels, np.where(wrong, 1.0, 10.0**decades)))
    assert found.effective["wrong"] == EQUAL(wrong.sum())


def test_ten_answers_of_equal_fractional_weight_are_ten():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(100, 3))
    labels = logits.argmax(axis=1)
    labels[:10] = np.argsort(logits[:10], axis=1)[:, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ExpectationConsistency().fit(logits, labels, np.full(100, 0.3))


class Halved(nishimori.Map):
    """A map that is not known to be a temperature."""

    kind = "halved"

    def apply(self, logits, groups=None):
        return logits / 2

    @property
    def parameters(self):
        return {}


def test_zeros_at_the_true_class_are_noticed_after_any_map():
    fixed = nishimori.calibrators.FixedMap(Halved(), input="probabilities").fit(P, TRUTH)
    with pytest.warns(InputWarning, match=f"^The true class has probability 0 in {N_ZEROS} of 719 samples, so the loss"):
        evaluate(P, TRUTH, calibrator=fixed)


def half_precision():
    torch = pytest.importorskip("torch")
    return torch.tensor(reference.softmax(reference.drawn(50, 40)[0])).to(torch.bfloat16)


ALMOST = {
    "bfloat16": (half_precision, None),
    "a little over 1": (lambda: np.where(P.max() == P, 1 + 1e-7, P), None),
    "after padding": (lambda: np.concatenate([np.full((10, 10), -7.0), P]), lambda: np.r_[np.zeros(10), np.ones(len(P))]),
}


@pytest.mark.parametrize(("scores", "weights"), ALMOST.values(), ids=ALMOST)
def test_rounded_probabilities_and_those_after_padding_are_noticed_too(scores, weights):
    z = scores()
    with pytest.raises(InputError, match=r"^`logits` must be declared .* in rows that sum to 1\."):
        metrics.accuracy(z, np.zeros(len(z), dtype=int), sample_weight=None if weights is None else weights())


def test_a_floor_that_could_change_the_prediction_is_refused():
    message = r"^`floor` must be below 1/3, or it could change which of 3 classes is predicted, got 0\.4\.$"
    with pytest.raises(nishimori.errors.InputError, match=message):
        nishimori.from_temperature(1.0, input="probabilities", floor=0.4).predict([[0.2, 0.45, 0.35]])


@pytest.mark.parametrize("floor", [np.float32(1e-3), np.float16(1e-3), np.array(1e-3)], ids=lambda each: type(each).__name__)
def test_a_floor_of_numpy_can_be_saved(tmp_path, floor):
    TemperatureScaling(input="probabilities", floor=floor).fit(P, TRUTH).save(tmp_path / "c.json")
    assert nishimori.load(tmp_path / "c.json").floor == float(floor)
