"""The search for the temperature at which the model's mean of an observable equals the labels', or why there is none.

Expectation consistency and temperature scaling are one search with two observables, in log β:

1. A sixteenth of the rows is searched first: quickly, to three digits. With few rows it is all of them.
2. That search starts at the answer of a sixteenth of these rows, and so on, down to some hundred rows and T = 1.5.
3. If the answers of all observables are about a percent apart, all go on from their middle, where they share exponentials.
4. One exact pass over all rows gives the mean gap of each observable there, with four derivatives.
5. The root of that polynomial is the answer, unless a fifth derivative as large as the others suggest would change it.
6. Then another pass follows, at the root so far. Signs of gaps bracket the root; a step that leaves the bracket halves it.
7. Data that can only be read as a whole start from the scale of their logits, which takes a pass of its own.
8. Whether a root exists follows from the gaps at T = 0 and T = ∞. They are measured in the first exact pass if the sample has
   no answer, and otherwise after three passes that did not end the search.
9. Standard errors need the squares of gaps at the root: those of the last pass are continued by the slopes of the rows.
10. Only the kernel knows which arithmetic is quick and which is exact, and only the rows how they are read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import exp, inf, log
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from nishimori._fit.match import FitInfo, Match
from nishimori._fit.roots import Point, Root, Roots, drive, increasing_root
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.census import Census, Count, measure_evenness
from nishimori._sums.moments import GapSums, Measure, Moments, log_scale
from nishimori._sums.observables import Confidence, Observable, TopN
from nishimori._sums.passes import together
from nishimori._support.intervals import Interval
from nishimori.errors import DegenerateDataError, InputError, NishimoriError, NotConvergedError, NoTemperatureError

# A sample has this share of the rows, but at least this many rows, whose answers are about 1.5 % off: one exact pass is then
# enough. Fewer rows than the last number give no useful answer.
_SHARE, _SURE, _FEWEST = 16, 2**14, 200

# In log β: how precise the answer of a sample has to be, and within which distance several answers count as one place.
_ROUGH, _ROUGHLY_ONE = 1e-3, 0.2

# The same for all rows. Of a temperature eight digits are promised.
_EXACT, _ONE, _PROMISED = 1e-9, 0.015, 1e-8

# A search in a sample is given up after this many passes.
_PASSES_FOR_A_START = 12

# A search that starts near its root needs one pass, or two. One that needs more may have no root.
_USUAL_PASSES = 3

# The log β at which a search starts if nothing is known: at T = 1.5, because networks tend to be overconfident.
_DEFAULT_LOG_BETA = -log(1.5)

# Where the mean of an observable that may not be monotone is looked at: three decades of T to either side of the start.
_GRID = np.geomspace(1e-3, 1e3, 25)

# Rounding may make a slope slightly negative, but not by this part of the largest one.
_FALLS = 1e-9

# Smaller differences of logits than exp(-this) = 1e-100 need a β whose square is beyond float64.
_FARTHEST = 230.0

# Only below this temperature may rounding decide: logits in float32 would have to be larger than 20,000 otherwise.
_SUSPECT = 0.01

# Rows to look at first, and the inverse share of even ones below which most of all rows are not even. No kernel makes the pass
# over all rows, which takes as long as ten fits. If half of all rows were even, a quarter here would be 16 standard errors off.
_GLANCE, _HARDLY = 1024, 4

# Squares of gaps that are carried to the root from a short step away are right to about this relative amount, or are measured
# again: standard errors then to half of it.
_CARRIED = 1e-3


def match(
    data: Rows,
    *observables: Observable,
    right: TopN | None = None,
    starts: Sequence[float] | None = None,
    label_name: str = "labels",
) -> Match:
    """Search for the temperatures of several observables at once; a too uncertain temperature is rejected.

    Nor is one that is so low that the rounding of logits would decide, which takes a pass to find out, where it may be so.
    ``right`` says which answers count as right: by default those whose top class is true. ``starts`` are the values of log β
    to start from; by default the answers of a sample. ``label_name`` is what the caller's signature calls the labels.
    Standard errors are those of independent rows, or of clusters if the data have any; where weights are counts, a weight of w
    stands for w independent rows.
    """
    if getattr(data, "is_claims", False):
        raise InputError("Claims have no temperature: it would move all of them towards 1/2, or all away from it.")
    options: dict[str, Any] = {"right": right, "starts": starts, "label_name": label_name}
    matched = find_roots(data, *observables, **options).without_uncertain()
    lowest = min((exp(-root.x) for root in matched.roots if isinstance(root, Root)), default=inf)
    if lowest > _SUSPECT or not rounding_decides(data, lowest):
        return matched
    why = "the logits of most rows are equal up to rounding, so they say nothing about T."
    error = NoTemperatureError(f"No temperature fits: {why}", "Check the model's output.", end="flat")
    return replace(matched, roots=tuple(error if isinstance(root, Root) else root for root in matched.roots))


@question("has no rows to look at")
def rounding_decides(data: Rows, temperature: float) -> bool:
    """Whether rounding decides the probabilities of most rows at a temperature; a few rows show if it does not."""
    part = data.sample(_GLANCE) if hasattr(data, "sample") else None  # which rows of somebody's own need not have
    if part is not None and part is not data:
        glance = part.gather(measure_evenness)
        if _HARDLY * glance.even < glance.weight:
            return False
    return data.gather(measure_evenness).decides(temperature)


class TemperatureSolution(NamedTuple):
    """One temperature, how it was found, and bounds if the data allow a range."""

    temperature: float
    fit_info: FitInfo
    bounds: Interval | None = None


@question("has no rows with all logits to search in")
def find_temperature(data: Rows, observable: Observable, *, label_name: str = "labels") -> TemperatureSolution:
    """Find the temperature of one observable; raises if there is none, and warns if it is uncertain."""
    right = observable if isinstance(observable, TopN) else None
    return TemperatureSolution(*match(data, observable, right=right, label_name=label_name).solution(0))


@question("has no rows with all logits to search in")
def find_roots(
    data: Rows,
    *observables: Observable,
    right: TopN | None = None,
    starts: Sequence[float] | None = None,
    label_name: str = "labels",
) -> Match:
    """Like `match`, but keeps uncertain temperatures, as starting points for searches with more parameters."""
    matched = Search(data, observables, right or Confidence(), label_name).run(starts)
    if data.has_clusters or not matched.has_squares:
        return matched.at_roots(data)
    if not data.counts or matched.gaps is None:
        return matched
    return replace(matched, gaps=matched.gaps.with_counts())


class Search:
    """The search for the temperatures of some observables in all rows: its state and results so far."""

    def __init__(self, data: Rows, observables: Sequence[Observable], right: Confidence | TopN, label_name: str) -> None:
        self.data = data
        self.observables = tuple(observables)
        self.label_name = label_name
        self.n_passes = 0  # over all rows, also quick ones
        self._count = Count(right)
        self._census: Census | None = None
        self._gaps: GapSums | None = None  # of the last pass
        self._places: dict[int, float] = {}  # where observables were measured in that pass, in log β
        self._n_exact = 0
        self._guessed: frozenset[int] = frozenset()  # observables that start near a root, if there is one
        self._unjudged = set(range(len(observables)))

    def run(self, starts: Sequence[float] | None = None) -> Match:
        """Find the temperatures, and sums of squares of independent rows."""
        begin = self._sample_answers() if starts is None else dict(enumerate(starts))
        self._guessed = frozenset(i for i in begin if self.observables[i]._is_monotone)
        if len(begin) < len(self.observables):
            # Answers of different observables are close to each other, and a sample may have only one of them.
            anywhere = _middle(begin) if begin else self._rough_start()
            begin = dict.fromkeys(range(len(self.observables)), anywhere) | begin
        begin = _merge_close_starts(begin, _ONE)
        searches = {
            i: increasing_root(start, precision=_EXACT if self.observables[i]._is_monotone else 0.0)
            for i, start in begin.items()
        }
        roots = drive(searches, self._measure)
        assert self._census is not None, "the first answer to a search counts the rows"
        answers = tuple(_root_or_error(observable, roots[i]) for i, observable in enumerate(self.observables))
        gaps, has_squares = self._gaps_at({i: root for i, root in enumerate(answers) if isinstance(root, Root)})
        return Match(self.observables, answers, self._census, self.n_passes, gaps, has_squares)

    def _sample_answers(self) -> dict[int, float]:
        """The results of a sample, by the position of the observable, as far as there are any."""
        n_rows = self.data.n_rows
        sample = self.data.sample(max(n_rows // _SHARE, min(_SURE, n_rows))) if n_rows else None
        if sample is None:
            return {}
        try:
            starts = sample.call_with_rows(partial(search_sample, self.observables))
        except InputError:
            return {}  # the exact pass will say which row is wrong
        if sample is self.data:
            self.n_passes += starts.n_passes
        return starts.log_betas

    def _rough_start(self) -> float:
        """A log β of the right order of magnitude."""
        self.n_passes += 1
        scale = self.data.gather(log_scale)
        if scale.value < -_FARTHEST:
            raise DegenerateDataError(
                "`logits` of the same row",
                "differ by more than 1e-100",
                got=f"differences around {exp(scale.value):.2g}",
                remedy="Multiply all logits by a constant.",
            )
        return -float(scale.value)

    def _measure(self, wanted: Mapping[int, float], roots: Roots[int]) -> dict[int, Point | NishimoriError]:
        """The values that the searches request, from one exact pass. Observables with a root are measured there.

        So the last pass has all of them at or near their roots, and says how they vary together.
        """
        judged = {i for i in wanted if self._is_due(i)}
        self._places = {i: root.x for i, root in roots.items() if isinstance(root, Root)} | dict(wanted)
        betas = {
            i: (exp(x), *(_betas_to_judge(self.observables[i], x) if i in judged else ())) for i, x in self._places.items()
        }
        measure = Measure(tuple((self.observables[i], own) for i, own in betas.items()))
        if self._census is None:
            self._gaps, self._census = self._read(measure, self._count)
        else:
            (self._gaps,) = self._read(measure)
        self._unjudged -= judged
        return {
            i: self._answer(moments, i in judged) for i, moments in zip(betas, self._gaps.items, strict=True) if i in wanted
        }

    def _read(self, *passes: Any) -> tuple[Any, ...]:
        """The results of several passes, from one pass over all rows."""
        self.n_passes += 1
        self._n_exact += 1
        return self.data.gather(together(*passes)).items

    def _is_due(self, i: int) -> bool:
        """Whether it is time to find out whether a root exists."""
        return i in self._unjudged and (i not in self._guessed or self._n_exact >= _USUAL_PASSES)

    def _answer(self, moments: Moments, judged: bool) -> Point | NishimoriError:
        """The point of a search, or why there will be no temperature."""
        assert self._census is not None, "counted in the first pass"
        is_due = judged or moments.observed == -inf
        refused = refusal(moments.at(slice(1, None)), self._census, self.label_name) if is_due else None
        return refused or in_log_beta(moments if len(moments.betas) == 1 else moments.at(slice(1)))

    def _gaps_at(self, roots: Mapping[int, Root]) -> tuple[GapSums | None, bool]:
        """The gaps of the last pass, continued to the roots, and whether squares of gaps are accurate there."""
        if not roots or self._gaps is None:
            return None, True
        measured = list(self._places)
        near = self._gaps.subset([measured.index(i) for i in roots])
        gaps, shares = near.extrapolate_to([exp(root.x) for root in roots.values()])
        bends = (root.point.bend(root.x - self._places[i]) for i, root in roots.items())
        return gaps, all(share**0.5 * bend <= _CARRIED for share, bend in zip(shares.tolist(), bends, strict=True))


class SampleAnswers(NamedTuple):
    """Log β for observables with a root in a sample, by position, and how often its rows were read."""

    log_betas: dict[int, float]
    n_passes: int


def search_sample(observables: tuple[Observable, ...], rows: Rows) -> SampleAnswers:
    """Results for some rows to three digits, from a search that starts at the results for a sixteenth of them."""
    size = (rows.n_rows or 0) // _SHARE
    part = rows.sample(size) if size >= _FEWEST else None
    begin = {} if part is None or part is rows else search_sample(observables, part).log_betas
    anywhere = _middle(begin) if begin else _DEFAULT_LOG_BETA
    begin = _merge_close_starts(dict.fromkeys(range(len(observables)), anywhere) | begin, _ROUGHLY_ONE)
    n_passes = 0

    def measure(wanted: Mapping[int, float], _: Roots[int]) -> dict[int, Point | NishimoriError]:
        nonlocal n_passes
        if n_passes == _PASSES_FOR_A_START:
            return {i: NotConvergedError("The sample gives no start.") for i in wanted}
        n_passes += 1
        gaps = rows.gather(Measure(tuple((observables[i], (exp(x),)) for i, x in wanted.items()), exact=False))
        return {i: in_log_beta(moments) for i, moments in zip(wanted, gaps.items, strict=True)}

    roots = drive({i: increasing_root(start, precision=_ROUGH) for i, start in begin.items()}, measure)
    answers = {i: _root_or_error(observables[i], root) for i, root in roots.items()}
    return SampleAnswers({i: root.x for i, root in answers.items() if isinstance(root, Root)}, n_passes)


def _middle(places: Mapping[int, float]) -> float:
    return (min(places.values()) + max(places.values())) / 2


def _merge_close_starts(places: Mapping[int, float], within: float) -> dict[int, float]:
    """Move all places to their middle if they are close enough: one exponential then serves all observables."""
    is_one = max(places.values()) - min(places.values()) <= within
    return dict.fromkeys(places, _middle(places)) if is_one else dict(places)


def in_log_beta(moments: Moments) -> Point:
    """The mean gap and its derivatives in log β."""
    (beta,) = moments.betas
    # One factor after the other: a power of an extreme β would overflow.
    d1, d2, d3, d4 = (
        reduce(mul, [beta] * j, derivative.item() / moments.weight) for j, derivative in enumerate(moments.derivatives, 1)
    )
    return Point(
        value=moments.gap.item(),
        slope=d1,
        curvature=d1 + d2,
        jerk=d1 + 3 * d2 + d3,
        snap=d1 + 7 * d2 + 6 * d3 + d4,
        noise=moments.noise.item(),
    )


def _betas_to_judge(observable: Observable, start: float) -> tuple[float, ...]:
    """Both ends and, unless the mean is known to grow with β, a grid around the start of the search."""
    grid = () if observable._is_monotone else tuple((exp(start) * _GRID).tolist())
    return (0.0, *grid, inf)


def masked_labels_error(census: Census, label_name: str) -> InputError:
    """The error that the true class of some rows is masked."""
    return InputError(
        label_name,
        "not name a masked class for temperature scaling",
        got=f"{census.n_at_masks} samples whose true class has logit -inf: their loss is infinite at every T",
        remedy="Unmask the class, drop those samples, or use the method 'ec', which counts them as misses.",
    )


def refusal(moments: Moments, census: Census, label_name: str) -> NishimoriError | None:
    """Why no temperature can be found by moments at both ends and perhaps between them, or None if one can."""
    if moments.observed == -inf:
        return masked_labels_error(census, label_name)
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
    """Refuse an observable with a mean that falls as T falls, because several temperatures, or none, may then fit."""
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


def _root_or_error(observable: Observable, root: Root | NishimoriError) -> Root | NishimoriError:
    """A root that is precise despite rounding, or the reason why it is rejected."""
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
