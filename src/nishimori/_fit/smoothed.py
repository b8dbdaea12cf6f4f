"""The temperature of smoothed labels, which exists even if the labels determine none: all right, separable, or very few.

Expectation consistency then matches mean confidence to (right + ½)/(n + 1): half a right and half a wrong answer are added.
Temperature scaling has the least cross-entropy against J. Platt's targets, here for any number K of classes: a sample whose
class has N samples is of that class with probability (N + 1)/(N + K) and of each other class with 1/(N + K). Both add a
constant to the gap of the observable, at every β alike, so that the gap still grows with β. Its zero is found inside a
bracket by SciPy's `brentq`: that takes more passes than the usual search, and never fails.

Where the answers are not above chance even so, T is so large that all unmasked classes of a row are equally probable.
"""

from dataclasses import dataclass, field
from functools import partial
from math import exp, log

import numpy as np

from nishimori._fit.match import FitInfo
from nishimori._fit.search import masked_labels_error
from nishimori._rows.batch import Batch
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, Sum, combined_by
from nishimori._sums.census import Census, Count, warn_if_few, warn_of_zeros
from nishimori._sums.class_claims import sum_by_class
from nishimori._sums.moments import Measure
from nishimori._sums.observables import Confidence, Energy, TopN
from nishimori._sums.passes import Mean, together
from nishimori._support.arrays import on_device_of
from nishimori._support.warnings import notice
from nishimori.errors import InputWarning, NoTemperatureError

# The uniform distribution is that of T = this times the largest difference of logits: no probability is then off by more than a
# relative millionth, and the predicted class is still the largest, also in float32.
_UNIFORM = 1e6

# Differences of logits beyond these count as these, so that no power of T leaves the range of float64.
_LEAST, _LARGEST = 1e-100, 1e100

# In log β: how far the bracket grows at once, how far it may, and how narrow it is at the end.
_STRIDE, _FARTHEST, _NARROW = 4.0, 340.0, 1e-10


@dataclass(frozen=True)
class Smoothed:
    """The temperature of smoothed labels, how it was found, and whether it stands for the uniform distribution.

    ``target`` is the accuracy of the smoothed labels, to which mean confidence is matched; None for temperature scaling.
    """

    temperature: float
    fit_info: FitInfo
    census: Census
    is_uniform: bool
    target: float | None

    def warn(self) -> None:
        """Warn that all classes are equally probable, or that the temperature is uncertain."""
        if self.is_uniform:
            notice(
                "The scores say nothing about the classes, because the answers are not better than chance even with smoothed "
                "labels, or all logits of each row are equal: all classes get the same probability.",
                InputWarning,
            )
        else:
            warn_if_few(self.census)
            if self.target is None:
                warn_of_zeros(self.census.n_at_zeros, self.census.n_rows, "the temperature of temperature scaling", fits=True)


@question("has no rows whose labels could be smoothed")
def match_smoothed(data: Rows, observable: Confidence | TopN | Energy, *, label_name: str = "labels") -> Smoothed:
    """The temperature at which an observable has the same mean under the model as under smoothed labels.

    A weight of w stands for w samples if weights are counts; else rows stand for (Σw)²/Σw² samples, as for `Platt`.

    Raises
    ------
    NoTemperatureError
        If equal largest logits keep mean confidence below its target at every T.
    """
    right = Confidence() if isinstance(observable, Energy) else observable
    census, classes, widest = data.gather(together(Count(right), sum_by_class, _widest)).items
    n_passes, target = 1, None
    if not isinstance(observable, Energy):
        number = float(classes.weights.sum()) / classes.one_sample(counts=data.counts)
        target = (number * census.accuracy + 0.5) / (number + 1)
        shift = census.accuracy - target
    elif census.n_at_masks:
        raise masked_labels_error(census, label_name)
    else:
        numbers = classes.numbers(counts=data.counts)
        n_passes, shift = 2, data.gather(partial(smooth_energy, tuple(numbers.tolist()))).value
    search = _GapSearch(data, observable, shift)
    hottest = -log(_UNIFORM * (min(max(widest.difference, _LEAST), _LARGEST) if widest.difference else 1.0))
    x = search.zero(hottest)
    if x is None and target is not None and widest.difference > 0:
        raise NoTemperatureError(
            f"No temperature fits: several classes have the largest logit of a row, so that mean confidence stays below "
            f"{target:.4g} at every T.",
            "Use temperature scaling.",
            end="cold",
        )
    is_uniform = x is None or x == hottest
    x = hottest if x is None else x
    residual = search.gap(x)
    fit_info = FitInfo.from_census(census, residual=residual, n_passes=n_passes + search.n_passes)
    return Smoothed(exp(-x), fit_info, census, is_uniform, target)


@dataclass(frozen=True)
class _Widest(Sum):
    """The largest difference between two unmasked logits of a row."""

    difference: float = field(metadata=combined_by(max))


def _widest(batch: Batch) -> _Widest:
    return _Widest(-float(batch.xp.min(batch.drops)))


def smooth_energy(numbers: tuple[float, ...], batch: Batch) -> Mean:
    """The pass that gives how far smoothing moves the mean logit of the labels, downwards; ``numbers`` are N for each class.

    A sample with K unmasked classes, whose own class has N samples and the logit z, loses Σ(z − z_j)/(N + K) over all classes.
    """
    xp, drops = batch.xp, batch.drops
    live = xp.ones_like(drops) if batch.live is None else xp.astype(batch.live, drops.dtype)
    n_live = live @ batch.ones
    n_samples = on_device_of(np.array(numbers), drops)[batch.labels]
    moved = (n_live * batch.label_drops - drops @ batch.ones) / (n_samples + n_live)
    return Mean(batch.total(moved), batch.weight)


class _GapSearch:
    """The search for the zero of an increasing gap, in log β."""

    def __init__(self, data: Rows, observable: Confidence | TopN | Energy, shift: float) -> None:
        self._data = data
        self._observable = observable
        self._shift = shift
        self.n_passes = 0

    def gap(self, x: float) -> float:
        """How far the model's mean lies above that of the smoothed labels."""
        self.n_passes += 1
        gap = self._data.gather(Measure(((self._observable, (exp(x),)),))).items[0].gap
        return float(gap.item()) + self._shift

    def zero(self, low: float) -> float | None:
        """The zero of the gap; ``low`` if the gap is already positive there, None if it is positive nowhere."""
        from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

        if self.gap(low) >= 0:
            return low
        high = low + _STRIDE
        while self.gap(high) < 0:
            low, high = high, high + _STRIDE
            if high > _FARTHEST:
                return None
        return brentq(self.gap, low, high, xtol=_NARROW)
