"""Every metric of a data set, before or after calibration, from one reading.

`evaluate` is what people call. Inside, `scorecards` measures several maps in the same reading: a table of before and after
reads the data once, or twice if bins of equal weight need the quantiles of the confidence first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, isnan, nan, sqrt
from typing import Any, Unpack

import numpy as np

from nishimori._evaluation.calibrated import CALIBRATORS_WORD, calibrator_or_map, open_calibrated
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._rows.rows import Rows, counts_in
from nishimori._rows.top_k import TopK
from nishimori._rows.top_k_rows import TopKRows
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.census import verdict_on_zeros, warn_of_zeros
from nishimori._sums.reliability import Bins, Reliability, Strategy, check_bins, uniform_edges
from nishimori._sums.scores import SCORES, CollectClaims, MeasureScores, ScoreSums
from nishimori._sums.sketch.sketch import Sketch
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import Interval, interval_around, interval_in_ratio, interval_of_share, number_behind
from nishimori.errors import InputError, setting
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature, temperature_of

# Quantiles need one number per row and map. More maps than this many numbers allow are measured in several readings: 64 MiB.
_CLAIMS_AT_ONCE = 2**23


METRICS = ("error", "accuracy", "confidence", "ece", "brier", "nll")
"""The numbers of a scorecard that have a standard error."""


@dataclass(frozen=True)
class Scorecard:
    """How often a classifier is right, how sure it is, whether the two agree, and how sure all this is.

    Attributes
    ----------
    n_samples : int
        How many samples had a positive weight.
    temperature : float or None
        What the logits were divided by; None for a map that does more than that.
    error, accuracy : float
        Weighted share of samples whose largest logit is not, or is, at the true class.
    confidence : float
        Mean probability of the predicted class.
    ece : float
        Expected calibration error of the predicted class: the mean of abs(gap) over the bins of `reliability`.
    brier : float
        Mean squared distance between probabilities and truth, summed over classes: from 0 to 2.
        NaN for top-k log-probabilities, which do not tell.
    nll : float
        Mean negative log-likelihood of the true class; NaN for top-k log-probabilities that do not give it for all samples.
    reliability : Reliability
        Confidence against accuracy, bin by bin.
    error_se, accuracy_se, confidence_se, ece_se, brier_se, nll_se : float or None
        Their standard errors; None where they are not known.
    ece_corrected : float or None
        The ECE without the bias of small bins, at least 0.
    gap, gap_se : float
        Confidence minus accuracy, and its standard error or None: what the samples show, but not less than what a calibrated
        model would have.
    why_no_se : dict
        For each standard error that is not known, by the name of the metric, a sentence that says why.
    n_at_zeros : int
        How many samples give their true class probability 0, with no `floor`. If there are any, the NLL depends on what 0 is
        replaced by, and ``print`` says so first.
    n_clusters : int or None
        How many clusters the samples belong to; None if each sample is independent.
    """

    n_samples: int
    temperature: float | None
    error: float
    accuracy: float
    confidence: float
    ece: float
    brier: float
    nll: float
    reliability: Reliability
    error_se: float | None = None
    accuracy_se: float | None = None
    confidence_se: float | None = None
    brier_se: float | None = None
    nll_se: float | None = None
    gaps: BinnedGaps | None = field(default=None, repr=False)
    why_no_se: Mapping[str, str] = field(default_factory=dict, repr=False)
    n_at_zeros: int = 0
    n_clusters: int | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.caveat}\n{self!r}" if self.caveat else repr(self)

    @property
    def caveat(self) -> str:
        """What has to be known before the numbers are read; empty if there is nothing."""
        return verdict_on_zeros(f"{self.n_at_zeros} of {self.n_samples} samples", "the NLL") if self.n_at_zeros else ""

    @property
    def ece_se(self) -> float | None:
        return None if self.gaps is None or "ece" in self.why_no_se else self.gaps.se

    @property
    def ece_corrected(self) -> float | None:
        return None if self.gaps is None or "ece" in self.why_no_se else self.gaps.corrected

    @property
    def gap(self) -> float:
        return self.confidence - self.accuracy

    @property
    def gap_se(self) -> float | None:
        return None if self.gaps is None or "ece" in self.why_no_se else self.gaps.total_se

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
        names = ("error", "accuracy", "confidence", "gap", "ece", "brier", "nll")
        named = ["n_samples", "temperature", *(each for name in names for each in (name, f"{name}_se")), "ece_corrected"]
        found = {name: getattr(self, name) for name in named}
        return {name: value for name, value in found.items() if value is not None and not isnan(value)}

    def interval(self, name: str, level: float = 0.95) -> Interval:
        """The range of a metric that the data leave possible.

        Parameters
        ----------
        name : {"error", "accuracy", "confidence", "ece", "brier", "nll"}
            Which metric.
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
        if not isinstance(name, str) or name not in METRICS:
            raise InputError("name", f"be one of {', '.join(map(repr, METRICS))}", got=repr(name))
        if name in self.why_no_se:
            raise InputError(f"`interval` needs the standard error of {name}, which is not known: {self.why_no_se[name]}")
        assert self.gaps is not None, "whose absence has a reason"
        if name == "ece":
            return self.gaps.interval(level)
        value, error = getattr(self, name), getattr(self, f"{name}_se")
        if name in ("error", "accuracy"):
            return interval_of_share(value, number_behind(value, error**2, self.gaps.squares), level)
        if name == "nll" and value > 0:
            # Few large losses skew its error: in ratio, intervals of 200 samples cover 93 to 95 % instead of 90 to 94 %.
            return interval_in_ratio(value, error, level)
        low, high = interval_around(value, error, level)
        return Interval(max(low, 0.0), min(high, _LARGEST[name]))


# What a metric cannot exceed.
_LARGEST = {"confidence": 1.0, "brier": 2.0, "nll": inf}


@takes_rows(words=CALIBRATORS_WORD)
def evaluate(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float | None = None,
    calibrator: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    **options: Unpack[RowOptions],
) -> Scorecard:
    """Every metric of a data set at once, read once (twice with ``strategy="quantile"``).

    Parameters
    ----------
    logits, labels
        As for `temperatures`. A `TopK` is measured as it is, at T = 1.
    temperature : float, optional
        Divide the logits by this first; 1 by default.
    calibrator : calibrator, optional
        A fitted calibrator to apply first, instead of a temperature.
    n_bins, strategy
        Bins of the calibration error, as for `metrics.ece`.
    **options
        What is said about the data: see `rows`.

    Returns
    -------
    Scorecard
        With `error`, `accuracy`, `confidence`, `ece`, `brier`, `nll`, `reliability`, standard errors and `interval`.

    Examples
    --------
    >>> import nishimori
    >>> card = nishimori.evaluate([[2.0, 0.0], [0.0, 2.0]], [0, 0], temperature=2.0)
    >>> print(f"{card.accuracy} {card.confidence:.3f} {card.ece:.3f} {card.nll:.3f}")
    0.5 0.731 0.231 0.813
    """
    used = calibrator_or_map(temperature, calibrator)
    if isinstance(logits, TopK):
        _refuse_map(used)
    data, maps = open_calibrated({"calibrator": used}, logits, labels, options)
    if isinstance(data, TopKRows):
        (card,) = scorecards(data.even, maps, n_bins=n_bins, strategy=strategy, counts=counts_in(data, options))
        return _without_unknown(card, data)
    (card,) = scorecards(data, maps, n_bins=n_bins, strategy=strategy, counts=counts_in(data, options))
    return card


def _refuse_map(used: Any) -> None:
    """Refuse a map of top-k log-probabilities, unless it changes nothing."""
    if used != Temperature(1.0):
        raise InputError(
            "`temperature` and `calibrator` must be left out for top-k log-probabilities: metrics at other temperatures depend "
            "on the classes that are not listed. `TopK.probabilities(temperature)` gives bounds on probabilities."
        )


def _without_unknown(card: Scorecard, data: TopKRows) -> Scorecard:
    """The card of top-k log-probabilities, whose tail matters only to scores of all classes."""
    absent = dict(card.why_no_se)
    absent["brier"] = "the squares of probabilities that are not listed are not known. Pass all logits."
    card = replace(card, brier=nan, brier_se=None, why_no_se=absent)
    if not data.n_unknown:
        return card
    absent["nll"] = (
        f"the log-probability of the true class is not known in {data.n_unknown} of {data.n_rows} samples. Pass "
        "`label_log_probabilities` to TopK."
    )
    return replace(card, nll=nan, nll_se=None)


def scorecards(
    data: Rows | Sketch,
    maps: Sequence[Map],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    counts: bool = False,
) -> list[Scorecard]:
    """A scorecard for each map, all from the same readings."""
    check_bins(n_bins, strategy)
    if isinstance(data, Sketch):
        if counts:
            raise InputError("counts", "be False for a sketch, which keeps sums for independent samples")
        return [_card_of_sketch(data, map_, n_bins, strategy) for map_ in maps]
    if strategy == "quantile" and (n_rows := data.n_rows) is not None:
        step = max(1, _CLAIMS_AT_ONCE // n_rows)
        groups = [tuple(maps[start : start + step]) for start in range(0, len(maps), step)]
    else:
        groups = [tuple(maps)]
    return [card for group in groups for card in _from_shared_readings(data, group, n_bins, strategy, counts=counts)]


def _from_shared_readings(
    data: Rows, maps: tuple[Map, ...], n_bins: int, strategy: Strategy, *, counts: bool
) -> list[Scorecard]:
    sums = data.gather(MeasureScores(maps, edges_for(data, maps, n_bins, strategy), counts)).items
    warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
    return [card_of(each, temperature_of(map_)) for map_, each in zip(maps, sums, strict=True)]


def edges_for(data: Rows, maps: tuple[Map, ...], n_bins: int, strategy: Strategy) -> tuple[HostArray, ...]:
    """The edges of the bins after each map; quantiles take a reading of their own."""
    if strategy == "uniform":
        return (uniform_edges(n_bins),) * len(maps)
    return tuple(each.edges(n_bins) for each in data.gather(CollectClaims(maps)).items)


def card_of(sums: ScoreSums, temperature: float | None) -> Scorecard:
    """Means and their errors from sums."""
    error, confidence, brier, nll = sums.means.tolist()
    error, confidence = min(error, 1.0), min(confidence, 1.0)  # which sums of weights exceed by their rounding
    curve = Reliability.from_bins(sums.bins)
    errors = {name: value if isfinite(value) else None for name, value in zip(SCORES, sums.errors.tolist(), strict=True)}
    absent = {}
    if errors["nll"] is None:
        absent["nll"] = "the loss is infinite or too large: a true class is masked or has probability 0, or T is close to 0."
    if sums.n_rows == 1:
        errors, absent = dict.fromkeys(SCORES), dict.fromkeys(METRICS, "there is only one sample.")
    return Scorecard(
        n_samples=sums.n_rows,
        temperature=temperature,
        error=error,
        accuracy=1 - error,
        confidence=confidence,
        ece=curve.error(),
        brier=brier,
        nll=nll,
        reliability=curve,
        accuracy_se=errors["error"],
        **{f"{name}_se": value for name, value in errors.items()},
        gaps=sums.gaps,
        why_no_se=absent,
        n_at_zeros=sums.n_at_zeros,
        n_clusters=sums.n_clusters,
    )


def _card_of_sketch(data: Sketch, map_: Map, n_bins: int, strategy: Strategy) -> Scorecard:
    """The scorecard of a sketch, after a map that divides logits by one temperature."""
    temperature = temperature_of(map_)
    if (n_bins, strategy) != (15, "uniform"):
        raise InputError("n_bins", f"be 15 and {setting('strategy')} 'uniform' for a sketch", got=f"{n_bins} and {strategy!r}")
    if temperature is None:
        raise InputError("calibrator", "divide logits by one temperature to be evaluated on a sketch", remedy="Pass logits.")
    census, found = data.census, data.score(temperature)
    warn_of_zeros(census.n_at_zeros, census.n_rows, "the loss")
    absent = dict.fromkeys(("confidence", "brier", "nll"), "a sketch does not keep its squares. Pass logits and labels.")
    error, error_se, curve = census.wrong / census.weight, None, Reliability.from_bins(found.bins)
    if found.has_clusters:
        absent |= dict.fromkeys(("error", "accuracy"), "a sketch does not keep it per cluster. Pass logits and labels.")
    else:
        error_se = sqrt((1 - error) ** 2 * census.wrong_squares + error**2 * census.right_squares) / census.weight
    if data.n_clusters == 1:
        alone = "the sketch holds one cluster, and standard errors are made of the spread between clusters."
        absent |= dict.fromkeys(("error", "accuracy", "ece"), alone)
    if census.n_rows == 1:
        error_se, absent = None, dict.fromkeys(METRICS, "there is only one sample.")
    return Scorecard(
        n_samples=census.n_rows,
        temperature=temperature,
        error=error,
        accuracy=1 - error,
        confidence=found.confidence,
        ece=curve.error(),
        brier=found.brier,
        nll=found.nll,
        reliability=curve,
        error_se=error_se,
        accuracy_se=error_se,
        gaps=_gaps_of_sketch(found.bins, found.misses, found.squares),
        why_no_se=absent,
        n_at_zeros=census.n_at_zeros,
        n_clusters=data.n_clusters,
    )


def _gaps_of_sketch(bins: Bins, misses: HostArray, squares: float) -> BinnedGaps:
    """The gaps and their errors; products of gaps and squared weights are not kept, so the two are taken as independent."""
    weight = bins.weight.sum()
    gaps = (bins.confidence - bins.correct)[0] / weight
    mean_weights = np.divide(bins.squares[0], bins.weight[0], out=np.zeros_like(gaps), where=bins.weight[0] > 0)
    return BinnedGaps(gaps, misses / weight**2, gaps * mean_weights / weight, squares / weight**2)
