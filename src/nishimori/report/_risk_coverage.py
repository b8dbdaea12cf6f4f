"""Risk and coverage: the error of the most confident answers, if only a share of all samples is answered.

The curve is made of sums over bins of log(1 - confidence), of which there are enough that no reader sees them. So rows are not
kept, and rows that come later add. Y. Geifman and R. El-Yaniv, NeurIPS 2017, arXiv:1705.08500, call it selective prediction.
"""

from dataclasses import dataclass

import numpy as np

from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

# Bins of ln(1 - confidence): 400 for each factor of e down to e⁻⁶⁰, so that few samples share one.
_PER_E = 400
_LOWEST = -60.0
_N_BINS = round(-_LOWEST * _PER_E) + 1

# Points of the curve: a picture of 380 pixels shows no more.
_POINTS = 100


@dataclass(frozen=True)
class Risk:
    """Weight of all samples and of wrong ones in bins of confidence, the most confident first; those of further rows add."""

    weight: HostArray
    wrong: HostArray

    def __add__(self, other: "Risk") -> "Risk":
        return Risk(self.weight + other.weight, self.wrong + other.wrong)

    def curve(self) -> list[list[float]]:
        """Pairs of coverage and error, from few samples to all; samples of equal confidence are answered together."""
        full = self.weight > 0
        weight, wrong = np.cumsum(self.weight[full]), np.cumsum(self.wrong[full])
        coverage, error = weight / weight[-1], wrong / weight
        # One point for each hundredth of the samples, at the first bin that reaches it.
        places = np.unique(np.searchsorted(coverage, np.arange(1, _POINTS + 1) / _POINTS - 1e-12).clip(max=len(coverage) - 1))
        return np.round(np.stack([coverage, error], axis=1)[places], 6).tolist()  # type: ignore[no-any-return]


def risk_of(at: Predictions) -> Risk:
    """Right and wrong answers of a batch by their confidence."""
    doubt = arrays.on_host(at.doubt)
    with np.errstate(divide="ignore"):
        places = np.floor((np.log(doubt).clip(_LOWEST, 0) - _LOWEST) * _PER_E).astype(np.int64)
    weights = arrays.on_host(at.batch.weights)
    wrong = ~arrays.on_host(at.right)
    return Risk(*(np.bincount(places, each, _N_BINS) for each in (weights, weights * wrong)))
