"""Calibrators by the names of their methods: what there is, how to get one, how to add one, how to restore one from a file."""

import json
import os
import warnings
from collections import UserDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from inspect import Parameter, Signature, isabstract, isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.fixed import FIXED, FixedMap, FixedTemperature
from nishimori._calibrators.one_temperature import Matched
from nishimori._methods import table
from nishimori._methods.fitted_method import COMMON, check_constructor, own_parameters
from nishimori._methods.record import Record, content_of, is_multilabel
from nishimori._methods.table import CONSISTENT, FINISHED, Traits
from nishimori._sums.observables import Observable
from nishimori._support.display import Display, Displayed
from nishimori._support.optional import import_object, require
from nishimori._support.tables import Tabular
from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature

if TYPE_CHECKING:
    from nishimori._calibrators.multilabel.estimator import MultilabelCalibrator

# What restores a calibration of independent labels; it looks its methods up here, and is imported where it is needed.
_MULTILABEL = "nishimori._calibrators.multilabel.estimator:MultilabelCalibrator"

# What scikit-learn, in other letters, and probmetrics call them.
_ELSEWHERE = {"auto": "adaptive", "ets": "mixture", "svs": "vector", "sms": "matrix", **table.ALIASES}

# The columns of the table that say yes or no, by the names of the traits.
_HEADERS = {
    "keeps_predictions": "keeps predictions",
    "streams": "streams",
    "from_sketch": "from a sketch",
    "error_bars": "error bars",
}

_MATCHED = "Divide logits by the temperature at which this observable has the same mean under model and labels."


def register_method(name: str, target: Any) -> None:
    """Give an observable or a class of calibrators a name in this process; see `nishimori.register`."""
    if not isinstance(name, str) or not name or ":" in name or name != name.strip() or name == FIXED:
        raise InputError("name", f"be a word without a colon, and not {FIXED!r}", got=repr(name))
    if name.endswith(FINISHED):
        remedy = f"Every method that has a name can be finished by EC: register it as {table.unfinished(name)!r}."
        raise InputError("name", f"not end in {FINISHED!r}", got=repr(name), remedy=remedy)
    table.add(name, _check_target(target, "target"))


def calibrator(name: str, **params: Any) -> Calibrator:
    """An unfitted calibrator, by the name of its method.

    Parameters
    ----------
    name : str
        One of `methods`, or ``package.module:Name`` of an observable or a class of calibrators that can be imported. With
        "+ec" after it, as in "matrix+ec", the method is finished by expectation consistency, see `Consistent`.
    **params
        Parameters of the method, such as ``top_n`` of "ec", and ``input``, ``classes`` and ``floor`` of all. NAME+ec takes
        those of NAME and those of `Consistent`.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.calibrator("ec", top_n=5)
    ExpectationConsistency(top_n=5)
    >>> nishimori.calibrator("matrix+ec", cv=5)
    Consistent(calibrator=MatrixScaling(), cv=5)
    """
    target = target_of(name)
    try:
        return _instantiate(target, params)
    except TypeError as error:
        taken = ", ".join((*own_parameters(target), *COMMON))
        raise InputError(
            f"The method {name!r} takes the parameters {taken}, got {', '.join(params) or 'none'} ({error})."
        ) from None


def new_calibrator(method: Any, name: str) -> Calibrator:
    """A calibrator from the name of its method, or a copy of one; ``name`` is the parameter that held it."""
    if isinstance(method, str):
        return calibrator(method)
    if isinstance(method, Calibrator):
        check_constructor(method)
        return clone(method)
    _refuse_class(method, name)
    raise InputError(name, "be the name of a method, such as 'ec', or a calibrator", got=f"{method!r:.60}")


def refuse_common(calibrator: Calibrator, name: str, owner: Any) -> None:
    """Refuse a calibrator that was told what the scores are, where the estimator around it is told, unless both say the same.

    ``name`` is the parameter of the ``owner`` that held the calibrator.
    """
    for parameter, usual in (("input", (None, "logits")), ("classes", (None,)), ("floor", (None, "auto"))):
        value, allowed = getattr(calibrator, parameter), (*usual, getattr(owner, parameter, None))
        # They may be lists or arrays.
        if not any(np.array_equal(np.asarray(value, dtype=object), np.asarray(one, dtype=object)) for one in allowed):
            remedy = f"Pass `{parameter}` to {type(owner).__name__}." if hasattr(owner, parameter) else ""
            raise InputError(name, f"leave out `{parameter}`", got=f"{value!r:.60}", remedy=remedy)


def refuse_two_classes(calibrator: Calibrator, name: str, n_classes: int) -> None:
    """Refuse a method for two classes where there are more; ``name`` is the parameter that held the calibrator."""
    if calibrator.traits is not None and calibrator.traits.n_classes == "two" and n_classes > 2:
        got = f"{calibrator.method_name!r}, which is for two"
        raise InputError(name, f"work for {n_classes} classes", got=got, remedy="Use 'vector' or 'matrix', for example.")


def set_common(calibrator: Calibrator, **common: Any) -> Calibrator:
    """The calibrator with other common parameters, such as ``input``, of which one of the user's own need not have all."""
    own = calibrator.get_params(deep=False)
    return calibrator.set_params(**{name: value for name, value in common.items() if name in own})


def _refuse_class(method: Any, name: str) -> None:
    """Refuse a class of calibrators where one of its calibrators is meant."""
    if isinstance(method, type) and issubclass(method, Calibrator):
        raise InputError(name, "be the name of a method or a calibrator", got="a class", remedy=f"Pass `{method.__name__}()`.")


def _finished(method: Any) -> Callable[..., Calibrator]:
    """The function that makes a `Consistent` of a method: it takes the parameters of both.

    A parameter of the method that `Consistent` has too is called as scikit-learn would: ``calibrator__cv``.
    """
    consistent = import_object(CONSISTENT)
    own = tuple(name for name in own_parameters(consistent) if name != "calibrator")
    inner = {inner_name(name, own): name for name in own_parameters(method)}

    def make(**params: Any) -> Calibrator:
        of_method = {name: params.pop(used) for used, name in inner.items() if used in params}
        return consistent(_instantiate(method, of_method), **params)

    names = (*own, *inner, *COMMON)
    make.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])  # type: ignore[attr-defined]
    return make


def inner_name(name: str, own: Sequence[str]) -> str:
    """What a parameter of a calibrator inside another one is called, which has ``own`` ones itself."""
    return f"calibrator__{name}" if name in own else name


def target_of(name: Any, ending: str = "") -> Any:
    """The observable or class behind a name that a user typed, or what makes a calibrator of one that is finished by EC.

    ``ending`` is what the user typed after the name, for messages.
    """
    _refuse_class(name, "The method")
    if isinstance(name, str) and name.endswith(FINISHED):
        return _finished(target_of(table.unfinished(name), FINISHED + ending))
    if isinstance(name, str) and ":" in name:
        return _check_target(import_object(name), name)
    target = table.find(name) if isinstance(name, str) else None
    if target is None:
        close = _ELSEWHERE.get(str(name).lower()) or next(iter(get_close_matches(str(name).lower(), table.names(), 1)), None)
        remedy = f"Did you mean {close + ending!r}?" if close else ""
        names = ", ".join(table.names())
        got = repr(name + ending if isinstance(name, str) else name)
        raise InputError("The method", f"be one of {names}, or package.module:Name", got=got, remedy=remedy)
    return _check_target(target, f"The method {name!r}")


def _check_target(target: Any, what: str) -> Any:
    """What can be a method: an observable, or a class that makes one or a calibrator."""
    is_class = isinstance(target, type) and issubclass(target, Observable | Calibrator)
    if is_class and isabstract(target):
        missing = ", ".join(sorted(target.__abstractmethods__))
        got = f"{target.__name__} without {missing}"
        raise InputError(what, "have all methods that it needs", got=got, remedy="Write them.")
    if not is_class and not isinstance(target, Observable):
        must = "be an observable, a metric, or a subclass of nishimori.Observable, nishimori.Calibrator or nishimori.Map"
        raise InputError(what, must, got=repr(target))
    return target


def _instantiate(target: Any, params: dict[str, Any]) -> Calibrator:
    if isfunction(target) or (isinstance(target, type) and issubclass(target, Calibrator)):
        return target(**params)
    common = {name: value for name, value in params.items() if name in COMMON}
    own = {name: value for name, value in params.items() if name not in common}
    if isinstance(target, type):
        return Matched(target(**own), **common)
    if own:
        raise TypeError("it was registered with its own parameters")
    return Matched(target, **common)


def load(path: str | os.PathLike[str]) -> "Calibrator | MultilabelCalibrator":
    """The calibrator that `save` wrote to ``path``, ready to use.

    If its method is neither registered nor installed here, the map is all there is: a `FixedMap` that knows the method's
    name. A file cannot name code: only methods that are registered or installed are looked up. A file of a
    `MultilabelCalibrator` becomes one again.

    Raises
    ------
    FormatError
        If the file is damaged, is not a calibration, or was written by a newer format than this library reads.
    """
    content = content_of(Path(path))
    if is_multilabel(content):
        return import_object(_MULTILABEL).from_content(content, Path(path))
    return restore_calibrator(Record.from_content(content, Path(path)), path)


def restore_calibrator(record: Record, path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that a file describes."""
    origin, common = record.provenance, record.common_parameters
    if origin.method == FIXED and isinstance(record.map, Temperature):
        calibrator: Calibrator = FixedTemperature(record.map.temperature, **common)
    else:
        calibrator = _of_method(record, path) or FixedMap(record.map, method=origin.method, params=origin.params, **common)
    return calibrator._restore(record)


def _of_method(record: Record, path: str | os.PathLike[str]) -> Calibrator | None:
    """A calibrator of the file's own method, or None if that is not known here or, with a warning, cannot be used."""
    origin = record.provenance
    try:
        target = _installed(origin.method)
        if target is None:
            return None
        calibrator = _instantiate(target, record.parameters)
        if origin.n_classes is not None:
            calibrator._check_n_classes(origin.n_classes)
    except Exception as error:
        if table.is_built_in(origin.method):
            raise record.parameters_error(path) from None
        warnings.warn(
            f"The method {origin.method!r} of {os.fspath(path)} cannot be used here ({type(error).__name__}: {error}). The "
            "calibration is loaded as a FixedMap, which predicts the same but cannot be fitted again.",
            UserWarning,
            stacklevel=4,  # the caller of `load`
        )
        return None
    return calibrator


def _installed(name: str) -> Any:
    """What is behind the name of a method in a file, which is registered or installed; None if it is not. No code is named."""
    if name.endswith(FINISHED):
        inner = _installed(table.unfinished(name))
        return None if inner is None else _finished(inner)
    target = table.find(name)
    return None if target is None else _check_target(target, f"The method {name!r}")


@dataclass(frozen=True)
class Method:
    """One method, as it is known before it is fitted.

    Attributes
    ----------
    name : str
        What `nishimori.calibrator` and the shell's ``--method`` call it.
    class_name : str or None
        The class of the calibrator, or that of an observable; None if it cannot be imported.
    description : str
        The first line of the docstring of that class.
    traits : Traits or None
        What it does and needs with its default parameters; None if its author does not say.
    parameters : tuple of str
        The parameters of the method, besides ``input``, ``classes`` and ``floor``.
    why : str or None
        Why the method cannot be used, as where its package cannot be imported.
    """

    name: str
    class_name: str | None
    description: str
    traits: Traits | None
    parameters: tuple[str, ...] = ()
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything in one flat dictionary; what is not known is None."""
        names = (*_HEADERS, "n_classes")
        traits = dict.fromkeys(names) if self.traits is None else asdict(self.traits)
        return {
            "name": self.name,
            "class": self.class_name,
            **traits,
            "parameters": list(self.parameters),
            "description": self.description,
            "why": self.why,
        }


class UnknownMethodError(InputError, KeyError):
    """There is no method of this name."""

    __str__ = InputError.__str__  # without the quotes that `KeyError` puts around its text


class MethodTable(UserDict[str, Any], Displayed):
    """All methods by name, and what they do and need. ``print`` shows a table.

    Built-in methods come first, then those that were registered, then those of installed packages. A method is imported when
    it is looked up.
    """

    def __getitem__(self, name: str) -> Method:
        if name not in self:
            raise UnknownMethodError("The method", f"be one of {', '.join(self)}", got=repr(name))
        return _method(name)

    def __repr__(self) -> str:
        return f"MethodTable({', '.join(self)})"

    @property
    def table(self) -> Tabular:
        """The table as it is shown."""
        return Tabular(
            ("method", "class", *_HEADERS.values(), "classes", "what it does"), [_row(method) for method in self.values()]
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain texts, lists and dictionaries."""
        return {"methods": [method.to_dict() for method in self.values()]}

    def to_json(self) -> str:
        """The table of methods as one line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_pandas(self) -> Any:
        """A data frame with one row per method."""
        pandas = require("pandas", extra="tables", for_="MethodTable.to_pandas")
        return pandas.DataFrame([method.to_dict() for method in self.values()]).set_index("name")

    @property
    def _display(self) -> Display:
        return Display("", (self.table,))

    def to_latex(self) -> str:
        """The table of methods as LaTeX, with the rules of the package booktabs."""
        return self.table.latex()


def methods() -> MethodTable:
    """The names of all methods, and what each does and needs: whether it keeps predictions, reads data in blocks, and so on.

    What is said is about the default parameters. Methods are built in, registered in this process, or found through the entry
    points of installed packages; one whose package cannot be imported is listed with the reason.

    Returns
    -------
    MethodTable
        A mapping from names to methods. ``print`` shows it as a table.

    Examples
    --------
    >>> import nishimori
    >>> table = nishimori.methods()
    >>> table["matrix"].traits.keeps_predictions
    False
    >>> [name for name, method in table.items() if method.traits.from_sketch][:4]
    ['ec', 'ts', 'adaptive', 'none']
    """
    return MethodTable(dict.fromkeys(table.names()))


def _method(name: str) -> Method:
    try:
        target = target_of(name)
    except InputError as error:
        return Method(name, None, "", None, why=str(error))
    kind: type[Calibrator | Observable] = target if isinstance(target, type) else type(target)
    if isfunction(target):  # one that finishes a method
        kind = import_object(CONSISTENT)
    traits = kind.traits if issubclass(kind, Calibrator) else Matched.traits
    return Method(name, kind.__name__, _description(kind), traits, own_parameters(target))


def _description(kind: type[Calibrator | Observable]) -> str:
    """The first line of the docstring of a method; a default text for an observable without one."""
    if lines := (kind.__doc__ or "").strip().splitlines():
        return lines[0].strip()
    return _MATCHED if issubclass(kind, Observable) else ""


def _row(method: Method) -> tuple[str, ...]:
    traits = method.traits
    if traits is None:
        answers = ["unknown"] * (len(_HEADERS) + 1)
    else:
        answers = ["yes" if getattr(traits, name) else "no" for name in _HEADERS] + [traits.n_classes]
    return (method.name, method.class_name or "unknown", *answers, method.description if method.why is None else method.why)
