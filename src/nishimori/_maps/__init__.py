"""What calibration does to logits: the maps, and how files describe them."""

from dataclasses import fields
from typing import Any

from nishimori._maps._affine import Affine
from nishimori._maps._group_temperatures import ClassTemperatures, GroupTemperatures, checked_groups
from nishimori._maps._map import Map, in_blocks
from nishimori._maps._temperature import Temperature, divided, temperature_of
from nishimori.errors import InputError

__all__ = [
    "KINDS",
    "Affine",
    "ClassTemperatures",
    "GroupTemperatures",
    "Map",
    "Temperature",
    "can_be_saved",
    "checked_groups",
    "divided",
    "from_parameters",
    "in_blocks",
    "temperature_of",
]

_SAVED: dict[str, type[Temperature | ClassTemperatures | GroupTemperatures | Affine]] = {
    each.kind: each for each in (Temperature, ClassTemperatures, GroupTemperatures, Affine)
}

KINDS: tuple[str, ...] = tuple(_SAVED)
"""What can be saved and loaded."""


def can_be_saved(map_: Map) -> bool:
    """Whether `from_parameters` gives the map again; a map of somebody's own may have the kind of another."""
    return _SAVED.get(map_.kind) is type(map_)


def from_parameters(kind: Any, parameters: Any) -> Map:
    """The map that a file describes; raises `InputError` if it describes none."""
    if not isinstance(kind, str) or kind not in _SAVED:
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}.")
    wanted = {each.name for each in fields(_SAVED[kind]) if each.init}
    if not isinstance(parameters, dict) or set(parameters) != wanted:
        raise InputError(f"`parameters` must hold {', '.join(sorted(wanted))}, got {parameters!r:.60}.")
    return _SAVED[kind].described(parameters)
