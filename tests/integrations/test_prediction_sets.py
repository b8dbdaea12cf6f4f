"""Packages for prediction sets take a `CalibratedClassifier` as it is; that MAPIE does, a page of the documentation shows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from nishimori import CalibratedClassifier


def test_crepes_makes_sets_from_calibrated_probabilities_that_hold_the_true_class():
    crepes = pytest.importorskip("crepes")
    X, rest_X, y, rest_y = train_test_split(*load_digits(return_X_y=True), train_size=0.5, random_state=0)
    own_X, test_X, own_y, test_y = train_test_split(rest_X, rest_y, train_size=0.5, random_state=0)
    calibrated = CalibratedClassifier(RandomForestClassifier(20, random_state=0), "ts")
    model = crepes.WrapClassifier(calibrated)
    model.fit(X, y)
    model.calibrate(own_X, own_y)
    sets = model.predict_set(test_X, confidence=0.95)
    held = np.mean([label in chosen for label, chosen in zip(test_y, sets, strict=True)])
    # With 450 samples to choose the sets and 450 to test them, a standard deviation is 1.5 %.
    assert held == pytest.approx(0.95, abs=0.05)
    # A set has the classes whose calibrated probability is high enough: those of split conformal prediction, by hand.
    scores = 1 - calibrated.predict_proba(own_X)[np.arange(len(own_y)), own_y]
    limit = np.sort(scores)[int(np.ceil(0.95 * (len(scores) + 1))) - 1]
    expected = 1 - calibrated.predict_proba(test_X) <= limit
    sizes = np.array([len(chosen) for chosen in sets])
    assert abs(sizes.mean() - expected.sum(axis=1).mean()) < 0.05
