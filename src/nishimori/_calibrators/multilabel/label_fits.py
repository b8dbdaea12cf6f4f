"""The maps of all labels: one for all, one for each, or a temperature for each that is shrunk towards the common one.

The last is the random-effects model of `GroupConsistency`, where the group of a decision is its label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import clone

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.methods import new_calibrator
from nishimori._calibrators.multilabel.decisions import Column, Decisions
from nishimori._fit.groups import match_groups
from nishimori._methods.fitted_method import fit_checked
from nishimori._rows.labels import first_names
from nishimori._sums.groups import Grouping
from nishimori._sums.observables import BUILT_IN, Confidence, Energy
from nishimori._support.arrays import HostArray
from nishimori._support.warnings import Notice, collect_notices, notice
from nishimori.errors import FewErrorsWarning, InputError, InputWarning, NishimoriError, NotConvergedError, NoTemperatureError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature, temperature_of

Sharing = Literal["shared", "per_label", "shrunk"]
"""Whether labels share their parameters."""


@dataclass(frozen=True)
class LabelFit:
    """The map of each label, and how it was found.

    Attributes
    ----------
    maps : tuple of Map
        One per label.
    errors : array of shape (labels,) or None
        The standard errors of the temperatures; None where maps have none.
    common, common_se : float or None
        The temperature of all decisions together, and its standard error; None if it was not fitted.
    spread, used_spread : float or None
        The standard deviation of log T between labels: as estimated, and as temperatures are shrunk with.
    is_open : array of bool
        Which labels have the parameters of all decisions, because their own decisions do not tell.
    calibrators : tuple of Calibrator or None
        The fitted calibrator that each map comes from; None where temperatures were shrunk.
    """

    maps: tuple[Map, ...]
    errors: HostArray | None
    common: float | None
    common_se: float | None
    spread: float | None
    used_spread: float | None
    is_open: HostArray
    calibrators: tuple[Calibrator, ...] | None = None


def binary_method(calibrator: Any) -> Calibrator:
    """An unfitted calibrator of binary scores, from its name or from another."""
    made = new_calibrator(calibrator, "calibrator")
    for name in ("input", "classes", "floor"):
        if getattr(made, name) not in (None, {"input": "logits", "floor": "auto"}.get(name)):
            raise InputError(
                "The calibrator inside",
                f"leave out `{name}`",
                got=repr(getattr(made, name)),
                remedy="Pass `input` and `floor` to the MultilabelCalibrator.",
            )
    return made


# The parameters of EC and TS whose temperatures can be shrunk.
_USUAL = {"top_n": 1, "smooth_labels": False}


def check_parameters(parameters: Any) -> None:
    """Refuse any other word."""
    if not isinstance(parameters, str) or parameters not in get_args(Sharing):
        raise InputError("parameters", "be 'shared', 'per_label' or 'shrunk'", got=repr(parameters))


def fit_labels(method: Calibrator, parameters: Sharing, rows: Decisions) -> LabelFit:
    """The maps of all labels."""
    if parameters == "shared":
        return _fit_shared(method, rows)
    return _fit_per_label(method, rows) if parameters == "per_label" else _fit_shrunk(method, rows)


def _fit_to_all(method: Calibrator, rows: Decisions) -> Calibrator:
    """The method fitted to all decisions together."""
    found: Calibrator = fit_checked(clone(method), rows)
    _check_map(found.map_)
    return found


def _fit_shared(method: Calibrator, rows: Decisions) -> LabelFit:
    found, number = _fit_to_all(method, rows), len(rows.names)
    common = temperature_of(found.map_)
    error = found.temperature_se_
    errors = None if common is None or error is None else np.full(number, error)
    maps, is_open = (found.map_,) * number, np.zeros(number, dtype=bool)
    return LabelFit(maps, errors, common, error, None, None, is_open, (found,) * number)


def _fit_shrunk(method: Calibrator, rows: Decisions) -> LabelFit:
    observable = BUILT_IN.get(method.method_name)
    if not isinstance(observable, Confidence | Energy) or not method.method_params().items() <= _USUAL.items():
        which = f"the method {method.method_name!r}" + (" with such parameters" if observable is not None else "")
        raise InputError(
            "parameters", f"be 'shared' or 'per_label' for {which}: only the temperatures of 'ec' and 'ts' can be shrunk"
        )
    found = _fit_to_all(method, rows)
    common = found.temperature_
    assert common is not None, "as both methods have"
    # A sample has each label once: within a label its decisions are independent, unless the caller names clusters.
    together = rows.together
    data = rows.independent() if together is not None and together.are_rows else rows
    match = match_groups(data, Grouping("groups", len(rows.names)), observable, common, found.temperature_se_)
    names = _names_where(rows, match.is_open)
    if names:
        notice(
            f"{_which(names)} fewer than two known decisions, or only decisions on which a temperature has hardly any effect, "
            f"or too few to determine one: the temperature of all decisions, {common:.4g}, is used.",
            InputWarning,
        )
    maps = tuple(map(Temperature, match.temperatures.tolist()))
    return LabelFit(maps, match.errors, common, found.temperature_se_, match.spread, match.used_spread, match.is_open)


def _fit_per_label(method: Calibrator, rows: Decisions) -> LabelFit:
    fits: list[Calibrator | None] = []
    told: dict[Notice, list[Any]] = {}
    reasons: list[str] = []
    for _ in rows:  # which checks the values, with their places in the table
        pass
    for name, column in zip(rows.names, rows.by_label(), strict=True):
        with collect_notices() as notices:
            found, reason = _of_label(method, rows, name, column)
        fits.append(found)
        reasons += [reason] if found is None else []
        for each in notices if found is not None else ():
            told.setdefault(each, []).append(name)
    is_open = np.array([each is None for each in fits])
    common = _fit_to_all(method, rows) if is_open.any() else None
    if common is not None:
        names = _names_where(rows, is_open)
        notice(f"{_which(names)} the parameters of all decisions. Reason for {names[0]!r}: {reasons[0]}", InputWarning)
    _tell(told)
    chosen = tuple(calibrator for each in fits if (calibrator := each or common) is not None)
    maps = tuple(each.map_ for each in chosen)
    errors = [each.temperature_se_ for each in chosen]
    unknown = None in errors or None in [temperature_of(each) for each in maps]
    return LabelFit(
        maps=maps,
        errors=None if unknown else np.array(errors, dtype=float),
        common=None if common is None else temperature_of(common.map_),
        common_se=None if common is None else common.temperature_se_,
        spread=None,
        used_spread=None,
        is_open=is_open,
        calibrators=chosen,
    )


def _tell(told: dict[Notice, list[Any]]) -> None:
    """The notices of fits to single labels, each once, with the names of its labels."""
    few = [name for (_, category), names in told.items() if category is FewErrorsWarning for name in names]
    if few:
        notice(
            f"{_which(few)} so few right or wrong decisions that the parameters are uncertain. Use a larger validation set, "
            "or parameters='shared'.",
            FewErrorsWarning,
        )
    for (message, category), names in told.items():
        if category is not FewErrorsWarning:
            notice(f"{'Label' if len(names) == 1 else 'Labels'} {first_names(names)}: {message}", category)


def _of_label(method: Calibrator, rows: Decisions, name: Any, column: Column) -> tuple[Calibrator | None, str]:
    """The method fitted to one label, or None and the reason why its decisions do not tell its parameters."""
    if len(column.labels) < 2:
        return None, "It is known for fewer than two samples."
    made: Calibrator = clone(method).set_params(input=rows.scores.input, floor=rows.scores.floor)
    try:
        found: Calibrator = fit_checked(made, column.scores, column.labels, **_options(made.fit, column))
    except NishimoriError as error:
        # Methods other than a temperature may refuse labels that all samples have, or none.
        if isinstance(error, NoTemperatureError | NotConvergedError) or len(np.unique(column.labels)) < 2:
            return None, str(error)
        raise type(error)(f"Label {name!r}: {error}") from None
    _check_map(found.map_)
    return found, ""


def _options(fit: Callable[..., Any], column: Column) -> dict[str, Any]:
    """Weights and clusters, as far as there are any."""
    options: dict[str, Any] = {"sample_weight": column.weights}
    if column.clusters is None:
        return options
    if "clusters" not in signature(fit).parameters:
        raise InputError("clusters", "be left out with this calibrator, which has no standard errors")
    return options | {"clusters": column.clusters}


def _check_map(map_: Map) -> None:
    """Refuse maps that do not treat each decision by itself."""
    if map_.needs_groups or map_.n_classes not in (None, 2):
        raise InputError("calibrator", "have a map of two classes without groups", got=f"one of the kind {map_.kind!r}")


def _names_where(rows: Decisions, flags: HostArray) -> list[Any]:
    return [name for name, flag in zip(rows.names, flags, strict=True) if flag]


def _which(names: list[Any]) -> str:
    """Some labels as the subject of a sentence, with its verb."""
    shown = "1 label" if len(names) == 1 else f"{len(names)} labels"
    return f"{shown} ({first_names(names)}) {'has' if len(names) == 1 else 'have'}"
