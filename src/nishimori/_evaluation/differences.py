"""Measure how two calibrations of the same rows differ, and whether the differences are significant.

Scores of the same rows vary together, so the difference of two metrics is much surer than each of them: its error is that of
the mean of the differences row by row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import permutations
from typing import Any

import numpy as np

from nishimori._evaluation.group_gaps import GroupGaps, gaps_in, tally_of
from nishimori._evaluation.metrics.metric import Difference, Metric
from nishimori._evaluation.metrics.table import checked_metrics
from nishimori._evaluation.scorecard import Scorecard, ScoreSums, cards_of, edges_for, rows_of, suited
from nishimori._rows.batch import Batch
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.census import at_zeros, warn_of_zeros
from nishimori._sums.groups import By, TallyGroups
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, predictions_after
from nishimori._sums.reliability import Strategy, check_bins
from nishimori._sums.spread import spread
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError
from nishimori.maps.map import Map

MOST_BINS = 1000
"""The most bins for which differences are computed: the covariance of their gaps takes 32 MB."""


@dataclass(frozen=True)
class MeasuredMaps:
    """Measurements after each of several maps, by name, as far as the data allow.

    ``gaps`` are those of predicted classes and of groups. ``changed`` are the weighted shares of rows for which a map predicts
    another class than the model as it is. ``caveat`` says what the data do not tell; empty if there is nothing. Differences are
    made of ``sums`` after each map and of ``pairs`` of maps, and computed when they are asked for: p-values of the ECE take as
    long as ten thousand rows.
    """

    cards: Mapping[str, Scorecard]
    gaps: Mapping[By, Mapping[str, GroupGaps]] = field(default_factory=dict)
    changed: Mapping[str, float] = field(default_factory=dict)
    caveat: str = ""
    metrics: Sequence[Metric] = field(default=(), repr=False)
    sums: Mapping[str, ScoreSums] = field(default_factory=dict, repr=False)
    pairs: Mapping[tuple[str, str], Sums] = field(default_factory=dict, repr=False)
    _computed: dict[tuple[str, str, str], Difference] = field(default_factory=dict, repr=False)

    def differences(self, first: str, second: str) -> dict[str, Difference]:
        """Second map minus first, by the name of the metric; empty if that is not known."""
        named = {metric.label: self.difference(first, second, metric.label) for metric in self.metrics}
        return {name: difference for name, difference in named.items() if difference is not None}

    def difference(self, first: str, second: str, metric: str) -> Difference | None:
        """Second map minus first in one metric; None if that is not known."""
        key = first, second, metric
        if key not in self._computed and (first, second) in self.pairs:
            chosen = next(own for own in self.metrics if own.label == metric)
            mine, theirs = self._by_metric[first][chosen], self._by_metric[second][chosen]
            pair, alone = self._by_pair(first, second)[chosen], self.sums[first].n_rows == 1
            self._computed[key] = chosen.difference(mine, theirs, pair, alone=alone)
        return self._computed.get(key)

    @cached_property
    def _by_metric(self) -> dict[str, dict[Metric, Any]]:
        """The sums that each metric is computed from, after each map."""
        return {name: own.by_metric(self.metrics) for name, own in self.sums.items()}

    def _by_pair(self, first: str, second: str) -> dict[Metric, Any]:
        """For each metric, the sums that show how both maps vary together."""
        before, after, (together, kept) = self.sums[first], self.sums[second], self.pairs[first, second].items
        with np.errstate(invalid="ignore"):  # two infinite losses
            errors = np.sqrt(together.around(after.means - before.means)) / before.weight
        means, others = iter(errors.tolist()), iter(kept.items)
        return {metric: next(means) if metric.is_mean else next(others) for metric in self.metrics}


@question("has no rows to compare methods on")
def measure_maps(
    data: Rows,
    maps: Mapping[str, Map],
    *,
    pairs: Sequence[tuple[str, str]] | None = None,
    groups: Mapping[By, Sequence[Any]] | None = None,
    level: float = 0.95,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    metrics: tuple[Metric, ...] | None = None,
    zero: float | None = None,
) -> MeasuredMaps:
    """Measure scorecards after each map, differences within each pair of maps, and gaps, in one pass.

    All pairs are measured by default. ``groups`` has the names of the groups whose gaps are measured, by what makes a group;
    ``level`` is that of these gaps. ``zero`` replaces probabilities of 0 in losses, where a floor is known; otherwise these are
    arbitrary, and a warning says so.
    """
    check_bins(n_bins, strategy)
    if n_bins > MOST_BINS:
        raise InputError("n_bins", f"be at most {MOST_BINS} for differences", got=n_bins)
    pairs, groups = list(permutations(maps, 2)) if pairs is None else pairs, groups or {}
    wanted = checked_metrics(metrics, data)
    edges = edges_for(data, tuple(maps.values()), n_bins, strategy)
    tallies = tuple(tally_of(data, by, names) for by, names in groups.items())
    gathered = data.gather(partial(_compare, maps, edges, pairs, wanted, data.counts, tallies, zero))
    sums, together, changed, tallied = (part.items for part in gathered.items)
    warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
    wanted = suited(wanted, data.n_classes)
    return MeasuredMaps(
        cards=dict(zip(maps, cards_of(sums, tuple(maps.values()), wanted, data), strict=True)),
        gaps={
            by: {name: gaps_in(by, names, own, level) for name, own in zip(maps, after.items, strict=True)}
            for (by, names), after in zip(groups.items(), tallied, strict=True)
        },
        changed={name: weight / own.weight for name, weight, own in zip(maps, changed, sums, strict=True)},
        metrics=wanted,
        sums=dict(zip(maps, sums, strict=True)),
        pairs=dict(zip(pairs, together, strict=True)),
    )


@question("has no report")
def absent_parts(data: Rows) -> list[dict[str, str]]:  # noqa: ARG001 - rows have all parts
    """List what a report lacks for these data, each with ``what`` and ``why``."""
    return []


def _sum_pair(
    first: Predictions, second: Predictions, rows: tuple[Sequence[Array], Sequence[Array]], metrics: Sequence[Metric]
) -> Sums:
    """Sum how the metrics of two maps vary together: the spread of differences per row, and the metrics' own sums."""
    with np.errstate(invalid="ignore"):  # two infinite losses
        differences = [b - a for a, b in zip(*rows, strict=True)]
    kept = tuple(metric.pair(first, second) for metric in metrics if not metric.is_mean)
    return Sums((spread(first.batch, differences, counts=first.counts), Sums(kept)))


def _compare(
    maps: Mapping[str, Map],
    edges: tuple[HostArray, ...],
    pairs: Sequence[tuple[str, str]],
    metrics: tuple[Metric, ...],
    counts: bool,
    tallies: tuple[TallyGroups, ...],
    zero: float | None,
    batch: Batch,
) -> Sums:
    """Sum the metrics of each map and of pairs of maps, changed predictions, and groups after each map over a batch."""
    zeros = at_zeros(batch) if zero is None else 0
    metrics = suited(metrics, batch.n_classes)
    after_each = predictions_after(tuple(maps.values()), edges, batch, counts=counts, zero=zero)
    predictions = dict(zip(maps, after_each, strict=True))
    rows = {name: rows_of(metrics, after) for name, after in predictions.items()}
    sums = (ScoreSums.from_predictions(after, rows[name], metrics, zeros) for name, after in predictions.items())
    together = (_sum_pair(predictions[a], predictions[b], (rows[a], rows[b]), metrics) for a, b in pairs)
    changed = (_changed_weight(maps[name], after, batch) for name, after in predictions.items())
    groups = (Sums(tuple(map(tally.sums_of, predictions.values()))) for tally in tallies)
    return Sums(tuple(Sums(tuple(part)) for part in (sums, together, changed, groups)))


def _changed_weight(map_: Map, predictions: Predictions, batch: Batch) -> float:
    """The weight of the rows for which a map changes the predicted class."""
    if map_.keeps_predictions:
        return 0.0
    # Before the map the rows are those of the batch: of equal maxima both take the first.
    return batch.total(batch.xp.astype(predictions.top_class != batch.top, batch.weights.dtype))
