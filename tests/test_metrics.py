import math

import numpy as np
import pytest
import reference

from nishimori import metrics
from nishimori.errors import InputError

CLOSE = {"rel": 1e-12, "abs": 1e-14}
TEMPERATURES = [0.05, 1.0, 7.0]
STRATEGIES = ["uniform", "quantile"]
NORMS = ["l1", "l2", "max"]
PLAIN = {
    "error": lambda z, y, t, w: np.average(~reference.right(z, y), weights=w),
    "accuracy": lambda z, y, t, w: np.average(reference.right(z, y), weights=w),
    "nll": reference.nll,
    "brier": reference.brier,
    "confidence": lambda z, y, t, w: np.average(reference.softmax(z, t).max(axis=1), weights=w),
}


def claims(logits, labels, temperature, of):
    """A list of (claimed probabilities, what came true), one a group, from the definition of each kind of claim."""
    p = reference.softmax(logits, temperature)
    if of == "top":
        return [(p.max(axis=1), reference.right(logits, labels))]
    return [(p[:, k], labels == k) for k in ([1] if of == "positive" else range(p.shape[1]))]


def expected_ece(logits, labels, *, temperature=1.0, weights=None, n_bins=15, strategy="uniform", norm="l1", of="top"):
    """The mean over groups of `reference.ece`; ``weights`` are whole numbers, and copies where edges depend on them."""
    errors = []
    for claimed, true in claims(logits, labels, temperature, of):
        copies = claimed if weights is None else np.repeat(claimed, weights)
        edges = np.linspace(0, 1, n_bins + 1) if strategy == "uniform" else reference.quantile_edges(copies, n_bins)
        errors.append(reference.ece(claimed, true, edges, weights, norm))
    return np.mean(errors)


@pytest.fixture(params=[(101, 2), (203, 3), (307, 17)], ids=["2 classes", "3 classes", "17 classes"])
def sample(request):
    """Logits, labels drawn at T = 2, and whole weights, some of them zero."""
    logits, labels = reference.drawn(*request.param, seed=request.param[1])
    return logits, labels, np.random.default_rng(0).integers(0, 4, size=len(labels))


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("name", PLAIN)
def test_each_metric_is_its_formula(name, temperature, sample):
    logits, labels, weights = sample
    measured = getattr(metrics, name)(logits, labels, temperature=temperature)
    assert measured == pytest.approx(PLAIN[name](logits, labels, temperature, None), **CLOSE)
    weighted = getattr(metrics, name)(logits, labels, temperature=temperature, sample_weight=weights)
    assert weighted == pytest.approx(PLAIN[name](logits, labels, temperature, weights), **CLOSE)


@pytest.mark.parametrize("top_n", [1, 2, 3, 16, 17])
def test_top_n_accuracy_is_its_formula(top_n):
    logits, labels = reference.drawn(307, 17)
    weights = np.arange(307) % 4
    expected = np.average(reference.right(logits, labels, top_n), weights=weights)
    assert metrics.top_n_accuracy(logits, labels, top_n=top_n, sample_weight=weights) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("of", ["top", "classwise"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ece_is_its_formula(strategy, norm, of, temperature, sample):
    logits, labels, weights = sample
    options = {"strategy": strategy, "norm": norm, "of": of, "temperature": temperature}
    assert metrics.ece(logits, labels, **options) == pytest.approx(expected_ece(logits, labels, **options), **CLOSE)
    weighted = metrics.ece(logits, labels, sample_weight=weights, **options)
    assert weighted == pytest.approx(expected_ece(logits, labels, weights=weights, **options), **CLOSE)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ece_of_the_positive_class_is_its_formula(strategy, norm):
    logits, labels = reference.drawn(101, 2)
    options = {"strategy": strategy, "norm": norm, "of": "positive", "n_bins": 7}
    assert metrics.ece(logits, labels, **options) == pytest.approx(expected_ece(logits, labels, **options), **CLOSE)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", [*PLAIN, "ece"])
def test_an_integer_weight_counts_as_copies(name, strategy, sample):
    logits, labels, weights = sample
    options = {"strategy": strategy} if name == "ece" else {}
    metric = getattr(metrics, name)
    copies = metric(np.repeat(logits, weights, axis=0), np.repeat(labels, weights), **options)
    assert metric(logits, labels, sample_weight=weights, **options) == pytest.approx(copies, **CLOSE)


@pytest.mark.parametrize("name", [*PLAIN, "ece"])
def test_probabilities_give_what_their_logits_give(name, sample):
    logits, labels, _ = sample
    metric = getattr(metrics, name)
    from_probabilities = metric(reference.softmax(logits), labels, temperature=2.0, input="probabilities")
    assert from_probabilities == pytest.approx(metric(logits, labels, temperature=2.0), rel=1e-10)


@pytest.mark.parametrize("name", [*PLAIN, "ece"])
def test_a_flat_score_z_means_the_logits_0_and_z(name):
    logits, labels = reference.drawn(101, 2)
    z = logits[:, 1] - logits[:, 0]
    columns = np.stack([np.zeros_like(z), z], axis=1)
    metric = getattr(metrics, name)
    assert metric(z, labels, temperature=3.0) == metric(columns, labels, temperature=3.0)
    p = 1 / (1 + np.exp(-z))
    assert metric(p, labels, temperature=3.0, input="probabilities") == pytest.approx(metric(z, labels, temperature=3.0))


@pytest.mark.parametrize("name", PLAIN)
def test_masked_classes_have_probability_zero(name, sample):
    logits, labels, weights = sample
    masked = np.where(np.arange(logits.shape[1]) == (labels[:, None] + 1) % logits.shape[1], -np.inf, logits)
    measured = getattr(metrics, name)(masked, labels, temperature=2.0, sample_weight=weights)
    assert measured == pytest.approx(PLAIN[name](masked, labels, 2.0, weights), **CLOSE)


@pytest.mark.parametrize("of", ["top", "classwise"])
def test_ece_takes_masked_classes(of):
    logits, labels = reference.drawn(203, 5)
    masked = np.where(np.arange(5) == (labels[:, None] + 1) % 5, -np.inf, logits)
    assert metrics.ece(masked, labels, of=of) == pytest.approx(expected_ece(masked, labels, of=of), **CLOSE)


def test_a_label_at_a_masked_class_is_a_miss_with_infinite_nll():
    logits, labels = [[1.0, -np.inf, 0.0], [2.0, 0.0, 0.0]], [1, 0]
    p = np.exp([1, 0]) / np.exp([1, 0]).sum()
    assert metrics.nll(logits, labels) == math.inf
    assert metrics.error(logits, labels) == 0.5
    assert metrics.top_n_accuracy(logits, labels, top_n=3) == 0.5
    second = reference.brier([logits[1]], np.array([0]))
    assert metrics.brier(logits, labels) == pytest.approx((p[0] ** 2 + 1 + p[1] ** 2 + second) / 2, **CLOSE)


@pytest.mark.parametrize("name", [*PLAIN, "ece"])
def test_a_sample_of_weight_zero_is_not_there(name):
    logits, labels = reference.drawn(20, 3)
    hopeless = np.vstack([logits, [1.0, -np.inf, 0.0]]), np.append(labels, 1)  # its loss is infinite
    measured = getattr(metrics, name)(*hopeless, sample_weight=np.append(np.ones(20), 0))
    assert measured == pytest.approx(getattr(metrics, name)(logits, labels), rel=1e-14)


def test_of_equal_logits_the_first_come_first():
    logits = [[1.0, 1.0, 1.0, 0.0]] * 3
    assert [metrics.accuracy(logits, [k] * 3) for k in range(4)] == [1, 0, 0, 0]
    assert [metrics.top_n_accuracy(logits, [k] * 3, top_n=2) for k in range(4)] == [1, 1, 0, 0]
    assert metrics.top_n_accuracy(logits, [0, 1, 2], top_n=1) == pytest.approx(1 / 3)


def test_hand_counts():
    logits, labels = np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [0.125, 0.125, 0.75]]), [0, 1, 0, 2]
    assert metrics.error(logits, labels) == 0.25
    assert metrics.accuracy(logits, labels) == 0.75
    assert metrics.confidence(logits, labels) == pytest.approx((3 * 0.5 + 0.75) / 4, **CLOSE)
    assert metrics.nll(logits, labels) == pytest.approx((2 * math.log(2) + math.log(4) + math.log(4 / 3)) / 4, **CLOSE)
    assert metrics.brier(logits, labels) == pytest.approx((3 / 8 + 3 / 8 + 7 / 8 + 3 / 32) / 4, **CLOSE)
    # Ten bins: three claims of 1/2, two of them true, and one of 3/4 that is true.
    assert metrics.ece(logits, labels, n_bins=10) == pytest.approx(3 / 4 * (2 / 3 - 1 / 2) + 1 / 4 * 1 / 4, **CLOSE)
    assert metrics.ece(logits, labels, n_bins=10, norm="max") == pytest.approx(1 / 4, **CLOSE)
    assert metrics.ece(logits, labels, n_bins=10, norm="l2") == pytest.approx(math.sqrt(3 / 4 / 36 + 1 / 4 / 16), **CLOSE)


def test_a_claim_on_an_edge_counts_in_the_bin_below_it():
    curve = metrics.reliability([[0.0, 0.0], [0.0, 0.1]], [0, 1], n_bins=2)
    np.testing.assert_array_equal(curve.upper, [0.5, 1.0])
    np.testing.assert_array_equal(curve.weight, [1, 1])


@pytest.mark.parametrize("tenths", range(1, 10))
def test_a_probability_on_an_edge_counts_in_the_bin_below_it(tenths):
    curve = metrics.reliability([tenths / 10], [1], n_bins=10, of="positive", input="probabilities")
    np.testing.assert_array_equal([curve.lower, curve.upper], [[(tenths - 1) / 10], [tenths / 10]])


def test_a_claim_of_exactly_0_counts_in_the_first_bin_and_of_1_in_the_last():
    logits = [[0.0, -np.inf], [-np.inf, 0.0]]
    curve = metrics.reliability(logits, [0, 1], n_bins=4, of="positive")
    np.testing.assert_array_equal(curve.confidence, [0, 1])
    np.testing.assert_array_equal(curve.accuracy, [0, 1])
    np.testing.assert_array_equal([curve.lower, curve.upper], [[0, 0.75], [0.25, 1]])
    assert metrics.ece(logits, [1, 0], n_bins=4, of="positive") == 1


def test_empty_bins_do_not_count():
    curve = metrics.reliability([[0.0, 0.1], [0.0, 9.0]], [1, 1], n_bins=15)
    np.testing.assert_array_equal(curve.weight, [1, 1])
    np.testing.assert_allclose(curve.upper, [8 / 15, 1])
    assert np.all(np.isfinite(curve.gap))


@pytest.mark.parametrize(("n_tied", "counts"), [(60, [7, 7, 7, 7, 7, 65]), (100, [100])])
def test_massive_ties_share_one_quantile_bin(n_tied, counts):
    # Logits 50 apart give a confidence of exactly 1. The sixth bin would end inside the tie, so it takes all of it.
    logits = np.stack([np.zeros(100), np.r_[np.linspace(0.1, 3, 100 - n_tied), np.full(n_tied, 50.0)]], axis=1)
    labels = np.arange(100) % 2
    curve = metrics.reliability(logits, labels, strategy="quantile", input="logits")
    np.testing.assert_array_equal(curve.weight, counts)
    expected = expected_ece(logits, labels, strategy="quantile")
    assert metrics.ece(logits, labels, strategy="quantile", input="logits") == pytest.approx(expected, **CLOSE)


def test_equal_probabilities_share_a_quantile_bin_whatever_the_rest_of_the_row():
    p = [[0.7, 0.2, 0.1], [0.7, 0.15, 0.15], [0.7, 0.3 - 1e-9, 1e-9], [0.7, 0.25, 0.05]]
    curve = metrics.reliability(p, [0, 1, 0, 0], n_bins=4, strategy="quantile", input="probabilities")
    np.testing.assert_array_equal(curve.weight, [4])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fewer_samples_than_bins_give_each_distinct_claim_its_bin(strategy):
    logits, labels = np.array([[0.0, 0.5], [0.0, 1.5], [3.0, 0.0]]), np.array([1, 0, 0])
    gaps = np.abs(reference.softmax(logits).max(axis=1) - [1, 0, 1])
    assert metrics.ece(logits, labels, strategy=strategy) == pytest.approx(gaps.mean(), **CLOSE)


def test_quantile_bins_have_equal_weight_not_equal_numbers():
    z = np.stack([np.zeros(4), [0.5, 1.0, 1.5, 2.0]], axis=1)
    curve = metrics.reliability(z, [1] * 4, n_bins=2, strategy="quantile", sample_weight=[0.25, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(curve.weight, [1, 1])
    np.testing.assert_allclose(curve.upper, [reference.softmax(z)[2, 1], 1])


def test_equal_fractional_weights_make_bins_of_equal_numbers():
    # Thirty times 0.1 adds up to numbers a little above and below the multiples of 0.3.
    z = np.stack([np.zeros(30), np.linspace(0.1, 3, 30)], axis=1) - 1
    curve = metrics.reliability(z, [1] * 30, n_bins=10, strategy="quantile", sample_weight=[0.1] * 30)
    np.testing.assert_allclose(curve.weight, [0.3] * 10)


@pytest.mark.parametrize("unit", [2, 3.7, 1 / 3, 1e-9])
@pytest.mark.parametrize("of", ["top", "classwise"])
@pytest.mark.parametrize("weights", ["equal", "copies", "others"])
def test_quantile_bins_do_not_depend_on_the_scale_of_weights(weights, of, unit):
    logits, labels = reference.drawn(37, 3, seed=5)
    lowest, number = {"equal": (1, 1), "copies": (1, 3), "others": (2, 2)}[weights]
    weights = lowest + np.arange(37) % number
    expected = metrics.ece(logits, labels, strategy="quantile", of=of, sample_weight=weights)
    measured = metrics.ece(logits, labels, strategy="quantile", of=of, sample_weight=unit * weights)
    assert measured == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("unit", [1, 3.7])
def test_weights_that_are_not_copies_have_edges_where_a_share_of_the_weight_is_reached(unit):
    # Weights of 2 and 3: some sums of sorted weights are exactly a multiple of a tenth of the total of 105.
    logits, labels = reference.drawn(42, 3, seed=6)
    weights = 2 + np.arange(42) % 2
    claimed = reference.softmax(logits).max(axis=1)
    edges = reference.weighted_quantile_edges(claimed, weights, 10)
    expected = reference.ece(claimed, reference.right(logits, labels), edges, weights)
    measured = metrics.ece(logits, labels, n_bins=10, strategy="quantile", sample_weight=unit * weights)
    assert measured == pytest.approx(expected, **CLOSE)


def test_a_weight_of_next_to_nothing_does_not_move_a_quantile_bin():
    logits, labels = reference.drawn(30, 3, seed=7)
    measured = metrics.ece(logits, labels, strategy="quantile", sample_weight=np.r_[1e-300, np.full(29, 0.1)])
    assert measured == pytest.approx(expected_ece(logits[1:], labels[1:], strategy="quantile"), **CLOSE)


def test_binary_top_and_positive_claims_differ():
    # Two rows, both of class 0. The top claims 0.8 twice and is right once: one bin, gap 0.3. Class 1 is claimed at 0.2 and at
    # 0.8 and is never there: two bins, gaps 0.2 and 0.8.
    p, labels = [[0.8, 0.2], [0.2, 0.8]], [0, 0]
    assert metrics.ece(p, labels, input="probabilities", of="top") == pytest.approx(0.3)
    assert metrics.ece(p, labels, input="probabilities", of="positive") == pytest.approx(0.5)
    assert metrics.ece([0.2, 0.8], labels, input="probabilities", of="positive") == pytest.approx(0.5)


@pytest.mark.parametrize("name", [*PLAIN, "ece"])
def test_results_are_python_floats(name):
    logits, labels = reference.drawn(20, 3)
    assert type(getattr(metrics, name)(np.float32(logits), labels)) is float
    assert type(metrics.top_n_accuracy(np.float32(logits), labels, top_n=2)) is float


@pytest.mark.parametrize("temperature", [0, -1.0, math.nan, math.inf, None, "hot"])
@pytest.mark.parametrize("name", [*PLAIN, "ece", "reliability"])
def test_a_temperature_that_is_not_positive_and_finite_is_refused(name, temperature):
    message = rf"^`temperature` must be a finite positive number, got {temperature!r}\.$"
    with pytest.raises(InputError, match=message):
        getattr(metrics, name)([[1.0, 0.0]], [0], temperature=temperature)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, r"^`n_bins` must be a whole number from 1 to 100000, got 0\.$"),
        ({"n_bins": 2.5}, r"^`n_bins` must be a whole number from 1 to 100000, got 2\.5\.$"),
        ({"n_bins": True}, r"^`n_bins` must be a whole number from 1 to 100000, got True\.$"),
        ({"strategy": "equal"}, r"^`strategy` must be 'uniform' or 'quantile', got 'equal'\.$"),
        ({"norm": "l3"}, r"^`norm` must be 'l1', 'l2' or 'max', got 'l3'\.$"),
        ({"of": "all"}, r"^`of` must be 'top', 'positive' or 'classwise', got 'all'\.$"),
        (
            {"of": "positive"},
            r"^`of` must not be 'positive' for 3 classes: only a binary problem has a positive class\.$",
        ),
    ],
)
def test_ece_refuses_an_option_it_does_not_have(options, message):
    with pytest.raises(InputError, match=message):
        metrics.ece([[1.0, 0.0, 0.0]], [0], **options)


@pytest.mark.parametrize("top_n", [0, 4, -1, 1.0, True])
def test_top_n_accuracy_refuses_a_top_n_out_of_range(top_n):
    with pytest.raises(
        InputError, match=rf"^`top_n` must be a whole number from 1 to 3, the number of classes, got {top_n!r}\.$"
    ):
        metrics.top_n_accuracy([[1.0, 0.0, 0.0]], [0], top_n=top_n)
