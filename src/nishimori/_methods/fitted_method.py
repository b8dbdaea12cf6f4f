"""The result of a fit, without scikit-learn, which takes longer to import than most fits take.

`FittedMethod` keeps it, in attributes with an underscore at the end, as scikit-learn wants it: after a fit or from a file, of
which it makes a record. `Calibrator` is one with the face that scikit-learn knows, and `BareCalibrator` the one that the shell
runs.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from inspect import Parameter, signature
from numbers import Real
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np

import nishimori
from nishimori._fit.floors import choose_floor
from nishimori._fit.match import FitInfo
from nishimori._methods import prevalence, table
from nishimori._methods.one_temperature import TemperatureFit, TemperatureMethod
from nishimori._methods.record import Provenance, Record
from nishimori._rows.batch import Batch
from nishimori._rows.column_names import column_names, refuse_permuted
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.options import RowOptions
from nishimori._rows.rows import Rows, is_rows
from nishimori._rows.scores import Floor, Input, Members, is_auto
from nishimori._sums.observables import Observable
from nishimori._support.arrays import HostArray
from nishimori._support.json import as_python
from nishimori.errors import InputError
from nishimori.maps.kinds import CHECKED_ROWS, check_claims, check_claims_on_random_logits, claims_to_check
from nishimori.maps.map import Map, apply_checked
from nishimori.maps.temperature import Temperature, temperature_of

# Attributes, without their underscore, that a file keeps under the same names; the second are those of columns.
_IN_RECORD = ("n_samples", "residual", "temperature_se", "data_digest")
_COLUMNS = ("label_column", "score_column", "group_column")

COMMON = ("input", "classes", "floor")
"""The parameters of every calibrator besides its method's own."""


class FittedMethod(ABC):
    """A method and its fitted state."""

    is_fixed: ClassVar[bool] = False
    takes_claims: ClassVar[bool] = False
    input: Input | None
    input_: Input
    classes: Classes
    floor: Floor = None  # a subclass without this parameter raises only exact zeros
    floor_: float | None
    map_: Map
    classes_: HostArray
    feature_names_in_: HostArray
    n_features_in_: int
    label_column_: str | None
    score_column_: str | None
    group_column_: str | None
    n_samples_: int | None
    residual_: float | None
    data_digest_: str | None = None
    class_prior_: HostArray | None = None
    members_: Members | None = None
    temperature_se_: float | None
    fit_info_: FitInfo
    parameters_: dict[str, Any]
    parameters_se_: dict[str, Any] | None
    why_no_se_: str | None
    n_passes_: int | None
    _is_flat_: bool
    _of_claims_: bool = False
    _own_classes_: list[Any] | None = None
    _seen_classes_: list[Any] | None = None  # those of the fit that runs, which may fail
    _estimates_: dict[str, float] | None = None
    _class_off_: dict[str, float] | None = None

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from scores ``X`` and true classes ``y``."""

    def rows_from(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
        groups: Any = None,
        *,
        counts: bool = False,
        ignore_index: int | None = None,
        member_axis: int | None = None,
    ) -> Rows:
        """The data to fit to, for your own `fit`; values are checked when they are first read."""
        check_constructor(self)
        options: RowOptions = {"sample_weight": sample_weight, "clusters": clusters, "groups": groups}
        options |= {"counts": counts, "ignore_index": ignore_index, "member_axis": member_axis}
        if is_rows(X):  # `input` and `classes` are then those of the scores to predict from
            options["floor"] = self.floor if is_auto(self.floor) else None
        else:
            is_open = self.classes is None and ignore_index is None
            self._seen_classes_ = self._classes_in(y) if is_open else None
            options |= {"input": self.input, "classes": self._seen_classes_ or self.classes, "floor": self.floor}
        if is_rows(X):
            self._check_claims(X)
        return open_rows(X, y, names=("X", "y"), choose_floor=choose_floor, **options)

    def _check_claims(self, data: Any) -> None:
        """Refuse claims that the method does not support: any for a temperature, scores for methods of probabilities."""
        if not getattr(data, "is_claims", False) or self.is_fixed:
            return
        if not self.takes_claims:
            names = ", ".join(map(repr, table.OF_CLAIMS))
            got = f"claims: a temperature moves all of them towards 1/2, or all away from it. Use {names} or 'best'"
            raise InputError("X", f"have a probability per class for the method {self.method_name!r}", got=got)
        if data.are_scores and self.method_name in table.OF_PROBABILITIES:
            names = " or ".join(map(repr, table.methods_of_claims(are_scores=True)))
            raise InputError("X", f"be probabilities for the method {self.method_name!r}", got=f"scores. Use {names}")

    def _classes_in(self, y: Any) -> list[Any] | None:  # noqa: ARG002 - for methods of two classes
        """The classes in the labels, in order; None if ``classes`` must list them."""
        return None

    @property
    def _names(self) -> Classes:
        """The label of each column, as passed or from the labels; None if labels are column numbers."""
        return self._own_classes_ if self.classes is None else self.classes

    def learn(
        self,
        X: Any,
        data: Rows,
        map_: Map,
        n_samples: int,
        residual: float | None = None,
        temperature_se: float | None = None,
        estimates: dict[str, float] | None = None,
        n_passes: int | None = None,
    ) -> Self:
        """Store the results of your own `fit`, as its last step: a fit that fails leaves the calibrator unchanged.

        Parameters
        ----------
        X : array or other data
            What `fit` was given, whose columns are noted.
        data : Rows
            What `rows_from` made of it.
        map_ : Map
            What is done to logits.
        n_samples : int
            How many samples were used.
        residual, temperature_se : float, optional
            What is left of the condition, and the standard error of the temperature, where the map has one.
        estimates : dict of float, optional
            Further numbers of the fit, which a file keeps.
        n_passes : int, optional
            How often all logits were read.
        """
        check_map(map_, data.n_classes, data)
        self._own_classes_ = self._seen_classes_
        classes = class_labels(self._names, data.n_classes)
        self.map_ = map_
        self.input_ = data.input if self.input is None else self.input
        self.floor_ = self.floor  # type: ignore[assignment]
        if is_auto(self.floor):
            self.floor_ = data.floor if self.input_ == "probabilities" else None
        self.n_features_in_ = data.n_classes
        self.classes_ = classes
        self.n_samples_ = n_samples
        self.residual_ = residual
        self.data_digest_ = None if self.is_fixed else data.digest
        self.members_ = data.members
        self.class_prior_ = prevalence.shares(data.class_weights)
        self._class_off_ = None if self.class_prior_ is None else prevalence.class_off(data, map_)
        self.temperature_se_ = temperature_se
        self._estimates_ = estimates
        name_columns(self, column_names(X) if hasattr(X, "columns") else None)
        self._is_flat_ = is_flat(X, data.members)
        self._of_claims_ = data.is_claims
        self._show()
        if n_passes is not None:
            self.n_passes_ = n_passes
        return self

    def _adopt(self, X: Any, data: Rows, fit: TemperatureFit) -> Self:
        """Store one temperature that was fitted to ``data`` (from ``X``), and further results of the method."""
        info = fit.fit_info
        self.learn(X, data, Temperature(fit.temperature), info.n_samples, info.residual, info.temperature_se)
        vars(self).update(fit.attributes, fit_info_=info, n_passes_=info.n_passes)
        return self

    def _second_class_off(self) -> tuple[float, float] | None:
        """The mean probability of the second of two classes, and its share, if one temperature leaves them apart."""
        off = self._class_off_
        if off is None or self._of_claims_ or len(self.classes_) != 2 or self.temperature_ is None:
            return None
        mean, share = off["mean"], off["share"]
        return (mean, share) if off["place"] == 1 else (1 - mean, 1 - share)

    def _show(self) -> None:  # noqa: B027 - most show nothing else
        """Set the attributes that follow from the map and the estimates, after a fit or after reading a file."""

    @property
    def method_name(self) -> str:
        """The name of the method: its registered name, else its import path."""
        return table.name_of(type(self))

    def method_params(self) -> dict[str, Any]:
        """The parameters of the method, which `nishimori.calibrator` takes besides its name."""
        return {name: as_python(getattr(self, name)) for name in sorted(own_parameters(type(self)))}

    @property
    def temperature_(self) -> float | None:
        """The divisor of logits; None for a map that does more than divide."""
        return temperature_of(self.map_)

    def _record(self) -> Record:
        """The content of a file."""
        names = getattr(self, "feature_names_in_", None)
        origin = Provenance(
            method=self.method_name,
            params=self.method_params(),
            classes=None if self._names is None else self.classes_.tolist(),
            columns=None if names is None else names.tolist(),
            n_classes=len(self.classes_) if hasattr(self, "classes_") else None,
            estimates=self._estimates_,
            is_flat=getattr(self, "_is_flat_", False),
            of_claims=self._of_claims_,
            class_prior=None if self.class_prior_ is None else self.class_prior_.tolist(),
            class_off=self._class_off_,
            members=None if self.members_ is None else self.members_._asdict(),
            **{name: getattr(self, f"{name}_") for name in (*_IN_RECORD, *_COLUMNS)},
            library_version=nishimori.__version__,
        )
        floor = None if self.floor_ is None else float(self.floor_)
        return Record(self.map_, self.input_, origin, floor)

    def _restore(self, record: Record) -> Self:
        """Restore from ``record``, ready to use."""
        origin = record.provenance
        self.map_ = record.map
        self.input_ = record.input
        self.floor_ = record.floor
        if record.input == "probabilities" and record.floor is None:
            self.floor = None  # a new fit would choose one
        vars(self).update({f"{name}_": getattr(origin, name) for name in _IN_RECORD})
        self.class_prior_ = None if origin.class_prior is None else np.array(origin.class_prior)
        self._class_off_ = origin.class_off
        self.members_ = None if origin.members is None else Members(**origin.members)
        self._own_classes_ = None  # `classes` names them
        if origin.n_classes is not None:
            self.classes_ = class_labels(origin.classes, origin.n_classes)
            self.n_features_in_ = origin.n_classes
        check_map(record.map, origin.n_classes)
        self._is_flat_, self._of_claims_, self._estimates_ = bool(origin.is_flat), bool(origin.of_claims), origin.estimates
        name_columns(self, origin.columns, origin.label_column, origin.score_column, origin.group_column)
        self._show()
        return self

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted state to a small JSON file."""
        self._record().write(path, overwrite=overwrite)


def label_name(X: Any) -> str:
    """The name of the labels in messages: `Rows` contain them, else they are the argument ``y``."""
    return "labels" if is_rows(X) else "y"


def is_flat(X: Any, members: Members | None = None) -> bool:
    """Whether ``X`` has one number per sample, as far as known without reading it: files and loaders do not count as flat.

    With ``members`` it is flat if it is one number per member and sample.
    """
    if isinstance(X, list | tuple):
        return bool(X) and (isinstance(X[0], Real) if members is None else is_flat(X[0]))
    return len(getattr(X, "shape", ())) == (1 if members is None else 2)


def name_columns(
    calibrator: FittedMethod,
    names: Sequence[str] | None,
    label_column: str | None = None,
    score_column: str | None = None,
    group_column: str | None = None,
) -> None:
    """Store the names of the columns of ``X``, labels and groups, if ``X`` itself does not have them.

    Other names of the columns of ``X`` are refused from then on. ``score_column`` is where a single column or array holds all
    scores.
    """
    if names is not None:
        refuse_permuted(names, calibrator._names)
        calibrator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(calibrator, "feature_names_in_"):
        del calibrator.feature_names_in_
    calibrator.label_column_ = label_column
    calibrator.score_column_ = score_column
    calibrator.group_column_ = group_column


def check_n_classes(calibrator: FittedMethod, data: Rows, name: str) -> None:
    """Refuse rows whose number of classes, or of members, differs from the data of the fit."""
    check_members(calibrator, getattr(data, "members", None), name)
    fitted_to = getattr(calibrator, "n_features_in_", data.n_classes)
    if data.n_classes != fitted_to:
        raise InputError(name, f"have {fitted_to} classes, as the calibrator has", got=data.n_classes)


def check_members(calibrator: FittedMethod, members: Members | None, name: str) -> None:
    """Refuse the average of another number of members than a calibrator was fitted to."""
    own, other = (1 if averaged is None else averaged.size for averaged in (calibrator.members_, members))
    if own != other:
        must = f"have as many members as the calibrator was fitted to, {own}"
        got = f"{other}, as there is no `member_axis`" if members is None else other
        raise InputError(name, must, got=got, remedy="T belongs to the number of members: fit a calibrator to these.")


def refuse_members(calibrator: FittedMethod, data: str) -> None:
    """Refuse a calibrator that was fitted to members, where ``data`` have no dimension for them."""
    if calibrator.members_ is not None:
        must = f"be fitted to scores without members to be used for {data}"
        got = f"one of {calibrator.members_.size} members"
        raise InputError("The calibrator", must, got=got, remedy="Call its `predict_proba` with an array of the scores of all.")


@dataclass(eq=False, repr=False)
class BareCalibrator(FittedMethod):
    """A method with one temperature, and its fitted state, without scikit-learn, for the shell."""

    method: TemperatureMethod
    _: KW_ONLY
    input: Input | None = None
    classes: Classes = None
    floor: Floor = "auto"

    @classmethod
    def from_record(cls, kind: type[TemperatureMethod], record: Record, path: str | os.PathLike[str]) -> Self:
        """The method of this kind that a file describes, ready to use."""
        try:
            calibrator = cls(kind(**record.provenance.params), **record.common_parameters)
            if record.provenance.n_classes is not None:
                calibrator.method.check(record.provenance.n_classes)
        except Exception:
            raise record.parameters_error(path) from None
        calibrator._restore(record)
        vars(calibrator).update(calibrator.method.restored(record))
        return calibrator

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the temperature from rows, or from their sums."""
        rows = self.rows_from(X, y, sample_weight)
        return self._adopt(X, rows, self.method.fit(rows, label_name=label_name(X)))

    @property
    def method_name(self) -> str:
        """The name of the method in the table."""
        return table.name_of(type(self.method))

    def method_params(self) -> dict[str, Any]:
        """The parameters of the method."""
        return {name: as_python(getattr(self.method, name)) for name in sorted(own_parameters(type(self.method)))}


def own_parameters(target: Any) -> tuple[str, ...]:
    """The names of a method class's own parameters; an observable already has its own."""
    taken = () if isinstance(target, Observable) else signature(target).parameters.values()
    return tuple(one.name for one in taken if one.name not in COMMON and one.kind is not Parameter.VAR_KEYWORD)


M = TypeVar("M", bound=FittedMethod)


def check_constructor(calibrator: FittedMethod) -> None:
    """Refuse a user's own calibrator with a constructor that does not set the usual attributes."""
    missing = [name for name in COMMON if not hasattr(calibrator, name)]
    if missing:
        raise InputError(
            f"{type(calibrator).__name__}.__init__",
            "take `input`, `classes` and `floor` as keywords and set attributes of these names",
            got=f"no {', '.join(missing)}",
        )


def fit_checked(method: M, *data: Any, **options: Any) -> M:
    """A calibrator after its `fit`; refuses a user's own `fit` that does not end with `learn`."""
    check_constructor(method)
    fitted: Any = method.fit(*data, **options)
    is_method = hasattr(fitted, "method_params")
    if not is_method or not hasattr(fitted, "map_"):
        got = "a calibrator without a map" if is_method else f"a result of the type {type(fitted).__name__}"
        raise InputError(f"{type(method).__name__}.fit", "end with `return self.learn(...)`", got=got)
    return cast("M", fitted)


def _check_batch(map_: Map, batch: Batch) -> int:
    """The pass that checks the claims of a map, and sums nothing."""
    check_claims(map_, batch.double, apply_checked(map_, batch.double))
    return 0


def check_map(map_: Map, n_classes: int | None, data: Rows | None = None) -> None:
    """Refuse a map that claims to keep predictions but does not, on some rows of ``data`` or on random ones.

    A map that needs groups is checked where it is evaluated: samples do not name their groups.
    """
    if not claims_to_check(map_) or map_.needs_groups:
        return
    rows = None if data is None else data.sample(min(CHECKED_ROWS, data.n_rows or CHECKED_ROWS))
    number = map_.n_classes or n_classes
    if rows is not None:
        rows.gather(partial(_check_batch, map_))
    elif number is not None:
        check_claims_on_random_logits(map_, number)
