"""Claims and outcomes, kept row by row, for results that sums per bin cannot give.

A claim is a probability together with whether it came true, as in `reliability`. The Kolmogorov-Smirnov error and isotonic
regression need the claims in order, so these sums grow with the rows: 17 bytes per row.

Claims that are equal up to rounding count as one, because their order is then an accident of rounding.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from nishimori._rows.rows import Sum, combined_by
from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import HostArray

OneClaim = Literal["top", "positive"]


@dataclass(frozen=True)
class Levels:
    """The distinct claims in increasing order, with the weight of all equal claims and of the ones that came true."""

    claimed: HostArray
    weight: HostArray
    true: HostArray

    def isotonic(self) -> tuple[HostArray, HostArray]:
        """The increasing function of the claim with the lowest Brier score, which also has the lowest NLL.

        It has steps: beside its value at each level is the weight of the step that the level is on.
        """
        from scipy.optimize import isotonic_regression  # noqa: PLC0415 - other metrics do without SciPy

        fitted = isotonic_regression(self.true / self.weight, weights=self.weight)
        # A mean of ones may exceed 1 by rounding.
        return np.clip(fitted.x, 0.0, 1.0), np.repeat(fitted.weights, np.diff(fitted.blocks))


@dataclass(frozen=True)
class Outcomes(Sum):
    """Claim, outcome and weight of each row; ``+`` adds other rows.

    Claims that differ by less than ``rounding``, relative to their size, count as equal.
    """

    claimed: tuple[HostArray, ...]
    true: tuple[HostArray, ...]
    weights: tuple[HostArray, ...]
    rounding: float = field(metadata=combined_by(max))

    @classmethod
    def from_predictions(cls, predictions: Predictions, of: OneClaim) -> "Outcomes":
        """The outcomes of one batch."""
        claimed, true = predictions.claimed(of)[:, 0], predictions.outcomes(of)[:, 0]
        return cls((claimed,), (true,), (predictions.weights,), predictions.batch.rounding)

    def in_order(self) -> tuple[HostArray, HostArray, HostArray]:
        """Claims, outcomes and weights, sorted by claim; among equal claims, failed ones come first."""
        claimed, true, weights = (np.concatenate(parts) for parts in (self.claimed, self.true, self.weights))
        order = np.lexsort((weights, true, claimed))  # the order of the rows must not matter
        return claimed[order], true[order], weights[order]

    def levels(self) -> Levels:
        """Sums over equal claims."""
        return levels_of(*self.in_order(), self.rounding)


def levels_of(claimed: HostArray, true: HostArray, weights: HostArray, rounding: float) -> Levels:
    """Sums over equal claims, which must be in increasing order."""
    starts = _starts(claimed, rounding)
    weight = np.add.reduceat(weights, starts)
    return Levels(np.add.reduceat(weights * claimed, starts) / weight, weight, np.add.reduceat(weights * true, starts))


def _starts(claimed: HostArray, rounding: float) -> HostArray:
    """Where each group of equal claims begins; no claim exceeds the first of its group by more than rounding."""
    digits = np.abs(np.log(np.where(claimed > 0, claimed, 1.0)))  # exp(x) has a relative error of x units in the last place
    limit = claimed * (1 + rounding + np.finfo(float).eps * digits)
    runs = np.flatnonzero(np.concatenate([[True], claimed[1:] > limit[:-1]]))
    last = np.append(runs[1:], len(claimed)) - 1
    is_wide = claimed[last] > limit[runs]
    if not is_wide.any():
        return runs
    # Neighbours that are equal up to rounding can add up to a run that is wider than rounding: cut it from its lower end.
    starts = [runs]
    for first, end in zip(runs[is_wide], last[is_wide] + 1, strict=True):
        while (first := first + int(np.searchsorted(claimed[first:end], limit[first], side="right"))) < end:
            starts.append(np.array([first]))
    return np.sort(np.concatenate(starts))
