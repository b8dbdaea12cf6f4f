"""What two calibrations of the same rows differ by, and whether that is significant.

Scores of the same rows vary together, so the difference of two metrics is much surer than each of them: its error is that of
the mean of the differences row by row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nishimori._evaluation.metrics.metric import Difference, Metric
from nishimori._evaluation.metrics.table import checked_metrics, default_metrics
from nishimori._evaluation.scorecard import Scorecard, card_of, edges_for
from nishimori._evaluation.scores import MetricPlan, PairSums, ScoreSums
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._sums.census import at_zeros, warn_of_zeros
from nishimori._sums.group_tally import GroupTally, TallyGroups
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, predictions_after
from nishimori._sums.reliability import Strategy, check_bins
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.floored import temperature_after_floor
from nishimori.maps.map import Map

MOST_BINS = 1000
"""Bins for which differences are computed: the covariance of their gaps takes 32 MB."""


def compare_maps(
    data: Rows | Sketch,
    maps: Sequence[Map],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    counts: bool = False,
    metrics: tuple[Metric, ...] | None = None,
    zero: float | None = None,
) -> tuple[list[Scorecard], list[dict[str, Difference]]]:
    """A scorecard for each map, and the differences of each map but the first from the first, all from the same passes."""
    pairs = [(0, other) for other in range(1, len(maps))]
    how: dict[str, Any] = {"n_bins": n_bins, "strategy": strategy, "counts": counts, "metrics": metrics, "zero": zero}
    cards, found = differences_of(data, maps, pairs, **how)
    return cards, [found.between(*pair) for pair in pairs]


def differences_of(
    data: Rows | Sketch,
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
    if isinstance(data, Sketch):
        raise InputError(
            "logits",
            ("not be a sketch for paired differences: it keeps sums for each temperature, and not how two vary together"),
            remedy="Pass logits and labels.",
        )
    check_bins(n_bins, strategy)
    if n_bins > MOST_BINS:
        raise InputError("n_bins", f"be at most {MOST_BINS} for differences", got=n_bins)
    plan = MetricPlan(checked_metrics(default_metrics() if metrics is None else metrics, data))
    edges = edges_for(data, tuple(maps), n_bins, strategy)
    found = data.gather(_Compare(tuple(maps), edges, tuple(pairs), plan, counts, tuple(tallies), zero))
    sums, together, changed, groups = (each.items for each in found.items)
    warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
    plan = plan.suited(data.n_classes)
    cards = [card_of(each, temperature_after_floor(map_), plan) for map_, each in zip(maps, sums, strict=True)]
    shares = [weight / own.weight for weight, own in zip(changed, sums, strict=True)]
    return cards, Differences(plan, sums, dict(zip(pairs, together, strict=True)), shares, [each.items for each in groups])


@dataclass(frozen=True)
class Differences:
    """What pairs of maps differ by, computed when it is asked for: p-values of the ECE take as long as ten thousand rows.

    ``changed`` are the weighted shares of rows for which each map predicts another class than the model as it is. ``groups``
    are the sums of groups after each map, a list of them for each tally.
    """

    plan: MetricPlan
    sums: Sequence[ScoreSums]
    pairs: Mapping[tuple[int, int], PairSums]
    changed: Sequence[float]
    groups: Sequence[Sequence[GroupTally]]

    def between(self, first: int, second: int) -> dict[str, Difference]:
        """What the second map differs by from the first, by the name of the metric."""
        return self.pairs[first, second].differences(self.sums[first], self.sums[second], self.plan)

    def in_metric(self, first: int, second: int, metric: str) -> Difference:
        """What the second map differs by from the first in one metric."""
        return self.pairs[first, second].differences(self.sums[first], self.sums[second], self.plan, metric)[metric]


@dataclass(frozen=True, eq=False)
class _Compare:
    """The pass that sums the metrics of each map and of pairs of maps, changed predictions, and groups after each map."""

    maps: tuple[Map, ...]
    edges: tuple[HostArray, ...]
    pairs: tuple[tuple[int, int], ...]
    plan: MetricPlan
    counts: bool
    tallies: tuple[TallyGroups, ...]
    zero: float | None

    def __call__(self, batch: Batch) -> Sums:
        zeros = at_zeros(batch) if self.zero is None else 0
        plan = self.plan.suited(batch.n_classes)
        found = list(predictions_after(self.maps, self.edges, batch, counts=self.counts, zero=self.zero))
        rows = [plan.rows(each) for each in found]
        sums = Sums(tuple(ScoreSums.of(each, own, plan, zeros) for each, own in zip(found, rows, strict=True)))
        pairs = Sums(tuple(PairSums.of(found[a], found[b], (rows[a], rows[b]), plan) for a, b in self.pairs))
        changed = Sums(tuple(_changed_weight(map_, each, batch) for map_, each in zip(self.maps, found, strict=True)))
        groups = (Sums(tuple(tally.sums_of(each.gibbs) for each in found)) for tally in self.tallies)
        return Sums((sums, pairs, changed, Sums(tuple(groups))))


def _changed_weight(map_: Map, predictions: Predictions, batch: Batch) -> float:
    """The weight of the rows for which another class is predicted after a map than before it."""
    if map_.keeps_predictions:
        return 0.0
    # Before the map the rows are those of the batch: of equal maxima both take the first.
    return batch.total(batch.xp.astype(predictions.gibbs.predicted != batch.top, batch.weights.dtype))
