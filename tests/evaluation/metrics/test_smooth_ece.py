from functools import partial

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
from nishimori._evaluation.metrics.without_bins import SmoothEce, _cosine_transform, _error_at
from nishimori._rows.entry import open_rows
from nishimori.errors import InputError

FEW = settings(max_examples=25, deadline=None)
N, K = 14, 3
logits_ = arrays(float, (N, K), elements=st.floats(-30, 30)).filter(lambda z: (z < 0).any())  # or they may be no logits
labels_ = arrays(int, N, elements=st.integers(0, K - 1))
weights_ = arrays(float, N, elements=st.floats(0.1, 10))

# Flat probabilities by a formula, and labels that are calibrated, underestimated everywhere, or wrong in both directions.
_i = np.arange(1, 4001)
CLAIMED = np.sqrt(_i * 0.6180339887498949 % 1)
LABELS = {
    "calibrated": (_i * 0.41421356237309515 % 1 < CLAIMED).astype(int),
    "square": (_i * 0.41421356237309515 % 1 < CLAIMED**2).astype(int),
    "bent": (_i * 0.41421356237309515 % 1 < CLAIMED + 0.15 * np.sin(4 * np.pi * CLAIMED)).astype(int),
}

# Printed by relplot 1.0.3: `smECE(f, y, return_width=True)`, then `smECE_sigma(f, y, 0.05)` and `smECE_sigma(f, y, 0.01)`.
RELPLOT = {
    ("calibrated", 200): (0.032783, 0.034180, 0.023538, 0.133964),
    ("calibrated", 4000): (0.009447, 0.009766, 0.003247, 0.009260),
    ("square", 200): (0.163806, 0.164063, 0.163475, 0.181948),
    ("square", 4000): (0.166719, 0.166992, 0.166376, 0.166870),
    ("bent", 200): (0.071181, 0.071289, 0.082736, 0.164516),
    ("bent", 4000): (0.072253, 0.072266, 0.083262, 0.096378),
}


@pytest.mark.parametrize(("name", "n"), RELPLOT)
def test_smooth_ece_is_that_of_relplot_to_the_digits_of_its_mesh(name, n):
    value, width, *at_widths = RELPLOT[name, n]
    p, y = CLAIMED[:n], LABELS[name][:n]
    # Its mesh of 200 points is exact to 0.4 %; its search stops 1/1024 above the width at which both are equal.
    mesh = 0.004
    assert value * (1 - mesh) <= metrics.smooth_ece(p, y, of="positive", input="probabilities") <= width * (1 + mesh)
    masses, weight = open_rows(p, y, input="probabilities").gather(partial(SmoothEce("positive").gather, 1.0)).items
    modes = _cosine_transform(masses / weight)
    assert [_error_at(each, modes) for each in (0.05, 0.01)] == pytest.approx(at_widths, rel=mesh)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_smooth_ece_is_the_width_that_equals_its_own_smoothed_error(classes, temperature):
    # The smoothed error does not increase with the width, so that there is one such width.
    logits, labels = reference.drawn(60, classes, seed=classes)
    claimed, true = reference_measures.claims(logits, labels, temperature)
    width = metrics.smooth_ece(logits, labels, temperature=temperature)
    assert reference_measures.smoothed_error(claimed, true, width) == pytest.approx(width, abs=1e-7)
    weights = np.arange(60) % 4
    width = metrics.smooth_ece(logits, labels, temperature=temperature, sample_weight=weights)
    assert reference_measures.smoothed_error(claimed, true, width, weights) == pytest.approx(width, abs=1e-7)


def test_the_smooth_ece_of_the_positive_class_smooths_its_probability():
    logits, labels = reference.drawn(60, 2, seed=3)
    width = metrics.smooth_ece(logits, labels, of="positive")
    expected = reference_measures.smoothed_error(*reference_measures.claims(logits, labels, of="positive"), width)
    assert expected == pytest.approx(width, abs=1e-7)
    assert expected != pytest.approx(metrics.smooth_ece(logits, labels), abs=1e-3)


def test_residuals_of_one_sign_leave_their_mean_whatever_the_width():
    # All answers are right, so no smoothing can cancel anything.
    logits, _ = reference.drawn(200, 4)
    gap = 1 - metrics.confidence(logits, logits.argmax(axis=1))
    assert metrics.smooth_ece(logits, logits.argmax(axis=1)) == pytest.approx(gap, rel=1e-9)


def test_certain_and_right_answers_have_a_smooth_ece_of_zero():
    assert metrics.smooth_ece([[800.0, 0.0], [0.0, 900.0]], [0, 1]) == 0
    assert metrics.smooth_ece([1.0, 0.0], [1, 0], of="positive", input="probabilities") == 0
    assert metrics.smooth_ece([[800.0, 0.0], [0.0, 900.0]], [1, 0]) == pytest.approx(1)


def test_groups_that_are_calibrated_by_themselves_have_a_smooth_ece_of_zero():
    p = np.repeat([0.25, 0.75], 4)
    assert metrics.smooth_ece(p, [0, 0, 0, 1, 1, 1, 1, 0], of="positive", input="probabilities") == pytest.approx(0, abs=1e-12)


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, temperature=st.floats(0.05, 20))
def test_smooth_ece_lies_between_the_gap_of_the_means_and_the_mean_gap(logits, labels, weights, temperature):
    options = {"temperature": temperature, "sample_weight": weights}
    gap = abs(metrics.confidence(logits, labels, **options) - metrics.accuracy(logits, labels, **options))
    claimed, true = reference_measures.claims(logits, labels, temperature)
    found = metrics.smooth_ece(logits, labels, **options)
    assert gap - 1e-9 <= found <= np.average(np.abs(claimed - true), weights=weights) + 1e-9


@FEW
@given(logits=logits_, labels=labels_, weights=weights_, cut=st.integers(1, N - 1))
def test_neither_the_order_of_rows_nor_pieces_matter_to_smooth_ece(logits, labels, weights, cut):
    whole = metrics.smooth_ece(logits, labels, sample_weight=weights)
    shuffled = np.random.default_rng(cut).permutation(N)
    assert metrics.smooth_ece(logits[shuffled], labels[shuffled], sample_weight=weights[shuffled]) == pytest.approx(
        whole, abs=1e-9
    )
    pieces = [(logits[:cut], labels[:cut], weights[:cut]), (logits[cut:], labels[cut:], weights[cut:])]
    assert metrics.smooth_ece(pieces) == pytest.approx(whole, abs=1e-9)


@FEW
@given(logits=logits_, labels=labels_, copies=arrays(int, N, elements=st.integers(0, 3)).filter(np.any))
def test_a_weight_counts_as_copies_in_smooth_ece(logits, labels, copies):
    expected = metrics.smooth_ece(np.repeat(logits, copies, axis=0), np.repeat(labels, copies), input="logits")
    assert metrics.smooth_ece(logits, labels, sample_weight=copies, input="logits") == pytest.approx(expected, abs=1e-9)


def test_smooth_ece_takes_every_kind_of_input():
    logits, labels = reference.drawn(150, 2)
    z, expected = logits[:, 1] - logits[:, 0], metrics.smooth_ece(logits, labels, temperature=2.0)
    options = {"temperature": 2.0}
    assert metrics.smooth_ece(z, labels, **options) == pytest.approx(expected, abs=1e-9)
    assert metrics.smooth_ece(reference.softmax(logits), labels, input="probabilities", **options) == pytest.approx(expected)
    assert metrics.smooth_ece(torch.tensor(logits), torch.tensor(labels), **options) == pytest.approx(expected, abs=1e-9)
    masked = np.concatenate([logits, np.full((150, 1), -np.inf)], axis=1)
    assert metrics.smooth_ece(masked, labels, **options) == pytest.approx(expected, abs=1e-9)
    with_ignored = np.concatenate([logits, np.full((3, 2), np.nan)]), np.concatenate([labels, [0, 0, 0]])
    weights = np.repeat([1.0, 0.0], [150, 3])
    assert metrics.smooth_ece(*with_ignored, sample_weight=weights, **options) == pytest.approx(expected, abs=1e-9)
    names = np.array(["no", "yes"])[labels]
    assert metrics.smooth_ece(logits, names, classes=["no", "yes"], **options) == pytest.approx(expected, abs=1e-9)


def test_what_smooth_ece_refuses():
    logits, labels = reference.drawn(30, 3)
    with pytest.raises(InputError, match=r"^`of` must be 'top' or 'positive', got 'classwise'\.$"):
        metrics.smooth_ece(logits, labels, of="classwise")
    with pytest.raises(
        InputError, match=r"^`of` must not be 'positive' for 3 classes: only a binary problem has a positive class\.$"
    ):
        metrics.smooth_ece(logits, labels, of="positive")
    with pytest.raises(InputError, match=r"^`temperature` must be a finite positive number, got 0"):
        metrics.smooth_ece(logits, labels, temperature=0)
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        metrics.smooth_ece(nishimori.Sketch().update(logits, labels))
