"""What a classifier says about samples, as scores with one column per class, and about samples that it was not fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from nishimori._calibrators.classifier.averaging import MeanOfClassifiers
from nishimori._calibrators.folds import Fold, in_row_order
from nishimori._calibrators.private_sklearn import method_params_of_rows, safe_split
from nishimori._rows.scores import Input
from nishimori._support.arrays import Array, HostArray, is_array, on_host, smallest_normal
from nishimori._support.formatting import join_names
from nishimori._support.numbers import one_of
from nishimori.errors import InputError

ResponseMethod = Literal["auto", "decision_function", "predict_proba", "predict_log_proba"]

_PREFERRED = ("decision_function", "predict_proba")

# Scores that differ by this many roundings at most count as equal: a sum over some hundred features has as many.
_ROUNDINGS = 64

# A classifier whose scores for a test part are equal scores this many rows that it was fitted to. One that tells a few
# apart, such as the only row with a flag, has learned nothing that helps with others.
_MOST_COMPARED, _FEW = 100, 0.05


@dataclass(frozen=True)
class Scorer:
    """How scores are had from a fitted classifier.

    Attributes
    ----------
    method : str
        The name of the classifier's method.
    classes : array
        The label of each column of the scores, in order.
    """

    method: str
    classes: HostArray

    @property
    def input(self) -> Input:
        """What a calibrator must take the scores for."""
        return "probabilities" if self.method == "predict_proba" else "logits"

    def __call__(self, estimator: Any, X: Any, place: str = "") -> HostArray:
        """The scores of ``estimator`` for ``X``, (n, K), or flat for two classes and one decision value.

        ``place`` says in an error which scores these are.
        """
        if isinstance(estimator, MeanOfClassifiers):
            total: HostArray = reduce(np.add, (self(one, X, place) for one in estimator.estimators_))
            return total / len(estimator.estimators_)
        self.refuse_one_vs_one(estimator)
        output = getattr(estimator, self.method)(X)
        # A list has one table per output.
        scores = (
            on_host(output) if is_array(output) else np.asarray(output) if not isinstance(output, list) else np.empty((0, 0, 0))
        )
        own = known_classes(estimator)
        n_classes = len(self.classes)
        if scores.ndim == 1 and n_classes == 2 and self.method == "decision_function":
            _refuse_not_finite(estimator, self.method, scores, place)
            return scores if own.tolist() == self.classes.tolist() else -scores
        if scores.ndim != 2 or scores.shape[1] != len(own):
            raise InputError(
                "estimator",
                f"give one score per class from `{self.method}`, shape (n_samples, {n_classes})",
                got=f"shape {scores.shape} from {_name(estimator)}",
                remedy="Choose another `response_method`.",
            )
        _refuse_not_finite(estimator, self.method, scores, place)
        if self.method == "predict_log_proba":  # zeros are raised as far as where they are probabilities
            scores = np.where(scores == -np.inf, np.log(smallest_normal(scores)), scores)
        column = {label: i for i, label in enumerate(own.tolist())}
        order = [column[label] for label in self.classes.tolist()]
        return scores if order == list(range(scores.shape[1])) else scores[:, order]

    def refuse_one_vs_one(self, estimator: Any) -> None:
        """Refuse decision values per pair of classes, which for three classes look like values per class.

        A search may choose them, so only a fitted ``estimator`` tells.
        """
        if isinstance(estimator, MeanOfClassifiers):
            for one in estimator.estimators_:
                self.refuse_one_vs_one(one)
        elif self.method == "decision_function" and len(self.classes) > 2 and _is_one_vs_one(estimator):
            raise InputError(
                "estimator",
                "give one decision value per class",
                got=f"{_name(estimator)} with decision_function_shape='ovo', which gives one per pair of classes",
                remedy="Set decision_function_shape='ovr'.",
            )


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of classifiers for rows that they were not fitted to.

    Attributes
    ----------
    rows : array of shape (n,)
        Which rows of the data these are.
    scores : array of shape (n, K) or (n,)
        As `Scorer` gives them.
    is_constant : bool
        Whether the classifiers do not tell samples apart.
    name : str
        The fold whose test part these rows are; empty if they are of several.
    """

    rows: HostArray
    scores: HostArray
    is_constant: bool
    name: str = ""

    @classmethod
    def pooled(cls, parts: "Sequence[HeldOutScores]") -> "HeldOutScores":
        """The scores of all test parts, in ascending order of their rows."""
        rows = [part.rows for part in parts]
        several = [part.is_constant for part in parts if len(part.rows) > 1]
        scores = in_row_order(rows, [part.scores for part in parts])
        return cls(np.sort(np.concatenate(rows)), scores, bool(several) and all(several))


@dataclass(frozen=True, eq=False)
class FoldScorer:
    """A classifier that is fitted to the training part of a fold and gives scores for the rest.

    ``params`` are keyword arguments of its `fit`, of all rows of ``X``.
    """

    estimator: Any
    scorer: Scorer
    X: Any
    y: Array
    params: Mapping[str, Any]

    def fit(self, fold: Fold) -> Any:
        """A copy of the classifier that is fitted to the training part."""
        estimator = clone(self.estimator)
        train_x, train_y = safe_split(estimator, self.X, self.y, fold.train)
        estimator.fit(train_x, train_y, **method_params_of_rows(self.X, self.params, indices=fold.train))
        unknown = ~np.isin(self.scorer.classes, known_classes(estimator))
        if unknown.any():
            names = join_names(tuple(self.scorer.classes[unknown].tolist()))
            raise InputError(
                "estimator",
                "know all classes that it was fitted to",
                got=f"{_name(estimator)} without {names} in {fold.name}",
            )
        return estimator

    def predict(self, estimator: Any, fold: Fold) -> HeldOutScores:
        """The scores of that copy for the test part."""
        scores = self._scores(estimator, fold, fold.test, "test part")
        is_constant = gives_one_score(scores, self.scorer)
        if is_constant:  # samples of one group may have the same features: then others tell what the classifier knows
            chosen = np.linspace(0, len(fold.train) - 1, min(_MOST_COMPARED, len(fold.train))).astype(int)
            others = self._scores(estimator, fold, fold.train[chosen], "training part")
            is_constant = bool((_distances(others, scores[:1], self.scorer) > 1).mean() <= _FEW)
        return HeldOutScores(fold.test, scores, is_constant, fold.name)

    def _scores(self, estimator: Any, fold: Fold, rows: HostArray, part: str) -> HostArray:
        X, _ = safe_split(estimator, self.X, self.y, rows, fold.train)  # of a precomputed kernel, columns of the training rows
        return self.scorer(estimator, X, f" of the {part} of {fold.name}")


def gives_one_score(scores: HostArray, scorer: Scorer) -> bool:
    """Whether no score differs from that of another sample by more than rounding; one sample does not tell."""
    return len(scores) > 1 and bool((_distances(scores, scores[:1], scorer) <= 1).all())


def _distances(scores: HostArray, one: HostArray, scorer: Scorer) -> HostArray:
    """How far the scores of each sample are from ``one``, relative to what rounding explains."""
    precise, centre = (values if values.dtype.kind == "f" else values.astype(float) for values in (scores, one))
    if scorer.input == "probabilities":  # of which small ones may differ by little and by orders of magnitude
        precise, centre = (np.log(np.maximum(values, smallest_normal(values))) for values in (precise, centre))
    # A sum that cancels, as that of a balanced linear model, has the rounding of its terms: take these for 1 at least.
    rounding = _ROUNDINGS * np.finfo(precise.dtype).eps * max(1.0, float(np.abs(precise).max()))
    return np.abs(precise - centre).reshape(len(precise), -1).max(axis=1) / rounding


def score_method(estimator: Any, response_method: Any) -> str:
    """The name of the method that gives scores; refuses an estimator that has none."""
    if isinstance(estimator, type):
        raise InputError("estimator", "be a classifier", got="a class", remedy=f"Pass `{estimator.__name__}()`.")
    tried = _PREFERRED if one_of("response_method", response_method, ResponseMethod) == "auto" else (response_method,)
    method = next((name for name in tried if hasattr(estimator, name)), None)
    if method is None:
        raise InputError(
            "estimator",
            f"be a classifier with `{'` or `'.join(tried)}`",
            got=f"{_name(estimator)}, which has {'neither' if len(tried) > 1 else 'none'}",
            remedy="Pass a classifier that gives scores or probabilities.",
        )
    return method


def known_classes(estimator: Any) -> HostArray:
    """The classes of a fitted classifier."""
    classes = getattr(estimator, "classes_", None)
    if classes is None or isinstance(classes, list):
        raise InputError(
            "estimator",
            "be a classifier that has `classes_` after `fit`",
            got=_name(estimator),
            remedy="Pass a classifier of one target.",
        )
    return on_host(classes) if is_array(classes) else np.asarray(classes)


def _refuse_not_finite(estimator: Any, method: str, scores: HostArray, place: str) -> None:
    if scores.dtype.kind not in "biuf":
        raise InputError("estimator", "give numbers", got=f"an array of type {scores.dtype} from {_name(estimator)}.{method}")
    bad = np.isnan(scores) | (scores == np.inf)
    if scores.ndim == 1:
        bad |= scores == -np.inf
    if bad.any():
        where = np.argwhere(bad)[0]
        raise InputError(
            "estimator",
            "give finite scores",
            got=f"{scores[tuple(where)]} from {_name(estimator)}.{method} for sample {where[0]}{place}",
            remedy="Check its training: features may need scaling, or a parameter may be too large.",
        )


def _is_one_vs_one(estimator: Any) -> bool:
    """Whether decision values are for pairs of classes: as set in the part that gives them, if that can be seen."""
    if isinstance(estimator, FrozenEstimator):
        return _is_one_vs_one(estimator.estimator)
    if isinstance(estimator, Pipeline):
        return _is_one_vs_one(estimator.steps[-1][1])
    if hasattr(estimator, "best_estimator_"):  # of a search
        return _is_one_vs_one(estimator.best_estimator_)
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return any(name.endswith("decision_function_shape") and value == "ovo" for name, value in params.items())


def _name(estimator: Any) -> str:
    return type(estimator).__name__
