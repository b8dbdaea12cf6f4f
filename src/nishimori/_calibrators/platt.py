"""Platt scaling, and its extension by a square: polynomials of the log-odds."""

from collections.abc import Mapping

import numpy as np

from nishimori._calibrators.binary import BinaryCalibrator
from nishimori.maps.affine import Affine
from nishimori.maps.log_odds import LogOdds


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
    input, classes, floor
        As for `ExpectationConsistency`. For ``input="probabilities"``, s is ln p − ln(1 − p).

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
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`. The map is an `Affine`.

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


class Quadratic(BinaryCalibrator):
    """Quadratic scaling: the calibrated log-odds are square·s² + slope·s + intercept.

    Here s are the log-odds that the scores give to the second class. The parameters have the least cross-entropy. The map need
    not increase with s: beyond its vertex at s = −slope/(2·square), a larger score means a smaller probability. Predictions may
    change.

    Parameters
    ----------
    smooth_labels, input, classes, floor
        As for `Platt`.

    Attributes
    ----------
    parameters_ : dict of float
        "square", "slope" and "intercept".
    parameters_se_, why_no_se_, residual_
        As for `Platt`.
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`. The map is a `LogOdds`.

    See Also
    --------
    Platt : the same without a square.
    Beta : bends the other way to the left and to the right of zero, and always increases.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import Quadratic
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

    @property
    def _terms(self) -> dict[str, str]:
        return {"square": "s²", "slope": "s", "intercept": "1"}

    def _map_for(self, parameters: Mapping[str, float]) -> LogOdds:
        return LogOdds(parameters["slope"], parameters["slope"], parameters["intercept"], parameters["square"])
