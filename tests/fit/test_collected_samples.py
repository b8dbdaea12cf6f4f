"""Samples that are collected from data of any kind."""

import numpy as np
import pytest

import nishimori
from nishimori._fit.collected_samples import collect_samples
from nishimori.maps import Affine


def samples_of(n=60, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, n_classes))
    return logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def test_samples_hold_everything_that_was_said_about_the_rows():
    logits, labels = samples_of()
    weights = np.linspace(0.5, 2, 60)
    clusters, groups = np.arange(60) // 6, np.array(["north", "south", "west"])[np.arange(60) % 3]
    found = collect_samples(nishimori.rows(logits, labels, sample_weight=weights, clusters=clusters, groups=groups))
    np.testing.assert_array_equal(found.logits, logits)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.weights, weights)
    part = found.rows(groups != "south")
    assert part.groups.names == ("north", "west")
    assert part.clusters.number == 10
    (batch,) = list(part)
    np.testing.assert_array_equal(batch.labels, labels[groups != "south"])
    np.testing.assert_array_equal(np.array(batch.groups.names)[batch.groups.codes], groups[groups != "south"])
    assert found.rows(clusters > 6).clusters.number == 3


def test_rows_of_weight_zero_are_not_there_and_counts_stay_counts():
    logits, labels = samples_of()
    weights = np.arange(60) % 3
    found = collect_samples(nishimori.rows(logits, labels, sample_weight=weights, counts=True))
    np.testing.assert_array_equal(found.logits, logits[weights > 0])
    assert found.rows(slice(0, 5)).counts


def test_zeros_of_float32_keep_the_floor_of_their_dtype():
    probabilities = np.array([[0, 1], [0.5, 0.5], [0.25, 0.75]], dtype=np.float32)
    found = collect_samples(nishimori.rows(probabilities, [1, 0, 1], input="probabilities"))
    np.testing.assert_allclose(found.logits[0, 0], np.log(np.finfo(np.float32).smallest_normal))


def test_of_more_rows_than_allowed_a_random_part_is_kept_and_the_same_one_each_time():
    logits, labels = samples_of(4000, 3)
    whole, again = (collect_samples(nishimori.rows(logits, labels), most_numbers=3000) for _ in range(2))
    np.testing.assert_array_equal(whole.logits, again.logits)
    np.testing.assert_array_equal(whole.labels, again.labels)
    assert any(whole.n_samples == pytest.approx(4000 * share, rel=0.15) for share in (0.125, 0.25))
    places = np.flatnonzero(np.isin(logits[:, 0], whole.logits[:, 0]))
    assert abs(places.mean() - 2000) < 4 * 4000 / np.sqrt(12 * len(places))  # from everywhere
    assert abs(whole.logits.mean()) < 4 * 2 / np.sqrt(whole.logits.size)  # and whatever their logits


def test_a_part_that_is_drawn_in_order_does_not_depend_on_how_the_rows_are_cut():
    logits, labels = samples_of(400)
    parts = []
    for size in (400, 33):
        data = nishimori.rows([(logits[i : i + size], labels[i : i + size]) for i in range(0, 400, size)])
        parts.append(collect_samples(data, most_numbers=400, in_order=True))
    for field in ("logits", "labels", "weights"):
        np.testing.assert_array_equal(getattr(parts[0], field), getattr(parts[1], field))
    drawn = np.random.default_rng(0).random(400)
    share = next(share for share in 0.5 ** np.arange(9) if (drawn < share).sum() <= 100)
    np.testing.assert_array_equal(parts[0].logits, logits[drawn < share])
    np.testing.assert_array_equal(parts[0].labels, labels[drawn < share])


@pytest.mark.parametrize("saturated", [0.7, 1.0])
def test_rows_of_equal_scores_are_kept_in_their_proportion(saturated):
    logits, labels = samples_of(8000, 3)
    same = np.random.default_rng(0).random(8000) < saturated
    logits[same] = [2.0, -1.0, -1.0]
    kept = collect_samples(nishimori.rows(logits, labels), most_numbers=6000)
    share = (kept.logits == [2.0, -1.0, -1.0]).all(axis=1).mean()
    assert 500 < kept.n_samples <= 2000
    assert share == pytest.approx(same.mean(), abs=0.05)


def test_chunks_of_dask_are_collected_in_their_order():
    dask = pytest.importorskip("dask.array")
    logits, labels = samples_of()
    found = collect_samples(nishimori.rows(dask.from_array(logits, chunks=(7, 4)), labels))
    np.testing.assert_array_equal(found.logits, logits)
    np.testing.assert_array_equal(found.labels, labels)


def test_logits_are_mapped_in_double_precision():
    logits, labels = samples_of()
    single = logits.astype(np.float32)
    found = collect_samples(nishimori.rows(single, labels)).mapped(Affine(3.0, [0.1, 0.2, 0.3, 0.4]))
    double = single.astype(float)
    expected = 3 * (double - double.mean(axis=1, keepdims=True)) + [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_allclose(found, expected, atol=1e-13)
