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

from nishimori._calibrators.folds import mean_by_row
from nishimori._methods.table import CANDIDATES
from nishimori._support.arrays import HostArray
from nishimori._support.display import Display, Displayed, short_repr
from nishimori._support.formatting import value_with_error
from nishimori._support.json import to_plain
from nishimori._support.tables import Tabular
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.maps.map import Map

Scoring = Literal["nll", "brier"]

NONE = "none"
"""The model as it is: scored for comparison, and never chosen."""

# Scores that differ by less than this share of their size differ by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RowScores:
    """What one candidate does to each sample: its loss and its Brier score."""

    nll: HostArray
    brier: HostArray

    @classmethod
    def after_map(cls, map_: Map, logits: HostArray, labels: HostArray, groups: Any = None) -> "RowScores":
        """The scores of some rows after a map."""
        log_p = np.asarray(map_.log_probabilities(logits, groups))
        p, rows = np.exp(log_p), np.arange(len(labels))
        brier = np.einsum("ij,ij->i", p, p) - 2 * p[rows, labels] + 1
        return cls(-log_p[rows, labels], brier)

    @classmethod
    def in_order(cls, rows: Sequence[HostArray], parts: "Sequence[RowScores]") -> "RowScores":
        """The scores of the ``rows`` of several folds, in ascending order of the rows, one for each row."""
        return cls(*(mean_by_row(rows, [getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class SampleUnits:
    """The weight of each sample, and which samples are drawn together: clusters, or each one alone."""

    weights: HostArray
    codes: HostArray
    counts: bool = False  # whether a weight of w stands for w samples, which are then alone

    @property
    def n_samples(self) -> int:
        """How many samples there are."""
        return round(float(self.weights.sum())) if self.counts else len(self.weights)

    def subset(self, chosen: HostArray) -> "SampleUnits":
        """Some of the samples, by a mask or by their numbers; units without any of them are not counted."""
        return SampleUnits(self.weights[chosen], np.unique(self.codes[chosen], return_inverse=True)[1], self.counts)

    def mean(self, values: HostArray) -> float:
        """The weighted mean of one number per sample."""
        return float(np.einsum("i,i", self.weights, values) / self.weights.sum())

    def error(self, values: HostArray) -> float | None:
        """The standard error of that mean; None where a value is infinite."""
        with np.errstate(invalid="ignore"):
            centred = values - self.mean(values)
            if self.counts:
                error = np.sqrt(np.einsum("i,i,i", self.weights, centred, centred)) / self.weights.sum()
            else:
                error = np.linalg.norm(np.bincount(self.codes, self.weights * centred)) / self.weights.sum()
        return float(error) if np.isfinite(error) else None


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
        What was compared: "nll" or "brier"; "ece" in a file of an earlier version.
    candidates : tuple of CandidateScore
        All candidates from the simplest to the richest, after "none", which is never chosen.
    left_out : dict of str to str
        Methods that were not tried, and why.
    n_folds, n_samples : int
        How many folds there were, of how many samples in all.
    """

    chosen: str
    scoring: str
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
        return to_plain({name: getattr(self, name) for name in names})

    @property
    def _display(self) -> Display:
        return Display("", (self.table,), self.notes)

    def __repr__(self) -> str:
        candidates = tuple(candidate.name for candidate in self.candidates)
        return short_repr(self, chosen=self.chosen, scoring=self.scoring, candidates=candidates, n_samples=self.n_samples)


def select(
    scores: Mapping[str, RowScores],
    units: SampleUnits,
    scoring: Scoring,
    *,
    n_unsolved: Mapping[str, int],
    left_out: Mapping[str, str],
    n_folds: int,
) -> MethodSelection:
    """The candidate of the lowest score; of equal ones the simplest, which comes first. ``scores`` has "none" too."""
    scores, units = _without_lost_rows(scores, units)
    nll = {name: units.mean(rows.nll) for name, rows in scores.items()}
    able = [name for name in scores if name != NONE]
    score = {name: units.mean(getattr(rows, scoring)) for name, rows in scores.items()}
    lowest = min(score[name] for name in able)
    # Methods that agree but for rounding are equal, and the first of them is the simplest.
    chosen = next(name for name in able if score[name] <= lowest + _ROUNDING * abs(lowest))
    own = getattr(scores[chosen], scoring)
    candidates = tuple(
        CandidateScore(
            name,
            score[name],
            score[name] - score[chosen] if isfinite(score[name]) else None,
            units.error(getattr(rows, scoring) - own),
            nll[name],
            n_unsolved.get(name, 0),
        )
        for name, rows in scores.items()
    )
    return MethodSelection(chosen, scoring, candidates, dict(left_out), n_folds, units.n_samples)


def _without_lost_rows(scores: Mapping[str, RowScores], units: SampleUnits) -> tuple[dict[str, RowScores], SampleUnits]:
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
