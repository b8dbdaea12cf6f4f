"""Tests of calibration: each statistic's formula, sizes and power, redrawn labels, sentences, and what cannot be tested."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import reference
from scipy import stats

import nishimori
from nishimori import ExpectationConsistency, calibration_test
from nishimori._evaluation.calibration_test import RedrawnECE
from nishimori.errors import InputError, NoTemperatureError

# Those that ask about one temperature or one calibrator, and among them those that are means over samples, and gaps of a fit.
AT_ONE = ["confidence", "energy", "spiegelhalter", "ece"]
MEANS = ["confidence", "energy", "spiegelhalter"]
GAPS = ["confidence", "energy"]


def claimed(logits, labels, T=1.0):
    """Confidence and correctness of each row."""
    return reference.softmax(logits, T).max(axis=1), logits.argmax(axis=1) == labels


def gap_and_variance(statistic, logits, labels, T):
    """Of each row: the gap, and its variance if the label is drawn from softmax(logits / T)."""
    p = reference.softmax(logits, T)
    if statistic == "confidence":
        values = (np.arange(logits.shape[1]) == logits.argmax(axis=1)[:, None]).astype(float)
    else:
        values = np.where(np.isfinite(logits), logits, 0.0)
    mean = (p * values).sum(axis=1)
    return mean - values[np.arange(len(labels)), labels], (p * (values - mean[:, None]) ** 2).sum(axis=1)


def with_general_map(logits, labels):
    """A fitted calibrator that does more than divide logits by one temperature."""
    return nishimori.calibrators.FixedMap(nishimori.maps.Affine(0.5, np.linspace(-1, 1, logits.shape[1]))).fit(logits, labels)


# The mean of one number per sample


@pytest.mark.parametrize("statistic", GAPS)
@pytest.mark.parametrize("T", [1.0, 1.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaps_are_compared_with_their_standard_error_under_the_model(statistic, T, weighted):
    logits, labels = reference.drawn(500, 6)
    weights = np.random.default_rng(1).integers(0, 4, 500).astype(float) if weighted else np.ones(500)
    gap, variance = gap_and_variance(statistic, logits, labels, T)
    mean, se = weights @ gap / weights.sum(), np.sqrt(weights**2 @ variance) / weights.sum()
    found = calibration_test(logits, labels, temperature=T, statistic=statistic, sample_weight=weights if weighted else None)
    assert (found.value, found.expected) == (pytest.approx(mean, rel=1e-10), 0)
    assert found.se == pytest.approx(se, rel=1e-10)
    assert found.z == pytest.approx(mean / se, rel=1e-10)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(mean / se)), rel=1e-8)
    assert (found.temperature, found.statistic, found.n_samples) == (T, statistic, int((weights > 0).sum()))
    assert found.se_from == "model"


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
    assert (found.statistic, found.expected, found.se_from) == ("spiegelhalter", 0, "model")
    assert found.value == pytest.approx(weights @ excess / weights.sum(), rel=1e-10)
    assert found.z == pytest.approx(weights @ excess / np.sqrt(weights**2 @ variance), rel=1e-10)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(found.z)), rel=1e-8)


def test_two_classes_have_the_statistic_that_spiegelhalter_printed():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=300)
    labels = (rng.random(300) < 1 / (1 + np.exp(-z / 2))).astype(int)
    p = 1 / (1 + np.exp(-z))
    printed = ((labels - p) * (1 - 2 * p)).sum() / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    assert calibration_test(z, labels).z == pytest.approx(printed, rel=1e-10)


def test_spiegelhalter_keeps_its_digits_where_the_model_is_nearly_certain():
    logits = np.array([[0.0, -30.0, -31.0], [0.0, -30.0, -30.5]])
    found = calibration_test(logits, [0, 0])
    doubt = (np.exp(-30) + np.exp(-31)) + (np.exp(-30) + np.exp(-30.5))
    assert found.se == pytest.approx(np.sqrt(4 * doubt) / 2, rel=1e-10)
    assert found.value == pytest.approx(-2 * doubt / 2, rel=1e-10)


@pytest.mark.parametrize("statistic", MEANS)
def test_a_weight_that_is_a_count_is_so_many_samples_and_copies_are_a_cluster(statistic):
    logits, labels = reference.drawn(300, 4)
    weights = np.random.default_rng(1).integers(1, 5, 300)
    repeated = np.repeat(logits, weights, axis=0), np.repeat(labels, weights)
    counted = calibration_test(logits, labels, statistic=statistic, sample_weight=weights, counts=True)
    copies = calibration_test(*repeated, statistic=statistic)
    assert (counted.value, counted.se, counted.z) == pytest.approx((copies.value, copies.se, copies.z), rel=1e-10)
    clusters = np.repeat(np.arange(300), weights)
    together = calibration_test(*repeated, statistic=statistic, clusters=clusters)
    single = calibration_test(logits, labels, statistic=statistic, sample_weight=weights, clusters=np.arange(300))
    assert (together.value, together.se) == pytest.approx((single.value, single.se), rel=1e-10)


@pytest.mark.parametrize("statistic", GAPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_vary_as_their_sums_do_around_the_mean(statistic, weighted):
    logits, labels = reference.drawn(600, 4)
    clusters = np.random.default_rng(2).integers(40, size=600)
    weights = np.random.default_rng(1).uniform(0.5, 3, 600) if weighted else np.ones(600)
    gap, _ = gap_and_variance(statistic, logits, labels, 1.0)
    mean = weights @ gap / weights.sum()
    centred = [(weights * (gap - mean))[clusters == each].sum() for each in range(40)]
    options = {"clusters": clusters, "sample_weight": weights if weighted else None}
    found = calibration_test(logits, labels, statistic=statistic, **options)
    assert found.se == pytest.approx(np.linalg.norm(centred) / weights.sum(), rel=1e-9)
    assert found.value == pytest.approx(mean, rel=1e-10)
    assert found.se_from == "sample"


@pytest.mark.parametrize("statistic", GAPS)
def test_clusters_of_one_sample_have_the_standard_error_of_the_mean(statistic):
    logits, labels = reference.drawn(300, 4)
    gap, _ = gap_and_variance(statistic, logits, labels, 1.0)
    found = calibration_test(logits, labels, statistic=statistic, clusters=np.arange(300))
    assert found.se == pytest.approx(gap.std() / np.sqrt(300))


@pytest.mark.parametrize("statistic", MEANS)
def test_ten_clusters_reject_a_temperature_that_is_far_off(statistic):
    logits, labels = reference.drawn(2000, 5)
    found = calibration_test(logits, labels, statistic=statistic, clusters=np.arange(2000) % 10)
    assert found.z > 10  # the square root of 10 is all that squares around zero allow
    assert found.p_value < 1e-20
    if statistic == "spiegelhalter":
        p = reference.softmax(logits)
        each = 2 * ((p**2).sum(axis=1) - p[np.arange(2000), labels])
    else:
        each, _ = gap_and_variance(statistic, logits, labels, 1.0)
    means = each.reshape(200, 10).mean(axis=0)
    assert found.se == pytest.approx(means.std() / np.sqrt(10), rel=1e-9)
    assert found.se_from == "sample"


def test_a_given_temperature_can_be_tested_where_none_fits():
    logits, _ = reference.drawn(200, 4)
    right = calibration_test(logits, logits.argmax(axis=1), statistic="confidence")
    assert right.value < 0
    assert right.p_value < 1e-6
    wrong = calibration_test(logits, logits.argmin(axis=1), statistic="confidence")
    assert wrong.value > 0.5
    assert wrong.verdict.startswith("T = 1 is rejected (p ")
    sure = np.array([[-6.0, 0.0]] * 20)  # all right, as one expects of samples that are 99.8 % sure
    assert calibration_test(sure, np.ones(20, dtype=int), statistic="confidence").p_value > 0.8


def test_labels_that_contradict_a_certain_model_have_probability_zero():
    sure = np.array([[0.0, -np.inf]] * 3)
    assert calibration_test(sure, [0, 0, 0], statistic="confidence").p_value == 1
    found = calibration_test(sure, [0, 0, 1], statistic="confidence")
    assert found.z > 1e100
    assert found.p_value == 0
    assert found.verdict == "T = 1 is rejected (p < 0.001): mean confidence is 0.33 above accuracy."


def test_binary_scores_may_be_flat():
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=400)
    labels = (rng.random(400) < 1 / (1 + np.exp(-z / 2))).astype(int)
    found = calibration_test(z, labels, statistic="confidence")
    confidence = 1 / (1 + np.exp(-np.abs(z)))
    assert found.value == pytest.approx(np.mean(confidence - (labels == (z > 0))))
    assert found.se == pytest.approx(np.sqrt((confidence * (1 - confidence)).sum()) / 400)


def test_masked_classes_are_never_drawn():
    logits, labels = reference.drawn(400, 5)
    masked = logits.copy()
    masked[np.arange(400), (labels + 1) % 5] = -np.inf
    p = reference.softmax(masked)
    excess = (p**2).sum(axis=1) - p[np.arange(400), labels]
    assert calibration_test(masked, labels).value == pytest.approx(2 * excess.mean(), rel=1e-10)


def test_a_true_class_that_is_masked_is_a_miss_but_has_no_energy():
    logits, labels = reference.drawn(50, 4)
    logits[3, labels[3]] = -np.inf
    confidence, right = claimed(logits, labels)
    found = calibration_test(logits, labels, statistic="confidence")
    assert found.n_samples == 50
    assert found.value == pytest.approx((confidence - right).mean())
    message = "`labels` must not name a masked class for 'energy', got 1 samples .* or use 'confidence', which counts them"
    for data in ((logits, labels), (nishimori.Sketch().update(logits, labels),)):
        with pytest.raises(InputError, match=message):
            calibration_test(*data, statistic="energy")


# Sketches


@pytest.mark.parametrize("statistic", GAPS)
@pytest.mark.parametrize("T", [1.0, 2.0])
def test_a_sketch_has_the_spread_of_its_samples(statistic, T):
    logits, labels = reference.drawn(400, 4)
    weights = np.random.default_rng(1).uniform(0.5, 3, 400)
    gap, _ = gap_and_variance(statistic, logits, labels, T)
    asked = {"statistic": statistic, "temperature": T}
    for weight in (None, np.full(400, 0.3)):
        even = calibration_test(nishimori.Sketch().update(logits, labels, weight), **asked)
        assert (even.value, even.se) == pytest.approx((gap.mean(), gap.std() / 20), rel=1e-9)
    found = calibration_test(nishimori.Sketch().update(logits, labels, weights), **asked)
    assert found.value == pytest.approx(weights @ gap / weights.sum(), rel=1e-9)
    assert found.se == pytest.approx(np.sqrt(weights**2 @ gap**2) / weights.sum(), rel=1e-9)
    assert (found.se_from, found.n_samples, found.temperature) == ("sample", 400, T)
    counted = calibration_test(nishimori.Sketch().update(logits, labels, weights), counts=True, **asked)
    spread = weights @ (gap - weights @ gap / weights.sum()) ** 2
    assert counted.se == pytest.approx(np.sqrt(spread) / weights.sum(), rel=1e-9)


def test_a_sketch_of_clusters_has_their_spread_around_zero():
    logits, labels = reference.drawn(400, 4)
    some = nishimori.Sketch().update(logits, labels, clusters=np.arange(400) // 20)
    gap, _ = gap_and_variance("confidence", logits, labels, 1.0)
    around_zero = np.linalg.norm(gap.reshape(20, 20).sum(axis=1)) / 400
    assert calibration_test(some, statistic="confidence").se == pytest.approx(around_zero, rel=1e-9)
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
        calibration_test(some, statistic="confidence", counts=True)


def test_what_a_sketch_cannot_test_is_refused():
    logits, labels = reference.drawn(400, 4)
    sketch = nishimori.Sketch().update(logits, labels)
    with pytest.raises(InputError, match=r"`temperature` must be one of the sketch's grid.* The nearest is 1\.1892071"):
        calibration_test(sketch, statistic="confidence", temperature=1.2)
    near = calibration_test(sketch, statistic="confidence", temperature=1.189207115002721)
    assert near.temperature == pytest.approx(1.1892071)
    one = nishimori.Sketch().update(logits, labels, clusters=np.zeros(400))
    for statistic in (*GAPS, "temperatures"):
        with pytest.raises(InputError, match="The sketch must hold at least two clusters for `calibration_test`, got one"):
            calibration_test(one, statistic=statistic)
    with pytest.raises(InputError, match="The sketch must hold the observable ts to fit it"):
        calibration_test(nishimori.Sketch(["ec"]).update(logits, labels), statistic="energy")
    with pytest.raises(InputError, match="`calibrator` must divide logits by one temperature to be tested on a sketch"):
        calibration_test(sketch, statistic="confidence", calibrator=with_general_map(logits, labels))
    refusals = {
        "spiegelhalter": "`statistic` must be 'confidence', 'energy' or 'temp",
        "ece": "A Sketch has no labels to redraw",
    }
    for statistic, message in refusals.items():
        with pytest.raises(InputError, match=message):
            calibration_test(sketch, statistic=statistic)


# Redrawn labels


def redrawn(confidence, edges, weights, n_draws, seed):
    """The ECE of each of many draws of correctness, with a loop over draws."""
    rng = np.random.default_rng(seed)
    draws = rng.random((n_draws, len(confidence))) < confidence
    return np.array([reference.ece(confidence, right, edges, weights) for right in draws])


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
        statistic="ece",
        temperature=1.8,
        n_bins=10,
        strategy=strategy,
        n_draws=4000,
        sample_weight=weights if weighted else None,
    )
    assert found.value == pytest.approx(ece, rel=1e-10)
    assert found.expected == pytest.approx(drawn.mean(), rel=0.03)
    assert found.se == pytest.approx(drawn.std(), rel=0.08)
    assert found.z == pytest.approx((found.value - found.expected) / found.se)
    assert found.p_value == pytest.approx((drawn >= ece).mean(), abs=0.05)
    assert (found.n_draws, found.se_from) == (4000, "model")


def test_bins_with_many_wrong_answers_are_drawn_as_the_exact_ones_are():
    rng = np.random.default_rng(0)
    doubt = rng.uniform(0.1, 0.5, 20_000)
    index = (doubt * 10).astype(int) - 1
    made = RedrawnECE(((index, doubt, np.ones(20_000), rng.random(20_000) >= doubt),), 4)
    assert made.is_normal.all()
    right = (rng.random((300, 20_000)) >= doubt).astype(float)
    gaps = np.stack([(right + doubt - 1)[:, index == each].sum(axis=1) for each in range(4)])
    exact, found = np.abs(gaps).sum(axis=0) / 20_000, made.draw_eces(3000, 0)
    assert found.mean() == pytest.approx(exact.mean(), rel=0.07)
    assert stats.ks_2samp(found, exact).pvalue > 0.01


def test_an_answer_is_drawn_wrong_with_the_probability_of_its_doubt():
    doubt = np.array([0.9, 0.5, 0.01, 0.0])
    rows = (np.arange(4), doubt, np.array([1.0, 2.0, 1.0, 1.0]), np.ones(4, dtype=bool))
    drawn = RedrawnECE((rows,), 4).draw_eces(20_000, 1)
    # One row per bin: the mean of |w(wrong − q)| is 2wq(1 − q).
    assert drawn.mean() == pytest.approx((2 * 0.09 + 4 * 0.25 + 2 * 0.0099) / 5, rel=0.01)


def test_seeds_repeat_and_differ():
    logits, labels = reference.drawn(200, 5)
    first, again, other = (
        calibration_test(logits, labels, statistic="ece", temperature=2.0, n_draws=50, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.expected != other.expected


# All statistics of one temperature or one calibrator


@pytest.mark.parametrize("statistic", AT_ONE)
@pytest.mark.parametrize("n", [100, 1000])
def test_the_size_is_five_percent(statistic, n):
    rng = np.random.default_rng(n)
    logits = 5 * rng.normal(size=(n, 4))  # accuracy 0.92: eight wrong answers expected in 100 samples
    cumulated = reference.softmax(logits, 1.5).cumsum(axis=1)
    draws = [(rng.random((n, 1)) > cumulated).sum(axis=1) for _ in range(500)]
    asked = {"temperature": 1.5, "statistic": statistic, "n_draws": 199}
    rejected = [calibration_test(logits, labels, **asked).p_value <= 0.05 for labels in draws]
    assert 0.02 < np.mean(rejected) < 0.08  # 0.05, and three standard errors of 500 draws


@pytest.mark.parametrize("statistic", AT_ONE)
def test_overconfidence_is_found(statistic):
    logits, labels = reference.drawn(2000, 5)
    assert calibration_test(logits, labels, statistic=statistic).p_value < 0.002
    assert calibration_test(logits, labels, statistic=statistic, temperature=2.0).p_value > 0.05


def test_the_default_is_spiegelhalters_test_of_the_model_as_it_is():
    logits, labels = reference.drawn(300, 5)
    found = calibration_test(logits, labels)
    assert found == calibration_test(logits, labels, statistic="spiegelhalter", temperature=1.0)
    assert (found.statistic, found.temperature) == ("spiegelhalter", 1)


def test_confidence_agrees_after_ec_on_the_same_samples():
    logits, labels = reference.drawn(500, 5)
    calibrator = ExpectationConsistency().fit(logits, labels)
    found = calibration_test(logits, labels, statistic="confidence", calibrator=calibrator)
    assert found.p_value == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("statistic", AT_ONE)
def test_a_calibrator_is_its_temperature(statistic):
    logits, labels = reference.drawn(500, 5)
    calibrator = ExpectationConsistency().fit(logits, labels)
    other = reference.drawn(300, 5, seed=1)
    found = calibration_test(*other, statistic=statistic, calibrator=calibrator)
    assert found == calibration_test(*other, statistic=statistic, temperature=calibrator.temperature_)
    assert found.temperature == calibrator.temperature_


@pytest.mark.parametrize("statistic", ["confidence", "spiegelhalter", "ece"])
def test_a_map_that_does_more_is_tested_by_its_probabilities(statistic):
    logits, labels = reference.drawn(400, 5)
    calibrator = with_general_map(logits, labels)
    found = calibration_test(logits, labels, statistic=statistic, calibrator=calibrator)
    plain = calibration_test(calibrator.predict_proba(logits), labels, statistic=statistic, input="probabilities")
    assert (found.value, found.se) == pytest.approx((plain.value, plain.se), rel=1e-8)
    assert found.temperature is None


@pytest.mark.parametrize("statistic", AT_ONE)
def test_arrays_tensors_batches_and_files_give_the_same(statistic, tmp_path):
    torch = pytest.importorskip("torch")
    logits, labels = reference.drawn(300, 4)
    weights = np.arange(300) % 3  # a third has weight zero
    np.save(tmp_path / "logits.npy", logits)
    asked = {"statistic": statistic}
    expected = calibration_test(logits, labels, sample_weight=weights, **asked)
    assert expected.n_samples == 200
    for found in (
        calibration_test(torch.tensor(logits), torch.tensor(labels), sample_weight=torch.tensor(weights), **asked),
        calibration_test([(logits[:100], labels[:100], weights[:100]), (logits[100:], labels[100:], weights[100:])], **asked),
        calibration_test(tmp_path / "logits.npy", labels, sample_weight=weights, **asked),
        calibration_test(reference.softmax(logits), labels, sample_weight=weights, input="probabilities", **asked),
    ):
        assert (found.value, found.se, found.p_value) == pytest.approx(
            (expected.value, expected.se, expected.p_value), rel=1e-8
        )


@pytest.mark.parametrize("statistic", ["confidence", "spiegelhalter", "ece"])
def test_groups_go_to_a_calibrator_that_needs_them(statistic):
    logits, labels = reference.drawn(400, 5)
    groups = np.where(np.arange(400) % 2, "east", "west")
    map_ = nishimori.maps.GroupTemperatures(("east", "west"), [0.7, 2.0], 1.0)
    fixed = nishimori.calibrators.FixedMap(map_).fit(logits, labels)
    found = calibration_test(logits, labels, statistic=statistic, calibrator=fixed, groups=groups)
    scaled = logits / np.where(groups == "east", 0.7, 2.0)[:, None]
    assert found.p_value == pytest.approx(calibration_test(scaled, labels, statistic=statistic).p_value)


@pytest.mark.parametrize("statistic", AT_ONE)
def test_what_only_temperatures_have_is_none_for_the_others(statistic):
    found = calibration_test(*reference.drawn(300, 4), statistic=statistic)
    assert (found.ec, found.ts, found.log_ratio, found.j) == (None, None, None, None)
    assert found.n_draws == (1000 if statistic == "ece" else None)
    with pytest.raises(FrozenInstanceError):
        found.p_value = 1


# Both temperatures

STEP = 1e-4


def both_gaps(logits, labels, T):
    """Both gaps of each row, (2, n)."""
    return np.stack([gap_and_variance(each, logits, labels, T)[0] for each in GAPS])


def conditions(logits, labels, weights):
    """δ, its standard error and J: gaps at T of temperature scaling, slopes in log T by differences, and GMM by inversion."""
    ec, ts = (each(logits, labels, weights) for each in (reference.ec_temperature, reference.ts_temperature))
    at = both_gaps(logits, labels, ts)
    above, below = (both_gaps(logits, labels, ts * np.exp(step)) for step in (STEP, -STEP))
    slopes = (above - below) @ weights / (2 * STEP)
    influence = at[0] / slopes[0] - at[1] / slopes[1]
    inverse = np.linalg.inv((weights * at) @ (weights * at).T)
    total = at @ weights
    j = total @ inverse @ total - (slopes @ inverse @ total) ** 2 / (slopes @ inverse @ slopes)
    return ec, ts, np.log(ec / ts), np.sqrt((weights**2 * influence**2).sum()), j


def temperatures_test(logits, labels=None, **options):
    return calibration_test(logits, labels, statistic="temperatures", **options)


@pytest.mark.parametrize(("n", "k"), [(300, 2), (500, 5), (3000, 10)])
@pytest.mark.parametrize("weighted", [False, True])
def test_temperatures_are_compared_by_both_conditions_at_one_temperature(n, k, weighted):
    logits, labels = reference.drawn(n, k)
    labels[: n // 5] = np.random.default_rng(3).integers(k, size=n // 5)
    weights = np.random.default_rng(1).uniform(0.5, 3, n) if weighted else np.ones(n)
    ec, ts, log_ratio, se, j = conditions(logits, labels, weights)
    found = temperatures_test(logits, labels, sample_weight=weights if weighted else None)
    assert (found.ec, found.ts) == pytest.approx((ec, ts), rel=1e-7)
    assert found.log_ratio == pytest.approx(log_ratio, rel=1e-5)
    assert found.se == pytest.approx(se, rel=1e-5)
    assert found.j == pytest.approx(j, rel=1e-4)
    assert found.z == pytest.approx(log_ratio / se, rel=1e-5)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(log_ratio / se)), rel=1e-3)
    assert (found.statistic, found.value, found.expected) == ("temperatures", found.log_ratio, 0)
    assert (found.temperature, found.n_samples, found.se_from, found.n_draws) == (None, n, "sample", None)


def test_counts_and_clusters_change_the_error_of_the_ratio_as_they_should():
    logits, labels = reference.drawn(600, 4)
    weights = np.random.default_rng(1).integers(1, 5, 600)
    copies = np.repeat(logits, weights, axis=0), np.repeat(labels, weights)
    counted = temperatures_test(logits, labels, sample_weight=weights, counts=True)
    assert counted.se == pytest.approx(temperatures_test(*copies).se, rel=1e-6)
    together = temperatures_test(*copies, clusters=np.repeat(np.arange(600), weights))
    assert together.se == pytest.approx(temperatures_test(logits, labels, sample_weight=weights).se, rel=1e-6)
    assert together.j == pytest.approx(temperatures_test(logits, labels, sample_weight=weights).j, rel=1e-5)
    singletons = temperatures_test(logits, labels, clusters=np.arange(600))
    assert singletons.se == pytest.approx(temperatures_test(logits, labels).se, rel=1e-10)


def test_temperatures_have_their_size_and_find_label_noise():
    rng = np.random.default_rng(0)
    logits = 3.5 * rng.normal(size=(400, 5))
    cumulated = reference.softmax(logits, 1.5).cumsum(axis=1)
    drawn, noisy = [], []
    for _ in range(300):
        labels = (rng.random((400, 1)) > cumulated).sum(axis=1)
        drawn.append(temperatures_test(logits, labels).p_value < 0.05)
        labels = np.where(rng.random(400) < 0.2, rng.integers(5, size=400), labels)
        noisy.append(temperatures_test(logits, labels).p_value < 0.05)
    assert 0.01 < np.mean(drawn) < 0.09  # 0.05, and three standard errors of 300 draws
    assert np.mean(noisy) > 0.8


@pytest.mark.parametrize("size", [0.7, 1.1, 1.3, 1.9])
def test_conditions_that_are_proportional_are_the_same(size):
    z = np.where(np.arange(90) % 2, size, -size)  # all scores have the same size, so both methods count errors
    labels = (z > 0).astype(int)
    labels[:18] = 1 - labels[:18]
    for copies in (1, 40):
        found = temperatures_test(np.tile(z, copies), np.tile(labels, copies))
        assert found.ec == pytest.approx(found.ts, rel=1e-7)
        assert (found.se, found.p_value, found.j) == (0, 1, 0)
        assert found.verdict == "EC and TS are the same condition on these data, so there is nothing to test."


def test_a_temperature_that_does_not_exist_is_named():
    logits, labels = reference.drawn(100, 4)
    with pytest.raises(NoTemperatureError, match=r"Both temperatures must exist to be compared\. EC: No ") as e:
        temperatures_test(logits, logits.argmax(axis=1))
    assert e.value.end == "cold"
    # Accuracy is above chance, but the true class is often the least likely one.
    logits = np.tile([[2.0, 0.0, 0.0, -40.0]], (10, 1))
    with pytest.raises(NoTemperatureError, match=r"to be compared\. TS: No temperature fits"):
        temperatures_test(logits, [0] * 5 + [3] * 5)
    logits, labels = reference.drawn(100, 4)
    logits[0, labels[0]] = -np.inf
    with pytest.raises(InputError, match="`labels` must not name a masked class for temperature scaling"):
        temperatures_test(logits, labels)


def test_temperatures_of_arrays_tensors_batches_and_sketches_are_compared_alike():
    torch = pytest.importorskip("torch")
    logits, labels = reference.drawn(2000, 4)
    expected = temperatures_test(logits, labels)
    for found in (
        temperatures_test(torch.tensor(logits), torch.tensor(labels)),
        temperatures_test([(logits[:900], labels[:900]), (logits[900:], labels[900:])]),
        temperatures_test(reference.softmax(logits), labels, input="probabilities"),
    ):
        assert (found.log_ratio, found.se, found.j) == pytest.approx((expected.log_ratio, expected.se, expected.j), rel=1e-5)
    sketch = temperatures_test(nishimori.Sketch().update(logits, labels))
    assert (sketch.log_ratio, sketch.se, sketch.j) == pytest.approx((expected.log_ratio, expected.se, expected.j), rel=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"counts": True}, {"clusters": np.arange(2000) // 4}], ids=["rows", "counts", "clusters"]
)
def test_temperatures_of_a_network_and_of_its_sketch_are_compared_alike(options):
    validation = nishimori.data.load("cifar10/resnet20").validation
    logits, labels = validation.logits[:2000], validation.labels[:2000]
    weights = np.random.default_rng(0).integers(1, 3, 2000) if "counts" in options else None
    rows = temperatures_test(logits, labels, sample_weight=weights, **options)
    sketch = nishimori.Sketch().update(logits, labels, weights, clusters=options.get("clusters"))
    found = temperatures_test(sketch, counts="counts" in options)
    assert found.se == pytest.approx(rows.se, rel=1e-4)
    assert found.z == pytest.approx(rows.z, rel=1e-4)
    assert found.j == pytest.approx(rows.j, rel=1e-3)


# Sentences


def test_the_sentence_names_the_temperature_and_what_was_found():
    logits, labels = reference.drawn(2000, 5)
    found = calibration_test(logits, labels, statistic="confidence")
    assert found.verdict == "T = 1 is rejected (p < 0.001): mean confidence is 0.18 above accuracy."
    assert found.verdict in str(found)
    kept = calibration_test(logits, labels, temperature=2.01, statistic="energy").verdict
    assert kept.startswith("T = 2.01 is not rejected (p = 0.")
    assert kept.endswith(" the mean logit of the true class.")
    below = calibration_test(logits, labels, temperature=5, statistic="energy").verdict
    assert "the mean expected logit is" in below
    assert "below the mean logit of the true class" in below
    low = calibration_test(logits, labels, temperature=5.0).verdict
    assert low.endswith("below the score that the model expects.")
    assert calibration_test(logits, labels, temperature=2.0).verdict.startswith("T = 2 is not rejected (p = ")
    ece = calibration_test(logits, labels, statistic="ece")
    assert ece.verdict.endswith(
        f"the ECE is 0.18, compared with {ece.expected:.2g} on average if labels are drawn from the model."
    )


def test_the_sentence_about_a_map_without_a_temperature_speaks_of_calibration():
    logits, labels = reference.drawn(2000, 5)
    calibrator = with_general_map(logits, labels)
    assert calibration_test(logits, labels, calibrator=calibrator).verdict.startswith("Calibration is rejected (p ")


def test_the_sentence_says_if_the_standard_error_is_from_the_sample():
    logits, labels = reference.drawn(2000, 5)
    clusters = np.arange(2000) % 20
    for sampled in (
        calibration_test(nishimori.Sketch().update(logits, labels), statistic="confidence"),
        calibration_test(logits, labels, statistic="confidence", clusters=clusters),
    ):
        assert sampled.verdict.endswith(": mean confidence is 0.18 above accuracy (standard error from the sample).")
    brier = calibration_test(logits, labels, clusters=clusters).verdict
    assert brier.endswith(" the score that the model expects (standard error from the sample).")


def test_the_sentence_says_whether_one_temperature_describes_the_model():
    logits, labels = reference.drawn(2000, 5)
    one = temperatures_test(logits, labels).verdict
    assert one == "EC and TS differ by 0.3 standard errors (p = 0.76): one temperature is not rejected."
    labels[:300] = np.random.default_rng(0).integers(5, size=300)
    found = temperatures_test(logits, labels)
    assert found.verdict.startswith(f"EC and TS differ by {abs(found.z):.1f} standard errors (p ")
    assert found.verdict.endswith("): one temperature does not describe this model.")


def test_the_sentence_rejects_at_the_level_that_is_asked_for():
    found = calibration_test(*reference.drawn(2000, 5), temperature=2.16, statistic="confidence")
    assert 0.02 < found.p_value < 0.04
    assert found.sentence() == found.verdict == found.sentence(0.95)
    assert found.sentence().startswith("T = 2.16 is rejected (p = 0.0")
    assert found.sentence(0.99) == found.sentence().replace(" is rejected", " is not rejected")
    for level in (95, "high"):
        with pytest.raises(InputError, match=f"`level` must lie between 0 and 1, got {level!r}"):
            found.sentence(level)


def test_the_sentence_about_temperatures_rejects_at_the_level_that_is_asked_for():
    found = temperatures_test(*reference.drawn(2000, 5))
    assert 0.7 < found.p_value < 0.8
    assert found.sentence() == found.verdict
    assert found.sentence().endswith("): one temperature is not rejected.")
    assert found.sentence(0.24).endswith("): one temperature is not rejected.")
    assert found.sentence(0.23).endswith("): one temperature does not describe this model.")
    with pytest.raises(InputError, match="`level` must lie between 0 and 1, got 2"):
        found.sentence(2)


# Refusals


@pytest.mark.parametrize("statistic", ["ks", "ec", "mean", None, ["ece"]])
def test_an_unknown_statistic_is_refused_with_the_list(statistic):
    with pytest.raises(InputError) as refused:
        calibration_test(*reference.drawn(50, 4), statistic=statistic)
    known = "'confidence', 'energy', 'spiegelhalter', 'ece' or 'temperatures'"
    assert str(refused.value) == f"`statistic` must be {known}, got {statistic!r}."


def test_temperatures_are_not_told_what_to_test():
    logits, labels = reference.drawn(50, 4)
    message = "` must be left out for 'temperatures', which compares the temperatures of EC and TS"
    with pytest.raises(InputError, match=f"`temperature{message}"):
        temperatures_test(logits, labels, temperature=1.0)
    with pytest.raises(InputError, match=f"`calibrator{message}"):
        temperatures_test(logits, labels, calibrator=nishimori.from_temperature(2.0))


@pytest.mark.parametrize("statistic", ["energy", "temperatures"])
def test_groups_are_refused_where_no_calibrator_can_need_them(statistic):
    logits, labels = reference.drawn(50, 4)
    with pytest.raises(InputError, match=f"`groups` must be left out for '{statistic}', which treats all groups alike"):
        calibration_test(logits, labels, statistic=statistic, groups=labels)


def test_energy_needs_one_temperature():
    logits, labels = reference.drawn(50, 4)
    with pytest.raises(InputError, match="`calibrator` must divide logits by one temperature for 'energy', got one that does"):
        calibration_test(logits, labels, statistic="energy", calibrator=with_general_map(logits, labels))


def test_bad_arguments_are_refused():
    logits, labels = reference.drawn(50, 4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'method'"):
        calibration_test(logits, labels, method="ts")
    with pytest.raises(InputError, match="`temperature` must be left out: `calibrator` already"):
        calibration_test(logits, labels, temperature=1.0, calibrator=nishimori.from_temperature(2.0))
    for statistic in AT_ONE:
        with pytest.raises(InputError, match="`temperature` must be a finite positive number, got 0"):
            calibration_test(logits, labels, statistic=statistic, temperature=0)
    for statistic in MEANS:
        with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
            calibration_test(logits, labels, statistic=statistic, clusters=np.arange(50), counts=True)


def test_what_redrawing_labels_cannot_do_is_refused():
    logits, labels = reference.drawn(50, 4)
    for message, options in {
        "`n_draws` must be a whole number from 1 to 1000000, got 0": {"n_draws": 0},
        "`seed` must be a whole number of at least 0, got None": {"seed": None},
        "`n_bins` must be a whole number": {"n_bins": 0},
        "`clusters` must be left out for 'ece', which redraws each label by itself": {"clusters": np.arange(50)},
        "`counts` must be False for 'ece', which redraws each label once": {"counts": True},
    }.items():
        with pytest.raises(InputError, match=message):
            calibration_test(logits, labels, statistic="ece", **options)
