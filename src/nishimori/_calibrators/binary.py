"""Calibrators of binary scores, Platt, quadratic and beta: their log-odds are a sum of a few functions of the scores."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._calibrators.parameters import Layout, flat_entries, read_errors
from nishimori._fit.logistic import Coefficients, LogisticSearch, Overview, Regression, overview
from nishimori._methods.fitted_method import label_name
from nishimori._methods.table import Traits
from nishimori._rows.labels import class_labels, two_classes
from nishimori._rows.rows import Rows
from nishimori._sums.census import count_zeros, warn_of_zeros
from nishimori._sums.passes import together
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import one_of
from nishimori._support.warnings import notice
from nishimori.errors import DegenerateDataError, InputError, InputWarning, NotConvergedError, setting
from nishimori.maps.affine import Affine
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map


@dataclass(kw_only=True, eq=False, repr=False)
class BinaryCalibrator(Calibrator):
    """Everything except which functions of the log-odds are combined, and what map their coefficients give."""

    traits: ClassVar[Traits | None] = Traits(
        keeps_predictions=False, streams=True, from_sketch=False, error_bars=False, n_classes="two"
    )
    takes_claims: ClassVar[bool] = True

    smooth_labels: bool = True

    @property
    @abstractmethod
    def _terms(self) -> dict[str, str]:
        """The name of each parameter, and of the function of the log-odds that it multiplies; "1" comes last."""

    @abstractmethod
    def _map_for(self, parameters: Mapping[str, float]) -> Map:
        """The map with these parameters."""

    def _fit_coefficients(self, search: LogisticSearch, regression: Regression) -> Coefficients:
        """The coefficients to use."""
        return search.least_loss(regression)

    fit = fit_rows

    def _classes_in(self, y: Any) -> list[Any] | None:
        """Two texts, or -1 and 1, in the order of scikit-learn, where a score is that of the second; None for other labels."""
        return two_classes(y)

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the parameters from ``data`` of two classes, which are the rows of ``X``."""
        terms = self._terms
        self._refuse_other_data(data)
        functions = tuple(function for function in terms.values() if function != "1")
        zeros, seen = data.gather(together(count_zeros, partial(overview, functions))).items
        self._refuse(seen, label_name(X))
        warn_of_zeros(int(zeros.total), int(zeros.weight), "the fit", fits=True)
        has_constant = len(functions) < len(terms)
        smoothing = (0.0, 0.0)
        if self.smooth_labels:  # J. Platt's 1/(N + 2), where N samples have the same class
            negative, positive = seen.classes.numbers(counts=data.counts).tolist()
            smoothing = 1 / (negative + 2), 1 / (positive + 2)
        regression = Regression.from_overview(functions, seen, has_constant=has_constant, smoothing=smoothing)
        search = LogisticSearch(data, seen)
        try:
            coefficients = self._fit_coefficients(search, regression)
        except NotConvergedError as error:
            self._explain(error)
        errors = None if self.smooth_labels else search.standard_errors(coefficients)
        parameters = self._values_by_name(coefficients.regression, coefficients.values)
        estimates = flat_entries(parameters)
        if errors is not None:
            estimates |= flat_entries(self._values_by_name(coefficients.regression, errors), "_se")
        n_passes = 1 + search.n_passes
        map_ = self._map_for(parameters)
        return self.learn(X, data, map_, seen.classes.n_rows, coefficients.residual, estimates=estimates, n_passes=n_passes)

    def _refuse_other_data(self, data: Rows) -> None:
        """Raise if these parameters cannot be fitted to such data."""
        if not isinstance(self.smooth_labels, bool | np.bool_):
            raise InputError("smooth_labels", "be True or False", got=repr(self.smooth_labels))
        if data.n_classes != 2:
            raise InputError(
                "X",
                f"have two classes for the method {self.method_name!r}",
                got=data.n_classes,
                remedy=(
                    "Only binary classification is supported. Use 'vector' or 'matrix', which work for any number of classes."
                ),
            )

    def _refuse(self, seen: Overview, label_name: str) -> None:
        """Raise if the data cannot determine any parameter."""
        names = class_labels(self._seen_classes_ or self.classes, 2).tolist()
        for weight, name in zip(seen.classes.weights, reversed(names), strict=True):
            if not weight:
                raise DegenerateDataError(
                    label_name,
                    "have samples of both classes",
                    got=f"only class {name!r}",
                    remedy="Use more validation samples.",
                )
        if seen.least.min() == seen.largest.max():
            raise DegenerateDataError(
                "X",
                "have different scores",
                got=(
                    f"the same log-odds {seen.least[0]:.4g} for all {seen.classes.n_rows} samples: no function of them "
                    "tells the classes apart"
                ),
                remedy="Check that `X` holds the scores of the model.",
            )
        if self._separates(seen) and not self.smooth_labels:
            self._explain(None)

    def _separates(self, seen: Overview) -> bool:
        """Whether a threshold of the score is known to separate the classes."""
        return bool((seen.largest <= seen.least[::-1]).any())

    def _explain(self, error: NotConvergedError | None) -> NoReturn:
        """Raise the error that says why there are no parameters."""
        name = type(self).__name__
        if self.smooth_labels:
            raise NotConvergedError(
                f"The parameters of {name} are not determined. The usual causes are that there are too few different scores, "
                "or that rounding hides the differences between them. Use more validation samples, scores "
                "of a larger size, or a method with fewer parameters, such as 'platt' or 'ts'."
            ) from error
        raise NotConvergedError(
            f"No finite parameters of {name} fit best. The usual cause is that the scores separate the two classes perfectly, "
            "so that larger parameters always fit better. Use more validation samples, or "
            f"{setting('smooth_labels', True)}."
        ) from error

    def _values_by_name(self, regression: Regression, values: HostArray) -> dict[str, float]:
        """One number per coefficient by the name of its parameter; zero for functions that were left out."""
        by_term = dict.fromkeys(self._terms.values(), 0.0)
        by_term |= zip((*regression.terms, "1") if regression.has_constant else regression.terms, values.tolist(), strict=True)
        return {name: by_term[term] for name, term in self._terms.items()}

    def _show(self) -> None:
        layout, estimates = Layout(tuple((name, ()) for name in self._terms)), self._estimates_ or {}
        self.parameters_ = layout.read(estimates) or {}
        reason = None
        if self.smooth_labels:
            reason = (
                "The labels are smoothed, which draws the parameters towards zero: a standard error would not say how far they "
                f"are from the true ones. Fit with {setting('smooth_labels', False)} to have standard errors."
            )
        self.parameters_se_, self.why_no_se_ = read_errors(estimates, layout, reason)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class Platt(BinaryCalibrator):
    """Platt scaling: the calibrated log-odds are slope·s + intercept.

    Here s are the log-odds that the scores give to the second class. Slope and intercept have the least cross-entropy. Unlike
    one temperature, the intercept corrects a model that predicts one of the classes too often. Predictions may change.

    Parameters
    ----------
    smooth_labels : bool
        Whether the labels are moved away from 0 and 1 before the fit, by 1/(N + 2) for N samples of the same class, as
        J. Platt proposed and as scikit-learn does. With few samples this lowers the loss on new data, and there are finite
        parameters also where the scores separate the classes perfectly. Without it there are standard errors.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, which are the log-odds s. For probabilities, s is ln p − ln(1 − p). Numbers that
        all lie between 0 and 1 are refused until you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    parameters_ : dict of float
        "slope" and "intercept".
    parameters_se_ : dict of float, or None
        Their standard errors, with ``smooth_labels=False``.
    why_no_se_ : str or None
        Why there are none.
    residual_ : float
        The largest gap that is left between a mean under the model and at the labels.
    map_ : Affine
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
        From `fit`, if there are more than two classes. ``X`` is the score of the second class, or the logits of both.
    DegenerateDataError
        From `fit`, if ``y`` has one class only, or if all scores are equal.
    NotConvergedError
        From `fit`, if no finite parameters have the least loss: with ``smooth_labels=False`` because the scores separate the
        classes perfectly, else because there are too few different scores.

    See Also
    --------
    Beta : two slopes, one for scores below and one for scores above zero.
    Quadratic : the same with a square.
    VectorScaling : for any number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import Platt
    >>> rng = np.random.default_rng(0)
    >>> score = 3 * rng.normal(size=4000)
    >>> labels = score / 2 - 1 + rng.logistic(size=4000) > 0
    >>> fitted = Platt(smooth_labels=False).fit(score, labels)
    >>> for name, value in fitted.parameters_.items():
    ...     print(f"{name} {value:.2f} ± {fitted.parameters_se_[name]:.2f}")
    slope 0.51 ± 0.02
    intercept -0.99 ± 0.04
    """

    @property
    def _terms(self) -> dict[str, str]:
        return {"slope": "s", "intercept": "1"}

    def _map_for(self, parameters: Mapping[str, float]) -> Affine:
        half = parameters["intercept"] / 2
        return Affine(np.array(parameters["slope"]), np.array([-half, half]))


@dataclass(kw_only=True, eq=False, repr=False)
class Quadratic(BinaryCalibrator):
    """Quadratic scaling: the calibrated log-odds are square·s² + slope·s + intercept.

    Here s are the log-odds that the scores give to the second class. The parameters have the least cross-entropy. The map need
    not increase with s: beyond its vertex at s = −slope/(2·square), a larger score means a smaller probability. Predictions may
    change.

    Parameters
    ----------
    smooth_labels : bool
        Whether the labels are moved away from 0 and 1 before the fit, by 1/(N + 2) for N samples of the same class, as
        J. Platt proposed and as scikit-learn does. With few samples this lowers the loss on new data, and there are finite
        parameters also where the scores separate the classes perfectly. Without it there are standard errors.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, which are the log-odds s. For probabilities, s is ln p − ln(1 − p). Numbers that
        all lie between 0 and 1 are refused until you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    parameters_ : dict of float
        "square", "slope" and "intercept".
    parameters_se_ : dict of float, or None
        Their standard errors, with ``smooth_labels=False``.
    why_no_se_ : str or None
        Why there are none.
    residual_ : float
        The largest gap that is left between a mean under the model and at the labels.
    map_ : LogOdds
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
        From `fit`, if there are more than two classes. ``X`` is the score of the second class, or the logits of both.
    DegenerateDataError
        From `fit`, if ``y`` has one class only, or if all scores are equal.
    NotConvergedError
        From `fit`, if no finite parameters have the least loss: with ``smooth_labels=False`` because the scores separate the
        classes perfectly, else because there are too few different scores.

    See Also
    --------
    Platt : the same without a square.
    Beta : bends the other way to the left and to the right of zero, and always increases.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori.calibrators import Quadratic
    >>> rng = np.random.default_rng(0)
    >>> score = 2 * rng.normal(size=4000)
    >>> labels = 0.2 * score**2 + score - 1 + rng.logistic(size=4000) > 0
    >>> fitted = Quadratic(smooth_labels=False).fit(score, labels)
    >>> for name, value in fitted.parameters_.items():
    ...     print(f"{name} {value:.2f} ± {fitted.parameters_se_[name]:.2f}")
    square 0.21 ± 0.01
    slope 1.02 ± 0.03
    intercept -0.98 ± 0.05
    """

    takes_claims: ClassVar[bool] = False  # it need not increase

    @property
    def _terms(self) -> dict[str, str]:
        return {"square": "s²", "slope": "s", "intercept": "1"}

    def _map_for(self, parameters: Mapping[str, float]) -> LogOdds:
        return LogOdds(parameters["slope"], parameters["slope"], parameters["intercept"], parameters["square"])


Variant = Literal["abm", "am", "ab"]


@dataclass(kw_only=True, eq=False, repr=False)
class Beta(BinaryCalibrator):
    """Beta calibration: the calibrated log-odds are a·ln p − b·ln(1 − p) + c, with a ≥ 0 and b ≥ 0.

    Here p is the probability that the scores give to the second class, 1/(1 + exp(−s)) for log-odds s. The parameters have the
    least cross-entropy (M. Kull, T. Silva Filho and P. Flach, AISTATS 2017). Far below p = 1/2 the calibrated log-odds grow
    with s as a·s, far above as b·s. They never decrease: a coefficient that would be negative is zero, and the others are
    fitted again. Predictions may change.

    Parameters
    ----------
    variant : {"abm", "am", "ab"}
        All three parameters; one slope a = b, which is Platt scaling with a slope that is not negative; or no shift of the
        middle: p = 1/2 stays 1/2, and c = (a − b)·ln 2.
    smooth_labels : bool
        Whether the labels are moved away from 0 and 1 before the fit, by 1/(N + 2) for N samples of the same class, as
        J. Platt proposed and as scikit-learn does. With few samples this lowers the loss on new data, and there are finite
        parameters also where the scores separate the classes perfectly. Without it there are standard errors.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, which are the log-odds s. For probabilities, s is ln p − ln(1 − p). Numbers that
        all lie between 0 and 1 are refused until you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    parameters_ : dict of float
        "a", "b" and "c"; without "b" for "am", and without "c" for "ab".
    parameters_se_ : dict of float, or None
        Their standard errors, with ``smooth_labels=False``; 0 for a coefficient that is fixed at zero.
    why_no_se_ : str or None
        Why there are none.
    residual_ : float
        The largest gap that is left between a mean under the model and at the labels.
    map_ : LogOdds
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
        From `fit`, if there are more than two classes. ``X`` is the score of the second class, or the logits of both.
    DegenerateDataError
        From `fit`, if ``y`` has one class only, or if all scores are equal.
    NotConvergedError
        From `fit`, if no finite parameters have the least loss: with ``smooth_labels=False`` because the scores separate the
        classes perfectly, else because there are too few different scores.

    See Also
    --------
    Platt : the same with one slope.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import Beta
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> labels = 2 * np.log(p) - 0.5 * np.log(1 - p) + 1 + rng.logistic(size=4000) > 0
    >>> fitted = Beta(smooth_labels=False, input="probabilities", floor=None).fit(p, labels)
    >>> for name, value in fitted.parameters_.items():
    ...     print(f"{name} {value:.2f} ± {fitted.parameters_se_[name]:.2f}")
    a 1.87 ± 0.15
    b 0.63 ± 0.11
    c 0.76 ± 0.20
    """

    variant: Variant = "abm"

    @property
    def _terms(self) -> dict[str, str]:
        variant = one_of("variant", self.variant, Variant)
        return {
            "abm": {"a": "ln p", "b": "-ln(1-p)", "c": "1"},
            "am": {"a": "s", "c": "1"},
            "ab": {"a": "ln 2p", "b": "-ln 2(1-p)"},
        }[variant]

    def _map_for(self, parameters: Mapping[str, float]) -> LogOdds:
        a = parameters["a"]
        b = parameters.get("b", a)
        return LogOdds(a, b, parameters.get("c", (a - b) * log(2)))

    def _separates(self, seen: Overview) -> bool:
        """Whether an increasing map separates the classes perfectly: only such maps can be used."""
        if self.variant == "ab":
            return bool(seen.largest[0] <= 0 <= seen.least[1])
        return bool(seen.largest[0] <= seen.least[1])

    def _fit_coefficients(self, search: LogisticSearch, regression: Regression) -> Coefficients:
        """The coefficients of least loss among those that are not negative; as the loss is convex, some of them are zero."""
        first, *others = ((0, 1), (0,), (1,)) if len(regression.terms) == 2 else ((0,),)
        error, is_turned = None, bool(search.seen.largest[1] <= search.seen.least[0])
        for candidates in ([first], others):
            allowed = []
            for places in candidates:
                try:
                    coefficients = search.least_loss(regression.with_terms(places))
                except NotConvergedError as caught:  # as where a map that decreases separates the classes
                    error = caught
                    continue
                if (coefficients.slopes >= 0).all():
                    allowed.append(coefficients)
                else:
                    is_turned = True
            if allowed:
                return allowed[0] if len(allowed) == 1 else min(allowed, key=search.loss)
        if error and not is_turned:
            raise error
        notice(
            "The second class is not more likely where its score is larger, so that the calibrated probability does not depend "
            f"on the score. Check that {setting('classes')} or the columns of {setting('X')} have the order of the labels.",
            InputWarning,
        )
        return search.least_loss(regression.with_terms(()))
