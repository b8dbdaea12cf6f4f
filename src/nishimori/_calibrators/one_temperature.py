"""Calibrators that divide all logits by one temperature: each is an observable whose means must agree."""

from inspect import signature
from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from nishimori._calibrators.calibrator import Calibrator
from nishimori._methods import table
from nishimori._methods.fitted_method import plain
from nishimori._methods.one_temperature import (
    ExpectationConsistencyMethod,
    OneTemperatureMethod,
    TemperatureScalingMethod,
)
from nishimori._methods.table import Traits
from nishimori._rows.labels import Classes
from nishimori._rows.scores import Floor, Input
from nishimori._sums.observables import Observable
from nishimori._support.intervals import Interval, interval_in_ratio
from nishimori.errors import InputError


class OneTemperature(OneTemperatureMethod, Calibrator):
    """A calibrator that divides logits by one temperature; subclasses choose the observable."""

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=True, streams=True, from_sketch=True, error_bars=True)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """The temperatures that the validation data leave possible, at this level of confidence.

        The error of log T is taken to be normal, so that the interval lies around T in ratio and never contains 0. After a fit
        to top-k log-probabilities it reaches as far beyond both of `temperature_bounds_`.

        Parameters
        ----------
        level : float
            How often such an interval contains the temperature of infinitely many samples, between 0 and 1.

        Returns
        -------
        Interval
            A named tuple (low, high).

        Raises
        ------
        InputError
            If the standard error is not known: of smoothed labels, from a sketch of one cluster, or from a file of an earlier
            version.
        """
        check_is_fitted(self, "map_")
        if self.smooth_labels:
            raise InputError(
                "smooth_labels",
                "be False for a confidence interval: smoothed labels draw T towards that of chance, which a standard error "
                "does not say",
            )
        if self.temperature_se_ is None:
            raise InputError(
                "`confidence_interval` needs the standard error of T, which is not known from a sketch of one cluster, nor "
                "from a file of an earlier version. Fit the calibrator to more clusters, or fit it again."
            )
        low, high = self.temperature_bounds_ or (self.temperature_, self.temperature_)
        return Interval(
            interval_in_ratio(low, self.temperature_se_, level).low, interval_in_ratio(high, self.temperature_se_, level).high
        )


class ExpectationConsistency(ExpectationConsistencyMethod, OneTemperature):
    """Divide logits by the temperature at which mean confidence equals accuracy.

    Parameters
    ----------
    top_n : int
        How many of the largest classes count as right, from 1 to one less than the number of classes. With N the condition is
        mean top-N probability = top-N accuracy; 1 is the usual confidence.
    smooth_labels : bool
        Whether half a right and half a wrong answer are added: mean confidence is then (right + ½)/(n + 1) for n samples. So
        there is a temperature also where all samples are right. Where even that is not above chance, T is so large that all
        classes are equally probable. There is no standard error.
    input : {"logits", "probabilities"}, optional
        What ``X`` holds. Log-probabilities are logits; probabilities are calibrated through their logarithms. By default
        logits, but numbers that all lie between 0 and 1 are refused until you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column in order; by default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``; logits have no floor. None raises only exact
        zeros, to the smallest positive normal number of their dtype. "auto" chooses it from the data of the fit, which are
        divided into five folds, with whole clusters in each: the floor at which the log-loss of each fold, after temperature
        scaling of the other four, is lowest in sum. Of floors whose log-likelihood is within 0.5 of the best,
        the largest is taken, and never the largest that was tried, 0.9 / (number of classes). It is `floor_`.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided before the softmax. Above 1 it makes the model less sure.
    temperature_se_ : float or None
        The standard error of T; None if it is not known. `confidence_interval` gives a range of T.
    is_uniform_ : bool
        Whether smoothed labels left no better answer than the same probability for all classes.
    temperature_bounds_ : Interval or None
        After a fit to a `TopK`: the temperatures that the classes that are not listed leave possible, of which `temperature_`
        is the middle. None otherwise.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    map_ : Map
        The same as a map from logits to logits.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        Column names, if ``X`` had any. Other or permuted names are then refused.
    n_samples_, n_passes_ : int
        How many samples were used, and how often all logits were read.
    fit_info_ : FitInfo
        Residual, zeros and masks: how the temperature was found.

    See Also
    --------
    TemperatureScaling : the same with the least cross-entropy as condition.
    temperatures : both at once, without scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import ExpectationConsistency
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> calibrator = ExpectationConsistency().fit(logits, labels)
    >>> round(calibrator.temperature_, 2)
    1.99
    >>> low, high = calibrator.confidence_interval()
    >>> print(f"{low:.2f} to {high:.2f}")
    1.85 to 2.15
    >>> p = calibrator.predict_proba(logits)
    >>> bool(np.isclose(p.max(axis=1).mean(), (p.argmax(axis=1) == labels).mean()))
    True
    """

    @property
    def matches_confidence(self) -> bool:
        return self.top_n == 1 and not self.smooth_labels


class TemperatureScaling(TemperatureScalingMethod, OneTemperature):
    """Divide logits by the temperature at which the mean cross-entropy is lowest.

    Parameters and attributes are those of `ExpectationConsistency`, without ``top_n``. With ``smooth_labels``, labels are
    smoothed as by J. Platt, here for any number K of classes: a sample whose class has N samples is of that class with
    probability (N + 1)/(N + K), and of each other class with 1/(N + K).

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> round(TemperatureScaling().fit(logits, labels).temperature_, 2)
    1.98
    """


class Matched(OneTemperature):
    """Divide logits by the temperature at which an observable of your own has the same mean under model and labels.

    Parameters
    ----------
    observable : Observable
        What is matched.
    input, classes, floor
        As for `ExpectationConsistency`, whose attributes it has.

    Raises
    ------
    InputError
        From `fit`, if the observable's mean under the model does not grow as T falls.

    Examples
    --------
    The logit as observable is temperature scaling.

    >>> import numpy as np
    >>> import nishimori
    >>> class Logit(nishimori.Observable):
    ...     def values(self, logits):
    ...         return logits
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> round(nishimori.Matched(Logit()).fit(logits, labels).temperature_, 2)
    1.98
    """

    def __init__(
        self, observable: Observable, *, input: Input | None = None, classes: Classes = None, floor: Floor = "auto"
    ) -> None:
        self.observable = observable
        self.input: Input | None = input
        self.classes = classes
        self.floor: Floor = floor

    @property
    def method_name(self) -> str:
        return table.name_of(self.observable)

    def observable_for(self, n_classes: int) -> Observable:  # noqa: ARG002
        """The one that was passed."""
        if not isinstance(self.observable, Observable):
            raise InputError("observable", "be an instance of a subclass of nishimori.Observable", got=repr(self.observable))
        return self.observable

    def method_params(self) -> dict[str, Any]:
        """What an observable that was registered as a class is made from: the arguments of `__init__`, by their names."""
        if isinstance(table.find(self.method_name), Observable):
            return {}  # it was registered with its parameters
        names = list(signature(type(self.observable)).parameters)
        if lost := [name for name in names if not hasattr(self.observable, name)]:
            raise InputError(
                type(self.observable).__name__,
                "keep each parameter in an attribute of the same name to be saved",
                got=f"none for {', '.join(lost)}",
            )
        return {name: plain(getattr(self.observable, name)) for name in names}
