import numpy as np
import pytest
import reference
import reference_measures
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from optional import torch

import nishimori
from nishimori import metrics
from nishimori._sums.outcomes import Outcomes, levels_of
from nishimori.errors import InputError

CLOSE = {"rel": 1e-12, "abs": 1e-14}
FEW = settings(max_examples=25, deadline=None)
N, K = 14, 3
logits_ = arrays(float, (N, K), elements=st.floats(-30, 30)).filter(lambda z: (z < 0).any())  # or they may be no logits
tied_logits_ = arrays(float, (N, K), elements=st.integers(-2, 2))
labels_ = arrays(int, N, elements=st.integers(0, K - 1))
weights_ = arrays(float, N, elements=st.floats(0.1, 10))


@pytest.mark.parametrize("temperature", [0.05, 1.0, 7.0])
@pytest.mark.parametrize("classes", [2, 5, 17])
def test_ks_is_its_formula(classes, temperature):
    logits, labels = reference.drawn(203, classes, seed=classes)
    weights = np.arange(203) % 4
    claimed, true = reference_measures.claims(logits, labels, temperature)
    measured = metrics.ks(logits, labels, temperature=temperature)
    assert measured == pytest.approx(reference_measures.ks(claimed, true), **CLOSE)
    weighted = metrics.ks(logits, labels, temperature=temperature, sample_weight=weights)
    assert weighted == pytest.approx(reference_measures.ks(claimed, true, weights), **CLOSE)


def test_the_ks_error_of_the_positive_class_is_its_formula():
    logits, labels = reference.drawn(101, 2, seed=3)
    expected = reference_measures.ks(*reference_measures.claims(logits, labels, of="positive"))
    assert metrics.ks(logits, labels, of="positive") == pytest.approx(expected, **CLOSE)
    assert expected != pytest.approx(metrics.ks(logits, labels), abs=1e-3)


@FEW
@given(logits=tied_logits_, labels=labels_, weights=weights_)
def test_equal_claims_pass_a_threshold_together(logits, labels, weights):
    claimed, true = reference_measures.claims(logits, labels)
    expected = reference_measures.ks(claimed, true, weights)
    assert metrics.ks(logits, labels, sample_weight=weights, input="logits") == pytest.approx(expected, **CLOSE)


def test_ties_that_are_right_on_average_have_no_error():
    p = np.repeat([0.25, 0.75], 4)
    assert metrics.ks(p, [0, 0, 0, 1, 1, 1, 1, 0], of="positive", input="probabilities") == 0


def test_claims_are_equal_up_to_rounding_and_no_further():
    step = 1e-3
    claimed = 0.5 * (1 + step) ** np.arange(5)  # neighbours differ by one step, the ends by four
    levels = levels_of(claimed, np.array([1, 0, 1, 0, 1]), np.ones(5), 1.5 * step)
    np.testing.assert_array_equal(levels.weight, [2, 2, 1])
    np.testing.assert_array_equal(levels.true, [1, 1, 1])
    assert levels_of(claimed, np.ones(5), np.ones(5), 0.5 * step).weight.tolist() == [1] * 5


def test_pieces_keep_the_larger_rounding():
    one, other = (Outcomes((np.array([p]),), (np.array([True]),), (np.ones(1),), r) for p, r in [(0.5, 0.0), (0.5004, 1e-3)])
    assert (one + other).levels().weight.tolist() == (other + one).levels().weight.tolist() == [2]


def test_the_order_of_the_columns_does_not_change_the_ks_error():
    # Row sums round differently in another order, which must not separate equal claims.
    row = np.append(np.random.default_rng(0).normal(size=299), 2.8)
    logits = np.array([np.roll(row, 5 * i) for i in range(60)])
    right = np.arange(60) % 12 == 0  # about as often as claimed
    labels = np.where(right, logits.argmax(axis=1), (logits.argmax(axis=1) + 1) % 300)
    expected = abs(reference.softmax(row[None]).max() - right.mean())
    assert metrics.ks(logits, labels) == pytest.approx(expected, **CLOSE)


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, temperature=st.floats(0.05, 20))
def test_ks_lies_between_the_gap_of_the_means_and_1(logits, labels, weights, temperature):
    options = {"temperature": temperature, "sample_weight": weights}
    gap = abs(metrics.confidence(logits, labels, **options) - metrics.accuracy(logits, labels, **options))
    claimed, true = reference_measures.claims(logits, labels, temperature)
    assert gap - 1e-12 <= metrics.ks(logits, labels, **options) <= np.average(np.abs(claimed - true), weights=weights) + 1e-12


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, cut=st.integers(1, N - 1))
def test_neither_the_order_of_rows_nor_pieces_matter_to_ks(logits, labels, weights, cut):
    whole = metrics.ks(logits, labels, sample_weight=weights)
    shuffled = np.random.default_rng(cut).permutation(N)
    assert metrics.ks(logits[shuffled], labels[shuffled], sample_weight=weights[shuffled]) == pytest.approx(whole, **CLOSE)
    pieces = [(logits[:cut], labels[:cut], weights[:cut]), (logits[cut:], labels[cut:], weights[cut:])]
    assert metrics.ks(pieces) == pytest.approx(whole, **CLOSE)


@FEW
@given(logits=logits_, labels=labels_, copies=arrays(int, N, elements=st.integers(0, 3)).filter(np.any))
def test_a_weight_counts_as_copies_in_ks(logits, labels, copies):
    expected = metrics.ks(np.repeat(logits, copies, axis=0), np.repeat(labels, copies), input="logits")
    assert metrics.ks(logits, labels, sample_weight=copies, input="logits") == pytest.approx(expected, **CLOSE)


def test_ks_takes_every_kind_of_input():
    logits, labels = reference.drawn(150, 2)
    z, expected = logits[:, 1] - logits[:, 0], metrics.ks(logits, labels, temperature=2.0)
    options = {"temperature": 2.0}
    assert metrics.ks(z, labels, **options) == pytest.approx(expected, **CLOSE)
    assert metrics.ks(reference.softmax(logits), labels, input="probabilities", **options) == pytest.approx(expected)
    assert metrics.ks(torch.tensor(logits), torch.tensor(labels), **options) == pytest.approx(expected, **CLOSE)
    masked = np.concatenate([logits, np.full((150, 1), -np.inf)], axis=1)
    assert metrics.ks(masked, labels, **options) == pytest.approx(expected, **CLOSE)
    with_ignored = np.concatenate([logits, np.full((3, 2), np.nan)]), np.concatenate([labels, [0, 0, 0]])
    weights = np.repeat([1.0, 0.0], [150, 3])
    assert metrics.ks(*with_ignored, sample_weight=weights, **options) == pytest.approx(expected, **CLOSE)
    names = np.array(["no", "yes"])[labels]
    assert metrics.ks(logits, names, classes=["no", "yes"], **options) == pytest.approx(expected, **CLOSE)


def test_what_ks_refuses():
    logits, labels = reference.drawn(30, 3)
    with pytest.raises(InputError, match=r"^`of` must be 'top' or 'positive', got 'classwise'\.$"):
        metrics.ks(logits, labels, of="classwise")
    with pytest.raises(
        InputError, match=r"^`of` must not be 'positive' for 3 classes: only a binary problem has a positive class\.$"
    ):
        metrics.ks(logits, labels, of="positive")
    with pytest.raises(InputError, match=r"^`temperature` must be a finite positive number, got 0"):
        metrics.ks(logits, labels, temperature=0)
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        metrics.ks(nishimori.Sketch().update(logits, labels))
