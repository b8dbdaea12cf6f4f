"""The search for the temperature at which the model's mean of an observable equals the labels', or why there is none.

Expectation consistency and temperature scaling are one search with two observables. The search starts at the answer of a
small random sample of the rows. Whether it can succeed is known from its first reading: the gap grows with β, so there is a
root exactly if it is negative at β = 0 and positive at β = ∞. An observable that is not known to be monotone is also measured
on a grid of β, and refused if its mean falls somewhere.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf
from typing import Any

import numpy as np

from nishimori._census import Census, Count, warn_if_few, warn_of_zeros
from nishimori._moments import Measure, Moments, log_scale
from nishimori._observables import Confidence, Energy, Observable, TopN
from nishimori._passes import together
from nishimori._roots import Point, Root, drive, increasing_root
from nishimori._sources import Source
from nishimori.errors import InputError, NishimoriError, NotConvergedError, NoTemperatureError

# A sixteenth of the rows costs less than one full pass to solve and lands within a few standard errors of the answer,
# from where three passes reach ten digits. Fewer than 16 sampled rows are too few to start from.
_SAMPLE_SHARE = 16
_SAMPLE_LEAST = 16

# The sample is a copy, so it is kept small however large the data are: 32 MiB of float64.
_SAMPLE_ELEMENTS = 2**22

# Where the mean of an observable that may not be monotone is looked at: three decades of T to either side of the start.
_GRID = np.geomspace(1e-3, 1e3, 25)

# Rounding may make a slope slightly negative, but not by this part of the largest one.
_FALLS = 1e-9

# Smaller differences of logits than exp(-this) = 1e-100 need a β whose square is beyond float64.
_FARTHEST = 230.0

# The relative precision that is promised of a temperature.
_PROMISED = 1e-8


@dataclass(frozen=True)
class Receipt:
    """How a temperature was found.

    Attributes
    ----------
    residual : float
        What is left of the gap at the temperature returned: mean confidence minus accuracy for expectation consistency, mean
        expected logit minus mean logit of the true class for temperature scaling.
    n_passes : int
        How often all logits were read.
    n_samples : int
        How many samples had a positive weight.
    accuracy : float
        The weighted share of samples that count as right.
    n_zeros : int
        How many probabilities were exactly zero and were raised to the smallest normal number of their dtype.
    n_masked : int
        How many logits were -inf and so masked their class.
    """

    residual: float
    n_passes: int
    n_samples: int
    accuracy: float
    n_zeros: int
    n_masked: int

    @property
    def converged(self) -> bool:
        """True: a search that does not converge raises an error. Deprecated."""
        warnings.warn(
            "`converged` is deprecated and will be removed in 0.3: it is always True, because a search that does not converge "
            "raises NotConvergedError.",
            FutureWarning,
            stacklevel=2,
        )
        return True


@dataclass(frozen=True)
class Match:
    """Where each observable is matched, or why not, and what the data looked like on the way."""

    observables: tuple[Observable, ...]
    roots: tuple[Root | NishimoriError, ...]
    census: Census
    n_passes: int

    def chosen(self, position: int) -> tuple[float, Receipt]:
        """The temperature of one observable and how it was found; raises if there is none, and warns if it is uncertain."""
        root = self.roots[position]
        if isinstance(root, NishimoriError):
            raise root
        self.warn()
        return exp(-root.x), Receipt(
            residual=root.residual,
            n_passes=self.n_passes,
            n_samples=self.census.n_rows,
            accuracy=self.census.accuracy,
            n_zeros=self.census.n_zeros,
            n_masked=self.census.n_masked,
        )

    def warn(self) -> None:
        """Say what makes the temperatures that were found uncertain."""
        found = [each for each, root in zip(self.observables, self.roots, strict=True) if isinstance(root, Root)]
        if found:
            warn_if_few(self.census)
        if any(isinstance(each, Energy) for each in found):
            warn_of_zeros(self.census.n_at_zeros, self.census.n_rows, "the temperature of temperature scaling")


def match(
    data: Source,
    *observables: Observable,
    right: TopN | None = None,
    starts: Sequence[float] | None = None,
    label_name: str = "labels",
) -> Match:
    """Search for the temperatures of several observables at once.

    ``right`` says which answers count as right: by default those whose top class is true. ``starts`` are the values of log β
    to start from; by default the answers of a sample. ``label_name`` is what the caller's signature calls the labels.
    """
    readings = _Readings(data, observables, right or Confidence(), label_name)
    begin = _starts_from_sample(data, observables) if starts is None else dict(enumerate(starts))
    if len(begin) < len(observables):
        begin = dict.fromkeys(range(len(observables)), readings.rough_start()) | begin
    roots = drive({i: increasing_root(start) for i, start in begin.items()}, readings)
    assert readings.census is not None, "the first answer to a search counts the rows"
    found = tuple(_determined(observable, roots[i]) for i, observable in enumerate(observables))
    return Match(observables, found, readings.census, readings.n_passes)


def _determined(observable: Observable, root: Root | NishimoriError) -> Root | NishimoriError:
    """A root that rounding does not move by more than is promised, else the reason why it is no answer."""
    if isinstance(root, NishimoriError):
        return root
    # The search ends where the gap is of the size of its rounding, so both can be off by that much.
    uncertainty = 2 * root.point.noise / root.point.slope if root.point.slope > 0 else inf
    if uncertainty <= _PROMISED:
        return root
    return NotConvergedError(
        f"No temperature can be determined: around T = {exp(-root.x):.4g} the mean of {type(observable).__name__} depends so "
        f"little on T that rounding errors change T by a relative {uncertainty:.2g}. Check whether the logits or weights of "
        "some samples are many orders of magnitude larger than those of others."
    )


def _starts_from_sample(data: Source, observables: Sequence[Observable]) -> dict[int, float]:
    """The answers of a sample, by the position of their observable, as far as there are any."""
    if data.n_rows is None:
        return {}
    size = min(data.n_rows // _SAMPLE_SHARE, max(_SAMPLE_LEAST, _SAMPLE_ELEMENTS // data.n_classes))
    sample = data.sample(size) if size >= _SAMPLE_LEAST else None
    if sample is None:
        return {}
    try:
        roots = match(sample, *observables).roots
    except InputError:
        return {}  # a reading of all rows will say which one is wrong
    return {i: root.x for i, root in enumerate(roots) if isinstance(root, Root)}


class _Readings:
    """Readings of one data set for several searches; the first answer to a search also says whether it can succeed."""

    def __init__(self, data: Source, observables: Sequence[Observable], right: Confidence | TopN, label_name: str) -> None:
        self.data = data
        self.observables = observables
        self.count = Count(right)
        self.label_name = label_name
        self.n_passes = 0
        self.census: Census | None = None

    def rough_start(self) -> float:
        """A log β of the right order of magnitude."""
        (scale,) = self._read(log_scale)
        if scale.value < -_FARTHEST:
            raise InputError(
                f"`logits` of the same row must differ by more than 1e-100, got differences around {exp(scale.value):.2g}. "
                "Multiply all logits by a constant."
            )
        return -float(scale.value)

    def __call__(self, wanted: Mapping[int, float]) -> dict[int, Point | NishimoriError]:
        """What the searches want to know, from one reading."""
        observables = {i: self.observables[i] for i in wanted}
        if self.census is not None:
            (sums,) = self._read(Measure(tuple((each, (exp(wanted[i]),)) for i, each in observables.items())))
            return {i: _in_log_beta(each) for i, each in zip(wanted, sums.items, strict=True)}
        betas = {i: (exp(wanted[i]), *_betas_to_judge(each, wanted[i])) for i, each in observables.items()}
        sums, self.census = self._read(Measure(tuple((observables[i], betas[i]) for i in wanted)), self.count)
        return {i: self._judged(each) for i, each in zip(wanted, sums.items, strict=True)}

    def _judged(self, moments: Moments) -> Point | NishimoriError:
        """The first answer, or why there will be no temperature."""
        assert self.census is not None, "counted in the same reading"
        refusal = _refusal(moments.at(slice(1, None)), self.census, self.label_name)
        return refusal or _in_log_beta(moments.at(slice(1)))

    def _read(self, *passes: Any) -> tuple[Any, ...]:
        self.n_passes += 1
        return self.data.gather(together(*passes)).items


def _in_log_beta(moments: Moments) -> Point:
    """The gap and its derivatives in log β."""
    (beta,) = moments.betas
    slope, curvature = (float(sums[0]) / moments.weight for sums in (moments.slope, moments.curvature))
    return Point(
        value=float(moments.gap[0]),
        slope=beta * slope,
        curvature=beta * slope + beta**2 * curvature,
        noise=float(moments.noise[0]),
    )


def _betas_to_judge(observable: Observable, start: float) -> tuple[float, ...]:
    """Both ends and, where the mean is not known to grow with β, a grid around the start of the search."""
    grid = () if observable._is_monotone else tuple((exp(start) * _GRID).tolist())
    return (0.0, *grid, inf)


def _refusal(moments: Moments, census: Census, label_name: str) -> NishimoriError | None:
    """Why no temperature can be found, or None if one can."""
    observable = moments.observable
    if moments.observed == -inf:
        return InputError(
            f"`{label_name}` must not name a masked class for temperature scaling, got {census.n_at_masks} samples whose true "
            "class has logit -inf: their loss is infinite at every T. Unmask the class, drop those samples, or use "
            "ExpectationConsistency, which counts them as misses."
        )
    if not observable._is_monotone and (falling := _falling(moments)):
        return falling
    (hot, *_, cold), (at_hot, *_, at_cold) = moments.gap, moments.expected / moments.weight
    hot_noise, cold_noise = moments.noise[0], moments.noise[-1]
    if hot < -hot_noise and cold > cold_noise:
        return None
    if 0 < abs(hot) <= hot_noise or 0 < abs(cold) <= cold_noise:
        return NotConvergedError(
            f"Whether a temperature fits cannot be decided: the mean of {type(observable).__name__} under the model differs "
            "from its mean under the labels by less than rounding errors. Subtract a constant from the observable."
        )
    observed = moments.observed / moments.weight
    if at_cold - at_hot <= hot_noise + cold_noise:
        end, why = "flat", "every row's unmasked logits are equal, so T has no effect. Check the model's output."
        if not observable._is_monotone:
            why = f"T does not change the mean of {type(observable).__name__}. Check the observable and the model's output."
    elif cold <= cold_noise:
        end, why = "cold", observable._cold(census.n_rows, observed, at_cold)
    else:
        end, why = "hot", observable._hot(census.n_rows, observed, at_hot)
    return NoTemperatureError(f"No temperature fits: {why}", end=end)


def _falling(moments: Moments) -> InputError | None:
    """The refusal of an observable whose mean falls while T falls, because several temperatures, or none, may then fit."""
    slopes = moments.slope[1:-1] * moments.betas[1:-1]  # in log β
    largest = float(np.abs(slopes).max())
    if not (slopes < -_FALLS * largest).any():
        return None
    T = 1 / moments.betas[1 + int(np.argmin(slopes))]
    everywhere = not (slopes > _FALLS * largest).any()
    remedy = "Return the negative of its values." if everywhere else "Choose one whose mean grows as T falls."
    return InputError(
        f"`{type(moments.observable).__name__}` must have a mean under the model that grows as T falls, got one that falls "
        f"around T = {T:.4g}, so several temperatures, or none, may match the labels. {remedy}"
    )


def fit_one(
    data: Source, observable: Observable, right: TopN | None = None, *, label_name: str = "labels"
) -> tuple[float, Receipt]:
    """The temperature of one observable and its receipt; raises if there is none."""
    return match(data, observable, right=right, label_name=label_name).chosen(0)
