"""Affine maps of logits or log-probabilities, held close to one temperature by penalties."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._calibrators.parameters import Layout, flat_entries, read_errors, too_many
from nishimori._fit.affine.curvature import Directions
from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.penalised import AffineSearch, Minimum
from nishimori._fit.affine.sums import AffinePoint, measure_curve, row_gradients
from nishimori._fit.match import Match
from nishimori._fit.search import find_roots
from nishimori._methods.fitted_method import label_name
from nishimori._methods.table import Traits
from nishimori._rows.labels import class_labels
from nishimori._rows.rows import Rows
from nishimori._sums.moments import Measure
from nishimori._sums.observables import Energy
from nishimori._sums.spread import gap_products
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError, setting
from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.map import Map

Penalty = Literal["auto"] | float | Sequence[float] | None


@dataclass(kw_only=True, eq=False, repr=False)
class AffineScaling(Calibrator):
    """What vector and matrix scaling have in common: everything except the shape of the scale.

    A subclass says whether the scale is a matrix, whether there are biases, and whether logarithms of probabilities take the
    place of centred logits.
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=False, streams=True, from_sketch=False, error_bars=False)
    _is_matrix: ClassVar[bool]
    _has_bias: ClassVar[bool] = True
    _of_log: ClassVar[bool] = False

    penalty: Penalty = "auto"
    preserve_accuracy: bool = False

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the map from ``data``, which are the rows of ``X``."""
        parameters = self._parameters(data.n_classes)
        self._strengths(parameters, 1.0, 1.0)  # refuses what cannot be a strength before the data are read
        matched = find_roots(data, Energy(), label_name=label_name(X))
        temperature, fit_info = matched.solution(0)
        unit = 1.0 if data.counts else _unit(matched, data)
        strengths = self._strengths(parameters, temperature, unit * matched.census.weight)
        labels = class_labels(self.classes, data.n_classes)
        minimum = AffineSearch(data, parameters, temperature, unit, strengths, labels).minimum()
        point = parameters.point(minimum.theta, temperature)
        errors = self._errors(data, point, minimum)
        fallback = temperature if self.preserve_accuracy else None
        estimates = {"ts": temperature, **_by_block(parameters, "penalty", minimum.strengths)}
        if minimum.determined is not None:
            estimates |= _by_block(parameters, "determined", minimum.determined)
        kind = LogAffine if self._of_log else Affine
        map_ = kind(point.scale / point.temperature, point.bias, fallback)
        if errors is not None:
            estimates |= flat_entries(self._layout(map_).by_name(errors), "_se")
        n_passes = fit_info.n_passes + data.has_clusters + minimum.n_passes + (0 if errors is None else 2)
        return self.learn(X, data, map_, fit_info.n_samples, minimum.residual, estimates=estimates, n_passes=n_passes)

    def _parameters(self, n_classes: int) -> Parameters:
        return Parameters(n_classes, self._is_matrix, self._has_bias, self._of_log)

    def _strengths(self, parameters: Parameters, temperature: float, weight: float) -> HostArray | None:  # noqa: ARG002
        """The strengths that were asked for; None if they are to be chosen.

        ``temperature`` is the unit of the factors and ``weight`` the number of samples, for other conventions than our own.
        """
        names = parameters.blocks
        if isinstance(self.penalty, str) and self.penalty == "auto":
            return None
        strengths = _not_negative(0.0 if self.penalty is None else self.penalty, (), (len(names),))
        if strengths is None:
            several = f", or {len(names)} such numbers ({', '.join(names)})" if len(names) > 1 else ""
            raise InputError("penalty", f"be 'auto', None, a number that is not negative{several}", got=repr(self.penalty))
        return np.broadcast_to(strengths, (len(names),)).copy()

    def _errors(self, data: Rows, point: AffinePoint, minimum: Minimum) -> HostArray | None:
        """The standard errors of all factors and biases; None if they are penalised, or too many."""
        number = point.scale.size + point.bias.size * self._has_bias
        if minimum.strengths.any() or too_many(number):
            return None
        products = gap_products(data, partial(row_gradients, point))[:number, :number]
        assert minimum.equal is not None, "nothing is penalised"
        # Some changes have no effect, such as that of all biases by the same number: the errors are those without them.
        directions = Directions.from_curvature(minimum.equal[:number, :number])
        inverse = directions.inverse(data.gather(partial(measure_curve, point)).hessian[:number, :number])
        errors: HostArray = np.sqrt(np.maximum(np.diag(inverse @ products @ inverse), 0))
        errors[: point.scale.size] /= point.temperature
        return errors

    def _map_parameters(self, map_: Map) -> dict[str, HostArray]:
        """The parameters of the map by name."""
        assert isinstance(map_, Affine | LogAffine)
        scale = {"matrix": map_.matrix} if isinstance(map_, LogAffine) else {"scale": map_.scale}
        return scale | {"bias": map_.bias} if self._has_bias else scale

    def _layout(self, map_: Map) -> Layout:
        return Layout(tuple((name, array.shape) for name, array in self._map_parameters(map_).items()))

    def _show(self) -> None:
        values = self._estimates_ or {}
        names = self._parameters(self.n_features_in_).blocks
        self.parameters_ = self._map_parameters(self.map_)
        self.ts_ = values.get("ts")
        self.penalties_, self.determined_ = (
            {name: values[f"{name}_{ending}"] for name in names if f"{name}_{ending}" in values} or None
            for ending in ("penalty", "determined")
        )
        reason = None
        if any((self.penalties_ or {}).values()):
            reason = (
                "The parameters are penalised, which draws them towards one temperature: a standard error would not say how "
                f"far they are from the true ones. Pass {setting('penalty', None)} for parameters without penalties."
            )
        self.parameters_se_, self.why_no_se_ = read_errors(values, self._layout(self.map_), reason)


@dataclass(kw_only=True, eq=False, repr=False)
class VectorScaling(AffineScaling):
    """Multiply the logits by a factor per class and add a bias per class; departures from one temperature are penalised.

    u_i = scale_i·x_i + bias_i, where x are the logits minus their mean over classes. The map has the least cross-entropy plus
    penalties λ/2·Σθ² of the departures θ of the factors from their common value, and of the biases from zero, in units in which
    the temperature of temperature scaling is 1. Predictions may change.

    Parameters
    ----------
    penalty : "auto", float, pair of floats, or None
        The strengths λ of the penalties of factors and biases. "auto" chooses them by marginal likelihood.
        None and 0 mean no penalty; then there are standard errors.
    preserve_accuracy : bool
        Whether samples whose predicted class would change are calibrated by temperature scaling instead.
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
    parameters_ : dict of arrays
        "scale" of shape (n_classes,) and "bias" of shape (n_classes,), as of the map.
    parameters_se_ : dict of arrays, or None
        Their standard errors, if nothing is penalised and there are at most 1,000 parameters.
    why_no_se_ : str or None
        Why there are none.
    penalties_ : dict of float
        The strength λ of the penalty of each kind of departure: "diagonal" and "bias".
    determined_ : dict of float, or None
        How many departures of each kind the data determine, of n_classes each; None if the strengths were given.
    ts_ : float or None
        The temperature of temperature scaling; None if the file from which the calibrator was loaded does not say.
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
    NoTemperatureError
        From `fit`, if no single temperature fits, from which departures could be measured.
    NotConvergedError
        From `fit`, if nothing is penalised and no finite parameters fit best.

    See Also
    --------
    MatrixScaling : the same with a matrix of factors.
    ClasswiseTemperature : the same without biases.
    BiasCorrected : one temperature and biases.

    Notes
    -----
    Weights are multiplied by a number so that they sum to (Σw)²/Σw², the number of samples of equal weight that are worth as
    much: only their ratios matter. Samples of a cluster tell less than independent ones, so that penalties count for more: by
    the factor by which ``clusters`` increase the variance of the temperature.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(4000, 3))
    >>> labels = (logits / 2 + [0, 0, 1] + rng.gumbel(size=logits.shape)).argmax(axis=1)  # T = 2, and a biased class
    >>> calibrator = VectorScaling().fit(logits, labels)
    >>> print(np.round(calibrator.parameters_["scale"], 2), np.round(calibrator.parameters_["bias"], 2))
    [0.51 0.51 0.48] [-0.3  -0.36  0.66]
    """

    _is_matrix = False


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixScaling(AffineScaling):
    """Multiply the logits by a matrix and add a bias per class; departures from one temperature are penalised.

    u_i = Σ_j scale_ij·x_j + bias_i, where x are the logits minus their mean over classes. The map has the least cross-entropy
    plus penalties λ/2·Σθ² of the departures θ from one temperature: of the diagonal of the matrix from a common value, of the
    other entries and of the biases from zero, each kind with a strength of its own (structured scaling, arXiv:2511.03685).
    Departures are in units in which the temperature of temperature scaling is 1. Predictions may change.

    Parameters
    ----------
    penalty : "auto", float, three floats, or None
        The strengths λ of the penalties of diagonal, off-diagonal entries and biases. "auto" chooses them by marginal
        likelihood. None and 0 mean no penalty; then there are standard errors.
    preserve_accuracy : bool
        Whether samples whose predicted class would change are calibrated by temperature scaling instead.
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
    parameters_ : dict of arrays
        "scale" of shape (n_classes, n_classes) and "bias" of shape (n_classes,), as of the map.
    parameters_se_ : dict of arrays, or None
        Their standard errors, if nothing is penalised and there are at most 1,000 parameters.
    why_no_se_ : str or None
        Why there are none.
    penalties_ : dict of float
        The strength λ of the penalty of each kind of departure: "diagonal", "off_diagonal" and "bias".
    determined_ : dict of float, or None
        How many departures of each kind the data determine; None if the strengths were given.
    ts_ : float or None
        The temperature of temperature scaling; None if the file from which the calibrator was loaded does not say.
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
    NoTemperatureError
        From `fit`, if no single temperature fits, from which departures could be measured.
    NotConvergedError
        From `fit`, if nothing is penalised and no finite parameters fit best.

    See Also
    --------
    VectorScaling : the same with a factor per class.
    Dirichlet : the same with log-probabilities in place of logits.
    BiasCorrected : one temperature and biases.

    Notes
    -----
    Weights are multiplied by a number so that they sum to (Σw)²/Σw², the number of samples of equal weight that are worth as
    much: only their ratios matter. Samples of a cluster tell less than independent ones, so that penalties count for more: by
    the factor by which ``clusters`` increase the variance of the temperature.

    Examples
    --------
    >>> import nishimori
    >>> from nishimori import TemperatureScaling
    >>> from nishimori.calibrators import MatrixScaling
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> for calibrator in (TemperatureScaling(), MatrixScaling()):
    ...     fitted = calibrator.fit(network.validation.logits, network.validation.labels)
    ...     found = nishimori.evaluate(network.test.logits, network.test.labels, calibrator=fitted)
    ...     print(f"{fitted.method_name}: error {found.error:.1%}, NLL {found.nll:.3f}")
    ts: error 16.3%, NLL 0.469
    matrix: error 12.4%, NLL 0.369
    """

    _is_matrix = True


def _not_negative(value: object, *shapes: tuple[int, ...]) -> HostArray | None:
    """Finite numbers that are not negative, in one of these shapes; None if ``value`` is anything else."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return None
    if array.dtype.kind not in "iuf" or array.shape not in shapes:
        return None
    numbers = array.astype(float)
    return numbers if np.isfinite(numbers).all() and (numbers >= 0).all() else None


def _by_block(parameters: Parameters, ending: str, values: HostArray) -> dict[str, float]:
    """One number for each kind of departure, as a file keeps it."""
    return {f"{name}_{ending}": value for name, value in zip(parameters.blocks, values.tolist(), strict=True)}


def _unit(matched: Match, data: Rows) -> float:
    """What weights are multiplied with, so that their sum is the number of independent samples that are worth as much."""
    census = matched.census
    unit = census.weight / (census.right_squares + census.wrong_squares)
    if not data.has_clusters:
        return unit
    temperature, _ = matched.solution(0)
    alone = replace(matched, gaps=data.gather(Measure(((Energy(), (1 / temperature,)),))))
    together, apart = matched.standard_error(0), alone.standard_error(0)
    if together is None or apart is None:
        return unit
    return unit / max(1.0, (together / apart) ** 2)


@dataclass(kw_only=True, eq=False, repr=False)
class ClasswiseTemperature(AffineScaling):
    """Divide the logit of each class by a temperature of its own; departures from one temperature are penalised.

    u_i = x_i / T_i, where x are the logits minus their mean over the classes of each row. The observable of class c is x_c
    where c is the class in question and 0 elsewhere: without a penalty its mean under the model equals its mean at the labels,
    for each class, which gives the least cross-entropy. This is `VectorScaling` without biases. Predictions may change.

    Logits are centred because a factor per class would otherwise give different probabilities if a constant is added to all
    logits of a row, which means nothing to a softmax.

    Parameters
    ----------
    penalty : "auto", float, or None
        The strength λ of the penalty λ/2·Σθ² of the departures θ of the factors 1/T_i from their common value, in units in
        which the temperature of temperature scaling is 1. "auto" chooses it by marginal likelihood. None
        and 0 mean no penalty; then there are standard errors.
    preserve_accuracy : bool
        Whether samples whose predicted class would change are calibrated by temperature scaling instead.
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
    temperatures_ : array of shape (n_classes,)
        The temperature of each class: 1 over its factor. NaN where the factor is not positive. That can happen where nothing is
        penalised and a class has few samples: its probability then falls where its logit rises, and no temperature describes
        that.
    parameters_ : dict of arrays
        "scale" of shape (n_classes,), the factors by which centred logits are multiplied.
    parameters_se_ : dict of arrays, or None
        Their standard errors, if nothing is penalised and there are at most 1,000 parameters.
    why_no_se_ : str or None
        Why there are none.
    penalties_ : dict of float
        The strength λ of the penalty: "diagonal".
    determined_ : dict of float, or None
        How many of the n_classes departures the data determine; None if the strength was given.
    ts_ : float or None
        The temperature of temperature scaling; None if the file from which the calibrator was loaded does not say.
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
    NoTemperatureError
        From `fit`, if no single temperature fits, from which departures could be measured.
    NotConvergedError
        From `fit`, if nothing is penalised and no finite parameters fit best.

    See Also
    --------
    GroupConsistency : one temperature per predicted class, which never changes a prediction.
    VectorScaling : a factor and a bias per class.

    Notes
    -----
    Weights are multiplied by a number so that they sum to (Σw)²/Σw², the number of samples of equal weight that are worth as
    much: only their ratios matter. Samples of a cluster tell less than independent ones, so that penalties count for more: by
    the factor by which ``clusters`` increase the variance of the temperature.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori.calibrators import ClasswiseTemperature
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(4000, 3))
    >>> centred = logits - logits.mean(axis=1, keepdims=True)
    >>> labels = (centred / [2, 2, 1] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> ClasswiseTemperature().fit(logits, labels).temperatures_.round(2)
    array([1.91, 1.9 , 1.05])
    """

    _is_matrix = False
    _has_bias = False

    def _show(self) -> None:
        super()._show()
        scale = self.parameters_["scale"]
        self.temperatures_ = np.divide(1.0, scale, out=np.full_like(scale, np.nan), where=scale > 0)


@dataclass(kw_only=True, eq=False, repr=False)
class Dirichlet(AffineScaling):
    """Multiply log-probabilities by a matrix and add a bias per class; departures from one temperature are penalised.

    u_i = Σ_j matrix_ij·log p_j + bias_i, where p is the softmax of the logits (Kull et al. 2019). It differs from
    `MatrixScaling` by the logarithm of the partition function, log Σ_j exp(z_j), which the sum of each row of the matrix
    multiplies: one more direction per class. The map has the least cross-entropy plus penalties λ/2·Σθ² of the departures θ
    from one temperature, in units in which the temperature of temperature scaling is 1, or the penalties of Kull et al.
    Predictions may change.

    Parameters
    ----------
    penalty : "auto", float, three floats, or None
        The strengths λ of the penalties of diagonal, off-diagonal entries and biases. "auto" chooses them by marginal
        likelihood. None and 0 mean no penalty; then there are standard errors.
    odir : pair of floats, optional
        The strengths (λ, μ) of off-diagonal and intercept regularisation, in place of ``penalty``, in the convention of the
        package dirichletcal: mean cross-entropy + λ·Σ_{i≠j} matrix_ij² + μ·Σ_i bias_i². The diagonal is free. The published
        form divides λ by K(K − 1) and μ by K, for K classes.
    preserve_accuracy : bool
        Whether samples whose predicted class would change are calibrated by temperature scaling instead.
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
    parameters_ : dict of arrays
        "matrix" of shape (n_classes, n_classes) and "bias" of shape (n_classes,), as of the map.
    parameters_se_ : dict of arrays, or None
        Their standard errors, if nothing is penalised and there are at most 1,000 parameters.
    why_no_se_ : str or None
        Why there are none.
    penalties_ : dict of float
        The strength λ of the penalty of each kind of departure: "diagonal", "off_diagonal" and "bias", in the convention of
        ``penalty``.
    determined_ : dict of float, or None
        How many departures of each kind the data determine; None if the strengths were given.
    ts_ : float or None
        The temperature of temperature scaling; None if the file from which the calibrator was loaded does not say.
    map_ : LogAffine
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
        From `fit`, if no single temperature fits, from which departures could be measured.
    NotConvergedError
        From `fit`, if nothing is penalised and no finite parameters fit best.

    See Also
    --------
    MatrixScaling : the same with centred logits in place of log-probabilities.

    Notes
    -----
    Weights are multiplied by a number so that they sum to (Σw)²/Σw², the number of samples of equal weight that are worth as
    much: only their ratios matter. Samples of a cluster tell less than independent ones, so that penalties count for more: by
    the factor by which ``clusters`` increase the variance of the temperature.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> fitted = nishimori.calibrators.Dirichlet().fit(network.validation.logits, network.validation.labels)
    >>> found = nishimori.evaluate(network.test.logits, network.test.labels, calibrator=fitted)
    >>> print(f"error {found.error:.1%}, NLL {found.nll:.3f}")
    error 12.4%, NLL 0.370
    """

    _is_matrix = True
    _of_log = True

    odir: Sequence[float] | None = None

    def _strengths(self, parameters: Parameters, temperature: float, weight: float) -> HostArray | None:
        if self.odir is None:
            return super()._strengths(parameters, temperature, weight)
        if not isinstance(self.penalty, str) or self.penalty != "auto":
            raise InputError("penalty", "be left out where `odir` is given", got=repr(self.penalty))
        pair = _not_negative(self.odir, (2,))
        if pair is None:
            raise InputError("odir", "be two numbers that are not negative, (λ, μ)", got=repr(self.odir))
        off_diagonal, bias = pair.tolist()
        # The mean over samples becomes a sum, λθ² becomes λ/2·θ², and factors are in units of one over the temperature.
        return 2 * weight * np.array([0.0, off_diagonal / temperature**2, bias])
