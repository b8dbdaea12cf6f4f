"""The calibrators that the paper names and does not use, against slow searches written from their definitions."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax

import nishimori
from nishimori.errors import InputError, NoTemperatureError
from nishimori_paper import methods
from nishimori_paper.methods import ClassBasedTemperature, LeastECE, LiteralTopN


def sample(n=800, K=6, seed=0, T=1.7):
    """Logits, and labels drawn at a temperature; the first class is predicted too often."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, K))
    labels = (logits / T + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits + np.eye(K)[0], labels


def ece(confidence, right, n_bins=15):
    """With bins of equal width, written from the definition."""
    total = 0.0
    for low, high in zip(np.arange(n_bins) / n_bins, np.arange(1, n_bins + 1) / n_bins, strict=True):
        inside = (confidence > low) & (confidence <= high)
        total += abs((confidence - right)[inside].sum())
    return total / len(right)


class TestLiteralTopN:
    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    def test_mean_confidence_is_the_top_n_accuracy(self, n):
        logits, labels = sample()
        among = [label in row[-n:] for label, row in zip(labels, logits.argsort(axis=1), strict=True)]
        fitted = LiteralTopN(n).fit(logits, labels)
        expected = brentq(lambda T: softmax(logits / T, axis=1).max(axis=1).mean() - np.mean(among), 1e-3, 100, xtol=1e-12)
        assert fitted.temperature_ == pytest.approx(expected, rel=1e-7)
        assert fitted.top_n_accuracy_ == pytest.approx(np.mean(among))
        np.testing.assert_array_equal(fitted.predict(logits), logits.argmax(axis=1))

    def test_n_1_is_expectation_consistency_and_larger_n_is_colder(self):
        logits, labels = sample()
        found = [LiteralTopN(n).fit(logits, labels).temperature_ for n in (1, 2, 3)]
        assert found[0] == pytest.approx(nishimori.ExpectationConsistency().fit(logits, labels).temperature_, rel=1e-9)
        assert found[0] > found[1] > found[2]

    def test_weights_count_samples(self):
        logits, labels = sample()
        weights = np.random.default_rng(1).integers(0, 3, size=len(labels))
        repeated = np.repeat(np.arange(len(labels)), weights)
        weighted = LiteralTopN(2).fit(logits, labels, sample_weight=weights)
        plain = LiteralTopN(2).fit(logits[repeated], labels[repeated])
        assert weighted.temperature_ == pytest.approx(plain.temperature_, rel=1e-9)
        assert weighted.top_n_accuracy_ == pytest.approx(plain.top_n_accuracy_)

    def test_of_equal_classes_the_first_is_larger(self):
        logits = np.array([[1.0, 1.0, 1.0, 0.0]] * 4)
        right = methods._is_in_top(logits, np.array([0, 1, 2, 3]), 2)
        assert right.tolist() == [True, True, False, False]

    def test_there_is_no_temperature_where_every_label_is_among_the_n_largest(self):
        logits, labels = sample()
        with pytest.raises(NoTemperatureError, match=r"all 800 labels are among the 6 largest classes") as caught:
            LiteralTopN(6).fit(logits, labels)
        assert caught.value.end == "cold"
        assert "smaller `top_n`" in caught.value.remedy

    def test_nor_where_the_top_n_accuracy_is_at_most_chance(self):
        logits, _ = sample()
        with pytest.raises(NoTemperatureError) as caught:
            LiteralTopN(1).fit(logits, logits.argmin(axis=1))
        assert caught.value.end == "hot"

    @pytest.mark.parametrize("top_n", [0, -1, 1.5, True])
    def test_top_n_is_a_positive_integer(self, top_n):
        with pytest.raises(InputError, match="top_n"):
            LiteralTopN(top_n).fit(*sample())


def test_least_ece_is_the_least_of_all_temperatures_that_are_tried():
    logits, labels = sample()
    fitted = LeastECE().fit(logits, labels)
    tried = np.geomspace(0.4, 8.0, 302)
    found = [nishimori.metrics.ece(logits, labels, temperature=T, strategy="quantile") for T in tried.tolist()]
    assert fitted.temperature_ == pytest.approx(tried[np.argmin(found)])
    assert fitted.validation_ece_ == pytest.approx(min(found), abs=1e-9)


def slow_class_based(logits, labels):
    """One class after the other, all probabilities computed anew for each temperature."""
    x = logits - logits.mean(axis=1, keepdims=True)
    T = np.full(x.shape[1], nishimori.TemperatureScaling().fit(logits, labels).temperature_)

    def measure(T):
        p = softmax(x / T, axis=1)
        right = p.argmax(axis=1) == labels
        return ece(p.max(axis=1), right), right.mean()

    best = measure(T)
    for _ in range(5):
        before = best
        for c in range(x.shape[1]):
            for each in np.arange(1, 101) / 10:
                tried = T.copy()
                tried[c] = each
                found = measure(tried)
                if found[0] < best[0] - 1e-12 and found[1] >= best[1] - 1e-12:
                    best, T = found, tried
        if before[0] - best[0] < 1e-4:
            break
    return T, best[0]


def test_class_based_temperatures_are_those_of_a_slow_search():
    logits, labels = sample(n=300, K=4)
    fitted = ClassBasedTemperature().fit(logits, labels)
    T, least = slow_class_based(logits, labels)
    np.testing.assert_allclose(fitted.temperatures_, T)
    assert fitted.validation_ece_ == pytest.approx(least, abs=1e-12)
    centred = logits - logits.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(logits), softmax(centred / T, axis=1), rtol=1e-9)
    assert len(set(T.tolist())) > 1
    at_first = nishimori.TemperatureScaling().fit(logits, labels)
    assert least < nishimori.metrics.ece(at_first.transform(logits), labels)


def test_a_constant_added_to_a_row_changes_nothing():
    logits, labels = sample(n=300, K=4)
    shifted = logits + np.random.default_rng(2).normal(size=(300, 1))
    np.testing.assert_allclose(
        ClassBasedTemperature().fit(shifted, labels).temperatures_, ClassBasedTemperature().fit(logits, labels).temperatures_
    )


def test_weights_of_the_other_two_count_samples():
    logits, labels = sample(n=300, K=4)
    weights = np.random.default_rng(1).integers(1, 3, size=len(labels))
    rows = np.repeat(np.arange(len(labels)), weights)
    for kind in (LeastECE, ClassBasedTemperature):
        weighted = kind().fit(logits, labels, sample_weight=weights)
        assert weighted.validation_ece_ == pytest.approx(kind().fit(logits[rows], labels[rows]).validation_ece_, abs=1e-3)


def test_the_methods_work_where_calibrators_do():
    logits, labels = sample()
    ours = {"ts": "ts", "least": LeastECE(), "literal": LiteralTopN(2), "class-based": ClassBasedTemperature()}
    found = nishimori.compare(logits, labels, *sample(seed=1), methods=ours)
    assert [each.method for each in found] == list(ours)
