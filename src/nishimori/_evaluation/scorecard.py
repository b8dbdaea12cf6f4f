"""Every metric of a data set, before or after calibration, from one pass.

`evaluate` is what people call. Inside, `scorecards` measures several maps in the same pass: a table of before and after
reads the data once, or twice if bins of equal weight need the quantiles of the confidence first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from typing import Any, Unpack

import numpy as np

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, open_calibrated
from nishimori._evaluation.metrics.metric import Estimate, MeanOfRows, Metric
from nishimori._evaluation.metrics.table import asked_metrics, checked_metrics
from nishimori._kernels.kernel import score_totals, sums_blocks, sums_scores
from nishimori._kernels.sums import SCORES, ScoreTotals
from nishimori._methods.prevalence import is_off
from nishimori._rows.batch import Batch
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, Sum
from nishimori._sums.census import at_zeros, verdict_on_zeros, warn_of_zeros
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import POSITIVE_EDGES, Predictions, apply_map, inverse_temperatures, predictions_after
from nishimori._sums.reliability import BinSums, Reliability, Strategy, check_bins, inner_edges, uniform_edges
from nishimori._sums.spread import ClusterSpread, Spread, spread
from nishimori._support.arrays import Array, HostArray
from nishimori._support.display import Display, Displayed, note_on_clusters, plural, short_repr
from nishimori._support.formatting import interval_text, number_text, percent
from nishimori._support.intervals import Interval
from nishimori._support.tables import Tabular
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.maps.around import Floored
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of

ONE_SAMPLE = "there is only one sample."
"""Why no metric of a single sample has a standard error."""

BEYOND_ONE_TEMPERATURE = "Use the method best or platt."
"""What to do if one temperature leaves the second of two classes miscalibrated."""

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
    cluster_name : str
        What a cluster is called: "image" for pixels, where no clusters were named.
    of_claims : bool
        Whether the samples are claims: accuracy is then the share that is right, and the Brier score goes from 0 to 1.
    data_digest : str or None
        Which rows were measured, so that `diff` notices if two cards are about the same ones; None where that is not known.
    """

    n_samples: int
    temperature: float | None
    estimates: Mapping[str, Estimate]
    reliability: Reliability
    n_at_zeros: int = 0
    n_clusters: int | None = None
    cluster_name: str = "cluster"
    data_digest: str | None = None
    positive_reliability: Reliability | None = None
    of_claims: bool = False

    def __getattr__(self, name: str) -> Any:
        estimates = self.__dict__.get("estimates", {})  # which a copy does not have yet
        if name in estimates:
            return estimates[name].value
        if name.endswith("_se") and name.removesuffix("_se") in estimates:
            return estimates[name.removesuffix("_se")].se
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(f"{name}{end}" for name in self.estimates for end in ("", "_se"))]

    def __getitem__(self, name: str) -> Estimate:
        """A metric with its standard error."""
        if not isinstance(name, str) or name not in self.estimates:
            raise InputError("name", f"be one of {', '.join(map(repr, self.estimates))}", got=repr(name))
        return self.estimates[name]

    def __repr__(self) -> str:
        main = {name: self.estimates[name].value for name in _MAIN if name in self.estimates}
        return short_repr(self, n_samples=self.n_samples, temperature=self.temperature, **main)

    @property
    def _display(self) -> Display:
        T = "" if self.temperature is None else f", T = {number_text(self.temperature)}"
        clusters = "" if self.n_clusters is None else f" in {plural(self.n_clusters, self.cluster_name)}"
        title = (
            f"{plural(self.n_samples, 'claim')}{clusters}"
            if self.of_claims
            else f"{plural(self.n_samples, 'sample')}{clusters}{T}"
        )
        return Display(title, (self.table,), self._notes, self.caveat)

    @property
    def table(self) -> Tabular:
        """The metrics as text, with 95 % intervals; without the error, which is one minus the accuracy."""
        rows, eces = [], self.corrected
        for name, estimate in self.estimates.items():
            if name == "error" and "accuracy" in self.estimates:
                continue
            title = f"{estimate.metric.shown} in points" if estimate.metric.is_signed else estimate.metric.shown
            rows.append((title, estimate.text, _interval_of(estimate)))
            if (corrected := eces.get(f"{name}_corrected")) is not None:
                rows.append((f"bias-corrected {estimate.metric.shown}", percent(corrected), ""))
        return Tabular(("metric", "value", "95 % interval"), rows)

    @property
    def _notes(self) -> tuple[str, ...]:
        notes, bins = [], self.reliability
        if self.of_claims:
            notes.append(
                "The accuracy is the share of claims that are right. The Brier score is the mean of (confidence − right)²."
            )
        if "gap" in self.estimates:
            notes.append("The gap is confidence minus accuracy.")
        if "positive_gap" in self.estimates:
            notes.append("The positive gap is the mean probability of the second class minus its share of the samples.")
        if "ece" in self.estimates and bins.n_bins is not None:
            of = "of equal width" if bins.strategy == "uniform" else "of equal weight"
            notes.append(f"The ECE has {plural(bins.n_bins, 'bin')} {of}.")
        why: dict[str, list[str]] = {}
        for name, reason in self.why_no_se.items():
            if not (name == "error" and "accuracy" in self.estimates):
                why.setdefault(reason, []).append(self.estimates[name].metric.shown)
        notes += note_on_clusters(self.cluster_name)
        notes += [f"No standard error of {', '.join(names)}: {reason}" for reason, names in why.items()]
        return tuple(notes)

    @property
    def caveat(self) -> str:
        """A caveat to read before the numbers; empty if there is none."""
        return verdict_on_zeros(f"{self.n_at_zeros} of {self.n_samples} samples", "the NLL") if self.n_at_zeros else ""

    @property
    def ece_corrected(self) -> float | None:
        return self.corrected.get("ece_corrected")

    @property
    def corrected(self) -> dict[str, float | None]:
        """The bias-corrected calibration errors, such as ``ece_corrected``; None where the standard error is not known."""
        gaps = {
            name: None if estimate.why_no_se else estimate.gaps
            for name, estimate in self.estimates.items()
            if estimate.gaps is not None and not estimate.metric.is_signed
        }
        return {f"{name}_corrected": None if own is None else own.corrected for name, own in gaps.items()}

    @property
    def why_no_se(self) -> dict[str, str]:
        return {name: estimate.why_no_se for name, estimate in self.estimates.items() if estimate.why_no_se}

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
        numbers: dict[str, float | None] = {"n_samples": self.n_samples, "temperature": self.temperature}
        for name, estimate in self.estimates.items():
            numbers |= {name: estimate.value, f"{name}_se": estimate.se}
        numbers |= self.corrected
        return {name: value for name, value in numbers.items() if value is not None and not isnan(value)}

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


def _interval_of(estimate: Estimate) -> str:
    """The 95 % interval of a metric as text; empty if it is not known."""
    if not estimate.se:
        return ""
    scale = 100 if estimate.metric.in_percent else 1
    low, high = (scale * end for end in estimate.interval())
    unit = " %" if estimate.metric.in_percent and not estimate.metric.is_signed else ""
    return f"{interval_text(low, high, scale * estimate.se)}{unit}"


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
        ``classes``, ``floor``, ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

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
    wanted = asked_metrics(metrics)
    data, map_ = open_calibrated(logits, labels, options, temperature=temperature, calibrator=calibrator)
    (card,) = scorecards(data, [map_], n_bins=n_bins, strategy=strategy, metrics=wanted)
    if calibrator is not None:
        warn_of_one_temperature({"`calibrator`": card})
    return replace(card, data_digest=data.digest)


def warn_of_one_temperature(cards: Mapping[str, Scorecard]) -> str:
    """Warn if calibrators with one temperature leave the second of two classes miscalibrated; returns the sentence."""
    off = {name: card["positive_gap"] for name, card in cards.items() if card.temperature is not None and is_second_off(card)}
    if not off:
        return ""
    worst = max(off.values(), key=lambda gap: abs(gap.value))
    assert worst.gaps is not None, "which is made of bins"
    share = worst.gaps.true_share
    return warn_of_second_class(", ".join(off), share + worst.value, share)


def warn_of_second_class(names: str, mean: float, share: float) -> str:
    """Warn that one temperature leaves this mean probability and this share of the second class; returns the sentence."""
    sentence = (
        f"After {names} the mean probability of the second class is {100 * mean:.3g} %, but its share of the samples is "
        f"{100 * share:.3g} %: one temperature cannot correct that."
    )
    notice(f"{sentence} {BEYOND_ONE_TEMPERATURE}", InputWarning)
    return sentence


def is_second_off(card: Scorecard) -> bool:
    """Whether the mean probability of the second of two classes differs from its share, significantly and relevantly."""
    gap = card.estimates.get("positive_gap")
    if gap is None or not gap.se:
        return False
    assert gap.gaps is not None, "which is made of bins"
    return bool(is_off(gap.value, gap.se, gap.gaps.true_share))


# What is summed, and the pass that sums it


def suited(metrics: Sequence[Metric], n_classes: int) -> tuple[Metric, ...]:
    """The metrics that support the number of classes, which is known once rows are read."""
    return tuple(metric for metric in metrics if metric.suits(n_classes))


def rows_of(metrics: Sequence[Metric], predictions: Predictions) -> list[Array]:
    """The numbers per row of the metrics that are means."""
    return [metric.rows(predictions) for metric in metrics if metric.is_mean]


def _score_places(metrics: Sequence[Metric]) -> list[int] | None:
    """The places of the numbers per row among a kernel's `SCORES`; None if these, and bins, are not all that is measured."""
    scores = [metric.score for metric in metrics if metric.of_bins is None]
    return [SCORES.index(score) for score in scores if score is not None] if None not in scores else None


@dataclass(frozen=True)
class ScoreSums(Sum):
    """The sums of some rows after a map; ``+`` pools two sets of rows."""

    n_rows: int
    n_at_zeros: int
    weight: float
    totals: HostArray
    spread: Spread | ClusterSpread
    binned: BinSums
    positive: BinSums | None  # those of the second of two classes
    own: Sums

    @classmethod
    def from_predictions(
        cls, predictions: Predictions, rows: Sequence[Array], metrics: Sequence[Metric], n_at_zeros: int
    ) -> "ScoreSums":
        """The sums of a batch after a map; ``n_at_zeros`` rows gave probability zero to their true class."""
        batch = predictions.batch
        totals = batch.totals(rows)
        for metric, total in zip([metric for metric in metrics if metric.is_mean], totals.tolist(), strict=True):
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
            positive=predictions.positive_claims.sums if batch.n_classes == 2 else None,
            own=Sums(tuple(metric.summed(predictions) for metric in metrics if not metric.is_mean and metric.of_bins is None)),
        )

    @classmethod
    def from_totals(cls, totals: ScoreTotals, edges: HostArray, places: list[int]) -> "ScoreSums":
        """Convert the sums of a kernel over independent rows; ``places`` are the places of the measured scores."""
        positive = totals.positive
        return cls(
            n_rows=totals.n_rows,
            n_at_zeros=0,
            weight=totals.weight,
            totals=totals.totals[places],
            spread=Spread(totals.units, totals.means[places], totals.scatter[places]),
            binned=BinSums.from_totals(edges, totals.bins, totals.units),
            positive=None if positive is None else BinSums.from_totals(POSITIVE_EDGES, positive, totals.units),
            own=Sums(()),
        )

    @property
    def means(self) -> HostArray:
        return self.totals / self.weight

    def by_metric(self, metrics: Sequence[Metric]) -> dict[Metric, Any]:
        """The sums that each metric is computed from."""
        means = self.means
        with np.errstate(invalid="ignore"):  # of an infinite mean
            errors = np.sqrt(self.spread.around(means)) / self.weight
        of_rows, own = map(MeanOfRows, means.tolist(), errors.tolist()), iter(self.own.items)
        bins = {"top": self.binned, "positive": self.positive}
        return {
            metric: bins[metric.of_bins] if metric.of_bins is not None else next(of_rows if metric.is_mean else own)
            for metric in metrics
        }

    def estimates(self, metrics: Sequence[Metric]) -> dict[str, Estimate]:
        """Each metric with its standard error, by name."""
        squares = self.spread.squares / self.weight**2
        estimates = {}
        for metric, sums in self.by_metric(metrics).items():
            value, error = metric.from_sums(sums)
            why = "" if error is not None else metric.why_infinite if metric.is_mean else f"{metric.label} has none."
            if self.n_rows == 1:
                error, why = None, ONE_SAMPLE
            if isnan(value) and metric.why_undefined:
                error, why = None, metric.why_undefined
            gaps = sums.gaps if metric.of_bins is not None else None
            kept = sums if metric.keeps_sums else None
            estimates[metric.label] = Estimate(metric, metric.in_bounds(float(value)), error, why, squares, gaps, kept)
        return estimates


@dataclass(frozen=True, eq=False)
class MeasureScores:
    """The pass that sums what metrics need after several maps, one distribution at a time."""

    maps: tuple[Map, ...]
    edges: tuple[HostArray, ...]
    metrics: tuple[Metric, ...]
    counts: bool = False

    def __call__(self, batch: Batch) -> Sums:
        if sums_blocks(batch) and self.reads_unchecked(batch) and (totals := self.of_unchecked(batch)) is not None:
            return totals
        zeros = at_zeros(batch)
        metrics = suited(self.metrics, batch.n_classes)
        predictions = predictions_after(self.maps, self.edges, batch, counts=self.counts)
        return Sums(tuple(ScoreSums.from_predictions(after, rows_of(metrics, after), metrics, zeros) for after in predictions))

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether a kernel can compute all sums, and notices what a check would refuse."""
        if batch.logits.ndim == 1:  # one number for two classes, which a kernel does not read
            return False
        if batch.clusters is not None or _score_places(suited(self.metrics, batch.n_classes)) is None:
            return False
        betas = inverse_temperatures(self.maps)
        if len(betas) < len(self.maps):
            return False
        n_bins = max((own.shape[1] - 1 for own in self.edges), default=0)
        return sums_scores(batch, betas, n_bins, positive=batch.n_classes == 2)

    @property
    def n_sums(self) -> int:
        """How many times a kernel reads each row, so that progress counts the same as in other passes."""
        return len(self.maps)

    def of_unchecked(self, batch: Batch) -> Sums | None:
        """The sums of unchecked rows; None if they must be checked. Called only if `reads_unchecked` is true."""
        places, sums = _score_places(suited(self.metrics, batch.n_classes)), []
        assert places is not None, "which is asked before"
        positive = inner_edges(POSITIVE_EDGES, batch.rounding)[0] if batch.n_classes == 2 else None
        for beta, edges in zip(inverse_temperatures(self.maps), self.edges, strict=True):
            totals = score_totals(batch, beta, inner_edges(edges, batch.rounding)[0], positive, counts=self.counts)
            if totals is None:
                return None
            sums.append(ScoreSums.from_totals(totals, edges, places))
        return Sums(tuple(sums))


# Scorecards from these sums


@question("has no rows to measure")
def scorecards(
    data: Rows,
    maps: Sequence[Map],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    metrics: tuple[Metric, ...] | None = None,
) -> list[Scorecard]:
    """A scorecard for each map, all from the same passes; ``metrics`` are the usual ones by default."""
    check_bins(n_bins, strategy)
    wanted = checked_metrics(metrics, data)
    at_once, n_rows = len(maps), data.n_rows
    if strategy == "quantile" and n_rows is not None:
        at_once = max(1, _CLAIMS_AT_ONCE // n_rows)
    cards = []
    for start in range(0, len(maps), at_once):
        group = tuple(maps[start : start + at_once])
        sums = data.gather(MeasureScores(group, edges_for(data, group, n_bins, strategy), wanted, data.counts)).items
        warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
        cards += cards_of(sums, group, suited(wanted, data.n_classes), data)
    return cards


def edges_for(data: Rows, maps: tuple[Map, ...], n_bins: int, strategy: Strategy) -> tuple[HostArray, ...]:
    """The edges of the bins after each map; quantiles take a pass of their own."""
    if strategy == "uniform":
        return (uniform_edges(n_bins),) * len(maps)
    return tuple(claims.edges(n_bins) for claims in data.gather(partial(_collect_claims, maps)).items)


def _collect_claims(maps: tuple[Map, ...], batch: Batch) -> Sums:
    """Keep the confidences of a batch at several maps."""
    predictions = (Predictions(*apply_map(map_, batch)) for map_ in maps)
    return Sums(tuple(at_map.unbinned_claims("top") for at_map in predictions))


def cards_of(sums: Sequence[ScoreSums], maps: Sequence[Map], metrics: Sequence[Metric], data: Rows) -> list[Scorecard]:
    """Metrics and their errors after each map, from the sums of ``data`` after it."""
    return [
        Scorecard(
            n_samples=own.n_rows,
            temperature=temperature_of(map_.inner if isinstance(map_, Floored) else map_),
            estimates=own.estimates(metrics),
            reliability=own.binned.curve,
            n_at_zeros=own.n_at_zeros,
            n_clusters=own.binned.n_clusters,
            cluster_name=data.cluster_name,
            positive_reliability=None if own.positive is None or data.is_claims else own.positive.curve,
            of_claims=data.is_claims,
        )
        for own, map_ in zip(sums, maps, strict=True)
    ]
