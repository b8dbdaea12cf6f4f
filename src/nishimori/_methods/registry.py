"""Methods by name: the observable or calibrator class behind each.

Names come from three places: the library itself (`built_in`), `register` in this process, and the entry points of installed
packages, which are imported only when their method is used.
"""

from importlib.metadata import EntryPoint
from typing import Any

from nishimori._methods.built_in import BARE, BUILT_IN, FINISHED
from nishimori._sums.observables import Observable
from nishimori._support.optional import entry_points, import_object, load_entry_point
from nishimori.errors import InputError

GROUP = "nishimori.methods"

# What was registered in this process, and what was imported of entry points.
_known: dict[str, Any] = {}


def add(name: str, target: Any) -> None:
    """Put a checked ``target`` into the table."""
    taken = import_object(BUILT_IN[name]) if name in BUILT_IN else _known.get(name, target)
    if taken != target:
        other = taken.__name__ if isinstance(taken, type) else repr(taken)
        raise InputError("name", "be new", got=f"{name!r}, which is the name of {other}", remedy="Choose another name.")
    if name not in BUILT_IN:
        _known[name] = target


def names() -> tuple[str, ...]:
    """All names, those of entry points last; nothing is imported."""
    return tuple(dict.fromkeys([*BUILT_IN, *_known, *(each.name for each in _entry_points())]))


def is_built_in(name: str) -> bool:
    """Whether the library itself has a method of this name, or the one that NAME+ec finishes."""
    return unfinished(name) in BUILT_IN


def unfinished(name: str) -> str:
    """The method that NAME+ec finishes; the name itself if it is of no such method."""
    return name.removesuffix(FINISHED)


def by_class_name() -> dict[str, str]:
    """The names of methods by those of their classes; nothing is imported."""
    built_in = {path.partition(":")[2]: name for name, path in BUILT_IN.items()}
    return built_in | {each.__name__: name for name, each in _known.items() if isinstance(each, type)}


def find(name: Any) -> Any:
    """The observable or class called ``name``, or None."""
    if name in BUILT_IN:
        return import_object(BUILT_IN[name])
    if name not in _known:
        for each in _entry_points():
            if each.name == name:
                _known[name] = load_entry_point(each, "method")
    return _known.get(name)


def find_bare(name: Any) -> Any:
    """The class of the method called ``name`` that needs no scikit-learn, or None if there is none."""
    return import_object(BARE[name]) if name in BARE else None


def name_of(target: Any) -> str:
    """What a class or an observable is called: its name in the table, else where it can be imported from."""
    for name, each in _known.items():
        if each is target or (isinstance(each, Observable) and each == target) or each is type(target):
            return name
    kind = target if isinstance(target, type) else type(target)
    path = f"{kind.__module__}:{kind.__qualname__}"
    places = [*BUILT_IN.items(), *BARE.items(), *((each.name, each.value) for each in _entry_points())]
    return next((name for name, place in places if place == path), path)


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(GROUP))
