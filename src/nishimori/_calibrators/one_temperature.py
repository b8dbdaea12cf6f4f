"""Calibrators that divide all logits by one temperature; what finds it is in `_methods/one_temperature.py`."""

from abc import abstractmethod
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, ClassVar, Self, cast

from sklearn.utils.validation import check_is_fitted

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._fit.adaptive import Adapted
from nishimori._methods import table
from nishimori._methods.fitted_method import label_name
from nishimori._methods.one_temperature import EC, TS, Adaptive, ObservableMethod, OwnObservable, TemperatureMethod
from nishimori._methods.record import Record
from nishimori._methods.table import Traits
from nishimori._rows.rows import Rows
from nishimori._sums.observables import Observable
from nishimori._support.intervals import Interval, interval_in_ratio
from nishimori._support.json import as_python
from nishimori.errors import InputError, setting


class OneTemperature(Calibrator):
    """A calibrator that divides logits by one temperature, which its method finds."""

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=True, streams=True, from_sketch=True, error_bars=True)
    smooth_labels: bool = False
    temperature_bounds_: Interval | None = None
    is_uniform_: bool

    @abstractmethod
    def _method(self) -> TemperatureMethod:
        """What is fitted."""

    @property
    def temperature_(self) -> float:
        return cast("float", super().temperature_)

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the temperature from ``data``, which are the rows of ``X``."""
        return self._adopt(X, data, self._method().fit(data, label_name=label_name(X)))

    def _observable(self, n_classes: int) -> Observable | None:
        """The one observable that is matched; None for a method that matches several."""
        method = self._method()
        return method.observable_for(n_classes) if isinstance(method, ObservableMethod) else None

    def _check_n_classes(self, n_classes: int) -> None:
        self._method().check(n_classes)

    def _restore(self, record: Record) -> Self:
        super()._restore(record)
        vars(self).update(self._method().restored(record))
        return self

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
        if self.temperature_se_ is None:
            raise InputError(
                "`confidence_interval` needs the standard error of T, which is not known from a sketch of one cluster, nor "
                "from a file of an earlier version, nor with smoothed labels. Fit the calibrator to more clusters, or fit it "
                f"again, with {setting('smooth_labels', False)}."
            )
        low, high = self.temperature_bounds_ or (self.temperature_, self.temperature_)
        return Interval(
            interval_in_ratio(low, self.temperature_se_, level).low, interval_in_ratio(high, self.temperature_se_, level).high
        )


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectationConsistency(OneTemperature):
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
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided before the softmax. Above 1 it makes the model less sure.
    temperature_se_ : float or None
        The standard error of T; None if it is not known, as with smoothed labels or from a sketch of one cluster.
        `confidence_interval` gives a range of T.
    is_uniform_ : bool
        Whether smoothed labels left no better answer than the same probability for all classes.
    temperature_bounds_ : Interval or None
        After a fit to a `TopK`: the temperatures that the classes that are not listed leave possible, of which `temperature_`
        is the middle. None otherwise.
    fit_info_ : FitInfo
        How the temperature was found: what is left of the condition, accuracy, zeros, masks, passes. ``print`` shows a table.
    map_ : Temperature
        What is done to logits.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples had a positive weight.
    n_passes_ : int
        How often all logits were read.

    Raises
    ------
    NoTemperatureError
        From `fit`, if no temperature satisfies the condition: every sample is right, say, or accuracy is not above chance.

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

    top_n: int = 1
    smooth_labels: bool = False

    def _method(self) -> EC:
        return EC(self.top_n, self.smooth_labels)

    @property
    def matches_confidence(self) -> bool:
        return self.top_n == 1 and not self.smooth_labels


@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureScaling(OneTemperature):
    """Divide logits by the temperature at which the mean cross-entropy is lowest.

    At this temperature the mean expected logit equals the mean logit of the true class. Predictions never change.

    Parameters
    ----------
    smooth_labels : bool
        Whether labels are smoothed as by J. Platt, here for any number K of classes: a sample whose class has N samples is of
        that class with probability (N + 1)/(N + K), and of each other class with 1/(N + K). So there is a temperature also
        where all samples are right. There is no standard error.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided before the softmax. Above 1 it makes the model less sure.
    temperature_se_ : float or None
        The standard error of T; None if it is not known, as with smoothed labels or from a sketch of one cluster.
        `confidence_interval` gives a range of T.
    is_uniform_ : bool
        Whether smoothed labels left no better answer than the same probability for all classes.
    temperature_bounds_ : Interval or None
        After a fit to a `TopK`: the temperatures that the classes that are not listed leave possible, of which `temperature_`
        is the middle. None otherwise.
    fit_info_ : FitInfo
        How the temperature was found: what is left of the condition, accuracy, zeros, masks, passes. ``print`` shows a table.
    map_ : Temperature
        What is done to logits.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples had a positive weight.
    n_passes_ : int
        How often all logits were read.

    Raises
    ------
    NoTemperatureError
        From `fit`, if no temperature has the least cross-entropy: every sample is right, say, or the logits do not favour
        the true classes.

    See Also
    --------
    ExpectationConsistency : mean confidence equal to accuracy in place of the least cross-entropy.
    AdaptiveConsistency : a temperature between the two.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> calibrator = TemperatureScaling().fit(logits, labels)
    >>> round(calibrator.temperature_, 2)
    1.98
    >>> calibrator.predict_proba([[4.0, 0.0, 0.0, 0.0, 0.0]]).round(2)
    array([[0.65, 0.09, 0.09, 0.09, 0.09]])
    """

    smooth_labels: bool = False

    def _method(self) -> TS:
        return TS(self.smooth_labels)


@dataclass(kw_only=True, eq=False, repr=False)
class AdaptiveConsistency(OneTemperature):
    """Divide logits by a temperature between those of EC and TS: that of EC, as far as the data can tell the two apart.

    T of temperature scaling (TS) varies less from one small validation set to another; T of expectation consistency (EC) makes
    mean confidence equal to accuracy. With δ = log T_EC − log T_TS and its variance, both from the same sums,
    log T = log T_TS + w·δ, where w = δ²/(δ² + Var(δ)). If δ is well within its own noise, T is nearly that of TS. The more
    samples there are, the closer T is to that of EC.

    A weight of w counts a sample w times as much, but it stays one sample. T depends on how many there are, so two equal
    samples are not the same as one of weight 2. Pass ``counts=True`` to `fit` if weights are numbers of independent samples.
    ``clusters`` and ``counts`` change not only the standard error, but also T: they say how noisy δ is. From a sketch, T is
    right to about a hundredth of its standard error, because a sketch interpolates the variance of δ.

    Parameters
    ----------
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided before the softmax. Above 1 it makes the model less sure.
    temperature_se_ : float
        The standard error of T: T times the standard deviation of log T, if T_EC and T_TS are drawn from their joint normal
        distribution and δ is shrunk in each draw.
    ec_ : float or None
        T of EC; None if it does not exist. Then `ts_` is used as it is, with an `InputWarning` that says why.
    ts_ : float or None
        T of TS; None if it does not exist. Then `ec_` is used as it is, with an `InputWarning` that says why.
    weight_ : float
        The share w of δ that was kept, from 0 (T is that of TS) to 1 (T is that of EC).
    fit_info_ : FitInfo
        How the temperature was found. Its ``residual`` is mean confidence minus accuracy at T, predicted from T_EC: it is not
        zero, because T is not T_EC. If T_EC does not exist, it is the residual of temperature scaling. ``print`` shows a table.
    map_ : Temperature
        What is done to logits.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples had a positive weight.
    n_passes_ : int
        How often all logits were read.

    Raises
    ------
    NoTemperatureError
        From `fit`, if neither temperature exists. If all samples are classified correctly, neither does.

    See Also
    --------
    ExpectationConsistency : the same without shrinking, and with ``top_n``.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import AdaptiveConsistency
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(1000, 5))
    >>> truth = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> labels = np.where(rng.random(1000) < 0.1, rng.integers(5, size=1000), truth)  # a tenth of them replaced
    >>> few = AdaptiveConsistency().fit(logits[:100], labels[:100])
    >>> print(f"EC {few.ec_:.2f}, TS {few.ts_:.2f}, share {few.weight_:.2f}: T = {few.temperature_:.2f}")
    EC 2.47, TS 3.31, share 0.85: T = 2.58
    >>> many = AdaptiveConsistency().fit(logits, labels)
    >>> print(f"EC {many.ec_:.2f}, TS {many.ts_:.2f}, share {many.weight_:.2f}: T = {many.temperature_:.2f}")
    EC 2.34, TS 2.61, share 0.88: T = 2.37
    >>> low, high = many.confidence_interval()
    >>> print(f"{low:.2f} to {high:.2f}")
    2.12 to 2.66
    """

    weight_: float = field(init=False)
    ec_: float | None = field(init=False)
    ts_: float | None = field(init=False)
    _adapted_: Adapted | None = field(init=False)

    def _method(self) -> Adaptive:
        return Adaptive()

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """The temperatures of EC that the validation data leave possible, at this level of confidence.

        T_EC and T_TS are drawn from their joint normal distribution, δ is shrunk in each draw, and the interval holds the
        middle of the temperatures. It is computed by an integral instead of random draws, and is therefore the same each time.
        At low levels it is widened where it would not contain T itself.

        Parameters
        ----------
        level : float
            How often such an interval contains T_EC of infinitely many samples, between 0 and 1.

        Returns
        -------
        Interval
            A named tuple (low, high).

        Raises
        ------
        InputError
            If the standard errors are not known, as from a file whose estimates were removed.
        """
        check_is_fitted(self, "map_")
        if self._adapted_ is None or self.temperature_se_ is None:
            raise InputError(
                "`confidence_interval` needs the standard errors of T_EC and T_TS, which this calibrator does not have. Fit it "
                "to the logits themselves."
            )
        return self._adapted_.interval(level)


@dataclass(eq=False, repr=False)
class Matched(OneTemperature):
    """Divide logits by the temperature at which an observable of your own has the same mean under model and labels.

    Parameters
    ----------
    observable : Observable
        What is matched.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided before the softmax. Above 1 it makes the model less sure.
    temperature_se_ : float or None
        The standard error of T; None if it is not known, as with smoothed labels or from a sketch of one cluster.
        `confidence_interval` gives a range of T.
    fit_info_ : FitInfo
        How the temperature was found: what is left of the condition, accuracy, zeros, masks, passes. ``print`` shows a table.
    map_ : Temperature
        What is done to logits.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples had a positive weight.
    n_passes_ : int
        How often all logits were read.

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
    >>> round(nishimori.calibrators.Matched(Logit()).fit(logits, labels).temperature_, 2)
    1.98
    """

    observable: Observable

    @property
    def method_name(self) -> str:
        return table.name_of(self.observable)

    def _method(self) -> OwnObservable:
        return OwnObservable(self.observable)

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
        return {name: as_python(getattr(self.observable, name)) for name in names}
