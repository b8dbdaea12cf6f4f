"""Areas under risk-coverage curves: the error of the most confident answers, if only a share of all is answered.

At coverage c the answers are the most confident ones; E(c) is the share of all samples that they get wrong. The risk is E(c)/c,
and the generalised risk E(c) itself. Of answers of equal confidence a random part is answered, so E is linear there, and the
order of tied rows does not matter.
"""

import numpy as np

from nishimori._evaluation.metrics.metric import Metric
from nishimori._support.arrays import HostArray


def _levels(confidence: HostArray, correct: HostArray, weights: HostArray) -> tuple[HostArray, HostArray]:
    """The shares of all samples, and of wrong answers, at each level of confidence, the highest first."""
    falling, place = np.unique(-confidence, return_inverse=True)
    shares = weights / weights.sum()
    return np.bincount(place, shares, len(falling)), np.bincount(place, shares * ~correct.astype(bool), len(falling))


class AreaUnderRiskCoverage(Metric):
    """Area under the curve of risk against coverage: the error of the most confident answers, averaged over all coverages.

    It is low if the model is right, and if its errors have the lowest confidence.

    Notes
    -----
    Geifman and El-Yaniv (2017), as an integral over coverage. The first answers weigh most: that at rank k of n has the weight
    Σ 1/(jn) over j from k to n. 17 bytes per row are kept; the standard error is the jackknife's.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.aurc([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]], [0, 1, 1]), 4)
    0.063
    """

    name = "aurc"
    title = "AURC"
    bounds = (0.0, 1.0)
    needs = "top"

    def of_outcomes(self, confidence: HostArray, correct: HostArray, weights: HostArray) -> float:
        """The integral of E(c)/c."""
        share, wrong = _levels(confidence, correct, weights)
        after = np.cumsum(share)
        before, errors = after - share, np.cumsum(wrong) - wrong
        # E(c) = errors + wrong·(c − before)/share on each level.
        start = np.where(before > 1e-15, before, after)
        return float(np.sum((errors - wrong * before / share) * np.log(after / start) + wrong))


class AreaUnderGeneralisedRisk(Metric):
    """Area under the curve of the generalised risk: the share of all samples answered wrongly, averaged over coverages.

    It is AURC without its weight on the first answers. With accuracy a and the area A under the ROC curve of right against
    wrong answers it is (1 − A)·a·(1 − a) + (1 − a)²/2.

    Notes
    -----
    Traub et al. (2024), arXiv:2407.01032. 17 bytes per row are kept; the standard error is the jackknife's.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.augrc([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]], [0, 1, 1]), 4)
    0.0556
    """

    name = "augrc"
    title = "AUGRC"
    bounds = (0.0, 0.5)
    needs = "top"

    def of_outcomes(self, confidence: HostArray, correct: HostArray, weights: HostArray) -> float:
        """The integral of E(c)."""
        share, wrong = _levels(confidence, correct, weights)
        return float(share @ (np.cumsum(wrong) - wrong / 2))
