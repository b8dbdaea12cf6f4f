"""Division by temperatures: one for all rows, one per predicted class, or one per group that the user names."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nishimori._kernels.kernel import softmax
from nishimori._rows.batch import Groups
from nishimori._rows.scores import Scores
from nishimori._support.arrays import Array, HostArray, is_half, namespace, numpy_view, on_device_of, row_max
from nishimori._support.formatting import join_names
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.maps.map import Division, Map, group_names, temperatures


@dataclass(frozen=True)
class Temperature(Division):
    """Division by one temperature."""

    temperature: float
    kind: ClassVar[str] = "temperature"
    format_version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))

    def divisor(self, logits: Array, groups: Any) -> float:  # noqa: ARG002 - the same for all
        """The temperature."""
        return self.temperature

    @property
    def in_words(self) -> str:
        return f"T = {self.temperature:.4g}"

    def probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The softmax of the divided logits, by a kernel if one supports it."""
        softmaxed = softmax(logits, 1 / self.temperature)
        # Kernels do not carry NaN through, as arithmetic does; masked classes are all right.
        if softmaxed is None or (softmaxed[1] and not np.isfinite(row_max(logits)).all()):
            return super().probabilities(logits, groups)
        return softmaxed[0]

    def probabilities_at_once(self, scores: Scores) -> Array | None:
        """The probabilities of all rows, which are checked in the same pass; None if no kernel computes them."""
        if scores.input != "logits" or scores.is_binary_score or scores.is_scattered or is_half(scores.array):
            return None
        softmaxed = softmax(numpy_view(scores.array), 1 / self.temperature)
        if softmaxed is None:
            return None
        probabilities, is_unusual = softmaxed
        if is_unusual:
            scores.check_all()
        return on_device_of(probabilities, scores.array)


def temperature_of(map_: Map) -> float | None:
    """The temperature of a map that only divides by one; None for a map that does more."""
    return map_.temperature if isinstance(map_, Temperature) else None


@dataclass(frozen=True, eq=False)
class ClassTemperatures(Division):
    """Division by the temperature of the predicted class, which has the largest logit of the row.

    Attributes
    ----------
    temperatures : array of shape (n_classes,)
        One per class.
    """

    temperatures: HostArray
    kind: ClassVar[str] = "class_temperatures"
    in_words = "the temperatures of the predicted classes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperatures", temperatures(self.temperatures))
        if len(self.temperatures) < 2:
            raise InputError("temperatures", "have one number per class", got=len(self.temperatures))

    def divisor(self, logits: Array, groups: Any) -> Array:  # noqa: ARG002 - the prediction is the group
        """The temperature of the predicted class of each row."""
        return _at_prediction(on_device_of(self.temperatures, logits), logits)

    @staticmethod
    def formula(logits: Array, *, temperatures: Array) -> Array:
        """The work of `apply`, on arrays of one library and dtype, so that PyTorch can record it in a graph."""
        return logits / _at_prediction(temperatures, logits)[:, None]

    @property
    def n_classes(self) -> int:
        return len(self.temperatures)


def _at_prediction(temperatures: Array, logits: Array) -> Array:
    xp = namespace(logits)
    return xp.take(temperatures, xp.argmax(logits, axis=1), axis=0)


@dataclass(frozen=True, eq=False)
class GroupTemperatures(Division):
    """Division by the temperature of the group of each row; `apply` needs the groups.

    Attributes
    ----------
    groups : tuple
        The names of the groups: text or numbers.
    temperatures : array of shape (n_groups,)
        One per group.
    common : float
        The temperature of every other group.
    """

    groups: tuple[Any, ...]
    temperatures: HostArray
    common: float
    kind: ClassVar[str] = "group_temperatures"
    in_words = "the temperatures of the groups"
    needs_groups = True
    _places: dict[Any, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", group_names(self.groups))
        object.__setattr__(self, "temperatures", temperatures(self.temperatures))
        object.__setattr__(self, "common", checked_temperature(self.common, "common"))
        if len(self.groups) != len(self.temperatures):
            numbers = f"{len(self.groups)} groups and {len(self.temperatures)} temperatures"
            raise InputError("temperatures", "have one number per group", got=numbers)
        object.__setattr__(self, "_places", {name: place for place, name in enumerate(self.groups)})

    def divisor(self, logits: Array, groups: Any) -> Array:
        """The temperature of the group of each row."""
        codes = _encode_groups(groups, int(logits.shape[0]))
        by_name = np.append(self.temperatures, self.common)[[self._places.get(name, -1) for name in codes.names]]
        return on_device_of(by_name[codes.codes], logits)

    def warn_of_others(self, groups: Groups) -> None:
        """Warn about groups without their own temperature."""
        others = [name for name in groups.present() if name not in self._places]
        if others:
            shown = join_names(others)
            which = f"The group {shown} was" if len(others) == 1 else f"{len(others)} groups ({shown}) were"
            notice(
                f"{which} not seen when the temperatures were fitted: the common T = {self.common:.4g} is used.", InputWarning
            )


def checked_groups(map_: Map, groups: Any, n_rows: int) -> Groups:
    """The groups of rows that a map needs; warns about groups that it does not know."""
    codes = _encode_groups(groups, n_rows)
    if isinstance(map_, GroupTemperatures):
        map_.warn_of_others(codes)
    return codes


def _encode_groups(groups: Any, n_rows: int) -> Groups:
    if groups is None:
        raise InputError("groups", "name the group of each sample: the calibrator has a temperature for each group")
    return groups if isinstance(groups, Groups) else Groups.from_names(groups, n_rows)
