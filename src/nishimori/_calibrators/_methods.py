"""Methods by name: what there is, how to get one, how to add one, and how to read one back from a file."""

import os
from typing import Any

from nishimori._calibrators import _registry
from nishimori._calibrators._calibrator import Calibrator
from nishimori._calibrators._fixed import FixedMap, FixedTemperature
from nishimori._calibrators._one_temperature import ExpectationConsistency, Matched, TemperatureScaling
from nishimori._calibrators._record import Record
from nishimori._observables import BUILT_IN, Observable
from nishimori.errors import FormatError, InputError

# Methods whose class does more than match an observable of the table; "fixed" is not chosen from data.
_FIXED = "fixed"
_CLASSES: dict[str, type[Calibrator]] = {
    "ec": ExpectationConsistency,
    "ts": TemperatureScaling,
    _FIXED: FixedTemperature,
}
for _name, _target in {**BUILT_IN, **_CLASSES}.items():
    _registry.add(_name, _target)


def methods() -> tuple[str, ...]:
    """The names of all methods that choose a map from data: built in, registered, and of installed packages.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.methods()[:2]
    ('ec', 'ts')
    """
    return tuple(name for name in _registry.names() if name != _FIXED)


def register(name: str, observable_or_class: Any) -> None:
    """Give an observable or a class of calibrators a name in this process.

    Parameters
    ----------
    name : str
        A new name, as for `calibrator` and the shell's ``--method``.
    observable_or_class : Observable, or subclass of Observable or Calibrator
        An observable is matched by one temperature; a class is called with the parameters that `calibrator` is given.

    Notes
    -----
    A package adds its methods to every process with an entry point in the group ``nishimori.methods``.

    Examples
    --------
    >>> import nishimori
    >>> class Logit(nishimori.Observable):
    ...     def values(self, logits):
    ...         return logits
    >>> nishimori.register("logit", Logit())
    >>> nishimori.calibrator("logit").method
    'logit'
    """
    if not isinstance(name, str) or not name or ":" in name or name != name.strip():
        raise InputError(f"`name` must be a word without a colon, got {name!r}.")
    _registry.add(name, _checked(observable_or_class, "`observable_or_class`"))


def calibrator(name: str, **params: Any) -> Calibrator:
    """An unfitted calibrator, by the name of its method.

    Parameters
    ----------
    name : str
        One of `methods`, or ``package.module:Name`` of an observable or a class of calibrators that can be imported.
    **params
        Parameters of the method, such as ``top_n`` of "ec", and ``input`` and ``classes`` of all.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.calibrator("ec", top_n=5)
    ExpectationConsistency(top_n=5)
    """
    try:
        return _made(_target_of(name), params)
    except TypeError as error:
        raise InputError(f"`{name}` does not take these parameters: {error}.") from None


def _target_of(name: Any) -> Any:
    """The observable or class behind a name that a user typed."""
    if isinstance(name, str) and ":" in name:
        return _checked(_registry.imported(name), f"`{name}`")
    target = _registry.find(name)
    if target is None:
        raise InputError(f"`method` must be one of {', '.join(methods())}, or package.module:Name, got {name!r}.")
    return _checked(target, f"The method {name!r}")


def _checked(target: Any, what: str) -> Any:
    if isinstance(target, Observable) or (isinstance(target, type) and issubclass(target, Observable | Calibrator)):
        return target
    raise InputError(
        f"{what} must be an observable, or a subclass of nishimori.Observable or nishimori.Calibrator, got {target!r}."
    )


def _made(target: Any, params: dict[str, Any]) -> Calibrator:
    if isinstance(target, type) and issubclass(target, Calibrator):
        return target(**params)
    face = {name: value for name, value in params.items() if name in ("input", "classes")}
    own = {name: value for name, value in params.items() if name not in face}
    if isinstance(target, type):
        return Matched(target(**own), **face)
    if own:
        raise TypeError(f"it has no parameters besides `input` and `classes`, got {', '.join(own)}")
    return Matched(target, **face)


def load(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that `save` wrote to ``path``, ready to use.

    If its method is neither registered nor installed here, the map is all there is: a `FixedMap` that knows the method's
    name. A file cannot name code to import.

    Raises
    ------
    FormatError
        If the file is damaged, is not a calibration, or was written by a newer format than this library reads.
    """
    record = Record.read(path)
    told = record.provenance
    face = {"input": record.input, "classes": told.classes}
    target = _registry.find(told.method)
    if target is None:
        return FixedMap(record.map, method=told.method, **face).restore(record)  # type: ignore[arg-type]
    params = dict(record.map.parameters) if told.method == _FIXED else told.params
    try:
        return _made(_checked(target, told.method), {**params, **face}).restore(record)
    except TypeError:
        raise FormatError(f"{path} is damaged: params is {told.params!r}. Fit and save again.") from None
