"""Methods that divide all logits by one temperature: what is fitted, without scikit-learn.

Most are an observable whose means must agree; `Adaptive` lies between two of them. A method holds its parameters and nothing
else: `fit` returns what it has found. Calibrators have one, and so has the shell.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp
from typing import Any

import numpy as np

from nishimori._fit.adaptive import Adapted, match_both
from nishimori._fit.match import FitInfo, Match
from nishimori._fit.roots import Root
from nishimori._fit.search import find_temperature
from nishimori._fit.smoothed import match_smoothed
from nishimori._methods.record import Record
from nishimori._rows.rows import Rows
from nishimori._sums.observables import Confidence, Energy, Observable, TopN
from nishimori._support.intervals import Interval
from nishimori._support.numbers import whole
from nishimori.errors import InputError
from nishimori.maps.temperature import temperature_of


@dataclass(frozen=True)
class TemperatureFit:
    """One temperature, how it was found, and further results of the fit, by the names of calibrators' attributes."""

    temperature: float
    fit_info: FitInfo
    attributes: Mapping[str, Any]


class ObservableMethod(ABC):
    """The temperature at which one observable has the same mean under the model and at the labels."""

    smooth_labels: bool = False

    @abstractmethod
    def observable_for(self, n_classes: int) -> Observable:
        """The matched observable; refuses parameters that do not suit this many classes."""

    def check(self, n_classes: int) -> None:
        """Refuse parameters that do not suit this many classes."""
        self.observable_for(n_classes)

    def fit(self, data: Rows, *, label_name: str) -> TemperatureFit:
        """Find the temperature; from smoothed labels it has no standard error.

        ``label_name`` is what messages call the labels.
        """
        observable = self.observable_for(data.n_classes)
        if not isinstance(self.smooth_labels, bool | np.bool_):
            raise InputError("smooth_labels", "be True or False", got=repr(self.smooth_labels))
        if not self.smooth_labels:
            temperature, fit_info, bounds = find_temperature(data, observable, label_name=label_name)
            return TemperatureFit(temperature, fit_info, _shown(bounds))
        assert isinstance(observable, Confidence | TopN | Energy), "only these methods have the parameter"
        smoothed = match_smoothed(data, observable, label_name=label_name)
        smoothed.warn()
        estimates = {"uniform": float(smoothed.is_uniform)}
        attributes = _shown(None, is_uniform=smoothed.is_uniform, estimates=estimates)
        return TemperatureFit(smoothed.temperature, smoothed.fit_info, attributes)

    def restored(self, record: Record) -> dict[str, Any]:
        """Whether the temperature stands for the uniform distribution, if that is possible."""
        is_uniform = bool((record.provenance.estimates or {}).get("uniform"))
        return _shown(None, is_uniform=is_uniform, estimates={"uniform": float(is_uniform)} if self.smooth_labels else None)


def _shown(bounds: Interval | None, *, is_uniform: bool = False, estimates: dict[str, float] | None = None) -> dict[str, Any]:
    return {"temperature_bounds_": bounds, "is_uniform_": is_uniform, "_estimates_": estimates}


def solution_of(matched: Match, position: int) -> TemperatureFit:
    """The temperature of one observable of a search for several; raises if there is none."""
    temperature, fit_info = matched.solution(position)
    return TemperatureFit(temperature, fit_info, _shown(None))


@dataclass(frozen=True)
class EC(ObservableMethod):
    """The temperature at which mean confidence equals accuracy; parameters as for `ExpectationConsistency`."""

    top_n: int = 1
    smooth_labels: bool = False

    def observable_for(self, n_classes: int) -> Observable:
        """Confidence, or the probability of the N largest classes."""
        n = whole("top_n", self.top_n, 1, n_classes - 1, which_is="one less than the number of classes")
        return Confidence() if n == 1 else TopN(n)


@dataclass(frozen=True)
class TS(ObservableMethod):
    """The temperature at which the mean cross-entropy is lowest; parameters as for `TemperatureScaling`."""

    smooth_labels: bool = False

    def observable_for(self, n_classes: int) -> Observable:  # noqa: ARG002
        """The logit itself."""
        return Energy()


@dataclass(frozen=True)
class OwnObservable(ObservableMethod):
    """The temperature at which a user's own observable has the same mean under the model and at the labels."""

    observable: Observable

    def observable_for(self, n_classes: int) -> Observable:  # noqa: ARG002
        """The observable that was passed."""
        if not isinstance(self.observable, Observable):
            raise InputError("observable", "be an instance of a subclass of nishimori.Observable", got=repr(self.observable))
        return self.observable


@dataclass(frozen=True)
class Adaptive:
    """The adaptive temperature between TS and EC; it has no parameters."""

    def check(self, n_classes: int) -> None:
        """Accept any number of classes."""

    def fit(self, data: Rows, *, label_name: str) -> TemperatureFit:
        """Find both temperatures in one search, and the adaptive one between them."""
        return self.choose(match_both(data, label_name=label_name))

    def choose(self, matched: Match) -> TemperatureFit:
        """The temperature between the two that `match_both` found."""
        adapted = Adapted.from_match(matched)
        return TemperatureFit(adapted.temperature, _fit_info(matched, adapted), _shown_adapted(adapted))

    def restored(self, record: Record) -> dict[str, Any]:
        """Both temperatures and their errors, from the estimates in a file."""
        return _shown_adapted(Adapted.from_estimates(record.provenance.estimates or {}, temperature_of(record.map)))


TemperatureMethod = ObservableMethod | Adaptive
"""Finds one temperature with `fit`; `check` refuses parameters, `restored` gives the results of a saved fit."""


def _shown_adapted(adapted: Adapted | None) -> dict[str, Any]:
    if adapted is None:
        return {"_adapted_": None, "_estimates_": None}
    return {
        "ec_": None if adapted.log_ec is None else exp(adapted.log_ec),
        "ts_": None if adapted.log_ts is None else exp(adapted.log_ts),
        "weight_": adapted.weight,
        "_adapted_": adapted,
        "_estimates_": adapted.estimates(),
    }


def _fit_info(matched: Match, adapted: Adapted) -> FitInfo:
    """The fit info of the search for both temperatures, with the residual and the error of the one between them."""
    ec = matched.roots[0]
    if not isinstance(ec, Root):
        return matched.fit_info(1)
    step = -adapted.log_temperature - ec.x
    if step == 0:
        return matched.fit_info(0)
    predicted = ec.residual + ec.point.after(step) - ec.point.value
    return replace(matched.fit_info(0), residual=predicted, temperature_se=adapted.temperature_se, is_measured=False)
