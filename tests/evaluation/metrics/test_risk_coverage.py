"""AURC and AUGRC: integrals over coverage by brute force, ties as the mean over orders, and closed forms."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.metrics import roc_auc_score
from stated import stated

import nishimori
from nishimori import claims, metrics


def integrals(confidence, wrong, weights):
    """Both areas by quadrature of the expected share of wrong answers."""
    levels = np.unique(confidence)[::-1]
    share = weights / weights.sum()
    at = [share[confidence == level].sum() for level in levels]
    bad = [(share * wrong)[confidence == level].sum() for level in levels]
    ends, errors = np.concatenate([[0], np.cumsum(at)]), np.concatenate([[0], np.cumsum(bad)])

    def area(function):
        return sum(quad(function, low, high, epsabs=1e-13)[0] for low, high in pairwise(ends))

    generalised = lambda c: np.interp(c, ends, errors)  # noqa: E731
    return area(lambda c: generalised(c) / c if c else bad[0] / at[0]), area(generalised)


@pytest.mark.parametrize("weighted", [False, True])
def test_both_areas_are_integrals_over_coverage(weighted):
    p, right = stated(300)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=300) if weighted else np.ones(300)
    data = claims(p, right, sample_weight=weights)
    aurc, augrc = integrals(p, 1 - right, weights)
    assert metrics.aurc(data) == pytest.approx(aurc, rel=1e-9)
    assert metrics.augrc(data) == pytest.approx(augrc, rel=1e-9)


def test_the_generalised_area_follows_from_accuracy_and_the_area_under_the_curve():
    p, right = stated(500)
    accuracy, area = right.mean(), roc_auc_score(right, p)
    expected = (1 - area) * accuracy * (1 - accuracy) + (1 - accuracy) ** 2 / 2
    assert metrics.augrc(claims(p, right)) == pytest.approx(expected, rel=1e-12)


def test_the_order_of_ties_does_not_matter_and_is_the_mean_over_orders():
    right, p = np.array([1, 0, 1, 1, 0, 1]), np.array([0.9, 0.9, 0.8, 0.8, 0.8, 0.5])
    rng, draws = np.random.default_rng(0), []
    for _ in range(4000):
        jittered = p + 1e-9 * rng.random(6)
        draws.append(metrics.augrc(claims(jittered, right)))
    assert metrics.augrc(claims(p, right)) == pytest.approx(np.mean(draws), abs=4 * np.std(draws) / 4000**0.5)


def test_of_a_classifier_they_are_those_of_its_answers_and_have_errors():
    test = nishimori.data.load("cifar10/resnet20").test
    card = nishimori.evaluate(test.logits, test.labels, metrics=["aurc", "augrc"])
    answers = nishimori.evaluate(claims(nishimori.rows(test.logits, test.labels)), metrics=["aurc", "augrc"])
    for name in ("aurc", "augrc"):
        assert card[name].value == pytest.approx(answers[name].value, abs=1e-6)
    rng, wrong = np.random.default_rng(0), test.logits.argmax(axis=1) != test.labels
    confidence = np.exp(test.logits - np.logaddexp.reduce(test.logits, axis=1, keepdims=True)).max(axis=1).astype(float)
    draws = []
    for _ in range(100):
        rows = rng.integers(10_000, size=10_000)
        draws.append(metrics.augrc(claims(np.minimum(confidence[rows], 1), ~wrong[rows])))
    assert card["augrc"].se == pytest.approx(np.std(draws), rel=0.3)
