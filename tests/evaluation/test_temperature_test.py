"""Whether EC and TS differ by more than chance: the formula, size and power, and data on which there is nothing to compare."""

import numpy as np
import pytest
import reference
from scipy import stats

import nishimori
from nishimori import InputError, NoTemperatureError, temperature_test

STEP = 1e-4


def gaps(logits, labels, T):
    """Both gaps of each row, (2, n)."""
    p, rows = reference.softmax(logits, T), np.arange(len(labels))
    top = logits.argmax(axis=1)
    return np.stack([p[rows, top] - (top == labels), (p * logits).sum(axis=1) - logits[rows, labels]])


def conditions(logits, labels, weights):
    """δ, its standard error and J: gaps at T of temperature scaling, slopes in log T by differences, and GMM by inversion."""
    ec, ts = (each(logits, labels, weights) for each in (reference.ec_temperature, reference.ts_temperature))
    at = gaps(logits, labels, ts)
    slopes = (gaps(logits, labels, ts * np.exp(STEP)) - gaps(logits, labels, ts * np.exp(-STEP))) @ weights / (2 * STEP)
    influence = at[0] / slopes[0] - at[1] / slopes[1]
    inverse = np.linalg.inv((weights * at) @ (weights * at).T)
    total = at @ weights
    j = total @ inverse @ total - (slopes @ inverse @ total) ** 2 / (slopes @ inverse @ slopes)
    return ec, ts, np.log(ec / ts), np.sqrt((weights**2 * influence**2).sum()), j


@pytest.mark.parametrize(("n", "k"), [(300, 2), (500, 5), (3000, 10)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_statistic_is_that_of_both_conditions_at_one_temperature(n, k, weighted):
    logits, labels = reference.drawn(n, k)
    labels[: n // 5] = np.random.default_rng(3).integers(k, size=n // 5)
    weights = np.random.default_rng(1).uniform(0.5, 3, n) if weighted else np.ones(n)
    ec, ts, log_ratio, se, j = conditions(logits, labels, weights)
    found = temperature_test(logits, labels, sample_weight=weights if weighted else None)
    assert (found.ec, found.ts) == pytest.approx((ec, ts), rel=1e-7)
    assert found.log_ratio == pytest.approx(log_ratio, rel=1e-5)
    assert found.se == pytest.approx(se, rel=1e-5)
    assert found.j == pytest.approx(j, rel=1e-4)
    assert found.statistic == pytest.approx(log_ratio / se, rel=1e-5)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(log_ratio / se)), rel=1e-3)
    assert found.n_samples == n


def test_counts_and_clusters_change_the_error_as_they_should():
    logits, labels = reference.drawn(600, 4)
    weights = np.random.default_rng(1).integers(1, 5, 600)
    copies = np.repeat(logits, weights, axis=0), np.repeat(labels, weights)
    counted = temperature_test(logits, labels, sample_weight=weights, counts=True)
    assert counted.se == pytest.approx(temperature_test(*copies).se, rel=1e-6)
    together = temperature_test(*copies, clusters=np.repeat(np.arange(600), weights))
    assert together.se == pytest.approx(temperature_test(logits, labels, sample_weight=weights).se, rel=1e-6)
    assert together.j == pytest.approx(temperature_test(logits, labels, sample_weight=weights).j, rel=1e-5)
    singletons = temperature_test(logits, labels, clusters=np.arange(600))
    assert singletons.se == pytest.approx(temperature_test(logits, labels).se, rel=1e-10)


def test_size_and_power():
    rng = np.random.default_rng(0)
    logits = 3.5 * rng.normal(size=(400, 5))
    cumulated = reference.softmax(logits, 1.5).cumsum(axis=1)
    drawn, noisy = [], []
    for _ in range(300):
        labels = (rng.random((400, 1)) > cumulated).sum(axis=1)
        drawn.append(temperature_test(logits, labels).p_value < 0.05)
        labels = np.where(rng.random(400) < 0.2, rng.integers(5, size=400), labels)
        noisy.append(temperature_test(logits, labels).p_value < 0.05)
    assert 0.01 < np.mean(drawn) < 0.09  # 0.05, and three standard errors of 300 draws
    assert np.mean(noisy) > 0.8


@pytest.mark.parametrize("size", [0.7, 1.1, 1.3, 1.9])
def test_conditions_that_are_proportional_are_the_same(size):
    z = np.where(np.arange(90) % 2, size, -size)  # all scores have the same size, so both methods count errors
    labels = (z > 0).astype(int)
    labels[:18] = 1 - labels[:18]
    for copies in (1, 40):
        found = temperature_test(np.tile(z, copies), np.tile(labels, copies))
        assert found.ec == pytest.approx(found.ts, rel=1e-7)
        assert (found.se, found.p_value) == (0, 1)
        assert str(found) == "EC and TS are the same condition on these data, so there is nothing to test."


def test_a_temperature_that_does_not_exist_is_named():
    logits, labels = reference.drawn(100, 4)
    with pytest.raises(
        NoTemperatureError, match=r"Both temperatures must exist to be compared\. Expectation consistency: No "
    ) as e:
        temperature_test(logits, logits.argmax(axis=1))
    assert e.value.end == "cold"
    # Accuracy is above chance, but the true class is often the least likely one.
    logits = np.tile([[2.0, 0.0, 0.0, -40.0]], (10, 1))
    with pytest.raises(NoTemperatureError, match=r"to be compared\. Temperature scaling: No temperature fits"):
        temperature_test(logits, [0] * 5 + [3] * 5)
    logits, labels = reference.drawn(100, 4)
    logits[0, labels[0]] = -np.inf
    with pytest.raises(InputError, match="`labels` must not name a masked class for temperature scaling"):
        temperature_test(logits, labels)


def test_arrays_tensors_batches_and_sketches_give_the_same(tmp_path):
    torch = pytest.importorskip("torch")
    logits, labels = reference.drawn(2000, 4)
    expected = temperature_test(logits, labels)
    for found in (
        temperature_test(torch.tensor(logits), torch.tensor(labels)),
        temperature_test([(logits[:900], labels[:900]), (logits[900:], labels[900:])]),
        temperature_test(reference.softmax(logits), labels, input="probabilities"),
    ):
        assert (found.log_ratio, found.se, found.j) == pytest.approx((expected.log_ratio, expected.se, expected.j), rel=1e-5)
    sketch = temperature_test(nishimori.Sketch().update(logits, labels))
    assert (sketch.log_ratio, sketch.se, sketch.j) == pytest.approx((expected.log_ratio, expected.se, expected.j), rel=1e-4)
    with pytest.raises(InputError, match="The sketch must hold at least two clusters for `temperature_test`, got one"):
        temperature_test(nishimori.Sketch().update(logits, labels, clusters=np.zeros(2000)))


def test_the_sentence_says_what_was_found():
    logits, labels = reference.drawn(2000, 5)
    one = str(temperature_test(logits, labels))
    assert one == "EC and TS differ by 0.3 standard errors (p = 0.76): one temperature is not rejected."
    labels[:300] = np.random.default_rng(0).integers(5, size=300)
    found = temperature_test(logits, labels)
    assert found.verdict.startswith(f"EC and TS differ by {abs(found.statistic):.1f} standard errors (p = ")
    assert found.verdict.endswith("): one temperature does not describe this model.")


def test_the_sentence_rejects_at_the_level_that_is_asked_for():
    logits, labels = reference.drawn(2000, 5)
    found = temperature_test(logits, labels)
    assert 0.7 < found.p_value < 0.8
    assert found.sentence() == found.verdict
    assert found.sentence().endswith("): one temperature is not rejected.")
    assert found.sentence(0.24).endswith("): one temperature is not rejected.")
    assert found.sentence(0.23).endswith("): one temperature does not describe this model.")
    with pytest.raises(InputError, match="`level` must lie between 0 and 1, got 2"):
        found.sentence(2)


@pytest.mark.parametrize(
    "options", [{}, {"counts": True}, {"clusters": np.arange(2000) // 4}], ids=["rows", "counts", "clusters"]
)
def test_a_sketch_of_a_network_has_the_statistic_of_its_rows(options):
    validation = nishimori.data.load("cifar10/resnet20").validation
    logits, labels = validation.logits[:2000], validation.labels[:2000]
    weights = np.random.default_rng(0).integers(1, 3, 2000) if "counts" in options else None
    rows = temperature_test(logits, labels, sample_weight=weights, **options)
    sketch = nishimori.Sketch().update(logits, labels, weights, clusters=options.get("clusters"))
    found = temperature_test(sketch, counts="counts" in options)
    assert found.se == pytest.approx(rows.se, rel=1e-4)
    assert found.statistic == pytest.approx(rows.statistic, rel=1e-4)
    assert found.j == pytest.approx(rows.j, rel=1e-3)
