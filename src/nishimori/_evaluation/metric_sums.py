"""The sums behind scorecards, from one pass: what each metric is made of, after each of several maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from nishimori._evaluation.metrics.metric import Estimate, MeanOfRows, Metric
from nishimori._kernels.kernel import score_totals, sums_blocks, sums_scores
from nishimori._kernels.sums import SCORES, ScoreTotals
from nishimori._rows.batch import Batch
from nishimori._sums.census import at_zeros
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import POSITIVE_EDGES, Predictions, inverse_temperatures, predictions_after
from nishimori._sums.reliability import BinSums, inner_edges
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
    def columns(self) -> dict[Any, Metric]:
        """A metric for each number per row, by what tells these apart."""
        return self._by_key([each for each in self.metrics if each.form.is_mean])

    @cached_property
    def others(self) -> dict[Any, Metric]:
        """A metric for all other sums, but not those per bin, which every scorecard has."""
        return self._by_key([each for each in self.metrics if not each.form.is_mean and each.of_bins is None])

    @staticmethod
    def _by_key(metrics: list[Metric]) -> dict[Any, Metric]:
        found: dict[Any, Metric] = {}
        for each in metrics:
            found.setdefault(each.form.key(each), each)
        return found

    @cached_property
    def has_positive(self) -> bool:
        """Whether some metric is made of bins of the probability of the second of two classes."""
        return any(each.of_bins == "positive" for each in self.metrics)

    @cached_property
    def score_places(self) -> list[int] | None:
        """The places of the numbers per row among a kernel's `SCORES`; None if these are not all that is measured."""
        known = [each.score for each in self.columns.values() if each.score is not None]
        return None if len(known) < len(self.columns) or self.others else [SCORES.index(each) for each in known]

    def rows(self, predictions: Predictions) -> list[Array]:
        """The numbers per row."""
        return [each.rows(predictions) for each in self.columns.values()]


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
        for metric, total in zip(plan.columns.values(), totals.tolist(), strict=True):
            if isnan(total):
                name = f"{type(metric).__name__}.of_rows"
                raise InputError(name, "return numbers for all rows", got="NaN, or infinities of both signs")
        return cls(
            n_rows=batch.n_rows,
            n_at_zeros=n_at_zeros,
            weight=batch.weight,
            totals=totals,
            spread=spread(batch, rows, counts=predictions.counts),
            binned=predictions.top_claims.sums,
            positive=Sums((predictions.positive_claims.sums,) if plan.has_positive else ()),
            own=Sums(tuple(each.form.gather(each, predictions) for each in plan.others.values())),
        )

    @classmethod
    def of_totals(cls, found: ScoreTotals, edges: HostArray, places: list[int]) -> "ScoreSums":
        """From the sums of a kernel over independent rows; ``places`` are those of the scores that are measured."""
        positive = [] if found.positive is None else [BinSums.from_totals(POSITIVE_EDGES, found.positive, found.units)]
        return cls(
            n_rows=found.n_rows,
            n_at_zeros=0,
            weight=found.weight,
            totals=found.totals[places],
            spread=Spread(found.units, found.means[places], found.scatter[places]),
            binned=BinSums.from_totals(edges, found.bins, found.units),
            positive=Sums(tuple(positive)),
            own=Sums(()),
        )

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        return ScoreSums(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def means(self) -> HostArray:
        return self.totals / self.weight

    def by_metric(self, plan: MetricPlan) -> dict[Metric, Any]:
        """What each metric is made of."""
        means = self.means
        with np.errstate(invalid="ignore"):  # of an infinite mean
            errors = np.sqrt(self.spread.around(means)) / self.weight
        found = dict(zip(plan.columns, map(MeanOfRows, means.tolist(), errors.tolist()), strict=True))
        found |= zip(plan.others, self.own.items, strict=True)
        bins = {"top": self.binned} | dict(zip(["positive"], self.positive.items, strict=False))
        return {each: found[each.form.key(each)] if each.of_bins is None else bins[each.of_bins] for each in plan.metrics}

    def estimates(self, plan: MetricPlan) -> dict[str, Estimate]:
        """Each metric with its standard error, by name."""
        squares = self.spread.squares / self.weight**2
        found = {}
        for metric, sums in self.by_metric(plan).items():
            value, error, why = metric.form.with_error(metric, sums)
            if self.n_rows == 1:
                error, why = None, ONE_SAMPLE
            metric.check_value(float(value))
            gaps = sums.gaps if metric.of_bins is not None else None
            found[metric.label] = Estimate(metric, float(value), error, why, squares, gaps, sums if metric.keeps_sums else None)
        return found


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
        positive = inner_edges(POSITIVE_EDGES, batch.rounding)[0] if plan.has_positive else None
        for beta, edges in zip(inverse_temperatures(self.maps), self.edges, strict=True):
            totals = score_totals(batch, beta, inner_edges(edges, batch.rounding)[0], positive, counts=self.counts)
            if totals is None:
                return None
            found.append(ScoreSums.of_totals(totals, edges, places))
        return Sums(tuple(found))
