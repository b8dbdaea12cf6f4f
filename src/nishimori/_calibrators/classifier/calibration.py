"""Calibrators for the scores of a classifier: made from what the user passed, and fitted to some rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from nishimori._calibrators.best import Best
from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.classifier.response import HeldOutScores, Scorer
from nishimori._calibrators.folds import linked_units
from nishimori._calibrators.methods import new_calibrator, refuse_two_classes
from nishimori._calibrators.private_sklearn import method_params_of_rows
from nishimori._calibrators.rescue import NONE_FOUND, fit_always, with_frequencies
from nishimori._rows.scores import Floor, is_auto
from nishimori._sums.observables import CHECK_CLASS_ORDER
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import join_names
from nishimori._support.warnings import Notice, notice
from nishimori.errors import FewErrorsWarning, InputError, InputWarning, NoTemperatureError


def prepare_calibrator(method: Any, scorer: Scorer, floor: Floor) -> Calibrator:
    """An unfitted calibrator that takes what ``scorer`` returns; refuses one that expects something else."""
    calibrator = new_calibrator(method, "calibrator")
    params = calibrator.get_params(deep=False)
    if params["input"] == "probabilities" and scorer.input == "logits":
        raise InputError(
            "calibrator",
            f"take logits, because the scores come from `{scorer.method}`",
            got="input='probabilities'",
            remedy="Leave `input` out, or pass `response_method='predict_proba'`.",
        )
    refuse_two_classes(calibrator, "calibrator", len(scorer.classes))
    calibrator.set_params(input=scorer.input, classes=scorer.classes, **_floor(calibrator, params, scorer, floor))
    return calibrator


def _floor(calibrator: Calibrator, params: Mapping[str, Any], scorer: Scorer, floor: Any) -> dict[str, Any]:
    """The floor that the calibrator gets, if any. "auto" is for calibrators that learn something from probabilities."""
    is_open = params.get("floor", 0.0) in (None, "auto")
    if floor is None:
        return {"floor": None} if is_open else {}
    if is_auto(floor):
        chooses = scorer.input == "probabilities" and not calibrator.is_fixed and is_open
        return {"floor": "auto"} if chooses else {}
    if scorer.input == "logits":
        raise InputError(
            "floor",
            f"be left out, because the scores come from `{scorer.method}` and have none",
            got=repr(floor),
            remedy="It raises probabilities: pass `response_method='predict_proba'` if you want them.",
        )
    if not is_open and params.get("floor", floor) != floor:
        raise InputError("floor", "be passed once", got=f"{floor!r}, and {params['floor']!r} of the `calibrator`")
    return {"floor": floor}


@dataclass(frozen=True)
class Calibration:
    """How calibrators are fitted to scores.

    Attributes
    ----------
    calibrator : Calibrator
        The one to copy and fit.
    params : dict
        Keyword arguments of its `fit`, of all rows.
    y : array
        The true class of each row of the data.
    """

    calibrator: Calibrator
    params: Mapping[str, Any]
    y: HostArray

    def fit_to(self, part: HeldOutScores) -> Calibrator:
        """A calibrator that is fitted to the scores of some rows: a copy, or what `fit_always` gives if it has no solution."""
        method: Calibrator = clone(self.calibrator)
        data, params = (part.scores, self.y[part.rows]), self._params_of(part)
        if isinstance(method, Best):
            _limit_folds(method, len(part.rows), params)
        try:
            if not method.is_fixed and part.is_constant:
                error = NoTemperatureError("The classifier gives every sample the same score.", end="flat")
                fitted = with_frequencies(method, error, *data, where=part.name, **params)
            else:
                fitted = fit_always(method, *data, where=part.name, **params)
        except InputError as error:
            if not part.name:
                raise
            about = f"This is about the test part of {part.name}."
            raise error.changed(remedy=f"{error.remedy} {about}".strip()) from None
        fitted.data_digest_ = None  # whoever measures on these scores has set `keep_scores`
        return fitted

    def _params_of(self, part: HeldOutScores) -> dict[str, Any]:
        """The arguments of `fit` for some rows. The test part of a fold that is a single cluster says nothing about errors.

        A row that several folds hold out is there as often, each time with its share of the weight, and these are a cluster.
        """
        params: dict[str, Any] = method_params_of_rows(self.y, self.params, indices=part.rows)
        for name in ("clusters", "groups") if part.name else ():
            if name in params and len(set(np.asarray(params[name]).tolist())) == 1:
                del params[name]
        copies = np.bincount(part.rows)[part.rows]
        if copies.max() > 1:
            params["sample_weight"] = np.asarray(params.get("sample_weight", 1.0)) / copies
            if "clusters" in signature(self.calibrator.fit).parameters:
                params.setdefault("clusters", part.rows)
        return params

    def parts_with_weight(self, scored: Sequence[HeldOutScores]) -> list[int]:
        """Which test parts have samples of positive weight; warns of others, and gives all if there are no such samples."""
        weights = self.params.get("sample_weight")
        kept = [i for i, part in enumerate(scored) if weights is None or np.asarray(weights)[part.rows].any()]
        if not kept:
            return list(range(len(scored)))
        if left_out := [part.name for i, part in enumerate(scored) if i not in kept]:
            notice(
                f"All samples of the test part of {join_names(left_out)} have weight zero, so that there is nothing to "
                "calibrate the classifier with: it is left out.",
                InputWarning,
            )
        return kept


def warn_once(notices: Sequence[Notice], *, per_fold: bool) -> None:
    """One warning of each kind, where several fits have warned ``per_fold`` of an ensemble, with what helps there."""
    if any(NONE_FOUND in message for message, _ in notices):  # which says as much as that the errors are few
        notices = [(message, category) for message, category in notices if category is not FewErrorsWarning]
    kinds: dict[Any, list[str]] = {}
    for full, category in notices:
        # The columns are in order, and there are no validation data to have more of.
        message = full.replace(f" {CHECK_CLASS_ORDER}", "")
        if category is FewErrorsWarning:
            message = f"{message.partition('; ')[0]}.{'' if per_fold else ' Pass more samples.'}"
        start = _NAMES_AND_NUMBERS.sub("", message.partition(". ")[0])
        kinds.setdefault((category, None if category is FewErrorsWarning else start), []).append(message)
    for (category, _), messages in kinds.items():
        n_others = len(messages) - 1
        others = f" So it is in {n_others} other fold{'s' if n_others > 1 else ''}." if n_others else ""
        notice(f"{messages[0]}{others}{_POOLED if per_fold else ''}", category)


_NAMES_AND_NUMBERS = re.compile(r"'[^']*'|\d[\d.,]*")

_POOLED = ' With ensemble="pooled" one calibrator is fitted to the samples of all folds.'


def _limit_folds(best: Best, n_samples: int, params: Mapping[str, Any]) -> None:
    """Use no more folds than there are samples, or sets of samples that ``params`` of `fit` keep together."""
    if not isinstance(best.cv, Integral | None):
        return
    clusters, groups = (
        np.unique(np.asarray(params[name]), return_inverse=True)[1] if name in params else None
        for name in ("clusters", "groups")
    )
    units = linked_units(clusters, groups)
    n_units = n_samples if units is None else len(np.unique(units))
    best.cv = max(2, min(5 if best.cv is None else int(best.cv), n_units))
