"""Methods by name: what there is, how to get one, how to add one, and how to read one back from a file."""

import os
import warnings
from difflib import get_close_matches
from inspect import isabstract
from pathlib import Path
from typing import Any

from sklearn.base import clone

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.fixed import FIXED, FixedMap, FixedTemperature
from nishimori._calibrators.one_temperature import Matched
from nishimori._methods import registry
from nishimori._methods.fitted_method import COMMON, check_constructor, own_parameters
from nishimori._methods.record import Record, content_of
from nishimori._sums.observables import Observable
from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature

# What scikit-learn and probmetrics call them.
_ELSEWHERE = {"auto": "adaptive", "sigmoid": "platt", "temperature": "ts", "ets": "ensemble", "svs": "vector", "sms": "matrix"}


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
    if not isinstance(name, str) or not name or ":" in name or name != name.strip() or name == FIXED:
        raise InputError("name", f"be a word without a colon, and not {FIXED!r}", got=repr(name))
    registry.add(name, _check_target(observable_or_class, "observable_or_class"))


def calibrator(name: str, **params: Any) -> Calibrator:
    """An unfitted calibrator, by the name of its method.

    Parameters
    ----------
    name : str
        One of `methods`, or ``package.module:Name`` of an observable or a class of calibrators that can be imported.
    **params
        Parameters of the method, such as ``top_n`` of "ec", and ``input``, ``classes`` and ``floor`` of all.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.calibrator("ec", top_n=5)
    ExpectationConsistency(top_n=5)
    """
    target = target_of(name)
    try:
        return _instantiate(target, params)
    except TypeError as error:
        taken = ", ".join((*own_parameters(target), *COMMON))
        raise InputError(
            f"The method {name!r} takes the parameters {taken}, got {', '.join(params) or 'none'} ({error})."
        ) from None


def new_calibrator(given: Any, name: str) -> Calibrator:
    """A calibrator from the name of its method, or a copy of one; ``name`` is the parameter that held it."""
    if isinstance(given, str):
        return calibrator(given)
    if isinstance(given, Calibrator):
        check_constructor(given)
        copy: Calibrator = clone(given)
        return copy
    _refuse_class(given, name)
    raise InputError(name, "be the name of a method, such as 'ec', or a calibrator", got=f"{given!r:.60}")


def _refuse_class(given: Any, name: str) -> None:
    """Refuse a class of calibrators where one of its calibrators is meant."""
    if isinstance(given, type) and issubclass(given, Calibrator):
        raise InputError(name, "be the name of a method or a calibrator", got="a class", remedy=f"Pass `{given.__name__}()`.")


def target_of(name: Any) -> Any:
    """The observable or class behind a name that a user typed."""
    _refuse_class(name, "The method")
    if isinstance(name, str) and ":" in name:
        return _check_target(registry.import_object(name), name)
    target = registry.find(name) if isinstance(name, str) else None
    if target is None:
        close = _ELSEWHERE.get(str(name).lower()) or next(iter(get_close_matches(str(name).lower(), registry.names(), 1)), None)
        meant = f"Did you mean {close!r}?" if close else ""
        known = ", ".join(registry.names())
        raise InputError("The method", f"be one of {known}, or package.module:Name", got=repr(name), remedy=meant)
    return _check_target(target, f"The method {name!r}")


def _check_target(target: Any, what: str) -> Any:
    """What can be a method: an observable, or a class that makes one or a calibrator."""
    is_class = isinstance(target, type) and issubclass(target, Observable | Calibrator)
    if is_class and isabstract(target):
        missing = ", ".join(sorted(target.__abstractmethods__))
        got = f"{target.__name__} without {missing}"
        raise InputError(what, "have all methods that it needs", got=got, remedy="Write them.")
    if not is_class and not isinstance(target, Observable):
        must = "be an observable, or a subclass of nishimori.Observable or nishimori.Calibrator"
        raise InputError(what, must, got=repr(target))
    return target


def _instantiate(target: Any, params: dict[str, Any]) -> Calibrator:
    if isinstance(target, type) and issubclass(target, Calibrator):
        return target(**params)
    common = {name: value for name, value in params.items() if name in COMMON}
    own = {name: value for name, value in params.items() if name not in common}
    if isinstance(target, type):
        return Matched(target(**own), **common)
    if own:
        raise TypeError("it was registered with its own parameters")
    return Matched(target, **common)


def load(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that `save` wrote to ``path``, ready to use.

    If its method is neither registered nor installed here, the map is all there is: a `FixedMap` that knows the method's
    name. A file cannot name code: only methods that are registered or installed are looked up.

    Raises
    ------
    FormatError
        If the file is damaged, is not a calibration, or was written by a newer format than this library reads.
    """
    return restore_calibrator(Record.of(content_of(Path(path)), Path(path)), path)


def restore_calibrator(record: Record, path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that a file describes."""
    origin, common = record.provenance, record.common_parameters
    if origin.method == FIXED and isinstance(record.map, Temperature):
        made: Calibrator = FixedTemperature(record.map.temperature, **common)
    else:
        made = _of_method(record, path) or FixedMap(record.map, method=origin.method, params=origin.params, **common)
    return made.restore(record)


def _of_method(record: Record, path: str | os.PathLike[str]) -> Calibrator | None:
    """A calibrator of the file's own method, or None if that is not known here or, with a warning, cannot be used."""
    origin = record.provenance
    try:
        target = registry.find(origin.method)
        if target is None:
            return None
        made = _instantiate(_check_target(target, f"The method {origin.method!r}"), record.parameters)
        if origin.n_classes is not None:
            made.check_parameters(origin.n_classes)
    except Exception as error:
        if registry.is_built_in(origin.method):
            raise record.parameters_error(path) from None
        warnings.warn(
            f"The method {origin.method!r} of {os.fspath(path)} cannot be used here ({type(error).__name__}: {error}). The "
            "calibration is loaded as a FixedMap, which predicts the same but cannot be fitted again.",
            UserWarning,
            stacklevel=4,  # the caller of `load`
        )
        return None
    return made
