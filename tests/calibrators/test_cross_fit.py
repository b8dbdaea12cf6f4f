"""Folds of samples, samples that are collected from data of any kind, and predictions for held-out folds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nishimori
from nishimori._calibrators.cross_fit import collect_samples, fold_maps, fold_numbers, mapped_logits, out_of_fold_logits
from nishimori.errors import InputError
from nishimori.maps import Affine, Temperature


@settings(max_examples=50, deadline=None)
@given(labels=st.lists(st.integers(0, 4), min_size=7, max_size=60), n_folds=st.integers(2, 7), seed=st.integers(0, 9))
def test_folds_and_the_samples_of_each_class_in_them_differ_in_size_by_one_at_most(labels, n_folds, seed):
    folds = fold_numbers(np.array(labels), n_folds, seed=seed)
    for chosen in [np.ones(len(labels), dtype=bool), *(np.array(labels) == each for each in set(labels))]:
        sizes = np.bincount(folds[chosen], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1
        assert len(sizes) == n_folds


@settings(max_examples=50, deadline=None)
@given(units=st.lists(st.integers(0, 9), min_size=20, max_size=80), seed=st.integers(0, 9))
def test_a_unit_stays_in_one_fold_and_no_fold_is_empty(units, seed):
    units = np.array([*range(10), *units])
    labels = np.random.default_rng(seed).integers(3, size=len(units))
    folds = fold_numbers(labels, 4, units, seed=seed)
    assert all(len(set(folds[units == each])) == 1 for each in range(10))
    assert set(folds) == {0, 1, 2, 3}


def test_units_are_spread_by_their_most_frequent_class():
    units = np.repeat(np.arange(40), 5)
    classes = np.arange(40) % 2
    labels = np.where(np.arange(200) % 5 < 3, classes[units], 1 - classes[units])  # three of five samples
    folds = fold_numbers(labels, 5, units)
    of_unit = folds[::5]
    assert [np.sum(classes[of_unit == fold]) for fold in range(5)] == [4] * 5


def test_folds_are_the_same_each_time_and_others_with_another_seed():
    labels = np.arange(50) % 3
    np.testing.assert_array_equal(fold_numbers(labels, 5), fold_numbers(labels, 5))
    assert (fold_numbers(labels, 5) != fold_numbers(labels, 5, seed=1)).any()


def test_neighbouring_samples_of_a_class_are_not_dealt_out_in_their_order():
    folds = fold_numbers(np.zeros(1000, dtype=int), 5)
    assert abs(np.corrcoef(folds[:-5], folds[5:])[0, 1]) < 0.2  # in their order it would be 1


@pytest.mark.parametrize(
    ("labels", "n_folds", "units", "message"),
    [
        ([0, 1, 0], 5, None, "`cv` must be at most the number of samples, 3, got 5. Use fewer folds or more samples."),
        ([0, 1, 0], 3, [1, 1, 2], "`cv` must be at most the number of clusters, 2, got 3. Use fewer folds or more clusters."),
        ([0, 1, 0], 1, None, "`cv` must be a whole number of at least 2, got 1."),
        ([0, 1, 0], 2.0, None, "`cv` must be a whole number of at least 2, got 2.0."),
    ],
)
def test_too_many_folds_are_refused_with_what_to_do(labels, n_folds, units, message):
    with pytest.raises(InputError) as error:
        fold_numbers(np.array(labels), n_folds, None if units is None else np.array(units))
    assert str(error.value).capitalize() == message.capitalize()


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
    assert found.share == 1
    part = found.rows(groups != "south")
    assert part.groups.names == ("north", "west")
    assert part.clusters.number == 10
    (batch,) = list(part)
    np.testing.assert_array_equal(batch.labels, labels[groups != "south"])
    np.testing.assert_array_equal(np.array(batch.groups.names)[batch.groups.codes], groups[groups != "south"])
    folds = found.folds(5)
    assert all(len(set(folds[clusters == each])) == 1 for each in range(10))
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
    assert whole.share in (0.125, 0.25)
    assert whole.n_samples == pytest.approx(4000 * whole.share, rel=0.15)
    places = np.flatnonzero(np.isin(logits[:, 0], whole.logits[:, 0]))
    assert abs(places.mean() - 2000) < 4 * 4000 / np.sqrt(12 * len(places))  # from everywhere
    assert abs(whole.logits.mean()) < 4 * 2 / np.sqrt(whole.logits.size)  # and whatever their logits


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


def test_each_sample_is_mapped_by_the_fit_to_the_other_folds():
    logits, labels = samples_of()
    samples = collect_samples(nishimori.rows(logits, labels))
    folds = samples.folds(3)

    def fit(rows, where):
        assert where in {"all but fold 1 of 3", "all but fold 2 of 3", "all but fold 3 of 3"}
        (batch,) = list(rows)
        return Temperature(1 + batch.logits.sum() ** 2)

    found = out_of_fold_logits(samples, folds, fold_maps(samples, folds, fit))
    for fold in range(3):
        np.testing.assert_allclose(found[folds == fold], logits[folds == fold] / (1 + logits[folds != fold].sum() ** 2))


def test_logits_are_mapped_in_double_precision():
    logits, _ = samples_of()
    single = logits.astype(np.float32)
    found = mapped_logits(Affine(3.0, [0.1, 0.2, 0.3, 0.4]), single)
    double = single.astype(float)
    expected = 3 * (double - double.mean(axis=1, keepdims=True)) + [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_allclose(found, expected, atol=1e-13)
