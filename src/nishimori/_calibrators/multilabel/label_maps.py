"""What calibration does to the decisions of a multilabel model: a map of two classes for each label, and how it is fitted.

There is one map for all labels, one for each, or a temperature for each that is shrunk towards the common one. The last is the
random-effects model of `GroupConsistency`, where the group of a decision is its label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.multilabel.decisions import Column, Decisions
from nishimori._fit.groups import match_groups
from nishimori._methods.fitted_method import fit_checked
from nishimori._rows.batch import Groups
from nishimori._sums.groups import Grouping
from nishimori._sums.observables import BUILT_IN, Confidence, Energy
from nishimori._support.arrays import Array, HostArray, like, namespace, on_device_of, rows_at, to_compute
from nishimori._support.formatting import join_names
from nishimori._support.warnings import Notice, collect_notices, notice
from nishimori.errors import FewErrorsWarning, InputError, InputWarning, NishimoriError, NotConvergedError, NoTemperatureError
from nishimori.maps.map import Map, apply_checked
from nishimori.maps.temperature import Temperature, temperature_of

Sharing = Literal["shared", "per_label", "shrunk"]
"""Whether labels share their parameters."""


@dataclass(frozen=True, eq=False)
class LabelMaps(Map):
    """A map for each label. As a map of binary rows, the group of a row is its label."""

    maps: tuple[Map, ...]
    kind: ClassVar[str] = "labels"
    needs_groups = True

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"maps": [{"kind": map_.kind, "parameters": dict(map_.parameters)} for map_ in self.maps]}

    @property
    def keeps_predictions(self) -> bool:  # type: ignore[override]
        """Whether no decision changes."""
        return all(map_.keeps_predictions for map_ in self.maps)

    @property
    def is_shared(self) -> bool:
        """Whether all labels have the same map."""
        return all(map_ is self.maps[0] for map_ in self.maps)

    @cached_property
    def temperatures(self) -> HostArray | None:
        """The temperature of each label; None if some map does more than to divide by one."""
        temperatures = [temperature_of(map_) for map_ in self.maps]
        return None if None in temperatures else np.array(temperatures, dtype=float)

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """Binary rows, each after the map of its label; ``groups`` are a `Groups` whose codes are the places of the labels."""
        assert isinstance(groups, Groups), "rows come from `Decisions`"
        if self.temperatures is not None:
            wide = to_compute(logits)
            temperatures = namespace(wide).astype(on_device_of(self.temperatures[groups.codes], logits), wide.dtype)
            with np.errstate(over="ignore"):  # beyond the range of the dtype, as in float16 beyond 65,504: infinite
                return like(wide / temperatures[:, None], logits)
        if self.is_shared:
            return apply_checked(self.maps[0], logits)
        order = np.argsort(groups.codes, kind="stable")
        cuts = np.searchsorted(groups.codes[order], np.arange(len(self.maps) + 1))
        parts = [
            apply_checked(self.maps[place], rows_at(logits, order[low:high]))
            for place, (low, high) in enumerate(pairwise(cuts.tolist()))
            if low < high
        ]
        return rows_at(namespace(logits).concat(parts, axis=0), np.argsort(order))


@dataclass(frozen=True)
class LabelFit:
    """The map of each label, and how it was fitted; calibrators show these fields as attributes.

    Attributes
    ----------
    maps : tuple of Map
        One per label.
    temperatures_se : array of shape (labels,) or None
        The standard errors of the temperatures; None where maps have none.
    temperature, temperature_se : float or None
        The temperature of all decisions together, and its standard error; None if it was not fitted.
    spread, used_spread : float or None
        The standard deviation of log T between labels: as estimated, and as temperatures are shrunk with.
    open_labels : tuple
        The names of labels that have the parameters of all decisions, because their own decisions do not tell.
    calibrators : tuple of Calibrator or None
        The fitted calibrator that each map comes from; None where temperatures were shrunk.
    """

    maps: tuple[Map, ...]
    temperatures_se: HostArray | None
    temperature: float | None
    temperature_se: float | None
    spread: float | None = None
    used_spread: float | None = None
    open_labels: tuple[Any, ...] = ()
    calibrators: tuple[Calibrator, ...] | None = None


# In place of what a fit to one label says, with its number of errors.
_FEW_ERRORS = (
    "So few decisions are right or wrong that the parameters are uncertain. Use a larger validation set, or "
    "parameters='shared'."
)

# The parameters of EC and TS whose temperatures can be shrunk.
_USUAL = {"top_n": 1, "smooth_labels": False}


def fit_labels(method: Calibrator, parameters: Sharing, rows: Decisions) -> LabelFit:
    """The maps of all labels."""
    if parameters == "shared":
        return _fit_shared(method, rows)
    return _fit_per_label(method, rows) if parameters == "per_label" else _fit_shrunk(method, rows)


def _fit_to_all(method: Calibrator, rows: Decisions) -> Calibrator:
    """The method fitted to all decisions together."""
    fitted: Calibrator = fit_checked(clone(method), rows)
    _check_map(fitted.map_)
    return fitted


def _fit_shared(method: Calibrator, rows: Decisions) -> LabelFit:
    fitted, number = _fit_to_all(method, rows), len(rows.names)
    common = temperature_of(fitted.map_)
    error = fitted.temperature_se_
    errors = None if common is None or error is None else np.full(number, error)
    return LabelFit((fitted.map_,) * number, errors, common, error, calibrators=(fitted,) * number)


def _fit_shrunk(method: Calibrator, rows: Decisions) -> LabelFit:
    observable = BUILT_IN.get(method.method_name)
    if not isinstance(observable, Confidence | Energy) or not method.method_params().items() <= _USUAL.items():
        which = f"the method {method.method_name!r}" + (" with such parameters" if observable is not None else "")
        raise InputError(
            "parameters", f"be 'shared' or 'per_label' for {which}: only the temperatures of 'ec' and 'ts' can be shrunk"
        )
    fitted = _fit_to_all(method, rows)
    common = fitted.temperature_
    assert common is not None, "as both methods have"
    # A sample has each label once: within a label its decisions are independent, unless the caller names clusters.
    sample_clusters = rows.sample_clusters
    data = rows.independent() if sample_clusters is not None and sample_clusters.are_rows else rows
    match = match_groups(data, Grouping("groups", len(rows.names)), observable, common, fitted.temperature_se_)
    names = tuple(name for name, is_open in zip(rows.names, match.is_open, strict=True) if is_open)
    if names:
        notice(
            f"{_which(names)} fewer than two known decisions, or only decisions on which a temperature has hardly any effect, "
            f"or too few to determine one: the temperature of all decisions, {common:.4g}, is used.",
            InputWarning,
        )
    maps = tuple(map(Temperature, match.temperatures.tolist()))
    return LabelFit(maps, match.errors, common, fitted.temperature_se_, match.spread, match.used_spread, names)


def _fit_per_label(method: Calibrator, rows: Decisions) -> LabelFit:
    fits: dict[Any, Calibrator] = {}
    reasons: dict[Any, str] = {}
    labels_by_notice: dict[Notice, list[Any]] = {}
    for _ in rows:  # which checks the values, with their places in the table
        pass
    for name, column in zip(rows.names, rows.by_label(), strict=True):
        with collect_notices() as notices:
            fitted = _fit_label(method, rows, name, column)
        if isinstance(fitted, str):
            reasons[name] = fitted
            continue
        fits[name] = fitted
        for message, category in notices:
            same_for_all = _FEW_ERRORS if category is FewErrorsWarning else message
            labels_by_notice.setdefault((same_for_all, category), []).append(name)
    common = _fit_to_all(method, rows) if reasons else None
    if common is not None:
        first, names = next(iter(reasons)), tuple(reasons)
        notice(f"{_which(names)} the parameters of all decisions. Reason for {first!r}: {reasons[first]}", InputWarning)
        fits |= dict.fromkeys(names, common)
    for (message, category), concerned in labels_by_notice.items():
        notice(f"{'Label' if len(concerned) == 1 else 'Labels'} {join_names(concerned)}: {message}", category)
    chosen = tuple(fits[name] for name in rows.names)
    maps = tuple(calibrator.map_ for calibrator in chosen)
    errors = [calibrator.temperature_se_ for calibrator in chosen]
    unknown = None in errors or None in map(temperature_of, maps)
    return LabelFit(
        maps,
        None if unknown else np.array(errors, dtype=float),
        None if common is None else temperature_of(common.map_),
        None if common is None else common.temperature_se_,
        open_labels=tuple(reasons),
        calibrators=chosen,
    )


def _fit_label(method: Calibrator, rows: Decisions, name: Any, column: Column) -> Calibrator | str:
    """The method fitted to one label, or the reason why its decisions do not tell its parameters."""
    scores, labels, options = column
    if len(labels) < 2:
        return "It is known for fewer than two samples."
    copy: Calibrator = clone(method).set_params(input=rows.scores.input, floor=rows.scores.floor)
    if "clusters" in options and "clusters" not in signature(copy.fit).parameters:
        raise InputError("clusters", "be left out with this calibrator, which has no standard errors")
    try:
        fitted: Calibrator = fit_checked(copy, scores, labels, **options)
    except NishimoriError as error:
        # Methods other than a temperature may refuse labels that all samples have, or none.
        if isinstance(error, NoTemperatureError | NotConvergedError) or len(np.unique(labels)) < 2:
            return str(error)
        raise type(error)(f"Label {name!r}: {error}") from None
    _check_map(fitted.map_)
    return fitted


def _check_map(map_: Map) -> None:
    """Refuse maps that do not treat each decision by itself."""
    if map_.needs_groups or map_.n_classes not in (None, 2):
        raise InputError("calibrator", "have a map of two classes without groups", got=f"one of the kind {map_.kind!r}")


def _which(names: Sequence[Any]) -> str:
    """Some labels as the subject of a sentence, with its verb."""
    shown = "1 label" if len(names) == 1 else f"{len(names)} labels"
    return f"{shown} ({join_names(names)}) {'has' if len(names) == 1 else 'have'}"
