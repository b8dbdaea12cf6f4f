"""Sums over groups at a β of each: those of the plain formulas, whatever the pieces, the library, the weights and the masks."""

import numpy as np
import pytest
import reference
import reference_groups
from optional import torch

from nishimori._rows.entry import open_rows
from nishimori._sums.groups import Grouping, MeasureGroups, scaled_rows
from nishimori._sums.observables import Confidence, Energy
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(400, 5)
RNG = np.random.default_rng(3)
WEIGHTS = RNG.integers(0, 4, 400).astype(float)
GROUPS = RNG.integers(0, 3, 400)
CLUSTERS = RNG.integers(0, 40, 400)
TEMPERATURES = np.array([0.7, 1.9, 3.0])
OBSERVABLES = {"ec": Confidence(), "ts": Energy()}


def measured(method, logits=LOGITS, labels=LABELS, *, weights=None, clusters=None, counts=False, groups=GROUPS):
    data = open_rows(logits, labels, weights, clusters=clusters, groups=groups)
    pass_ = MeasureGroups(Grouping("groups", 3), OBSERVABLES[method], 1 / TEMPERATURES, counts, clusters is not None)
    return data.gather(pass_)


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("how", ["rows", "counts", "clusters"])
def test_the_sums_are_those_of_the_formulas(method, how):
    options = {"clusters": CLUSTERS} if how == "clusters" else {"counts": how == "counts"}
    found = measured(method, weights=WEIGHTS, **options)
    expected = reference_groups.sums(LOGITS, LABELS, GROUPS, 3, TEMPERATURES, method, WEIGHTS, **options)
    for name, value in zip(("gap", "slope", "variance"), expected, strict=True):
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(found.weight, np.bincount(GROUPS, WEIGHTS))
    np.testing.assert_array_equal(found.n_rows, np.bincount(GROUPS[WEIGHTS > 0]))


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_sums_of_pieces_add(method):
    whole = measured(method, weights=WEIGHTS, clusters=CLUSTERS)
    pass_ = MeasureGroups(Grouping("groups", 3), OBSERVABLES[method], 1 / TEMPERATURES, False, True)
    batches = iter(open_rows(LOGITS, LABELS, WEIGHTS, clusters=CLUSTERS, groups=GROUPS))
    (batch,) = batches
    halves = [_some(batch, rows) for rows in (slice(0, 150), slice(150, None))]
    joined = pass_(halves[0]) + pass_(halves[1])
    for name in ("n_rows", "weight", "gap", "slope", "model_variance", "row_squares", "clusters"):
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-12, atol=1e-12, err_msg=name)


def _some(batch, rows):
    parts = {"clusters": batch.clusters.at_rows(rows), "groups": batch.groups.at_rows(rows)}
    return type(batch)(batch.logits[rows], batch.labels[rows], batch.weights[rows], masked=False, **parts)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_tensors_have_the_sums_of_arrays(method):
    found = measured(method, torch.tensor(LOGITS, dtype=torch.float32), torch.tensor(LABELS))
    expected = measured(method, LOGITS.astype(np.float32))
    for name in ("gap", "slope", "variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_masked_classes_have_no_probability(method):
    masked = np.where(RNG.random(LOGITS.shape) < 0.3, -np.inf, LOGITS)
    masked[np.arange(400), LABELS] = LOGITS[np.arange(400), LABELS]
    expected = reference_groups.sums(masked, LABELS, GROUPS, 3, TEMPERATURES, method)
    found = measured(method, masked)
    np.testing.assert_allclose(found.gap, expected[0], rtol=1e-9)
    np.testing.assert_allclose(found.variance, expected[2], rtol=1e-9)


def test_the_group_of_a_row_is_its_predicted_class_without_names():
    pass_ = MeasureGroups(Grouping("prediction", 5), Confidence(), np.ones(5))
    found = open_rows(LOGITS, LABELS).gather(pass_)
    np.testing.assert_array_equal(found.n_rows, np.bincount(LOGITS.argmax(axis=1), minlength=5))


def test_a_constant_per_row_does_not_cost_digits():
    shifted = LOGITS + 1e6 * RNG.normal(size=(400, 1))
    back = shifted - shifted.max(axis=1, keepdims=True)
    np.testing.assert_allclose(measured("ts", shifted).gap, measured("ts", back).gap, rtol=1e-12)


def test_a_table_of_groups_by_clusters_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("nishimori._sums.spread.MOST_CLUSTER_SUMS", 100)
    with pytest.raises(
        InputError, match=r"^`clusters` must be at most 33 where there are 3 groups, got 40. Join small clusters."
    ):
        measured("ec", clusters=CLUSTERS)


def test_scaling_keeps_predictions_that_rounding_would_tie():
    (batch,) = open_rows(np.array([[0.0, 1e-300], [1.0, 0.0]]), [1, 1])
    scaled = scaled_rows(batch, np.array([1e-30, 1.0]))
    assert scaled.logits[0].tolist() == [0.0, 0.0]
    assert (scaled.top.tolist(), scaled.right.tolist()) == ([1, 0], [True, False])
