"""Smoothed labels always have a temperature: that of the definitions, or one at which all classes are equally probable."""

import numpy as np
import pytest
import reference
from scipy.optimize import brentq, minimize_scalar

import nishimori
from nishimori import ExpectationConsistency, Platt, TemperatureScaling, temperatures
from nishimori.errors import InputError, InputWarning, NoTemperatureError

LOGITS, LABELS = reference.drawn(60, 4)
RIGHT = LOGITS.argmax(axis=1)
WEIGHTS = np.random.default_rng(1).integers(1, 5, 60).astype(float)
UNIFORM = "^The scores say nothing about the classes, because the answers are not better than chance even with smoothed labels"


def numbers(weights, chosen, *, counts):
    """How many samples the chosen ones stand for."""
    w = weights[chosen]
    return w.sum() if counts else w.sum() ** 2 / (w**2).sum() if len(w) else 0.0


def smoothed_ec(logits, labels, weights=None, *, top_n=1, counts=False):
    """T by its definition: mean top-N probability is (right + ½)/(n + 1)."""
    weights = np.ones(len(labels)) if weights is None else weights
    n = numbers(weights, np.ones(len(labels), dtype=bool), counts=counts)
    target = (n * np.average(reference.right(logits, labels, top_n), weights=weights) + 0.5) / (n + 1)

    def gap(log_temperature):
        p = np.sort(reference.softmax(logits, np.exp(log_temperature)), axis=1)[:, -top_n:].sum(axis=1)
        return target - np.average(p, weights=weights)

    return np.exp(brentq(gap, -12, 12, xtol=1e-13))


def smoothed_ts(logits, labels, weights=None, *, counts=False):
    """T by its definition: the least cross-entropy against a table of smoothed labels."""
    weights = np.ones(len(labels)) if weights is None else weights
    live = np.isfinite(logits)
    targets = np.zeros_like(logits)
    for i, label in enumerate(labels):
        number = numbers(weights, labels == label, counts=counts)
        targets[i, live[i]] = 1 / (number + live[i].sum())
        targets[i, label] = (number + 1) / (number + live[i].sum())
    np.testing.assert_allclose(targets.sum(axis=1), 1)

    def loss(log_temperature):
        z = logits / np.exp(log_temperature)
        log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
        return -np.average((targets * np.where(live, log_p, 0)).sum(axis=1), weights=weights)

    start = min(np.linspace(-8, 8, 81), key=loss)
    return np.exp(minimize_scalar(loss, bracket=(start - 0.2, start, start + 0.2), tol=1e-14).x)


@pytest.mark.parametrize("labels", [LABELS, RIGHT], ids=["some right", "all right"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_both_temperatures_are_those_of_their_definitions(labels, weights, counts, scale):
    ec = ExpectationConsistency(smooth_labels=True).fit(scale * LOGITS, labels, weights, counts=counts)
    expected = scale * smoothed_ec(LOGITS, labels, weights, counts=counts)
    assert ec.temperature_ == pytest.approx(expected, rel=1e-8)
    ts = TemperatureScaling(smooth_labels=True).fit(scale * LOGITS, labels, weights, counts=counts)
    assert ts.temperature_ == pytest.approx(scale * smoothed_ts(LOGITS, labels, weights, counts=counts), rel=1e-6)
    for each, unit in ((ec, 1.0), (ts, scale)):
        assert abs(each.residual_) < 1e-8 * unit
        assert (each.temperature_se_, each.is_uniform_) == (None, False)


def test_the_nearer_the_data_are_to_many_the_less_smoothing_matters():
    logits, labels = reference.drawn(20_000, 3)
    plain, smooth = (
        temperatures(logits, labels),
        [kind(smooth_labels=True).fit(logits, labels).temperature_ for kind in (ExpectationConsistency, TemperatureScaling)],
    )
    assert smooth == [pytest.approx(plain.ec, rel=2e-3), pytest.approx(plain.ts, rel=2e-3)]
    assert smooth != [plain.ec, plain.ts]


@pytest.mark.parametrize("top_n", [2, 3])
def test_top_n_probability_is_matched_to_the_smoothed_top_n_accuracy(top_n):
    found = ExpectationConsistency(top_n=top_n, smooth_labels=True).fit(LOGITS, RIGHT)
    assert found.temperature_ == pytest.approx(smoothed_ec(LOGITS, RIGHT, top_n=top_n), rel=1e-8)


def test_two_classes_have_the_targets_of_platt():
    scores = np.r_[-np.arange(1.0, 8.0), np.arange(1.0, 8.0)]  # symmetric, so that Platt's intercept is zero
    labels = np.repeat([0, 1], 7)
    found = TemperatureScaling(smooth_labels=True).fit(scores, labels)
    assert 1 / found.temperature_ == pytest.approx(Platt().fit(scores, labels).parameters_["slope"], rel=1e-7)


def test_masked_classes_have_no_share_of_the_smoothed_labels_and_no_probability():
    masked = LOGITS.copy()
    masked[np.arange(0, 60, 3), LOGITS.argmin(axis=1)[::3]] = -np.inf
    labels = np.where(np.isinf(masked[np.arange(60), LABELS]), RIGHT, LABELS)
    ts = TemperatureScaling(smooth_labels=True).fit(masked, labels)
    assert ts.temperature_ == pytest.approx(smoothed_ts(masked, labels), rel=1e-6)
    assert (ts.predict_proba(masked)[np.isinf(masked)] == 0).all()
    wrong = np.where(np.isinf(masked).any(axis=1), np.isinf(masked).argmax(axis=1), (RIGHT + 1) % 4)
    with pytest.raises(InputError, match="not name a masked class"):
        TemperatureScaling(smooth_labels=True).fit(masked, wrong)
    with pytest.warns(InputWarning, match=UNIFORM):
        ec = ExpectationConsistency(smooth_labels=True).fit(masked, wrong)
    live = np.isfinite(masked)
    np.testing.assert_allclose(ec.predict_proba(masked), live / live.sum(axis=1, keepdims=True), atol=1e-6)


FLAT = np.zeros((20, 3)) + np.arange(-10, 10)[:, None]


@pytest.mark.parametrize("kind", [ExpectationConsistency, TemperatureScaling])
@pytest.mark.parametrize("logits", [LOGITS, 1e30 * LOGITS, 1e-30 * LOGITS, FLAT], ids=["usual", "huge", "tiny", "flat"])
def test_scores_that_are_worse_than_chance_or_say_nothing_give_all_classes_the_same_probability(kind, logits, tmp_path):
    labels = logits.argmin(axis=1) if logits is not FLAT else np.ones(20, dtype=int)
    with pytest.warns(InputWarning, match=UNIFORM) as warned:
        found = kind(smooth_labels=True).fit(logits, labels)
    assert len(warned) == 1
    assert found.is_uniform_
    p = found.predict_proba(logits)
    np.testing.assert_allclose(p, 1 / logits.shape[1], rtol=2e-6)
    if logits is not FLAT:
        assert (p.argmax(axis=1) == logits.argmax(axis=1)).all()  # the prediction can still be told
        single = found.predict_proba(logits.astype(np.float32))
        assert (single.argmax(axis=1) == logits.argmax(axis=1)).mean() > 0.9
    found.save(tmp_path / "uniform.json")
    loaded = nishimori.load(tmp_path / "uniform.json")
    assert (loaded.smooth_labels, loaded.is_uniform_) == (True, True)
    assert (loaded.predict_proba(logits) == p).all()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "uniform.json").read_text() == (tmp_path / "again.json").read_text()


def test_equal_largest_logits_may_keep_confidence_too_low():
    logits = np.tile([0.5, 0.5, -0.5], (20, 1))  # the confidence is at most ½, and all answers are right
    labels = np.zeros(20, dtype=int)
    with pytest.raises(NoTemperatureError, match=r"so that mean confidence stays below 0.9762 at every T\. Use temperature"):
        ExpectationConsistency(smooth_labels=True).fit(logits, labels)
    found = TemperatureScaling(smooth_labels=True).fit(logits, labels)
    assert found.temperature_ == pytest.approx(smoothed_ts(logits, labels), rel=1e-6)


def test_a_confidence_interval_of_smoothed_labels_is_refused():
    found = ExpectationConsistency(smooth_labels=True).fit(LOGITS, RIGHT)
    with pytest.raises(InputError, match=r"nor with smoothed labels\. .* fit it again, with `smooth_labels=False`\.$"):
        found.confidence_interval()


@pytest.mark.parametrize("kind", [ExpectationConsistency, TemperatureScaling])
def test_data_without_all_logits_and_words_are_refused(kind):
    sketch = nishimori.Sketch().update(LOGITS, LABELS)
    with pytest.raises(InputError, match=r"^A Sketch has no rows whose labels could be smoothed"):
        kind(smooth_labels=True).fit(sketch)
    with pytest.raises(InputError, match=r"^`smooth_labels` must be True or False, got 'yes'"):
        kind(smooth_labels="yes").fit(LOGITS, LABELS)


def test_a_comparison_uses_smoothed_labels_where_they_are_asked_for():
    methods = {"plain": "ts", "ts": TemperatureScaling(smooth_labels=True), "ec": ExpectationConsistency(smooth_labels=True)}
    compared = nishimori.compare(LOGITS, LABELS, methods=methods)
    expected = [reference.ts_temperature(LOGITS, LABELS), smoothed_ts(LOGITS, LABELS), smoothed_ec(LOGITS, LABELS)]
    assert [each.temperature for each in compared.methods] == pytest.approx(expected, rel=1e-6)
