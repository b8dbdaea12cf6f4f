"""The gap of a scorecard, and all its numbers by name."""

import numpy as np
import pytest
import reference

import nishimori
from nishimori import evaluate

LOGITS, LABELS = reference.drawn(700, 4)
WEIGHTS = np.random.default_rng(1).exponential(size=700)


def test_the_gap_has_the_error_of_its_mean():
    for options in ({}, {"sample_weight": WEIGHTS}, {"clusters": np.arange(700) // 7}):
        card = evaluate(LOGITS, LABELS, **options)
        scores = reference.scores(LOGITS, LABELS)
        misses = scores["confidence"] - scores["accuracy"]
        weights = options.get("sample_weight")
        assert card.gap == pytest.approx(np.average(misses, weights=weights), rel=1e-12)
        error = reference.error_of_mean(misses, weights, clusters=options.get("clusters"))
        assert card.gap_se == pytest.approx(error, rel=1e-9)


def test_the_error_of_a_gap_is_at_least_that_of_a_calibrated_model():
    p = reference.softmax(LOGITS).max(axis=1)
    card = evaluate(LOGITS, LOGITS.argmax(axis=1))  # all right, so the samples show almost no spread
    assert card.gap_se == pytest.approx(np.sqrt((p * (1 - p)).sum()) / 700, rel=1e-9)


def test_all_numbers_are_a_flat_dictionary_of_plain_numbers():
    card = evaluate(LOGITS, LABELS)
    numbers = card.to_dict()
    names = {"error", "accuracy", "confidence", "gap", "ece", "brier", "nll"}
    assert set(numbers) == names | {f"{name}_se" for name in names} | {"n_samples", "temperature", "ece_corrected"}
    assert {type(value) for value in numbers.values()} == {int, float}
    assert numbers["nll"] == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


def test_numbers_that_are_not_known_are_left_out_of_the_dictionary():
    one = evaluate(LOGITS[:1], LABELS[:1]).to_dict()
    assert not [name for name in one if name.endswith("_se")]
    assert "ece_corrected" not in one
    bias = nishimori.BiasCorrected().fit(LOGITS, LABELS)
    assert "temperature" not in evaluate(LOGITS, LABELS, calibrator=bias).to_dict()
