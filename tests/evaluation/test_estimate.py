"""A metric with its standard error and interval."""

import numpy as np
import pytest
import reference

import nishimori
from nishimori import evaluate, metrics
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(500, 6)
WEIGHTS = np.random.default_rng(1).exponential(size=500)
CLUSTERS = np.arange(500) // 5


@pytest.mark.parametrize("units", [{}, {"counts": True}, {"clusters": CLUSTERS}], ids=["rows", "counts", "clusters"])
@pytest.mark.parametrize("name", ["error", "accuracy", "confidence", "nll", "brier"])
def test_a_metric_has_the_error_of_its_mean(name, units):
    found = metrics.estimate(name, LOGITS, LABELS, temperature=1.7, sample_weight=WEIGHTS, **units)
    scores = reference.scores(LOGITS, LABELS, 1.7)[name]
    assert found.value == pytest.approx(np.average(scores, weights=WEIGHTS))
    assert found.se == pytest.approx(reference.error_of_mean(scores, WEIGHTS, **units))
    assert found.interval.low < found.value < found.interval.high
    assert found.corrected is None
    assert metrics.estimate(getattr(metrics, name), LOGITS, LABELS, temperature=1.7, sample_weight=WEIGHTS, **units) == found


@pytest.mark.parametrize("units", [{}, {"counts": True}, {"clusters": CLUSTERS}], ids=["rows", "counts", "clusters"])
def test_top_n_accuracy_has_the_error_of_a_share(units):
    found = metrics.estimate(metrics.top_n_accuracy, LOGITS, LABELS, top_n=2, sample_weight=WEIGHTS, **units)
    right = reference.right(LOGITS, LABELS, 2)
    assert found.value == pytest.approx(np.average(right, weights=WEIGHTS))
    assert found.se == pytest.approx(reference.error_of_mean(right, WEIGHTS, **units))
    p, z = found.value, 1.959963984540054
    number = p * (1 - p) / found.se**2
    roots = np.roots([1 + z**2 / number, -(2 * p + z**2 / number), p**2])
    assert found.interval == pytest.approx(sorted(roots))


def test_an_ece_is_that_of_its_bins_with_and_without_its_bias():
    options = {"n_bins": 9, "strategy": "quantile"}
    found = metrics.estimate("ece", LOGITS, LABELS, level=0.8, **options)
    card = evaluate(LOGITS, LABELS, **options)
    assert found.value == metrics.ece(LOGITS, LABELS, **options)
    assert (found.se, found.interval, found.corrected) == (card.ece_se, card.interval("ece", 0.8), card.ece_corrected)
    assert found.corrected < found.value


def test_an_answer_that_is_always_right_has_an_interval():
    found = metrics.estimate("top_n_accuracy", LOGITS, LABELS, top_n=6)
    assert (found.value, found.se, found.interval.high) == (1, 0, 1)
    assert found.interval.low == pytest.approx(1 - 1.959964**2 / (500 + 1.959964**2))


def test_what_has_no_error_has_no_interval():
    masked = LOGITS.copy()
    masked[0, LABELS[0]] = -np.inf
    assert metrics.estimate("nll", masked, LABELS) == metrics.Estimate(np.inf, None, None)
    alone = metrics.estimate("top_n_accuracy", LOGITS[:1], LABELS[:1], top_n=6)
    assert (alone.value, alone.se, alone.interval) == (1, None, None)
    sketch = nishimori.Sketch().update(LOGITS, LABELS)
    assert metrics.estimate("brier", sketch).se is None
    assert metrics.estimate("ece", sketch).se > 0


REFUSED = {
    "another metric": (
        ("auc",),
        {},
        "`metric` must be one of 'error', .*, 'top_n_accuracy', or one of these functions, got 'auc'",
    ),
    "another function": ((np.mean,), {}, "`metric` must be one of .* got <"),
    "a curve": ((metrics.reliability,), {}, "`metric` must be one of .* Other metrics have no standard error here"),
    "bins": (("nll",), {"n_bins": 3}, "`n_bins` must be left out for 'nll', got 3: it is a keyword of 'ece'"),
    "strategy": (("top_n_accuracy",), {"strategy": "uniform"}, "`strategy` must be left out for 'top_n_accuracy'"),
    "top_n": (("ece",), {"top_n": 1}, "`top_n` must be left out for 'ece', got 1: it is a keyword of 'top_n_accuracy'"),
    "no top_n": (("top_n_accuracy",), {}, "`top_n` must be a whole number from 1 to 6, the number of classes, got None"),
    "level": (("brier",), {"level": 2}, "`level` must lie between 0 and 1, got 2"),
    "temperature": (("brier",), {"temperature": 0}, "`temperature` must be a finite positive number, got 0"),
}


@pytest.mark.parametrize(("metric", "given", "message"), REFUSED.values(), ids=REFUSED)
def test_other_metrics_and_keywords_are_refused(metric, given, message):
    with pytest.raises(InputError, match=message):
        metrics.estimate(*metric, LOGITS, LABELS, **given)
