"""Maps that wrap another one: a floor of probabilities before it, or one more temperature after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isclose, log
from typing import Any, ClassVar

from nishimori._support.arrays import Array, at_least, like
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map, apply_checked, divide
from nishimori.maps.temperature import ClassTemperatures, GroupTemperatures, Temperature


class _Around(Map):
    """A map around another one, whose predictions, groups and classes are its own."""

    inner: Map

    @property
    def keeps_predictions(self) -> bool:  # type: ignore[override]
        """Whether the map inside does."""
        return self.inner.keeps_predictions

    @property
    def needs_groups(self) -> bool:  # type: ignore[override]
        """Whether the map inside does."""
        return self.inner.needs_groups

    @property
    def n_classes(self) -> int | None:
        return self.inner.n_classes


@dataclass(frozen=True)
class Floored(_Around):
    """What a calibrator with a floor makes of the model's own probabilities, whose logarithms are the logits.

    Calibrators keep their floor beside their map. Where one is measured beside the model as it is, which has no floor, the two
    need the same rows.
    """

    inner: Map
    floor: float
    kind: ClassVar[str] = "floored"

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """What the other map makes of log-probabilities that are raised to that of the floor."""
        return self.inner.apply(at_least(logits, log(self.floor)), groups)

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"floor": self.floor, **self.inner.parameters}


@dataclass(frozen=True, eq=False)
class Tempered(_Around):
    """The logits of another map, divided by one temperature; `temper` makes it where no simpler map does the same.

    Attributes
    ----------
    inner : Map
        What is done first.
    temperature : float
        What its logits are divided by.
    """

    inner: Map
    temperature: float
    kind: ClassVar[str] = "tempered"
    format_version: ClassVar[int] = 5

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Map):
            raise InputError("inner", "be a Map", got=f"{self.inner!r:.60}")
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))

    @property
    def in_words(self) -> str:
        return f"{self.inner.in_words} and T = {self.temperature:.4g} after it"

    @property
    def parameters(self) -> Mapping[str, Any]:
        inner = {"kind": self.inner.kind, "parameters": dict(self.inner.parameters)}
        return {"inner": inner, "temperature": self.temperature}

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """The logits of the map inside, divided by the temperature."""
        return divide(like(apply_checked(self.inner, logits, groups), logits), self.temperature)

    def exponents(self, logits: Array, groups: Any = None) -> Array:
        """The difference first: a quotient of large logits would lose its digits."""
        return divide(like(self.inner.exponents(logits, groups), logits), self.temperature)


def _temper_affine(map_: Affine | LogAffine, T: float) -> Map:
    fallback = None if map_.fallback is None else map_.fallback * T
    return type(map_)(getattr(map_, map_.factors) / T, map_.bias / T, fallback)


# Maps that are of the same kind after a division by T. They can be folded into weights, exported and read by earlier versions.
def _temper_again(map_: Tempered, temperature: float) -> Map:
    """A map with two temperatures after it, or the map inside if they cancel: T·(1/T) may be off from 1 by rounding."""
    both = map_.temperature * temperature
    return map_.inner if isclose(both, 1, rel_tol=1e-12) else temper(map_.inner, both)


_SAME_KIND: dict[type[Map], Callable[[Any, float], Map]] = {
    Temperature: lambda map_, T: Temperature(checked_temperature(map_.temperature * T)),
    ClassTemperatures: lambda map_, T: ClassTemperatures(map_.temperatures * T),
    GroupTemperatures: lambda map_, T: GroupTemperatures(map_.groups, map_.temperatures * T, map_.common * T),
    Affine: _temper_affine,
    LogAffine: _temper_affine,
    LogOdds: lambda map_, T: LogOdds(map_.a / T, map_.b / T, map_.c / T, map_.square / T),
    Tempered: _temper_again,
}


def temper(map_: Map, temperature: float) -> Map:
    """The map whose logits are those of ``map_`` divided by a temperature; of the same kind, if that has one."""
    if temperature == 1:
        return map_
    same_kind = _SAME_KIND.get(type(map_))
    return Tempered(map_, temperature) if same_kind is None else same_kind(map_, temperature)
