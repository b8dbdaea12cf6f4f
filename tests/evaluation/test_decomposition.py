import math

import numpy as np
import pytest
import reference
import reference_measures
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from optional import torch
from scipy.optimize import minimize_scalar
from sklearn.isotonic import IsotonicRegression

import nishimori
from nishimori import metrics
from nishimori.errors import InputError, InputWarning

CLOSE = {"rel": 1e-10, "abs": 1e-12}
FEW = settings(max_examples=25, deadline=None)
N, K = 14, 3
SCORES = ["nll", "brier"]
logits_ = arrays(float, (N, K), elements=st.floats(-30, 30)).filter(lambda z: (z < 0).any())  # or they may be no logits
labels_ = arrays(int, N, elements=st.integers(0, K - 1))
weights_ = arrays(float, N, elements=st.floats(0.1, 10))
scores_ = st.sampled_from(SCORES)
folds_ = st.sampled_from([None, 3])
PARTS = ("score", "calibration", "refinement", "resolution", "uncertainty")

# Printed by model-diagnostics 1.5.0, `decompose` with `SquaredError()` and `LogLoss()` for the claims and labels of the test,
# without and with weights: miscalibration, discrimination, uncertainty, score.
MODEL_DIAGNOSTICS = {
    ("brier", False): (0.03804871620415687, 0.09153081529109755, 0.24999375000000001, 0.19651165091305933),
    ("brier", True): (0.04076673908494802, 0.09409364345129542, 0.24999374999999996, 0.19666684563365255),
    ("nll", False): (0.10394917658818398, 0.22044861829815982, 0.6931346805078613, 0.5766352387978855),
    ("nll", True): (0.1098441620155422, 0.22771339911932426, 0.6931346805078615, 0.5752654434040795),
}


def parts(found):
    return tuple(getattr(found, name) for name in PARTS)


@pytest.mark.parametrize(("score", "weighted"), MODEL_DIAGNOSTICS)
def test_the_decomposition_is_that_of_model_diagnostics(score, weighted):
    i = np.arange(1, 401)
    claimed = np.sqrt(i * 0.6180339887498949 % 1)
    labels = (i * 0.41421356237309515 % 1 < claimed**2).astype(int)
    claimed = np.clip(claimed, 1e-3, 1 - 1e-3)
    weights = 1.0 + i % 3 if weighted else None
    found = metrics.decomposition(claimed, labels, score=score, of="positive", input="probabilities", sample_weight=weights)
    measured = (found.calibration, found.resolution, found.uncertainty, found.score)
    assert measured == pytest.approx(MODEL_DIAGNOSTICS[score, weighted], **CLOSE)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("score", SCORES)
def test_the_decomposition_of_the_top_class_is_its_formula(score, temperature):
    logits, labels = reference.drawn(30, 4, seed=1)
    claimed, true = reference_measures.claims(logits, labels, temperature)
    for weights in (None, np.arange(30) % 4):
        found = metrics.decomposition(logits, labels, score=score, temperature=temperature, sample_weight=weights)
        after = reference_measures.isotonic(claimed, true, weights)
        before = reference_measures.claim_score(score, claimed, true, weights)
        with np.errstate(divide="ignore"):
            refinement = reference_measures.claim_score(score, after, true, weights)
        constant = reference_measures.claim_score(score, np.average(true, weights=weights), true, weights)
        expected = (before, before - refinement, refinement, constant - refinement, constant)
        assert parts(found) == pytest.approx(expected, **CLOSE)
        assert found.temperature is None


@pytest.mark.parametrize("score", SCORES)
def test_the_decomposition_with_folds_is_that_of_scikit_learn(score):
    logits, labels = reference.drawn(63, 3, seed=2)
    claimed, true = reference_measures.claims(logits, labels)
    order, after = np.argsort(claimed), np.empty(63)
    for fold in range(5):
        held, others = order[fold::5], np.setdiff1d(order, order[fold::5])
        model = IsotonicRegression(out_of_bounds="clip")
        fitted = model.fit_transform(claimed[others], true[others])
        if score == "nll":  # half a sample of each outcome more in every block of equal probabilities
            sizes = np.array([np.sum(np.isclose(fitted, each)) for each in fitted])
            rank = np.argsort(claimed[others])
            smoothed = (fitted * sizes + 0.5) / (sizes + 1)
            after[held] = np.interp(claimed[held], claimed[others][rank], smoothed[rank])
        else:
            after[held] = model.predict(claimed[held])
    expected = reference_measures.claim_score(score, after, true)
    found = metrics.decomposition(logits, labels, score=score, cv=5)
    assert found.refinement == pytest.approx(expected, **CLOSE)
    assert found.score == pytest.approx(reference_measures.claim_score(score, claimed, true), **CLOSE)


@pytest.mark.parametrize("score", SCORES)
def test_all_classes_are_recalibrated_by_the_temperature_of_the_least_score(score):
    logits, labels = reference.drawn(300, 4, temperature=2.0, seed=4)
    weights = 1 + np.arange(300) % 3
    formula = getattr(reference, score)
    least = minimize_scalar(
        lambda t: formula(logits, labels, math.exp(t), weights), bounds=(-2, 3), method="bounded", options={"xatol": 1e-8}
    )
    shares = np.bincount(labels, weights) / weights.sum()
    constant = 1 - np.sum(shares**2) if score == "brier" else -np.sum(shares * np.log(shares))
    before = formula(logits, labels, 1.0, weights)
    found = metrics.decomposition(logits, labels, score=score, of="all", sample_weight=weights)
    expected = (before, before - least.fun, least.fun, constant - least.fun, constant)
    assert parts(found) == pytest.approx(expected, abs=1e-7)
    assert found.temperature == pytest.approx(math.exp(least.x), rel=1e-3)
    assert found.calibration > 0.01


def test_a_model_at_its_best_temperature_has_no_calibration_part_left():
    logits, labels = reference.drawn(500, 4)
    best = nishimori.temperatures(logits, labels).ts
    found = metrics.decomposition(logits, labels, of="all", temperature=best)
    assert 0 <= found.calibration < 1e-9
    assert found.temperature == pytest.approx(best, rel=1e-3)


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")  # rows that happen to sum to 1
@FEW
@given(logits=logits_, labels=labels_, weights=weights_, temperature=st.floats(0.05, 20), score=scores_)
def test_the_parts_of_a_claim_are_not_negative_and_add_up(logits, labels, weights, temperature, score):
    found = metrics.decomposition(logits, labels, score=score, temperature=temperature, sample_weight=weights)
    assert found.score == pytest.approx(found.calibration + found.uncertainty - found.resolution, **CLOSE)
    assert found.refinement == pytest.approx(found.uncertainty - found.resolution, **CLOSE)
    # Leaving the claim as it is, and a constant, are increasing functions of it too.
    assert min(found.calibration, found.resolution, found.refinement) >= -1e-12


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")  # rows that happen to sum to 1
@FEW
@given(
    logits=logits_, labels=labels_, weights=weights_, cut=st.integers(1, N - 1), score=scores_, cv=st.sampled_from([None, 3])
)
def test_neither_the_order_of_rows_nor_pieces_matter_to_the_decomposition(logits, labels, weights, cut, score, cv):
    options = {"score": score, "cv": cv}
    whole = metrics.decomposition(logits, labels, sample_weight=weights, **options)
    order = np.random.default_rng(cut).permutation(N)
    shuffled = metrics.decomposition(logits[order], labels[order], sample_weight=weights[order], **options)
    assert parts(shuffled) == pytest.approx(parts(whole), **CLOSE)
    pieces = [(logits[:cut], labels[:cut], weights[:cut]), (logits[cut:], labels[cut:], weights[cut:])]
    assert parts(metrics.decomposition(pieces, **options)) == pytest.approx(parts(whole), **CLOSE)


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")  # rows that happen to sum to 1
@FEW
@given(
    logits=logits_,
    labels=labels_,
    copies=arrays(int, N, elements=st.integers(0, 3)).filter(np.any),
    score=scores_,
    of=st.sampled_from(["top", "all"]),
)
def test_a_weight_counts_as_copies_in_the_decomposition(logits, labels, copies, score, of):
    options = {"score": score, "of": of}
    expected = metrics.decomposition(np.repeat(logits, copies, axis=0), np.repeat(labels, copies), **options)
    found = metrics.decomposition(logits, labels, sample_weight=copies, **options)
    assert parts(found) == pytest.approx(parts(expected), **CLOSE)


def test_an_increasing_change_of_the_claims_changes_only_the_calibration_part():
    logits, labels = reference.drawn(300, 2)
    before, after = (metrics.decomposition(logits, labels, of="positive", temperature=t) for t in (1.0, 4.0))
    assert before.refinement == pytest.approx(after.refinement, **CLOSE)
    assert before.score - after.score == pytest.approx(before.calibration - after.calibration, **CLOSE)
    assert before.calibration > after.calibration


def test_the_two_outcomes_of_a_binary_problem_have_half_of_the_brier_score_and_the_same_nll():
    logits, labels = reference.drawn(80, 2)
    found = {score: metrics.decomposition(logits, labels, score=score, of="positive").score for score in SCORES}
    assert found["brier"] == pytest.approx(metrics.brier(logits, labels) / 2, **CLOSE)
    assert found["nll"] == pytest.approx(metrics.nll(logits, labels), **CLOSE)


def test_groups_that_are_calibrated_by_themselves_have_no_calibration_part():
    p = np.repeat([0.25, 0.75], 4)
    found = metrics.decomposition(p, [0, 0, 0, 1, 1, 1, 1, 0], score="brier", of="positive", input="probabilities")
    assert parts(found) == pytest.approx((0.1875, 0.0, 0.1875, 0.0625, 0.25))


def test_a_wrong_answer_beyond_the_range_of_float64_has_a_finite_nll():
    logits = [[900.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.5, 0.0]]
    found = metrics.decomposition(logits, [1, 0, 1])
    rest = 2 * math.exp(-5.0), 2 * math.exp(-0.5)
    assert found.score == pytest.approx((900 + sum(map(math.log1p, rest))) / 3)


def test_a_certain_claim_that_failed_has_an_infinite_nll_and_a_finite_refinement():
    logits = [[0.0, -math.inf], [1.0, 0.0], [0.0, 2.0]]
    found = metrics.decomposition(logits, [1, 0, 1])
    assert found.score == found.calibration == math.inf
    assert found.refinement == pytest.approx(0.6365141682948128)  # one of three failed, and the surest claim was it


@pytest.mark.parametrize("of", ["top", "positive", "all"])
def test_the_decomposition_takes_every_kind_of_input(of):
    logits, labels = reference.drawn(150, 2)
    z, options = logits[:, 1] - logits[:, 0], {"temperature": 2.0, "of": of}
    expected = parts(metrics.decomposition(logits, labels, **options))
    assert parts(metrics.decomposition(z, labels, **options)) == pytest.approx(expected)
    p = reference.softmax(logits)
    assert parts(metrics.decomposition(p, labels, input="probabilities", **options)) == pytest.approx(expected)
    assert parts(metrics.decomposition(torch.tensor(logits), torch.tensor(labels), **options)) == pytest.approx(expected)
    with_ignored = np.concatenate([logits, np.full((3, 2), np.nan)]), np.concatenate([labels, [0, 0, 0]])
    weights = np.repeat([1.0, 0.0], [150, 3])
    assert parts(metrics.decomposition(*with_ignored, sample_weight=weights, **options)) == pytest.approx(expected)
    names = np.array(["no", "yes"])[labels]
    assert parts(metrics.decomposition(logits, names, classes=["no", "yes"], **options)) == pytest.approx(expected)
    if of != "positive":
        masked = np.concatenate([logits, np.full((150, 1), -np.inf)], axis=1)
        assert parts(metrics.decomposition(masked, labels, **options)) == pytest.approx(expected)


@pytest.mark.parametrize("of", ["positive", "all"])
def test_zeros_at_the_true_class_are_counted(of):
    with pytest.warns(InputWarning, match=r"^The true class has probability 0 in 1 of 3 samples, so the loss depends"):
        metrics.decomposition([1.0, 0.4, 0.8], [0, 0, 1], of=of, input="probabilities")
    metrics.decomposition([1.0, 0.4, 0.8], [0, 0, 1], of=of, input="probabilities", score="brier")


REFUSED = [
    ({"score": "mse"}, "`score` must be 'nll' or 'brier', got 'mse'."),
    ({"of": "classwise"}, "`of` must be 'top', 'positive' or 'all', got 'classwise'."),
    ({"of": "positive"}, "`of` must not be 'positive' for 3 classes: only a binary problem has a positive class."),
    ({"cv": 1}, "`cv` must be a whole number of at least 2, got 1."),
    ({"cv": 16}, "`cv` must be at most half the number of samples, 30, got 16."),
    ({"cv": 5, "of": "all"}, "`cv` must be left out where `of` is 'all': one temperature does not overfit."),
    ({"temperature": 0}, "`temperature` must be a finite positive number, got 0."),
]


@pytest.mark.parametrize(("given_", "message"), REFUSED)
def test_what_the_decomposition_refuses(given_, message):
    with pytest.raises(InputError) as refused:
        metrics.decomposition(*reference.drawn(30, 3), **given_)
    assert str(refused.value) == message


def test_a_sketch_has_no_decomposition():
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        metrics.decomposition(nishimori.Sketch().update(*reference.drawn(30, 3)))
