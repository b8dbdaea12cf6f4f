"""Logits of several members are one table: the log of their mean softmax, computed here by SciPy."""

import inspect
import tracemalloc

import numpy as np
import pytest
import reference
from optional import array_api_strict, torch
from scipy.special import log_softmax, logsumexp

import nishimori
from nishimori import metrics
from nishimori.errors import InputError

M, N, K = 5, 600, 4
DRAWN, LABELS = reference.drawn(N, K)
MEMBERS = DRAWN + 2 * np.random.default_rng(1).normal(size=(M, N, K))
POOLED = logsumexp(log_softmax(MEMBERS, axis=2), axis=0) - np.log(M)


def table(logits, **options):
    labels = np.zeros(N, int) if np.shape(logits)[-1] > 2 else LABELS % 2
    data = nishimori.rows(logits, labels, **options)
    return np.concatenate([np.asarray(batch.logits) for batch in data])


@pytest.mark.parametrize("axis", [0, 1, -2, -3])
def test_members_may_be_in_any_dimension(axis):
    stacked = np.moveaxis(MEMBERS, 0, axis)
    np.testing.assert_allclose(table(stacked, member_axis=axis), POOLED, atol=1e-12)
    found = nishimori.temperatures(stacked, LABELS, member_axis=axis)
    assert found.ec == pytest.approx(reference.ec_temperature(POOLED, LABELS), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(POOLED, LABELS), rel=1e-8)


def test_classes_and_members_may_both_be_elsewhere():
    images = MEMBERS.reshape(M, 6, 10, 10, K)
    for order, members, classes in (((1, 4, 2, 3, 0), -1, 1), ((4, 0, 1, 2, 3), 1, 0)):
        axes = {"member_axis": members, "class_axis": classes}
        found = metrics.nll(images.transpose(order), LABELS.reshape(6, 10, 10), **axes)
        assert found == pytest.approx(reference.nll(POOLED, LABELS), rel=1e-12)


@pytest.mark.parametrize("kind", ["torch", "torch half", "float32", "strict", "jax", "memory map", "batches", "list"])
def test_every_kind_of_array_is_pooled(kind, tmp_path):
    tolerance, values, labels = 1e-6, MEMBERS, np.zeros(N, int)
    if kind.startswith("torch"):
        pytest.importorskip("torch")
        values, tolerance = (torch.tensor(MEMBERS), 1e-12) if kind == "torch" else (torch.tensor(MEMBERS).half(), 5e-3)
    elif kind == "float32":
        values = MEMBERS.astype(np.float32)
    elif kind == "strict":
        values = array_api_strict.asarray(MEMBERS)
    elif kind == "jax":
        values = pytest.importorskip("jax.numpy").asarray(MEMBERS)
    elif kind == "memory map":
        np.save(tmp_path / "z.npy", MEMBERS)
        values = np.load(tmp_path / "z.npy", mmap_mode="r")
    elif kind == "batches":
        values, labels = [(MEMBERS[:, i : i + 250], np.zeros(len(POOLED[i : i + 250]), int)) for i in range(0, N, 250)], None
    else:
        values = MEMBERS.tolist()
    data = nishimori.rows(values, labels, member_axis=0)
    found = np.concatenate([np.asarray(batch.logits) for batch in data])
    np.testing.assert_allclose(found, POOLED, atol=tolerance)
    assert data.members == (M, 0)


def test_a_class_that_some_members_mask_has_the_mean_of_the_others():
    members = MEMBERS.copy()
    members[1, 0, 2] = members[:, 1, 3] = -np.inf
    p = np.exp(log_softmax(members, axis=2))
    found = table(members, member_axis=0)
    assert found[0, 2] == pytest.approx(np.log(p[[0, 2, 3, 4], 0, 2].mean()), abs=1e-12)
    np.testing.assert_allclose(found[0, [0, 1, 3]], np.log(p[:, 0, [0, 1, 3]].mean(axis=0)), atol=1e-12)
    assert found[1, 3] == -np.inf
    np.testing.assert_allclose(found[2:], POOLED[2:], atol=1e-12)


def test_a_probability_too_small_for_float64_is_no_mask():
    members = np.zeros((3, N, K))
    members[:, :, 1] = -2000.0
    np.testing.assert_allclose(table(members, member_axis=0)[:, 1], -2000 - np.log(3), rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_binary_scores_of_members_are_the_log_odds_of_the_mean_probability(axis):
    scores = 2 * np.random.default_rng(3).normal(size=(M, N))
    p = (1 / (1 + np.exp(-scores))).mean(axis=0)
    labels = (np.random.default_rng(4).random(N) < p).astype(int)
    found = nishimori.temperatures(np.moveaxis(scores, 0, axis), labels, member_axis=axis)
    expected = np.stack([np.log(1 - p), np.log(p)], axis=1)
    assert found.ec == pytest.approx(reference.ec_temperature(expected, labels), rel=1e-8)
    of_probabilities = 1 / (1 + np.exp(-scores))
    again = nishimori.temperatures(of_probabilities, labels, member_axis=0, input="probabilities", floor=None)
    assert again.ts == pytest.approx(reference.ts_temperature(expected, labels), rel=1e-8)


def test_probabilities_are_averaged_and_their_floor_is_that_of_the_mean():
    p = np.exp(log_softmax(MEMBERS, axis=2))
    options = {"member_axis": 0, "input": "probabilities"}
    assert metrics.nll(p, LABELS, **options) == pytest.approx(reference.nll(POOLED, LABELS), rel=1e-12)
    raised = np.log(np.maximum(p.mean(axis=0), 0.05))
    assert metrics.nll(p, LABELS, floor=0.05, **options) == pytest.approx(reference.nll(raised, LABELS), rel=1e-12)


def test_what_looks_like_probabilities_is_refused_though_its_logarithm_does_not():
    with pytest.raises(InputError, match="must be declared as logits or probabilities, got numbers from"):
        nishimori.evaluate(np.exp(log_softmax(MEMBERS, axis=2)), LABELS, member_axis=0)
    batches = [(np.exp(log_softmax(MEMBERS, axis=2)), LABELS)]
    with pytest.raises(InputError, match="must be declared as logits or probabilities, got numbers from"):
        nishimori.evaluate(batches, member_axis=0)


@pytest.mark.parametrize("member", [0, 3])
@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "not contain NaN"), (np.inf, "not contain NaN"), (1e200, "lie between"), (-np.inf, "at least one class")],
)
def test_a_wrong_row_of_one_member_is_named(member, value, message):
    members = MEMBERS.copy()
    members[member, 7] = value
    with pytest.raises(InputError, match=rf"`logits` must .*{message}.* in row 7"):
        nishimori.evaluate(members, LABELS, member_axis=0)
    weights = np.ones(N)
    weights[7] = 0  # a row that is not there may hold anything
    kept = np.delete(np.arange(N), 7)
    found = metrics.nll(members, LABELS, member_axis=0, sample_weight=weights)
    assert found == pytest.approx(reference.nll(POOLED[kept], LABELS[kept]), rel=1e-12)


def test_wrong_probabilities_of_two_members_do_not_cancel():
    p = np.exp(log_softmax(MEMBERS, axis=2))
    p[1, 4, 0] += 0.2
    p[2, 4, 0] -= 0.2 * (p[2, 4, 0] >= 0.2)
    p[2, 4] *= (2 - p[1, 4].sum()) / p[2, 4].sum()
    assert p[:, 4].sum() == pytest.approx(M)
    with pytest.raises(InputError, match=r"`logits` must .* in row 4"):
        nishimori.evaluate(p, LABELS, member_axis=0, input="probabilities")


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((M, N, K), {"member_axis": 3}, r"^`member_axis` must be the number of a dimension of `logits`, which has the shape"),
        ((M, N, K), {"member_axis": "0"}, r"^`member_axis` must be the number of a dimension of `logits`"),
        ((N,), {"member_axis": 0}, r"^`member_axis` must be the number of a dimension of `logits`, which has the shape \(600,"),
        ((M, N, K), {"member_axis": 2}, r"^`member_axis` must be another dimension of `logits` than that of the classes"),
        ((M, N, K), {"member_axis": 1, "class_axis": 1}, r"^`member_axis` must be another dimension"),
        ((0, N, K), {"member_axis": 0}, r"^`logits` must have at least one member"),
    ],
)
def test_a_dimension_that_cannot_hold_members_is_refused(shape, options, message):
    with pytest.raises(InputError, match=message):
        nishimori.evaluate(np.zeros(shape), LABELS, **options)


def test_data_without_a_dimension_for_members_refuse_them():
    with pytest.raises(InputError, match=r"^`member_axis` must be left out except for arrays and batches, got 0 for a file"):
        nishimori.rows("logits.npz", member_axis=0)
    with pytest.raises(InputError, match=r"^`member_axis` must be left out where `logits` is a Rows object"):
        nishimori.evaluate(nishimori.rows(POOLED, LABELS), member_axis=0)
    with pytest.raises(InputError, match=r"^`member_axis` must be left out of `claims`"):
        nishimori.claims([0.5, 0.7], [1, 0], member_axis=0)
    with pytest.raises(InputError, match=r"^Batch 1: `logits` must have 5 members, as in the batches before, got 3"):
        nishimori.evaluate([(MEMBERS[:, :9], LABELS[:9]), (MEMBERS[:3, 9:], LABELS[9:])], member_axis=0)


@pytest.mark.filterwarnings("ignore::nishimori.errors.SameRowsWarning")
def test_functions_that_take_rows_take_members():
    assert "member_axis" in inspect.signature(nishimori.compare).parameters
    alone, together = nishimori.evaluate(POOLED, LABELS), nishimori.evaluate(MEMBERS, LABELS, member_axis=0)
    assert together.ece == pytest.approx(alone.ece, abs=1e-9)
    assert nishimori.Report(MEMBERS, LABELS, member_axis=0).to_dict()["data"]["n_measured"] == N
    values = [
        nishimori.gate(logits, LABELS, bounds={"nll": 2.0}, **options).checks[0].value
        for logits, options in ((MEMBERS, {"member_axis": 0}), (POOLED, {}))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    compared = nishimori.compare(MEMBERS, LABELS, test_logits=MEMBERS, test_labels=LABELS, member_axis=0, methods=["ts"])
    assert compared["ts"].temperature == pytest.approx(reference.ts_temperature(POOLED, LABELS), rel=1e-8)


def test_other_members_in_test_data_are_refused():
    with pytest.raises(InputError, match=r"^`test_logits` must have 5 members, as `logits` has, got 3"):
        nishimori.compare(MEMBERS, LABELS, test_logits=MEMBERS[:3], test_labels=LABELS, member_axis=0)


def test_no_table_of_all_members_is_made():
    members = np.random.default_rng(0).normal(size=(8, 20_000, 50)).astype(np.float32)  # 32 MB, one member 4 MB
    labels = np.zeros(20_000, int)
    nishimori.rows(members[:, :500], labels[:500], member_axis=0)  # what is imported once
    tracemalloc.start()
    nishimori.rows(members, labels, member_axis=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < members.nbytes
