"""Folds of the data: a classifier is fitted to the training part of each and gives scores for the rest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from nishimori._calibrators.classifier.response import Scorer, known_classes
from nishimori._calibrators.private_sklearn import method_params_of_rows, safe_split
from nishimori._rows.labels import first_names
from nishimori._support.arrays import HostArray, smallest_normal
from nishimori.errors import InputError

# Scores that differ by this many roundings at most count as equal: a sum over some hundred features has as many.
_ROUNDINGS = 64

# A classifier whose scores for a test part are equal is asked about this many rows that it was fitted to. One that tells a few
# apart, such as the only row with a flag, has learned nothing that helps with others.
_MOST_ASKED, _FEW = 100, 0.05


@dataclass(frozen=True)
class Fold:
    """Rows to fit a classifier to, and rows that it then gives scores for."""

    train: HostArray
    test: HostArray
    name: str


@dataclass(frozen=True)
class FoldScores:
    """A fitted classifier, or None if nobody needs it, rows that it was not fitted to, and its scores for them."""

    estimator: Any
    rows: HostArray
    scores: HostArray
    name: str = ""
    is_constant: bool = False  # whether the classifiers do not tell samples apart


def gives_one_score(scores: HostArray, scorer: Scorer) -> bool:
    """Whether no score differs from that of another sample by more than rounding; one sample does not tell."""
    return len(scores) > 1 and bool((_distances(scores, scores[:1], scorer) <= 1).all())


def _distances(scores: HostArray, one: HostArray, scorer: Scorer) -> HostArray:
    """How far the scores of each sample are from ``one``, relative to what rounding explains."""
    precise, centre = (each if each.dtype.kind == "f" else each.astype(float) for each in (scores, one))
    if scorer.input == "probabilities":  # of which small ones may differ by little and by orders of magnitude
        precise, centre = (np.log(np.maximum(each, smallest_normal(each))) for each in (precise, centre))
    # A sum that cancels, as that of a balanced linear model, has the rounding of its terms: take these for 1 at least.
    rounding = _ROUNDINGS * np.finfo(precise.dtype).eps * max(1.0, float(np.abs(precise).max()))
    found: HostArray = np.abs(precise - centre).reshape(len(precise), -1).max(axis=1) / rounding
    return found


def folds_of(cv: Any, X: Any, y: HostArray, split: Mapping[str, Any]) -> list[Fold]:
    """The folds that ``cv`` makes, each with all classes in its training part."""
    if isinstance(cv, str) and cv == "prefit":
        raise InputError(
            "cv",
            "be a number of folds, a splitter or pairs of rows",
            got="'prefit'",
            remedy="Leave it out, and wrap the fitted classifier in `sklearn.frozen.FrozenEstimator` instead.",
        )
    labels, counts = np.unique(y, return_counts=True)
    n_folds = 5 if cv is None else cv
    if isinstance(n_folds, Integral) and counts.max() < int(n_folds):
        raise InputError(
            "cv",
            f"be at most the number of samples of the most frequent class, {counts.max()}",
            got=n_folds,
            remedy="Use fewer folds or more samples.",
        )
    pairs = list(check_cv(n_folds, y, classifier=True).split(X, y, **split))
    if not pairs:
        raise InputError("cv", "give at least one pair of training and test rows", got="none")
    # Boolean masks are allowed by scikit-learn; a row number is what everything below needs.
    numbered = [tuple(_row_numbers(part) for part in pair) for pair in pairs]
    folds = [Fold(train, test, f"fold {i} of {len(pairs)}") for i, (train, test) in enumerate(numbered, start=1)]
    for fold in folds:
        _refuse_missing(fold, y, labels, counts)
    return folds


def _row_numbers(part: Any) -> HostArray:
    given = np.asarray(part)
    return np.flatnonzero(given) if given.dtype == bool else given


def _refuse_missing(fold: Fold, y: HostArray, labels: HostArray, counts: HostArray) -> None:
    if not len(fold.test):
        raise InputError("cv", "leave samples to calibrate with in each fold", got=f"none in {fold.name}")
    missing = ~np.isin(labels, y[fold.train])
    if missing.any():
        raise InputError(
            "cv",
            "leave samples of each class to train with",
            got=(
                f"none of {first_names(labels[missing].tolist())} in {fold.name}, so that the classifier would give "
                "no score for it"
            ),
            remedy=f"`y` has {counts[missing].min()} in all. Use stratified folds, more samples of the class, or drop it.",
        )


def refuse_repeated(folds: Sequence[Fold]) -> None:
    """Refuse folds that test a sample twice: pooled scores would count it as two samples."""
    rows = np.concatenate([fold.test for fold in folds])
    if len(np.unique(rows)) < len(rows):
        raise InputError(
            "cv",
            "test each sample at most once with ensemble=False, because all scores are pooled",
            got="a sample in several test parts",
            remedy="Use StratifiedKFold, or ensemble=True.",
        )


def scored_folds(
    estimator: Any,
    scorer: Scorer,
    X: Any,
    y: HostArray,
    folds: Iterable[Fold],
    params: Mapping[str, Any],
    *,
    keep: bool,
    n_jobs: int | None,
) -> list[FoldScores]:
    """A classifier per fold, fitted to its training part, with its scores for the test part.

    With ``keep=False`` the classifiers are forgotten, so that other processes need not send them back.
    """
    jobs = (delayed(_fold_scores)(clone(estimator), scorer, X, y, fold, params, keep=keep) for fold in folds)
    found: list[FoldScores] = Parallel(n_jobs=n_jobs)(jobs)
    return found


def _fold_scores(
    estimator: Any, scorer: Scorer, X: Any, y: HostArray, fold: Fold, params: Mapping[str, Any], *, keep: bool
) -> FoldScores:
    train_x, train_y = safe_split(estimator, X, y, fold.train)
    test_x, _ = safe_split(estimator, X, y, fold.test, fold.train)  # of a precomputed kernel, the columns of the training rows
    estimator.fit(train_x, train_y, **method_params_of_rows(X, params, indices=fold.train))
    unknown = ~np.isin(scorer.classes, known_classes(estimator))
    if unknown.any():
        raise InputError(
            "estimator",
            "know all classes that it was fitted to",
            got=(f"{type(estimator).__name__} without {first_names(tuple(scorer.classes[unknown].tolist()))} in {fold.name}"),
        )
    scores = scorer(estimator, test_x, f" of the test part of {fold.name}")
    is_constant = gives_one_score(scores, scorer)
    if is_constant:  # samples of one group may have the same features: then others tell what the classifier knows
        asked = fold.train[np.linspace(0, len(fold.train) - 1, min(_MOST_ASKED, len(fold.train))).astype(int)]
        asked_x, _ = safe_split(estimator, X, y, asked, fold.train)
        others = scorer(estimator, asked_x, f" of the training part of {fold.name}")
        is_constant = bool((_distances(others, scores[:1], scorer) > 1).mean() <= _FEW)
    return FoldScores(estimator if keep else None, fold.test, scores, fold.name, is_constant)


def pool_test_parts(scored: Sequence[FoldScores]) -> FoldScores:
    """The rows of all test parts in ascending order, and their scores."""
    rows = np.concatenate([each.rows for each in scored])
    scores = np.concatenate([each.scores for each in scored])
    order = np.argsort(rows, kind="stable")
    several = [each.is_constant for each in scored if len(each.rows) > 1]
    return FoldScores(None, rows[order], scores[order], is_constant=bool(several) and all(several))
