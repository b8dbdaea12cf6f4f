"""The search for the temperature at which the model's mean of an observable equals the labels', or why there is none.

Expectation consistency and temperature scaling are one search with two observables. It starts at the answer of a small random
sample of the rows. One reading at that β then gives each row as a function of β, in which both temperatures are found without
reading the logits again; if they turn out to be too far away, or the rows are too many to keep, the search reads on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import NamedTuple

from nishimori._fit.expansion import Expand, Expansion
from nishimori._fit.match import Match
from nishimori._fit.readings import LastGaps, Readings, in_log_beta, measure_at, refusal
from nishimori._fit.row_means import CompareRows
from nishimori._fit.starts import (
    ANYWHERE,
    MANY,
    answers_from,
    answers_of,
    every_so_many,
    known,
    middle,
    numbers,
    sample_of,
    some_of,
)
from nishimori._rows.labels import check_number_of_clusters
from nishimori._rows.source import Source, applied, counts_of_clusters, has_clusters, refuse_counted_clusters
from nishimori._sums.census import Census
from nishimori._sums.observables import Confidence, Energy, Observable, TopN
from nishimori._sums.passes import Sums
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support.roots import Point, Root, drive, increasing_root
from nishimori.errors import InputError, NishimoriError, NotConvergedError

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
    data: Source | Sketch,
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
    found = _matched(data, observables, right, starts, label_name)
    refuse_counted_clusters(data, counts=counts)
    if has_clusters(data) or not found.has_squares:
        return found.at_roots(data, counts=counts)
    return found.with_counts() if counts else found


def _matched(
    data: Source,
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

    def __init__(self, data: Source, observables: Sequence[Observable], right: Confidence | TopN, label_name: str) -> None:
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
        return self.is_paired and self.readings.count.follows_fused and getattr(self.data, "sums_at_once", False)

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

    def is_precise(self, found: Match, sample: Source | None = None) -> bool:
        """Whether a search was in float64, or float32 was precise enough, also on a ``sample`` if one is given."""
        if self.exact:
            return True
        roots = {i: root for i, root in enumerate(found.roots) if isinstance(root, Root)}
        many_decide = all(map(_is_precise, roots.values()))
        return many_decide and (sample is None or not roots or self.is_single_enough(sample, roots))

    def again(self, begin: Mapping[int, float], found: Match) -> Match:
        """Search again in float64, from what was found."""
        self.exact = True
        return self.by_reading(dict(begin) | known(dict(enumerate(found.roots))))

    def sums_agree(self, rows: Source, places: Mapping[int, float]) -> bool:
        """Whether float32 and float64 have the same mean gaps on some of ``rows``, without a number per row."""
        some = rows.every(max(1, (rows.n_rows or 0) // _telling(rows))) or rows
        single, double = (some.gather(measure_at(self.observables, places, exact=exact)).items for exact in (False, True))
        return all(
            abs(rough.gap[0] - precise.gap[0]) <= _PROMISED / 2 * abs(in_log_beta(precise).slope)
            for rough, precise in zip(single, double, strict=True)
        )

    def is_single_enough(self, rows: Source, roots: Mapping[int, Root]) -> bool:
        """Whether float32 and float64 agree on some of ``rows``, as exactly as a temperature is promised."""
        places = {i: root.x if self.expanded_at is not None else self.readings.measured_at[i] for i, root in roots.items()}
        measured = tuple((self.observables[i], exp(x)) for i, x in places.items())
        distances = applied(rows, _Rounding(measured, self.expanded_at, self.data.n_rows or inf))
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
        found, self.readings.census = self.readings.concluded((_joined, search), expand, self.readings.count)
        if found.gaps is None:
            return self.by_reading(dict(begin) | known(found.roots))
        self.expanded_at = middle(begin)
        return self._match(found.roots, found.gaps)

    def _match(self, roots: Mapping[int, Root | NishimoriError], gaps: LastGaps) -> Match:
        assert self.readings.census is not None, "the first answer to a search counts the rows"
        if not self.exact:
            roots = {i: _with_rounding(root) for i, root in roots.items()}
        found = tuple(_determined(observable, roots[i]) for i, observable in enumerate(self.observables))
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

    def __call__(self, rows: Source) -> list[float]:
        some = some_of(rows, _telling(rows))
        is_part = (some.n_rows or 0) < self.n_rows
        errors = some.gather(CompareRows(self.measured, self.expanded_at))
        return [errors.distance(i, is_part=is_part) for i in range(len(self.measured))]


def _joined(sums: Sums) -> Sums:
    """The same sums with the expanded rows in few parts."""
    rows, census = sums.items
    return Sums((rows.joined(), census))


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
        gaps = self.rows.gather(measure_at(self.observables, near))
        self.gaps.add(near, gaps)
        return points | {i: in_log_beta(each) for i, each in zip(near, gaps.items, strict=True)}


def _telling(rows: Source) -> int:
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
    """The same from sums that were made before: nothing is read."""
    if right is not None:
        raise InputError(f"`top_n` must be 1 for a sketch, which counts right answers of the top class, got {right.n}.")
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
