"""What a calibration does, in a few lines for people: its temperature, or what there is to say of many parameters."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nishimori._methods.fitted_method import FittedMethod
from nishimori._support.arrays import HostArray
from nishimori._support.formatting import value_with_error
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.class_curves import ClassCurves
from nishimori.maps.group_temperatures import ClassTemperatures, GroupTemperatures
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.mixture import Mixture

# How many of the groups that differ most from the others are named.
_NAMED = 5


def description(calibrator: FittedMethod) -> list[str]:
    """Sentences about what was fitted, the first with its most important numbers."""
    selection = getattr(calibrator, "selection_", None)
    if selection is None:
        return _of_map(calibrator)
    return [*_of_map(calibrator), f"Chosen: {selection.chosen}", "", *selection.to_text().splitlines()]


def _of_map(calibrator: FittedMethod) -> list[str]:
    """Sentences about the map of a calibrator."""
    map_ = calibrator.map_
    if (finished := getattr(calibrator, "ec_temperature_", None)) is not None:
        T = value_with_error(finished, getattr(calibrator, "ec_temperature_se_", None))
        last = f"Then T = {T}, at which mean confidence equals accuracy on held-out samples  ({calibrator.method_name})"
        return [*description(getattr(calibrator, "calibrator_")), last]  # noqa: B009 - methods of all kinds
    if calibrator.temperature_ is not None:
        error, judgement = getattr(calibrator, "temperature_se_", None), verdict(calibrator)
        says = "nothing was fitted" if judgement is None else f"the model is {judgement}"
        about = f"({calibrator.method_name}, {calibrator.n_samples_} samples: {says})"
        return [f"T = {value_with_error(calibrator.temperature_, error)}  {about}"]
    own = (rule for kind, rule in _own_rules().items() if isinstance(calibrator, kind))
    return next(own, _RULES.get(type(map_), _of_parameters))(calibrator, map_)


def verdict(calibrator: FittedMethod) -> str | None:
    """Whether the model is too sure or not sure enough; None where one temperature does not say it."""
    temperature = calibrator.temperature_
    if temperature is None or calibrator.method_name == "none":
        return None
    return "overconfident" if temperature > 1 else "underconfident"


def _of_classes(calibrator: Any, map_: ClassTemperatures) -> list[str]:
    names = [f"class {name}" for name in _classes(calibrator)]
    return _of_groups(calibrator, map_.temperatures, names, "predicted classes")


def _of_named_groups(calibrator: Any, map_: GroupTemperatures) -> list[str]:
    return _of_groups(calibrator, map_.temperatures, [str(name) for name in map_.groups], "groups")


def _of_groups(calibrator: Any, temperatures: HostArray, names: Sequence[str], what: str) -> list[str]:
    """The temperature that all groups have in common, how far they are from it, and which ones are furthest."""
    common = getattr(calibrator, "common_temperature_", getattr(calibrator.map_, "common", None))
    spread, errors = getattr(calibrator, "spread_", None), getattr(calibrator, "temperatures_se_", None)
    about = f"({calibrator.method_name}, {calibrator.n_samples_} samples)"
    if np.ptp(temperatures) == 0:
        return [f"T = {temperatures[0]:.4g} for all {len(names)} {what}, which the samples do not tell apart  {about}"]
    parts = [] if common is None else [f"common T = {common:.4g}"]
    parts += [f"T from {temperatures.min():.4g} to {temperatures.max():.4g} for {len(names)} {what}"]
    parts += [] if spread is None else [f"standard deviation of log T {spread:.2g}"]
    middle = float(np.exp(np.log(temperatures).mean())) if common is None else common
    furthest = np.argsort(-np.abs(np.log(temperatures / middle)), kind="stable")[:_NAMED].tolist()
    shown = [f"{names[k]} (T = {value_with_error(float(temperatures[k]), _error(errors, k))})" for k in furthest]
    return [
        f"{', '.join(parts)}  {about}",
        f"Furthest from {'the mean' if common is None else 'the common T'}: {', '.join(shown)}",
    ]


def _error(errors: Any, place: int) -> float | None:
    """The standard error of a group's temperature; NaN stands for one that is not known."""
    if errors is None or not np.isfinite(errors[place]):
        return None
    return float(errors[place])


def _of_mixture(calibrator: Any, map_: Mixture) -> list[str]:
    """The temperature, and the weight of each component."""
    errors = getattr(calibrator, "parameters_se_", None) or {"temperature": None, "weights": (None, None, None)}
    names = "at T", "at T = 1", "uniform"
    shown = [
        f"{value_with_error(weight, error)} {name}"
        for weight, error, name in zip(map_.weights, errors["weights"], names, strict=True)
    ]
    about = f"({calibrator.method_name}, {calibrator.n_samples_} samples)"
    return [f"T = {value_with_error(map_.temperature, errors['temperature'])}, weights {', '.join(shown)}  {about}"]


def _of_affine(calibrator: Any, map_: Affine) -> list[str]:
    return _of_factors(calibrator, map_, [*_factors(map_.scale), _biases(calibrator, map_.bias)])


def _of_log_affine(calibrator: Any, map_: LogAffine) -> list[str]:
    return _of_factors(calibrator, map_, [*_factors(map_.matrix), _biases(calibrator, map_.bias)])


def _of_scales(calibrator: Any, map_: Affine) -> list[str]:
    """Of a method that has no biases."""
    return _of_factors(calibrator, map_, _factors(map_.scale))


def _of_factors(calibrator: Any, map_: Affine | LogAffine, parts: list[str]) -> list[str]:
    first = f"{', '.join(parts)}  ({calibrator.method_name}, {len(map_.bias)} classes, {calibrator.n_samples_} samples)"
    if map_.fallback is None:
        return [first]
    return [first, f"Rows whose predicted class would change are divided by T = {map_.fallback:.4g} instead."]


def _factors(scale: HostArray) -> list[str]:
    """The range of what logits are multiplied by."""
    if scale.ndim == 0:
        return [f"inverse temperature {float(scale):.4g}"]
    if scale.ndim == 1:
        return [f"scales {_range(scale)}"]
    return [f"diagonal {_range(np.diag(scale))}", f"off-diagonal {_range(scale[~np.eye(len(scale), dtype=bool)])}"]


def _biases(calibrator: Any, bias: HostArray) -> str:
    """The least and the greatest bias, with their classes."""
    low, high, names = int(bias.argmin()), int(bias.argmax()), _classes(calibrator)
    if bias[low] == bias[high]:
        return "no biases, which the samples do not tell from zero"
    return f"biases from {bias[low]:.3g} (class {names[low]}) to {bias[high]:.3g} (class {names[high]})"


def _of_parameters(calibrator: Any, map_: Any) -> list[str]:
    """The parameters with their standard errors; of several numbers under one name the range."""
    errors = getattr(calibrator, "parameters_se_", None) or {}
    parameters = getattr(calibrator, "parameters_", None) or map_.parameters
    parts = [
        f"{name} {_range(np.asarray(value)) if np.ndim(value) else _number(value, errors.get(name))}"
        for name, value in parameters.items()
    ]
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


def _number(value: Any, error: Any) -> str:
    """A number with its standard error, if it has one; other values as they are."""
    return value_with_error(value, error or None) if isinstance(value, int | float) else str(value)


def _range(values: HostArray) -> str:
    return f"from {values.min():.3g} to {values.max():.3g}"


def _classes(calibrator: FittedMethod) -> list[str]:
    return [str(label) for label in calibrator.classes_.tolist()]


def _own_rules() -> dict[type, Callable[[Any, Any], list[str]]]:
    """The rules of calibrators that say more, or less, than others with the same kind of map."""
    from nishimori._calibrators.binary import Platt  # noqa: PLC0415 - scikit-learn
    from nishimori._calibrators.scaling import ClasswiseTemperature  # noqa: PLC0415 - scikit-learn

    return {Platt: _of_parameters, ClasswiseTemperature: _of_scales}


_RULES: dict[type, Callable[[Any, Any], list[str]]] = {
    ClassTemperatures: _of_classes,
    GroupTemperatures: _of_named_groups,
    Affine: _of_affine,
    LogAffine: _of_log_affine,
    LogOdds: _of_parameters,
    Mixture: _of_mixture,
    ClassCurves: _of_curves,
}
