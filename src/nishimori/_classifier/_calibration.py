"""Calibrators for the scores of a classifier: made from what the user passed, and fitted to some rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from nishimori._array import HostArray
from nishimori._calibrators import Calibrator, unfitted
from nishimori._classifier._folds import FoldScores
from nishimori._classifier._response import Scorer
from nishimori._labels import class_labels
from nishimori._notice import notice
from nishimori._sklearn import method_params_of_rows
from nishimori.errors import InputError, InputWarning, NishimoriError, NotConvergedError, NoTemperatureError

Floor = float | Literal["auto"] | None

# From what float64 can tell from 1, up to a vote in a hundred. scikit-learn adds 1e-12 to all probabilities.
_FLOORS = (2.0**-52, 1e-10, 1e-6, 1e-4, 1e-3, 1e-2)


def prepared(given: Any, scorer: Scorer, floor: Floor, name: str = "calibrator") -> Calibrator:
    """An unfitted calibrator that takes what ``scorer`` returns; refuses one that was told something else."""
    made = unfitted(given, name)
    known = made.get_params(deep=False)
    if known["input"] == "probabilities" and scorer.input == "logits":
        raise InputError(
            f"`{name}` must take logits, because the scores come from `{scorer.method}`, got input='probabilities'. Leave "
            "`input` out, or pass `response='predict_proba'`."
        )
    if made.traits is not None and made.traits.n_classes == "two" and len(scorer.classes) > 2:
        raise InputError(
            f"`{name}` must be a method for any number of classes, because there are {len(scorer.classes)} classes, got "
            f"{made.method_name!r}, which is for two. Use 'vector' or 'matrix', for example."
        )
    classes = known["classes"]
    if classes is not None and class_labels(classes).tolist() != scorer.classes.tolist():
        raise InputError(
            f"`{name}` must leave `classes` out, because the classifier knows them, got {list(classes)!r} where they are "
            f"{scorer.classes.tolist()!r}."
        )
    made.set_params(input=scorer.input, classes=scorer.classes, **_floor(known, scorer, floor, name))
    return made


def _floor(known: Mapping[str, Any], scorer: Scorer, floor: Any, name: str) -> dict[str, Any]:
    """The floor that the calibrator gets before it sees any scores, if any."""
    if floor is None or (isinstance(floor, str) and floor == "auto"):
        return {}
    if isinstance(floor, bool) or not isinstance(floor, Real):
        raise InputError(f"`floor` must be a number, 'auto' or None, got {floor!r}.")
    if scorer.input == "logits":
        raise InputError(
            f"`floor` must be left out, because the scores come from `{scorer.method}` and have none, got {floor!r}. It raises "
            "probabilities: pass `response='predict_proba'` if you want them."
        )
    if "floor" not in known:
        raise InputError(f"`floor` must be left out: the `{name}` does not take it.")
    if known["floor"] not in (None, floor):
        raise InputError(f"`floor` must be passed once, got {floor!r}, and {known['floor']!r} of the `{name}`.")
    return {"floor": floor}


def floors_for(calibrator: Calibrator, scorer: Scorer, floor: Floor) -> tuple[float, ...]:
    """The floors to choose from, ascending; none if there is nothing to choose."""
    has_own = calibrator.get_params(deep=False).get("floor", 0.0) is not None
    if floor != "auto" or scorer.input == "logits" or has_own or calibrator.is_fixed:
        return ()
    # Well below the smallest value that the largest probability of a sample can have, so that predictions stay.
    return tuple(each for each in _FLOORS if each <= 0.1 / len(scorer.classes))


@dataclass(frozen=True)
class Candidate:
    """A calibrator, and how it is fitted.

    Attributes
    ----------
    calibrator : Calibrator
        The one to copy and fit.
    floors : tuple of float
        The floors of probabilities to choose from, ascending, by the loss of the rows that a calibrator is fitted to. If there
        are none, the calibrator is used as it is.
    params : dict
        Keyword arguments of `fit`, of all rows.
    """

    calibrator: Calibrator
    floors: tuple[float, ...]
    params: Mapping[str, Any]

    def fitted(self, part: FoldScores, y: HostArray) -> Calibrator:
        """The calibrator with the largest floor that the data allow; raises if no floor has a solution.

        Where no true class has a very small probability, the loss hardly depends on the floor. One that is too low then costs
        much as soon as there is such a sample, and one that is too high costs little. So of the floors whose log-likelihood is
        within 1 of the best, which is about one standard error, the largest is taken.
        """
        scores, labels = part.scores, y[part.rows]
        params = method_params_of_rows(y, self.params, indices=part.rows)
        first: Calibrator = clone(self.calibrator)
        if not self.floors:
            return first.fit(scores, labels, **params)
        found: list[Calibrator] = []
        reasons: list[NishimoriError] = []
        # Floors below all probabilities change nothing, so that one of them is enough.
        for floor in (self.floors[0], *(each for each in self.floors[1:] if each > scores.min())):
            copy: Calibrator = clone(self.calibrator).set_params(floor=floor)
            try:
                found.append(copy.fit(scores, labels, **params))
            except (NoTemperatureError, NotConvergedError) as error:
                reasons.append(error)
        if not found:
            raise reasons[0]
        losses = [_loss(fitted, scores, labels, params) for fitted in found]
        return found[max(i for i, loss in enumerate(losses) if loss <= min(losses) + 1)]


@dataclass(frozen=True)
class Calibration:
    """How calibrators are fitted to scores.

    Attributes
    ----------
    first : Candidate
        The calibrator that the user chose.
    fallback : Candidate or None
        The one to use where the first has no solution.
    y : array
        The true class of each row of the data.
    """

    first: Candidate
    fallback: Candidate | None
    y: HostArray

    def fitted(self, part: FoldScores) -> Calibrator:
        """A calibrator that is fitted to the scores of some rows."""
        where = f" in {part.name}" if part.name else ""
        try:
            return self._solution(part, where)
        except (NoTemperatureError, NotConvergedError) as error:
            raise _with_remedy(error, where) from None
        except InputError as error:
            if not where:
                raise
            raise InputError(f"{error} This is about the test part of {part.name}.") from None

    def _solution(self, part: FoldScores, where: str) -> Calibrator:
        """The calibrator, or with a warning the fallback; raises if none has a solution."""
        try:
            if part.is_constant and not self.first.calibrator.is_fixed:
                raise NoTemperatureError("The classifier gives every sample the same score.", end="flat")
            return self.first.fitted(part, self.y)
        except (NoTemperatureError, NotConvergedError) as error:
            if self.fallback is None:
                raise
            other = self.fallback.fitted(part, self.y)
            notice(
                f"{other.method_name!r} is used instead of {self.first.calibrator.method_name!r}{where}, which has no "
                f"solution: {error}",
                InputWarning,
            )
            return other


def _loss(fitted: Calibrator, scores: HostArray, labels: HostArray, params: Mapping[str, Any]) -> float:
    """The sum of the cross-entropy of calibrated scores, with weights that are 1 on average."""
    groups = {"groups": params["groups"]} if fitted.map_.needs_groups else {}
    log_p = np.asarray(fitted.predict_log_proba(scores, **groups))
    columns = np.searchsorted(fitted.classes_, labels, sorter=(order := np.argsort(fitted.classes_)))
    losses = -log_p[np.arange(len(labels)), order[columns]]
    weights = np.asarray(params.get("sample_weight", np.ones(len(labels))), dtype=float)
    counts = weights > 0  # an infinite loss of weight zero is none
    return float(losses[counts] @ weights[counts] / weights[counts].mean())


_REMEDY = {
    "cold": "Use more samples, or pass `fallback='none'` to keep such scores as they are.",
    "hot": "What the classifier learns does not hold for other samples. Check features and labels, or use another classifier.",
    "flat": (
        "Such scores say nothing about a sample. Check features and labels, use another classifier, or pass `fallback='none'` "
        "to keep such scores as they are."
    ),
}


def _with_remedy(error: NoTemperatureError | NotConvergedError, where: str) -> NishimoriError:
    """The same error, with its place and what can be done about it here."""
    start = f"The scores of the classifier cannot be calibrated{where}."
    is_flat = isinstance(error, NoTemperatureError) and error.end == "flat"
    more = where and not is_flat  # samples that might help
    pooling = " With ensemble=False all folds are calibrated together, on more samples." if more else ""
    if isinstance(error, NotConvergedError):
        keep = "Pass `fallback='none'` to keep such scores as they are."
        return NotConvergedError(f"{start} {error} {keep}{pooling}")
    cause = str(error).partition(". ")[0].rstrip(".")
    return NoTemperatureError(f"{start} {cause}. {_REMEDY[error.end]}{pooling}", end=error.end)
