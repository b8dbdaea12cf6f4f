"""Ensemble temperature scaling (ETS): a mixture of calibrated, original and uniform probabilities."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from nishimori._calibrators.calibrator import Calibrator, fit_rows
from nishimori._calibrators.parameters import Layout, flat_entries, read_errors
from nishimori._fit.mixture import best_weights, standard_errors
from nishimori._fit.search import find_roots
from nishimori._methods.fitted_method import label_name
from nishimori._methods.table import Traits
from nishimori._rows.rows import Rows
from nishimori._sums.observables import Energy
from nishimori.maps.mixture import Mixture

_LAYOUT = Layout((("temperature", ()), ("weights", (3,))))

_ON_THE_BOUNDARY = (
    "A weight is zero, the least that it can be. The estimate of a parameter at its limit is not normally distributed, so that "
    "a standard error would not describe it."
)
_SAME = (
    "The temperature is so close to 1 that two components of the mixture are almost the same: the data do not determine their "
    "weights."
)


@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureMixture(Calibrator):
    """Mix the probabilities at the temperature of temperature scaling with those of the model and with uniform ones.

    p = w₁·softmax(z/T) + w₂·softmax(z) + w₃/K for K classes (Zhang, Kailkhura and Han 2020). T is that of temperature scaling.
    The weights are not negative, sum to 1, and have the least cross-entropy. The share of uniform probabilities keeps the
    loss finite where a confident model is wrong. Predictions do not change.

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
    weights_ : array of shape (3,)
        w₁, w₂ and w₃. Exactly zero where a component does not lower the loss.
    ts_ : float
        T, the temperature of temperature scaling.
    parameters_ : dict
        Both: "temperature", and "weights" of shape (3,).
    parameters_se_ : dict, or None
        Their standard errors, if all weights are positive. Those of the weights contain the uncertainty of T.
    why_no_se_ : str or None
        Why there are none.
    residual_ : float
        What is left of the conditions: the mean over samples of the probability of the label under component k, divided by
        that under the mixture, is 1 for each component of positive weight and at most 1 for the others. The mean cross-entropy
        exceeds the least one by at most this.
    map_ : Mixture
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
        From `fit`, if there is no temperature of temperature scaling, as where all samples are classified correctly.

    See Also
    --------
    TemperatureScaling : the first component alone.

    Notes
    -----
    Masked classes (logits of -inf) keep probability zero: K is the number of unmasked classes of each row. ``clusters`` and
    ``counts`` of `fit` change the standard errors only.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori.calibrators import TemperatureMixture
    >>> rng = np.random.default_rng(0)
    >>> logits = 5 * rng.normal(size=(4000, 3))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> labels[:400] = rng.integers(3, size=400)  # a tenth of the labels is random
    >>> calibrator = TemperatureMixture().fit(logits, labels)
    >>> print(f"T = {calibrator.ts_:.2f}, weights {calibrator.weights_.round(2)}")
    T = 2.79, weights [0.7  0.24 0.05]
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=True, streams=True, from_sketch=False, error_bars=True)

    fit = fit_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose temperature and weights from ``data``, which are the rows of ``X``."""
        matched = find_roots(data, Energy(), label_name=label_name(X))
        temperature, fit_info = matched.solution(0)
        mixture = best_weights(data, temperature)
        is_inside = bool(mixture.weights.all())
        errors = standard_errors(data, temperature, mixture.weights) if is_inside else None
        estimates = {} if errors is None else flat_entries(_LAYOUT.by_name(errors), "_se")
        map_ = Mixture(temperature, mixture.weights)
        n_passes = fit_info.n_passes + mixture.n_passes + 2 * is_inside
        return self.learn(X, data, map_, fit_info.n_samples, mixture.residual, estimates=estimates, n_passes=n_passes)

    def _show(self) -> None:
        assert isinstance(self.map_, Mixture)
        self.ts_, self.weights_ = self.map_.temperature, self.map_.weights
        self.parameters_ = {"temperature": self.ts_, "weights": self.weights_}
        # There are errors if there can be any, so that weights inside the limits without errors are not determined.
        reason = _SAME if self.weights_.all() else _ON_THE_BOUNDARY
        self.parameters_se_, self.why_no_se_ = read_errors(self._estimates_ or {}, _LAYOUT, reason)
