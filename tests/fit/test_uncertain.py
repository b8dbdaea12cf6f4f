"""A temperature that its own standard error denies is no result: the data do not determine it."""

import warnings

import numpy as np
import pytest
import reference

import nishimori
from nishimori import AdaptiveConsistency, ExpectationConsistency, GroupConsistency, TemperatureScaling
from nishimori._fit.search import find_roots
from nishimori._sums.observables import Confidence, Energy
from nishimori.errors import FewErrorsWarning, InputWarning, NoTemperatureError


def with_a_zero(n=500, seed=0):
    """Probabilities of an underconfident model, one of whose true classes has probability zero."""
    logits, labels = reference.drawn(n, 4, temperature=0.5, seed=seed)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    p[0] = np.where(np.arange(4) == labels[0], 0.0, 1 / 3)
    return p, labels


def sandwich_error(logits, labels, T):
    """The standard error of T of temperature scaling over T, from the formula, with 1/n for the spread of gaps."""
    beta = 1 / T
    p = np.exp(beta * (logits - logits.max(axis=1, keepdims=True)))
    p /= p.sum(axis=1, keepdims=True)
    mean = (p * logits).sum(axis=1)
    gaps = mean - logits[np.arange(len(labels)), labels]
    slope = (p * (logits - mean[:, None]) ** 2).sum(axis=1)
    return np.sqrt((gaps**2).sum()) / slope.sum() / beta


def test_a_temperature_is_refused_exactly_where_its_standard_error_is_as_large_as_itself():
    refused, kept = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        logits = 2 * rng.normal(size=(30, 3))
        labels = (logits / rng.uniform(1, 12) + rng.gumbel(size=logits.shape)).argmax(axis=1)
        (root,) = find_roots(nishimori.rows(logits, labels), Energy()).roots
        if isinstance(root, Exception):
            continue
        T = float(np.exp(-root.x))
        denied = sandwich_error(logits, labels, T) >= 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewErrorsWarning)
            if denied:
                with pytest.raises(NoTemperatureError, match="the standard error is as large as T") as error:
                    TemperatureScaling().fit(logits, labels)
                assert error.value.end == "uncertain"
            else:
                assert TemperatureScaling().fit(logits, labels).temperature_ == pytest.approx(T, rel=1e-8)
        refused, kept = refused + denied, kept + (not denied)
    assert refused > 3
    assert kept > 3


def test_zeros_at_true_classes_are_named_as_what_decides():
    p, labels = with_a_zero()
    with pytest.raises(
        NoTemperatureError, match=r"The true class has probability 0 in 1 of 500 samples, which decide it\."
    ) as error:
        TemperatureScaling(input="probabilities", floor=None).fit(p, labels)
    assert "`floor='auto'`" in error.value.remedy


def test_few_errors_and_answers_near_chance_are_named_as_what_decides():
    with pytest.raises(NoTemperatureError, match=r"Only 1 of 3 validation samples are answered wrong\. Use a validation set"):
        ExpectationConsistency().fit(np.array([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]]), [0, 1, 0])
    rng = np.random.default_rng(8)
    for _ in range(50):
        logits, labels = rng.normal(size=(2000, 30)), rng.integers(30, size=2000)
        root = find_roots(nishimori.rows(logits, labels), Confidence()).roots[0]
        if not isinstance(root, Exception):
            break
    with pytest.raises(NoTemperatureError, match=r"^The data do not determine .* standard errors above chance, 0\.03333\."):
        ExpectationConsistency().fit(logits, labels)


def test_a_standard_error_above_half_of_a_temperature_is_a_warning():
    warned = 0
    for far in np.geomspace(5, 500, 12):
        logits, labels = reference.drawn(500, 3, temperature=1.0)
        logits[0] = np.where(np.arange(3) == labels[0], -far, 0.0)  # one sample that decides more and more
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                T = TemperatureScaling().fit(logits, labels).temperature_
            except NoTemperatureError:
                continue
        is_uncertain = any("The temperature of temperature scaling is uncertain, T = " in str(each.message) for each in told)
        assert is_uncertain == (sandwich_error(logits, labels, T) >= 0.5)
        warned += is_uncertain
    assert 0 < warned < 12


def test_temperatures_give_none_and_the_reason_for_the_one_that_is_denied():
    p, labels = with_a_zero()
    found = nishimori.temperatures(p, labels, input="probabilities", floor=None)
    assert found.ts is None
    assert "the standard error is as large as T" in found.why_no_ts
    assert found.ec == pytest.approx(0.5, rel=0.2)


def test_adaptive_uses_the_temperature_that_is_left_and_compare_names_the_one_that_is_denied():
    p, labels = with_a_zero()
    with pytest.warns(InputWarning, match="The temperature of EC is used as it is, because TS has none"):
        adaptive = AdaptiveConsistency(input="probabilities", floor=None).fit(p, labels)
    ec = ExpectationConsistency(input="probabilities", floor=None).fit(p, labels)
    assert adaptive.temperature_ == ec.temperature_
    with pytest.warns(InputWarning):
        found = nishimori.compare(p, labels, methods=("none", "ts", "ec"), input="probabilities", floor=None)
    assert found["ts"].scorecard is None
    assert any(each.startswith("ts could not be fitted. The data do not determine") for each in found.verdicts)


def test_best_falls_back_where_a_temperature_is_denied():
    p, labels = with_a_zero()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nishimori.Best(["ts"], input="probabilities", floor=None).fit(p, labels)
    assert found.selection_["ts"].n_unsolved > 0
    assert 0.3 < found.temperature_ < 1  # by mean confidence, which one sample cannot move far


def test_good_small_data_are_hardly_ever_refused():
    rng, refused = np.random.default_rng(0), 0
    for n in (50, 100, 200):
        for _ in range(30):
            logits = 4.5 * rng.normal(size=(n, 10))
            labels = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)
            roots = find_roots(nishimori.rows(logits, labels), Confidence(), Energy()).without_uncertain().roots
            refused += any(isinstance(root, Exception) for root in roots)
    assert refused == 0


def test_one_cluster_has_no_standard_error_and_nothing_is_refused():
    logits, labels = np.array([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]]), [0, 1, 0]
    sketch = nishimori.Sketch().update(logits, labels, clusters=["a", "a", "a"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ExpectationConsistency().fit(sketch).temperature_ > 0
        assert ExpectationConsistency(smooth_labels=True).fit(logits, labels).temperature_ > 0


def test_a_sketch_and_a_top_k_refuse_what_all_logits_refuse():
    rng = np.random.default_rng(3)
    logits = np.hstack([2 * rng.normal(size=(40, 3)), np.full((40, 3), -200.0)])  # three classes that are almost impossible
    for seed in range(100):
        labels = np.random.default_rng(seed).integers(3, size=40)
        root = find_roots(nishimori.rows(logits, labels), Confidence()).without_uncertain().roots[0]
        if isinstance(root, NoTemperatureError) and root.end == "uncertain":
            break
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    order = np.argsort(-logs, axis=1)
    listed = nishimori.TopK(order[:, :5], np.take_along_axis(logs, order, axis=1)[:, :5], 6)
    for data in ((nishimori.Sketch().update(logits, labels),), (listed, labels)):
        with pytest.raises(NoTemperatureError, match="the standard error is as large as T"):
            ExpectationConsistency().fit(*data)


def test_a_group_that_does_not_determine_a_temperature_has_the_common_one():
    logits, labels = reference.drawn(2000, 3, temperature=1.0, seed=2)
    groups = np.repeat(["cold", "hot", "warm"], [900, 900, 200])
    logits[900:1800] *= 12.0  # log T of groups then differ by much, and so may that of few samples
    logits[1800:] *= 4.0
    rows = np.r_[0:1800, 1800:1803]
    with pytest.warns(InputWarning, match=r"^The group 'warm' has .* too few to determine one: the common T = "):
        found = GroupConsistency(by="groups").fit(logits[rows], labels[rows], groups=groups[rows])
    assert found.open_groups_ == ("warm",)
    assert found.temperatures_[2] == pytest.approx(found.common_temperature_)
