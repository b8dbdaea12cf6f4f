"""Several fitted classifiers as one, and for which classifiers that is the default."""

from collections.abc import Sequence
from typing import Any

from sklearn.pipeline import Pipeline

# Classes that all classifiers of a package for gradient boosting derive from, by the package.
_BOOSTING = {
    "sklearn": {"BaseGradientBoosting", "BaseHistGradientBoosting"},
    "lightgbm": {"LGBMModel"},
    "xgboost": {"XGBModel"},
    "catboost": {"CatBoost"},
}


class MeanOfClassifiers:
    """Several fitted classifiers whose scores are averaged: decision values or probabilities, whichever is calibrated.

    Attributes
    ----------
    estimators_ : list of classifier
        One per fold.
    n_features_in_, feature_names_in_
        As these have them.
    """

    def __init__(self, estimators: Sequence[Any]) -> None:
        self.estimators_ = list(estimators)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimators[0], name):
                setattr(self, name, getattr(estimators[0], name))


def gains_by_averaging(estimator: Any) -> bool:
    """Whether this is gradient boosting, perhaps in a pipeline or a search: the mean of the folds' classifiers is better there.

    Of seven kinds of classifiers it was the only one with a lower log-loss by more than two standard errors on both halves of
    88 pairs of data and classifier, see bench/results/pooled.md.
    """
    if isinstance(estimator, Pipeline):
        return gains_by_averaging(estimator.steps[-1][1])
    if hasattr(estimator, "cv") and hasattr(estimator, "estimator"):  # a search
        return gains_by_averaging(estimator.estimator)
    return any(base.__name__ in _BOOSTING.get(base.__module__.partition(".")[0], ()) for base in type(estimator).__mro__)
