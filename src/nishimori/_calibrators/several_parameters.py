"""Calibrators with several parameters: each is a family of maps, with one observable per parameter whose means must agree."""

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._calibrators.parameters import Layout, flat_entries, read_errors, too_many
from nishimori._fit.features import Family, check_features, match_features, row_gaps
from nishimori._fit.newton import Equations, Solution, sandwich, solve
from nishimori._fit.search import find_roots
from nishimori._methods.fitted_method import label_name
from nishimori._rows.rows import Rows
from nishimori._sums.observables import Energy
from nishimori._sums.spread import gap_products
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError, NotConvergedError
from nishimori.maps.affine import refuse_masks
from nishimori.maps.map import Map

# This many rows give the start of a search in all rows, if these are many more.
_SAMPLE = 2**12


class SeveralParameters(Calibrator):
    """A calibrator with several parameters; subclass it to write one of your own.

    Say where the parameters start (`start`) and which map they give (`map_for`). Then `fit` chooses the parameters of least
    cross-entropy, near the start if there are several minima. Write `features`, the derivative of the mapped logits by each
    parameter, if you know it: otherwise it is taken by differences, which takes longer. Write `observables` too, and the
    parameters are chosen so that each observable has the same mean under the model as at the labels.

    Attributes
    ----------
    parameters_ : dict of float or array
        The parameters by name, in the shapes that `start` gave them.
    parameters_se_ : dict of float or array, or None
        Their standard errors, in the same shapes; None if they are not known.
    covariance_ : array of shape (n_parameters, n_parameters), or None
        Their covariance, in the order of `start`, those of an array one after the other. Files do not hold it.
    why_no_se_ : str or None
        Why the standard errors are not known.
    residual_ : float
        The largest gap that is left between the mean of an observable under the model and at the labels.
    map_ : Map
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
    NotConvergedError
        From `fit`, if no finite parameters satisfy the conditions, or if two parameters have the same effect.

    Examples
    --------
    One temperature and one number that is added to the logit of the last class.

    >>> import numpy as np
    >>> import nishimori
    >>> class LastBias(nishimori.calibrators.SeveralParameters):
    ...     def __init__(self, *, input=None, classes=None, floor="auto"):
    ...         self.input, self.classes, self.floor = input, classes, floor
    ...     def start(self, n_classes, temperature):
    ...         return {"scale": 1 / temperature, "bias": 0.0}
    ...     def map_for(self, parameters, n_classes):
    ...         biases = np.zeros(n_classes)
    ...         biases[-1] = parameters["bias"]
    ...         return nishimori.maps.Affine(parameters["scale"], biases)
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(4000, 5))
    >>> biased = logits / 2 + [0, 0, 0, 0, 1]
    >>> labels = (biased + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> fitted = LastBias().fit(logits, labels)
    >>> for name, value in fitted.parameters_.items():
    ...     print(f"{name} {value:.2f} ± {fitted.parameters_se_[name]:.2f}")
    scale 0.49 ± 0.01
    bias 1.06 ± 0.04
    """

    covariance_: HostArray | None

    @abstractmethod
    def start(self, n_classes: int, temperature: float) -> Mapping[str, Any]:
        """The parameters from which the search starts.

        Parameters
        ----------
        n_classes : int
            The number of classes of the data.
        temperature : float
            The temperature of least cross-entropy, with which the search may start.

        Returns
        -------
        dict of str to number or array
            The names of the parameters, and finite numbers.
        """

    @abstractmethod
    def map_for(self, parameters: Mapping[str, Any], n_classes: int) -> Map:
        """The map with these parameters, which have the names and shapes that `start` gave them; numbers are floats."""

    def features(self, logits: HostArray, parameters: Mapping[str, Any]) -> Any:
        """How much each mapped logit changes with each parameter: the derivative; by default taken by differences.

        Parameters
        ----------
        logits : array of shape (n, n_classes)
            Some rows: float64, as a NumPy array whatever library the data come from. It is read-only.
        parameters : dict of float or array
            Where the derivative is asked for. It does not matter where the mapped logits are linear in the parameters.

        Returns
        -------
        array of shape (n, n_classes, n_parameters)
            The parameters are in the order of `start`, those of an array one after the other.
        """
        layout, x = Layout.from_values(parameters, type(self).__name__)
        map_for = partial(_map_for, self, layout, logits.shape[1])
        return Family(type(self).__name__, map_for, None, None).tables(logits, x)[0]

    def observables(self, logits: HostArray, parameters: Mapping[str, Any]) -> Any:
        """What is matched for each parameter, in the shape of `features`: by default the features, for least cross-entropy."""
        return self.features(logits, parameters)

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the parameters from ``data``, which are the rows of ``X``."""
        matched = find_roots(data, Energy(), label_name=label_name(X))
        refuse_masks(matched.census.n_masked > 0)
        temperature, fit_info = matched.solution(0)
        layout, start = Layout.from_values(self.start(data.n_classes, temperature), type(self).__name__)
        family = self._family(layout, data.n_classes)
        family = data.gather(partial(check_features, family, start)).family(family)
        solution = _solve(data, family, start)
        covariance = errors = None
        if not too_many(layout.size):
            products = gap_products(data, partial(row_gaps, family, solution.x)) / matched.census.weight**2
            covariance = sandwich(solution.equations.jacobian, products)
            errors = np.sqrt(np.diag(covariance))
        parameters = layout.by_name(solution.x)
        estimates = flat_entries(parameters) | ({} if errors is None else flat_entries(layout.by_name(errors), "_se"))
        map_ = self.map_for(parameters, data.n_classes)
        n_passes = fit_info.n_passes + 1 + solution.n_passes + (errors is not None)
        self.learn(X, data, map_, fit_info.n_samples, solution.residual, estimates=estimates, n_passes=n_passes)
        self.covariance_ = covariance
        return self

    def _family(self, layout: Layout, n_classes: int) -> Family:
        features, observables = (
            partial(_table, self, name, layout) if getattr(type(self), name) is not getattr(SeveralParameters, name) else None
            for name in ("features", "observables")
        )
        return Family(type(self).__name__, partial(_map_for, self, layout, n_classes), features, observables)

    def _show(self) -> None:
        estimates = self._estimates_ or {}
        layout, _ = Layout.from_values(self.start(self.n_features_in_, 1.0), type(self).__name__)
        self.parameters_ = layout.read(estimates) or {}
        self.parameters_se_, self.why_no_se_ = read_errors(estimates, layout)
        self.covariance_ = None


def _solve(data: Rows, family: Family, start: HostArray) -> Solution:
    """The parameters that satisfy the conditions; those of a loss must be a minimum of it."""
    elsewhere = set()

    def equations(rows: Rows, x: HostArray) -> Equations:
        conditions, is_minimum = rows.gather(partial(match_features, family, x)).equations(is_loss=family.is_loss)
        if not is_minimum:
            elsewhere.add(x.tobytes())
        return conditions

    sample = data.sample(_SAMPLE) if (data.n_rows or 0) > 4 * _SAMPLE else None
    if sample is not None:  # whose answer is a few standard errors away from that of all rows
        with suppress(NotConvergedError):
            start = solve(partial(equations, sample), start, enough=0.01).x
        elsewhere.clear()
    solution = solve(partial(equations, data), start)
    if solution.x.tobytes() in elsewhere:
        raise NotConvergedError(
            f"The search ended at parameters {np.round(solution.x, 4).tolist()} where the cross-entropy is not at a minimum. "
            f"Choose another `start` of {family.name}, or fewer parameters."
        )
    return solution


def _table(calibrator: SeveralParameters, name: str, layout: Layout, logits: HostArray, x: HostArray) -> Any:
    """A table of a calibrator, from logits and parameters in a flat array."""
    return getattr(calibrator, name)(logits, layout.by_name(x))


def _map_for(calibrator: SeveralParameters, layout: Layout, n_classes: int, x: HostArray) -> Map:
    """The map with parameters in a flat array."""
    map_ = calibrator.map_for(layout.by_name(x), n_classes)
    if not isinstance(map_, Map):
        raise InputError(f"{type(calibrator).__name__}.map_for", "return a nishimori.Map", got=repr(map_))
    return map_
