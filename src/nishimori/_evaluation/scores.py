"""The sums behind scorecards, from one pass: what each metric is made of, after each of several maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite, isnan
from typing import Any

import numpy as np

from nishimori._evaluation.metrics.metric import Difference, Estimate, Metric
from nishimori._evaluation.metrics.resampling import KeptOutcomes
from nishimori._kernels.scores import SCORES, ScoreTotals, score_totals, sums_blocks, sums_scores
from nishimori._rows.batch import Batch
from nishimori._sums.census import at_zeros
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import POSITIVE_EDGES, BinSums, Predictions, inverse_temperatures, predictions_after
from nishimori._sums.reliability import inner_edges
from nishimori._sums.spread import ClusterSpread, Spread, spread
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError
from nishimori.maps.map import Map

ONE_SAMPLE = "there is only one sample."
"""Why nothing of one sample has a standard error."""


@dataclass(frozen=True, eq=False)
class MetricPlan:
    """Which metrics are measured, and from which sums: numbers per row are summed once for all metrics that have the same."""

    metrics: tuple[Metric, ...]

    @cached_property
    def _by_classes(self) -> "dict[int, MetricPlan]":
        return {}

    def suited(self, n_classes: int) -> "MetricPlan":
        """The plan without metrics for another number of classes, which is known once rows are read."""
        if n_classes not in self._by_classes:
            left = tuple(each for each in self.metrics if each.suits(n_classes))
            self._by_classes[n_classes] = self if left == self.metrics else MetricPlan(left)
        return self._by_classes[n_classes]

    @cached_property
    def of_rows(self) -> list[Metric]:
        """A metric for each column of numbers per row."""
        first: dict[Any, Metric] = {}
        for each in self.metrics:
            if each.kind == "of_rows":
                first.setdefault(each.key, each)
        return list(first.values())

    @cached_property
    def columns(self) -> dict[Any, int]:
        """The places of the numbers per row, by what tells them apart."""
        return {each.key: place for place, each in enumerate(self.of_rows)}

    @cached_property
    def of_sums(self) -> list[Metric]:
        """The metrics that have sums of their own: not those per bin, which every scorecard has."""
        return [each for each in self.metrics if each.kind == "sums" and not each.of_bins]

    @cached_property
    def keeps_outcomes(self) -> bool:
        """Whether some metric is a function of all outcomes, which are kept once for all of them."""
        return any(each.kind == "of_outcomes" for each in self.metrics)

    @cached_property
    def has_positive(self) -> bool:
        """Whether some metric is made of bins of the probability of the second of two classes."""
        return any(each.of_bins == "positive" for each in self.metrics)

    @cached_property
    def score_places(self) -> list[int] | None:
        """The places of the numbers per row among a kernel's `SCORES`; None if these are not all that is measured."""
        known = [each.score for each in self.of_rows if each.score is not None]
        if len(known) < len(self.of_rows) or self.of_sums or self.keeps_outcomes:
            return None
        return [SCORES.index(each) for each in known]

    def rows(self, predictions: Predictions) -> list[Array]:
        """The numbers per row."""
        return [each.rows(predictions) for each in self.of_rows]

    def own_sums(self, predictions: Predictions) -> Sums:
        """The sums that metrics have of their own."""
        kept = [KeptOutcomes.of(predictions)] if self.keeps_outcomes else []
        return Sums((*(each.summed(predictions) for each in self.of_sums), *kept))


@dataclass(frozen=True)
class ScoreSums:
    """The sums of some rows after a map; those of other rows add."""

    n_rows: int
    n_at_zeros: int
    weight: float
    totals: HostArray
    spread: Spread | ClusterSpread
    binned: BinSums
    positive: Sums  # those per bin of the second of two classes, where some metric needs them
    own: Sums

    @classmethod
    def of(cls, predictions: Predictions, rows: Sequence[Array], plan: MetricPlan, n_at_zeros: int) -> "ScoreSums":
        """The sums of a batch after a map; ``n_at_zeros`` rows gave probability zero to their true class."""
        batch = predictions.batch
        totals = batch.totals(rows)
        for metric, total in zip(plan.of_rows, totals.tolist(), strict=True):
            if isnan(total):
                name = f"{type(metric).__name__}.of_rows"
                raise InputError(name, "return numbers for all rows", got="NaN, or infinities of both signs")
        return cls(
            n_rows=batch.n_rows,
            n_at_zeros=n_at_zeros,
            weight=batch.weight,
            totals=totals,
            spread=spread(batch, rows, counts=predictions.counts),
            binned=predictions.binned,
            positive=Sums((predictions.positive.binned,) if plan.has_positive else ()),
            own=plan.own_sums(predictions),
        )

    @classmethod
    def of_totals(cls, found: ScoreTotals, edges: HostArray, places: list[int]) -> "ScoreSums":
        """From the sums of a kernel over independent rows; ``places`` are those of the scores that are measured."""
        positive = [] if found.positive is None else [BinSums.of_totals(POSITIVE_EDGES, found.positive, found.units)]
        return cls(
            n_rows=found.n_rows,
            n_at_zeros=0,
            weight=found.weight,
            totals=found.totals[places],
            spread=Spread(found.units, found.means[places], found.scatter[places]),
            binned=BinSums.of_totals(edges, found.bins, found.units),
            positive=Sums(tuple(positive)),
            own=Sums(()),
        )

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        return ScoreSums(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def means(self) -> HostArray:
        return self.totals / self.weight

    @property
    def errors(self) -> HostArray:
        """The standard error of each mean; NaN for an infinite one."""
        with np.errstate(invalid="ignore"):
            found: HostArray = np.sqrt(self.spread.around(self.means)) / self.weight
            return found

    def sums_of(self, metric: Metric, plan: MetricPlan) -> Any:
        """What a metric that is not a mean is made of."""
        if metric.of_bins is not None:
            return self.binned if metric.of_bins == "top" else self.positive.items[0]
        return self.own.items[-1 if metric.kind == "of_outcomes" else plan.of_sums.index(metric)]

    def estimates(self, plan: MetricPlan) -> dict[str, Estimate]:
        """Each metric with its standard error, by name."""
        means, errors = self.means.tolist(), self.errors.tolist()
        squares = self.spread.squares / self.weight**2
        found = {}
        for metric in plan.metrics:
            gaps = self.sums_of(metric, plan).gaps if metric.of_bins is not None else None
            why = ""
            if metric.kind == "of_rows":
                place = plan.columns[metric.key]
                value, error = metric.of_mean(means[place]), errors[place]
                if not isfinite(error):
                    error, why = None, metric.why_infinite
            elif metric.kind == "sums":
                value, error = metric.from_sums(self.sums_of(metric, plan))
                why = "" if error is not None else f"{metric.label} has none."
            else:
                kept: KeptOutcomes = self.sums_of(metric, plan)
                value, error = kept.value(metric.of_outcomes), partial(kept.se, metric.of_outcomes, metric.resampling)
            if self.n_rows == 1:
                error, why = None, ONE_SAMPLE
            metric.check_value(float(value))
            kept_sums = self.sums_of(metric, plan) if metric.keeps_sums else None
            found[metric.label] = Estimate(metric, float(value), error, why, squares, gaps, kept_sums)
        return found


@dataclass(frozen=True)
class PairSums:
    """How the metrics of two maps vary together: the spread of differences per row, and what metrics keep of their own."""

    spread: Spread | ClusterSpread
    own: Sums

    @classmethod
    def of(
        cls, first: Predictions, second: Predictions, rows: tuple[Sequence[Array], Sequence[Array]], plan: MetricPlan
    ) -> "PairSums":
        """The sums of two maps together over the rows of a batch."""
        with np.errstate(invalid="ignore"):  # two infinite losses
            differences = [b - a for a, b in zip(*rows, strict=True)]
        kept = tuple(_Optional(each.pair(first, second)) for each in plan.metrics if each.kind == "sums")
        return cls(spread(first.batch, differences, counts=first.counts), Sums(kept))

    def __add__(self, other: "PairSums") -> "PairSums":
        return PairSums(self.spread + other.spread, self.own + other.own)  # type: ignore[operator]

    def differences(
        self, first: ScoreSums, second: ScoreSums, plan: MetricPlan, only: str | None = None
    ) -> dict[str, Difference]:
        """Second minus first, by the name of the metric; ``only`` one of them saves the time of the others."""
        with np.errstate(invalid="ignore"):
            values = second.means - first.means
            errors = np.sqrt(self.spread.around(values)) / first.weight
        before, after = (dict(zip(plan.columns, each.means.tolist(), strict=True)) for each in (first, second))
        alone = first.n_rows == 1
        of_sums = iter(self.own.items)
        found = {}
        for metric in plan.metrics:
            together = next(of_sums).sums if metric.kind == "sums" else None
            if only not in (None, metric.label):
                continue
            if metric.kind == "of_rows":
                old, new = metric.of_mean(before[metric.key]), metric.of_mean(after[metric.key])
                error = np.nan if alone else float(errors[plan.columns[metric.key]])
                found[metric.label] = Difference.normal(new - old, error, max(abs(old), abs(new)))
                continue
            mine, theirs = first.sums_of(metric, plan), second.sums_of(metric, plan)
            if metric.kind == "sums":
                found[metric.label] = metric.difference(mine, theirs, together, alone=alone)
            else:
                value = theirs.value(metric.of_outcomes) - mine.value(metric.of_outcomes)
                error = np.nan if alone else theirs.difference_se(mine, metric.of_outcomes, metric.resampling)
                found[metric.label] = Difference.normal(value, error)
        return found


@dataclass(frozen=True)
class _Optional:
    """Sums that may be missing."""

    sums: Any

    def __add__(self, other: "_Optional") -> "_Optional":
        return self if self.sums is None else _Optional(self.sums + other.sums)


@dataclass(frozen=True, eq=False)
class MeasureScores:
    """The pass that sums what metrics are made of after several maps, one distribution at a time."""

    maps: tuple[Map, ...]
    edges: tuple[HostArray, ...]
    plan: MetricPlan
    counts: bool = False

    def __call__(self, batch: Batch) -> Sums:
        if sums_blocks(batch) and self.reads_unchecked(batch) and (totals := self.of_unchecked(batch)) is not None:
            return totals
        zeros = at_zeros(batch)
        found, plan = predictions_after(self.maps, self.edges, batch, counts=self.counts), self.plan.suited(batch.n_classes)
        return Sums(tuple(ScoreSums.of(each, plan.rows(each), plan, zeros) for each in found))

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether a kernel sums all that is measured, and notices what a check would refuse."""
        if batch.logits.ndim == 1:  # one number for two classes, which a kernel does not read
            return False
        plan = self.plan.suited(batch.n_classes)
        if batch.clusters is not None or plan.score_places is None:
            return False
        betas = inverse_temperatures(self.maps)
        if len(betas) < len(self.maps):
            return False
        n_bins = max((own.shape[1] - 1 for own in self.edges), default=0)
        return sums_scores(batch, betas, n_bins, positive=plan.has_positive)

    @property
    def n_sums(self) -> int:
        """How many times a kernel reads each row, so that progress is told as often as of other passes."""
        return len(self.maps)

    def of_unchecked(self, batch: Batch) -> Sums | None:
        """The sums of rows that were not checked; None if a check is due. Asked only of those that `reads_unchecked`."""
        plan, found = self.plan.suited(batch.n_classes), []
        places = plan.score_places
        assert places is not None, "which is asked before"
        positive = inner_edges(POSITIVE_EDGES, batch)[0] if plan.has_positive else None
        for beta, edges in zip(inverse_temperatures(self.maps), self.edges, strict=True):
            totals = score_totals(batch, beta, inner_edges(edges, batch)[0], positive, counts=self.counts)
            if totals is None:
                return None
            found.append(ScoreSums.of_totals(totals, edges, places))
        return Sums(tuple(found))
