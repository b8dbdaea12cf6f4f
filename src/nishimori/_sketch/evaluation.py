"""The functions of `_evaluation` for a sketch: metrics, tests, and the numbers that `diff` compares.

A sketch keeps sums per temperature, and neither rows nor how two calibrations vary together. So it has scorecards, but no
paired differences, no gaps of groups and nothing to resample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any

import numpy as np

from nishimori._evaluation.calibration_test import Deviation, Statistic, deviation, gaps_at_temperature
from nishimori._evaluation.compared_methods import names_for
from nishimori._evaluation.curve import REACH, cards_around
from nishimori._evaluation.diff import Measured, measured_in, values_of_card, values_with_errors
from nishimori._evaluation.differences import MeasuredMaps, absent_parts, measure_maps
from nishimori._evaluation.gate import is_constant
from nishimori._evaluation.metrics.ece import Ece, OverallGap
from nishimori._evaluation.metrics.means import Brier, MeanConfidence, Nll, WrongAnswers
from nishimori._evaluation.metrics.metric import Estimate, Metric
from nishimori._evaluation.metrics.table import can_measure, checked_metrics
from nishimori._evaluation.scorecard import ONE_SAMPLE, Scorecard, scorecards
from nishimori._fit.temperatures import temperatures
from nishimori._sketch.grid import Grid
from nishimori._sketch.interpolation import NodeScores, gap_at_node, gaps_at, scores_at
from nishimori._sketch.sketch import Sketch
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.census import Census, warn_of_zeros
from nishimori._sums.moments import GapSums
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._sums.reliability import Reliability, Strategy, check_bins
from nishimori.errors import InputError, setting
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature, temperature_of

_NOT_SQUARED = "a sketch does not keep its squares. Pass logits and labels."
_ONE_CLUSTER = "the sketch holds one cluster, but standard errors are computed from the spread between clusters."
_NO_ERRORS = "A sketch does not give standard errors of the NLL, the Brier score, or differences between methods."

# The observables whose gaps these statistics are made of.
_OBSERVABLES: dict[Statistic, Observable] = {"confidence": BUILT_IN["ec"], "energy": BUILT_IN["ts"]}


def _single_temperature(map_: Map, purpose: str) -> float:
    """The temperature of a map, which must only divide logits by it; ``purpose`` says what it is needed for."""
    temperature = temperature_of(map_)
    if temperature is None:
        raise InputError("calibrator", f"divide logits by one temperature to be {purpose} on a sketch", remedy="Pass logits.")
    return temperature


# Metrics


@singledispatch
def _estimate(metric: Metric, scores: NodeScores, census: Census) -> Estimate:  # noqa: ARG001 - what those that are told need
    """A metric with its standard error from the sums at one temperature; only built-in metrics are possible."""
    raise InputError("metrics", "be metrics that a sketch supports", got=repr(metric.label), remedy="Pass logits and labels.")


@_estimate.register
def _(metric: WrongAnswers, scores: NodeScores, census: Census) -> Estimate:
    """The share; its standard error is not known if a sketch has clusters."""
    error = census.wrong / census.weight
    squares = (census.wrong_squares + census.right_squares) / census.weight**2
    if scores.has_clusters:
        why = "a sketch does not keep it per cluster. Pass logits and labels."
        return Estimate(metric, metric.of_mean(error), None, why, squares)
    variance = ((1 - error) ** 2 * census.wrong_squares + error**2 * census.right_squares) / census.weight**2
    return Estimate(metric, metric.of_mean(error), variance**0.5, squares=squares)


@_estimate.register
def _(metric: MeanConfidence | Brier | Nll, scores: NodeScores, census: Census) -> Estimate:  # noqa: ARG001
    return Estimate(metric, getattr(scores, metric.name), None, _NOT_SQUARED)


@_estimate.register
def _(metric: OverallGap, scores: NodeScores, census: Census) -> Estimate:
    gaps = _binned_gaps(scores)
    value = scores.confidence - (1 - census.wrong / census.weight)
    return Estimate(metric, value, gaps.total_se, squares=gaps.squares, gaps=gaps)


@_estimate.register
def _(metric: Ece, scores: NodeScores, census: Census) -> Estimate:  # noqa: ARG001
    """The ECE at temperatures between the nodes of the sketch."""
    gaps = _binned_gaps(scores)
    error = partial(getattr, gaps, "se")
    return Estimate(metric, Reliability.from_bins(scores.bins).error(), error, squares=gaps.squares, gaps=gaps)


def _binned_gaps(scores: NodeScores) -> BinnedGaps:
    """The gaps and their errors; products of gaps and squared weights are not kept, so the two are taken as independent."""
    bins = scores.bins
    weight = bins.weight.sum()
    gaps = (bins.confidence - bins.correct)[0] / weight
    mean_weights = np.divide(bins.squares[0], bins.weight[0], out=np.zeros_like(gaps), where=bins.weight[0] > 0)
    return BinnedGaps(gaps, scores.misses / weight**2, gaps * mean_weights / weight, scores.squares / weight**2)


@can_measure.register(Sketch)
def _(data: Sketch, metric: Metric) -> bool:  # noqa: ARG001 - all sketches keep the same
    return _estimate.dispatch(type(metric)) is not _estimate.dispatch(object)


@scorecards.register(Sketch)
def _(
    data: Sketch,
    maps: Sequence[Map],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    metrics: tuple[Metric, ...] | None = None,
) -> list[Scorecard]:
    """A scorecard for each map, which must divide logits by one temperature."""
    check_bins(n_bins, strategy)
    wanted = checked_metrics(metrics, data)
    if data.counts:
        raise InputError("counts", "be False for a sketch, which keeps sums for independent samples")
    if (n_bins, strategy) != (15, "uniform"):
        raise InputError("n_bins", f"be 15 and {setting('strategy')} 'uniform' for a sketch", got=f"{n_bins} and {strategy!r}")
    return [_card(data, map_, wanted) for map_ in maps]


def _card(data: Sketch, map_: Map, metrics: Sequence[Metric]) -> Scorecard:
    temperature = _single_temperature(map_, "evaluated")
    census, scores = data.census, scores_at(data, temperature)
    warn_of_zeros(census.n_at_zeros, census.n_rows, "the loss")
    estimates = {}
    for metric in metrics:
        estimate = _estimate(metric, scores, census)
        if data.n_clusters == 1 and (estimate.se is not None or metric.is_share):
            estimate = replace(estimate, error=None, why_no_se=_ONE_CLUSTER)
        if census.n_rows == 1:
            estimate = replace(estimate, error=None, why_no_se=ONE_SAMPLE)
        estimates[metric.label] = estimate
    return Scorecard(
        n_samples=census.n_rows,
        temperature=temperature,
        estimates=estimates,
        reliability=Reliability.from_bins(scores.bins),
        n_at_zeros=census.n_at_zeros,
        n_clusters=data.n_clusters,
    )


@cards_around.register(Sketch)
def _(data: Sketch, chosen: Sequence[float], *, n_bins: int) -> list[Scorecard]:
    """The scorecards at the nodes of the sketch's grid, where all its sums are exact."""
    low, high = min([1.0, *chosen]) / REACH, max([1.0, *chosen]) * REACH
    nodes = [1 / beta for beta in reversed(Grid.over(data.temperatures).betas) if low <= 1 / beta <= high]
    return scorecards(data, [Temperature(node) for node in nodes], n_bins=n_bins)


@measure_maps.register(Sketch)
def _(
    data: Sketch,
    maps: Mapping[str, Map],
    *,
    groups: Any = None,  # noqa: ARG001 - there are no gaps of classes
    level: float = 0.95,  # noqa: ARG001
    zero: float | None = None,  # noqa: ARG001 - sums are made once, with their own floor
    **how: Any,
) -> MeasuredMaps:
    return MeasuredMaps(dict(zip(maps, scorecards(data, list(maps.values()), **how), strict=True)), caveat=_NO_ERRORS)


@is_constant.register(Sketch)
def _(data: Sketch, map_: Map, confidence: float, confidence_se: float | None) -> bool:  # noqa: ARG001
    """Return False: a sketch does not show whether all rows have the same probabilities."""
    return False


# Tests


@deviation.register(Sketch)
def _(data: Sketch, statistic: Statistic, map_: Map) -> tuple[Deviation, Census]:
    """The deviation of an observable at one temperature; its variance is the spread of the gaps."""
    if statistic not in _OBSERVABLES:
        raise InputError(
            "statistic", "be 'confidence', 'energy' or 'temperatures' for a sketch", remedy="Pass logits and labels."
        )
    temperature = _single_temperature(map_, "tested")
    _refuse_one_cluster(data)
    total, squares = gap_at_node(data, _OBSERVABLES[statistic], temperature)
    return Deviation(total, squares, data.census.weight, "sample"), data.census


@gaps_at_temperature.register(Sketch)
def _(data: Sketch, observables: Sequence[Observable], log_beta: float) -> GapSums:
    _refuse_one_cluster(data)
    return gaps_at(data, observables, log_beta)


def _refuse_one_cluster(data: Sketch) -> None:
    if data.n_clusters == 1:
        raise InputError(
            "The sketch", "hold at least two clusters for `calibration_test`", got="one: there is no spread between them"
        )


@measured_in.register(Sketch)
def _(source: Sketch, name: str) -> Measured:  # noqa: ARG001 - only other sources can be refused
    """The metrics of the uncalibrated model, and both temperatures."""
    (card,) = scorecards(source, [Temperature(1.0)])
    chosen = temperatures(source)
    fitted = {"ec": (chosen.ec, chosen.ec_se), "ts": (chosen.ts, chosen.ts_se)}
    return Measured(values_of_card(card), values_with_errors(fitted), source.n_samples, data_digest=source.digest)


# The parts of a report


@absent_parts.register(Sketch)
def _(data: Sketch) -> list[dict[str, str]]:
    why = "a sketch keeps sums and no rows"
    parts = [
        "The table of predicted classes",
        "The table of groups",
        "The errors: the most confident ones, confusions, and the error of the most confident answers",
        "Paired differences between methods",
        "Standard errors of NLL, Brier score and mean confidence",
    ]
    parts += ["The gap and the ECE of the positive class"] if data.n_classes == 2 else []
    exact = "The ECE and the diagram exactly at the fitted temperatures"
    interpolated = "a sketch interpolates them between its temperatures, and close to its minimum the ECE is usually too small"
    return [*({"what": part, "why": why} for part in parts), {"what": exact, "why": interpolated}]


@names_for.register(Sketch)
def _(data: Sketch) -> tuple[str, ...]:  # noqa: ARG001
    """Return no methods: they need rows."""
    return ()
