"""Folds of samples, and what models that were fitted to the other folds say about them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nishimori._calibrators.folds import check_folds, deal_folds, in_row_order, linked_units, out_of_fold, split_folds
from nishimori.errors import InputError


def fold_numbers(*args, **options):
    """The fold of each sample, after a check that every sample is either fitted to or held out."""
    folds = deal_folds(*args, **options)
    numbers = np.full(len(args[0]), -1)
    for number, fold in enumerate(folds):
        assert np.array_equal(np.sort(np.r_[fold.train, fold.test]), np.arange(len(numbers)))
        assert fold.name == f"fold {number + 1} of {len(folds)}"
        numbers[fold.test] = number
    return numbers


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


def test_samples_that_share_a_cluster_or_a_group_are_one_unit():
    clusters, groups = np.array([0, 0, 1, 2, 3, 3]), np.array([0, 1, 1, 2, 3, 4])
    units = linked_units(clusters, groups)
    assert [set(np.flatnonzero(units == unit)) for unit in np.unique(units)] == [{0, 1, 2}, {3}, {4, 5}]
    assert linked_units(clusters, None) is clusters
    assert linked_units(None, groups) is groups
    assert linked_units(None, None) is None


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_each_sample_is_predicted_by_the_fit_to_the_other_folds(n_jobs):
    values, labels = np.random.default_rng(0).normal(size=60), np.arange(60) % 4
    folds = deal_folds(labels, 3)
    models, parts = out_of_fold(
        folds, lambda fold: values[fold.train].sum(), lambda model, fold: values[fold.test] / model, n_jobs=n_jobs
    )
    predicted = in_row_order([fold.test for fold in folds], parts)
    for fold, model in zip(folds, models, strict=True):
        assert model == values[fold.train].sum()
        np.testing.assert_array_equal(predicted[fold.test], values[fold.test] / values[fold.train].sum())


def test_models_are_forgotten_where_they_are_not_kept():
    folds = deal_folds(np.arange(6) % 2, 2)
    assert out_of_fold(folds, lambda fold: fold, lambda model, fold: model is fold, keep_models=False) == ([], [True, True])


def test_a_class_that_is_nowhere_in_a_fold_matters_only_where_all_classes_must_be_fitted_to():
    y = np.array([0, 0, 1, 1, 2, 2])
    folds = split_folds([([0, 2], [1, 3])], np.zeros((6, 1)), y)
    check_folds(folds, y, all_classes=False)
    with pytest.raises(InputError, match="`cv` must leave samples of each class to fit to, got none of class 2 in fold 1 of 1"):
        check_folds(folds, y, all_classes=True)
