"""The answers: the temperature at which the model's mean of an observable equals the labels', or why there is none.

Expectation consistency and temperature scaling are one search with two observables. The search starts at the answer of a
small random sample of the rows. Whether it can succeed is known from its first reading: the gap grows with β, so there is a
root exactly if it is negative at β = 0 and positive at β = ∞. An observable that is not known to be monotone is also measured
on a grid of β, and refused if its mean falls somewhere.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any

import numpy as np

from nishimori._census import Census, Count
from nishimori._moments import Measure, Moments, log_scale
from nishimori._observables import BUILT_IN, Confidence, Observable, TopN
from nishimori._passes import together
from nishimori._roots import Point, Root, drive, increasing_root
from nishimori._scores import Input
from nishimori._sources import Source, source
from nishimori.errors import FewErrorsWarning, InputError, NishimoriError, NoTemperatureError

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

_FEW = 10


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

    roots: tuple[Root | NishimoriError, ...]
    census: Census
    n_passes: int

    def chosen(self, position: int) -> tuple[float, Receipt]:
        """The temperature of one observable and how it was found; raises if there is none, warns if few samples decide."""
        root = self.roots[position]
        if isinstance(root, NishimoriError):
            raise root
        warn_if_few(self.census)
        return exp(-root.x), Receipt(
            residual=root.residual,
            n_passes=self.n_passes,
            n_samples=self.census.n_rows,
            accuracy=self.census.accuracy,
            n_zeros=self.census.n_zeros,
            n_masked=self.census.n_masked,
        )


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
    return Match(tuple(roots[i] for i in range(len(observables))), readings.census, readings.n_passes)


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


def warn_if_few(census: Census) -> None:
    """Warn when very few samples decide the temperature."""
    n_wrong = census.n_rows - census.n_right
    few, what = min((n_wrong, "wrong"), (census.n_right, "right"))
    if few < _FEW:
        warnings.warn(
            f"Only {few} of {census.n_rows} validation samples are answered {what}, so the temperature is uncertain; "
            f"use a validation set with at least {_FEW} wrong and {_FEW} right answers.",
            FewErrorsWarning,
            stacklevel=_levels_to_the_caller(),
        )


def _levels_to_the_caller() -> int:
    """How many calls up the code is that is neither ours nor scikit-learn's, so that a warning names its line."""
    levels, frame = 0, sys._getframe()  # what `warnings` itself uses
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("nishimori", "sklearn"):
        levels, frame = levels + 1, frame.f_back
    return levels


@dataclass(frozen=True)
class Temperatures:
    """Both temperatures of a validation set.

    Attributes
    ----------
    ec : float or None
        The temperature of expectation consistency: mean confidence equals accuracy. None if there is none.
    ts : float or None
        The temperature of temperature scaling: the mean cross-entropy is least. None if there is none.
    accuracy : float
        The weighted share of samples whose largest logit is at the true class.
    n_passes : int
        How often all logits were read, for both together.
    n_samples : int
        How many samples had a positive weight.
    ec_error, ts_error : NishimoriError or None
        The error that fitting that method alone would raise, where the temperature does not exist.
    why_no_ec, why_no_ts : str or None
        Its message.
    end : str or None
        Where `ec` would be, if it does not exist: "cold", "hot" or "flat", as in `NoTemperatureError`.
    """

    ec: float | None
    ts: float | None
    accuracy: float
    n_passes: int
    n_samples: int
    ec_error: NishimoriError | None = None
    ts_error: NishimoriError | None = None

    @property
    def why_no_ec(self) -> str | None:
        return None if self.ec_error is None else str(self.ec_error)

    @property
    def why_no_ts(self) -> str | None:
        return None if self.ts_error is None else str(self.ts_error)

    @property
    def end(self) -> str | None:
        return getattr(self.ec_error, "end", None)

    @classmethod
    def of(cls, matched: Match) -> "Temperatures":
        """From a search whose first observables are those that have a name."""
        found = dict(zip(BUILT_IN, matched.roots, strict=False))
        ec, ts = found["ec"], found["ts"]
        return cls(
            ec=exp(-ec.x) if isinstance(ec, Root) else None,
            ts=exp(-ts.x) if isinstance(ts, Root) else None,
            accuracy=matched.census.accuracy,
            n_passes=matched.n_passes,
            n_samples=matched.census.n_rows,
            ec_error=ec if isinstance(ec, NishimoriError) else None,
            ts_error=ts if isinstance(ts, NishimoriError) else None,
        )


def temperatures(logits: Any, labels: Any = None, *, sample_weight: Any = None, input: Input = "logits") -> Temperatures:
    """Both temperatures of a validation set, expectation consistency and temperature scaling, from shared passes.

    Parameters
    ----------
    logits : array of shape (n_samples, n_classes), or (n_samples,)
        Scores before the softmax, in any array library; a flat array z means the binary logits (0, z).
    labels : integer array of shape (n_samples,)
        The column of each sample's true class.
    sample_weight : array of shape (n_samples,), optional
        A weight of w counts a sample as w copies.
    input : {"logits", "probabilities"}
        What ``logits`` holds. Probabilities are calibrated through their logarithms.

    Returns
    -------
    Temperatures
        With `ec`, `ts`, `accuracy` and `n_passes`. If one of the two does not exist it is None and the result says why.

    Raises
    ------
    NoTemperatureError
        If neither exists.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> found = nishimori.temperatures(logits, labels)
    >>> print(f"{found.ec:.2f} {found.ts:.2f} {found.accuracy:.3f}")
    1.99 1.98 0.570
    """
    found = temperatures_of(source(logits, labels, sample_weight, input=input))
    if found.ec is None and found.ts is None:
        raise NoTemperatureError(
            f"Expectation consistency: {found.why_no_ec} Temperature scaling: {found.why_no_ts}", end=found.end or "flat"
        )
    return found


def temperatures_of(data: Source, *, warn: bool = True, starts: Mapping[str, float] | None = None) -> Temperatures:
    """Both temperatures of a source, or neither; ``warn`` if few samples decide; ``starts`` are guesses by name."""
    begin = None if starts is None else [-log(starts[name]) for name in BUILT_IN]
    matched = match(data, *BUILT_IN.values(), starts=begin)
    found = Temperatures.of(matched)
    if warn and (found.ec is not None or found.ts is not None):
        warn_if_few(matched.census)
    return found
