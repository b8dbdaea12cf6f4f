"""What two calibrations of the same rows differ by, and whether that is significant.

Scores of the same rows vary together, so the difference of two metrics is much surer than each of them: its error is that of
the mean of the differences row by row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import permutations
from typing import Any

import numpy as np

from nishimori._evaluation.group_gaps import GroupGaps, gaps_in, names_of_groups, tally_of
from nishimori._evaluation.metrics.metric import Difference, Metric
from nishimori._evaluation.metrics.table import checked_metrics, default_metrics
from nishimori._evaluation.scorecard import MetricPlan, Scorecard, ScoreSums, cards_of, edges_for
from nishimori._rows.batch import Batch
from nishimori._rows.labels import Classes
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.census import at_zeros, warn_of_zeros
from nishimori._sums.groups import By, GroupTally, TallyGroups
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, predictions_after
from nishimori._sums.reliability import Strategy, check_bins
from nishimori._sums.spread import spread
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError
from nishimori.maps.map import Map

MOST_BINS = 1000
"""Bins for which differences are computed: the covariance of their gaps takes 32 MB."""


def compare_maps(data: Rows, maps: Sequence[Map], **how: Any) -> tuple[list[Scorecard], list[dict[str, Difference]]]:
    """A scorecard for each map, and the differences of each map but the first from the first, all from the same passes.

    ``how`` is as for `differences_of`.
    """
    pairs = [(0, other) for other in range(1, len(maps))]
    cards, differences = differences_of(data, maps, pairs, **how)
    return cards, [differences.between(*pair) for pair in pairs]


@dataclass(frozen=True)
class MeasuredMaps:
    """What was measured after each of several maps, by their names, as far as the data tell.

    ``differences`` are None where it is not known how two maps vary together; ``gaps`` are those of predicted classes and of
    groups. ``caveat`` says what the data do not tell; empty if there is nothing.
    """

    cards: Mapping[str, Scorecard]
    differences: "Differences | None" = None
    gaps: Mapping[By, Mapping[str, GroupGaps]] = field(default_factory=dict)
    caveat: str = ""

    def difference(self, first: str, second: str, metric: str) -> Difference | None:
        """What the second map differs by from the first in one metric; None where that is not known."""
        places = list(self.cards)
        return (
            None if self.differences is None else self.differences.in_metric(places.index(first), places.index(second), metric)
        )


@question("has no rows to compare methods on")
def measure_maps(data: Rows, /, maps: Mapping[str, Map], classes: Classes, level: float, **how: Any) -> MeasuredMaps:
    """Measure all that `compare` shows after each map, in one pass; ``how`` is as for `differences_of`."""
    names: dict[By, list[Any]] = {"prediction": names_of_groups(data, "prediction", classes)}
    if data.groups is not None:
        names["groups"] = names_of_groups(data, "groups", None)
    tallies = [tally_of(data, by, own, counts=how["counts"]) for by, own in names.items()]
    pairs = list(permutations(range(len(maps)), 2))
    cards, differences = differences_of(data, list(maps.values()), pairs, tallies=tallies, **how)
    gaps = {
        by: {name: gaps_in(by, own, sums, level) for name, sums in zip(maps, after, strict=True)}
        for (by, own), after in zip(names.items(), differences.groups, strict=True)
    }
    return MeasuredMaps(dict(zip(maps, cards, strict=True)), differences, gaps)


@question("has no report")
def absent_parts(data: Rows) -> list[dict[str, str]]:  # noqa: ARG001 - rows have all parts
    """List what a report does not have of these data, as ``what``, and ``why``."""
    return []


@question("does not tell how two calibrations vary together")
def differences_of(
    data: Rows,
    maps: Sequence[Map],
    pairs: Sequence[tuple[int, int]],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    counts: bool = False,
    tallies: Sequence[TallyGroups] = (),
    metrics: tuple[Metric, ...] | None = None,
    zero: float | None = None,
) -> tuple[list[Scorecard], "Differences"]:
    """A scorecard for each map, and what the second of each pair of places differs by from the first, all from one pass.

    With ``tallies`` the sums of groups of rows after each map come from the same pass. ``zero`` replaces probabilities of 0 in
    losses, where a floor is known; otherwise these are arbitrary, and a warning says so.
    """
    check_bins(n_bins, strategy)
    if n_bins > MOST_BINS:
        raise InputError("n_bins", f"be at most {MOST_BINS} for differences", got=n_bins)
    plan = MetricPlan(checked_metrics(default_metrics() if metrics is None else metrics, data))
    edges = edges_for(data, tuple(maps), n_bins, strategy)
    gathered = data.gather(partial(_compare, tuple(maps), edges, tuple(pairs), plan, counts, tuple(tallies), zero))
    sums, together, changed, groups = (part.items for part in gathered.items)
    warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
    plan = plan.suited(data.n_classes)
    cards = cards_of(sums, maps, plan)
    shares = [weight / own.weight for weight, own in zip(changed, sums, strict=True)]
    return cards, Differences(plan, sums, dict(zip(pairs, together, strict=True)), shares, [group.items for group in groups])


@dataclass(frozen=True)
class Differences:
    """What pairs of maps differ by, computed when it is asked for: p-values of the ECE take as long as ten thousand rows.

    ``changed`` are the weighted shares of rows for which each map predicts another class than the model as it is. ``groups``
    are the sums of groups after each map, a list of them for each tally.
    """

    plan: MetricPlan
    sums: Sequence[ScoreSums]
    pairs: Mapping[tuple[int, int], Sums]
    changed: Sequence[float]
    groups: Sequence[Sequence[GroupTally]]
    _computed: dict[tuple[int, int, str], Difference] = field(default_factory=dict, repr=False)

    def between(self, first: int, second: int) -> dict[str, Difference]:
        """What the second map differs by from the first, by the name of the metric."""
        return {metric.label: self.in_metric(first, second, metric.label) for metric in self.plan.metrics}

    def in_metric(self, first: int, second: int, metric: str) -> Difference:
        """What the second map differs by from the first in one metric."""
        if (first, second, metric) not in self._computed:
            chosen = next(own for own in self.plan.metrics if own.label == metric)
            mine, theirs = self._by_metric[first][chosen], self._by_metric[second][chosen]
            pair, alone = self._by_pair(first, second)[chosen], self.sums[first].n_rows == 1
            self._computed[first, second, metric] = chosen.difference(mine, theirs, pair, alone=alone)
        return self._computed[first, second, metric]

    @cached_property
    def _by_metric(self) -> list[dict[Metric, Any]]:
        """What each metric is made of after each map."""
        return [own.by_metric(self.plan) for own in self.sums]

    def _by_pair(self, first: int, second: int) -> dict[Metric, Any]:
        """What tells of each metric how both maps vary together."""
        before, after, (together, kept) = self.sums[first], self.sums[second], self.pairs[first, second].items
        with np.errstate(invalid="ignore"):  # two infinite losses
            errors = np.sqrt(together.around(after.means - before.means)) / before.weight
        columns, own = dict(zip(self.plan.columns, errors.tolist(), strict=True)), iter(kept.items)
        return {metric: columns[metric.key] if metric.is_mean else next(own) for metric in self.plan.metrics}


def _sum_pair(first: Predictions, second: Predictions, rows: tuple[Sequence[Array], Sequence[Array]], plan: MetricPlan) -> Sums:
    """Sum how the metrics of two maps vary together: the spread of differences per row, and what metrics keep of their own."""
    with np.errstate(invalid="ignore"):  # two infinite losses
        differences = [b - a for a, b in zip(*rows, strict=True)]
    kept = tuple(metric.pair(first, second) for metric in plan.metrics if not metric.is_mean)
    return Sums((spread(first.batch, differences, counts=first.counts), Sums(kept)))


def _compare(
    maps: tuple[Map, ...],
    edges: tuple[HostArray, ...],
    pairs: tuple[tuple[int, int], ...],
    plan: MetricPlan,
    counts: bool,
    tallies: tuple[TallyGroups, ...],
    zero: float | None,
    batch: Batch,
) -> Sums:
    """Sum the metrics of each map and of pairs of maps, changed predictions, and groups after each map over a batch."""
    zeros = at_zeros(batch) if zero is None else 0
    plan = plan.suited(batch.n_classes)
    predictions = list(predictions_after(maps, edges, batch, counts=counts, zero=zero))
    rows = [plan.rows(after) for after in predictions]
    sums = (ScoreSums.from_predictions(after, own, plan, zeros) for after, own in zip(predictions, rows, strict=True))
    together = (_sum_pair(predictions[a], predictions[b], (rows[a], rows[b]), plan) for a, b in pairs)
    changed = (_changed_weight(map_, after, batch) for map_, after in zip(maps, predictions, strict=True))
    groups = (Sums(tuple(tally.sums_of(after) for after in predictions)) for tally in tallies)
    return Sums(tuple(Sums(tuple(part)) for part in (sums, together, changed, groups)))


def _changed_weight(map_: Map, predictions: Predictions, batch: Batch) -> float:
    """The weight of the rows for which another class is predicted after a map than before it."""
    if map_.keeps_predictions:
        return 0.0
    # Before the map the rows are those of the batch: of equal maxima both take the first.
    return batch.total(batch.xp.astype(predictions.top_class != batch.top, batch.weights.dtype))
