"""Every metric of a data set, before or after calibration, from one reading.

`evaluate` is what people call. Inside, `scorecards` measures several maps in the same reading: a table of before and after
reads the data once, or twice if bins of equal weight need the quantiles of the confidence first.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nishimori._array import HostArray
from nishimori._census import at_zeros, warn_of_zeros
from nishimori._gibbs import Gibbs
from nishimori._inputs import Batch
from nishimori._labels import Classes, class_labels
from nishimori._maps import Map, Temperature, temperature_of
from nishimori._numbers import temperature as checked_temperature
from nishimori._observables import Confidence
from nishimori._passes import Sums
from nishimori._reliability import Bins, Claims, Reliability, Strategy, check_bins, tally, uniform_edges
from nishimori._scores import Input, check_input
from nishimori._sketch import Sketch
from nishimori._sources import Source, in_pieces, is_source, source
from nishimori.errors import InputError

# Quantiles need one number per row and map. More maps than this many numbers allow are measured in several readings: 64 MiB.
_CLAIMS_AT_ONCE = 2**23


@dataclass(frozen=True)
class Scorecard:
    """How often a classifier is right, how sure it is, and whether the two agree.

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
    nll : float
        Mean negative log-likelihood of the true class.
    reliability : Reliability
        Confidence against accuracy, bin by bin.
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


def evaluate(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float | None = None,
    calibrator: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: Any = None,
    input: Input | None = None,
    classes: Classes = None,
    floor: float | None = None,
) -> Scorecard:
    """Every metric of a data set at once, read once (twice with ``strategy="quantile"``).

    Parameters
    ----------
    logits, labels, sample_weight
        As for `temperatures`.
    temperature : float, optional
        Divide the logits by this first; 1 by default.
    calibrator : calibrator, optional
        A fitted calibrator to apply first, instead of a temperature.
    n_bins, strategy
        Bins of the calibration error, as for `metrics.ece`.
    input : {"logits", "probabilities"}, optional
        What ``logits`` holds: by default what the calibrator was fitted to, else logits.
    classes : sequence, optional
        The label of each column in order: by default the calibrator's, else 0, 1, ...
    floor : float, optional
        Smaller probabilities are raised to this: by default to the calibrator's, else only exact zeros are raised.

    Returns
    -------
    Scorecard
        With `error`, `accuracy`, `confidence`, `ece`, `brier`, `nll` and `reliability`.

    Examples
    --------
    >>> import nishimori
    >>> card = nishimori.evaluate([[2.0, 0.0], [0.0, 2.0]], [0, 0], temperature=2.0)
    >>> print(f"{card.accuracy} {card.confidence:.3f} {card.ece:.3f} {card.nll:.3f}")
    0.5 0.731 0.231 0.813
    """
    used: Map = Temperature(1.0 if temperature is None else checked_temperature(temperature))
    kind: Input = "logits" if input is None else input
    if calibrator is not None:
        if temperature is not None:
            raise InputError("`temperature` must be left out where `calibrator` is given, which has its own.")
        used = _map_of(calibrator)
        _refuse_contradictions(calibrator, input, classes, floor)
        if not in_pieces(logits, labels):  # then its first piece tells
            calibrator.check_columns(logits, "logits")
        if not is_source(logits):  # which brings its own: the calibrator's are those of the scores to predict from
            kind, classes, floor = calibrator.input, calibrator.classes, calibrator.floor
    data = source(logits, labels, sample_weight, input=kind, classes=classes, floor=floor)
    if calibrator is not None and in_pieces(logits, labels):
        calibrator.check_columns(data, "logits")
    (card,) = scorecards(data, [used], n_bins=n_bins, strategy=strategy)
    return card


def _map_of(calibrator: Any) -> Map:
    """The map of a fitted calibrator."""
    fitted = getattr(calibrator, "map_", None)
    if not isinstance(fitted, Map):
        remedy = "Call its `fit` first."
        if isinstance(calibrator, int | float):
            remedy = f"Pass `temperature={calibrator!r}`."
        elif isinstance(calibrator, str | os.PathLike):
            remedy = "Pass `nishimori.load(path)` of a file, or `nishimori.calibrator(name)` after its `fit`."
        raise InputError(f"`calibrator` must be a fitted calibrator, got {calibrator!r}. {remedy}")
    return fitted


def _refuse_contradictions(calibrator: Any, input: Input | None, classes: Classes, floor: float | None) -> None:
    """Refuse arguments that differ from what the calibrator was fitted with."""
    if input is not None:
        check_input(input)
        if input != calibrator.input:
            raise InputError(f"`input` must be {calibrator.input!r}, which the calibrator was fitted to, got {input!r}.")
    if classes is not None:
        given, known = class_labels(classes).tolist(), getattr(calibrator, "classes_", None)
        if known is None or given != known.tolist():
            shown = "which has none" if known is None else known.tolist()
            raise InputError(f"`classes` must be those of the calibrator, {shown}, got {given}.")
    if floor is not None and floor != calibrator.floor:
        raise InputError(f"`floor` must be that of the calibrator, {calibrator.floor!r}, got {floor!r}.")


@dataclass(frozen=True)
class _Scores:
    """The sums behind a scorecard."""

    n_rows: int
    weight: float
    wrong: float
    confidence: float
    brier: float
    nll: float
    n_at_zeros: int
    bins: Bins

    def __add__(self, other: "_Scores") -> "_Scores":
        return _Scores(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.wrong + other.wrong,
            self.confidence + other.confidence,
            self.brier + other.brier,
            self.nll + other.nll,
            self.n_at_zeros + other.n_at_zeros,
            self.bins + other.bins,
        )

    def card(self, temperature: float | None) -> Scorecard:
        """Means from sums."""
        error, curve = self.wrong / self.weight, Reliability.from_bins(self.bins)
        return Scorecard(
            n_samples=self.n_rows,
            temperature=temperature,
            error=error,
            accuracy=1 - error,
            confidence=self.confidence / self.weight,
            ece=curve.error(),
            brier=self.brier / self.weight,
            nll=self.nll / self.weight,
            reliability=curve,
        )


@dataclass(frozen=True, eq=False)
class _Score:
    """The pass: every sum at several maps, one distribution at a time."""

    maps: tuple[Map, ...]
    edges: tuple[HostArray, ...]

    def __call__(self, batch: Batch) -> Sums:
        zeros = at_zeros(batch)
        pairs = zip(self.maps, self.edges, strict=True)
        return Sums(tuple(self._sums(Gibbs.with_squares(*_after(map_, batch)), edges, zeros) for map_, edges in pairs))

    @staticmethod
    def _sums(gibbs: Gibbs, edges: HostArray, zeros: int) -> _Scores:
        batch = gibbs.batch
        return _Scores(
            n_rows=batch.n_rows,
            weight=batch.weight,
            wrong=batch.total(-Confidence().observed(batch)),
            confidence=batch.total(gibbs.top),
            brier=batch.total(gibbs.brier),
            nll=batch.total(gibbs.nll),
            n_at_zeros=zeros,
            bins=tally(gibbs, edges),
        )


@dataclass(frozen=True)
class _Claim:
    """The pass that keeps the confidences at several maps."""

    maps: tuple[Map, ...]

    def __call__(self, batch: Batch) -> Sums:
        return Sums(tuple(Claims.of(Gibbs(*_after(each, batch)), "top") for each in self.maps))


def _after(map_: Map, batch: Batch) -> tuple[Batch, float]:
    """A batch, and the β whose distribution of it is that after calibration."""
    temperature = temperature_of(map_)
    if temperature is not None:
        return batch, 1 / temperature
    return Batch(map_.apply(batch.double), batch.labels, batch.weights), 1.0


def scorecards(
    data: Source | Sketch,
    maps: Sequence[Map],
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
) -> list[Scorecard]:
    """A scorecard for each map, all from the same readings."""
    check_bins(n_bins, strategy)
    if isinstance(data, Sketch):
        return [_card_of_sketch(data, map_, n_bins, strategy) for map_ in maps]
    if strategy == "quantile" and (n_rows := data.n_rows) is not None:
        step = max(1, _CLAIMS_AT_ONCE // n_rows)
        groups = [tuple(maps[start : start + step]) for start in range(0, len(maps), step)]
    else:
        groups = [tuple(maps)]
    return [card for group in groups for card in _from_shared_readings(data, group, n_bins, strategy)]


def _card_of_sketch(data: Sketch, map_: Map, n_bins: int, strategy: Strategy) -> Scorecard:
    """The same from sums that were made before."""
    temperature = temperature_of(map_)
    if (n_bins, strategy) != (15, "uniform"):
        raise InputError(f"`n_bins` must be 15 and `strategy` 'uniform' for a sketch, got {n_bins} and {strategy!r}.")
    if temperature is None:
        raise InputError("`calibrator` must divide logits by one temperature to be evaluated on a sketch. Pass logits.")
    census, found = data.census, data.score(temperature)
    warn_of_zeros(census.n_at_zeros, census.n_rows, "the loss")
    means = {"confidence": found.confidence, "brier": found.brier, "nll": found.nll}
    sums = {name: mean * census.weight for name, mean in means.items()}
    scores = _Scores(census.n_rows, census.weight, census.wrong, **sums, n_at_zeros=census.n_at_zeros, bins=found.bins)
    return scores.card(temperature)


def _from_shared_readings(data: Source, maps: tuple[Map, ...], n_bins: int, strategy: Strategy) -> list[Scorecard]:
    if strategy == "uniform":
        edges = (uniform_edges(n_bins),) * len(maps)
    else:
        edges = tuple(each.edges(n_bins) for each in data.gather(_Claim(maps)).items)
    sums = data.gather(_Score(maps, edges)).items
    warn_of_zeros(sums[0].n_at_zeros, sums[0].n_rows, "the loss")
    return [each.card(temperature_of(map_)) for map_, each in zip(maps, sums, strict=True)]
