"""What a fitted method is: the parameters it was given, the map it has learned, and its record on disk.

Nothing here needs scikit-learn, which takes longer to import than most fits take. `Calibrator` is such a method with
scikit-learn's contract around it; the shell does without that contract where it can (`built_in.BARE`).
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from numbers import Real
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np

import nishimori
from nishimori._fit.floors import choose_floor
from nishimori._methods import registry
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
from nishimori.errors import InputError
from nishimori.maps.kinds import CHECKED_ROWS, check_claims, check_claims_on_random_logits, claims_to_check
from nishimori.maps.map import Map, apply_checked
from nishimori.maps.temperature import temperature_of


def is_flat(X: Any) -> bool:
    """Whether ``X`` is one number per sample, as far as it can be told without reading it: files and loaders are not flat."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], Real)
    return len(getattr(X, "shape", ())) == 1


COMMON = ("input", "classes", "floor")
"""The parameters that every calibrator has besides those of its method."""


class FittedMethod(ABC):
    """A method that chooses a map, and what it has chosen.

    A subclass has the parameters ``input``, ``classes`` and ``floor`` and a `fit` that takes its data from `rows_from` and
    ends with ``return self.learn(...)``.
    """

    is_fixed: ClassVar[bool] = False  # whether `fit` learns nothing from the data
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
    temperature_se_: float | None

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from scores ``X`` and true classes ``y``."""

    @property
    def method_name(self) -> str:
        """What the method is called: its registered name, else where it can be imported from."""
        return registry.name_of(type(self))

    @property
    def method(self) -> str:
        """The name of the method; in some classes a parameter, such as "ec" or "ts" of `BiasCorrected`."""
        return self.method_name

    @property
    def temperature_(self) -> float | None:
        """What logits are divided by; None for a map that does more than that."""
        if "map_" not in self.__dict__:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute 'temperature_'")
        return temperature_of(self.map_)

    def expected_passes(self, data: Rows) -> int | None:  # noqa: ARG002 - for those that can
        """About how often `fit` reads all rows, if it can start from a sample of them; None where nobody knows."""
        return None

    def rows_from(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        clusters: Any = None,
        groups: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Rows:
        """The data to fit to; values are checked when they are first read."""
        check_constructor(self)
        options: RowOptions = {"sample_weight": sample_weight, "clusters": clusters, "groups": groups}
        options["ignore_index"] = ignore_index
        if is_rows(X):  # `input` and `classes` are then those of the scores to predict from
            options["floor"] = self.floor if is_auto(self.floor) else None
        else:
            options |= {"input": self.input, "classes": self.classes, "floor": self.floor}
        return open_rows(X, y, names=("X", "y"), choose_floor=choose_floor, **options)

    def rows_to_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        clusters: Any,
        counts: bool,
        groups: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> tuple[Rows, bool]:
        """The data to fit to, and whether weights are counts: because it is said to `fit`, or because the rows say so."""
        data = self.rows_from(X, y, sample_weight, clusters, groups, ignore_index=ignore_index)
        return data, counts or data.counts

    @staticmethod
    def label_name(X: Any) -> str:
        """What messages call the labels: `Rows` have them themselves, else they are the argument ``y``."""
        return "labels" if is_rows(X) else "y"

    def learn(
        self,
        X: Any,
        data: Rows,
        map_: Map,
        n_samples: int,
        residual: float | None = None,
        temperature_se: float | None = None,
    ) -> Self:
        """Keep what was fitted. Called last, so that a fit that fails leaves the calibrator as it was."""
        classes = class_labels(self.classes, data.n_classes)
        check_map(map_, data.n_classes, data)
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
        self.temperature_se_ = temperature_se
        self.name_columns(column_names(X))
        self._is_flat_ = is_flat(X)
        return self

    def check_parameters(self, n_classes: int) -> None:  # noqa: B027 - for those that can
        """Refuse parameters that do not suit this many classes."""

    @classmethod
    def from_record(cls, record: Record, path: str | os.PathLike[str]) -> Self:
        """The method that a file describes, ready to use."""
        try:
            made = cls(**record.parameters)
            if record.provenance.n_classes is not None:
                made.check_parameters(record.provenance.n_classes)
        except Exception:
            raise record.parameters_error(path) from None
        return made.restore(record)

    def restore(self, record: Record) -> Self:
        """Become what ``record`` describes, ready to use."""
        origin = record.provenance
        self.map_ = record.map
        self.input_ = record.input
        self.floor_ = record.floor
        if record.input == "probabilities" and record.floor is None:
            self.floor = None  # a new fit would choose one
        self.n_samples_ = origin.n_samples
        self.residual_ = origin.residual
        self.data_digest_ = origin.data_digest
        self.temperature_se_ = origin.temperature_se
        if origin.n_classes is not None:
            self.classes_ = class_labels(origin.classes, origin.n_classes)
            self.n_features_in_ = origin.n_classes
        check_map(record.map, origin.n_classes)
        self._is_flat_ = bool(origin.is_flat)
        self.name_columns(origin.columns, origin.label_column, origin.score_column, origin.group_column)
        return self

    def name_columns(
        self,
        names: Sequence[str] | None,
        label_column: str | None = None,
        score_column: str | None = None,
        group_column: str | None = None,
    ) -> None:
        """Note what the columns of ``X``, of the labels and of the groups are called, where ``X`` itself cannot say.

        Other names of the columns of ``X`` are refused from then on. ``score_column`` is where a single column or array holds
        all scores.
        """
        refuse_permuted(names, self.classes)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.label_column_ = label_column
        self.score_column_ = score_column
        self.group_column_ = group_column

    def check_columns(self, X: Any, name: str = "X") -> None:
        """Refuse rows whose number of classes is not that of the data that were fitted to."""
        known = getattr(self, "n_features_in_", X.n_classes)
        if X.n_classes != known:
            raise InputError(name, f"have {known} classes, as the calibrator has", got=X.n_classes)

    def record(self) -> Record:
        """What a file keeps."""
        names = getattr(self, "feature_names_in_", None)
        origin = Provenance(
            method=self.method_name,
            params=self.method_params(),
            classes=None if self.classes is None else self.classes_.tolist(),
            columns=None if names is None else names.tolist(),
            label_column=self.label_column_,
            score_column=self.score_column_,
            group_column=self.group_column_,
            n_classes=len(self.classes_) if hasattr(self, "classes_") else None,
            n_samples=self.n_samples_,
            residual=self.residual_,
            temperature_se=getattr(self, "temperature_se_", None),
            estimates=self.estimates(),
            is_flat=getattr(self, "_is_flat_", False),
            data_digest=self.data_digest_,
            library_version=nishimori.__version__,
        )
        floor = None if self.floor_ is None else float(self.floor_)
        return Record(self.map_, self.input_, origin, floor)

    def estimates(self) -> dict[str, float] | None:
        """Further numbers of the fit that a file keeps; none by default."""
        return None

    def method_params(self) -> dict[str, Any]:
        """The parameters of the method, which `nishimori.calibrator` takes besides its name."""
        return {name: plain(getattr(self, name)) for name in sorted(own_parameters(type(self)))}


def own_parameters(target: Any) -> tuple[str, ...]:
    """The names of the parameters of a class of methods, without those that all have; an observable has its own already."""
    taken = () if isinstance(target, Observable) else signature(target).parameters.values()
    return tuple(each.name for each in taken if each.name not in COMMON and each.kind is not Parameter.VAR_KEYWORD)


M = TypeVar("M", bound=FittedMethod)


def check_constructor(made: FittedMethod) -> None:
    """Refuse a calibrator of somebody's own whose constructor does not set what all calibrators have."""
    missing = [name for name in COMMON if not hasattr(made, name)]
    if missing:
        raise InputError(
            f"{type(made).__name__}.__init__",
            "take `input`, `classes` and `floor` as keywords and set attributes of these names",
            got=f"no {', '.join(missing)}",
        )


def fit_checked(method: M, *data: Any, **options: Any) -> M:
    """A calibrator after its `fit`; refuses one of somebody's own that does not return what it has learned."""
    check_constructor(method)
    found: Any = method.fit(*data, **options)
    is_method = isinstance(found, FittedMethod)
    if not is_method or not hasattr(found, "map_"):
        got = "a calibrator without a map" if is_method else f"a result of the type {type(found).__name__}"
        raise InputError(f"{type(method).__name__}.fit", "end with `return self.learn(...)`", got=got)
    return cast("M", found)


def counts_option(method: FittedMethod, *, counts: bool) -> dict[str, Any]:
    """What `fit` of a method is told if weights are numbers of samples: nothing where it has no standard error."""
    return {"counts": True} if counts and "counts" in signature(method.fit).parameters else {}


@dataclass(frozen=True)
class _CheckClaims:
    """The pass that checks what a map claims, and sums nothing."""

    map_: Map

    def __call__(self, batch: Batch) -> int:
        check_claims(self.map_, batch.double, apply_checked(self.map_, batch.double))
        return 0


def check_map(map_: Map, n_classes: int | None, data: Rows | None = None) -> None:
    """Refuse a map that does not keep predictions as it claims, on some rows of ``data`` or on random ones.

    A map that needs groups is checked where it is evaluated: samples do not name their groups.
    """
    if not claims_to_check(map_) or map_.needs_groups:
        return
    rows = None if data is None else data.sample(min(CHECKED_ROWS, data.n_rows or CHECKED_ROWS))
    known = map_.n_classes or n_classes
    if rows is not None:
        rows.gather(_CheckClaims(map_))
    elif known is not None:
        check_claims_on_random_logits(map_, known)


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and tuples, as Python's numbers and lists."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
