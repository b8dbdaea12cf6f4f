import numpy as np
import pytest
import reference
from scipy.special import log_softmax
from top_k_cases import drawn, listed

import nishimori

P = np.log([[0.5, 0.2], [0.6, 0.3], [0.4, 0.3]])
IDS = np.array([[0, 1], [2, 0], [5, 6]])


def with_entry(row, column, value, table=P):
    changed = table.copy()
    changed[row, column] = value
    return changed


@pytest.mark.parametrize(
    ("indices", "logs", "size", "labels", "message"),
    [
        (IDS, P[:, :1], 10, [0, 1, 2], r"`indices` must have the shape of `log_probabilities`, \(3, 1\), got \(3, 2\)"),
        (IDS[0], P[0], 10, [0], r"must have shape \(n_samples, k\), with at least one row and column, got \(2,\)"),
        (IDS[:0], P[:0], 10, [], r"must have shape \(n_samples, k\), with at least one row and column, got \(0, 2\)"),
        (IDS, P, 2, [0, 1, 2], "must list fewer classes than `vocabulary_size`, 2, got 2 per sample. If they"),
        (IDS, P, 0, [0, 1, 2], "`vocabulary_size` must be a whole number from 2 to 9007199254740992, got 0"),
        (IDS + 0.5, P, 10, [0, 1, 2], "`indices` must be whole numbers"),
        (IDS, with_entry(1, 0, np.nan), 10, [0, 1, 2], "must not be NaN, got nan in row 1. Fill up rows that list"),
        (IDS, with_entry(2, 1, 0.3), 10, [0, 1, 2], "`log_probabilities` must be at most 0, got 0.3 in row 2. Pass natural"),
        (IDS, with_entry(2, 1, -9999), 10, [0, 1, 2], "got -9999 in row 2. Some services return -9999 for"),
        (IDS, with_entry(0, slice(None), -np.inf), 10, [0, 1, 2], "at least one class per sample, got only -inf in row 0"),
        (with_entry(1, 1, 10, IDS), P, 10, [0, 1, 2], "`indices` must be from 0 to 9, got 10 in row 1. Check"),
        (with_entry(1, 1, 2, IDS), P, 10, [0, 1, 2], "must list each class at most once per sample, got 2 twice in row 1"),
        (IDS, with_entry(1, 1, -0.1), 10, [0, 1, 2], "sum to at most 1, got a sum of 1.50484 in row 1. If these are logits"),
        (IDS, with_entry(1, 1, -9.0), 10, [0, 1, 2], "got 8 classes that are not listed and share 0.4, .* in row 1"),
        (IDS, P, 10, [0, 1, 12], "`labels` must be from 0 to 9, got 12 in row 2"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_the_row(indices, logs, size, labels, message):
    with pytest.raises(nishimori.errors.InputError, match=message):
        nishimori.temperatures(nishimori.TopK(indices, logs, size), labels)


@pytest.mark.parametrize(
    ("label_logs", "message"),
    [
        ([-1.0, -1.0], r"`label_log_probabilities` must have shape \(3,\), one number per sample, got \(2,\)"),
        ([np.log(0.5), -3.0, 0.5], "`label_log_probabilities` must be between -9999 and 0, got 0.5 in row 2. Pass NaN where"),
        ([np.log(0.5), -np.inf, -3.0], "must be between -9999 and 0, got -inf in row 1"),
        ([-2.0, -3.0, -3.0], "the log-probability that is listed for the true class, -0.693147, got -2 in row 0"),
        (
            [np.nan, -1.0, -3.0],
            "must be at most the least listed log-probability, -1.20397, where the true class is not listed",
        ),
    ],
)
def test_log_probabilities_of_labels_must_agree_with_those_that_are_listed(label_logs, message):
    with pytest.raises(nishimori.errors.InputError, match=message):
        nishimori.temperatures(nishimori.TopK(IDS, P, 10, label_log_probabilities=label_logs), [0, 1, 2])


def test_a_row_of_a_sequence_is_named_by_its_position():
    with pytest.raises(nishimori.errors.InputError, match=r"must not be NaN, got nan in row \(0, 1\)"):
        nishimori.temperatures(nishimori.TopK(IDS[None], with_entry(1, 0, np.nan)[None], 10), [[0, 1, 2]])


def test_rounded_log_probabilities_are_accepted():
    log_p, labels = drawn(11, scale=6.0)
    indices = np.argsort(-log_p, axis=1)[:, :8]
    rounded = np.take_along_axis(log_p, indices, axis=1).round(4)
    given = nishimori.TopK(indices, rounded, 30)
    with pytest.warns(
        nishimori.errors.InputWarning, match="rounded to 4 decimals, and in 22 % of the samples that is more than"
    ):
        low, high = nishimori.temperatures(given, labels).ec_bounds
    assert low - 1e-3 <= reference.ec_temperature(log_p, labels) <= high + 1e-3
    low, high = given.probabilities()
    np.testing.assert_allclose(low, high, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_that_miss_the_temperature_because_of_rounding_come_with_a_warning(dtype):
    log_p, labels = drawn(0, n=1000, n_classes=100, scale=12.0, temperature=3.0)
    with pytest.warns(
        nishimori.errors.InputWarning, match=r"rounded to 4 decimals, and in 99 % .* may lie outside the bounds\."
    ):
        found = nishimori.temperatures(listed(log_p.round(4).astype(dtype), 20), labels)
    assert found.ec_bounds.high < reference.ec_temperature(log_p, labels)
    nishimori.temperatures(listed(log_p.astype(dtype), 20), labels)  # warnings are errors


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (nishimori.metrics.ece, "are for nishimori.temperatures, ExpectationConsistency"),
        (nishimori.metrics.accuracy, "For accuracy, confidence and ECE use `nishimori.evaluate`"),
        (lambda given, y: nishimori.VectorScaling().fit(given, y), "^A TopK has no rows with all logits to search in"),
        (lambda given, y: nishimori.evaluate(given, y, temperature=2.0), "`temperature` and `calibrator` must be left out"),
        (lambda given, y: nishimori.temperatures(given, y, input="probabilities"), "`input` must be left out for top-k"),
        (lambda given, y: nishimori.temperatures(given, y, floor=0.1), "`floor` must be left out for top-k"),
        (lambda given, y: nishimori.temperatures(given, y, class_axis=1), "`class_axis` must be -1 where `logits` is a TopK"),
        (lambda given, y: nishimori.group_gaps(given, y, groups=y), "`groups` must be left out for top-k"),
        (lambda given, y: nishimori.from_temperature(2.0).predict_proba(given), r"`TopK.probabilities\(temperature\)` gives"),
        (
            lambda given, y: nishimori.calibrators.Matched(Logit()).fit(given, y),
            "`X` must hold all logits for Logit, got top-k",
        ),
    ],
)
def test_what_needs_all_classes_refuses_top_k(use, message):
    log_p, labels = drawn(12)
    with pytest.raises(nishimori.errors.InputError, match=message):
        use(listed(log_p, 5), labels)


class Logit(nishimori.Observable):
    def values(self, logits):
        return logits


def test_classes_may_have_names():
    log_p, labels = drawn(13, n=1500, scale=4.0)
    names = np.array([f"token {i}" for i in range(30)])
    named = nishimori.ExpectationConsistency(classes=names.tolist()).fit(listed(log_p, 12), names[labels])
    assert named.temperature_ == nishimori.ExpectationConsistency().fit(listed(log_p, 12), labels).temperature_
    assert named.classes_.tolist() == names.tolist()


def test_a_vocabulary_that_float64_cannot_count_is_refused():
    with pytest.raises(
        nishimori.errors.InputError, match=r"^`vocabulary_size` must be a whole number from 2 to 9007199254740992, got"
    ):
        nishimori.TopK(IDS, P, 10**30)


def test_it_shows_its_shape():
    given = nishimori.TopK(IDS, P, 10, label_log_probabilities=[np.nan] * 3)
    assert repr(given) == "TopK(shape=(3, 2), vocabulary_size=10, with label_log_probabilities)"
    assert (given.shape, given.k, given.vocabulary_size) == ((3, 2), 2, 10)


def filtered(log_p, k, p=None, dtype=np.float64):
    """The lists of a top-k or top-p filter, normalised again as samplers do."""
    indices = np.argsort(-log_p, axis=1, kind="stable")[:, :k]
    logs = np.take_along_axis(log_p, indices, axis=1)
    if p is not None:
        before = np.cumsum(np.exp(logs), axis=1) - np.exp(logs)
        logs = np.where(before < p, logs, -np.inf)
    return indices, log_softmax(logs, axis=1).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("k", "p"), [(5, None), (20, None), (10, 0.5), (20, 0.9)])
def test_lists_that_were_normalised_after_a_filter_are_refused_when_they_are_made(k, p, dtype):
    log_p, _ = drawn(14, n_classes=100)
    with pytest.raises(nishimori.errors.InputError, match=r"sum to 1 in every row, .* in row 0. .* from before the filter\."):
        nishimori.TopK(*filtered(log_p, k, p, dtype), 100)


def test_peaked_lists_of_a_full_softmax_are_accepted():
    for scale, n, k in ((12.0, 500, 20), (40.0, 500, 20), (40.0, 1, 3), (200.0, 50, 5)):
        log_p, _ = drawn(15, n=n, n_classes=100, scale=scale)
        for dtype in (np.float32, np.float64):
            listed(log_p.astype(dtype), k)
    nishimori.TopK([[0], [1], [2]], [[0.0], [-1e-9], [-1e-12]], 10)
    rows = np.log([[0.9, 0.1], [0.7, 0.3], [0.6, 0.3]])  # one of them leaves something
    nishimori.TopK([[0, 1], [2, 0], [5, 6]], rows, 10)
    log_p, _ = drawn(16, n_classes=30, scale=9.0)
    listed(log_p, 29)


def test_one_class_more_in_some_rows_is_the_sampled_class_and_is_refused():
    log_p, labels = drawn(17, n_classes=200, scale=3.0)
    indices = np.argsort(-log_p, axis=1, kind="stable")[:, :5]
    inside = (indices == labels[:, None]).any(axis=1)
    ids = np.column_stack([indices, np.where(inside, 0, labels)])
    logs = np.take_along_axis(log_p, ids, axis=1)
    logs[inside, 5] = -np.inf
    assert 0 < inside.mean() < 1
    with pytest.raises(
        nishimori.errors.InputError, match=r"got 5 classes in \d+ rows, and 6 in \d+, first in row \d+\. Some services \(vLLM\)"
    ):
        nishimori.TopK(ids, logs, 200)
    logs[:, 5] = -np.inf  # as the message says
    nishimori.TopK(ids, logs, 200, label_log_probabilities=log_p[np.arange(len(labels)), labels])


def test_a_row_whose_rest_does_not_fit_below_its_last_entry_is_refused_when_it_is_made():
    with pytest.raises(
        nishimori.errors.InputError, match=r"than the last listed one, 1e-06, in row 0\. .* whatever its rank: replace its"
    ):
        nishimori.TopK([[0, 1, 2]], np.log([[0.5, 0.2, 1e-6]]), 1000)


@pytest.mark.parametrize(
    ("indices", "logs", "message"),
    [
        (IDS, with_entry(1, 0, np.nan), "must not be NaN, got nan in row 1"),
        (IDS, with_entry(2, 1, 0.3), "must be at most 0, got 0.3 in row 2"),
        (IDS, with_entry(2, 1, np.inf), "must be at most 0, got inf in row 2"),
        (
            np.array([[0, 1, 2], [2, 0, 2], [5, 6, 7]]),
            np.log([[0.5, 0.2, 0.1]] * 3),
            "at most once per sample, got 2 twice in row 1",
        ),
        (with_entry(1, 1, 10, IDS), P, "must be from 0 to 9, got 10 in row 1"),
        (IDS, with_entry(1, 1, -0.1), "sum to at most 1, got a sum of 1.50484 in row 1"),
    ],
)
def test_bad_values_are_refused_when_the_lists_are_made(indices, logs, message):
    with pytest.raises(nishimori.errors.InputError, match=message):
        nishimori.TopK(indices, logs, 10)


@pytest.mark.parametrize(("index", "value"), [(-1, np.nan), (0, 0.0), (3, -np.inf), (0, 1e9)])
def test_rows_of_padding_may_be_made_but_must_not_count(index, value):
    log_p, labels = drawn(18, n=300)
    indices = np.argsort(-log_p, axis=1)[:, :8]
    logs = np.take_along_axis(log_p, indices, axis=1)
    indices[::3], logs[::3] = index, value
    labels[::3] = -100
    found = nishimori.temperatures(nishimori.TopK(indices, logs, 30), labels, ignore_index=-100)
    assert found.n_samples == 200
    labels[::3] = 0
    with pytest.raises(nishimori.errors.InputError, match=r"row 0\b"):
        nishimori.temperatures(nishimori.TopK(indices, logs, 30), labels)
