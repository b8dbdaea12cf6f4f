"""Calibrators with several parameters: each is a family of maps, and as many observables whose means must agree."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np

from nishimori._array import HostArray
from nishimori._calibrators._calibrator import Calibrator
from nishimori._calibrators._record import Record
from nishimori._conditions import gap_products, refuse_masks, sandwich
from nishimori._features import CheckFeatures, Family, MatchFeatures
from nishimori._maps import Map
from nishimori._matching import match
from nishimori._newton import solve
from nishimori._observables import Energy
from nishimori._scores import numeric
from nishimori._sketch import Sketch
from nishimori._sources import Source, is_source, refuse_counted_clusters
from nishimori.errors import InputError

MOST_WITH_ERRORS = 1000
"""So many parameters can have standard errors: their covariance is a table of that many rows and columns."""

NOT_IN_FILE = "The file from which the calibrator was loaded holds no standard errors. Fit the calibrator again."
"""Why a calibrator that was loaded may have no standard errors."""


class SeveralParameters(Calibrator):
    """A calibrator with several parameters; subclass it to write one of your own.

    Say where the parameters start (`start`), which map they give (`map_for`), and how the mapped logits change with each
    parameter (`features`). Then `fit` chooses the parameters of least cross-entropy. Write `observables` too, and the
    parameters are chosen so that each observable has the same mean under the model as at the labels.

    The mapped logits must be linear in the parameters: an inverse temperature is a parameter, a temperature is not.

    Attributes
    ----------
    parameters_ : dict of float or array
        The parameters by name, in the shapes that `start` gave them.
    parameters_se_ : dict of float or array, or None
        Their standard errors, in the same shapes; None if they are not known.
    why_no_se_ : str or None
        Why they are not known.
    residual_ : float
        The largest gap that is left between the mean of an observable under the model and at the labels.
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`.

    Examples
    --------
    One temperature and one number that is added to the logit of the last class.

    >>> import numpy as np
    >>> import nishimori
    >>> class LastBias(nishimori.SeveralParameters):
    ...     def __init__(self, *, input="logits", classes=None, floor=None):
    ...         self.input, self.classes, self.floor = input, classes, floor
    ...     def start(self, n_classes, temperature):
    ...         return {"scale": 1 / temperature, "bias": 0.0}
    ...     def map_for(self, parameters, n_classes):
    ...         biases = np.zeros(n_classes)
    ...         biases[-1] = parameters["bias"]
    ...         return nishimori.Affine(parameters["scale"], biases)
    ...     def features(self, logits):
    ...         last = np.zeros_like(logits)
    ...         last[:, -1] = 1
    ...         return np.stack([logits, last], axis=2)
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

    n_passes_: int
    parameters_: dict[str, Any]
    parameters_se_: dict[str, Any] | None
    why_no_se_: str | None
    residual_: float | None

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

    @abstractmethod
    def features(self, logits: HostArray) -> Any:
        """How much each mapped logit changes with each parameter.

        Parameters
        ----------
        logits : array of shape (n, n_classes)
            Some rows: float64, as a NumPy array whatever library the data come from. It is read-only.

        Returns
        -------
        array of shape (n, n_classes, n_parameters)
            The parameters are in the order of `start`, those of an array one after the other.
        """

    def observables(self, logits: HostArray) -> Any:
        """What is matched for each parameter, in the shape of `features`: by default the features, for least cross-entropy."""
        return self.features(logits)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, clusters: Any = None, counts: bool = False) -> Self:
        """Choose the parameters from validation logits ``X`` and labels ``y``; arguments as for `ExpectationConsistency`.

        Raises
        ------
        NotConvergedError
            If no finite parameters satisfy the conditions, or if two parameters have the same effect.
        """
        data = self.source_from(X, y, sample_weight, clusters)
        refuse_sketch(data, type(self).__name__)
        refuse_counted_clusters(data, counts=counts)
        matched = match(data, Energy(), label_name="labels" if is_source(X) else "y", counts=counts)
        refuse_masks(matched.census.n_masked > 0)
        temperature, receipt = matched.chosen(0)
        layout, start = Layout.of(self.start(data.n_classes, temperature), type(self).__name__)
        family = self._family(layout, data.n_classes)
        data.gather(CheckFeatures(family, start))
        found = solve(lambda x: data.gather(MatchFeatures(family, x)).equations, start)
        errors = None
        if layout.size <= MOST_WITH_ERRORS:
            products = gap_products(data, MatchFeatures(family, found.x).gaps_of, counts=counts) / matched.census.weight**2
            errors = np.sqrt(np.diag(sandwich(found.equations.jacobian, products)))
        parameters = layout.named(found.x)
        self.learn(X, data, self.map_for(parameters, data.n_classes), receipt.n_samples, found.residual)
        self.n_passes_ = receipt.n_passes + 1 + found.readings + (errors is not None)
        self.parameters_ = parameters
        self.parameters_se_ = None if errors is None else layout.named(errors)
        self.why_no_se_ = None if errors is not None else too_many(layout.size)
        return self

    def _family(self, layout: "Layout", n_classes: int) -> Family:
        is_own = type(self).observables is not SeveralParameters.observables
        observables = self.observables if is_own else None
        return Family(type(self).__name__, _MapFor(self, layout, n_classes), self.features, observables)

    def estimates(self) -> dict[str, float] | None:
        """The parameters and their standard errors, one number per entry."""
        return written(self.parameters_) | written(self.parameters_se_ or {}, "_se")

    def restore(self, record: Record) -> Self:
        """Become what ``record`` describes, ready to use."""
        super().restore(record)
        values = record.provenance.estimates or {}
        layout, _ = Layout.of(self.start(self.n_features_in_, 1.0), type(self).__name__)
        self.parameters_ = layout.read(values) or {}
        self.parameters_se_ = layout.read(values, "_se")
        self.why_no_se_ = NOT_IN_FILE if self.parameters_se_ is None else None
        return self


@dataclass(frozen=True)
class _MapFor:
    """The map with parameters in a flat array, as something that can be sent to other processes."""

    calibrator: SeveralParameters
    layout: "Layout"
    n_classes: int

    def __call__(self, x: HostArray) -> Map:
        map_ = self.calibrator.map_for(self.layout.named(x), self.n_classes)
        if not isinstance(map_, Map):
            raise InputError(f"`{type(self.calibrator).__name__}.map_for` must return a nishimori.Map, got {map_!r}.")
        return map_


@dataclass(frozen=True)
class Layout:
    """The names and shapes of parameters that a flat array holds one after the other."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, given: Any, owner: str) -> tuple["Layout", HostArray]:
        """The layout of what `start` returned, and its numbers."""
        if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) and name for name in given):
            raise InputError(f"`{owner}.start` must return a dictionary from names to numbers, got {given!r}.")
        arrays = {name: np.asarray(numeric(np.atleast_1d(value), f"{owner}.start")) for name, value in given.items()}
        flat = np.concatenate([each.astype(float).ravel() for each in arrays.values()])
        if not flat.size or not np.isfinite(flat).all():
            raise InputError(f"`{owner}.start` must return finite numbers, got {given!r}.")
        return cls(tuple((name, np.shape(value)) for name, value in given.items())), flat

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(prod(shape) for _, shape in self.shapes)

    def named(self, flat: HostArray) -> dict[str, Any]:
        """The numbers by name, each a float or an array of its shape."""
        found: dict[str, Any] = {}
        place = 0
        for name, shape in self.shapes:
            part = flat[place : place + prod(shape)]
            found[name] = part.reshape(shape).copy() if shape else float(part[0])
            place += prod(shape)
        return found

    def read(self, values: Mapping[str, float], ending: str = "") -> dict[str, Any] | None:
        """What `written` has written with the same ending; None if some of it is missing."""
        keys = written(self.named(np.zeros(self.size)), ending)
        return self.named(np.array([values[key] for key in keys], dtype=float)) if keys.keys() <= values.keys() else None


def too_many(number: int) -> str:
    """Why so many parameters have no standard errors."""
    return f"There are {number:,} parameters, and standard errors are computed for at most {MOST_WITH_ERRORS:,}."


def refuse_sketch(data: Source, name: str) -> None:
    """Raise if the data are a sketch, which holds sums of one temperature only."""
    if isinstance(data, Sketch):
        raise InputError(
            f"`X` must not be a sketch for {name}: a sketch holds sums that determine one temperature, but not several "
            "parameters. Pass the logits themselves."
        )


def written(parameters: Mapping[str, Any], ending: str = "") -> dict[str, float]:
    """Parameters as one number per entry, numbered where there are several: ``scale_se``, ``biases_se.3``."""
    return {
        f"{name}{ending}{f'.{i}' if np.ndim(value) else ''}": float(each)
        for name, value in parameters.items()
        for i, each in enumerate(np.ravel(value))
    }
