"""The kinds of maps in files, by name: built-in and registered ones.

A file holds the kind of a map and its parameters, and never code: a kind is looked up among the maps of the library, those that
were registered in this process, and those of the entry points of installed packages.

What a user's own map claims about itself is checked on some rows. Predictions and accuracy are taken from the logits as they
were where a map says that it keeps the predicted classes, so that a wrong claim would give wrong numbers without a sign of it.
The maps of the library keep what they claim by construction.
"""

import json
from dataclasses import fields
from functools import partial
from inspect import isabstract
from typing import Any

import numpy as np

from nishimori._support.arrays import Array, HostArray, on_host
from nishimori._support.optional import entry_points, load_entry_point
from nishimori.errors import InputError
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.around import Shifted, Tempered, innermost
from nishimori.maps.class_curves import ClassCurves
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map, apply_checked, log_softmax
from nishimori.maps.mixture import Mixture
from nishimori.maps.temperature import ClassTemperatures, GroupTemperatures, Temperature

GROUP = "nishimori.maps"
"""The entry point group for kinds of maps."""

_BUILT_IN: dict[str, Any] = {
    class_.kind: class_
    for class_ in (
        *(Temperature, ClassTemperatures, GroupTemperatures, Affine, LogOdds, Mixture, LogAffine, ClassCurves),
        *(Tempered, Shifted),
    )
}

KINDS: tuple[str, ...] = tuple(_BUILT_IN)
"""The built-in kinds."""

# What was registered in this process, and what was imported of entry points.
_registered: dict[str, type[Map]] = {}

# A map that is made again from its parameters must give the same numbers, up to what an order of operations may change.
_SAME = 1e-9


def register_map(kind: str, cls: Any) -> None:
    """Register a class of maps for files under the name ``kind``, which becomes its attribute; see `nishimori.register`."""
    if not isinstance(kind, str) or not kind or not kind.replace("-", "_").isidentifier():
        raise InputError("kind", "be a word of letters, digits, _ and -", got=repr(kind))
    if not (isinstance(cls, type) and issubclass(cls, Map)):
        remedy = f"Pass the class: `{type(cls).__name__}`." if isinstance(cls, Map) else ""
        raise InputError("cls", "be a subclass of nishimori.Map", got=f"{cls!r:.60}", remedy=remedy)
    if isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        raise InputError("cls", "have all methods that it needs", got=f"{cls.__name__} without {missing}", remedy="Write them.")
    taken = (_registered | _BUILT_IN).get(kind, cls)
    # A module that was run again, as in a notebook, has defined a class again.
    if (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InputError(
            "kind", "be new", got=f"{kind!r}, which is the kind of {taken.__name__}", remedy="Choose another name."
        )
    own = cls.__dict__.get("kind", kind)
    if own != kind:
        raise InputError("kind", f"be that of the class {cls.__name__}, {own!r}", got=repr(kind))
    cls.kind = kind
    _registered[kind] = cls


def find_kind(kind: Any) -> type[Map] | None:
    """The class of maps of this kind, or None if it is not registered."""
    if not isinstance(kind, str):
        return None
    if kind not in _registered | _BUILT_IN:
        for point in entry_points(GROUP):
            if point.name == kind:
                register_map(kind, load_entry_point(point, "map"))
    return (_registered | _BUILT_IN).get(kind)


def is_built_in(map_: Map) -> bool:
    """Whether this is a built-in map, not a user's own."""
    return type(map_) in _BUILT_IN.values()


def claims_to_check(map_: Map) -> bool:
    """Whether a user's own map claims to keep predictions; built-in ones do so by construction."""
    return map_.keeps_predictions and not is_built_in(innermost(map_))


def described(map_: Map, n_classes: int | None = None) -> dict[str, Any]:
    """The description of a map in a file: its kind, its parameters and, if registered, the name of its class for readers.

    Refuses a map that no file can describe: one whose class is not registered, or that its parameters do not give again.
    """
    if isinstance(map_, Tempered | Shifted):
        inner = described(map_.inner, n_classes)
        return {"kind": map_.kind, "parameters": dict(map_.parameters) | {"inner": inner}}
    if is_built_in(map_):
        return {"kind": map_.kind, "parameters": dict(map_.parameters)}
    kind = type(map_)
    if find_kind(getattr(map_, "kind", None)) is not kind:
        raise InputError(
            f"A map of the class {kind.__name__} cannot be saved, because its class is not registered. Call "
            f"`nishimori.register(name, {kind.__name__})` in the module that defines it, or pickle the calibrator."
        )
    parameters = _plain_parameters(map_)
    _refuse_others(map_, parameters, n_classes)
    return {"kind": map_.kind, "parameters": parameters, "class": f"{kind.__module__}:{kind.__qualname__}"}


def from_parameters(kind: Any, parameters: Any) -> Map:
    """The map that a file describes; raises `InputError` if it describes none."""
    cls = find_kind(kind)
    if cls is None:
        raise InputError("kind", f"be one of {', '.join(_BUILT_IN | _registered)}", got=f"{kind!r:.60}")
    if kind in _BUILT_IN:
        wanted = {part.name for part in fields(cls) if part.init}  # type: ignore[arg-type]
        if not isinstance(parameters, dict) or set(parameters) != wanted:
            raise InputError("parameters", f"hold {', '.join(sorted(wanted))}", got=f"{parameters!r:.60}")
        if cls in (Tempered, Shifted):
            parameters = parameters | {"inner": _inner_map(parameters["inner"], kind)}
        return cls(**parameters)
    if not isinstance(parameters, dict):
        raise InputError("parameters", "be a dictionary", got=f"{parameters!r:.60}")
    try:
        return cls(**parameters)
    except Exception as error:  # whatever its author does with parameters
        raise InputError("parameters", f"suit {cls.__name__}", got=f"{type(error).__name__}: {error}") from None


def _inner_map(described: Any, outside: str) -> Map:
    """The map inside another one of the kind ``outside``, from the outer map's parameters."""
    if not isinstance(described, dict) or not {"kind", "parameters"} <= set(described):
        raise InputError("inner", "hold kind, parameters", got=f"{described!r:.60}")
    if described["kind"] in (outside, Shifted.kind):  # `temper` and `shift` never nest them so, and a file could without end
        raise InputError("inner", f"be a map of another kind than {outside!r}", got=repr(outside))
    return from_parameters(described["kind"], described["parameters"])


def _plain_parameters(map_: Map) -> dict[str, Any]:
    """The parameters of a map after a round trip through JSON; refuses values that JSON cannot hold."""
    name = f"{type(map_).__name__}.parameters"
    try:
        parameters = dict(map_.parameters)
        plain: dict[str, Any] = json.loads(json.dumps(parameters, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            name,
            "hold finite numbers, texts and lists of them by name",
            got=f"{map_.parameters!r:.80} ({error})",
            remedy="Call `tolist()` of NumPy's arrays and numbers.",
        ) from None
    if not all(isinstance(key, str) for key in parameters):
        raise InputError(name, "have texts as names", got=f"{parameters!r:.80}")
    return plain


def _refuse_others(map_: Map, parameters: dict[str, Any], n_classes: int | None) -> None:
    """Refuse a map that its parameters do not reproduce: other parameters, or other results on random logits."""
    name = type(map_).__name__
    refused = partial(InputError, f"{name}.parameters")
    try:
        again = from_parameters(map_.kind, parameters)
    except InputError as error:
        raise refused(f"be keyword arguments of the constructor of {name}", got=f"{error.got}") from None
    if _plain_parameters(again) != parameters:
        others = f"{parameters!r:.80}, from which {name} makes a map with the parameters {again.parameters!r:.80}"
        raise refused("give the same map again", got=others)
    number = map_.n_classes or n_classes
    if number is None or map_.needs_groups:
        return
    logits = random_logits(number)
    before, after = (np.asarray(on_host(apply_checked(one, logits))) for one in (map_, again))
    if before.shape != after.shape or not np.allclose(before, after, rtol=_SAME, atol=_SAME, equal_nan=True):
        everything = f"hold everything that the map depends on: `{name}(**parameters)` maps the same logits to other ones"
        raise refused(everything, got=f"{parameters!r:.80}")


# --- what a user's own map claims about itself, checked on some rows -------------------------------------------------------

# Enough to meet a class that changes in one row of a hundred, and few enough to cost nothing.
CHECKED_ROWS, _MOST_NUMBERS = 256, 2**18

# Logits that differ by less than this, or by less than this part of the larger one, may change places: a map may compute in
# single precision.
_ROUNDING = 1e-6


def check_claims(map_: Map, logits: Array, mapped: Array) -> None:
    """Refuse a map that claims to keep predictions and does not.

    ``mapped`` is what it makes of ``logits``. Some rows are looked at: they are spread evenly over all, which may be sorted.
    """
    step = -(-int(logits.shape[0]) // _row_limit(int(logits.shape[1])))
    before, after = (on_host(table[:: max(step, 1), :]).astype(np.float64) for table in (logits, mapped))
    if before.shape != after.shape:  # refused where it is used
        return
    rows = np.arange(len(before))
    top, new = before.argmax(axis=1), after.argmax(axis=1)
    with np.errstate(invalid="ignore"):  # the difference of two infinite logits
        changed = _is_above(before, rows, top, new) & _is_above(after, rows, new, top)
    if changed.any():
        name, place = type(map_).__name__, int(changed.argmax())
        classes = [int(top[place]), int(new[place])]
        was, becomes = (" and ".join(f"{logit:.4g}" for logit in table[place, classes]) for table in (before, after))
        raise InputError(
            f"A map of the class {name} claims `keeps_predictions = True`, but it changes the predicted class of a row from "
            f"{classes[0]} to {classes[1]}: it turns their logits {was} into {becomes}. "
            f"Set `keeps_predictions = False` in the class {name}."
        )


def check_claims_on_random_logits(map_: Map, n_classes: int) -> None:
    """Refuse a map that claims to keep predictions and changes those of fixed random rows, from flat to nearly certain."""
    logits = random_logits(n_classes)
    check_claims(map_, logits, apply_checked(map_, logits))


def random_logits(n_classes: int) -> HostArray:
    """Fixed random rows to try a map on, from flat to nearly certain."""
    rng, n_rows = np.random.default_rng(0), _row_limit(n_classes)
    logits: HostArray = log_softmax(np.geomspace(0.1, 30.0, n_rows)[:, None] * rng.normal(size=(n_rows, n_classes)))
    return logits


def _row_limit(n_classes: int) -> int:
    return max(2, min(CHECKED_ROWS, _MOST_NUMBERS // n_classes))


def _is_above(values: HostArray, rows: HostArray, one: HostArray, other: HostArray) -> Any:
    """Whether the first of two columns of each row is larger than the other by more than rounding."""
    both = values[rows, one], values[rows, other]
    sizes = [np.where(np.isfinite(table), np.abs(table), 0.0) for table in both]
    return both[0] - both[1] > _ROUNDING * np.maximum(1.0, np.maximum(*sizes))
