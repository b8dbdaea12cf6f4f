"""Temperatures and scorecards from a sketch are those of the rows."""

import pickle
import weakref
from functools import partial

import numpy as np
import pytest
import reference
from optional import jnp, torch

import nishimori
from nishimori import ExpectationConsistency, Sketch, TemperatureScaling, evaluate, metrics, temperature_curve, temperatures
from nishimori.calibrators import Matched
from nishimori.errors import InputError, NotConvergedError, NoTemperatureError

LOGITS, LABELS = reference.drawn(1500, 6)
WEIGHTS = np.random.default_rng(1).integers(0, 4, 1500).astype(float)
SKETCH = Sketch().update(LOGITS, LABELS)
METRICS = ("error", "accuracy", "confidence", "ece", "brier", "nll")


class Cubed(nishimori.Observable):
    """An observable of a user's own."""

    def values(self, logits):
        return np.sign(logits) * np.abs(logits) ** 1.5


@pytest.mark.parametrize("scale", [0.026, 0.1, 0.77, 1.0, 1.3, 4.0, 9.5])
def test_temperatures_are_those_of_the_definition_over_the_whole_range(scale):
    scaled = LOGITS * scale
    sketch = Sketch().update(scaled, LABELS)
    ec, ts = reference.ec_temperature(scaled, LABELS), reference.ts_temperature(scaled, LABELS)
    assert ExpectationConsistency().fit(sketch).temperature_ == pytest.approx(ec, rel=1e-8)
    assert TemperatureScaling().fit(sketch).temperature_ == pytest.approx(ts, rel=1e-8)
    found = temperatures(sketch)
    assert (found.ec, found.ts) == (pytest.approx(ec, rel=1e-8), pytest.approx(ts, rel=1e-8))


def test_weights_count_copies_and_rows_of_weight_zero_are_not_looked_at():
    logits, labels = LOGITS.copy(), LABELS.copy()
    logits[WEIGHTS == 0], labels[WEIGHTS == 0] = np.nan, -100
    found = temperatures(Sketch().update(logits, labels, WEIGHTS))
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS, WEIGHTS), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(LOGITS, LABELS, WEIGHTS), rel=1e-8)
    assert found.n_samples == (WEIGHTS > 0).sum()


def test_a_batch_in_which_no_row_counts_adds_nothing():
    before = SKETCH.state
    SKETCH.update(np.full((3, 6), np.nan), [-100] * 3, np.zeros(3))
    assert all(np.array_equal(SKETCH.state[name], before[name]) for name in before)


def test_a_source_is_taken_as_rows():
    from nishimori._rows.entry import open_rows

    rows = open_rows(LOGITS, LABELS, WEIGHTS)
    found = temperatures(Sketch().update(rows))
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS, WEIGHTS), rel=1e-8)
    with pytest.raises(InputError, match="`clusters` must be left out where `logits` is a Rows object"):
        Sketch().update(Listed(rows), clusters=LABELS)


class Listed:
    """A source that is not an array."""

    n_classes, n_rows, sample = 6, None, None

    def __init__(self, rows):
        self.gather = rows.gather


def test_masked_classes_have_no_weight():
    masked = LOGITS.copy()
    hidden = np.random.default_rng(2).random(LOGITS.shape) < 0.3
    hidden[np.arange(1500), LABELS] = False
    masked[hidden] = -np.inf
    sketch = Sketch().update(masked, LABELS)
    found = temperatures(sketch)
    assert found.ec == pytest.approx(reference.ec_temperature(masked, LABELS), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(masked, LABELS), rel=1e-8)
    assert ExpectationConsistency().fit(sketch).fit_info_.n_masked == hidden.sum()


def test_a_masked_true_class_leaves_ec_and_refuses_ts_as_a_fit_to_rows_does():
    masked = LOGITS.copy()
    masked[:5, :][np.arange(5), LABELS[:5]] = -np.inf
    sketch = Sketch().update(masked, LABELS)
    assert temperatures(sketch).ec == pytest.approx(reference.ec_temperature(masked, LABELS), rel=1e-8)
    assert temperatures(sketch).why_no_ts == temperatures(masked, LABELS).why_no_ts
    card = evaluate(sketch, temperature=1.3)
    assert card.nll == np.inf
    assert card.brier == pytest.approx(evaluate(masked, LABELS, temperature=1.3).brier, abs=1e-7)


def test_ties_and_quantised_logits_share_their_probability():
    tied = np.round(LOGITS)
    found = temperatures(Sketch().update(tied, LABELS))
    assert found.ec == pytest.approx(temperatures(tied, LABELS).ec, rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(tied, LABELS), rel=1e-8)


def test_probabilities_labels_with_names_and_a_floor_are_read_as_elsewhere():
    p, names = reference.softmax(LOGITS), list("abcdef")
    sketch = Sketch(input="probabilities", classes=names, floor=1e-3).update(p, np.array(names)[LABELS])
    exact = temperatures(p, np.array(names)[LABELS], input="probabilities", classes=names, floor=1e-3)
    assert temperatures(sketch).ec == pytest.approx(exact.ec, rel=1e-8)
    assert temperatures(sketch).ts == pytest.approx(exact.ts, rel=1e-8)


@pytest.mark.parametrize(
    "convert",
    [torch.tensor, lambda x: torch.tensor(x, dtype=torch.float32), jnp.asarray, lambda x: x.astype(np.float32)],
    ids=["torch", "torch float32", "jax", "numpy float32"],
)
def test_arrays_of_other_libraries_and_types_are_taken(convert):
    given = convert(LOGITS)
    stored = np.asarray(given, dtype=np.float64)
    found = temperatures(Sketch().update(given, LABELS))
    assert found.ec == pytest.approx(reference.ec_temperature(stored, LABELS), rel=1e-7)
    assert found.ts == pytest.approx(reference.ts_temperature(stored, LABELS), rel=1e-7)


@pytest.mark.parametrize("scale", [0.03, 0.1, 1.0, 8.0])
def test_rounded_logits_whose_errors_do_not_average_out_keep_the_promise(scale):
    coarse = (np.round(LOGITS * 2) / 2 * scale).astype(np.float32)
    stored = coarse.astype(np.float64)
    found = temperatures(Sketch().update(coarse, LABELS))
    assert found.ec == pytest.approx(temperatures(stored, LABELS).ec, rel=2e-7)
    assert found.ts == pytest.approx(reference.ts_temperature(stored, LABELS), rel=2e-7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_on_a_cuda_device_are_taken():
    found = temperatures(Sketch().update(torch.tensor(LOGITS).cuda(), torch.tensor(LABELS).cuda()))
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-7)


def test_an_observable_of_ones_own_is_matched():
    sketch = Sketch(("ec", Cubed())).update(LOGITS, LABELS)
    exact = Matched(Cubed()).fit(LOGITS, LABELS)
    assert Matched(Cubed()).fit(sketch).temperature_ == pytest.approx(exact.temperature_, rel=1e-8)
    assert TemperatureScaling().fit(Sketch(("ts",)).update(LOGITS, LABELS)).temperature_ == pytest.approx(
        reference.ts_temperature(LOGITS, LABELS), rel=1e-8
    )


def test_an_observable_whose_mean_falls_is_refused_as_in_a_fit_to_rows():
    class Falling(nishimori.Observable):
        def values(self, logits):
            return -logits

    with pytest.raises(InputError, match="`Falling` must have a mean under the model that grows as T falls"):
        Matched(Falling()).fit(Sketch((Falling(),)).update(LOGITS, LABELS))


def test_the_fit_info_tells_one_reading_and_what_the_rows_are():
    fit_info = ExpectationConsistency().fit(SKETCH).fit_info_
    assert (fit_info.n_passes, fit_info.n_samples) == (1, 1500)
    assert fit_info.accuracy == pytest.approx(np.mean(LOGITS.argmax(axis=1) == LABELS))
    assert abs(fit_info.residual) < 1e-12


def test_a_calibrator_fitted_to_a_sketch_predicts_like_one_fitted_to_rows():
    fitted = ExpectationConsistency().fit(SKETCH)
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), ExpectationConsistency().fit(LOGITS, LABELS).predict_proba(LOGITS))


@pytest.mark.parametrize("T", [2.0**-2.5, 0.5, 1.0, 2.0**0.25, 4.0, 2**4.5, 2.0**-4.5])
def test_at_a_temperature_of_the_grid_all_metrics_are_those_of_the_rows(T):
    sketch = Sketch().update(LOGITS, LABELS, WEIGHTS)
    mine, exact = evaluate(sketch, temperature=T), evaluate(LOGITS, LABELS, temperature=T, sample_weight=WEIGHTS)
    for name in METRICS:
        assert getattr(mine, name) == pytest.approx(getattr(exact, name), rel=1e-10, abs=1e-14)
    for name in ("confidence", "accuracy", "weight", "count", "lower", "upper", "gap"):
        np.testing.assert_allclose(getattr(mine.reliability, name), getattr(exact.reliability, name), rtol=1e-9, atol=1e-12)
    assert (mine.n_samples, mine.temperature) == (exact.n_samples, T)
    assert (mine.reliability.n_bins, mine.reliability.strategy) == (15, "uniform")


@pytest.mark.parametrize("T", [0.05, 0.07, 0.3, 0.93, 1.1, 1.77, 2.9, 19.0, 20.0])
def test_between_temperatures_of_the_grid_metrics_are_interpolated(T):
    mine, exact = evaluate(SKETCH, temperature=T), evaluate(LOGITS, LABELS, temperature=T)
    assert (mine.error, mine.accuracy) == pytest.approx((exact.error, exact.accuracy), abs=1e-14)
    for name in ("confidence", "brier", "nll"):
        assert getattr(mine, name) == pytest.approx(getattr(exact, name), abs=1e-7)
    assert mine.ece == pytest.approx(exact.ece, abs=5e-3)
    assert mine.reliability.weight.sum() == pytest.approx(1500)


def test_the_default_temperature_of_a_scorecard_is_one():
    assert evaluate(SKETCH).nll == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)
    fitted = ExpectationConsistency().fit(SKETCH)
    card = evaluate(SKETCH, calibrator=fitted)
    assert card.confidence == pytest.approx(card.accuracy, abs=1e-8)


def test_a_curve_over_temperatures_can_be_drawn_from_a_sketch():
    mine, exact = (temperature_curve(*each, grid=[0.7, 1.0, 2.2]) for each in ((SKETCH,), (LOGITS, LABELS)))
    np.testing.assert_allclose(mine.loss, exact.loss, rtol=1e-7)
    np.testing.assert_allclose(mine.confidence, exact.confidence, rtol=1e-7)


def test_a_sketch_keeps_no_rows():
    logits, labels = LOGITS.copy(), LABELS.copy()
    sketch = Sketch().update(logits, labels)
    kept = [weakref.ref(logits), weakref.ref(labels)]
    del logits, labels
    assert [each() for each in kept] == [None, None]
    assert len(pickle.dumps(sketch)) == pytest.approx(len(pickle.dumps(Sketch().update(LOGITS[:10], LABELS[:10]))), abs=100)
    assert len(pickle.dumps(sketch)) < 1_000_000


def test_rows_come_one_at_a_time_or_all_at_once():
    one_by_one = Sketch()
    for logit, label in zip(LOGITS[:40], LABELS[:40], strict=True):
        one_by_one.update(logit[None], [label])
    at_once = Sketch().update(LOGITS[:40], LABELS[:40])
    assert temperatures(one_by_one).ec == pytest.approx(temperatures(at_once).ec, rel=1e-12)


def test_a_sketch_that_was_pickled_goes_on():
    copy = pickle.loads(pickle.dumps(Sketch().update(LOGITS[:700], LABELS[:700])))
    copy.update(LOGITS[700:], LABELS[700:])
    assert temperatures(copy).ec == pytest.approx(temperatures(SKETCH).ec, rel=1e-12)


P = reference.softmax(LOGITS)
USES = {
    "temperatures": temperatures,
    "fit": lambda sketch: ExpectationConsistency().fit(sketch),
    "evaluate": nishimori.evaluate,
    "curve": nishimori.temperature_curve,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_sketch_of_what_looks_like_probabilities_is_refused_where_it_is_used(use):
    sketch = Sketch().update(P[:100], LABELS[:100]) + Sketch().update(P[100:], LABELS[100:])
    for each in (sketch, Sketch.from_bytes(sketch.to_bytes())):
        with pytest.raises(
            nishimori.errors.InputError, match=r"^`(X|logits)` must be declared as logits or probabilities, got numbers"
        ):
            use(each)
    use(Sketch(input="logits").update(P, LABELS))


def test_a_sketch_of_sigmoids_names_what_is_for_several_labels():
    sketch = Sketch().update(np.sqrt(P), LABELS)
    wanted = r"do not sum to 1.*use nishimori\.multilabel\.MultilabelCalibrator\. Make the sketch again: with"
    with pytest.raises(InputError, match=wanted):
        temperatures(sketch)


def test_one_negative_score_in_the_last_part_makes_a_sketch_one_of_logits():
    last = P[-50:].copy()
    last[7, 3] = -0.1
    sketch = Sketch().update(P[:-50], LABELS[:-50]) + Sketch().update(last, LABELS[-50:])
    assert temperatures(sketch).n_samples == len(P)
    assert temperatures(Sketch.from_bytes(sketch.to_bytes())).n_samples == len(P)


def test_a_sketch_of_probabilities_needs_a_floor_and_says_how_to_choose_it():
    with pytest.raises(
        nishimori.errors.InputError, match=r"^`floor` must be a number or None .*input='probabilities'\)\.floor`"
    ):
        Sketch(input="probabilities")
    assert Sketch(input="probabilities", floor=None).floor is None


def test_few_wrong_answers_give_the_usual_warning():
    logits, labels = LOGITS[:60], LOGITS[:60].argmax(axis=1)
    labels[:3] = (labels[:3] + 1) % 6
    sketch = Sketch(temperatures=(0.01, 100)).update(logits, labels)
    with pytest.warns(nishimori.errors.FewErrorsWarning, match="Only 3 of 60 validation samples are answered wrong"):
        ExpectationConsistency().fit(sketch)


# What a sketch cannot answer


@pytest.mark.parametrize("labels", [LOGITS.argmax(axis=1), LOGITS.argmin(axis=1)], ids=["all right", "all wrong"])
def test_where_no_temperature_fits_the_reason_is_that_of_a_fit_to_rows(labels):
    sketch = Sketch().update(LOGITS, labels)
    for method in (ExpectationConsistency(), TemperatureScaling()):
        with pytest.raises(NoTemperatureError) as exact:
            method.fit(LOGITS, labels)
        with pytest.raises(NoTemperatureError) as found:
            method.fit(sketch)
        assert str(found.value) == str(exact.value)
        assert found.value.end == exact.value.end


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (
            100,
            "The temperature must lie in the range of the sketch, got one above 22.63. Make the sketch with a wider range, "
            "such as `temperatures=(0.044, 230.0)`.",
        ),
        (
            0.001,
            "The temperature must lie in the range of the sketch, got one below 0.04419. Make the sketch with a wider range, "
            "such as `temperatures=(0.0044, 23.0)`.",
        ),
    ],
)
def test_a_temperature_outside_the_grid_is_refused_and_a_wider_grid_finds_it(scale, message):
    with pytest.raises(InputError) as refused:
        ExpectationConsistency().fit(Sketch().update(LOGITS * scale, LABELS))
    assert str(refused.value) == message
    wider = Sketch(temperatures=(1e-3, 1e3)).update(LOGITS * scale, LABELS)
    exact = reference.ec_temperature(LOGITS * scale, LABELS)
    assert ExpectationConsistency().fit(wider).temperature_ == pytest.approx(exact, rel=1e-8)


def with_rare_errors(share):
    """Sure rows, and wrong ones of tiny weight: the doubt changes by orders of magnitude from one node to the next."""
    labels = np.arange(40) % 2
    return Sketch().update(np.array([[0.0, -30.0]] * 40), labels, np.where(labels == 1, share, 1.0))


@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-9])
def test_errors_as_rare_as_one_in_a_billion_still_decide_the_temperature(share):
    fitted = ExpectationConsistency().fit(with_rare_errors(share))
    assert fitted.temperature_ == pytest.approx(30 / np.log(1 / share), rel=1e-8)


@pytest.mark.parametrize("share", [1e-14, 1e-20])
def test_where_interpolation_cannot_keep_its_promise_it_is_refused(share):
    with pytest.raises(NotConvergedError) as refused:
        ExpectationConsistency().fit(with_rare_errors(share))
    assert str(refused.value).startswith("No temperature can be determined from the sketch: around T = ")
    assert str(refused.value).endswith(" of its value. Make the sketch with `nodes_per_octave=8`, or fit to logits and labels.")


USES = {
    "temperatures": temperatures,
    "evaluate": evaluate,
    "temperature_curve": temperature_curve,
    **{
        f"a test of {statistic}": partial(nishimori.calibration_test, statistic=statistic)
        for statistic in ("confidence", "energy", "temperatures")
    },
}
EMPTY = "The sketch must hold at least one row of positive weight, got none. Call its `update` first."


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: evaluate(SKETCH, n_bins=10),
            "`n_bins` must be 15 and `strategy` 'uniform' for a sketch, got 10 and 'uniform'.",
        ),
        (
            lambda: evaluate(SKETCH, strategy="quantile"),
            "`n_bins` must be 15 and `strategy` 'uniform' for a sketch, got 15 and 'quantile'.",
        ),
        (
            lambda: evaluate(SKETCH, temperature=50.0),
            "`temperature` must lie in the range of the sketch, from 0.04419 to 22.63, got 50.0. Make the sketch with a wider "
            "range of `temperatures`.",
        ),
        (
            lambda: metrics.ece(SKETCH, of="classwise"),
            "A Sketch keeps sums, and has no rows to read. Pass logits and labels instead.",
        ),
        (
            lambda: ExpectationConsistency(top_n=2).fit(SKETCH),
            "`top_n` must be 1 for a sketch, which counts right answers of the top class, got 2.",
        ),
        (
            lambda: Matched(Cubed()).fit(SKETCH),
            "The sketch must hold the observable Cubed() to fit it, got one that holds ec, ts. Make the sketch with "
            '`observables=("ec", "ts", Cubed())`.',
        ),
        (
            lambda: ExpectationConsistency().fit(Sketch(["ts"]).update(LOGITS, LABELS)),
            "The sketch must hold the observable ec to fit it, got one that holds ts. Make the sketch with "
            '`observables=("ts", "ec")`.',
        ),
        (
            lambda: ExpectationConsistency().fit(Sketch()),
            EMPTY,
        ),
        *((partial(use, Sketch()), EMPTY) for use in USES.values()),
        (
            lambda: ExpectationConsistency().fit(SKETCH, LABELS),
            "`y` must be left out where `X` is a Sketch. Pass it when you make the Sketch.",
        ),
    ],
    ids=[
        "bins",
        "quantiles",
        "range",
        "classwise",
        "top_n",
        "observable",
        "ec",
        "empty",
        *(f"empty for {name}" for name in USES),
        "labels",
    ],
)
def test_what_a_sketch_cannot_answer_is_named(ask, message):
    with pytest.raises(InputError) as refused:
        ask()
    assert str(refused.value) == message


def test_of_both_temperatures_the_one_that_is_not_held_says_so():
    found = temperatures(Sketch(["ec"]).update(LOGITS, LABELS))
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS), rel=1e-8)
    assert found.ts is None
    assert found.why_no_ts.startswith("The sketch must hold the observable ts to fit it")


def test_a_map_that_is_more_than_a_temperature_is_refused():
    from nishimori._evaluation.scorecard import scorecards

    class Shift(nishimori.Map):
        kind = "shift"
        parameters = ()

        def apply(self, logits):
            return logits + 1

    with pytest.raises(InputError, match="`calibrator` must divide logits by one temperature to be evaluated on a sketch"):
        scorecards(SKETCH, [Shift()])
