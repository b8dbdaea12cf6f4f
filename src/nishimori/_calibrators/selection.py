"""The choice among several calibrators, by what they do to samples that they were not fitted to.

Each candidate is fitted to all folds but one and gives probabilities for that one, so that every sample has a loss that the
candidate could not prepare for. Losses of two candidates at the same sample vary together, so their mean difference is much
surer than each mean; its standard error is that of the mean of the differences. Folds share samples to fit to, so the errors
are somewhat too small, and no estimate from one data set is free of that (Bengio and Grandvalet 2004).

The candidate of the lowest mean loss is chosen: the discrete super learner, whose expected loss exceeds that of the best
candidate by a term that vanishes with the number of samples (van der Laan, Polley and Hubbard 2007). docs/which_calibrator.md
has the measurements by which this rule was chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from nishimori._calibrators.folds import in_row_order
from nishimori._methods.table import CANDIDATES
from nishimori._rows.batch import Clusters
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori._sums.reliability import BinnedClaims, uniform_edges
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, Displayed, short_repr
from nishimori._support.formatting import value_with_error
from nishimori._support.json import to_plain
from nishimori._support.tables import Tabular
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.maps.map import Map

Scoring = Literal["nll", "brier", "ece"]

ECE_MARGIN = 0.01
"""By ECE, candidates are compared whose NLL exceeds the lowest by at most this share: a constant would win otherwise."""

NONE = "none"
"""The model as it is: scored for comparison, and never chosen."""

# Scores that differ by less than this share of their size differ by rounding.
_ROUNDING = 1e-9

_BINS = 15
_RESAMPLES = 200


@dataclass(frozen=True)
class RowScores:
    """What one candidate does to each sample: its loss, its Brier score, its confidence and whether its prediction is right."""

    nll: HostArray
    brier: HostArray
    confidence: HostArray
    right: HostArray

    @classmethod
    def after_map(cls, map_: Map, logits: HostArray, labels: HostArray, groups: Any = None) -> "RowScores":
        """The scores of some rows after a map."""
        log_p = np.asarray(map_.log_probabilities(logits, groups))
        p, rows = np.exp(log_p), np.arange(len(labels))
        true = p[rows, labels]
        predicted = (logits if map_.keeps_predictions else log_p).argmax(axis=1)
        brier = np.einsum("ij,ij->i", p, p) - 2 * true + 1
        return cls(-log_p[rows, labels], brier, p[rows, predicted], predicted == labels)

    @classmethod
    def in_order(cls, rows: Sequence[HostArray], parts: "Sequence[RowScores]") -> "RowScores":
        """The scores of the ``rows`` of several folds, in ascending order of the rows."""
        return cls(*(in_row_order(rows, [getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class Units:
    """The weight of each sample, and which samples are drawn together: clusters, or each one alone."""

    weights: HostArray
    codes: HostArray
    counts: bool = False  # whether a weight of w stands for w samples, which are then alone

    @property
    def n_samples(self) -> int:
        """How many samples there are."""
        return round(float(self.weights.sum())) if self.counts else len(self.weights)

    def subset(self, chosen: HostArray) -> "Units":
        """Some of the samples, by a mask or by their numbers; units without any of them are not counted."""
        return Units(self.weights[chosen], np.unique(self.codes[chosen], return_inverse=True)[1], self.counts)

    def mean(self, values: HostArray) -> float:
        """The weighted mean of one number per sample."""
        return float(np.einsum("i,i", self.weights, values) / self.weights.sum())

    def error(self, values: HostArray) -> float:
        """The standard error of that mean."""
        centred = values - self.mean(values)
        if self.counts:
            return float(np.sqrt(np.einsum("i,i,i", self.weights, centred, centred)) / self.weights.sum())
        sums = np.bincount(self.codes, self.weights * centred)
        return float(np.linalg.norm(sums) / self.weights.sum())

    def draw(self, rng: np.random.Generator) -> HostArray:
        """The weight of each sample if samples, or clusters, are drawn again with replacement."""
        if self.counts:
            drawn: HostArray = rng.multinomial(self.n_samples, self.weights / self.weights.sum()).astype(float)
            return drawn
        number = int(self.codes.max()) + 1
        times: HostArray = np.bincount(rng.integers(number, size=number), minlength=number)[self.codes] * self.weights
        return times


@dataclass(frozen=True)
class CandidateScore:
    """One candidate of a selection.

    Attributes
    ----------
    name : str
        The name of the method; "none" is the model as it is.
    score : float
        Its out-of-fold score, lower is better.
    difference, difference_se : float or None
        What it exceeds the score of the chosen candidate by, and the standard error of that, which is somewhat too small.
    nll : float
        Its out-of-fold NLL, whatever the score is.
    n_unsolved : int
        In how many folds the method had no solution and smoothed targets took its place.
    """

    name: str
    score: float
    difference: float | None
    difference_se: float | None
    nll: float
    n_unsolved: int = 0


@dataclass(frozen=True, repr=False)
class MethodSelection(Displayed):
    """Which calibrator was chosen among several, and by which scores. ``print`` shows a table.

    Attributes
    ----------
    chosen : str
        The name of the candidate with the lowest score. Its own score is optimistic, because it is the lowest of several.
    scoring : str
        What was compared: "nll", "brier" or "ece".
    candidates : tuple of CandidateScore
        All candidates from the simplest to the richest, after "none", which is never chosen.
    left_out : dict of str to str
        Methods that were not tried, and why.
    n_folds, n_samples : int
        How many folds there were, of how many samples in all.
    """

    chosen: str
    scoring: Scoring
    candidates: tuple[CandidateScore, ...]
    left_out: Mapping[str, str]
    n_folds: int
    n_samples: int

    def __getitem__(self, name: str) -> CandidateScore:
        for candidate in self.candidates:
            if candidate.name == name:
                return candidate
        names = ", ".join(candidate.name for candidate in self.candidates)
        raise InputError("The candidate", f"be one of {names}", got=repr(name))

    @property
    def table(self) -> Tabular:
        """The scores as they are shown."""
        title = {"nll": "NLL", "brier": "Brier score", "ece": "bias-corrected ECE"}[self.scoring]
        return Tabular(("method", f"out-of-fold {title}", "minus the chosen"), list(map(self._row, self.candidates)))

    def _row(self, candidate: CandidateScore) -> tuple[str, str, str]:
        if candidate.name == self.chosen:
            shown = "chosen"
        elif candidate.difference is None or not isfinite(candidate.difference):
            shown = ""
        else:
            shown = value_with_error(candidate.difference, candidate.difference_se)
        return candidate.name, f"{candidate.score:.4g}", shown

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table must know."""
        notes = [f"{self.chosen}: {CANDIDATES[self.chosen].mends}."] if self.chosen in CANDIDATES else []
        number = "one fold" if self.n_folds == 1 else f"{self.n_folds} folds"
        notes += [
            f"Scored on {self.n_samples} samples in {number} that the methods were not fitted to. The lowest of several "
            "scores is optimistic: measure the chosen method on other data. Folds share samples, so the standard errors are "
            "somewhat too small."
        ]
        if self.scoring == "ece":
            notes.append(f"Only methods whose NLL exceeds the lowest by at most {100 * ECE_MARGIN:g} % could be chosen.")
        notes += [
            f"{candidate.name} had no solution in {candidate.n_unsolved} of {self.n_folds} folds: smoothed targets took its "
            "place there."
            for candidate in self.candidates
            if candidate.n_unsolved
        ]
        return (*notes, *(f"{name} was left out: {why}." for name, why in self.left_out.items()))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries; what is not finite is None."""
        names = ("chosen", "scoring", "candidates", "left_out", "n_folds", "n_samples")
        plain: dict[str, Any] = to_plain({name: getattr(self, name) for name in names})
        return plain

    @property
    def _display(self) -> Display:
        return Display("", (self.table,), self.notes)

    def __repr__(self) -> str:
        candidates = tuple(candidate.name for candidate in self.candidates)
        return short_repr(self, chosen=self.chosen, scoring=self.scoring, candidates=candidates, n_samples=self.n_samples)


def select(
    scores: Mapping[str, RowScores],
    units: Units,
    scoring: Scoring,
    *,
    n_unsolved: Mapping[str, int],
    left_out: Mapping[str, str],
    n_folds: int,
    seed: int,
) -> MethodSelection:
    """The candidate of the lowest score; of equal ones the simplest, which comes first. ``scores`` has "none" too."""
    scores, units = _without_lost_rows(scores, units)
    nll = {name: units.mean(rows.nll) for name, rows in scores.items()}
    able = [name for name in scores if name != NONE]
    if scoring != "ece":
        score = {name: units.mean(getattr(rows, scoring)) for name, rows in scores.items()}
    else:
        score = {name: _binned(rows, units).corrected for name, rows in scores.items()}
        most = min(nll[name] for name in able) * (1 + ECE_MARGIN)
        able = [name for name in able if nll[name] <= most] or able
    lowest = min(score[name] for name in able)
    # Methods that agree but for rounding are equal, and the first of them is the simplest.
    chosen = next(name for name in able if score[name] <= lowest + _ROUNDING * abs(lowest))
    errors = _difference_errors(scores, units, scoring, chosen, seed)
    candidates = tuple(
        CandidateScore(
            name,
            score[name],
            score[name] - score[chosen] if isfinite(score[name]) else None,
            errors[name],
            nll[name],
            n_unsolved.get(name, 0),
        )
        for name in scores
    )
    return MethodSelection(chosen, scoring, candidates, dict(left_out), n_folds, units.n_samples)


def _without_lost_rows(scores: Mapping[str, RowScores], units: Units) -> tuple[dict[str, RowScores], Units]:
    """The samples that do not have an infinite loss whatever the method, with a warning if some have."""
    lost = np.all([np.isinf(rows.nll) for rows in scores.values()], axis=0)
    if not lost.any() or lost.all():
        return dict(scores), units
    notice(
        f"{int(lost.sum())} of {len(lost)} samples have a true class of probability zero, which no method can change: "
        "methods are compared on the others.",
        InputWarning,
    )
    fields = RowScores.__dataclass_fields__
    kept = {name: RowScores(*(getattr(rows, field)[~lost] for field in fields)) for name, rows in scores.items()}
    return kept, units.subset(~lost)


def _difference_errors(
    scores: Mapping[str, RowScores], units: Units, scoring: Scoring, chosen: str, seed: int
) -> dict[str, float | None]:
    """The standard error of what each candidate's score exceeds the chosen one's by."""
    if scoring == "ece":
        return _resampled_errors(scores, units, chosen, seed)
    errors: dict[str, float | None] = {}
    own = getattr(scores[chosen], scoring)
    for name, rows in scores.items():
        with np.errstate(invalid="ignore"):
            error = units.error(getattr(rows, scoring) - own)
        errors[name] = error if isfinite(error) else None
    return errors


def _bins_of(confidence: HostArray) -> HostArray:
    return np.clip(np.searchsorted(uniform_edges(_BINS)[0], confidence, side="left") - 1, 0, _BINS - 1)


def _binned(scores: RowScores, units: Units) -> BinnedGaps:
    """The gaps of the bins of confidence, and how they vary together."""
    places, claimed, true, weights = (
        values[:, None] for values in (_bins_of(scores.confidence), scores.confidence, scores.right, units.weights)
    )
    number = int(units.codes.max()) + 1
    clusters = None if units.counts or number == len(units.codes) else Clusters(units.codes, number)
    return BinnedClaims(uniform_edges(_BINS), places, claimed, true, weights, clusters, units.counts).sums.gaps


def _resampled_errors(scores: Mapping[str, RowScores], units: Units, chosen: str, seed: int) -> dict[str, float | None]:
    """The standard deviation of the difference of ECEs, as measured, over samples that are drawn again with replacement."""
    rng = np.random.default_rng(seed)
    bins = {name: _bins_of(rows.confidence) for name, rows in scores.items()}
    gaps = {name: rows.confidence - rows.right for name, rows in scores.items()}
    drawn: dict[str, list[float]] = {name: [] for name in scores}
    for _ in range(_RESAMPLES):
        weights = units.draw(rng)
        total = weights.sum()
        if total == 0:
            continue
        for name in scores:
            drawn[name].append(float(np.abs(np.bincount(bins[name], weights * gaps[name], _BINS)).sum() / total))
    own = np.array(drawn[chosen])
    return {name: float(np.std(np.array(eces) - own, ddof=1)) for name, eces in drawn.items()}
