"""A calibration as commands see it: how it is opened, whether options agree with it, and what it does, in words."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nishimori._evaluation.calibrated import warn_of_same_rows
from nishimori._files.file_rows import SUFFIXES
from nishimori._methods import table
from nishimori._methods.fitted_method import BareCalibrator, FittedMethod, check_n_classes
from nishimori._methods.record import Record, content_of
from nishimori._rows.scores import check_input, is_auto
from nishimori._sketch.sketch import Sketch
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import join_names, value_with_error
from nishimori.cli._files import CALIBRATION, MULTILABEL, SCORES, UNKNOWN, UNREADABLE, kind_of, refuse_other
from nishimori.cli._options import DataOptions
from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.class_curves import ClassCurves
from nishimori.maps.group_temperatures import ClassTemperatures, GroupTemperatures
from nishimori.maps.mixture import Mixture

# How many of the groups that differ most from the others are named.
_NAMED = 5


def calibrator_in(path: Path) -> FittedMethod:
    """The calibrator of a file; that of a multilabel model is refused, because files of scores have one label per row."""
    refuse_other(path, CALIBRATION, CALIBRATION, MULTILABEL, UNREADABLE, UNKNOWN)
    record = Record.from_content(content_of(path), path)
    method = table.find_bare(record.provenance.method)
    if method is not None:
        return BareCalibrator.from_record(method, record, path)
    from nishimori._calibrators.methods import restore_calibrator  # noqa: PLC0415 - scikit-learn

    return restore_calibrator(record, path)


def refuse_swapped(command: str, files: Sequence[Path], calibration: Path | None) -> None:
    """Say so if the calibration and the file of scores are in each other's place."""
    if calibration is None or not calibration.name.lower().endswith(SUFFIXES):
        return
    if [path.suffix.lower() for path in files] == [".json"]:
        example = f"{command} {shlex.quote(str(calibration))} --calibration {shlex.quote(str(files[0]))}"
        kind = kind_of(calibration) or SCORES
        raise InputError(f"{calibration} is {kind}, not a calibration. Pass the file of scores first: {example}.")


def agree_with(calibrator: FittedMethod | None, data: DataOptions) -> DataOptions:
    """What options and calibration together say about scores: the input, the floor and the classes; they must not differ."""
    floor = None if data.floor == "none" else data.floor
    if is_auto(floor):
        raise InputError(
            "floor",
            "be a number where nothing is fitted",
            got="auto: it would be tuned on the labels that it scores",
            remedy="Pass it to nishimori fit and that file with --calibration, whose floor is then used, or pass a number.",
        )
    if calibrator is None:
        check_input(data.input, floor)
        return replace(data, floor=floor)
    if data.input is not None and data.input != calibrator.input_:
        fitted_to = f"be {calibrator.input_}, which the calibration was fitted to"
        raise InputError("input", fitted_to, got=data.input, remedy="Leave it out.")
    if floor is not None and floor != calibrator.floor_:
        fitted_floor = f"be that of the calibration, which is {calibrator.floor_ or 'none'}"
        raise InputError("floor", fitted_floor, got=f"{floor:g}", remedy="Leave it out.")
    kind = calibrator.input_ if data.input is not None or calibrator.input_ == "probabilities" else None
    if calibrator.classes is None:
        return replace(data, input=kind, floor=calibrator.floor_)
    classes = [str(label) for label in calibrator.classes_.tolist()]
    if data.classes is not None and data.classes != classes:
        raise InputError(
            "classes",
            f"be those of the calibration in its order, {join_names(classes)}",
            got=join_names(data.classes),
            remedy="Leave it out.",
        )
    return replace(data, input=kind, floor=calibrator.floor_, classes=classes)


def agree_with_sketch(calibrator: FittedMethod | None, sums: Sketch) -> None:
    """Refuse a calibration of other scores, classes or columns than those of a sketch, and warn if it was fitted to them."""
    classes = None if sums.classes is None else [str(label) for label in sums.classes]
    agree_with(calibrator, DataOptions(input=sums.input, floor=sums.floor, classes=classes))
    if calibrator is not None:
        check_n_classes(calibrator, sums, "sketch")
        warn_of_same_rows(sums, {"The calibration": calibrator})


# What it does, in a few lines for people


def description(calibrator: FittedMethod) -> list[str]:
    """Sentences about what was fitted, the first with its most important numbers."""
    selection = getattr(calibrator, "selection_", None)
    chosen = [] if selection is None else [f"Chosen: {selection.chosen}", "", *selection.to_text().splitlines()]
    return [*_of_map(calibrator), *chosen]


def _of_map(calibrator: FittedMethod) -> list[str]:
    """Sentences about the map of a calibrator."""
    if (finished := getattr(calibrator, "ec_temperature_", None)) is not None:
        T = value_with_error(finished, getattr(calibrator, "ec_temperature_se_", None))
        last = f"Then T = {T}, at which mean confidence equals accuracy on held-out samples  ({calibrator.method_name})"
        return [*description(getattr(calibrator, "calibrator_")), last]  # noqa: B009 - methods of all kinds
    if calibrator.temperature_ is not None:
        T, judgement = (
            value_with_error(calibrator.temperature_, getattr(calibrator, "temperature_se_", None)),
            verdict(calibrator),
        )
        says = "nothing was fitted" if judgement is None else f"the model is {judgement}"
        return [f"T = {T}  ({calibrator.method_name}, {calibrator.n_samples_} samples: {says})"]
    rule = _OF_METHODS.get(calibrator.method_name) or _OF_MAPS.get(type(calibrator.map_), _of_parameters)
    return rule(calibrator, calibrator.map_)


def verdict(calibrator: FittedMethod) -> str | None:
    """Whether the model is too sure or not sure enough; None where one temperature does not say it."""
    temperature = calibrator.temperature_
    if temperature is None or calibrator.method_name == "none":
        return None
    return "overconfident" if temperature > 1 else "underconfident"


def _of_groups(calibrator: Any, map_: ClassTemperatures | GroupTemperatures) -> list[str]:
    """The temperature that all groups have in common, how far they are from it, and which ones are furthest."""
    if isinstance(map_, GroupTemperatures):
        what, names = "groups", [str(name) for name in map_.groups]
    else:
        what, names = "predicted classes", [f"class {name}" for name in _classes(calibrator)]
    temperatures = map_.temperatures
    common = getattr(calibrator, "common_temperature_", getattr(map_, "common", None))
    spread, errors = getattr(calibrator, "spread_", None), getattr(calibrator, "temperatures_se_", None)
    about = f"({calibrator.method_name}, {calibrator.n_samples_} samples)"
    if np.ptp(temperatures) == 0:
        return [f"T = {temperatures[0]:.4g} for all {len(names)} {what}, which the samples do not tell apart  {about}"]
    parts = [] if common is None else [f"common T = {common:.4g}"]
    parts += [f"T from {temperatures.min():.4g} to {temperatures.max():.4g} for {len(names)} {what}"]
    parts += [] if spread is None else [f"standard deviation of log T {spread:.2g}"]
    middle = float(np.exp(np.log(temperatures).mean())) if common is None else common
    furthest = np.argsort(-np.abs(np.log(temperatures / middle)), kind="stable")[:_NAMED].tolist()
    shown = []
    for k in furthest:
        error = None if errors is None or not np.isfinite(errors[k]) else float(errors[k])  # NaN: not known
        shown.append(f"{names[k]} (T = {value_with_error(float(temperatures[k]), error)})")
    return [
        f"{', '.join(parts)}  {about}",
        f"Furthest from {'the mean' if common is None else 'the common T'}: {', '.join(shown)}",
    ]


def _of_mixture(calibrator: Any, map_: Mixture) -> list[str]:
    """The temperature, and the weight of each component."""
    errors = getattr(calibrator, "parameters_se_", None) or {"temperature": None, "weights": (None, None, None)}
    weights = zip(map_.weights, errors["weights"], ("at T", "at T = 1", "uniform"), strict=True)
    shown = ", ".join(f"{value_with_error(weight, error)} {name}" for weight, error, name in weights)
    about = f"({calibrator.method_name}, {calibrator.n_samples_} samples)"
    return [f"T = {value_with_error(map_.temperature, errors['temperature'])}, weights {shown}  {about}"]


def _of_factors(calibrator: Any, map_: Affine | LogAffine, factors: HostArray, bias: HostArray | None) -> list[str]:
    """The range of what logits are multiplied by, and the least and the greatest bias of methods that have biases."""
    if factors.ndim == 0:
        parts = [f"inverse temperature {float(factors):.4g}"]
    elif factors.ndim == 1:
        parts = [f"scales {_range(factors)}"]
    else:
        off_diagonal = factors[~np.eye(len(factors), dtype=bool)]
        parts = [f"diagonal {_range(np.diag(factors))}", f"off-diagonal {_range(off_diagonal)}"]
    if bias is not None:
        low, high, names = int(bias.argmin()), int(bias.argmax()), _classes(calibrator)
        ends = f"from {bias[low]:.3g} (class {names[low]}) to {bias[high]:.3g} (class {names[high]})"
        has_biases = bias[low] != bias[high]
        parts.append(f"biases {ends}" if has_biases else "no biases, which the samples do not tell from zero")
    first = f"{', '.join(parts)}  ({calibrator.method_name}, {len(map_.bias)} classes, {calibrator.n_samples_} samples)"
    if map_.fallback is None:
        return [first]
    return [first, f"Rows whose predicted class would change are divided by T = {map_.fallback:.4g} instead."]


def _of_parameters(calibrator: Any, map_: Any) -> list[str]:
    """The parameters with their standard errors; of several numbers under one name the range."""
    errors = getattr(calibrator, "parameters_se_", None) or {}
    parts = []
    for name, value in (getattr(calibrator, "parameters_", None) or map_.parameters).items():
        if np.ndim(value):
            parts.append(f"{name} {_range(np.asarray(value))}")
        else:
            is_number = isinstance(value, int | float)
            parts.append(f"{name} {value_with_error(value, errors.get(name) or None) if is_number else value}")
    return [f"{', '.join(parts)}  ({calibrator.method_name}, {calibrator.n_samples_} samples)"]


def _of_curves(calibrator: Any, map_: ClassCurves) -> list[str]:
    """How many curves there are, of how many pieces, and which probabilities they give."""
    lowest, highest = (pick(pick(curve) for curve in map_.values) for pick in (min, max))
    sizes = sorted({len(curve) for curve in map_.values})
    number = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    pieces = "knots" if map_.interpolation == "linear" else "bins"
    curves = "one curve" if len(map_.values) == 1 else f"{len(map_.values)} curves"
    about = f"({calibrator.method_name}, {map_.n_classes} classes, {calibrator.n_samples_} samples)"
    return [f"{curves} of {number} {pieces}, with values from {lowest:.3g} to {highest:.3g}  {about}"]


def _range(values: HostArray) -> str:
    return f"from {values.min():.3g} to {values.max():.3g}"


def _classes(calibrator: FittedMethod) -> list[str]:
    return [str(label) for label in calibrator.classes_.tolist()]


_Rule = Callable[[Any, Any], list[str]]

_OF_METHODS: dict[str, _Rule] = {
    "platt": _of_parameters,
    "classwise": lambda calibrator, map_: _of_factors(calibrator, map_, map_.scale, None),
}
"""Methods that say more, or less, than others with the same kind of map."""

_OF_MAPS: dict[type, _Rule] = {
    ClassTemperatures: _of_groups,
    GroupTemperatures: _of_groups,
    Affine: lambda calibrator, map_: _of_factors(calibrator, map_, map_.scale, map_.bias),
    LogAffine: lambda calibrator, map_: _of_factors(calibrator, map_, map_.matrix, map_.bias),
    Mixture: _of_mixture,
    ClassCurves: _of_curves,
}
