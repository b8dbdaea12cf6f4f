"""The standard error of an ECE, from the gap of each bin and its error.

The estimand is Σ|δ_b| over bins with fixed edges, where δ_b is the expectation of confidence minus correctness over samples in
bin b, and 0 over others. The measured ECE is Σ|d_b| with d_b normal around δ_b, so each term is a folded normal number, whose
mean exceeds |δ_b|. This bias is largest where δ_b = 0: a calibrated model has a positive ECE. So the distribution of the
measured ECE is computed for gaps δ of a given pattern and size t = Σ|δ_b|, and t is chosen such that what was measured is

- the mean, for gaps in the proportion of the measured ones: the corrected ECE;
- the lower quantile, for gaps in proportion to their standard errors: the upper limit. Of all patterns of one size this one has
  the lowest mean, so other patterns have lower upper limits;
- the upper quantile, for gaps √max(0, d_b² - σ_b²), the measured ones without what their errors explain: the lower limit. It
  is 0 if labels that are redrawn from the probabilities of the model explain the measured ECE.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import erf, inf, nan, pi, sqrt

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, normal_quantile

# The interval from 0 to 1, in which an ECE lies, is cut into this many parts this many times: to 1e-13.
_PARTS, _CUTS = 20, 10

# So few values of the error function are computed one by one, which is faster than to import SciPy: the ECE of up to 25 bins.
_FEW_VALUES = 512


@dataclass(frozen=True)
class BinnedGaps:
    """The gap of each bin, and how the gaps vary together from sample to sample.

    Attributes
    ----------
    gaps : array of shape (bins,)
        Σw(confidence - correct) over the bin, divided by the weight of all rows.
    products : array of shape (bins,) or (bins, bins)
        Sums over independent units of products of their gaps, divided by the squared weight of all rows; flat if no unit has
        rows in two bins.
    crossed : array of shape (bins,)
        The same of gaps with weights.
    squares : float
        The same of weights.
    nulls : array of shape (bins,) or None
        What the flat `products` of independent rows are on average if labels are drawn from the probabilities of the model;
        None if not known. Labels that depend on each other within clusters vary by more, so this is the least there.
    true_share : float
        The weighted share of claims that came true; NaN where that is not asked.
    """

    gaps: HostArray
    products: HostArray
    crossed: HostArray
    squares: float
    nulls: HostArray | None = None
    true_share: float = nan

    @property
    def value(self) -> float:
        """The ECE as measured."""
        return float(np.abs(self.gaps).sum())

    @cached_property
    def covariance(self) -> HostArray:
        """The covariance of the gaps (bins, bins), which allows for the variation of the total weight."""
        full = np.diag(self.products) if self.products.ndim == 1 else self.products
        mixed = np.outer(self.gaps, self.crossed)
        return full - mixed - mixed.T + self.squares * np.outer(self.gaps, self.gaps)

    @cached_property
    def errors(self) -> HostArray:
        """The standard error of each gap."""
        own = self.products if self.products.ndim == 1 else np.diag(self.products)
        variances = own - 2 * self.gaps * self.crossed + self.squares * self.gaps**2
        return np.sqrt(np.maximum(variances, 0))

    @cached_property
    def total_se(self) -> float:
        """The standard error of the signed sum of all gaps; not below the error of a calibrated model."""
        least = 0.0 if self.nulls is None else float(self.nulls.sum())
        return sqrt(max(float(self.covariance.sum()), least))

    @cached_property
    def corrected(self) -> float:
        """The ECE, corrected for the bias from the errors of the gaps; at least 0."""
        return float(self._sizes(np.abs(self.gaps), _lower_quantile, np.zeros(1))[0])

    @cached_property
    def se(self) -> float:
        """The standard error of the measured ECE."""
        return float(self._moments_of_ece(np.array([self.corrected]), np.abs(self.gaps), self.errors)[1][0])

    def interval(self, level: float) -> Interval:
        """The true ECEs that the measured ECE leaves possible."""
        reach = normal_quantile(level)
        if reach == inf:
            return Interval(0.0, 1.0)
        (low,), (high,) = self.limits(np.array([reach]))
        return Interval(0.0 if self.is_explained_by_calibration(reach) else float(low), max(float(high), self.value))

    @property
    def scaled(self) -> HostArray:
        """Gaps proportional to the measured ones, with sizes that sum to the corrected ECE."""
        return self.gaps * (self.corrected / self.value if self.value > 0 else 1.0)

    @property
    def clear(self) -> HostArray:
        """The measured gaps without what their errors explain."""
        return np.sign(self.gaps) * np.sqrt(np.maximum(self.gaps**2 - self.errors**2, 0))

    def limits(self, reach: HostArray) -> tuple[HostArray, HostArray]:
        """Lower and upper limits at some numbers of standard errors, with the corrected ECE between them."""
        clear = np.abs(self.clear)
        low = self._sizes(clear if clear.any() else self.errors, _upper_quantile, reach)
        # An ECE that is much lower than that of a calibrated model is luck, and does not show that the model is perfect.
        (mean,), (error,) = self._moments_of_ece(np.zeros(1), self.errors, self.errors)
        high = self._sizes(self.errors, _lower_quantile, reach, max(self.value, float(mean - error)))
        return np.minimum(low, self.corrected), np.maximum(high, self.corrected)

    def is_explained_by_calibration(self, reach: float) -> bool:
        """Whether the measured ECE is below the upper quantile for a calibrated model with the same confidences."""
        errors = self.errors if self.nulls is None else np.sqrt(self.nulls)
        if self.products.ndim == 2:  # labels of one cluster may vary together
            errors = np.maximum(errors, self.errors)
        calibrated = self._moments_of_ece(np.zeros(1), np.zeros_like(errors), errors)
        return self.value <= float(_upper_quantile(*calibrated, np.array([reach]))[0])

    def _sizes(self, pattern: HostArray, quantile: "Quantile", reach: HostArray, value: float | None = None) -> HostArray:
        """The true ECEs, at least 0, for which a quantile equals the measured ECE, if true gaps have this pattern."""
        value = self.value if value is None else value
        low, width = np.zeros_like(reach), 1.0
        for _ in range(_CUTS):
            width /= _PARTS
            sizes = low + width * np.arange(_PARTS)[:, None]
            mean, error = self._moments_of_ece(sizes.ravel(), pattern, self.errors)
            below = quantile(mean.reshape(sizes.shape), error.reshape(sizes.shape), reach) < value
            low = low + width * np.maximum(below.sum(axis=0) - 1, 0)
        return low

    def _moments_of_ece(self, sizes: HostArray, pattern: HostArray, errors: HostArray) -> tuple[HostArray, HostArray]:
        """Mean and standard deviation of the measured ECE for true gaps with a pattern and these sums of sizes."""
        total = pattern.sum()
        shares = pattern / total if total > 0 else pattern
        folded = Folded.from_normal(np.outer(sizes, shares), errors)
        signed = np.sign(self.gaps) * folded.clarity
        # Gaps in two bins vary together: through the weight of all rows, and through clusters.
        along = signed @ self.gaps
        joint = along * (self.squares * along - 2 * (signed @ self.crossed))
        joint -= signed**2 @ (self.squares * self.gaps**2 - 2 * self.gaps * self.crossed)
        if self.products.ndim == 2:
            joint += self._between_bins(signed, folded.doubt)
        return folded.mean.sum(axis=1), np.sqrt(np.maximum(folded.variance.sum(axis=1) + joint, 0.0))

    def _between_bins(self, signed: HostArray, doubt: HostArray) -> HostArray:
        """The covariance between sizes of gaps that share clusters: the first two terms of its Hermite series."""
        others = self.products - np.diag(np.diag(self.products))
        scale = np.divide(doubt, self.errors, out=np.zeros_like(doubt), where=self.errors > 0)
        return ((signed @ others) * signed + 2 * (scale @ others**2) * scale).sum(axis=1)


@dataclass(frozen=True)
class Folded:
    """The size of normal numbers, |x|: its mean and variance.

    ``clarity`` is how much its mean grows with that of x, from 0 where the sign is open to 1 where it is clear; ``doubt`` is
    the standard normal density at the ratio of mean and error.
    """

    mean: HostArray
    variance: HostArray
    clarity: HostArray
    doubt: HostArray

    @classmethod
    def from_normal(cls, sizes: HostArray, errors: HostArray) -> "Folded":
        """The folded normal numbers with means ``sizes`` (m, bins), none negative, and standard deviations ``errors``."""
        ratio = np.divide(sizes, errors, out=np.full_like(sizes, inf), where=errors > 0)
        clarity = _error_function(ratio / sqrt(2))
        doubt = np.exp(-(ratio**2) / 2) / sqrt(2 * pi)
        mean = 2 * errors * doubt + sizes * clarity
        variance = errors**2 - (mean - sizes) * (mean + sizes)
        return cls(mean, np.maximum(variance, 0), clarity, doubt)


def _error_function(values: HostArray) -> HostArray:
    if values.size <= _FEW_VALUES:
        return np.array([erf(value) for value in values.ravel().tolist()]).reshape(values.shape)
    from scipy.special import erf as erf_of_array  # noqa: PLC0415 - a scorecard without intervals does without SciPy

    return erf_of_array(values)


Quantile = Callable[[HostArray, HostArray, HostArray], HostArray]
"""A quantile of a sum of sizes, from its mean and standard deviation and a number of standard errors."""


def _lower_quantile(mean: HostArray, error: HostArray, reach: HostArray) -> HostArray:
    """The lower quantile of a nearly normal sum of sizes, at the probability of a normal number below ``-reach``."""
    return mean - reach * error


def _upper_quantile(mean: HostArray, error: HostArray, reach: HostArray) -> HostArray:
    """The upper quantile of a sum of sizes, at the probability of a normal number above ``reach``.

    The sum is taken to be gamma distributed, which it is nearly, also where one bin decides. E. B. Wilson and M. M. Hilferty,
    Proc. Natl. Acad. Sci. 17 (1931) 684: the cube root of such a number is nearly normal.
    """
    part = np.divide(error, 3 * mean, out=np.zeros_like(mean), where=mean > 0)
    return mean * (1 - part**2 + reach * part) ** 3
