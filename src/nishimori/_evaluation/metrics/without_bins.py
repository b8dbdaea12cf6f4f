"""Calibration errors without bins: the largest gap below a threshold, and the gap after smoothing.

The Kolmogorov-Smirnov error looks at the claims below each threshold: how far they are, together, from those that came true.

The smooth ECE takes residuals on a fine grid, smoothed by a kernel as wide as the error itself. The residual of a claim is its
probability minus 1 if it came true, minus 0 if not. With r(t) the residuals as point masses on [0, 1], divided by the total
weight, and K_σ the Gaussian of width σ reflected at both ends, the smooth ECE at width σ is ∫ |K_σ r| dt: Błasiok and Nakkiran
(2023). It does not increase with σ, so exactly one σ equals it: that is the smooth ECE.

Reflection at 0 and 1 makes cos(kπt) the eigenfunctions of the kernel, with eigenvalues exp(-(kπσ)²/2), all reflections
included. So one cosine transform of the gridded residuals serves every σ.

Each residual is shared between its two neighbours on the grid in proportion to the distance. With h the spacing, that changes
the error at width σ, and a smooth ECE of σ, by at most h²/(8σ²) times the mean absolute residual: 3e-7 times it at σ = 0.01.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, log2

import numpy as np

from nishimori._evaluation.metrics.metric import Metric
from nishimori._rows.rows import Rows
from nishimori._sums.outcomes import OneClaim, Outcomes
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions
from nishimori._sums.reliability import check_claim
from nishimori._support.arrays import HostArray

# The spacing of the grid is 1.5e-5; widths are rarely below 1e-3. A transform takes about a millisecond.
_CELLS = 2**16

# The integral of the absolute value is not smooth where residuals change sign. With this many points its error is below 1e-7.
_POINTS_PER_WIDTH = 250

# Far below what the grid resolves.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class KolmogorovSmirnov(Metric):
    """Kolmogorov-Smirnov calibration error: the largest gap between the claims below a threshold and their outcomes.

    Parameters
    ----------
    of : {"top", "positive"}
        What is claimed: that the predicted class is right, or that class 1 is true (binary problems only).

    Returns
    -------
    float
        From 0 (calibrated) to 1; never less than the distance between mean confidence and accuracy.

    Notes
    -----
    Estimator: the maximum over thresholds t of abs(Σ w (claim - outcome)) / Σ w, the first sum over the claims up to t;
    K. Gupta et al. (2020). Claims that are equal up to rounding pass a threshold together. 17 bytes per row are kept.

    Bias: a calibrated ResNet-20 measures 3.6 % with 100 samples, 1.2 % with 1,000 and 0.4 % with 10,000 (ECE with 15 uniform
    bins: 7.8, 2.6 and 0.8 %). With a true error of 6.1 % the bias is 0.3, 0.02 and 0.00 points (`bench/accuracy/measures.py`).
    MAPIE and probmetrics have the same statistic.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.ks([[2.0, 0.0], [0.0, 1.0]], [0, 0]), 4)
    0.3655
    """

    name = "ks"
    title = "KS"
    bounds = (0.0, 1.0)
    in_percent = True
    has_se = False

    of: OneClaim = "top"

    def check(self, data: Rows) -> None:
        """Refuse a positive class if there are more than two classes."""
        check_claim(data, self.of, OneClaim)

    def sums(self, predictions: Predictions) -> Outcomes:
        """All claims, and which of them came true."""
        return Outcomes.from_predictions(predictions, self.of)

    def of_sums(self, sums: Outcomes) -> tuple[float, None]:
        """The largest gap; its standard error is not known."""
        levels = sums.levels()
        # Equal claims pass a threshold together, so their order does not matter.
        gaps = np.cumsum(levels.weight * levels.claimed - levels.true)
        return float(np.abs(gaps).max() / levels.weight.sum()), None


@dataclass(frozen=True)
class SmoothEce(Metric):
    """Expected calibration error without bins: the gap between confidence and accuracy after smoothing.

    Parameters
    ----------
    of : {"top", "positive"}
        What is claimed: that the predicted class is right, or that class 1 is true (binary problems only).

    Returns
    -------
    float
        From 0 (calibrated) to 1; never less than the distance between mean confidence and accuracy.

    Notes
    -----
    Estimator: the width σ of a reflected Gaussian kernel that equals the calibration error after smoothing with it; Błasiok and
    Nakkiran (2023), whose package relplot gives the same up to its mesh, 0.4 %, and its search, 1/1024. Residuals are gathered
    on a grid, so memory does not grow with the rows.

    Bias: a calibrated ResNet-20 measures 5.1 % with 100 samples, 2.4 % with 1,000 and 1.1 % with 10,000 (ECE with 15 uniform
    bins: 7.8, 2.6 and 0.8 %). With a true error of 6.1 % the bias is 1.1, 0.11 and 0.01 points (`bench/accuracy/measures.py`).

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.smooth_ece([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    0.3808
    """

    name = "smooth_ece"
    title = "smooth ECE"
    bounds = (0.0, 1.0)
    in_percent = True
    has_se = False

    of: OneClaim = "top"

    def check(self, data: Rows) -> None:
        """Refuse a positive class if there are more than two classes."""
        check_claim(data, self.of, OneClaim)

    def sums(self, predictions: Predictions) -> Sums:
        """Residuals on the grid 0, 1/M, ..., 1, and the weight of the rows."""
        claimed = predictions.claimed(self.of)[:, 0]
        residuals = predictions.weights * (claimed - predictions.outcomes(self.of)[:, 0])
        place = np.clip(claimed, 0.0, 1.0) * _CELLS
        below = np.minimum(place.astype(np.int64), _CELLS - 1)
        above = place - below
        masses = np.bincount(below, residuals * (1 - above), _CELLS + 1)
        masses += np.bincount(below + 1, residuals * above, _CELLS + 1)
        return Sums((masses, predictions.batch.weight))

    def of_sums(self, sums: Sums) -> tuple[float, None]:
        """The width at which the smoothed calibration error equals the width; its standard error is not known."""
        masses, weight = sums.items
        return smooth_error(masses / weight), None


def smooth_error(masses: HostArray) -> float:
    """The width at which the smoothed calibration error equals the width, from residuals divided by their weight."""
    from scipy.optimize import brentq  # noqa: PLC0415 - other metrics do without SciPy

    modes = _cosine_transform(masses)
    # A kernel of width zero leaves every residual. The error does not increase with the width, so what it is at a width that is
    # too large is a width that is too small.
    high = float(np.abs(masses).sum())
    low = _error_at(high, modes) if high > 0 else 0.0
    if high - low <= _TOLERANCE:
        return high

    @cache
    def excess(width: float) -> float:
        return _error_at(width, modes) - width

    if excess(low) <= 0:  # equal up to rounding
        return low
    return float(brentq(excess, low, high, xtol=_TOLERANCE))


def _cosine_transform(masses: HostArray) -> HostArray:
    """Σ_j m_j cos(kπj/M) for k from 0 to M."""
    from scipy.fft import dct  # noqa: PLC0415 - other metrics do without SciPy

    halves = masses / 2
    halves[[0, -1]] *= 2  # the transform counts all but the ends twice
    return dct(halves, type=1)


def _error_at(width: float, modes: HostArray) -> float:
    """∫ |K_σ r| dt for one width σ."""
    from scipy.fft import dct  # noqa: PLC0415 - other metrics do without SciPy

    # The smoothed residual has no detail much finer than the width, so that this many points per width are enough.
    cells = min(len(modes) - 1, 2 ** ceil(log2(_POINTS_PER_WIDTH / width)))
    damping = np.exp(-((np.pi * width * np.arange(cells + 1)) ** 2) / 2)
    smoothed: HostArray = np.abs(dct(modes[: cells + 1] * damping, type=1))
    return float((smoothed.sum() - (smoothed[0] + smoothed[-1]) / 2) / cells)
