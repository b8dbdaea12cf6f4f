"""Scores of two classes, and the calibrators of such scores with the features of a logistic regression that they are."""

import numpy as np
import pytest
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression

from nishimori import Beta, Platt
from nishimori.calibrators import Quadratic

N = 600


def drawn(n=N, seed=0):
    """Scores, and labels whose log-odds are a function of them that none of the calibrators has."""
    rng = np.random.default_rng(seed)
    s = 2 * rng.normal(size=n) + 0.3
    return s, (0.03 * s**2 + 0.7 * s - 0.8 + rng.logistic(size=n) > 0).astype(int)


SCORES, LABELS = drawn()
FEATURES = {
    "platt": (Platt(smooth_labels=False), lambda s: np.column_stack([s])),
    "quadratic": (Quadratic(smooth_labels=False), lambda s: np.column_stack([s**2, s])),
    "beta": (Beta(smooth_labels=False), lambda s: np.column_stack([log_expit(s), -log_expit(-s)])),
    "beta am": (Beta(variant="am", smooth_labels=False), lambda s: np.column_stack([s])),
    "beta ab": (
        Beta(variant="ab", smooth_labels=False),
        lambda s: np.column_stack([log_expit(s) + np.log(2), -log_expit(-s) - np.log(2)]),
    ),
}
EACH = pytest.mark.parametrize(("calibrator", "features"), FEATURES.values(), ids=FEATURES)
THREE = pytest.mark.parametrize("kind", [Platt, Beta, Quadratic])


def has_constant(calibrator):
    return getattr(calibrator, "variant", "") != "ab"


def table(calibrator, features, s):
    """The features of each row, and a constant if there is one."""
    return np.column_stack([features(s), np.ones(len(s))]) if has_constant(calibrator) else features(s)


def found_by(fitted):
    return np.array(list(fitted.parameters_.values()))


def by_scikit_learn(calibrator, x, y, weights=None):
    """The coefficients of a logistic regression without a penalty, the constant last."""
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, fit_intercept=has_constant(calibrator))
    model.fit(x, y, weights)
    return np.append(model.coef_[0], model.intercept_) if has_constant(calibrator) else model.coef_[0]
