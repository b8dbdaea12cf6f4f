"""Maps that wrap another map: a floor of probabilities before it, or a temperature or a number per class after it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isclose, log
from typing import Any, ClassVar

import numpy as np

from nishimori._support.arrays import Array, HostArray, at_least, in_double, like, on_device_of, row_max
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map, apply_checked, divide, numbers
from nishimori.maps.temperature import ClassTemperatures, GroupTemperatures, Temperature


class _Around(Map):
    """A map around another one, with the same predictions, groups and classes."""

    inner: Map

    @property
    def keeps_predictions(self) -> bool:  # type: ignore[override]
        """As for the map inside."""
        return self.inner.keeps_predictions

    @property
    def needs_groups(self) -> bool:  # type: ignore[override]
        """As for the map inside."""
        return self.inner.needs_groups

    @property
    def n_classes(self) -> int | None:
        return self.inner.n_classes


@dataclass(frozen=True)
class Floored(_Around):
    """The map of a calibrator with a floor, from log-probabilities without a floor.

    Calibrators keep their floor beside their map. Where one is measured beside the model as it is, which has no floor, the two
    need the same rows.
    """

    inner: Map
    floor: float
    kind: ClassVar[str] = "floored"

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """The result of the other map after log-probabilities are raised to the log of the floor."""
        return self.inner.apply(at_least(logits, log(self.floor)), groups)

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"floor": self.floor, **self.inner.parameters}


@dataclass(frozen=True, eq=False)
class Tempered(_Around):
    """The logits of another map, divided by one temperature; `temper` creates it if no simpler map does the same.

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
        _check_inner(self.inner, Tempered, Shifted)
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))

    @property
    def in_words(self) -> str:
        return f"{self.inner.in_words} and T = {self.temperature:.4g} after it"

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"inner": _as_plain(self.inner), "temperature": self.temperature}

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """The logits of the map inside, divided by the temperature."""
        return divide(like(apply_checked(self.inner, logits, groups), logits), self.temperature)

    def exponents(self, logits: Array, groups: Any = None) -> Array:
        """Subtract before dividing: a quotient of large logits would lose its digits."""
        return divide(like(self.inner.exponents(logits, groups), logits), self.temperature)


@dataclass(frozen=True, eq=False)
class Shifted(_Around):
    """The logits of another map plus a number per class; `shift` creates it if no simpler map does the same.

    Attributes
    ----------
    inner : Map
        What is done first.
    bias : array of shape (n_classes,)
        What is added to its logits. Masked classes (-inf) stay masked.
    """

    inner: Map
    bias: HostArray
    kind: ClassVar[str] = "shifted"
    format_version: ClassVar[int] = 6
    keeps_predictions = False

    def __post_init__(self) -> None:
        _check_inner(self.inner, Shifted)
        bias = numbers(self.bias, "bias")
        n_classes = self.inner.n_classes or len(np.atleast_1d(bias))
        if bias.shape != (n_classes,) or n_classes < 2:
            raise InputError("bias", "have one number per class", got=f"shape {bias.shape}")
        object.__setattr__(self, "bias", bias)

    @property
    def n_classes(self) -> int:
        return len(self.bias)

    @property
    def in_words(self) -> str:
        return f"{self.inner.in_words} and a number per class after it"

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"inner": _as_plain(self.inner), "bias": self.bias.tolist()}

    def apply(self, logits: Array, groups: Any = None) -> Array:
        """The logits of the map inside, minus the largest of each row, plus the numbers."""
        return like(self._sums(logits, groups), logits)

    def exponents(self, logits: Array, groups: Any = None) -> Array:
        """Subtract in float64 before rounding."""
        sums = self._sums(logits, groups)
        return like(sums - row_max(sums), logits)

    def _sums(self, logits: Array, groups: Any) -> Array:
        if int(logits.shape[1]) != self.n_classes:
            raise InputError("logits", f"have {self.n_classes} classes, as the map has", got=int(logits.shape[1]))
        wide = in_double(self.inner.exponents(logits, groups))
        return wide + on_device_of(self.bias, wide)


def _check_inner(inner: Any, *around: type[Map]) -> None:
    """Refuse anything but a map, and maps of these kinds, because a single map does the same."""
    if not isinstance(inner, Map):
        raise InputError("inner", "be a Map", got=f"{inner!r:.60}")
    if isinstance(inner, around):
        raise InputError("inner", f"be a map that is not {inner.kind}", got=f"{inner!r:.60}")


def _as_plain(inner: Map) -> dict[str, Any]:
    return {"kind": inner.kind, "parameters": dict(inner.parameters)}


def layers(map_: Map) -> Iterator[Map]:
    """A map and those inside it, from the outermost one."""
    yield map_
    while isinstance(map_, Tempered | Shifted):
        map_ = map_.inner
        yield map_


def innermost(map_: Map) -> Map:
    """The map inside all temperatures and numbers per class that were added later."""
    *_, inner = layers(map_)
    return inner


def _temper_affine(map_: Affine | LogAffine, T: float) -> Map:
    fallback = None if map_.fallback is None else map_.fallback * T
    return type(map_)(getattr(map_, map_.factors) / T, map_.bias / T, fallback)


def _temper_again(map_: Tempered, temperature: float) -> Map:
    """A map with two temperatures after it, or the map inside if they cancel: T·(1/T) may be off from 1 by rounding."""
    both = map_.temperature * temperature
    return map_.inner if isclose(both, 1, rel_tol=1e-12) else temper(map_.inner, both)


# Maps that are of the same kind after a division by T. They can be folded into weights, exported and read by earlier versions.
_SAME_KIND: dict[type[Map], Callable[[Any, float], Map]] = {
    Temperature: lambda map_, T: Temperature(checked_temperature(map_.temperature * T)),
    ClassTemperatures: lambda map_, T: ClassTemperatures(map_.temperatures * T),
    GroupTemperatures: lambda map_, T: GroupTemperatures(map_.groups, map_.temperatures * T, map_.common * T),
    Affine: _temper_affine,
    LogAffine: _temper_affine,
    LogOdds: lambda map_, T: LogOdds(map_.a / T, map_.b / T, map_.c / T, map_.square / T),
    Tempered: _temper_again,
    Shifted: lambda map_, T: shift(temper(map_.inner, T), map_.bias / T),
}


def temper(map_: Map, temperature: float) -> Map:
    """A map that divides the logits of ``map_`` by a temperature; of the same kind, if that has a temperature."""
    if temperature == 1:
        return map_
    same_kind = _SAME_KIND.get(type(map_))
    return Tempered(map_, temperature) if same_kind is None else same_kind(map_, temperature)


# The same for a number per class. Not where a fallback divides some rows: the number is added to what it gives, too.
_SHIFTED: dict[type[Map], Callable[[Any, HostArray], Map]] = {
    Temperature: lambda map_, bias: Affine(1 / map_.temperature, bias),
    Affine: lambda map_, bias: Affine(map_.scale, map_.bias + bias),
    LogAffine: lambda map_, bias: LogAffine(map_.matrix, map_.bias + bias),
    LogOdds: lambda map_, bias: LogOdds(map_.a, map_.b, map_.c + float(bias[1] - bias[0]), map_.square),
    Shifted: lambda map_, bias: Shifted(map_.inner, map_.bias + bias),
}


def shift(map_: Map, bias: HostArray) -> Map:
    """A map that adds a number per class to the logits of ``map_``; an affine one, if that does the same."""
    can_add = getattr(map_, "fallback", None) is None
    same = _SHIFTED.get(type(map_)) if can_add else None
    return Shifted(map_, bias) if same is None else same(map_, bias)
