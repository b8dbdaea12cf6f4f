"""The search for the temperature at which the model's mean of an observable equals the labels', or why there is none.

Expectation consistency and temperature scaling are one search with two observables. It starts at the answer of a small random
sample of the rows. One reading at that β then gives each row as a function of β, in which both temperatures are found without
reading the logits again; if they turn out to be too far away, or the rows are too many to keep, the search reads on.

From top to bottom: how far float32 and float64 are apart in a few rows (`CompareRows`); the passes over all rows that searches
share, and why there may be nothing to find (`Readings`); where a search starts (`answers_from`); the search (`match`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from nishimori._fit.expansion import Expand, Expansion
from nishimori._fit.match import Match
from nishimori._kernels.row_sums import row_sums
from nishimori._rows.batch import Batch
from nishimori._rows.labels import check_number_of_clusters
from nishimori._rows.rows import (
    Rows,
    call_with_rows,
    counts_of_clusters,
    has_clusters,
    reduce_sums,
    refuse_counted_clusters,
    sums_at_once,
)
from nishimori._sums.census import Census, Count
from nishimori._sums.moments import GapSums, Measure, Moments, log_scale
from nishimori._sums.observables import Confidence, Energy, Observable, TopN
from nishimori._sums.passes import Sums, together
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.roots import Point, Root, drive, increasing_root
from nishimori.errors import InputError, NishimoriError, NotConvergedError, NoTemperatureError


@dataclass(frozen=True)
class RowErrors:
    """Sums over some rows: of the errors of each observable, of their squares, and of the weights. Those of other rows add."""

    errors: HostArray
    squares: HostArray
    weight: float

    def __add__(self, other: "RowErrors") -> "RowErrors":
        return RowErrors(self.errors + other.errors, self.squares + other.squares, self.weight + other.weight)

    @classmethod
    def between(cls, values: HostArray, others: HostArray, weights: HostArray) -> "RowErrors":
        """The sums of the errors between two tables of means, (observables, n)."""
        errors = weights * (values - others)
        return cls(errors.sum(axis=1), (errors**2).sum(axis=1), float(weights.sum()))

    def distance(self, position: int, *, is_part: bool) -> float:
        """How far the means over all rows may be apart: over these rows and, if they are a part, two standard errors more."""
        by_chance = 2 * sqrt(self.squares[position]) if is_part else 0.0
        return (abs(float(self.errors[position])) + by_chance) / self.weight


@dataclass(frozen=True)
class CompareRows:
    """The pass that sums the differences between fast and exact means of confidence and energy, each at a β."""

    wanted: tuple[tuple[Observable, float], ...]
    expanded_at: float | None = None

    def __call__(self, batch: Batch) -> RowErrors:
        single, double = (self.means(batch, exact=exact) for exact in (False, True))
        return RowErrors.between(double, single, arrays.on_host(batch.weights))

    def means(self, batch: Batch, *, exact: bool) -> HostArray:
        """The mean of each observable in each row."""
        if self.expanded_at is not None:
            (rows,) = Expand(self.expanded_at, exact)(batch).parts
            powers = [rows.powers(beta) for _, beta in self.wanted]
        else:
            # One power more than needed: float32 rounds β, and kernels use the next power to correct that.
            known = row_sums(batch, tuple(beta for _, beta in self.wanted), 2, exact=exact)
            powers = [known.at(beta) for _, beta in self.wanted]
        values: list[Array] = [
            (1.0 if isinstance(observable, Confidence) else each[1, :]) / (1 + each[0, :])
            for (observable, _), each in zip(self.wanted, powers, strict=True)
        ]
        return np.stack([arrays.on_host(each) for each in values])


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

    def subset(self, *numbers: int) -> GapSums:
        """The gaps of some of the observables."""
        return self.gaps.subset([self.numbers.index(i) for i in numbers])


class LastGaps:
    """The gaps of each observable where it was measured last, which is near its root if it has one, carried to the root.

    Searches end after different numbers of readings. How two observables vary together is known from the last reading that
    measured both: their correlation there is taken to be that at the roots.
    """

    def __init__(self) -> None:
        self._readings: list[_Measured] = []

    def add(self, numbers: Iterable[int], gaps: GapSums) -> None:
        """Keep the gaps of one reading; ``numbers`` say which observables it measured. The first reading measures all."""
        self._readings.append(_Measured(tuple(numbers), gaps))

    def at(self, roots: Mapping[int, Root]) -> tuple[GapSums | None, bool]:
        """The gaps of the observables that have roots, at the roots, and whether squares of gaps are accurate there."""
        if not roots:
            return None, True
        numbers = tuple(roots)
        if self._readings[-1].numbers == numbers:  # the commonest case
            found, shares = self._readings[-1].gaps.extrapolate_to([exp(root.x) for root in roots.values()])
        else:
            carried = [self._last(i).subset(i).extrapolate_to([exp(root.x)]) for i, root in roots.items()]
            found = self._join_gaps(numbers, [sums for sums, _ in carried])
            shares = np.array([share for _, (share,) in carried])
        steps = (root.x - log(item.betas[0]) for root, item in zip(roots.values(), found.items, strict=True))
        bends = (root.point.bend(step) for root, step in zip(roots.values(), steps, strict=True))
        return found, all(sqrt(share) * bend <= _CARRIED for share, bend in zip(shares.tolist(), bends, strict=True))

    def _join_gaps(self, numbers: Sequence[int], own: Sequence[GapSums]) -> GapSums:
        """The gaps of several observables together, from those of each at its root."""
        at_roots = np.array([[sums.products[0, 0], sums.square_products[0, 0]] for sums in own])
        products = np.empty((2, len(numbers), len(numbers)))
        for a, i in enumerate(numbers):
            for b, j in enumerate(numbers):
                both = self._last(i, j).subset(i, j)
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
        data: Rows,
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
                "`logits` of the same row",
                "differ by more than 1e-100",
                got=f"differences around {exp(scale.value):.2g}",
                remedy="Multiply all logits by a constant.",
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
        """The points of searches in a sample, from one reading; no reason is sought if there is nothing to find."""
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
            return _masked_labels_error(self.census, self.label_name)
        refused = _refusal(moments.at(slice(1, None)), self.census) if judged else None
        return refused or in_log_beta(moments if len(moments.betas) == 1 else moments.at(slice(1)))

    def reduce_sums(self, steps: tuple[Callable[[Any], Any], ...], *passes: Any) -> Any:
        """The result of ``steps``, applied to the sums of several passes of one reading."""
        self.n_passes += 1
        return reduce_sums(self.data, together(*passes), steps)

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


def _masked_labels_error(census: Census, label_name: str) -> InputError:
    return InputError(
        label_name,
        "not name a masked class for temperature scaling",
        got=f"{census.n_at_masks} samples whose true class has logit -inf: their loss is infinite at every T",
        remedy="Unmask the class, drop those samples, or use the method 'ec', which counts them as misses.",
    )


def refusal(moments: Moments, census: Census, label_name: str) -> NishimoriError | None:
    """Why no temperature can be found by moments at both ends and perhaps between them, or None if one can."""
    return _masked_labels_error(census, label_name) if moments.observed == -inf else _refusal(moments, census)


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
        end, why, remedy = "flat", "every row's unmasked logits are equal, so T has no effect.", "Check the model's output."
        if not observable._is_monotone:
            why = f"T does not change the mean of {type(observable).__name__}."
            remedy = "Check the observable and the model's output."
    elif cold <= cold_noise:
        end, (why, remedy) = "cold", observable._cold(census.n_rows, observed, at_cold)
    else:
        end, (why, remedy) = "hot", observable._hot(census.n_rows, observed, at_hot)
    return NoTemperatureError(f"No temperature fits: {why}", remedy, end=end)


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
        type(moments.observable).__name__,
        "have a mean under the model that grows as T falls",
        got=f"one that falls around T = {T:.4g}, so several temperatures, or none, may match the labels",
        remedy=remedy,
    )


ANYWHERE = -log(1.5)
"""The log β at which a search starts if nothing is known: at T = 1.5, because networks tend to be overconfident."""

# A search in a sample ends with a step of this length in log β: with it, the distance left is far below the standard error.
_ENOUGH = 0.02

MANY = 32
"""Rows of at least so many classes are expanded rather than read again."""

# The sample has a 16th of the rows, or a 64th if they have many classes, because their expansion reaches farther; but up to an
# eighth while these are fewer than 512. It costs about a tenth of a pass, and its answer is a few standard errors away. Fewer
# than 16 sampled rows are too few to start from, and data of fewer numbers than the last are searched without a sample.
_SAMPLE_SHARE, _SAMPLE_SHARE_MANY, _SAMPLE_SMALL_SHARE, _SAMPLE_SMALL, _SAMPLE_LEAST, _SAMPLED = 16, 64, 8, 512, 16, 2**13

# The sample is a copy, so it is kept small however large the data are: 16 MiB of float32.
_SAMPLE_ELEMENTS = 2**22

# Where one call of a kernel sums all rows, a search starts with every so many of them, as long as there are so many numbers
# that a call takes longer than to ask for it, and so many rows are left. The longest step is taken that leaves enough rows for
# an answer from which one reading of all is enough. Steps are prime, because data may be periodic, though a bad start would
# cost a reading and no digit.
_STEPS, _STEPPED, _STEPPED_ROWS, _ANSWERING_ROWS = (17, 5), 2**24, 200, 12_000


def numbers(data: Rows) -> int:
    """How many logits there are; 0 if that is not known."""
    return (data.n_rows or 0) * data.n_classes


def every_so_many(data: Rows) -> list[Rows]:
    """Parts of data that sum at once, each with every so many rows of the next; from the smallest on."""
    parts: list[Rows] = []
    while data.n_rows and numbers(data) >= _STEPPED:
        step = next((step for step in _STEPS if data.n_rows // step >= _ANSWERING_ROWS), min(_STEPS))
        part = data.every(step) if data.n_rows // step >= _STEPPED_ROWS else None
        if part is None:
            break
        parts.insert(0, part)
        data = part
    return parts


def sample_of(data: Rows) -> Rows | None:
    """Some of the rows to start from, or None if there are too few or they cannot be had without a reading."""
    if data.n_rows is None or numbers(data) < _SAMPLED:
        return None
    share = _SAMPLE_SHARE_MANY if data.n_classes >= MANY else _SAMPLE_SHARE
    size = max(data.n_rows // share, min(data.n_rows // _SAMPLE_SMALL_SHARE, _SAMPLE_SMALL))
    size = min(size, max(_SAMPLE_LEAST, _SAMPLE_ELEMENTS // data.n_classes))
    return data.sample(size) if size >= _SAMPLE_LEAST else None


def some_of(data: Rows, size: int) -> Rows:
    """A sample of this size, or all rows if they are not many more."""
    return (data.sample(size) if (data.n_rows or 0) > 2 * size else None) or data


def answers_of(sample: Rows | None, observables: Sequence[Observable]) -> dict[int, float]:
    """The answers of a sample, by the position of their observable, as far as there are any."""
    if sample is None:
        return {}
    try:
        return call_with_rows(sample, _SampleSearch(tuple(observables)))
    except InputError:
        return {}  # a reading of all rows will say which one is wrong


@dataclass(frozen=True)
class _SampleSearch:
    """The answers of some rows, from a search that starts at the answers of a sample of them."""

    observables: tuple[Observable, ...]

    def __call__(self, rows: Rows) -> dict[int, float]:
        return answers_from(answers_of(sample_of(rows), self.observables), rows, self.observables)


def answers_from(begin: Mapping[int, float], sample: Rows, observables: Sequence[Observable]) -> dict[int, float]:
    """The log β of each observable that has a root in a sample, by a search that starts from ``begin``."""
    readings = Readings(sample, observables, Confidence(), "labels")
    readings.exact = False
    begin = dict.fromkeys(range(len(observables)), ANYWHERE) | dict(begin)
    searches = {i: increasing_root(start, enough=_ENOUGH) for i, start in begin.items()}
    try:
        roots = drive(searches, readings.for_a_start)
    except InputError:
        return {}  # a reading of all rows will say which one is wrong
    return log_betas_of(roots)


def log_betas_of(roots: Mapping[int, Root | NishimoriError]) -> dict[int, float]:
    """The log β of the roots that were found, by the number of the observable."""
    return {i: root.x for i, root in roots.items() if isinstance(root, Root)}


def middle(starts: Mapping[int, float]) -> float:
    """The β in the middle of some log β."""
    return exp((min(starts.values()) + max(starts.values())) / 2)


# So many rows tell whether float32 is precise enough: fewer if they have many classes, whose errors average out in each row.
_TELLING, _TELLING_LEAST, _TELLING_NUMBERS = 1024, 32, 2**20

# Where one call of a kernel sums all rows, a search that starts anywhere may take so many readings.
_BLIND_READINGS = 8

# How many rows are kept as functions of β: 56 MiB.
_MOST_EXPANDED = 2**20

# The relative precision that is promised of a temperature.
_PROMISED = 1e-8

# Float32 rounds the weight of a class by about this relative amount. Errors of different rows are independent.
_SINGLE = 2.0**-24

# So few rows, and so few numbers, are not left to float32, whose errors average out only over many, nor to an expansion.
_FEW_ROWS, _FEW_NUMBERS = 1000, 2**16


def match(
    data: Rows | Sketch,
    *observables: Observable,
    right: TopN | None = None,
    starts: Sequence[float] | None = None,
    label_name: str = "labels",
    counts: bool = False,
) -> Match:
    """Search for the temperatures of several observables at once.

    ``right`` says which answers count as right: by default those whose top class is true. ``starts`` are the values of log β
    to start from; by default the answers of a sample. ``label_name`` is what the caller's signature calls the labels.
    Standard errors are those of independent rows, or of clusters if the data have any; with ``counts``, a weight of w stands
    for w independent rows.
    """
    if isinstance(data, Sketch):
        return _match_in_sketch(data, observables, right, label_name, counts=counts)
    found = _search_temperatures(data, observables, right, starts, label_name)
    refuse_counted_clusters(data, counts=counts)
    if has_clusters(data) or not found.has_squares:
        return found.at_roots(data, counts=counts)
    return found.with_counts() if counts else found


def _search_temperatures(
    data: Rows,
    observables: tuple[Observable, ...],
    right: TopN | None,
    starts: Sequence[float] | None,
    label_name: str,
) -> Match:
    """The temperatures, and sums of squares of independent rows."""
    search = _Search(data, observables, right or Confidence(), label_name)
    if starts is not None:
        return search.by_reading(dict(enumerate(starts)))
    if search.can_sum:
        return search.by_sums()
    sample = sample_of(data)
    begin = answers_of(sample, observables)
    if sample is None or not begin or numbers(data) < _FEW_NUMBERS:
        return search.by_reading(begin)
    # The temperatures of different observables are close to each other, and a sample may have only one of them.
    begin = dict.fromkeys(range(len(observables)), log(middle(begin))) | begin
    search.exact = not search.is_paired or (data.n_rows or 0) < _FEW_ROWS
    found = search.by_expansion(begin) if search.can_expand else search.by_reading(begin)
    return found if search.is_precise(found, sample) else search.again(begin, found)


class _Search:
    """A search in one data set. What it has read and counted is kept when it goes on in another way."""

    def __init__(self, data: Rows, observables: Sequence[Observable], right: Confidence | TopN, label_name: str) -> None:
        self.data = data
        self.observables = tuple(observables)
        self.readings = Readings(data, observables, right, label_name)
        self.expanded_at: float | None = None  # the β at which rows were expanded, if that was enough

    @property
    def exact(self) -> bool:
        return self.readings.exact

    @exact.setter
    def exact(self, value: bool) -> None:
        self.readings.exact = value

    @property
    def can_expand(self) -> bool:
        """Whether rows as functions of β are enough for the observables, and can be kept."""
        if getattr(self.data, "is_remote", False):
            return False
        few = self.data.n_rows is not None and self.data.n_rows <= _MOST_EXPANDED and self.data.n_classes >= MANY
        return few and self.is_paired

    @property
    def is_paired(self) -> bool:
        """Whether power sums outside the largest class are all that the observables need."""
        return all(isinstance(each, Confidence | Energy) for each in self.observables)

    @property
    def can_sum(self) -> bool:
        """Whether each reading is one call of a kernel."""
        if not self.is_paired:
            return False
        anywhere = measure_at(self.observables, dict.fromkeys(range(len(self.observables)), ANYWHERE))
        return sums_at_once(self.data, together(anywhere, self.readings.count))

    def by_sums(self) -> Match:
        """Read the data, each time in one call of a kernel, and in float32 if some rows have the same answers in float64."""
        begin = dict.fromkeys(range(len(self.observables)), ANYWHERE)
        some = every_so_many(self.data)
        if not some:
            self.readings.usual = _BLIND_READINGS
            return self.by_reading(begin)
        for i, rows in enumerate(some):
            found = answers_from(begin, rows, self.observables)
            if not found:
                return self.by_reading({})
            begin = dict.fromkeys(begin, log(middle(found))) | found
            if i == 0:
                self.exact = not self.sums_agree(rows, found)
        matched = self.by_reading(begin)
        return matched if self.is_precise(matched) else self.again(begin, matched)

    def is_precise(self, found: Match, sample: Rows | None = None) -> bool:
        """Whether a search was in float64, or float32 was precise enough, also on a ``sample`` if one is given."""
        if self.exact:
            return True
        roots = {i: root for i, root in enumerate(found.roots) if isinstance(root, Root)}
        many_decide = all(map(_is_precise, roots.values()))
        return many_decide and (sample is None or not roots or self.is_single_enough(sample, roots))

    def again(self, begin: Mapping[int, float], found: Match) -> Match:
        """Search again in float64, from what was found."""
        self.exact = True
        return self.by_reading(dict(begin) | log_betas_of(dict(enumerate(found.roots))))

    def sums_agree(self, rows: Rows, places: Mapping[int, float]) -> bool:
        """Whether float32 and float64 have the same mean gaps on some of ``rows``, without a number per row."""
        some = rows.every(max(1, (rows.n_rows or 0) // _telling(rows))) or rows
        single, double = (some.gather(measure_at(self.observables, places, exact=exact)).items for exact in (False, True))
        return all(
            abs(rough.gap[0] - precise.gap[0]) <= _PROMISED / 2 * abs(in_log_beta(precise).slope)
            for rough, precise in zip(single, double, strict=True)
        )

    def is_single_enough(self, rows: Rows, roots: Mapping[int, Root]) -> bool:
        """Whether float32 and float64 agree on some of ``rows``, as exactly as a temperature is promised."""
        places = {i: root.x if self.expanded_at is not None else self.readings.measured_at[i] for i, root in roots.items()}
        measured = tuple((self.observables[i], exp(x)) for i, x in places.items())
        distances = call_with_rows(rows, _Rounding(measured, self.expanded_at, self.data.n_rows or inf))
        return all(
            distance <= _PROMISED * abs(root.point.slope) for distance, root in zip(distances, roots.values(), strict=True)
        )

    def by_reading(self, begin: Mapping[int, float]) -> Match:
        """Read the data at each β that the searches ask for."""
        self.readings.guessed = frozenset(i for i in begin if self.observables[i]._is_monotone)
        if len(begin) < len(self.observables):
            begin = dict.fromkeys(range(len(self.observables)), self.readings.rough_start()) | dict(begin)
        searches = {i: increasing_root(start, predict=self.observables[i]._is_monotone) for i, start in begin.items()}
        roots = drive(searches, self.readings)
        return self._match(roots, self.readings.gaps)

    def by_expansion(self, begin: Mapping[int, float]) -> Match:
        """Read the data once, in the middle of the starts, and read on only if that is not enough."""
        search = _SearchNearby(self.observables, dict(begin))
        expand = Expand(middle(begin), self.exact)
        found, self.readings.census = self.readings.reduce_sums((_join_parts, search), expand, self.readings.count)
        if found.gaps is None:
            return self.by_reading(dict(begin) | log_betas_of(found.roots))
        self.expanded_at = middle(begin)
        return self._match(found.roots, found.gaps)

    def _match(self, roots: Mapping[int, Root | NishimoriError], gaps: LastGaps) -> Match:
        assert self.readings.census is not None, "the first answer to a search counts the rows"
        if not self.exact:
            roots = {i: _with_rounding(root) for i, root in roots.items()}
        found = tuple(_root_or_error(observable, roots[i]) for i, observable in enumerate(self.observables))
        at_roots, has_squares = gaps.at({i: root for i, root in enumerate(found) if isinstance(root, Root)})
        return Match(self.observables, found, self.readings.census, self.readings.n_passes, at_roots, has_squares)


@dataclass(frozen=True)
class _Rounding:
    """How far float32 and float64 may be apart in the means of all ``n_rows`` rows, found from some of them.

    Means are computed as they were for all rows: by an expansion at ``expanded_at`` if that is given.
    """

    measured: tuple[tuple[Observable, float], ...]
    expanded_at: float | None
    n_rows: float

    def __call__(self, rows: Rows) -> list[float]:
        some = some_of(rows, _telling(rows))
        is_part = (some.n_rows or 0) < self.n_rows
        errors = some.gather(CompareRows(self.measured, self.expanded_at))
        return [errors.distance(i, is_part=is_part) for i in range(len(self.measured))]


def _join_parts(sums: Sums) -> Sums:
    """The sums with the expanded rows in few parts, and the census."""
    rows, census = sums.items
    return Sums((rows.join_parts(), census))


class _Nearby(NamedTuple):
    """The roots in expanded rows, and the gaps there; None if the expansion does not reach all of them."""

    roots: dict[int, Root]
    gaps: LastGaps | None


@dataclass(frozen=True)
class _SearchNearby:
    """The search in expanded rows, wherever these are; ``begin`` has the log β where it starts."""

    observables: tuple[Observable, ...]
    begin: Mapping[int, float]

    def __call__(self, sums: Sums) -> tuple[_Nearby, Census]:
        rows, census = sums.items
        if census.n_at_masks:  # the loss may be infinite
            return _Nearby({}, None), census
        local = _Local(rows, self.observables, middle(self.begin))
        roots = drive({i: increasing_root(start, predict=True) for i, start in self.begin.items()}, local)
        found = {i: replace(root, is_measured=False) for i, root in roots.items() if isinstance(root, Root)}
        reaches = len(found) == len(self.begin) and self._are_certified(found, rows)
        return _Nearby(found, local.gaps if reaches else None), census

    def _are_certified(self, roots: Mapping[int, Root], rows: Expansion) -> bool:
        """Whether the last order of the expansion changes nothing, even if it has the same sign in all rows."""
        kinds = {i: int(isinstance(self.observables[i], Energy)) for i in roots}
        betas = {kinds[i]: exp(root.x) for i, root in roots.items()}
        some = next(iter(betas.values()))
        changes = rows.last_orders(betas.get(0, some), betas.get(1, some))
        return all(changes[kinds[i]] <= _PROMISED * abs(root.point.slope) for i, root in roots.items())


class _Local:
    """What searches want to know, from rows that are known as functions of β near one β."""

    # Farther away from where the rows were read, in log β, they are not asked.
    _REACH = 0.5

    def __init__(self, rows: Expansion, observables: Sequence[Observable], middle: float) -> None:
        self.rows = rows
        self.observables = observables
        self.middle = log(middle)
        self.gaps = LastGaps()

    def __call__(self, wanted: Mapping[int, float]) -> dict[int, Point | NishimoriError]:
        near = {i: x for i, x in wanted.items() if abs(x - self.middle) <= self._REACH}
        points: dict[int, Point | NishimoriError] = dict.fromkeys(wanted, NotConvergedError("The root is too far away."))
        if not near:
            return points
        gaps = self.rows.measure(measure_at(self.observables, near))
        self.gaps.add(near, gaps)
        return points | {i: in_log_beta(each) for i, each in zip(near, gaps.items, strict=True)}


def _telling(rows: Rows) -> int:
    """How many rows tell whether float32 is precise enough."""
    return min(_TELLING, max(_TELLING_LEAST, _TELLING_NUMBERS // rows.n_classes))


def _with_rounding(root: Root | NishimoriError) -> Root | NishimoriError:
    """A root whose residual allows for the rounding errors of float32."""
    if not isinstance(root, Root):
        return root
    return replace(root, residual=abs(root.residual) + _SINGLE * root.point.scatter * abs(root.point.slope))


def _is_precise(root: Root | NishimoriError) -> bool:
    """Whether so many rows decide that float32 is precise enough. That there is no root was decided in float64."""
    return not isinstance(root, Root) or _SINGLE * root.point.scatter <= _PROMISED / 2


def _match_in_sketch(
    data: Sketch, observables: tuple[Observable, ...], right: TopN | None, label_name: str, *, counts: bool
) -> Match:
    """The match of observables in a sketch: nothing is read."""
    if right is not None:
        raise InputError("top_n", "be 1 for a sketch, which counts right answers of the top class", got=right.n)
    if counts and data.n_clusters is not None:
        raise counts_of_clusters()
    found: list[Root | NishimoriError] = []
    for observable in observables:
        try:
            moments = data.moments(observable)
            found.append(refusal(moments, data.census, label_name) or data.root(observable))
        except InputError as error:
            found.append(error.with_traceback(None))
    roots = [(each, root) for each, root in zip(observables, found, strict=True) if isinstance(root, Root)]
    gaps = None
    if roots and data.n_clusters != 1:  # there is no spread between clusters if there is one
        if data.n_clusters is not None:
            check_number_of_clusters(data.n_clusters)
        gaps = data.gaps(roots, counts=counts)
    return Match(observables, tuple(found), data.census, 1, gaps)


def _root_or_error(observable: Observable, root: Root | NishimoriError) -> Root | NishimoriError:
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
