"""Calibrators that the paper names but does not use: its top-N remark read literally, and two from its related work.

They are written with the public names of nishimori, and can be passed wherever a calibrator can:
``nishimori.compare(..., methods=["ts", "ec", LeastECE()])``.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

import nishimori
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError, NoTemperatureError
from nishimori.maps import Affine, Temperature

__all__ = ["ClassBasedTemperature", "LeastECE", "LiteralTopN"]

_BINS = 15
# One temperature: all that a network may need, in steps of 1 %. The ECE has many local minima, so that every one is tried.
_TEMPERATURES = np.geomspace(0.4, 8.0, 302)
# One temperature per class: the values that Frenkel and Goldberger try, and how often all classes are visited.
_CLASS_TEMPERATURES = np.arange(1, 101) / 10
_SWEEPS = 5
# A visit of all classes that lowers the ECE by less is the last.
_LEAST_GAIN = 1e-4
# As many right answers have the same accuracy, in whatever order a processor sums the weights.
_ROUNDING = 1e-12


class _FromRows(nishimori.Calibrator):
    """A calibrator that needs all rows in memory."""

    def __init__(self, *, input: Any = "logits", classes: Any = None, floor: Any = None) -> None:
        self.input = input
        self.classes = classes
        self.floor = floor

    def _arrays(self, data: Any) -> tuple[HostArray, HostArray, HostArray]:
        """Logits, labels and weights of all rows."""
        batches = list(data)
        logits, labels, weights = (
            np.concatenate([np.asarray(getattr(batch, name)) for batch in batches]) for name in ("logits", "labels", "weights")
        )
        return logits.astype(np.float64), labels, weights


class LiteralTopN(_FromRows):
    """Divide logits by the temperature at which mean confidence equals the top-N accuracy.

    This is what the paper's remark on the top N says: the confidence is that of the largest class alone, and only the accuracy
    counts the N largest. `nishimori.ExpectationConsistency` with ``top_n`` has the probability of all N on the other side, so
    that a calibrated model stays as it is; here it becomes overconfident for every N above 1.

    There is such a temperature if and only if the top-N accuracy is below 1 and above 1/K, the mean confidence as T → ∞ (ties
    and masked classes aside). For N = K it is 1, and there is none.

    Parameters
    ----------
    top_n : int
        How many of the largest classes count as right. 1 is expectation consistency.
    input, classes, floor
        As for `nishimori.ExpectationConsistency`.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided.
    top_n_accuracy_ : float
        The share of samples whose label is among the N largest classes, which mean confidence is equal to.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori_paper.methods import LiteralTopN
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> fitted = LiteralTopN(2).fit(logits, labels)
    >>> p = fitted.predict_proba(logits)
    >>> f"{fitted.temperature_:.2f} {p.max(axis=1).mean():.3f} {fitted.top_n_accuracy_:.3f}"
    '0.80 0.793 0.793'
    """

    traits: ClassVar[Any] = {"keeps_predictions": True, "streams": False, "from_sketch": False, "error_bars": False}

    def __init__(self, top_n: int = 1, *, input: Any = "logits", classes: Any = None, floor: Any = None) -> None:
        self.top_n = top_n
        super().__init__(input=input, classes=classes, floor=floor)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the temperature from logits ``X`` and labels ``y``."""
        data = self.rows_from(X, y, sample_weight)
        if isinstance(self.top_n, bool) or not isinstance(self.top_n, int | np.integer) or self.top_n < 1:
            raise InputError("top_n", "be a positive integer", got=repr(self.top_n))
        logits, labels, weights = self._arrays(data)
        right = _is_in_top(logits, labels, int(self.top_n))
        accuracy = float(np.average(right, weights=weights))
        if right.all():
            raise NoTemperatureError(
                f"all {len(labels)} labels are among the {self.top_n} largest classes, so mean confidence could reach top-"
                f"{self.top_n} accuracy only at T = 0.",
                "Use a smaller `top_n` or a larger validation set.",
                end="cold",
            )
        # Mean confidence is the same whatever the label; so the accuracy of these labels is the top-N accuracy of the others.
        relabelled = np.where(right, logits.argmax(axis=1), labels)
        fitted = nishimori.ExpectationConsistency().fit(logits, relabelled, sample_weight=weights)
        self.top_n_accuracy_ = accuracy
        return self.learn(X, data, Temperature(fitted.temperature_), len(labels))


def _is_in_top(logits: HostArray, labels: HostArray, n: int) -> HostArray:
    """Whether the label is among the n largest classes; of equal classes the first counts as larger."""
    at_label = np.take_along_axis(logits, labels[:, None], axis=1)
    before = np.arange(logits.shape[1]) < labels[:, None]
    rank = ((logits > at_label) | ((logits == at_label) & before)).sum(axis=1)
    is_right: HostArray = (rank < n) & np.isfinite(at_label[:, 0])
    return is_right


class LeastECE(_FromRows):
    """Divide logits by the temperature with the lowest validation ECE, with 15 bins of equal mass.

    302 temperatures from 0.4 to 8 are tried, because the ECE as a function of T is neither smooth nor convex.

    Parameters
    ----------
    input, classes, floor
        As for `nishimori.ExpectationConsistency`.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided.
    validation_ece_ : float
        The least ECE. It is too low an estimate of the ECE of other samples, because T was chosen for it.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori_paper.methods import LeastECE
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> round(LeastECE().fit(logits, labels).temperature_, 1)
    2.0
    """

    traits: ClassVar[Any] = {"keeps_predictions": True, "streams": False, "from_sketch": False, "error_bars": False}

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the temperature from logits ``X`` and labels ``y``."""
        data = self.rows_from(X, y, sample_weight)
        logits, labels, weights = self._arrays(data)
        curve = nishimori.temperature_curve(
            logits, labels, sample_weight=weights, grid=_TEMPERATURES, n_bins=_BINS, strategy="quantile"
        )
        best = int(curve.ece.argmin())
        self.validation_ece_ = float(curve.ece[best])
        return self.learn(X, data, Temperature(float(_TEMPERATURES[best])), len(labels))


class ClassBasedTemperature(_FromRows):
    """Divide the logit of each class by its own temperature, chosen one after the other for the lowest validation ECE.

    After Frenkel and Goldberger (2021): all classes begin with the temperature of temperature scaling. For one class after the
    other, each of 0.1, 0.2, ..., 10 is tried, and the one with the lowest ECE (15 bins of equal width) is kept if it lowers the
    ECE and the accuracy of the validation data does not fall. This is repeated, at most five times, until the ECE falls by less
    than 0.01 points.
    Unlike there, logits are taken relative to the mean of their row, so that a constant added to a row changes nothing.

    Parameters
    ----------
    input, classes, floor
        As for `nishimori.ExpectationConsistency`.

    Attributes
    ----------
    temperatures_ : array of shape (n_classes,)
        The temperature of each class.
    validation_ece_ : float
        The ECE of the validation data, for which the temperatures were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori_paper.methods import ClassBasedTemperature
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> fitted = ClassBasedTemperature().fit(logits, labels)
    >>> f"{fitted.validation_ece_:.3f}, at first {nishimori.metrics.ece(logits, labels, temperature=1.98):.3f}"
    '0.016, at first 0.022'
    """

    traits: ClassVar[Any] = {"keeps_predictions": False, "streams": False, "from_sketch": False, "error_bars": False}

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the temperatures from logits ``X`` and labels ``y``."""
        data = self.rows_from(X, y, sample_weight)
        logits, labels, weights = self._arrays(data)
        start = nishimori.TemperatureScaling().fit(logits, labels, sample_weight=weights).temperature_
        centred = logits - logits.mean(axis=1, keepdims=True)
        temperatures, ece = _greedy(centred, labels, weights / weights.sum(), float(start))
        self.temperatures_, self.validation_ece_ = temperatures, ece
        return self.learn(X, data, Affine(1 / temperatures, np.zeros(len(temperatures))), len(labels))


def _greedy(x: HostArray, labels: HostArray, weights: HostArray, start: float) -> tuple[HostArray, float]:
    """Temperatures, one per class, and the ECE that they give."""
    temperatures = np.full(x.shape[1], start)
    u = x / temperatures
    best = _score(u.argmax(axis=1), np.exp(u - u.max(axis=1, keepdims=True)).sum(axis=1), labels, weights)
    for _ in range(_SWEEPS):
        before = best
        for c in range(x.shape[1]):
            try_class = _without(u, c, labels, weights)
            for T in _CLASS_TEMPERATURES:
                fitted = try_class(x[:, c] / T)
                if fitted[0] < best[0] and fitted[1] >= best[1] - _ROUNDING:
                    best, temperatures[c] = fitted, T
            u[:, c] = x[:, c] / temperatures[c]
        if before[0] - best[0] < _LEAST_GAIN:
            break
    return temperatures, best[0]


def _without(u: HostArray, c: int, labels: HostArray, weights: HostArray) -> Callable[[HostArray], tuple[float, float]]:
    """The ECE and the accuracy as a function of the logits of class c, given all others: one exponential per row, not K."""
    others = u.copy()
    others[:, c] = -np.inf
    top, largest = others.argmax(axis=1), others.max(axis=1)
    rest = np.exp(others - largest[:, None]).sum(axis=1)

    def score(logit: HostArray) -> tuple[float, float]:
        # Of equal logits the first class is predicted, as everywhere.
        wins = (logit > largest) | ((logit == largest) & (c < top))
        peak = np.where(wins, logit, largest)
        total = rest * np.exp(largest - peak) + np.exp(logit - peak)
        return _score(np.where(wins, c, top), total, labels, weights)

    return score


def _score(top: HostArray, total: HostArray, labels: HostArray, weights: HostArray) -> tuple[float, float]:
    """ECE with bins of equal width, and accuracy; a row's confidence is 1 over the sum of exp(u − largest u)."""
    right = top == labels
    confidence = 1 / total
    bins = np.clip(np.ceil(_BINS * confidence).astype(int) - 1, 0, _BINS - 1)
    gaps = np.bincount(bins, weights * (confidence - right), minlength=_BINS)
    return float(np.abs(gaps).sum()), float(weights @ right)
