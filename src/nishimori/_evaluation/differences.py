"""What two calibrations of the same rows differ by, and whether that is more than chance.

Scores of the same rows vary together, so the difference of two metrics is much surer than each of them: its error is that of
the mean of the differences row by row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan

import numpy as np

from nishimori._evaluation.ece_difference import EceDifference
from nishimori._evaluation.scorecard import Scorecard, card_of, edges_for
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._sums.census import at_zeros, warn_of_zeros
from nishimori._sums.group_tally import GroupTally, TallyGroups
from nishimori._sums.passes import Sums
from nishimori._sums.reliability import Strategy, check_bins
from nishimori._sums.scores import SCORES, ClusterGapSpread, Scored, ScoreSums, score_after_maps
from nishimori._sums.sketch.sketch import Sketch
from nishimori._sums.spread import ClusterSpread, Spread, spread, unit_weights
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, interval_around, two_sided
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of

MOST_BINS = 1000
"""Bins for which differences are computed: the covariance of their gaps takes 32 MB."""


@dataclass(frozen=True)
class Difference:
    """A metric of the second calibration minus that of the first.

    Attributes
    ----------
    value : float
        The difference; negative if the second is lower.
    se : float or None
        Its standard error; None if it is not known.
    p_value : float or None
        How probable a difference of either sign of at least this size is if there is none.
    """

    value: float
    se: float | None
    p_value: float | None
    ece: EceDifference | None = field(default=None, repr=False, compare=False)

    def interval(self, level: float = 0.95) -> Interval:
        """The differences that the data leave possible, as a named tuple (low, high).

        Parameters
        ----------
        level : float
            How often such an interval contains the difference of infinitely many samples, between 0 and 1.
        """
        if self.ece is not None:
            return self.ece.interval(level)
        if self.se is None:
            raise InputError(
                "`interval` needs the standard error of the difference, which is not known: there is only one sample, or the "
                "loss is infinite because a true class is masked."
            )
        return interval_around(self.value, self.se, level)


def compare_maps(
    data: Rows | Sketch, maps: Sequence[Map], *, n_bins: int = 15, strategy: Strategy = "uniform", counts: bool = False
) -> tuple[list[Scorecard], list[dict[str, Difference]]]:
    """A scorecard for each map, and the differences of each map but the first from the first, all from the same readings."""
    pairs = [(0, other) for other in range(1, len(maps))]
    cards, found = differences_of(data, maps, pairs, n_bins=n_bins, strategy=strategy, counts=counts)
    return cards, [found.between(*pair) for pair in pairs]


def differences_of(
    data: Rows | Sketch,
    maps: Sequence[Map],
    pairs: Sequence[tuple[int, int]],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    counts: bool = False,
    tally: TallyGroups | None = None,
) -> tuple[list[Scorecard], "Differences"]:
    """A scorecard for each map, and what the second of each pair of places differs by from the first, all from one reading.

    With ``tally`` the sums of groups of rows after each map come from the same reading.
    """
    if isinstance(data, Sketch):
        raise InputError(
            "logits",
            ("not be a sketch for paired differences: it keeps sums for each temperature, and not how two vary together"),
            remedy="Pass logits and labels.",
        )
    check_bins(n_bins, strategy)
    if n_bins > MOST_BINS:
        raise InputError("n_bins", f"be at most {MOST_BINS} for differences", got=n_bins)
    edges = edges_for(data, tuple(maps), n_bins, strategy)
    sums, together, groups = (
        each.items for each in data.gather(_Compare(tuple(maps), edges, tuple(pairs), counts, tally)).items
    )
    warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
    cards = [card_of(each, temperature_of(map_)) for map_, each in zip(maps, sums, strict=True)]
    return cards, Differences(sums, dict(zip(pairs, together, strict=True)), groups)


@dataclass(frozen=True)
class Differences:
    """What pairs of maps differ by, computed when it is asked for: p-values take as long as ten thousand rows.

    ``groups`` are the sums of groups after each map, if they were wanted.
    """

    sums: Sequence[ScoreSums]
    pairs: Mapping[tuple[int, int], "_Pair"]
    groups: Sequence[GroupTally]

    def between(self, first: int, second: int) -> dict[str, Difference]:
        """What the second map differs by from the first, by the name of the metric."""
        return self.pairs[first, second].differences(self.sums[first], self.sums[second])


@dataclass(frozen=True)
class _Pair:
    """How the scores of two maps vary together: the spread of their differences, and products of gaps per pair of bins."""

    spread: Spread | ClusterSpread
    products: HostArray | None

    @classmethod
    def of(cls, first: Scored, second: Scored, *, counts: bool) -> "_Pair":
        """The sums of two maps together over the rows of a batch."""
        batch = first.batch
        with np.errstate(invalid="ignore"):  # two infinite losses
            rows = [b - a for a, b in zip(first.rows, second.rows, strict=True)]
        found = spread(batch, rows, counts=counts)
        if batch.clusters is not None:
            return cls(found, None)  # the gaps of each cluster, which are kept for both maps, tell
        n_bins = first.edges.shape[1] - 1
        places = first.claims.places[:, 0] * n_bins + second.claims.places[:, 0]
        products = unit_weights(batch, counts=counts) * first.misses * second.misses
        return cls(found, np.bincount(places, products, n_bins**2).reshape(n_bins, n_bins))

    def __add__(self, other: "_Pair") -> "_Pair":
        products = None if self.products is None or other.products is None else self.products + other.products
        return _Pair(self.spread + other.spread, products)  # type: ignore[operator]

    def differences(self, first: ScoreSums, second: ScoreSums) -> dict[str, Difference]:
        """Second minus first, by the name of the metric."""
        with np.errstate(invalid="ignore"):
            values = second.means - first.means
            errors = np.sqrt(self.spread.around(values)) / first.weight
        alone = first.n_rows == 1
        rows = zip(SCORES, values.tolist(), errors.tolist(), strict=True)
        found = {name: _difference(value, nan if alone else error) for name, value, error in rows}
        ece = EceDifference(first.gaps, second.gaps, self._covariance_of_gaps(first, second))
        if alone:
            found["ece"] = Difference(ece.value, None, None)
        elif found["confidence"].se == 0 and np.array_equal(ece.first.gaps, ece.second.gaps):  # the maps do the same
            found["ece"] = Difference(0.0, 0.0, 1.0)
        else:
            found["ece"] = Difference(ece.value, ece.se, ece.p_value, ece)
        return found

    def _covariance_of_gaps(self, first: ScoreSums, second: ScoreSums) -> HostArray:
        """The covariance of the gaps of both maps."""
        mine, theirs, products = first.gaps, second.gaps, self.products
        if products is None:
            assert isinstance(first.gap_spread, ClusterGapSpread), "which rows without clusters do not have"
            assert isinstance(second.gap_spread, ClusterGapSpread), "which rows without clusters do not have"
            products = first.gap_spread.gaps.values @ second.gap_spread.gaps.values.T
        mixed = np.outer(mine.gaps, theirs.crossed) + np.outer(mine.crossed, theirs.gaps)
        found: HostArray = products / first.weight**2 - mixed + mine.squares * np.outer(mine.gaps, theirs.gaps)
        return found


def _difference(value: float, error: float) -> Difference:
    """A difference whose error is normal; one that is not finite is not known."""
    if not isfinite(error) or not isfinite(value):
        return Difference(value, None, None)
    if error == 0:
        return Difference(value, 0.0, 1.0 if value == 0 else 0.0)
    return Difference(value, error, two_sided(value / error))


@dataclass(frozen=True, eq=False)
class _Compare:
    """The pass that sums the scores of each map, of pairs of maps together and, if wanted, of groups after each map."""

    maps: tuple[Map, ...]
    edges: tuple[HostArray, ...]
    pairs: tuple[tuple[int, int], ...]
    counts: bool
    tally: TallyGroups | None

    def __call__(self, batch: Batch) -> Sums:
        zeros = at_zeros(batch)
        scored = list(score_after_maps(self.maps, self.edges, batch))
        sums = Sums(tuple(ScoreSums.of(each, zeros, counts=self.counts) for each in scored))
        pairs = Sums(tuple(_Pair.of(scored[a], scored[b], counts=self.counts) for a, b in self.pairs))
        groups = () if self.tally is None else (self.tally.sums_of(each.gibbs) for each in scored)
        return Sums((sums, pairs, Sums(tuple(groups))))
