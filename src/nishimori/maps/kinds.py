"""The kinds of maps that files describe, by the names that files give them."""

from dataclasses import fields
from typing import Any

from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.class_curves import ClassCurves
from nishimori.maps.group_temperatures import ClassTemperatures, GroupTemperatures
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map
from nishimori.maps.mixture import Mixture
from nishimori.maps.temperature import Temperature

_SAVED: dict[str, Any] = {
    each.kind: each
    for each in (Temperature, ClassTemperatures, GroupTemperatures, Affine, LogOdds, Mixture, LogAffine, ClassCurves)
}

KINDS: tuple[str, ...] = tuple(_SAVED)
"""What can be saved and loaded."""


def can_be_saved(map_: Map) -> bool:
    """Whether `from_parameters` gives the map again; a map of somebody's own may have the kind of another."""
    return _SAVED.get(map_.kind) is type(map_)


def claims_to_check(map_: Map) -> bool:
    """Whether a map of somebody's own claims to keep predictions; those of the library do so by construction."""
    return map_.keeps_predictions and not can_be_saved(map_)


def from_parameters(kind: Any, parameters: Any) -> Map:
    """The map that a file describes; raises `InputError` if it describes none."""
    if not isinstance(kind, str) or kind not in _SAVED:
        raise InputError("kind", f"be one of {', '.join(KINDS)}", got=repr(kind))
    wanted = {each.name for each in fields(_SAVED[kind]) if each.init}
    if not isinstance(parameters, dict) or set(parameters) != wanted:
        raise InputError("parameters", f"hold {', '.join(sorted(wanted))}", got=f"{parameters!r:.60}")
    found: Map = _SAVED[kind].from_parameters(parameters)
    return found
