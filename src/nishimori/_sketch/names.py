"""The observables of a sketch: what users may pass, and what they are called in files and messages."""

from collections.abc import Iterable
from typing import Any

from nishimori._sums.observables import BUILT_IN, Observable
from nishimori.errors import InputError


def names_of(observables: Iterable[Observable]) -> list[str]:
    """The name of each observable in the table of the built-in ones, else what it prints as."""
    names = {observable: name for name, observable in BUILT_IN.items()}
    return [names.get(each) or repr(each) for each in observables]


def observables_from(observables: Any, archive: str | None = None, wanted: list[str] | None = None) -> tuple[Observable, ...]:
    """Observables by their names; those of an archive of that name must be the ``wanted`` ones."""
    must = f"be names from {', '.join(BUILT_IN)}, or instances of subclasses of nishimori.Observable"
    if isinstance(observables, str | Observable) or not isinstance(observables, Iterable):
        raise InputError("observables", f"{must}, in a tuple", got=repr(observables))
    found = []
    for each in observables:
        known = BUILT_IN.get(each) if isinstance(each, str) else each
        if archive is not None and known is None:
            raise InputError(f"{archive} is a sketch of {', '.join(wanted or ())}. Pass these as `observables`, in this order.")
        if not isinstance(known, Observable):
            raise InputError("observables", must, got=repr(each))
        if known in found:
            raise InputError("observables", "be distinct", got=f"{each!r} more than once")
        found.append(known)
    if not found:
        raise InputError("observables", must, got="none")
    if wanted is not None and names_of(found) != wanted:
        raise InputError(f"{archive} is a sketch of {', '.join(wanted)}. Pass these as `observables`, in this order.")
    return tuple(found)
