"""All `Calibrated` of this process, so that folding a network without its wrapper does not calibrate its logits twice."""

from threading import Lock
from typing import Any
from weakref import WeakSet

from torch import nn

from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of
from nishimori.torch._head import INSTEAD, Head

_living: WeakSet[nn.Module] = WeakSet()
_lock = Lock()  # a set cannot be read while another thread adds to it


def register(wrapper: nn.Module) -> None:
    """Remember a `Calibrated` for as long as it is alive."""
    with _lock:
        _living.add(wrapper)


def tell_others(head: Head, map_: Map, by: nn.Module | None = None) -> None:
    """Note in every `Calibrated` around a layer that ``map_`` was folded into it, on behalf of ``by``."""
    inside = [] if by is None else list(by.modules())
    T = temperature_of(map_)
    with _lock:
        living = list(_living)
    for each in living:
        parts = list(each.modules())
        # What contains `by` returns the same logits as before; what is part of `by` still applies a map of its own.
        related = any(part is by for part in parts) or any(part is each for part in inside)
        if not related and any(part is head.layer for part in parts):
            each._folded_outside = f"{map_.in_words if T is None else f'{T:.4g}'} folded into {head}"  # type: ignore[assignment]


def check_alone(model: nn.Module, map_: Map) -> None:
    """Refuse to fold below another `Calibrated` inside ``model``, unless both only divide: other maps do not commute."""
    for path, each in model.named_modules():
        inner = each.map if each in _living else None
        if inner is not None and temperature_of(inner) != 1 and None in (temperature_of(inner), temperature_of(map_)):
            raise InputError(
                "The network",
                f"not contain another Calibrated to fold {map_.in_words}",
                got=f"one at `{path}` that applies {inner.in_words} after the last layer",
                remedy=f"Fold that one first, by its own `fold()`; or {INSTEAD}.",
            )


def check_calibrated_once(wrapper: Any) -> None:
    """Refuse to apply the map of a `Calibrated` if it, or another one, was folded into the network without the wrapper."""
    if wrapper._folded_outside is None:
        return
    map_ = wrapper.map
    T = temperature_of(map_)
    if T == 1:
        wrapper._folded_outside = None
        return
    rule, still = ("calibrated", f"applies {map_.in_words}") if T is None else ("divided by T", f"divides by {T:.4g}")
    raise InputError(
        "The logits",
        f"be {rule} only once",
        got=f"a network with {wrapper._folded_outside}, while its `Calibrated` still {still}",
        remedy=(
            "Use the network itself, `calibrated.model`, or wrap it again: `Calibrated(calibrated.model)`. To "
            "fold and keep the wrapper, call `calibrated.fold()`, which sets its temperature to 1."
        ),
    )
