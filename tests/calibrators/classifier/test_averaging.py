"""For which classifiers those of the folds are averaged by default."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_problems import three_classes

from nishimori import CalibratedClassifier
from nishimori._calibrators.classifier.averaging import gains_by_averaging

X, Y = three_classes()
BOOSTING = GradientBoostingClassifier(n_estimators=3, random_state=0)


def other_package(package, base):
    """A classifier of a package that need not be installed, as far as it can be told by its class."""
    kind = type(base, (), {"__module__": f"{package}.sklearn"})
    return type("Classifier", (kind,), {"__module__": f"{package}.sklearn"})()


@pytest.mark.parametrize(
    ("estimator", "is_averaged"),
    [
        (BOOSTING, True),
        (HistGradientBoostingClassifier(), True),
        (make_pipeline(StandardScaler(), BOOSTING), True),
        (GridSearchCV(BOOSTING, {"max_depth": [1]}), True),
        (make_pipeline(StandardScaler(), GridSearchCV(BOOSTING, {"max_depth": [1]})), True),
        (other_package("lightgbm", "LGBMModel"), True),
        (other_package("xgboost", "XGBModel"), True),
        (other_package("catboost", "CatBoost"), True),
        (other_package("mine", "XGBModel"), False),
        (RandomForestClassifier(), False),
        (LogisticRegression(), False),
        (GridSearchCV(LogisticRegression(), {"C": [1]}), False),
    ],
)
def test_it_is_gradient_boosting(estimator, is_averaged):
    assert gains_by_averaging(estimator) is is_averaged


def test_by_default_boosting_is_pooled_and_others_are_one_classifier():
    default, pooled = (CalibratedClassifier(BOOSTING, "ts", **kind).fit(X, Y) for kind in ({}, {"ensemble": "pooled"}))
    assert len(default.estimator_.estimators_) == 5
    np.testing.assert_array_equal(default.predict_proba(X), pooled.predict_proba(X))
    assert type(CalibratedClassifier(LogisticRegression(max_iter=500), "ts").fit(X, Y).estimator_) is LogisticRegression
    frozen = CalibratedClassifier(FrozenEstimator(BOOSTING.fit(X[:200], Y[:200])), "ts").fit(X[200:], Y[200:])
    assert type(frozen.estimator_) is FrozenEstimator
