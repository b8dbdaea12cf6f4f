"""What a calibration does, in a few lines for people: its temperature, or what there is to say of many parameters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nishimori._array import HostArray
from nishimori._maps import Affine, ClassTemperatures, GroupTemperatures
from nishimori._tabular import measured

if TYPE_CHECKING:
    from nishimori import Calibrator  # which imports scikit-learn

# How many of the groups that differ most from the others are named.
_NAMED = 5


def description(calibrator: "Calibrator") -> list[str]:
    """Sentences about what was fitted, the first with its most important numbers."""
    map_ = calibrator.map_
    if calibrator.temperature_ is not None:
        error, found = getattr(calibrator, "temperature_se_", None), verdict(calibrator)
        says = "nothing was fitted" if found is None else f"the model is {found}"
        about = f"({calibrator.method_name}, {calibrator.n_samples_} samples: {says})"
        return [f"T = {measured(calibrator.temperature_, error)}  {about}"]
    if isinstance(map_, ClassTemperatures):
        return _of_groups(
            calibrator, map_.temperatures, [f"class {name}" for name in _classes(calibrator)], "predicted classes"
        )
    if isinstance(map_, GroupTemperatures):
        return _of_groups(calibrator, map_.temperatures, [str(name) for name in map_.groups], "groups")
    assert isinstance(map_, Affine), "no other kind can be saved"
    return _of_affine(calibrator, map_)


def verdict(calibrator: "Calibrator") -> str | None:
    """Whether the model is too sure or not sure enough; None where one temperature does not say it."""
    temperature = calibrator.temperature_
    if temperature is None or calibrator.method_name == "none":
        return None
    return "overconfident" if temperature > 1 else "underconfident"


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
    shown = [f"{names[k]} (T = {measured(float(temperatures[k]), _error(errors, k))})" for k in furthest]
    return [
        f"{', '.join(parts)}  {about}",
        f"Furthest from {'the mean' if common is None else 'the common T'}: {', '.join(shown)}",
    ]


def _error(errors: Any, place: int) -> float | None:
    """The standard error of a group's temperature; NaN stands for one that is not known."""
    if errors is None or not np.isfinite(errors[place]):
        return None
    return float(errors[place])


def _of_affine(calibrator: Any, map_: Affine) -> list[str]:
    """The ranges of scales and biases, and the classes that have the least and the greatest bias."""
    scale, bias, names = map_.scale, map_.bias, _classes(calibrator)
    if scale.ndim == 0:
        parts = [f"inverse temperature {float(scale):.4g}"]
    elif scale.ndim == 1:
        parts = [f"scales {_range(scale)}"]
    else:
        parts = [f"diagonal {_range(np.diag(scale))}", f"off-diagonal {_range(scale[~np.eye(len(scale), dtype=bool)])}"]
    low, high = int(bias.argmin()), int(bias.argmax())
    if bias[low] == bias[high]:
        parts.append("no biases, which the samples do not tell from zero")
    else:
        parts.append(f"biases from {bias[low]:.3g} (class {names[low]}) to {bias[high]:.3g} (class {names[high]})")
    first = f"{', '.join(parts)}  ({calibrator.method_name}, {len(bias)} classes, {calibrator.n_samples_} samples)"
    if map_.fallback is None:
        return [first]
    return [first, f"Rows whose predicted class would change are divided by T = {map_.fallback:.4g} instead."]


def _range(values: HostArray) -> str:
    return f"from {values.min():.3g} to {values.max():.3g}"


def _classes(calibrator: "Calibrator") -> list[str]:
    return [str(label) for label in calibrator.classes_.tolist()]
