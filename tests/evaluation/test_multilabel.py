"""The scores of labels that do not exclude each other, against the formulas and scikit-learn."""

import numpy as np
import pytest
import reference
from independent_labels import X, Y, drawn, sigmoid, stacked
from sklearn.metrics import brier_score_loss, log_loss

import nishimori
from nishimori.errors import InputError
from nishimori.multilabel import MultilabelCalibrator, evaluate_multilabel

CALIBRATORS = {
    "none": None,
    "shared": MultilabelCalibrator("ts", parameters="shared"),
    "shrunk": MultilabelCalibrator(),
    "any map": MultilabelCalibrator("vector", parameters="per_label"),
}


@pytest.mark.parametrize("calibrator", CALIBRATORS.values(), ids=CALIBRATORS)
def test_every_number_of_a_label_is_that_of_its_own_column(calibrator):
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    fitted = None if calibrator is None else calibrator.fit(X, Y)
    p = sigmoid(X) if fitted is None else fitted.predict_proba(X)
    card = evaluate_multilabel(X, Y, calibrator=fitted, sample_weight=weights)
    for i, label in enumerate(card):
        claimed, true = p[:, i], Y[:, i]
        confidence, right = np.maximum(claimed, 1 - claimed), (claimed > 0.5) == true
        assert (label.name, label.n) == (i, np.count_nonzero(weights))
        assert label.prevalence == pytest.approx(np.average(true, weights=weights))
        assert label.probability == pytest.approx(np.average(claimed, weights=weights))
        assert label.gap == pytest.approx(np.average(claimed - true, weights=weights))
        assert label.confidence == pytest.approx(np.average(confidence, weights=weights))
        assert label.accuracy == pytest.approx(np.average(right, weights=weights))
        assert label.confidence_gap == pytest.approx(label.confidence - label.accuracy)
        assert label.ece == pytest.approx(reference.ece(claimed, true, np.linspace(0, 1, 16), weights))
        assert label.nll == pytest.approx(log_loss(true, claimed, sample_weight=weights))
        assert label.brier == pytest.approx(2 * brier_score_loss(true, claimed, sample_weight=weights))
        shown = reference.error_of_mean(claimed - true, weights)
        expected = np.sqrt((weights**2 * claimed * (1 - claimed)).sum()) / weights.sum()
        assert label.gap_se == pytest.approx(max(shown, expected))
        assert label.temperature == (None if fitted is None or fitted.temperatures_ is None else fitted.temperatures_[i])
    assert card.mean_ece == pytest.approx(np.mean([label.ece for label in card]))


def test_all_decisions_together_have_samples_as_clusters():
    fitted = MultilabelCalibrator().fit(X, Y)
    card = evaluate_multilabel(X, Y, calibrator=fitted).overall
    rows, labels = stacked(X / fitted.temperatures_, Y)
    samples = np.repeat(np.arange(len(X)), 3)
    for name, values in reference.scores(rows, labels).items():
        assert getattr(card, name) == pytest.approx(values.mean())
        assert getattr(card, f"{name}_se") == pytest.approx(reference.error_of_mean(values, clusters=samples))
    assert card.n_samples == X.size


def test_samples_of_a_cluster_are_not_independent():
    doubled = (np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0))
    clusters = np.repeat(np.arange(len(X)), 2)
    card = evaluate_multilabel(*doubled, clusters=clusters)
    for i, label in enumerate(card):
        misses = sigmoid(doubled[0][:, i]) - doubled[1][:, i]
        assert label.gap_se == pytest.approx(reference.error_of_mean(misses, clusters=clusters), rel=1e-9)
    assert card.overall.nll_se == pytest.approx(evaluate_multilabel(X, Y).overall.nll_se)


def test_labels_are_off_if_their_probability_or_their_confidence_is():
    logits, labels = drawn(3000, np.array([1.0, 1.0, 4.0]))
    logits += np.array([0.0, 1.5, 0.0])  # the second label is too probable, and the third too sure in both directions
    card = evaluate_multilabel(logits, labels, names=["right", "shifted", "sure"])
    assert set(card.off) == {"shifted", "sure"}
    assert card.worst_first[-1].name == "right"
    assert abs(card["sure"].gap) < 3 * card["sure"].gap_se
    assert card["sure"].confidence_gap > 10 * card["sure"].confidence_gap_se
    assert card["shifted"].gap > 10 * card["shifted"].gap_se
    title, first, *_, notes = str(card).split("\n\n")
    assert title == "9,000 decisions about 3 labels"
    lines = first.splitlines()
    assert lines[0].split()[:3] == ["label", "n", "prevalence"]
    assert [line.split()[0] for line in lines[-3:]] == [each.name for each in card.worst_first]
    assert "2 of 3 labels have a significant gap" in " ".join(notes.split())
    assert "| right |" in card.to_markdown()
    assert "<td>right</td>" in card._repr_html_()
    assert card.to_pandas().loc["sure", "n"] == 3000
    assert card.to_dict()["labels"][0]["name"] == "right"
    assert len(card) == 3


def test_a_calibrated_label_is_marked_in_few_data_sets():
    # Holm's adjustment keeps the share of data sets with any mark at 5 %: of 60, at most 8 with a probability of 99 %.
    marked = sum(bool(evaluate_multilabel(*drawn(200, np.ones(5), seed=seed)).off) for seed in range(60))
    assert marked <= 8


def test_unknown_labels_do_not_count_and_a_label_that_is_never_known_is_left_out():
    labels = Y.astype(float)
    labels[:300, 0], labels[:, 1] = np.nan, np.nan
    card = evaluate_multilabel(X, labels, missing=float("nan"))
    assert [(each.name, each.n) for each in card] == [(0, 300), (2, 600)]
    assert card[0].nll == pytest.approx(log_loss(Y[300:, 0], sigmoid(X[300:, 0])))
    with pytest.raises(InputError, match="`name` must be one of 0, 2, got 1"):
        card[1]


def test_probabilities_are_measured_as_they_are():
    card, expected = evaluate_multilabel(sigmoid(X), Y, input="probabilities"), evaluate_multilabel(X, Y)
    assert card.overall.nll == pytest.approx(expected.overall.nll)
    assert [each.ece for each in card] == pytest.approx([each.ece for each in expected])


FITTED = MultilabelCalibrator().fit(X, Y)
REFUSED = {
    "no calibrator": (
        lambda: evaluate_multilabel(X, Y, calibrator=nishimori.ExpectationConsistency()),
        "`calibrator` must be a fitted MultilabelCalibrator, got ExpectationConsistency(). Call its `fit` first.",
    ),
    "not fitted": (
        lambda: evaluate_multilabel(X, Y, calibrator=MultilabelCalibrator()),
        "`calibrator` must be a fitted MultilabelCalibrator, got MultilabelCalibrator(). Call its `fit` first.",
    ),
    "two inputs": (
        lambda: evaluate_multilabel(X, Y, calibrator=FITTED, input="logits"),
        "`input` must be left out: `calibrator` already determines it.",
    ),
    "flat labels": (
        lambda: evaluate_multilabel(X, Y[:, 0]),
        "`labels` must have shape (600, 3), one row per sample and one column per label, got (600,). Where each sample has one "
        "true class, use nishimori.ExpectationConsistency.",
    ),
    "the other function": (
        lambda: nishimori.evaluate(X, Y),
        "`labels` must be one label per sample, shape (600,), got shape (600, 3), with several true classes, or none, in some "
        "rows. For labels that do not exclude each other use nishimori.multilabel, in Python.",
    ),
    "the other function with this calibrator": (
        lambda: nishimori.evaluate(X, Y.argmax(axis=1), calibrator=FITTED),
        "`calibrator` must be a fitted calibrator, got MultilabelCalibrator(). For a MultilabelCalibrator use "
        "`nishimori.multilabel.evaluate_multilabel`.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_measured_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message
