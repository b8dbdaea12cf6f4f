"""Every metric of a data set, before or after calibration, from one pass.

`evaluate` is what people call. Inside, `scorecards` measures several maps in the same pass: a table of before and after
reads the data once, or twice if bins of equal weight need the quantiles of the confidence first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Unpack

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, calibrator_or_map, open_calibrated
from nishimori._evaluation.metric_sums import MeasureScores, MetricPlan, ScoreSums
from nishimori._evaluation.metrics.metric import Estimate, Metric
from nishimori._evaluation.metrics.positive import BEYOND_ONE_TEMPERATURE, about_one_temperature
from nishimori._evaluation.metrics.table import asked_metrics, checked_metrics, default_metrics
from nishimori._rows.batch import Batch
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.census import verdict_on_zeros, warn_of_zeros
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, apply_map
from nishimori._sums.reliability import Reliability, Strategy, check_bins, uniform_edges
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, Displayed, plural, short_repr
from nishimori._support.formatting import (
    interval_text,
    number_text,
    percent,
    percent_with_error,
    points_with_error,
    value_with_error,
)
from nishimori._support.intervals import Interval
from nishimori._support.tables import Tabular
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.maps.floored import temperature_after_floor
from nishimori.maps.map import Map

# Quantiles need one number per row and map. More maps than this many numbers allow are measured in several passes: 64 MiB.
_CLAIMS_AT_ONCE = 2**23

# What the short representation of a scorecard has.
_MAIN = ("accuracy", "confidence", "ece", "nll", "brier")


@dataclass(frozen=True, repr=False)
class Scorecard(Displayed):
    """Accuracy, confidence, whether the two agree, and other metrics of a classifier, with standard errors.

    ``print`` shows a table.

    Each metric is an attribute, and so is its standard error: ``card.nll`` and ``card.nll_se``, which is None where it is not
    known. ``card["nll"]`` has both, and an interval.

    Attributes
    ----------
    n_samples : int
        How many samples had a positive weight.
    temperature : float or None
        What the logits were divided by; None for a map that does more than that.
    estimates : dict of str to Estimate
        Each metric by name, with its standard error.
    error, accuracy : float
        Weighted share of samples whose largest logit is not, or is, at the true class.
    confidence : float
        Mean probability of the predicted class.
    gap : float
        Confidence minus accuracy. Its standard error is what the samples show, but not less than what a calibrated model would
        have.
    ece : float
        Expected calibration error of the predicted class: the mean of abs(gap) over the bins of `reliability`.
    ece_corrected : float or None
        The bias-corrected ECE, at least 0: without the part that is due to few samples per bin.
    brier : float
        Mean squared distance between probabilities and truth, summed over classes: from 0 to 2.
        NaN for top-k log-probabilities, which do not tell.
    nll : float
        Mean negative log-likelihood of the true class; NaN for top-k log-probabilities that do not give it for all samples.
    reliability : Reliability
        Confidence against accuracy, bin by bin.
    positive_reliability : Reliability or None
        The probability of the second class against its share of the samples, in 15 bins; None for more than two classes, and
        from a sketch.
    why_no_se : dict
        For each standard error that is not known, by the name of the metric, a sentence that says why.
    n_at_zeros : int
        How many samples give their true class probability 0, with no `floor`. If there are any, the NLL depends on what 0 is
        replaced by, and ``print`` says so first.
    n_clusters : int or None
        How many clusters the samples belong to; None if each sample is independent.
    data_digest : str or None
        Which rows were measured, so that `diff` notices if two cards are about the same ones; None where that is not known.
    """

    n_samples: int
    temperature: float | None
    estimates: Mapping[str, Estimate]
    reliability: Reliability
    n_at_zeros: int = 0
    n_clusters: int | None = None
    data_digest: str | None = None
    positive_reliability: Reliability | None = None

    def __getattr__(self, name: str) -> Any:
        known = self.__dict__.get("estimates", {})  # which a copy does not have yet
        if name in known:
            return known[name].value
        if name.endswith("_se") and name.removesuffix("_se") in known:
            return known[name.removesuffix("_se")].se
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(f"{name}{end}" for name in self.estimates for end in ("", "_se"))]

    def __getitem__(self, name: str) -> Estimate:
        """A metric with its standard error."""
        if not isinstance(name, str) or name not in self.estimates:
            raise InputError("name", f"be one of {', '.join(map(repr, self.estimates))}", got=repr(name))
        return self.estimates[name]

    def __repr__(self) -> str:
        known = {name: self.estimates[name].value for name in _MAIN if name in self.estimates}
        return short_repr(self, n_samples=self.n_samples, temperature=self.temperature, **known)

    @property
    def _display(self) -> Display:
        T = "" if self.temperature is None else f", T = {number_text(self.temperature)}"
        clusters = "" if self.n_clusters is None else f" in {plural(self.n_clusters, 'cluster')}"
        title = f"{plural(self.n_samples, 'sample')}{clusters}{T}"
        return Display(title, (self.table,), self._notes, self.caveat)

    @property
    def table(self) -> Tabular:
        """The metrics as they are shown, with 95 % intervals; without the error, which is one minus the accuracy."""
        rows = []
        for name, each in self.estimates.items():
            if name == "error" and "accuracy" in self.estimates:
                continue
            title = f"{each.metric.shown} in points" if each.metric.is_signed else each.metric.shown
            rows.append((title, _value_of(each), _interval_of(each)))
            if (corrected := self._corrected(name)) is not None:
                rows.append((f"bias-corrected {each.metric.shown}", percent(corrected), ""))
        return Tabular(("metric", "value", "95 % interval"), rows)

    @property
    def _notes(self) -> tuple[str, ...]:
        notes, bins = [], self.reliability
        if "gap" in self.estimates:
            notes.append("The gap is confidence minus accuracy.")
        if "positive_gap" in self.estimates:
            notes.append("The positive gap is the mean probability of the second class minus its share of the samples.")
        if "ece" in self.estimates and bins.n_bins is not None:
            of = "of equal width" if bins.strategy == "uniform" else "of equal weight"
            notes.append(f"The ECE has {plural(bins.n_bins, 'bin')} {of}.")
        why: dict[str, list[str]] = {}
        for name, each in self.why_no_se.items():
            if not (name == "error" and "accuracy" in self.estimates):
                why.setdefault(each, []).append(self.estimates[name].metric.shown)
        notes += [f"No standard error of {', '.join(names)}: {reason}" for reason, names in why.items()]
        return tuple(notes)

    @property
    def caveat(self) -> str:
        """What has to be known before the numbers are read; empty if there is nothing."""
        return verdict_on_zeros(f"{self.n_at_zeros} of {self.n_samples} samples", "the NLL") if self.n_at_zeros else ""

    @property
    def ece_corrected(self) -> float | None:
        return self._corrected("ece")

    @property
    def corrected(self) -> dict[str, float | None]:
        """The bias-corrected calibration errors, such as ``ece_corrected``; None where the standard error is not known."""
        eces = [name for name, each in self.estimates.items() if each.gaps is not None and not each.metric.is_signed]
        return {f"{name}_corrected": self._corrected(name) for name in eces}

    def _corrected(self, name: str) -> float | None:
        """A calibration error without its bias; None of other metrics, and where its standard error is not known."""
        found = self.estimates[name]
        if found.gaps is None or found.why_no_se or found.metric.is_signed:
            return None
        return found.gaps.corrected

    @property
    def why_no_se(self) -> dict[str, str]:
        return {name: each.why_no_se for name, each in self.estimates.items() if each.why_no_se}

    def to_dict(self) -> dict[str, float]:
        """All numbers by name, in one level, as trackers of experiments log them.

        Returns
        -------
        dict of str to float
            Metrics, their standard errors (``ece_se`` and so on), ``n_samples`` and ``temperature``. What is not known is left
            out, and so is the reliability curve.

        Examples
        --------
        >>> import nishimori
        >>> numbers = nishimori.evaluate([[2.0, 0.0], [0.0, 2.0]], [0, 0]).to_dict()
        >>> {name: round(numbers[name], 3) for name in ("n_samples", "accuracy", "confidence", "gap", "nll")}
        {'n_samples': 2, 'accuracy': 0.5, 'confidence': 0.881, 'gap': 0.381, 'nll': 1.127}
        """
        found: dict[str, float | None] = {"n_samples": self.n_samples, "temperature": self.temperature}
        for name, each in self.estimates.items():
            found |= {name: each.value, f"{name}_se": each.se}
        found |= self.corrected
        return {name: value for name, value in found.items() if value is not None and not isnan(value)}

    def interval(self, name: str, level: float = 0.95) -> Interval:
        """The range of a metric that the data leave possible.

        Parameters
        ----------
        name : str
            Which metric, such as "nll".
        level : float
            How often such an interval contains the metric of infinitely many samples, between 0 and 1.

        Returns
        -------
        Interval
            A named tuple (low, high). That of the ECE is for bins with fixed edges; its lower limit is 0 unless the ECE exceeds
            what a calibrated model would have.

        Raises
        ------
        InputError
            If the standard error is not known; the message says why.

        Examples
        --------
        >>> import numpy as np
        >>> import nishimori
        >>> rng = np.random.default_rng(0)
        >>> logits = 3 * rng.normal(size=(2000, 5))
        >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 1: calibrated
        >>> card = nishimori.evaluate(logits, labels)
        >>> low, high = card.interval("ece")
        >>> print(f"{card.ece:.3f} {card.ece_corrected:.3f} {low:.3f} {high:.3f}")
        0.022 0.005 0.000 0.034
        """
        return self[name].interval(level)


def _value_of(each: Estimate) -> str:
    """A metric with its standard error, as it is shown."""
    if each.metric.is_signed:
        return points_with_error(each.value, each.se)
    if each.metric.in_percent:
        return percent_with_error(each.value, each.se)
    return number_text(each.value) if each.se is None else value_with_error(each.value, each.se)


def _interval_of(each: Estimate) -> str:
    """The 95 % interval of a metric, as it is shown; empty if it is not known."""
    if not each.se:
        return ""
    scale = 100 if each.metric.in_percent else 1
    low, high = (scale * end for end in each.interval())
    unit = " %" if each.metric.in_percent and not each.metric.is_signed else ""
    return f"{interval_text(low, high, scale * each.se)}{unit}"


@takes_rows(words=CALIBRATORS_WORD)
def evaluate(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float | None = None,
    calibrator: Any = None,
    metrics: Sequence[Any] | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    **options: Unpack[RowOptions],
) -> Scorecard:
    """Every metric of a data set at once, read once (twice with ``strategy="quantile"``).

    Parameters
    ----------
    logits : array, path, batches, `TopK`, `Sketch` or `Rows`
        Scores before the softmax, of shape (n_samples, n_classes): an array of NumPy, PyTorch, JAX, CuPy or Dask. A flat array
        z means the binary logits (0, z); with more dimensions, such as (sequences, tokens, vocabulary), each position before
        the classes is a sample. Or the path of a file, a loader of batches ``(logits, labels)``, or what `rows` returns.
        A `TopK` is measured as it is, at T = 1.
    labels : array of shape (n_samples,), or as ``logits`` before the classes
        The true class of each sample: its column, or one of ``classes``. For a file, the name of its array or column. Left out
        where ``logits`` brings them.
    temperature : float, optional
        Divide the logits by this first; 1 by default.
    calibrator : calibrator, optional
        A fitted calibrator to apply first, instead of a temperature.
    metrics : sequence, optional
        What to measure besides: names such as "ks" or "top_n_accuracy(top_n=3)", functions of `nishimori.metrics`, or a
        `Metric` of your own.
    n_bins : int
        Number of bins of the calibration error.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal weight.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``groups``, ``input``,
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``.

    Returns
    -------
    Scorecard
        Print it for a table. Each metric is an attribute (`accuracy`, `error`, `confidence`, `gap`, `ece`, `ece_corrected`,
        `nll`, `brier`, and what was asked for), and so is its standard error (`ece_se`, ...). With `interval(name, level)`,
        `reliability` and `to_dict`.

    Examples
    --------
    >>> import nishimori
    >>> test = nishimori.data.load("cifar10/resnet20").test
    >>> card = nishimori.evaluate(test.logits, test.labels)
    >>> print(card)
    10,000 samples, T = 1
    <BLANKLINE>
    metric              value            95 % interval
    ------------------  ---------------  ----------------
    accuracy            83.71 ± 0.37 %   82.97 to 84.42 %
    confidence          90.58 ± 0.16 %   90.27 to 90.89 %
    gap in points       +6.87 ± 0.32     6.24 to 7.50
    ECE                 6.99 ± 0.32 %    6.29 to 7.62 %
    bias-corrected ECE  6.97 %
    NLL                 0.538 ± 0.013    0.512 to 0.564
    Brier score         0.2460 ± 0.0053  0.2357 to 0.2563
    <BLANKLINE>
    The gap is confidence minus accuracy.
    The ECE has 15 bins of equal width.
    ± is one standard error.
    >>> print(f"{card.nll:.3f} {card.nll_se:.3f}")
    0.538 0.013
    """
    used, wanted = calibrator_or_map(temperature, calibrator), asked_metrics(metrics)
    data, maps = open_calibrated({"calibrator": used}, logits, labels, options)
    counts = data.counts or bool(options.get("counts"))
    (card,) = scorecards(data, maps, n_bins=n_bins, strategy=strategy, counts=counts, metrics=wanted)
    if used is calibrator:
        warn_of_one_temperature({"`calibrator`": card})
    return replace(card, data_digest=data.digest)


def warn_of_one_temperature(cards: Mapping[str, Scorecard]) -> str:
    """Warn where calibrators of one temperature, by their names, leave the second of two classes off; gives that sentence."""
    known = {name: each for name, each in cards.items() if each.temperature is not None and "positive_gap" in each.estimates}
    said = about_one_temperature({name: each["positive_gap"] for name, each in known.items()})
    if said:
        notice(f"{said} {BEYOND_ONE_TEMPERATURE}", InputWarning)
    return said


@question("has no rows to measure")
def scorecards(
    data: Rows,
    maps: Sequence[Map],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    counts: bool = False,
    metrics: tuple[Metric, ...] | None = None,
) -> list[Scorecard]:
    """A scorecard for each map, all from the same passes; ``metrics`` are the usual ones by default."""
    check_bins(n_bins, strategy)
    wanted = checked_metrics(default_metrics() if metrics is None else metrics, data)
    if strategy == "quantile" and (n_rows := data.n_rows) is not None:
        step = max(1, _CLAIMS_AT_ONCE // n_rows)
        groups = [tuple(maps[start : start + step]) for start in range(0, len(maps), step)]
    else:
        groups = [tuple(maps)]
    plan = MetricPlan(wanted)
    return [card for group in groups for card in _from_shared_readings(data, group, plan, n_bins, strategy, counts=counts)]


def _from_shared_readings(
    data: Rows, maps: tuple[Map, ...], plan: MetricPlan, n_bins: int, strategy: Strategy, *, counts: bool
) -> list[Scorecard]:
    sums = data.gather(MeasureScores(maps, edges_for(data, maps, n_bins, strategy), plan, counts)).items
    warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
    plan = plan.suited(data.n_classes)
    return [card_of(each, temperature_after_floor(map_), plan) for map_, each in zip(maps, sums, strict=True)]


def edges_for(data: Rows, maps: tuple[Map, ...], n_bins: int, strategy: Strategy) -> tuple[HostArray, ...]:
    """The edges of the bins after each map; quantiles take a pass of their own."""
    if strategy == "uniform":
        return (uniform_edges(n_bins),) * len(maps)
    return tuple(each.edges(n_bins) for each in data.gather(_CollectClaims(maps)).items)


@dataclass(frozen=True)
class _CollectClaims:
    """The pass that keeps the confidences at several maps."""

    maps: tuple[Map, ...]

    def __call__(self, batch: Batch) -> Sums:
        predictions = (Predictions(*apply_map(map_, batch)) for map_ in self.maps)
        return Sums(tuple(at_map.unbinned_claims("top") for at_map in predictions))


def card_of(sums: ScoreSums, temperature: float | None, plan: MetricPlan) -> Scorecard:
    """Metrics and their errors from sums."""
    return Scorecard(
        n_samples=sums.n_rows,
        temperature=temperature,
        estimates=sums.estimates(plan),
        reliability=sums.binned.curve,
        n_at_zeros=sums.n_at_zeros,
        n_clusters=sums.binned.n_clusters,
        positive_reliability=next((each.curve for each in sums.positive.items), None),
    )
