"""How well the probabilities of each label agree with how often it is there: all decisions together, and label by label."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from nishimori._calibrators.multilabel.decisions import open_decisions, refuse_probabilities, scores_in, warn_of_sigmoids
from nishimori._calibrators.multilabel.estimator import MultilabelCalibrator
from nishimori._calibrators.multilabel.label_maps import LabelMaps
from nishimori._evaluation.group_gaps import GroupGaps, gaps_after, holm
from nishimori._evaluation.scorecard import Scorecard, scorecards
from nishimori._rows.batch import Batch
from nishimori._rows.labels import Classes
from nishimori._rows.scores import Input
from nishimori._sums.groups import Grouping
from nishimori._sums.predictions import Predictions, apply_map, sums_for_scores
from nishimori._sums.reliability import check_bins, uniform_edges
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.display import PRINTED_ROWS, Display, Displayed, plural, short_repr
from nishimori._support.formatting import number_text, percent, points_with_error, value_with_error
from nishimori._support.intervals import two_sided
from nishimori._support.optional import require
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
class MultilabelScorecard(Displayed):
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

    def __getitem__(self, name: Any) -> LabelScore:
        for label in self.labels:
            if label.name == name:
                return label
        raise InputError("The label", "be one of those that are known for some sample", got=repr(name))

    def __iter__(self) -> Iterator[LabelScore]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def table(self) -> Tabular:
        """All labels as they are shown."""
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
        notes = ("The gap is confidence minus accuracy, of p or 1 − p, whichever is larger.", self.summary)
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
        return {
            "overall": self.overall.to_dict(),
            "mean_ece": self.mean_ece,
            "labels": [asdict(label) for label in self.labels],
        }

    def to_pandas(self) -> Any:
        """A data frame with one row per label."""
        pandas = require("pandas", extra="tables", for_="MultilabelScorecard.to_pandas")
        return pandas.DataFrame([asdict(label) for label in self.labels]).set_index("name")


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
    """The scores of a model that decides about several labels independently: all decisions together, and each label.

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
    clustered = clusters is not None
    (card,) = scorecards(rows, [map_], n_bins=n_bins)
    sums = rows.gather(partial(_measure_labels, map_, uniform_edges(n_bins), len(rows.names), clustered))
    # A sample has each label once, so that the decisions about one label are independent unless the caller names clusters.
    (gaps,) = gaps_after(rows if clustered else rows.independent(), [map_], "groups", rows.names, _LEVEL, counts=False)
    return MultilabelScorecard(card, _scores_of(sums, gaps, calibrator))


def _map_of(calibrator: Any, options: dict[str, Any]) -> Map:
    """The map of a fitted calibrator of labels; refuses anything else, and arguments that the calibrator has itself."""
    if not isinstance(calibrator, MultilabelCalibrator) or not hasattr(calibrator, "maps_"):
        raise InputError(
            "calibrator", "be a fitted MultilabelCalibrator", got=f"{calibrator!r:.60}", remedy="Call its `fit` first."
        )
    for name, value in options.items():
        if value is not None:
            raise InputError(name, "be left out where `calibrator` is given, which has its own")
    maps = LabelMaps(calibrator.maps_)
    return calibrator.maps_[0] if maps.is_shared else maps


def _scores_of(sums: "LabelSums", gaps: GroupGaps, calibrator: MultilabelCalibrator | None) -> tuple[LabelScore, ...]:
    """The scores of the labels that are known for some sample, of which ``gaps`` has confidence and accuracy."""
    (places,) = np.nonzero(sums.n_rows)
    means, differences, errors, eces = sums.means, sums.gaps, sums.gap_errors, sums.calibration_errors
    pairs = [(differences[place], errors[place]) for place in places] + [(group.gap, group.se) for group in gaps]
    adjusted = holm([1.0 if error == 0 else two_sided(gap / error) for gap, error in pairs])
    p_values = adjusted.reshape(2, -1).min(axis=0)
    temperatures = None if calibrator is None else calibrator.temperatures_
    temperature_errors = None if calibrator is None else calibrator.temperatures_se_
    scores = []
    for place, p_value, decisions_ in zip(places.tolist(), p_values.tolist(), gaps, strict=True):
        _, probability, prevalence, brier, nll = means[:, place].tolist()
        scores.append(
            LabelScore(
                name=decisions_.name,
                n=decisions_.n,
                prevalence=prevalence,
                probability=probability,
                gap=float(differences[place]),
                gap_se=float(errors[place]),
                confidence=decisions_.confidence,
                accuracy=decisions_.accuracy,
                confidence_gap=decisions_.gap,
                confidence_gap_se=decisions_.se,
                p_value=p_value,
                is_off=p_value < 1 - _LEVEL,
                ece=float(eces[place]),
                brier=brier,
                nll=nll,
                temperature=None if temperatures is None else float(temperatures[place]),
                temperature_se=None if temperature_errors is None else float(temperature_errors[place]),
            )
        )
    return tuple(scores)


# Sums over the decisions about each label, from one pass


@dataclass(frozen=True)
class LabelSums:
    """Sums over the known decisions about each label; those of other decisions add.

    Attributes
    ----------
    n_rows : array of shape (labels,)
        How many decisions are known.
    totals : array of shape (5, labels)
        The weighted sums per label of one, of the probability, of presence, of the Brier score and of the NLL.
    squares : array of shape (4, labels)
        Σw²d², Σw²d, Σw² and Σw²p(1 - p), where d is the probability p minus whether the label is there.
    bins : array of shape (labels, bins)
        Σw·d over the decisions whose p is in a bin.
    clusters : array of shape (2, labels, clusters) or None
        Σw·d and Σw over each cluster, if samples belong to clusters.
    """

    n_rows: HostArray
    totals: HostArray
    squares: HostArray
    bins: HostArray
    clusters: HostArray | None

    def __add__(self, other: "LabelSums") -> "LabelSums":
        clusters = None if self.clusters is None or other.clusters is None else self.clusters + other.clusters
        return LabelSums(
            self.n_rows + other.n_rows,
            self.totals + other.totals,
            self.squares + other.squares,
            self.bins + other.bins,
            clusters,
        )

    @property
    def means(self) -> HostArray:
        """The totals, each divided by the weight of its label; NaN for a label that is never known."""
        with np.errstate(invalid="ignore"):
            means: HostArray = self.totals / self.totals[0]
            return means

    @property
    def gaps(self) -> HostArray:
        """Mean probability minus prevalence."""
        gaps: HostArray = self.means[1] - self.means[2]
        return gaps

    @property
    def gap_errors(self) -> HostArray:
        """The standard errors of the gaps: what the labels show, but not less than what a calibrated model would have."""
        gaps, (products, crossed, squares, null) = np.nan_to_num(self.gaps), self.squares
        shown = products - 2 * gaps * crossed + gaps**2 * squares
        if self.clusters is not None:
            deviations = self.clusters[0] - gaps[:, None] * self.clusters[1]
            shown = np.einsum("lc,lc->l", deviations, deviations)
        with np.errstate(invalid="ignore"):
            errors: HostArray = np.sqrt(np.maximum(shown, null)) / self.totals[0]
            return errors

    @property
    def calibration_errors(self) -> HostArray:
        """The expected calibration error of the probability of each label."""
        with np.errstate(invalid="ignore"):
            errors: HostArray = np.abs(self.bins).sum(axis=1) / self.totals[0]
            return errors


def _measure_labels(map_: Map, edges: HostArray, n_labels: int, clustered: bool, batch: Batch) -> LabelSums:
    """Sum over the decisions of a batch about each label after a map; ``clustered`` if the caller named clusters of samples."""
    mapped, beta = apply_map(map_, batch)
    predictions = Predictions(mapped, beta, sums_for_scores(mapped, [beta]))
    claims = predictions.bin_claims(edges, "positive")
    grouping = Grouping("groups", n_labels)
    codes, n_bins = grouping.codes(batch), edges.shape[1] - 1
    p, there, weights = claims.claimed[:, 0], claims.true[:, 0], claims.weights[:, 0]
    brier, nll = arrays.on_host(batch.xp.stack([predictions.brier, predictions.nll]))
    misses, units = p - there, weights**2

    def sums_per_label(values: HostArray) -> HostArray:
        return np.bincount(codes, values, n_labels)

    places = codes * n_bins + claims.places[:, 0]
    sums = (weights, weights * misses)
    clusters = [grouping.by_cluster(batch, codes, rows) for rows in reversed(sums)] if clustered else None
    return LabelSums(
        n_rows=np.bincount(codes, minlength=n_labels),
        totals=np.stack([sums_per_label(weights), *(sums_per_label(weights * rows) for rows in (p, there, brier, nll))]),
        squares=np.stack([sums_per_label(units * rows) for rows in (misses**2, misses, np.ones_like(p), p * (1 - p))]),
        bins=np.bincount(places, sums[1], n_labels * n_bins).reshape(n_labels, n_bins),
        clusters=None if clusters is None else np.stack(clusters),
    )
