"""A fitted classifier and the calibrator behind it."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.classifier.response import Scorer
from nishimori._support.arrays import HostArray


@dataclass(frozen=True)
class CalibratedPair:
    """A fitted classifier and the fitted calibrator of its scores.

    Attributes
    ----------
    estimator : classifier
        Gives the scores.
    calibrator : Calibrator
        Turns them into probabilities.
    scorer
        Which method of the classifier gives the scores, and the order of the classes.
    """

    estimator: Any
    calibrator: Calibrator
    scorer: Scorer

    @property
    def classes_(self) -> HostArray:
        """The label of each column of the probabilities."""
        return self.scorer.classes

    def scores(self, X: Any) -> HostArray:
        """What the calibrator is given for ``X``: (n, K), or flat for one decision value."""
        return self.scorer(self.estimator, X)

    def predict_proba(self, X: Any, **groups: Any) -> HostArray:
        """Calibrated probabilities, (n, K); ``groups`` as for the calibrator."""
        return np.asarray(self.calibrator.predict_proba(self.scores(X), **self._needed(groups)))

    def predict_log_proba(self, X: Any, **groups: Any) -> HostArray:
        """The logarithms of the calibrated probabilities, (n, K); ``groups`` as for the calibrator."""
        return np.asarray(self.calibrator.predict_log_proba(self.scores(X), **self._needed(groups)))

    def _needed(self, groups: dict[str, Any]) -> dict[str, Any]:
        """The groups, unless the calibrator treats all alike, as one of smoothed labels does in place of one per group."""
        return groups if self.calibrator.map_.needs_groups else {}


def mean_probabilities(pairs: list[CalibratedPair], X: Any, **groups: Any) -> HostArray:
    """The mean over classifiers of their calibrated probabilities."""
    total = pairs[0].predict_proba(X, **groups)
    for pair in pairs[1:]:
        total = total + pair.predict_proba(X, **groups)
    return cast("HostArray", total / len(pairs)) if len(pairs) > 1 else total


def mean_log_probabilities(pairs: list[CalibratedPair], X: Any, **groups: Any) -> HostArray:
    """The logarithm of the mean probabilities of all classifiers, exact also where a probability rounds to 0."""
    total = pairs[0].predict_log_proba(X, **groups)
    for pair in pairs[1:]:
        total = np.logaddexp(total, pair.predict_log_proba(X, **groups))
    return cast("HostArray", total - np.log(len(pairs))) if len(pairs) > 1 else total
