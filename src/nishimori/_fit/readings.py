"""Readings of one data set for the searches of several observables, and why there may be nothing to find.

Whether a temperature exists follows from the gaps at β = 0 and β = ∞. They are measured with the first reading, or, if a good
guess makes that superfluous, only when the search takes longer than it should.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from nishimori._rows.source import Source, concluded
from nishimori._sums.census import Census, Count
from nishimori._sums.moments import GapSums, Measure, Moments, log_scale
from nishimori._sums.observables import Confidence, Observable, TopN
from nishimori._sums.passes import together
from nishimori._support.roots import Point, Root
from nishimori.errors import InputError, NishimoriError, NotConvergedError, NoTemperatureError

# Where the mean of an observable that may not be monotone is looked at: three decades of T to either side of the start.
_GRID = np.geomspace(1e-3, 1e3, 25)

# Rounding may make a slope slightly negative, but not by this part of the largest one.
_FALLS = 1e-9

# Smaller differences of logits than exp(-this) = 1e-100 need a β whose square is beyond float64.
_FARTHEST = 230.0

# Squares of gaps that are carried to the root from a short step away are right to about this relative amount, or are measured
# again: standard errors then to half of it.
_CARRIED = 2e-4

# The smallest positive number that has all digits.
_LEAST = float(np.finfo(float).tiny)

# A search in a sample is given up after so many readings.
_READINGS_FOR_A_START = 12

# A search that starts near its root needs two readings, or three. One that needs more may have no root.
_USUAL_READINGS = 3


class _Measured(NamedTuple):
    """The gaps of one reading, and the numbers of the observables that it measured."""

    numbers: tuple[int, ...]
    gaps: GapSums

    def some(self, *numbers: int) -> GapSums:
        """Those of some of the observables."""
        return self.gaps.some([self.numbers.index(i) for i in numbers])


class LastGaps:
    """The gaps of each observable where it was measured last, which is near its root if it has one, carried to the root.

    Searches end after different numbers of readings. How two observables vary together is known from the last reading that
    measured both: their correlation there is taken to be that at the roots.
    """

    def __init__(self) -> None:
        self._readings: list[_Measured] = []

    def add(self, numbers: Iterable[int], gaps: GapSums) -> None:
        """Those of a reading; ``numbers`` say which observables it measured. All are measured by the first one."""
        self._readings.append(_Measured(tuple(numbers), gaps))

    def at(self, roots: Mapping[int, Root]) -> tuple[GapSums | None, bool]:
        """Those of the observables that have roots, and whether squares of gaps are right there; None of none."""
        if not roots:
            return None, True
        numbers = tuple(roots)
        if self._readings[-1].numbers == numbers:  # the commonest case
            found, shares = self._readings[-1].gaps.carried_to([exp(root.x) for root in roots.values()])
        else:
            carried = [self._last(i).some(i).carried_to([exp(root.x)]) for i, root in roots.items()]
            found = self._joined(numbers, [sums for sums, _ in carried])
            shares = np.array([share for _, (share,) in carried])
        steps = (root.x - log(item.betas[0]) for root, item in zip(roots.values(), found.items, strict=True))
        bends = (root.point.bend(step) for root, step in zip(roots.values(), steps, strict=True))
        return found, all(sqrt(share) * bend <= _CARRIED for share, bend in zip(shares.tolist(), bends, strict=True))

    def _joined(self, numbers: Sequence[int], own: Sequence[GapSums]) -> GapSums:
        """Those of several observables from those of each at its root."""
        at_roots = np.array([[sums.products[0, 0], sums.square_products[0, 0]] for sums in own])
        products = np.empty((2, len(numbers), len(numbers)))
        for a, i in enumerate(numbers):
            for b, j in enumerate(numbers):
                both = self._last(i, j).some(i, j)
                near = np.stack([both.products, both.square_products])
                scales = at_roots[a] * at_roots[b] / np.maximum(near[:, 0, 0] * near[:, 1, 1], _LEAST)
                products[:, a, b] = near[:, 0, 1] * np.sqrt(np.maximum(scales, 0.0))
        items = tuple(sums.items[0] for sums in own)
        return GapSums(items, products[0], products[1], self._readings[-1].gaps.squares)

    def _last(self, *numbers: int) -> _Measured:
        """The last reading that measured some observables."""
        return next(each for each in reversed(self._readings) if set(numbers) <= set(each.numbers))


class Readings:
    """Readings of one data set for several searches.

    ``exact`` says whether sums are computed in float64 or in the precision of the logits, ``guessed`` for which observables
    the search starts near its root, if there is one, and ``usual`` how many readings it may then take.
    """

    def __init__(
        self,
        data: Source,
        observables: Sequence[Observable],
        right: Confidence | TopN,
        label_name: str,
    ) -> None:
        self.data = data
        self.observables = observables
        self.count = Count(right)
        self.label_name = label_name
        self.exact = True
        self.guessed: frozenset[int] = frozenset()
        self.usual = _USUAL_READINGS
        self.n_passes = 0
        self.census: Census | None = None
        self.gaps = LastGaps()
        self.measured_at: dict[int, float] = {}  # the last log β of each observable
        self._unjudged = set(range(len(observables)))
        self._was_exact = True

    def rough_start(self) -> float:
        """A log β of the right order of magnitude."""
        (scale,) = self.read(log_scale)
        if scale.value < -_FARTHEST:
            raise InputError(
                f"`logits` of the same row must differ by more than 1e-100, got differences around {exp(scale.value):.2g}. "
                "Multiply all logits by a constant."
            )
        return -float(scale.value)

    def __call__(self, wanted: Mapping[int, float]) -> dict[int, Point | NishimoriError]:
        """What the searches want to know, from one reading."""
        if self.exact != self._was_exact:  # another search, which has to find out by itself whether it can succeed
            self._unjudged, self._was_exact = set(range(len(self.observables))), self.exact
        judged = {i for i in wanted if self._is_due(i)}
        betas = {i: (exp(x), *(_betas_to_judge(self.observables[i], x) if i in judged else ())) for i, x in wanted.items()}
        self.measured_at |= wanted
        measure = Measure(tuple((self.observables[i], betas[i]) for i in wanted), self.exact)
        if self.census is None:
            gaps, self.census = self.read(measure, self.count)
        else:
            (gaps,) = self.read(measure)
        self._unjudged -= judged
        answers = {i: self._answer(each, i in judged) for i, each in zip(wanted, gaps.items, strict=True)}
        self.gaps.add(wanted, gaps)
        return answers

    def for_a_start(self, wanted: Mapping[int, float]) -> dict[int, Point | NishimoriError]:
        """The same, but without looking for the reason if there is nothing to find."""
        if self.n_passes >= _READINGS_FOR_A_START:
            return {i: NotConvergedError("The sample gives no start.") for i in wanted}
        gaps = self.data.gather(measure_at(self.observables, wanted, exact=self.exact))
        self.n_passes += 1
        return {i: in_log_beta(each) for i, each in zip(wanted, gaps.items, strict=True)}

    def _is_due(self, i: int) -> bool:
        """Whether it is time to find out whether a root exists."""
        return i in self._unjudged and (i not in self.guessed or self.n_passes >= self.usual)

    def _answer(self, moments: Moments, judged: bool) -> Point | NishimoriError:
        """The point of a search, or why there will be no temperature."""
        assert self.census is not None, "counted in the first reading"
        if moments.observed == -inf:
            return _masked_labels(self.census, self.label_name)
        refused = _refusal(moments.at(slice(1, None)), self.census) if judged else None
        return refused or in_log_beta(moments if len(moments.betas) == 1 else moments.at(slice(1)))

    def concluded(self, steps: tuple[Callable[[Any], Any], ...], *passes: Any) -> Any:
        """What ``steps`` make of several passes of one reading."""
        self.n_passes += 1
        return concluded(self.data, together(*passes), steps)

    def read(self, *passes: Any) -> tuple[Any, ...]:
        """What several passes give, from one reading."""
        self.n_passes += 1
        items: tuple[Any, ...] = self.data.gather(together(*passes)).items
        return items


def measure_at(observables: Sequence[Observable], places: Mapping[int, float], *, exact: bool = True) -> Measure:
    """The pass that measures some of ``observables``, by their position, each at its log β."""
    return Measure(tuple((observables[i], (exp(x),)) for i, x in places.items()), exact)


def in_log_beta(moments: Moments) -> Point:
    """The gap and its derivatives in log β."""
    (beta,) = moments.betas
    slope, curvature, jerk = (sums.item() / moments.weight for sums in (moments.slope, moments.curvature, moments.jerk))
    return Point(
        value=moments.gap.item(),
        slope=beta * slope,
        curvature=beta * (slope + beta * curvature),
        jerk=beta * (slope + beta * (3 * curvature + beta * jerk)),
        noise=moments.noise.item(),
        scatter=sqrt(moments.spread.item()) / (moments.weight * abs(slope)) if slope else inf,
    )


def _betas_to_judge(observable: Observable, start: float) -> tuple[float, ...]:
    """Both ends and, where the mean is not known to grow with β, a grid around the start of the search."""
    grid = () if observable._is_monotone else tuple((exp(start) * _GRID).tolist())
    return (0.0, *grid, inf)


def _masked_labels(census: Census, label_name: str) -> InputError:
    return InputError(
        f"`{label_name}` must not name a masked class for temperature scaling, got {census.n_at_masks} samples whose true "
        "class has logit -inf: their loss is infinite at every T. Unmask the class, drop those samples, or use "
        "ExpectationConsistency, which counts them as misses."
    )


def refusal(moments: Moments, census: Census, label_name: str) -> NishimoriError | None:
    """Why no temperature can be found by moments at both ends and perhaps between them, or None if one can."""
    return _masked_labels(census, label_name) if moments.observed == -inf else _refusal(moments, census)


def _refusal(moments: Moments, census: Census) -> NishimoriError | None:
    """Why no temperature can be found, or None if one can."""
    observable = moments.observable
    if not observable._is_monotone and (falling := _falling(moments)):
        return falling
    (hot, *_, cold), (at_hot, *_, at_cold) = moments.gap, moments.expected / moments.weight
    hot_noise, cold_noise = moments.noise[0], moments.noise[-1]
    if hot < -hot_noise and cold > cold_noise:
        return None
    if 0 < abs(hot) <= hot_noise or 0 < abs(cold) <= cold_noise:
        remedy = "Use a larger validation set." if observable._is_monotone else "Subtract a constant from the observable."
        return NotConvergedError(
            f"Whether a temperature fits cannot be decided: the mean of {type(observable).__name__} under the model differs "
            f"from its mean under the labels by less than rounding errors. {remedy}"
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
