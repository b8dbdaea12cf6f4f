"""Folds: rows to fit to and rows that are held out, and what a model says about rows that it has not seen.

`Best`, `Consistent` and `CalibratedClassifier` make their folds and go through them here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from nishimori._support.arrays import HostArray
from nishimori._support.formatting import join_names
from nishimori._support.numbers import whole
from nishimori._support.warnings import notice
from nishimori.errors import DegenerateDataError, InputError, InputWarning

M = TypeVar("M")
P = TypeVar("P")


@dataclass(frozen=True)
class Fold:
    """Rows to fit to, and rows that are held out, by their numbers; messages use the name, such as "fold 2 of 5"."""

    train: HostArray
    test: HostArray
    name: str


def _named(pairs: Sequence[tuple[HostArray, HostArray]]) -> list[Fold]:
    return [Fold(train, test, f"fold {number} of {len(pairs)}") for number, (train, test) in enumerate(pairs, start=1)]


def deal_folds(
    labels: HostArray, n_folds: int, units: HostArray | None = None, *, seed: int = 0, unit_name: str = "clusters"
) -> list[Fold]:
    """Spread each class evenly over random folds, where samples that share a unit stay together.

    The folds are the same for the same ``seed``. Classes may have fewer samples than there are folds.

    Parameters
    ----------
    labels : array of shape (n_samples,)
        The true class of each sample, as a whole number.
    n_folds : int
        At least 2; messages call it ``cv``.
    units : array of shape (n_samples,), optional
        Which samples belong together, as any number; each is on its own by default.
    seed : int
        Another one gives other folds.
    unit_name : str
        What messages call the units.

    Raises
    ------
    DegenerateDataError
        If there are fewer samples, or units, than folds.
    """
    n_folds = whole("cv", n_folds, 2)
    n_units = len(labels) if units is None else len(np.unique(units))
    if n_units < n_folds:
        few = "samples" if units is None else unit_name
        raise DegenerateDataError(
            "cv", f"be at most the number of {few}, {n_units}", got=n_folds, remedy=f"Use fewer folds or more {few}."
        )
    # Units that are sorted by class are dealt out like cards, so that two units of a class are never in the same fold as long
    # as another fold has none. Large ones come first, so that the folds end up about equally large.
    members, classes, sizes = _unit_classes(labels, units)
    order = np.lexsort((np.random.default_rng(seed).random(len(sizes)), -sizes, classes))
    dealt = np.empty(len(sizes), dtype=np.int64)
    dealt[order] = np.arange(len(sizes)) % n_folds
    numbers = dealt[members]
    return _named([(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(n_folds)])


def _unit_classes(labels: HostArray, units: HostArray | None) -> tuple[HostArray, HostArray, HostArray]:
    """The number of the unit of each sample, and of each unit its most frequent class and its size."""
    if units is None:
        return np.arange(len(labels)), np.asarray(labels), np.ones(len(labels), dtype=np.int64)
    _, members = np.unique(units, return_inverse=True)
    sizes = np.bincount(members)
    pairs, counts = np.unique(np.stack([members, np.asarray(labels)]), axis=1, return_counts=True)
    order = np.lexsort((-counts, pairs[0]))
    first = order[np.searchsorted(pairs[0][order], np.arange(len(sizes)))]
    return members, pairs[1][first], sizes


def linked_units(first: HostArray | None, second: HostArray | None) -> HostArray | None:
    """Number the sets of samples that share a whole number of either kind, directly or through others; None without any."""
    if first is None or second is None:
        return second if first is None else first
    above = second + first.max() + 1
    size = int(above.max()) + 1
    _, sets = connected_components(coo_array((np.ones(len(first)), (first, above)), shape=(size, size)), directed=False)
    return sets[first]


def split_folds(cv: Any, X: Any, y: HostArray, **params: Any) -> list[Fold]:
    """The folds of what scikit-learn takes for ``cv``: a number, a splitter, or pairs of rows; ``params`` are for `split`."""
    pairs = check_cv(cv, y, classifier=True).split(X, y, **params)
    return _named([(_row_numbers(train), _row_numbers(test)) for train, test in pairs])


def _row_numbers(part: Any) -> HostArray:
    """Row numbers, for which scikit-learn allows a mask too."""
    rows = np.asarray(part) if len(part) else np.empty(0, dtype=np.int64)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def check_folds(folds: Sequence[Fold], y: HostArray, *, all_classes: bool) -> None:
    """Refuse folds that hold nothing out, or without samples to fit to of a class of their test part or of ``all_classes``."""
    if not folds:
        raise InputError("cv", "have at least one fold", got="none", remedy="A generator can be used once only: pass a list.")
    classes, counts = np.unique(y, return_counts=True)
    for fold in folds:
        if not len(fold.test):
            raise InputError("cv", "hold out samples in each fold", got=f"none in {fold.name}")
        missing = ~np.isin(classes, y[fold.train])
        if not all_classes:
            missing &= np.isin(classes, y[fold.test])
        if missing.any():
            raise InputError(
                "cv",
                "leave samples of each class to fit to",
                got=f"none of class {join_names(classes[missing].tolist())} in {fold.name}",
                remedy=f"`y` has {counts[missing].min()} in all. Use stratified folds, more samples of the class, or drop it.",
            )


def never_hold_out(folds: Sequence[Fold], y: HostArray) -> list[Fold]:
    """Folds that fit to the only sample of a class, with a warning: what held it out would not know the class."""
    classes, first, counts = np.unique(y, return_index=True, return_counts=True)
    is_single = counts == 1
    rows = first[is_single]
    held_out = rows[np.isin(rows, np.concatenate([fold.test for fold in folds]))] if folds else rows[:0]
    if not len(held_out):
        return list(folds)
    names = join_names(classes[is_single].tolist())
    subject = f"Class {names} has one sample" if is_single.sum() == 1 else f"The classes {names} have one sample each"
    notice(
        f"{subject}, which every fold is fitted to and none holds out: nothing is known about how probable such a class is.",
        InputWarning,
    )
    moved = []
    for fold in folds:
        single = np.intersect1d(fold.test, held_out)
        moved.append(Fold(np.union1d(fold.train, single), np.setdiff1d(fold.test, single), fold.name) if len(single) else fold)
    return [fold for fold, before in zip(moved, folds, strict=True) if len(fold.test) or not len(before.test)]


def out_of_fold(
    folds: Sequence[Fold],
    fit: Callable[[Fold], M],
    predict: Callable[[M, Fold], P],
    *,
    keep_models: bool = True,
    n_jobs: int | None = 1,
) -> tuple[list[M], list[P]]:
    """Fit a model to the training part of each fold, and let it predict the test part.

    Parameters
    ----------
    folds : list of Fold
        What is held out when.
    fit, predict : callable
        The model of a fold, and what a model says about the test part of its fold.
    keep_models : bool
        Whether the models are returned; other processes need not send them back otherwise.
    n_jobs : int or None
        How many folds are fitted at the same time, as in scikit-learn.

    Returns
    -------
    tuple
        The models, of which there are none without ``keep_models``, and the predictions, fold by fold.
    """
    jobs = (delayed(_fit_and_predict)(fold, fit, predict, keep_model=keep_models) for fold in folds)
    pairs = Parallel(n_jobs=n_jobs)(jobs)
    return [model for model, _ in pairs] if keep_models else [], [prediction for _, prediction in pairs]


def _fit_and_predict(
    fold: Fold, fit: Callable[[Fold], M], predict: Callable[[M, Fold], P], *, keep_model: bool
) -> tuple[Any, P]:
    model = fit(fold)
    return model if keep_model else None, predict(model, fold)


def in_row_order(rows: Sequence[HostArray], parts: Sequence[HostArray]) -> HostArray:
    """What was predicted for the ``rows`` of several test parts, in ascending order of the rows."""
    return np.concatenate(parts)[np.argsort(np.concatenate(rows), kind="stable")]


def mean_by_row(rows: Sequence[HostArray], parts: Sequence[HostArray]) -> HostArray:
    """The same for numbers, where a row that several folds hold out has the mean of its numbers."""
    ordered, all_rows = in_row_order(rows, parts), np.sort(np.concatenate(rows))
    _, first, counts = np.unique(all_rows, return_index=True, return_counts=True)
    if len(first) == len(ordered):
        return ordered
    means: HostArray = np.add.reduceat(ordered, first) / counts
    return means
