"""What is kept of a fit, without scikit-learn, which takes longer to import than most fits take.

`Calibrator` is the face of a method for scikit-learn, and `BareCalibrator` the one that the shell runs. Both keep what was
learned in attributes of the same names, with an underscore at the end, as scikit-learn wants it. The functions here set these
attributes after a fit or from a file, and make a record of them.
"""

import os
from collections.abc import Sequence
from functools import partial
from inspect import Parameter, signature
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Union, cast

import numpy as np

import nishimori
from nishimori._fit.floors import choose_floor
from nishimori._fit.match import FitInfo
from nishimori._methods import table
from nishimori._methods.one_temperature import TemperatureFit, TemperatureMethod
from nishimori._methods.record import Provenance, Record
from nishimori._rows.batch import Batch
from nishimori._rows.column_names import column_names, refuse_permuted
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.options import RowOptions
from nishimori._rows.rows import Rows, is_rows
from nishimori._rows.scores import Floor, Input, is_auto
from nishimori._sums.observables import Observable
from nishimori._support.arrays import HostArray
from nishimori._support.json import as_python
from nishimori.errors import InputError
from nishimori.maps.kinds import CHECKED_ROWS, check_claims, check_claims_on_random_logits, claims_to_check
from nishimori.maps.map import Map, apply_checked
from nishimori.maps.temperature import Temperature, temperature_of

if TYPE_CHECKING:
    from nishimori._calibrators.calibrator import Calibrator

# Attributes, without their underscore, that a file keeps under the same names; the second are those of columns.
_IN_RECORD = ("n_samples", "residual", "temperature_se", "data_digest")
_COLUMNS = ("label_column", "score_column", "group_column")

COMMON = ("input", "classes", "floor")
"""The parameters that every calibrator has besides those of its method."""


FittedMethod = Union["BareCalibrator", "Calibrator"]
"""What keeps a fit: both have the same attributes, with an underscore at the end, for what was learned."""


def open_to_fit(
    calibrator: FittedMethod,
    X: Any,
    y: Any,
    sample_weight: Any,
    clusters: Any = None,
    groups: Any = None,
    *,
    counts: bool = False,
    ignore_index: int | None = None,
) -> Rows:
    """The data to fit to; values are checked when they are first read."""
    check_constructor(calibrator)
    options: RowOptions = {"sample_weight": sample_weight, "clusters": clusters, "groups": groups}
    options |= {"counts": counts, "ignore_index": ignore_index}
    if is_rows(X):  # `input` and `classes` are then those of the scores to predict from
        options["floor"] = calibrator.floor if is_auto(calibrator.floor) else None
    else:
        options |= {"input": calibrator.input, "classes": calibrator.classes, "floor": calibrator.floor}
    return open_rows(X, y, names=("X", "y"), choose_floor=choose_floor, **options)


def label_name(X: Any) -> str:
    """What messages call the labels: `Rows` have them themselves, else they are the argument ``y``."""
    return "labels" if is_rows(X) else "y"


def is_flat(X: Any) -> bool:
    """Whether ``X`` is one number per sample, as far as it can be told without reading it: files and loaders are not flat."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], Real)
    return len(getattr(X, "shape", ())) == 1


def keep(
    calibrator: FittedMethod,
    X: Any,
    data: Rows,
    map_: Map,
    n_samples: int,
    residual: float | None = None,
    temperature_se: float | None = None,
    estimates: dict[str, float] | None = None,
) -> None:
    """Keep what was fitted. Called last, so that a fit that fails leaves the calibrator as it was.

    ``estimates`` are further numbers of the fit, which the method itself understands.
    """
    classes = class_labels(calibrator.classes, data.n_classes)
    calibrator.map_ = map_
    calibrator.input_ = data.input if calibrator.input is None else calibrator.input
    calibrator.floor_ = calibrator.floor  # type: ignore[assignment]
    if is_auto(calibrator.floor):
        calibrator.floor_ = data.floor if calibrator.input_ == "probabilities" else None
    calibrator.n_features_in_ = data.n_classes
    calibrator.classes_ = classes
    calibrator.n_samples_ = n_samples
    calibrator.residual_ = residual
    calibrator.data_digest_ = None if calibrator.is_fixed else data.digest
    calibrator.temperature_se_ = temperature_se
    calibrator._estimates_ = estimates
    name_columns(calibrator, column_names(X) if hasattr(X, "columns") else None)
    calibrator._is_flat_ = is_flat(X)


def keep_temperature(calibrator: FittedMethod, X: Any, data: Rows, fit: TemperatureFit) -> None:
    """Keep one temperature, and what else its method shows."""
    info = fit.fit_info
    keep(calibrator, X, data, Temperature(fit.temperature), info.n_samples, info.residual, info.temperature_se)
    vars(calibrator).update(fit.attributes, fit_info_=info, n_passes_=info.n_passes)


def keep_record(calibrator: FittedMethod, record: Record) -> None:
    """Restore from ``record`` what every calibrator has."""
    origin = record.provenance
    calibrator.map_ = record.map
    calibrator.input_ = record.input
    calibrator.floor_ = record.floor
    if record.input == "probabilities" and record.floor is None:
        calibrator.floor = None  # a new fit would choose one
    vars(calibrator).update({f"{name}_": getattr(origin, name) for name in _IN_RECORD})
    if origin.n_classes is not None:
        calibrator.classes_ = class_labels(origin.classes, origin.n_classes)
        calibrator.n_features_in_ = origin.n_classes
    check_map(record.map, origin.n_classes)
    calibrator._is_flat_, calibrator._estimates_ = bool(origin.is_flat), origin.estimates
    name_columns(calibrator, origin.columns, origin.label_column, origin.score_column, origin.group_column)


def name_columns(
    calibrator: FittedMethod,
    names: Sequence[str] | None,
    label_column: str | None = None,
    score_column: str | None = None,
    group_column: str | None = None,
) -> None:
    """Note what the columns of ``X``, of the labels and of the groups are called, where ``X`` itself cannot say.

    Other names of the columns of ``X`` are refused from then on. ``score_column`` is where a single column or array holds all
    scores.
    """
    if names is not None:
        refuse_permuted(names, calibrator.classes)
        calibrator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(calibrator, "feature_names_in_"):
        del calibrator.feature_names_in_
    calibrator.label_column_ = label_column
    calibrator.score_column_ = score_column
    calibrator.group_column_ = group_column


def check_n_classes(calibrator: FittedMethod, data: Rows, name: str) -> None:
    """Refuse rows whose number of classes is not that of the data that were fitted to."""
    fitted_to = getattr(calibrator, "n_features_in_", data.n_classes)
    if data.n_classes != fitted_to:
        raise InputError(name, f"have {fitted_to} classes, as the calibrator has", got=data.n_classes)


def record_of(calibrator: FittedMethod) -> Record:
    """What a file keeps."""
    names = getattr(calibrator, "feature_names_in_", None)
    origin = Provenance(
        method=calibrator.method_name,
        params=calibrator.method_params(),
        classes=None if calibrator.classes is None else calibrator.classes_.tolist(),
        columns=None if names is None else names.tolist(),
        n_classes=len(calibrator.classes_) if hasattr(calibrator, "classes_") else None,
        estimates=calibrator._estimates_,
        is_flat=getattr(calibrator, "_is_flat_", False),
        **{name: getattr(calibrator, f"{name}_") for name in (*_IN_RECORD, *_COLUMNS)},
        library_version=nishimori.__version__,
    )
    floor = None if calibrator.floor_ is None else float(calibrator.floor_)
    return Record(calibrator.map_, calibrator.input_, origin, floor)


class BareCalibrator:
    """A method of one temperature and what it has learned, as the shell runs it: without scikit-learn."""

    is_fixed: ClassVar[bool] = False
    input_: Input
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
    data_digest_: str | None
    temperature_se_: float | None
    _is_flat_: bool
    _estimates_: dict[str, float] | None
    fit_info_: FitInfo
    n_passes_: int

    def __init__(
        self, method: TemperatureMethod, *, input: Input | None = None, classes: Classes = None, floor: Floor = "auto"
    ) -> None:
        self.method = method
        self.input: Input | None = input
        self.classes = classes
        self.floor: Floor = floor

    @classmethod
    def from_record(cls, kind: type[TemperatureMethod], record: Record, path: str | os.PathLike[str]) -> Self:
        """The method of this kind that a file describes, ready to use."""
        try:
            calibrator = cls(kind(**record.provenance.params), **record.common_parameters)
            if record.provenance.n_classes is not None:
                calibrator.method.check(record.provenance.n_classes)
        except Exception:
            raise record.parameters_error(path) from None
        keep_record(calibrator, record)
        vars(calibrator).update(calibrator.method.restored(record))
        return calibrator

    def fit(self, data: Any) -> Self:
        """Choose the temperature from rows, or from what was summed of them."""
        rows = open_to_fit(self, data, None, None)
        keep_temperature(self, data, rows, self.method.fit(rows, label_name=label_name(data)))
        return self

    @property
    def method_name(self) -> str:
        """The name of the method in the table."""
        return table.name_of(type(self.method))

    @property
    def temperature_(self) -> float | None:
        """What logits are divided by."""
        return temperature_of(self.map_)

    def method_params(self) -> dict[str, Any]:
        """The parameters of the method."""
        return {name: as_python(getattr(self.method, name)) for name in sorted(own_parameters(type(self.method)))}

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write what was learned to a small JSON file, as `Calibrator.save` does."""
        record_of(self).write(path, overwrite=overwrite)


def own_parameters(target: Any) -> tuple[str, ...]:
    """The names of the parameters of a class of methods, without those that all have; an observable has its own already."""
    taken = () if isinstance(target, Observable) else signature(target).parameters.values()
    return tuple(one.name for one in taken if one.name not in COMMON and one.kind is not Parameter.VAR_KEYWORD)


M = TypeVar("M", bound="FittedMethod")


def check_constructor(calibrator: FittedMethod) -> None:
    """Refuse a calibrator of the user's own whose constructor does not set what all calibrators have."""
    missing = [name for name in COMMON if not hasattr(calibrator, name)]
    if missing:
        raise InputError(
            f"{type(calibrator).__name__}.__init__",
            "take `input`, `classes` and `floor` as keywords and set attributes of these names",
            got=f"no {', '.join(missing)}",
        )


def fit_checked(method: M, *data: Any, **options: Any) -> M:
    """A calibrator after its `fit`; refuses one of the user's own that does not return what it has learned."""
    check_constructor(method)
    fitted: Any = method.fit(*data, **options)
    is_method = hasattr(fitted, "method_params")
    if not is_method or not hasattr(fitted, "map_"):
        got = "a calibrator without a map" if is_method else f"a result of the type {type(fitted).__name__}"
        raise InputError(f"{type(method).__name__}.fit", "end with `return self.learn(...)`", got=got)
    return cast("M", fitted)


def _check_batch(map_: Map, batch: Batch) -> int:
    """The pass that checks what a map claims, and sums nothing."""
    check_claims(map_, batch.double, apply_checked(map_, batch.double))
    return 0


def check_map(map_: Map, n_classes: int | None, data: Rows | None = None) -> None:
    """Refuse a map that does not keep predictions as it claims, on some rows of ``data`` or on random ones.

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
