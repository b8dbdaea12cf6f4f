"""Calibrators for the scores of a classifier: made from what the user passed, and fitted to some rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from sklearn.base import clone

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.classifier.folds import FoldScores
from nishimori._calibrators.classifier.response import Scorer
from nishimori._calibrators.methods import new_calibrator
from nishimori._methods.fitted_method import fit_checked
from nishimori._rows.labels import class_labels
from nishimori._rows.scores import Floor, is_auto
from nishimori._support.arrays import HostArray
from nishimori._support.sklearn import method_params_of_rows
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning, NishimoriError, NotConvergedError, NoTemperatureError


def prepare(given: Any, scorer: Scorer, floor: Floor, name: str = "calibrator") -> Calibrator:
    """An unfitted calibrator that takes what ``scorer`` returns; refuses one that was told something else."""
    made = new_calibrator(given, name)
    known = made.get_params(deep=False)
    if known["input"] == "probabilities" and scorer.input == "logits":
        raise InputError(
            name,
            f"take logits, because the scores come from `{scorer.method}`",
            got="input='probabilities'",
            remedy="Leave `input` out, or pass `response='predict_proba'`.",
        )
    if made.traits is not None and made.traits.n_classes == "two" and len(scorer.classes) > 2:
        raise InputError(
            name,
            f"be a method for any number of classes, because there are {len(scorer.classes)} classes",
            got=f"{made.method_name!r}, which is for two",
            remedy="Use 'vector' or 'matrix', for example.",
        )
    classes = known["classes"]
    if classes is not None and class_labels(classes).tolist() != scorer.classes.tolist():
        raise InputError(
            name,
            "leave `classes` out, because the classifier knows them",
            got=f"{list(classes)!r} where they are {scorer.classes.tolist()!r}",
        )
    made.set_params(input=scorer.input, classes=scorer.classes, **_floor(made, known, scorer, floor, name))
    return made


def _floor(made: Calibrator, known: Mapping[str, Any], scorer: Scorer, floor: Any, name: str) -> dict[str, Any]:
    """The floor that the calibrator gets, if any. "auto" is for calibrators that learn something from probabilities."""
    if floor is None:
        return {}
    if is_auto(floor):
        chooses = scorer.input == "probabilities" and not made.is_fixed and known.get("floor", 0.0) is None
        return {"floor": "auto"} if chooses else {}
    if isinstance(floor, bool) or not isinstance(floor, Real):
        raise InputError("floor", "be a number, 'auto' or None", got=repr(floor))
    if scorer.input == "logits":
        raise InputError(
            "floor",
            f"be left out, because the scores come from `{scorer.method}` and have none",
            got=repr(floor),
            remedy="It raises probabilities: pass `response='predict_proba'` if you want them.",
        )
    if "floor" not in known:
        raise InputError("floor", f"be left out: the `{name}` does not take it")
    if known["floor"] not in (None, floor):
        raise InputError("floor", "be passed once", got=f"{floor!r}, and {known['floor']!r} of the `{name}`")
    return {"floor": floor}


@dataclass(frozen=True)
class Candidate:
    """A calibrator, and how it is fitted.

    Attributes
    ----------
    calibrator : Calibrator
        The one to copy and fit.
    params : dict
        Keyword arguments of `fit`, of all rows.
    """

    calibrator: Calibrator
    params: Mapping[str, Any]

    def fit_to(self, part: FoldScores, y: HostArray) -> Calibrator:
        """A copy of the calibrator that is fitted to the scores of some rows; raises if it has no solution."""
        made: Calibrator = clone(self.calibrator)
        return fit_checked(made, part.scores, y[part.rows], **method_params_of_rows(y, self.params, indices=part.rows))


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

    def fit_to(self, part: FoldScores) -> Calibrator:
        """A calibrator that is fitted to the scores of some rows."""
        where = f" in {part.name}" if part.name else ""
        try:
            return self._solution(part, where)
        except (NoTemperatureError, NotConvergedError) as error:
            raise _with_remedy(error, where) from None
        except InputError as error:
            if not where:
                raise
            about = f"This is about the test part of {part.name}."
            raise error.changed(remedy=f"{error.remedy} {about}".strip()) from None

    def _solution(self, part: FoldScores, where: str) -> Calibrator:
        """The calibrator, or with a warning the fallback; raises if none has a solution."""
        try:
            if part.is_constant and not self.first.calibrator.is_fixed:
                raise NoTemperatureError("The classifier gives every sample the same score.", end="flat")
            return self.first.fit_to(part, self.y)
        except (NoTemperatureError, NotConvergedError) as error:
            if self.fallback is None:
                raise
            other = self.fallback.fit_to(part, self.y)
            notice(
                f"{other.method_name!r} is used instead of {self.first.calibrator.method_name!r}{where}, which has no "
                f"solution: {error}",
                InputWarning,
            )
            return other


_REMEDY = {
    "cold": "Use more samples, or pass `fallback='none'` to keep such scores as they are.",
    "hot": "What the classifier learns does not hold for other samples. Check features and labels, or use another classifier.",
    "flat": (
        "Such scores say nothing about a sample. Check features and labels, use another classifier, or pass `fallback='none'` "
        "to keep such scores as they are."
    ),
}


def _with_remedy(error: NoTemperatureError | NotConvergedError, where: str) -> NishimoriError:
    """An error of a fit, with the fold where it was raised and what can be done about it."""
    start = f"The scores of the classifier cannot be calibrated{where}."
    is_flat = isinstance(error, NoTemperatureError) and error.end == "flat"
    more = where and not is_flat  # samples that might help
    pooling = " With ensemble=False all folds are calibrated together, on more samples." if more else ""
    if isinstance(error, NotConvergedError):
        keep = "Pass `fallback='none'` to keep such scores as they are."
        return NotConvergedError(f"{start} {error} {keep}{pooling}")
    return NoTemperatureError(f"{start} {error.why}", f"{_REMEDY[error.end]}{pooling}", end=error.end)
