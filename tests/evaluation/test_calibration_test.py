"""Tests of calibration: formulas, redrawn labels, sizes, and what cannot be tested."""

import numpy as np
import pytest
import reference
from scipy import stats

import nishimori
from nishimori import ExpectationConsistency, InputError, calibration_test, score_test
from nishimori._evaluation.redrawn_ece import RedrawnAnswers, RedrawnECE


def claimed(logits, labels, T=1.0):
    """Confidence and correctness of each row."""
    return reference.softmax(logits, T).max(axis=1), logits.argmax(axis=1) == labels


def redrawn(confidence, edges, weights, n_draws, seed):
    """The ECE of each of many draws of correctness, with a loop over draws."""
    rng = np.random.default_rng(seed)
    draws = rng.random((n_draws, len(confidence))) < confidence
    return np.array([reference.ece(confidence, right, edges, weights) for right in draws])


@pytest.mark.parametrize("T", [1.0, 1.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_is_the_gap_over_the_error_of_drawn_answers(T, weighted):
    logits, labels = reference.drawn(400, 5)
    weights = np.random.default_rng(1).uniform(0.5, 3, 400) if weighted else np.ones(400)
    confidence, right = claimed(logits, labels, T)
    z = weights @ (confidence - right) / np.sqrt(weights**2 @ (confidence * (1 - confidence)))
    found = calibration_test(logits, labels, method="mean", temperature=T, sample_weight=weights if weighted else None)
    assert found.statistic == pytest.approx(z, rel=1e-10)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-8)
    assert found.value == pytest.approx(weights @ (confidence - right) / weights.sum(), rel=1e-10)
    same = score_test(logits, labels, temperature=T, sample_weight=weights if weighted else None)
    assert (found.value, found.se) == (same.gap, same.se)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_spiegelhalter_is_the_brier_score_minus_its_mean_over_its_deviation(k, weighted):
    logits, labels = reference.drawn(400, k)
    weights = np.random.default_rng(1).uniform(0.5, 3, 400) if weighted else np.ones(400)
    p = reference.softmax(logits, 1.5)
    # The score of each row if its label is c, for each c.
    scores = ((p[:, None, :] - np.eye(k)) ** 2).sum(axis=2)
    mean = (p * scores).sum(axis=1)
    variance = (p * (scores - mean[:, None]) ** 2).sum(axis=1)
    excess = scores[np.arange(400), labels] - mean
    found = calibration_test(logits, labels, temperature=1.5, sample_weight=weights if weighted else None)
    assert found.method == "spiegelhalter"
    assert found.value == pytest.approx(weights @ excess / weights.sum(), rel=1e-10)
    assert found.statistic == pytest.approx(weights @ excess / np.sqrt(weights**2 @ variance), rel=1e-10)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(found.statistic)), rel=1e-8)


def test_two_classes_have_the_statistic_that_spiegelhalter_printed():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=300)
    labels = (rng.random(300) < 1 / (1 + np.exp(-z / 2))).astype(int)
    p = 1 / (1 + np.exp(-z))
    printed = ((labels - p) * (1 - 2 * p)).sum() / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    assert calibration_test(z, labels).statistic == pytest.approx(printed, rel=1e-10)


def test_spiegelhalter_keeps_its_digits_where_the_model_is_nearly_certain():
    logits = np.array([[0.0, -30.0, -31.0], [0.0, -30.0, -30.5]])
    found = calibration_test(logits, [0, 0])
    doubt = (np.exp(-30) + np.exp(-31)) + (np.exp(-30) + np.exp(-30.5))
    assert found.se == pytest.approx(np.sqrt(4 * doubt) / 2, rel=1e-10)
    assert found.value == pytest.approx(-2 * doubt / 2, rel=1e-10)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ece_is_compared_with_that_of_redrawn_answers(strategy, weighted):
    logits, labels = reference.drawn(250, 5, temperature=2.3)
    weights = np.random.default_rng(1).integers(1, 4, 250).astype(float) if weighted else np.ones(250)
    confidence, right = claimed(logits, labels, 1.8)
    edges = np.linspace(0, 1, 11)
    if strategy == "quantile":
        edges = reference.quantile_edges(np.repeat(confidence, weights.astype(int)), 10)
    drawn = redrawn(confidence, edges, weights, 2000, 0)
    ece = reference.ece(confidence, right, edges, weights)
    found = calibration_test(
        logits,
        labels,
        method="ece",
        temperature=1.8,
        n_bins=10,
        strategy=strategy,
        n_draws=4000,
        sample_weight=weights if weighted else None,
    )
    assert found.value == pytest.approx(ece, rel=1e-10)
    assert found.expected == pytest.approx(drawn.mean(), rel=0.03)
    assert found.se == pytest.approx(drawn.std(), rel=0.08)
    assert found.p_value == pytest.approx((drawn >= ece).mean(), abs=0.05)
    assert found.n_draws == 4000


def test_bins_with_many_wrong_answers_are_drawn_as_the_exact_ones_are():
    rng = np.random.default_rng(0)
    doubt = rng.uniform(0.1, 0.5, 20_000)
    index = (doubt * 10).astype(int) - 1
    made = RedrawnECE(RedrawnAnswers(((index, doubt, np.ones(20_000), rng.random(20_000) >= doubt),)), 4)
    assert made.is_normal.all()
    right = (rng.random((300, 20_000)) >= doubt).astype(float)
    gaps = np.stack([(right + doubt - 1)[:, index == each].sum(axis=1) for each in range(4)])
    exact, found = np.abs(gaps).sum(axis=0) / 20_000, made.drawn(3000, 0)
    assert found.mean() == pytest.approx(exact.mean(), rel=0.07)
    assert stats.ks_2samp(found, exact).pvalue > 0.01


def test_an_answer_is_drawn_wrong_with_the_probability_of_its_doubt():
    doubt = np.array([0.9, 0.5, 0.01, 0.0])
    rows = (np.arange(4), doubt, np.array([1.0, 2.0, 1.0, 1.0]), np.ones(4, dtype=bool))
    drawn = RedrawnECE(RedrawnAnswers((rows,)), 4).drawn(20_000, 1)
    # One row per bin: the mean of |w(wrong − q)| is 2wq(1 − q).
    assert drawn.mean() == pytest.approx((2 * 0.09 + 4 * 0.25 + 2 * 0.0099) / 5, rel=0.01)


def test_seeds_repeat_and_differ():
    logits, labels = reference.drawn(200, 5)
    first, again, other = (
        calibration_test(logits, labels, method="ece", temperature=2.0, n_draws=50, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.expected != other.expected


@pytest.mark.parametrize("method", ["mean", "spiegelhalter", "ece"])
@pytest.mark.parametrize("n", [100, 1000])
def test_the_size_is_five_percent(method, n):
    rng = np.random.default_rng(n)
    logits = 4 * rng.normal(size=(n, 4))
    cumulated = reference.softmax(logits, 1.5).cumsum(axis=1)
    draws = [(rng.random((n, 1)) > cumulated).sum(axis=1) for _ in range(400)]
    rejected = [
        calibration_test(logits, labels, temperature=1.5, method=method, n_draws=199).p_value <= 0.05 for labels in draws
    ]
    assert 0.02 < np.mean(rejected) < 0.085  # 0.05, and three standard errors of 400 draws


@pytest.mark.parametrize("method", ["mean", "spiegelhalter", "ece"])
def test_overconfidence_is_found(method):
    logits, labels = reference.drawn(2000, 5)
    assert calibration_test(logits, labels, method=method).p_value < 0.002
    assert calibration_test(logits, labels, method=method, temperature=2.0).p_value > 0.05


def test_the_mean_agrees_after_ec_on_the_same_samples():
    logits, labels = reference.drawn(500, 5)
    calibrator = ExpectationConsistency().fit(logits, labels)
    assert calibration_test(logits, labels, method="mean", calibrator=calibrator).p_value == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("method", ["mean", "spiegelhalter", "ece"])
def test_a_calibrator_is_its_temperature(method):
    logits, labels = reference.drawn(500, 5)
    calibrator = ExpectationConsistency().fit(logits, labels)
    other = reference.drawn(300, 5, seed=1)
    found = calibration_test(*other, method=method, calibrator=calibrator)
    assert found == calibration_test(*other, method=method, temperature=calibrator.temperature_)
    assert found.temperature == calibrator.temperature_


@pytest.mark.parametrize("method", ["mean", "spiegelhalter"])
def test_counts_and_clusters(method):
    logits, labels = reference.drawn(300, 4)
    weights = np.random.default_rng(1).integers(1, 5, 300)
    copies = np.repeat(logits, weights, axis=0), np.repeat(labels, weights)
    counted = calibration_test(logits, labels, method=method, sample_weight=weights, counts=True)
    assert counted.statistic == pytest.approx(calibration_test(*copies, method=method).statistic, rel=1e-10)
    clusters = np.repeat(np.arange(300), weights)
    together = calibration_test(*copies, method=method, clusters=clusters)
    single = calibration_test(logits, labels, method=method, sample_weight=weights, clusters=np.arange(300))
    assert (together.value, together.se) == pytest.approx((single.value, single.se), rel=1e-10)


@pytest.mark.parametrize("method", ["mean", "spiegelhalter", "ece"])
def test_arrays_tensors_and_batches_give_the_same(method):
    torch = pytest.importorskip("torch")
    logits, labels = reference.drawn(300, 4)
    weights = np.arange(300) % 3  # a third has weight zero
    expected = calibration_test(logits, labels, method=method, sample_weight=weights)
    assert expected.n_samples == 200
    for found in (
        calibration_test(torch.tensor(logits), torch.tensor(labels), method=method, sample_weight=torch.tensor(weights)),
        calibration_test(
            [(logits[:100], labels[:100], weights[:100]), (logits[100:], labels[100:], weights[100:])], method=method
        ),
        calibration_test(reference.softmax(logits), labels, method=method, sample_weight=weights, input="probabilities"),
    ):
        assert (found.value, found.se, found.p_value) == pytest.approx(
            (expected.value, expected.se, expected.p_value), rel=1e-8
        )


def test_masked_classes_are_never_drawn():
    logits, labels = reference.drawn(400, 5)
    masked = logits.copy()
    masked[np.arange(400), (labels + 1) % 5] = -np.inf
    p = reference.softmax(masked)
    excess = (p**2).sum(axis=1) - p[np.arange(400), labels]
    assert calibration_test(masked, labels).value == pytest.approx(2 * excess.mean(), rel=1e-10)


def test_the_sentence_says_what_was_found():
    logits, labels = reference.drawn(2000, 5)
    assert str(calibration_test(logits, labels, method="mean")).startswith("Calibration is rejected (p = ")
    assert str(calibration_test(logits, labels, method="mean")).endswith("): mean confidence is 0.18 above accuracy.")
    low = calibration_test(logits, labels, temperature=5.0).verdict
    assert low.endswith("below the one that the model expects.")
    assert calibration_test(logits, labels, temperature=2.0).verdict.startswith("Calibration is not rejected (p = ")
    assert " on average if labels are drawn from the model." in str(calibration_test(logits, labels, method="ece"))


def test_the_sentence_rejects_at_the_level_that_is_asked_for():
    found = calibration_test(*reference.drawn(2000, 5), temperature=2.16, method="mean")
    assert 0.02 < found.p_value < 0.04
    assert found.sentence() == found.verdict
    assert found.sentence().startswith("Calibration is rejected (p = 0.0")
    assert found.sentence(0.99) == found.sentence().replace(" is rejected", " is not rejected")
    with pytest.raises(InputError, match="`level` must lie between 0 and 1, got 'high'"):
        found.sentence("high")


@pytest.mark.parametrize("method", ["mean", "spiegelhalter"])
def test_ten_clusters_reject_a_temperature_that_is_far_off(method):
    logits, labels = reference.drawn(2000, 5)
    clusters = np.arange(2000) % 10
    found = calibration_test(logits, labels, method=method, clusters=clusters)
    assert found.statistic > 10
    p = reference.softmax(logits)
    confidence, right = claimed(logits, labels)
    deviation = confidence - right if method == "mean" else 2 * ((p**2).sum(axis=1) - p[np.arange(2000), labels])
    means = deviation.reshape(200, 10).mean(axis=0)
    assert found.se == pytest.approx(means.std() / np.sqrt(10), rel=1e-9)


def test_bad_arguments_are_refused():
    logits, labels = reference.drawn(50, 4)
    with pytest.raises(InputError, match="`method` must be 'mean', 'spiegelhalter' or 'ece', got 'ks'"):
        calibration_test(logits, labels, method="ks")
    with pytest.raises(InputError, match="`temperature` must be left out where `calibrator` is given"):
        calibration_test(logits, labels, temperature=1.0, calibrator=nishimori.from_temperature(2.0))
    with pytest.raises(InputError, match="`n_draws` must be a whole number from 1 to 1000000, got 0"):
        calibration_test(logits, labels, method="ece", n_draws=0)
    with pytest.raises(InputError, match="`seed` must be a whole number of at least 0, got None"):
        calibration_test(logits, labels, method="ece", seed=None)
    with pytest.raises(InputError, match="`n_bins` must be a whole number"):
        calibration_test(logits, labels, method="ece", n_bins=0)
    with pytest.raises(InputError, match="`clusters` must be left out for 'ece', which redraws each label by itself"):
        calibration_test(logits, labels, method="ece", clusters=np.arange(50))
    with pytest.raises(InputError, match="`counts` must be False for 'ece', which redraws each label once"):
        calibration_test(logits, labels, method="ece", counts=True)
    for method in ("mean", "spiegelhalter", "ece"):
        with pytest.raises(InputError, match="A sketch keeps sums and no rows"):
            calibration_test(nishimori.Sketch().update(logits, labels), method=method)


@pytest.mark.parametrize("method", ["mean", "spiegelhalter", "ece"])
def test_groups_go_to_a_calibrator_that_needs_them(method):
    logits, labels = reference.drawn(400, 5)
    groups = np.where(np.arange(400) % 2, "east", "west")
    map_ = nishimori.GroupTemperatures(("east", "west"), [0.7, 2.0], 1.0)
    fixed = nishimori.FixedMap(map_).fit(logits, labels)
    found = calibration_test(logits, labels, method=method, calibrator=fixed, groups=groups)
    scaled = logits / np.where(groups == "east", 0.7, 2.0)[:, None]
    assert found.p_value == pytest.approx(calibration_test(scaled, labels, method=method).p_value)
