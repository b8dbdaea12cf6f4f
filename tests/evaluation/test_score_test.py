"""The test of one temperature: its formula, its size, and data for which no temperature fits."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import reference
from scipy import stats

import nishimori
from nishimori import InputError, score_test


def gap_and_variance(method, logits, labels, T):
    """Of each row: the gap, and its variance if the label is drawn from softmax(logits / T)."""
    p = reference.softmax(logits, T)
    if method == "ec":
        values = (np.arange(logits.shape[1]) == logits.argmax(axis=1)[:, None]).astype(float)
    else:
        values = np.where(np.isfinite(logits), logits, 0.0)
    mean = (p * values).sum(axis=1)
    return mean - values[np.arange(len(labels)), labels], (p * (values - mean[:, None]) ** 2).sum(axis=1)


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("T", [1.0, 1.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_statistic_is_the_gap_over_its_standard_error_under_the_model(method, T, weighted):
    logits, labels = reference.drawn(500, 6)
    weights = np.random.default_rng(1).integers(0, 4, 500).astype(float) if weighted else np.ones(500)
    gap, variance = gap_and_variance(method, logits, labels, T)
    mean, se = weights @ gap / weights.sum(), np.sqrt(weights**2 @ variance) / weights.sum()
    found = score_test(logits, labels, temperature=T, method=method, sample_weight=weights if weighted else None)
    assert found.gap == pytest.approx(mean, rel=1e-10)
    assert found.se == pytest.approx(se, rel=1e-10)
    assert found.statistic == pytest.approx(mean / se, rel=1e-10)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(mean / se)), rel=1e-8)
    assert (found.temperature, found.method, found.n_samples) == (T, method, int((weights > 0).sum()))


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_a_weight_that_is_a_count_is_so_many_samples(method):
    logits, labels = reference.drawn(300, 4)
    weights = np.random.default_rng(1).integers(1, 5, 300)
    found = score_test(logits, labels, method=method, sample_weight=weights, counts=True)
    copies = score_test(np.repeat(logits, weights, axis=0), np.repeat(labels, weights), method=method)
    assert (found.gap, found.se) == pytest.approx((copies.gap, copies.se), rel=1e-10)


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_vary_as_their_sums_do_around_the_mean(method, weighted):
    logits, labels = reference.drawn(600, 4)
    clusters = np.random.default_rng(2).integers(40, size=600)
    weights = np.random.default_rng(1).uniform(0.5, 3, 600) if weighted else np.ones(600)
    gap, _ = gap_and_variance(method, logits, labels, 1.0)
    mean = weights @ gap / weights.sum()
    centred = [(weights * (gap - mean))[clusters == each].sum() for each in range(40)]
    found = score_test(logits, labels, method=method, clusters=clusters, sample_weight=weights if weighted else None)
    assert found.se == pytest.approx(np.linalg.norm(centred) / weights.sum(), rel=1e-9)
    assert found.gap == pytest.approx(mean, rel=1e-10)
    assert found.se_from == "sample"


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_clusters_of_one_sample_have_the_standard_error_of_the_mean(method):
    logits, labels = reference.drawn(300, 4)
    gap, _ = gap_and_variance(method, logits, labels, 1.0)
    assert score_test(logits, labels, method=method, clusters=np.arange(300)).se == pytest.approx(gap.std() / np.sqrt(300))


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_ten_clusters_reject_a_temperature_that_is_far_off(method):
    logits, labels = reference.drawn(2000, 5)
    found = score_test(logits, labels, method=method, clusters=np.arange(2000) % 10)
    assert found.statistic > 10  # the square root of 10 is all that squares around zero allow
    assert found.p_value < 1e-20


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("n", [100, 1000])
def test_the_size_is_five_percent(method, n):
    rng = np.random.default_rng(n)
    logits = 5 * rng.normal(size=(n, 4))  # accuracy 0.92: eight wrong answers expected in 100 samples
    cumulated = reference.softmax(logits, 1.5).cumsum(axis=1)
    draws = [(rng.random((n, 1)) > cumulated).sum(axis=1) for _ in range(500)]
    rejected = [score_test(logits, labels, temperature=1.5, method=method).p_value < 0.05 for labels in draws]
    assert 0.02 < np.mean(rejected) < 0.08  # 0.05, and three standard errors of 500 draws


def test_the_test_exists_where_no_temperature_fits():
    logits, _ = reference.drawn(200, 4)
    right = score_test(logits, logits.argmax(axis=1))
    assert right.gap < 0
    assert right.p_value < 1e-6
    wrong = score_test(logits, logits.argmin(axis=1))
    assert wrong.gap > 0.5
    assert str(wrong).startswith("T = 1 is rejected (p = ")
    sure = np.array([[-6.0, 0.0]] * 20)  # all right, as one expects of samples that are 99.8 % sure
    assert score_test(sure, np.ones(20, dtype=int)).p_value > 0.8


def test_labels_that_contradict_a_certain_model_have_probability_zero():
    sure = np.array([[0.0, -np.inf]] * 3)
    assert score_test(sure, [0, 0, 0]).p_value == 1
    found = score_test(sure, [0, 0, 1])
    assert found.statistic > 1e100
    assert found.p_value == 0
    assert str(found) == "T = 1 is rejected (p < 1e-300): mean confidence is 0.33 above accuracy."


def test_arrays_tensors_batches_and_files_give_the_same(tmp_path):
    torch = pytest.importorskip("torch")
    logits, labels = reference.drawn(300, 4)
    np.save(tmp_path / "logits.npy", logits)
    expected = score_test(logits, labels)
    batches = [(logits[:100], labels[:100]), (logits[100:], labels[100:])]
    for found in (
        score_test(torch.tensor(logits), torch.tensor(labels)),
        score_test(batches),
        score_test(tmp_path / "logits.npy", labels),
        score_test(reference.softmax(logits), labels, input="probabilities"),
    ):
        assert (found.gap, found.se) == pytest.approx((expected.gap, expected.se), rel=1e-9)


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("T", [1.0, 2.0])
def test_a_sketch_has_the_spread_of_its_samples(method, T):
    logits, labels = reference.drawn(400, 4)
    weights = np.random.default_rng(1).uniform(0.5, 3, 400)
    gap, _ = gap_and_variance(method, logits, labels, T)
    for weight in (None, np.full(400, 0.3)):
        even = score_test(nishimori.Sketch().update(logits, labels, weight), method=method, temperature=T)
        assert (even.gap, even.se) == pytest.approx((gap.mean(), gap.std() / 20), rel=1e-9)
    found = score_test(nishimori.Sketch().update(logits, labels, weights), method=method, temperature=T)
    assert found.gap == pytest.approx(weights @ gap / weights.sum(), rel=1e-9)
    assert found.se == pytest.approx(np.sqrt(weights**2 @ gap**2) / weights.sum(), rel=1e-9)
    assert found.se_from == "sample"
    assert (found.n_samples, score_test(logits, labels).se_from) == (400, "model")
    counted = score_test(nishimori.Sketch().update(logits, labels, weights), method=method, temperature=T, counts=True)
    spread = weights @ (gap - weights @ gap / weights.sum()) ** 2
    assert counted.se == pytest.approx(np.sqrt(spread) / weights.sum(), rel=1e-9)


def test_what_a_sketch_cannot_test_is_refused():
    logits, labels = reference.drawn(400, 4)
    sketch = nishimori.Sketch().update(logits, labels)
    with pytest.raises(InputError, match=r"`temperature` must be one of the sketch's grid.* The nearest is 1\.1892071"):
        score_test(sketch, temperature=1.2)
    assert score_test(sketch, temperature=1.189207115002721).temperature == pytest.approx(1.1892071)
    one = nishimori.Sketch().update(logits, labels, clusters=np.zeros(400))
    with pytest.raises(InputError, match="The sketch must hold at least two clusters for `score_test`, got one"):
        score_test(one)
    some = nishimori.Sketch().update(logits, labels, clusters=np.arange(400) // 20)
    gap, _ = gap_and_variance("ec", logits, labels, 1.0)
    around_zero = np.linalg.norm(gap.reshape(20, 20).sum(axis=1)) / 400
    assert score_test(some).se == pytest.approx(around_zero, rel=1e-9)
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
        score_test(some, counts=True)
    with pytest.raises(InputError, match="The sketch must hold the observable ts to fit it"):
        score_test(nishimori.Sketch(["ec"]).update(logits, labels), method="ts")


def test_binary_scores_may_be_flat():
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=400)
    labels = (rng.random(400) < 1 / (1 + np.exp(-z / 2))).astype(int)
    found = score_test(z, labels)
    confidence = 1 / (1 + np.exp(-np.abs(z)))
    assert found.gap == pytest.approx(np.mean(confidence - (labels == (z > 0))))
    assert found.se == pytest.approx(np.sqrt((confidence * (1 - confidence)).sum()) / 400)


def test_the_sentence_says_what_was_found():
    logits, labels = reference.drawn(2000, 5)
    assert score_test(logits, labels).verdict == "T = 1 is rejected (p = 6e-92): mean confidence is 0.18 above accuracy."
    kept = score_test(logits, labels, temperature=2.01, method="ts")
    assert str(kept).startswith("T = 2.01 is not rejected (p = 0.")
    assert str(kept).endswith(" the mean logit of the true class.")
    below = score_test(logits, labels, temperature=5, method="ts").verdict
    assert "the mean expected logit is" in below
    assert "below the mean logit of the true class" in below
    with pytest.raises(FrozenInstanceError):
        kept.p_value = 1
    for sampled in (
        score_test(nishimori.Sketch().update(logits, labels)),
        score_test(logits, labels, clusters=np.arange(2000) % 20),
    ):
        assert str(sampled).endswith(": mean confidence is 0.18 above accuracy (standard error from the sample).")


def test_the_sentence_rejects_at_the_level_that_is_asked_for():
    found = score_test(*reference.drawn(2000, 5), temperature=2.16)
    assert 0.02 < found.p_value < 0.04
    assert found.sentence() == found.verdict == found.sentence(0.95)
    assert found.sentence().startswith("T = 2.16 is rejected (p = 0.0")
    assert found.sentence(0.99).startswith("T = 2.16 is not rejected (p = 0.0")
    assert found.sentence(0.99).replace("not ", "") == found.sentence()
    with pytest.raises(InputError, match="`level` must lie between 0 and 1, got 95"):
        found.sentence(95)


def test_bad_arguments_are_refused():
    logits, labels = reference.drawn(50, 4)
    with pytest.raises(InputError, match="`method` must be 'ec' or 'ts', got 'nll'"):
        score_test(logits, labels, method="nll")
    with pytest.raises(InputError, match="`temperature` must be a finite positive number, got 0"):
        score_test(logits, labels, temperature=0)
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
        score_test(logits, labels, clusters=np.arange(50), counts=True)
    logits[3, labels[3]] = -np.inf
    assert score_test(logits, labels).n_samples == 50
    with pytest.raises(InputError, match="`labels` must not name a masked class for `method` 'ts', got 1 samples"):
        score_test(logits, labels, method="ts")
