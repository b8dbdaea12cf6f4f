from functools import partial

import numpy as np
import pytest
import reference

from nishimori import metrics
from nishimori._rows.entry import open_rows
from nishimori._sums.predictions import keep_claims, tally
from nishimori._sums.reliability import Bins, Reliability, uniform_edges
from nishimori._support import arrays
from nishimori.errors import InputError, MergeError

OFS = ["top", "positive", "classwise"]


def bins(logits, labels, edges, of="top", weights=None, beta=1.0):
    return open_rows(logits, labels, weights).gather(partial(tally, edges, beta, of))


def assert_same_sums(one, other):
    np.testing.assert_array_equal(one.edges, other.edges)
    np.testing.assert_allclose(one.weight, other.weight, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.confidence, other.confidence, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.correct, other.correct, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.squares, other.squares, rtol=1e-12, atol=1e-12)


def test_bins_add_entry_by_entry():
    edges = uniform_edges(2)
    one = Bins(edges, np.array([[1.0, 2.0]]), np.array([[0.25, 1.5]]), np.array([[0.0, 2.0]]), np.array([[1.0, 4.0]]))
    other = Bins(edges, np.array([[4.0, 0.0]]), np.array([[1.5, 0.0]]), np.array([[3.0, 0.0]]), np.array([[8.0, 0.0]]))
    both = one + other
    np.testing.assert_array_equal(both.edges, edges)
    np.testing.assert_array_equal(both.weight, [[5, 2]])
    np.testing.assert_array_equal(both.confidence, [[1.75, 1.5]])
    np.testing.assert_array_equal(both.correct, [[3, 2]])
    np.testing.assert_array_equal(both.squares, [[9, 4]])


@pytest.mark.parametrize("other", [uniform_edges(4), uniform_edges(3) ** 2], ids=["another number", "other values"])
def test_bins_with_other_edges_do_not_add(other):
    logits, labels = reference.drawn(10, 2)
    with pytest.raises(MergeError, match=r"^Bins add only if their edges are the same\. Compute both with the same edges\.$"):
        bins(logits, labels, uniform_edges(3)) + bins(logits, labels, other)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("of", OFS)
@pytest.mark.parametrize("cut", [1, 37, 100])
def test_splitting_the_rows_changes_no_sum(of, strategy, cut):
    logits, labels = reference.drawn(101, 2)
    weights = 0.5 + np.arange(101) % 3
    edges = uniform_edges(15)
    if strategy == "quantile":
        edges = open_rows(logits, labels, weights).gather(partial(keep_claims, 0.5, of)).edges(15)
    parts = [bins(logits[r], labels[r], edges, of, weights[r], 0.5) for r in (slice(cut), slice(cut, None))]
    assert_same_sums(parts[0] + parts[1], bins(logits, labels, edges, of, weights, 0.5))


def test_data_of_many_blocks_has_the_sums_of_one(monkeypatch):
    logits, labels = reference.drawn(1003, 5)
    whole = bins(logits, labels, uniform_edges(15))
    monkeypatch.setattr(arrays, "rows_per_block", lambda array, n_classes, most_rows=None: 100)
    assert len(list(open_rows(logits, labels))) == 10
    assert_same_sums(bins(logits, labels, uniform_edges(15)), whole)


@pytest.mark.parametrize("of", OFS)
def test_bins_hold_the_sums_of_the_definition(of):
    logits, labels = reference.drawn(101, 2)
    p = reference.softmax(logits, 2.0)
    groups = {
        "top": [(p.max(axis=1), reference.right(logits, labels))],
        "positive": [(p[:, 1], labels == 1)],
        "classwise": [(p[:, k], labels == k) for k in range(2)],
    }[of]
    found = bins(logits, labels, uniform_edges(10), of, beta=0.5)
    for i, (claimed, true) in enumerate(groups):
        weight, _ = np.histogram(claimed, bins=10, range=(0, 1))
        np.testing.assert_array_equal(found.weight[i], weight)
        np.testing.assert_allclose(found.confidence[i], np.histogram(claimed, 10, (0, 1), weights=claimed)[0])
        np.testing.assert_allclose(found.correct[i], np.histogram(claimed, 10, (0, 1), weights=true.astype(float))[0])
    assert len(found.weight) == len(groups)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("n", [3, 14, 16, 101])
@pytest.mark.parametrize("of", ["top", "classwise"])
def test_quantile_edges_are_those_of_the_reference(of, n, k):
    logits, labels = reference.drawn(n, k)
    p = reference.softmax(logits)
    groups = [p.max(axis=1)] if of == "top" else list(p.T)
    expected = [bins_of(claimed, reference.quantile_edges(claimed, 15)) for claimed in groups]
    # An edge is a claim; raised a little, it stays above that claim however the softmax rounds.
    edges = 1e-12 + open_rows(logits, labels).gather(partial(keep_claims, 1.0, of)).edges(15)
    assert [bins_of(claimed, row) for claimed, row in zip(groups, edges, strict=True)] == expected


def bins_of(claimed, edges):
    """Which claims share a bin, whatever its number: the sets of rows, in order."""
    index = np.searchsorted(edges[1:-1], claimed)
    return [set(np.flatnonzero(index == i)) for i in np.unique(index)]


@pytest.mark.parametrize("temperature", [0.5, 3.0])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_fields_of_the_curve_make_the_ece(strategy, temperature):
    logits, labels = reference.drawn(1003, 4)
    options = {"strategy": strategy, "temperature": temperature, "sample_weight": 1 + np.arange(1003) % 3}
    curve = metrics.reliability(logits, labels, **options)
    share = curve.weight / curve.weight.sum()
    np.testing.assert_array_equal(curve.gap, curve.confidence - curve.accuracy)
    close = {"rel": 1e-12}
    assert metrics.ece(logits, labels, **options) == pytest.approx(share @ abs(curve.gap), **close)
    assert metrics.ece(logits, labels, norm="l2", **options) == pytest.approx(np.sqrt(share @ curve.gap**2), **close)
    assert metrics.ece(logits, labels, norm="max", **options) == pytest.approx(abs(curve.gap).max(), **close)
    assert share @ curve.confidence == pytest.approx(metrics.confidence(logits, labels, **without(options, "strategy")))
    assert share @ curve.accuracy == pytest.approx(metrics.accuracy(logits, labels, **without(options, "strategy")))


def without(options, name):
    return {key: value for key, value in options.items() if key != name}


@pytest.mark.parametrize("of", OFS)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_each_bin_lies_between_its_bounds_in_order_of_confidence(strategy, of):
    logits, labels = reference.drawn(203, 2)
    curve = metrics.reliability(logits, labels, strategy=strategy, of=of)
    rounding = 1e-15  # a mean of equal claims may round past them
    assert np.all(curve.lower - rounding <= curve.confidence)
    assert np.all(curve.confidence <= curve.upper + rounding)
    for group in np.unique(curve.group):
        assert np.all(np.diff(curve.confidence[curve.group == group]) > 0)
    assert np.all(curve.weight > 0)
    assert np.all((curve.accuracy >= 0) & (curve.accuracy <= 1))


def test_classwise_groups_are_the_curves_of_one_class_against_the_rest():
    logits, labels = reference.drawn(203, 3)
    p = reference.softmax(logits)
    curve = metrics.reliability(logits, labels, of="classwise", n_bins=5)
    np.testing.assert_array_equal(np.unique(curve.group), [0, 1, 2])
    for k in range(3):
        alone = metrics.reliability(p[:, k], labels == k, of="positive", n_bins=5, input="probabilities")
        for name in ("confidence", "accuracy", "weight", "gap", "lower", "upper"):
            np.testing.assert_allclose(getattr(curve, name)[curve.group == k], getattr(alone, name), atol=1e-12)


def test_classwise_error_is_the_unweighted_mean_over_classes():
    logits, labels = reference.drawn(203, 3)
    p = reference.softmax(logits)
    for norm in ("l1", "l2", "max"):
        alone = [metrics.ece(p[:, k], labels == k, of="positive", norm=norm, input="probabilities") for k in range(3)]
        assert metrics.ece(logits, labels, of="classwise", norm=norm) == pytest.approx(np.mean(alone), rel=1e-10)


def test_claims_other_than_classwise_are_group_0():
    logits, labels = reference.drawn(50, 2)
    for of in ("top", "positive"):
        assert set(metrics.reliability(logits, labels, of=of).group) == {0}


def test_a_class_that_never_occurs_still_counts_in_the_mean_over_classes():
    p = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
    # Class by class in one bin: claims average 0.375, 0.375 and 0.25; truths 0.5, 0.5 and 0.
    measured = metrics.ece(p, [0, 1], n_bins=1, of="classwise", input="probabilities")
    assert measured == pytest.approx((0.125 + 0.125 + 0.25) / 3)


def test_a_curve_made_of_bins_leaves_out_the_empty_ones():
    sums = Bins(uniform_edges(3), *np.array([[[2, 0, 4]], [[0.5, 0, 3]], [[1, 0, 4]], [[2, 0, 10]]], dtype=float))
    curve = Reliability.from_bins(sums)
    np.testing.assert_array_equal(curve.weight, [2, 4])
    np.testing.assert_array_equal(curve.count, [2, 1.6])  # weights 1 and 1; 1 and 3
    np.testing.assert_array_equal(curve.confidence, [0.25, 0.75])
    np.testing.assert_array_equal(curve.accuracy, [0.5, 1])
    np.testing.assert_array_equal([curve.lower, curve.upper], [[0, 2 / 3], [1 / 3, 1]])
    assert curve.error("l1") == 0.25


def test_a_curve_refuses_an_unknown_norm():
    curve = metrics.reliability([[1.0, 0.0]], [0])
    with pytest.raises(InputError, match=r"^`norm` must be 'l1', 'l2' or 'max', got 2\.$"):
        curve.error(2)


PERMUTED = np.array(
    [[2.3, 2.0, -0.3], [2.0, -0.3, 2.3], [-0.3, 2.3, 2.0], [2.3, -0.3, 2.0], [2.0, 2.3, -0.3], [-0.3, 2.0, 2.3]]
)


@pytest.mark.parametrize("n_bins", [1, 2, 3, 6])
@pytest.mark.parametrize("columns", [[0, 1, 2], [2, 1, 0], [1, 0, 2]], ids=str)
def test_claims_that_differ_by_rounding_share_a_bin(n_bins, columns):
    # The same three logits in every order: one confidence, whose sums round differently.
    logits, right = np.tile(PERMUTED, (4, 1))[:, columns], np.arange(24) % 3 == 0
    labels = np.where(right, logits.argmax(axis=1), logits.argmin(axis=1))
    confidence = 1 / (1 + np.exp(-0.3) + np.exp(-2.6))
    measured = metrics.ece(logits, labels, n_bins=n_bins, strategy="quantile")
    assert measured == pytest.approx(abs(confidence - 8 / 24), rel=1e-12)


def test_a_claim_that_rounding_moved_over_an_edge_counts_as_on_it():
    above = np.nextafter(0.6, 1)
    p = np.array([[above, 1 - above], [0.7, 0.3]])
    curve = metrics.reliability(p, [0, 0], n_bins=5, input="probabilities")
    assert curve.upper.tolist() == [0.6, 0.8]


def test_a_claim_beyond_an_edge_by_more_than_rounding_is_in_the_next_bin():
    p = np.array([[0.6 + 1e-9, 0.4 - 1e-9], [0.7, 0.3]])
    curve = metrics.reliability(p, [0, 0], n_bins=5, input="probabilities")
    assert (curve.upper.tolist(), curve.weight.tolist()) == ([0.8], [2])


def test_an_edge_as_float32_stores_it_is_on_the_edge():
    p = np.array([[0.6, 0.4], [0.7, 0.3]], dtype=np.float32)  # 0.60000002384
    assert metrics.reliability(p, [0, 0], n_bins=5, input="probabilities").upper.tolist() == [0.6, 0.8]


@pytest.mark.parametrize("total", [0.9995, 1.0, 1.0005])
def test_probabilities_are_divided_by_the_sum_of_their_row_in_every_metric(total):
    p = np.array([[0.75, 0.25], [0.625, 0.375], [0.5, 0.5]])
    given, labels = total * p, np.array([0, 1, 1])
    keywords = {"input": "probabilities"}
    assert metrics.confidence(given, labels, **keywords) == pytest.approx(p.max(axis=1).mean(), rel=1e-12)
    assert metrics.brier(given, labels, **keywords) == pytest.approx(reference.brier(np.log(p), labels), rel=1e-12)
    assert metrics.nll(given, labels, **keywords) == pytest.approx(reference.nll(np.log(p), labels), rel=1e-12)
    curve = metrics.reliability(given, labels, n_bins=4, **keywords)
    np.testing.assert_allclose(curve.confidence, [0.5, 0.6875], rtol=1e-12)
    assert metrics.ece(given, labels, n_bins=1, **keywords) == pytest.approx(abs(p.max(axis=1).mean() - 1 / 3), rel=1e-12)


def test_more_bins_than_anybody_can_fill_are_refused():
    with pytest.raises(InputError, match=r"^`n_bins` must be a whole number from 1 to 100000, got 1000000000000\.$"):
        metrics.ece([[1.0, 0.0]], [0], n_bins=10**12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeros_of_a_class_share_a_quantile_bin(dtype):
    p = np.array([[0, 1 - a, a] for a in (0, 0.1, 0.2, 0.3, 0.4, 0.5)] * 2, dtype=dtype)
    labels = [1, 0, 1, 1, 2, 1] * 2
    curve = metrics.reliability(p, labels, input="probabilities", of="classwise", strategy="quantile", n_bins=3)
    assert (curve.group == 0).sum() == 1


def test_equal_claims_share_a_bin_also_where_they_are_tiny():
    # The first column is the same claim of 1e-15 everywhere, in rows of different logits.
    p = np.array([[1e-15, 1 - 1e-15 - a, a] for a in np.linspace(0.05, 0.95, 40)])
    curve = metrics.reliability(np.log(p), np.arange(40) % 3, of="classwise", strategy="quantile", n_bins=5)
    assert (curve.group == 0).sum() == 1


@pytest.mark.parametrize("k", [5000, 32000])
def test_claims_share_a_bin_in_any_order_of_many_classes(k):
    rng = np.random.default_rng(0)
    logits = np.stack([rng.permutation(np.r_[1.0, np.full(k - 1, 0.1)]) for _ in range(20)])
    labels = np.where(np.arange(20) < 9, logits.argmax(axis=1), logits.argmin(axis=1))
    whole = metrics.ece(logits, labels, n_bins=1, input="logits")
    assert metrics.ece(logits, labels, n_bins=4, strategy="quantile", input="logits") == pytest.approx(whole, rel=1e-12)


def test_a_bin_of_negligible_weight_counts_as_one_sample():
    curve = metrics.reliability([[0.1, 0.0], [5.0, 0.0]], [0, 0], n_bins=2, sample_weight=[1e-200, 1.0])
    assert np.isfinite(curve.count).all()
