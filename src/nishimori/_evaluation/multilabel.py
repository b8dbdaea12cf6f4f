"""Measure how well each label's probabilities agree with its frequency: for all decisions together, and by label."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from nishimori._calibrators.multilabel.decisions import open_decisions, refuse_probabilities, scores_in, warn_of_sigmoids
from nishimori._calibrators.multilabel.estimator import MultilabelCalibrator
from nishimori._calibrators.multilabel.label_maps import LabelMaps
from nishimori._evaluation.group_gaps import GroupGaps, gaps_in, holm
from nishimori._evaluation.scorecard import Scorecard, scorecards
from nishimori._rows.batch import Batch
from nishimori._rows.labels import Classes
from nishimori._rows.scores import Input
from nishimori._sums.groups import Grouping, TallyGroups
from nishimori._sums.passes import together
from nishimori._sums.predictions import Predictions, apply_map, sums_for_scores
from nishimori._sums.reliability import check_bins, uniform_edges
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.display import PRINTED_ROWS, Display, NamedEntries, plural, short_repr
from nishimori._support.formatting import number_text, percent, points_with_error, value_with_error
from nishimori._support.intervals import two_sided
from nishimori._support.tables import Tabular
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

_LEVEL = 0.95


@dataclass(frozen=True)
class LabelScore:
    """The decisions about one label.

    Attributes
    ----------
    name : object
        What the label is called.
    n : int
        For how many samples it is known.
    prevalence, probability : float
        The share of samples that have it, and its mean probability.
    gap, gap_se : float
        Mean probability minus prevalence, and its standard error.
    confidence, accuracy : float
        The mean of the larger of p and 1 - p, and the share of right decisions.
    confidence_gap, confidence_gap_se : float
        Confidence minus accuracy, and its standard error.
    p_value : float
        How probable it is that one of the two gaps is at least this far from zero, in units of its standard error, for a label
        that is calibrated; adjusted for the number of gaps of all labels after Holm.
    is_off : bool
        Whether one of the gaps is significant: in at most 5 % of data sets, any label is marked wrongly.
    ece : float
        The expected calibration error of the probability of the label.
    brier, nll : float
        Brier score (summed over presence and absence: from 0 to 2) and negative log-likelihood of the decisions.
    temperature, temperature_se : float or None
        What the logits of the label were divided by, and its standard error; None if not known.
    """

    name: Any
    n: int
    prevalence: float
    probability: float
    gap: float
    gap_se: float
    confidence: float
    accuracy: float
    confidence_gap: float
    confidence_gap_se: float
    p_value: float
    is_off: bool
    ece: float
    brier: float
    nll: float
    temperature: float | None
    temperature_se: float | None


@dataclass(frozen=True, repr=False)
class MultilabelScorecard(NamedEntries[LabelScore]):
    """The scores of a multilabel model. ``print`` shows them as a table, the worst label first.

    Attributes
    ----------
    overall : Scorecard
        All decisions together, as decisions between two classes; samples are independent, their labels are not.
    labels : tuple of LabelScore
        In the order of the columns; ``card[name]`` is the one of that name. Labels that are never known are left out.
    """

    overall: Scorecard
    labels: tuple[LabelScore, ...]

    @cached_property
    def worst_first(self) -> tuple[LabelScore, ...]:
        """The labels with a significant gap first, and larger calibration errors before smaller ones."""
        return tuple(sorted(self.labels, key=lambda label: (not label.is_off, -label.ece)))

    @property
    def mean_ece(self) -> float:
        """The mean calibration error over labels, each counting the same."""
        return sum(label.ece for label in self.labels) / len(self.labels)

    @property
    def _entries(self) -> list[tuple[Any, LabelScore]]:
        return [(label.name, label) for label in self.labels]

    @property
    def table(self) -> Tabular:
        """All labels as text."""
        headers = ("label", "n", "prevalence", "p minus prevalence in points", "gap in points", "significant", "ECE", "NLL")
        return Tabular((*headers, "Brier score", "T"), [_row(label) for label in self.worst_first])

    @property
    def off(self) -> tuple[Any, ...]:
        """The names of the labels with a significant gap, the worst first."""
        return tuple(label.name for label in self.worst_first if label.is_off)

    def __repr__(self) -> str:
        numbers = {"n_decisions": self.overall.n_samples, "mean_ece": self.mean_ece, "nll": self.overall.nll}
        return short_repr(self, n_labels=len(self), **numbers, n_significant=len(self.off))

    @property
    def _display(self) -> Display:
        title = f"{plural(self.overall.n_samples, 'decision')} about {plural(len(self), 'label')}"
        notes = ("The gap is confidence minus accuracy, where the confidence is p or 1 − p, whichever is larger.", self.summary)
        return Display(title, (self.table,), notes, n_printed=PRINTED_ROWS)

    @property
    def summary(self) -> str:
        """All decisions together, as a sentence."""
        card = self.overall
        number = f"{len(self.off) or 'None'} of {plural(len(self), 'label')} {'have' if len(self.off) > 1 else 'has'}"
        return (
            f"All decisions: confidence {percent(card.confidence)}, accuracy {percent(card.accuracy)}, "
            f"NLL {value_with_error(card.nll, card.nll_se)}. Mean ECE of the labels {percent(self.mean_ece)}. "
            f"{number} a significant gap (level {100 * _LEVEL:g} %, Holm's correction)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries."""
        labels = [self._record(label) for label in self.labels]
        return {"overall": self.overall.to_dict(), "mean_ece": self.mean_ece, "labels": labels}


def _row(label: LabelScore) -> tuple[str, ...]:
    gaps = (points_with_error(label.gap, label.gap_se), points_with_error(label.confidence_gap, label.confidence_gap_se))
    scores = (percent(label.ece), number_text(label.nll), number_text(label.brier))
    temperature = "" if label.temperature is None else value_with_error(label.temperature, label.temperature_se)
    significant = "yes" if label.is_off else ""
    return (str(label.name), f"{label.n:,}", percent(label.prevalence, 1), *gaps, significant, *scores, temperature)


def evaluate_multilabel(
    logits: Any,
    labels: Any,
    *,
    calibrator: MultilabelCalibrator | None = None,
    n_bins: int = 15,
    sample_weight: Any = None,
    clusters: Any = None,
    names: Classes = None,
    missing: float | None = None,
    input: Input | None = None,
    floor: float | None = None,
) -> MultilabelScorecard:
    """Scores of a model that decides about several labels independently: for all decisions together, and for each label.

    Parameters
    ----------
    logits, labels, sample_weight, clusters
        As ``X``, ``y``, ``sample_weight`` and ``clusters`` of `MultilabelCalibrator.fit`.
    calibrator : MultilabelCalibrator, optional
        A fitted one to apply first. ``names``, ``missing``, ``input`` and ``floor`` are then its own, and must be left out.
    n_bins : int
        Number of bins of equal width for calibration errors.
    names : sequence, optional
        The name of each label.
    missing, input, floor
        As for `MultilabelCalibrator`; without ``input`` they are logits, unless all lie between 0 and 1.

    Returns
    -------
    MultilabelScorecard
        With `overall`, a `Scorecard`, and `labels`, a `LabelScore` for each label.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(3000, 2)) - [0, 8]  # the second label is rare
    >>> labels = logits / 2 + rng.logistic(size=logits.shape) > 0  # drawn at T = 2
    >>> calibrator = nishimori.multilabel.MultilabelCalibrator().fit(logits[:1500], labels[:1500])
    >>> before = nishimori.multilabel.evaluate_multilabel(logits[1500:], labels[1500:])
    >>> after = nishimori.multilabel.evaluate_multilabel(logits[1500:], labels[1500:], calibrator=calibrator)
    >>> print(f"NLL {before.overall.nll:.3f}, after calibration {after.overall.nll:.3f}")
    NLL 0.392, after calibration 0.322
    """
    check_bins(n_bins, "uniform")
    if calibrator is None:
        map_: Map = Temperature(1.0)
        scores = scores_in(logits, input, floor, "logits")
    else:
        map_ = _map_of(calibrator, {"names": names, "missing": missing, "input": input, "floor": floor})
        names, missing = calibrator.classes_, calibrator.missing
        scores = calibrator._check_columns(logits, "logits")
    rows = open_decisions(scores, logits, labels, sample_weight, clusters, labels=names, missing=missing, label_name="labels")
    if calibrator is None and input is None:
        refuse_probabilities(scores, rows.weights)
    elif calibrator is not None and calibrator.input is None and scores.input == "logits":
        warn_of_sigmoids(scores, rows.weights)
    (card,) = scorecards(rows, [map_], n_bins=n_bins)
    # A sample has each label once, so that the decisions about one label are independent unless the caller names clusters.
    decisions = TallyGroups(Grouping("groups", len(rows.names)), counts=False, clustered=clusters is not None, maps=(map_,))
    losses = partial(_sum_losses, map_, uniform_edges(n_bins), len(rows.names))
    *tallies, summed = rows.gather(together(decisions, replace(decisions, of="positive"), losses)).items
    decided, there = (gaps_in("groups", rows.names, tally, _LEVEL) for (tally,) in (sums.items for sums in tallies))
    return MultilabelScorecard(card, _scores_of(decided, there, summed, calibrator))


def _map_of(calibrator: Any, options: dict[str, Any]) -> Map:
    """The map of a fitted multilabel calibrator; refuses anything else, and arguments that the calibrator determines."""
    if not isinstance(calibrator, MultilabelCalibrator) or not hasattr(calibrator, "maps_"):
        got = f"{calibrator!r:.60}"
        raise InputError("calibrator", "be a fitted MultilabelCalibrator", got, remedy="Call its `fit` first.")
    for name, value in options.items():
        if value is not None:
            raise InputError(name, "be left out: `calibrator` already determines it")
    maps = LabelMaps(calibrator.maps_)
    return calibrator.maps_[0] if maps.is_shared else maps


def _scores_of(
    decided: GroupGaps, there: GroupGaps, losses: HostArray, calibrator: MultilabelCalibrator | None
) -> tuple[LabelScore, ...]:
    """The scores of labels that are known for at least one sample, from the gaps of their decisions and of their presence."""
    pairs = [(gap.gap, gap.se) for gap in (*there, *decided)]
    adjusted = holm([1.0 if error == 0 else two_sided(gap / error) for gap, error in pairs])
    p_values = adjusted.reshape(2, -1).min(axis=0).tolist()
    places = np.flatnonzero(losses[:, 0])
    weights, losses, misses = losses[places, :1], losses[places, 1:3], losses[places, 3:]
    means = np.column_stack([np.abs(misses).sum(axis=1), losses]) / weights
    fitted = [getattr(calibrator, name, None) for name in ("temperatures_", "temperatures_se_")]
    temperatures, errors = ([None] * len(places) if values is None else values[places].tolist() for values in fitted)
    return tuple(
        LabelScore(
            name=decision.name,
            n=decision.n,
            prevalence=presence.accuracy,
            probability=presence.confidence,
            gap=presence.gap,
            gap_se=presence.se,
            confidence=decision.confidence,
            accuracy=decision.accuracy,
            confidence_gap=decision.gap,
            confidence_gap_se=decision.se,
            p_value=p_value,
            is_off=p_value < 1 - _LEVEL,
            ece=ece,
            brier=brier,
            nll=nll,
            temperature=temperature,
            temperature_se=error,
        )
        for decision, presence, p_value, (ece, brier, nll), temperature, error in zip(
            decided, there, p_values, means.tolist(), temperatures, errors, strict=True
        )
    )


def _sum_losses(map_: Map, edges: HostArray, n_labels: int, batch: Batch) -> HostArray:
    """Sum over the decisions of a batch about each label: the weight, the losses, and p minus presence in each bin of p."""
    mapped, beta = apply_map(map_, batch)
    predictions = Predictions(mapped, beta, sums_for_scores(mapped, [beta]))
    claims, codes = predictions.bin_claims(edges, "positive"), Grouping("groups", n_labels).codes(batch)
    n_bins, weights = claims.n_bins, predictions.weights
    rows = [weights, *(weights * arrays.on_host(loss) for loss in (predictions.brier, predictions.nll))]
    misses = weights * (claims.claimed - claims.true)[:, 0]
    bins = np.bincount(codes * n_bins + claims.places[:, 0], misses, n_labels * n_bins).reshape(n_labels, n_bins)
    return np.column_stack([*(np.bincount(codes, values, n_labels) for values in rows), bins])
