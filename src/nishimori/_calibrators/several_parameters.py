"""Calibrators with several parameters: each is a family of maps, and as many observables whose means must agree."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.parameters import MOST_WITH_ERRORS, Layout, flat_entries, read_errors, refuse_sketch, too_many
from nishimori._fit.conditions import gap_products, refuse_masks, sandwich
from nishimori._fit.features import CheckFeatures, Family, MatchFeatures
from nishimori._fit.newton import solve
from nishimori._fit.search import match
from nishimori._methods.record import Record
from nishimori._rows.rows import counts_in, refuse_counted_clusters
from nishimori._sums.observables import Energy
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.map import Map


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
    ...         return nishimori.maps.Affine(parameters["scale"], biases)
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        clusters: Any = None,
        counts: bool = False,
        ignore_index: int | None = None,
    ) -> Self:
        """Choose the parameters from validation logits ``X`` and labels ``y``; arguments as for `ExpectationConsistency`.

        Raises
        ------
        NotConvergedError
            If no finite parameters satisfy the conditions, or if two parameters have the same effect.
        """
        data = self.rows_from(X, y, sample_weight, clusters, ignore_index=ignore_index)
        counts = counts or counts_in(data)
        refuse_sketch(data, type(self).__name__)
        refuse_counted_clusters(data, counts=counts)
        matched = match(data, Energy(), label_name=self.label_name(X), counts=counts)
        refuse_masks(matched.census.n_masked > 0)
        temperature, receipt = matched.solution(0)
        layout, start = Layout.of(self.start(data.n_classes, temperature), type(self).__name__)
        family = self._family(layout, data.n_classes)
        data.gather(CheckFeatures(family, start))
        found = solve(lambda x: data.gather(MatchFeatures(family, x)).equations, start)
        errors = None
        if layout.size <= MOST_WITH_ERRORS:
            products = gap_products(data, MatchFeatures(family, found.x).gaps_of, counts=counts) / matched.census.weight**2
            errors = np.sqrt(np.diag(sandwich(found.equations.jacobian, products)))
        parameters = layout.by_name(found.x)
        self.learn(X, data, self.map_for(parameters, data.n_classes), receipt.n_samples, found.residual)
        self.n_passes_ = receipt.n_passes + 1 + found.readings + (errors is not None)
        self.parameters_ = parameters
        self.parameters_se_ = None if errors is None else layout.by_name(errors)
        self.why_no_se_ = None if errors is not None else too_many(layout.size)
        return self

    def _family(self, layout: Layout, n_classes: int) -> Family:
        is_own = type(self).observables is not SeveralParameters.observables
        observables = self.observables if is_own else None
        return Family(type(self).__name__, _MapFor(self, layout, n_classes), self.features, observables)

    def estimates(self) -> dict[str, float] | None:
        """The parameters and their standard errors, one number per entry."""
        return flat_entries(self.parameters_) | flat_entries(self.parameters_se_ or {}, "_se")

    def restore(self, record: Record) -> Self:
        """Become what ``record`` describes, ready to use."""
        super().restore(record)
        layout, _ = Layout.of(self.start(self.n_features_in_, 1.0), type(self).__name__)
        self.parameters_ = layout.read(record.provenance.estimates or {}) or {}
        self.parameters_se_, self.why_no_se_ = read_errors(record, layout)
        return self


@dataclass(frozen=True)
class _MapFor:
    """The map with parameters in a flat array, as something that can be sent to other processes."""

    calibrator: SeveralParameters
    layout: Layout
    n_classes: int

    def __call__(self, x: HostArray) -> Map:
        map_ = self.calibrator.map_for(self.layout.by_name(x), self.n_classes)
        if not isinstance(map_, Map):
            raise InputError(f"{type(self.calibrator).__name__}.map_for", "return a nishimori.Map", got=repr(map_))
        return map_
