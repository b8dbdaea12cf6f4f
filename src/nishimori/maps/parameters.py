"""Parameters of maps as files describe them: anybody may have written those, so every value is checked."""

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.numbers import temperature
from nishimori.errors import InputError

_LISTS = (list, tuple, np.ndarray)


def number_in(parameters: Mapping[str, Any], name: str) -> Any:
    """One plain number."""
    value = parameters[name]
    if type(value) not in (int, float):
        raise InputError(name, "be a number", got=repr(value))
    return value


def numbers(values: Any, name: str) -> HostArray:
    """A list or array of finite numbers, or a list of lists of equal lengths, as a read-only copy in float64."""
    try:
        given = np.asarray(values)
        found = np.array(given, dtype=np.float64) if given.dtype.kind in "iuf" else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(0)
    if not found.size or not np.isfinite(found).all():
        raise InputError(name, "hold finite numbers", got=f"{values!r:.60}")
    found.flags.writeable = False
    return found


def temperatures(values: Any, name: str = "temperatures") -> HostArray:
    """A flat list of temperatures."""
    found = numbers(values, name)
    if found.ndim != 1:
        raise InputError(name, "be a flat list", got=f"shape {found.shape}")
    for value in found.tolist():
        temperature(value, name)
    return found


def group_names(values: Any) -> tuple[Any, ...]:
    """The names of groups: text or numbers, each once."""
    names = tuple(values.tolist() if isinstance(values, np.ndarray) else values) if isinstance(values, _LISTS) else ()
    if not names or not all(isinstance(each, str) or (isinstance(each, int | float) and abs(each) < inf) for each in names):
        raise InputError("groups", "be a list of text or numbers", got=f"{values!r:.60}")
    if len(set(names)) < len(names):
        raise InputError("groups", "name each group once", got=f"{values!r:.60}")
    return names
