"""What calibration does to logits: the maps, and how files describe them."""

from dataclasses import fields
from typing import Any

from nishimori._maps._affine import Affine
from nishimori._maps._claims import CHECKED_ROWS, check_claims, check_claims_on_random_logits
from nishimori._maps._class_curves import ClassCurves, bin_of, class_probabilities
from nishimori._maps._group_temperatures import ClassTemperatures, GroupTemperatures, checked_groups
from nishimori._maps._log_affine import LogAffine
from nishimori._maps._log_odds import LogOdds, log_odds, log_sigmoids
from nishimori._maps._map import Map, in_blocks
from nishimori._maps._mixture import Mixture, log_components
from nishimori._maps._softmax import log_softmax, softmax_of_drops
from nishimori._maps._temperature import Temperature, divided, temperature_of
from nishimori._maps._with_bias import WithBias
from nishimori.errors import InputError

__all__ = [
    "CHECKED_ROWS",
    "KINDS",
    "Affine",
    "ClassCurves",
    "ClassTemperatures",
    "GroupTemperatures",
    "LogAffine",
    "LogOdds",
    "Map",
    "Mixture",
    "Temperature",
    "WithBias",
    "bin_of",
    "can_be_saved",
    "check_claims",
    "check_claims_on_random_logits",
    "checked_groups",
    "claims_to_check",
    "class_probabilities",
    "divided",
    "from_parameters",
    "in_blocks",
    "log_components",
    "log_odds",
    "log_sigmoids",
    "log_softmax",
    "softmax_of_drops",
    "temperature_of",
]

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
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}.")
    wanted = {each.name for each in fields(_SAVED[kind]) if each.init}
    if not isinstance(parameters, dict) or set(parameters) != wanted:
        raise InputError(f"`parameters` must hold {', '.join(sorted(wanted))}, got {parameters!r:.60}.")
    found: Map = _SAVED[kind].described(parameters)
    return found
