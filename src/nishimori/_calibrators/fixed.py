"""Calibrators that learn nothing: a temperature you know, a map kept as it is, or no calibration."""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self, cast

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._methods.prevalence import bias, refuse_off
from nishimori._methods.record import Provenance, Record
from nishimori._methods.table import Traits
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.rows import Rows
from nishimori._rows.scores import Floor, Input, check_input
from nishimori._sums.census import census
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.errors import InputError
from nishimori.maps.around import shift
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

FIXED = "fixed"
"""What is saved as the method of a map that was not chosen from data."""


@dataclass(eq=False, repr=False)
class FixedTemperature(Calibrator):
    """Divide logits by a temperature you know; `from_temperature` makes one that is ready to use.

    `fit` checks the data and notes their columns; it learns nothing from them.

    Parameters
    ----------
    temperature : float
        The temperature.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. None raises only exact zeros, to the smallest
        positive normal number.

    Attributes
    ----------
    temperature_ : float
        The temperature that was passed.
    temperature_se_ : None
        Nothing is estimated.
    map_ : Temperature
        What is done to logits.
    floor_ : float or None
        The floor that was passed. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples with a positive weight `fit` checked.

    Examples
    --------
    >>> from nishimori.calibrators import FixedTemperature
    >>> FixedTemperature(2.0).fit([[2.0, 0.0], [0.0, 2.0]], [0, 0]).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=True, streams=True, from_sketch=True, error_bars=False)
    is_fixed = True

    temperature: float = 1.0
    _: KW_ONLY
    floor: Floor = None

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Check ``data``, the rows of ``X``, and note its columns; the temperature stays as it is."""
        map_ = Temperature(checked_temperature(self.temperature))
        return self.learn(X, data, map_, census(data).n_rows)

    @property
    def temperature_(self) -> float:
        return cast("float", super().temperature_)

    @property
    def method_name(self) -> str:
        return FIXED


@dataclass(kw_only=True, eq=False, repr=False)
class Uncalibrated(FixedTemperature):
    """Leave logits as they are, T = 1: the method "none", with which others are compared.

    `fit` checks the data as every method does and learns nothing from them.

    Parameters
    ----------
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. None raises only exact zeros, to the smallest
        positive normal number.

    Attributes
    ----------
    temperature_ : float
        1.
    temperature_se_ : None
        Nothing is estimated.
    map_ : Temperature
        What is done to logits.
    floor_ : float or None
        The floor that was passed. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples with a positive weight `fit` checked.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.calibrator("none").fit([[2.0, 0.0], [0.0, 2.0]], [0, 0]).temperature_
    1.0
    """

    temperature: float = field(default=1.0, init=False)

    @property
    def method_name(self) -> str:
        return "none"


@dataclass(eq=False, repr=False)
class FixedMap(Calibrator):
    """A map that is kept as it is. Call `fit`, which only notes the columns and classes of the data, before you use it.

    It is also what `load` gives, ready to use, for a method that is not registered here.

    Parameters
    ----------
    map : Map
        What is done to logits.
    method : str
        The name of the method that chose it.
    params : dict, optional
        The parameters of that method.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. None raises only exact zeros, to the smallest
        positive normal number.

    Attributes
    ----------
    map_ : Map
        What is done to logits.
    floor_ : float or None
        The floor that was passed. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples with a positive weight `fit` checked.

    Examples
    --------
    >>> import nishimori
    >>> fixed = nishimori.calibrators.FixedMap(nishimori.maps.Temperature(2.0))
    >>> fixed.fit([[2.0, 0.0], [0.0, 2.0]], [0, 0]).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """

    is_fixed = True

    map: Map
    _: KW_ONLY
    method: str = FIXED
    params: dict[str, Any] | None = None
    floor: Floor = None

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Check ``data``, the rows of ``X``, and note its columns; the map stays as it is."""
        if not isinstance(self.map, Map):
            raise InputError("map", "be a Map", got=repr(self.map))
        if self.map.n_classes not in (None, data.n_classes):
            raise InputError("X", f"have {self.map.n_classes} classes, as the map has", got=data.n_classes)
        return self.learn(X, data, self.map, census(data).n_rows)

    @property
    def method_name(self) -> str:
        return self.method

    def method_params(self) -> dict[str, Any]:
        """The parameters that the method of the map was fitted with."""
        return dict(self.params or {})

    @classmethod
    def with_other_prevalence(cls, fitted: Calibrator, new: Any) -> Self:
        """What `Calibrator.with_prevalence` gives for ``fitted``."""
        if fitted.class_prior_ is None:
            raise InputError(
                "The calibrator does not know the frequencies of the classes in its calibration data: it has a file of an "
                "earlier version, was not fitted, or was fitted to a sketch, top-k lists, Dask or too many classes. If you "
                "know them, pass calibrated probabilities to `nishimori.with_prevalence(probabilities, new, old)`."
            )
        added, prior = bias(new, fitted.class_prior_, fitted.classes_)
        refuse_off(fitted._class_off_, fitted.classes_, fitted.method_name)
        record = fitted._record()
        origin = replace(
            record.provenance,
            method=FIXED,
            params={"calibrated_by": fitted.method_name} | (fitted.params or {} if isinstance(fitted, FixedMap) else {}),
            class_prior=prior.tolist(),
            residual=None,
            temperature_se=None,
            estimates=None,
        )
        record = replace(record, map=shift(record.map, added), provenance=origin)
        fixed = cls(record.map, params=origin.params, input=fitted.input, classes=fitted.classes, floor=fitted.floor_)
        return fixed._restore(record)


def from_temperature(
    T: float, *, classes: Classes = None, input: Input | None = None, floor: float | None = None
) -> FixedTemperature:
    """A calibrator that is ready to use, from a temperature you know: for serving.

    Parameters
    ----------
    T : float
        The temperature, positive and finite.
    classes : sequence, optional
        The label of each column in order; then the number of columns is checked too.
    input : "logits", "probabilities" or None
        What the calibrator will be given; by default logits.
    floor : float, optional
        Smaller probabilities are raised to this, with ``input="probabilities"``.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.from_temperature(2.0).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """
    check_input(input, floor)
    labels = None if classes is None else class_labels(classes).tolist()
    origin = Provenance(FIXED, classes=labels, n_classes=None if labels is None else len(labels))
    record = Record(Temperature(checked_temperature(T, "T")), input or "logits", origin, floor)
    return FixedTemperature(T, input=input, classes=classes, floor=floor)._restore(record)
