"""Data at the edge of what is possible: an answer or a clear error, and never a number that is not one."""

import re

import numpy as np
import pytest
import reference

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling
from nishimori._fit.adaptive import Adapted
from nishimori.errors import InputError, NoTemperatureError


def test_many_rows_whose_true_class_is_masked_have_no_temperature_of_ts():
    logits, labels = reference.drawn(3000, 30, temperature=1.0)
    logits[7, labels[7]] = -np.inf
    with pytest.raises(InputError, match="must not name a masked class"):
        TemperatureScaling().fit(logits, labels)
    with pytest.warns(nishimori.errors.InputWarning, match="The temperature of EC is used as it is, because TS has none"):
        found = nishimori.compare(logits, labels)
    assert "must not name a masked class" in found["ts"].why
    assert found["ec"].temperature > 0


def test_many_rows_at_chance_have_no_temperature():
    refused = 0
    for seed in range(8, 14):
        rng = np.random.default_rng(seed)
        logits, labels = rng.normal(size=(3000, 30)), rng.integers(30, size=3000)
        is_at_chance = (logits.argmax(axis=1) == labels).mean() <= 1 / 30
        try:
            ExpectationConsistency().fit(logits, labels)
        except NoTemperatureError as error:
            refused += error.end != "uncertain"
            assert is_at_chance == (error.end != "uncertain")  # noqa: PT017 - or a warning
        except nishimori.errors.FewErrorsWarning:  # a warning is an error in tests: accuracy is not clearly above chance
            assert not is_at_chance
    assert refused


@pytest.mark.parametrize("weights", [[0.3, 0.7, 0.9, 1.1], [0.7, 0.1, 0.3], [1.0, 1.0, 1.0]])
def test_if_all_answers_are_wrong_the_interval_of_the_error_is_that_of_their_number(weights):
    n = len(weights)
    card = nishimori.evaluate([[0.0, 1.0]] * n, [0] * n, sample_weight=weights)
    number = sum(weights) ** 2 / sum(w * w for w in weights)
    low = number / (number + 1.959963984540054**2)  # Wilson's interval of a share of 1
    assert (card.error, card.accuracy) == (1.0, 0.0)
    assert card.interval("error") == pytest.approx((low, 1))
    assert card.interval("accuracy") == pytest.approx((0, 1 - low))
    top = "top_n_accuracy(top_n=1)"
    card = nishimori.evaluate([[0.0, 1.0, -9.0]] * n, [0] * n, metrics=[top], sample_weight=weights)
    assert card.interval(top) == pytest.approx((0, 1 - low))


def test_a_confidence_of_one_is_not_exceeded():
    rng = np.random.default_rng(11)
    logits, weights = 1e4 * rng.normal(size=(500, 2)), rng.random(500)
    card = nishimori.evaluate(logits, logits.argmax(axis=1), sample_weight=weights)
    low, high = card.interval("confidence")
    assert low <= card.confidence <= high <= 1


@pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning")
def test_an_interval_without_an_upper_end_is_infinite():
    # No fit gives it, because such a temperature is refused, but a file of an earlier version may hold it.
    found = Adapted(0.0, 0.1, ec_variance=1e6, ts_variance=1e6, covariance=0.0)
    low, high = found.interval(0.95)
    assert low < found.temperature < high == np.inf
    compared = nishimori.compare(*reference.drawn(300, 3), methods=("none", "ts"), level=1.0)
    assert compared["ts"].interval.high == np.inf
    assert compared.to_dict()["methods"][1]["temperature_high"] is None  # JSON has no infinity


@pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning")
def test_a_sketch_of_few_clusters_has_a_standard_error_only_where_it_can_tell():
    known = 0
    for seed in range(340, 360):
        rng = np.random.default_rng(seed)
        logits, labels = reference.drawn(20, 3, seed=seed)
        clusters = rng.integers(2, size=20)
        with pytest.warns(nishimori.errors.InputWarning, match="Standard errors from 2 clusters"):
            rows = nishimori.temperatures(logits, labels, clusters=clusters)
        sketch = nishimori.Sketch().update(logits, labels, clusters=clusters)
        with pytest.warns(nishimori.errors.InputWarning, match="Standard errors from 2 clusters"):
            sums = nishimori.temperatures(sketch)
        for mine, theirs in ((sums.ec_se, rows.ec_se), (sums.ts_se, rows.ts_se)):
            if mine is not None:
                known += 1
                assert mine == pytest.approx(theirs, rel=0.05)
    assert known


@pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning")
def test_a_bootstrap_in_which_no_resample_has_a_temperature_says_so():
    logits, labels = np.array([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]]), [0, 1, 0]
    found = nishimori.bootstrap(logits, labels, n_draws=10, seed=2)
    assert (found.n_without, len(found.temperatures)) == (10, 0)
    assert "n_without=10" in repr(found)
    with pytest.raises(InputError, match="`interval` needs a resample that has a temperature, got none"):
        found.interval()


@pytest.mark.parametrize("scale", [1e-59, 1e59])
def test_the_unit_of_weights_does_not_matter(scale):
    logits, labels = reference.drawn(700, 5)
    weights = np.random.default_rng(0).uniform(0.5, 2, 700)
    plain, scaled = (nishimori.temperatures(logits, labels, sample_weight=each) for each in (weights, scale * weights))
    assert (scaled.ec_se, scaled.ts_se) == pytest.approx((plain.ec_se, plain.ts_se), rel=1e-6)
    batches = [(logits[:300], labels[:300], scale * weights[:300]), (logits[300:], labels[300:], scale * weights[300:])]
    cards = nishimori.evaluate(logits, labels, sample_weight=weights), nishimori.evaluate(lambda: iter(batches))
    assert cards[1].nll_se == pytest.approx(cards[0].nll_se)
    for statistic in ("temperatures", "confidence"):
        one, other = (
            nishimori.calibration_test(logits, labels, statistic=statistic, sample_weight=each)
            for each in (weights, scale * weights)
        )
        assert other.p_value == pytest.approx(one.p_value, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-61, 1e61])
def test_weights_whose_fourth_power_is_out_of_range_are_refused(scale):
    logits, labels = reference.drawn(50, 3)
    with pytest.raises(InputError, match=re.escape("The largest `sample_weight` must lie between 1e-60 and 1e60")):
        nishimori.temperatures(logits, labels, sample_weight=np.full(50, scale))


def test_the_interval_of_the_ece_at_level_zero_is_in_order():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3000, 5))
    labels = (2 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    card = nishimori.evaluate(logits, labels)
    for level in (0, 0.01, 0.05, 0.5):
        low, high = card.interval("ece", level)
        assert low <= card.ece_corrected <= high


@pytest.mark.parametrize("n_classes", range(2, 41))
def test_a_uniform_model_of_uniform_labels_is_calibrated(n_classes):
    labels = np.arange(10 * n_classes) % n_classes
    found = nishimori.calibration_test(np.zeros((len(labels), n_classes)), labels)
    assert (found.z, found.p_value) == (0, 1)


@pytest.mark.parametrize("temperature", [1.0, 1e3, 1e6, 1e8])
def test_spiegelhalters_statistic_keeps_its_digits_for_a_nearly_uniform_model(temperature):
    """To first order in 1/T the deviation p - mean is (z - mean z)/(K T), so the statistic does not depend on T."""
    logits, labels = reference.drawn(500, 6)
    found = nishimori.calibration_test(logits, labels, temperature=temperature).z
    p = reference.softmax(logits, temperature)
    if temperature == 1:
        mean = (p**2).sum(axis=1)
        deviation, variance = mean - p[np.arange(500), labels], (p**3).sum(axis=1) - mean**2
        assert found == pytest.approx(deviation.sum() / np.sqrt(variance.sum()))
    else:
        centred = logits - logits.mean(axis=1, keepdims=True)
        limit = -centred[np.arange(500), labels].sum() / np.sqrt((centred**2).mean(axis=1).sum())
        assert found == pytest.approx(limit, rel=20 / temperature + 1e-6)


def test_labels_that_a_certain_model_excludes_have_an_infinite_statistic():
    sure = np.array([[500.0, -500.0]] * 50)
    for statistic in ("confidence", "spiegelhalter", "ece"):
        assert nishimori.calibration_test(sure, [1] * 50, statistic=statistic).z > 1e100
        assert nishimori.calibration_test(sure, [0] * 50, statistic=statistic).z == pytest.approx(0, abs=1e-100)


def test_methods_are_compared_where_only_ts_has_a_temperature():
    """Accuracy is below chance, but the logits of true classes are above the mean."""
    logits = np.array([[1.0, 0.9, -5.0, -5.0]] * 40)
    labels = [1] * 38 + [0] * 2
    says = "The temperature of TS is used as it is, because EC has none"
    with pytest.warns(nishimori.errors.InputWarning, match=says), pytest.warns(nishimori.errors.FewErrorsWarning):
        found = nishimori.compare(logits, labels)
    assert found["ec"].temperature is None
    assert (found["ts"].temperature or 0) > 0
