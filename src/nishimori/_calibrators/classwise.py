"""A temperature per class: the logit of each class is multiplied by a factor of its own."""

from typing import Any, Self

import numpy as np

from nishimori._calibrators.scaling import AffineScaling
from nishimori._support.arrays import HostArray


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
        which the temperature of temperature scaling is 1. "auto" chooses it by marginal likelihood, see docs/affine.md. None
        and 0 mean no penalty; then there are standard errors.
    preserve_accuracy : bool
        Whether samples whose predicted class would change are calibrated by temperature scaling instead.
    input, classes, floor
        As for `ExpectationConsistency`.

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
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`.

    See Also
    --------
    GroupConsistency : one temperature per predicted class, which never changes a prediction.
    VectorScaling : a factor and a bias per class.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import ClasswiseTemperature
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(4000, 3))
    >>> centred = logits - logits.mean(axis=1, keepdims=True)
    >>> labels = (centred / [2, 2, 1] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> ClasswiseTemperature().fit(logits, labels).temperatures_.round(2)
    array([1.91, 1.9 , 1.05])
    """

    is_matrix = False
    has_bias = False
    temperatures_: HostArray

    def _describe(self, errors: Any) -> Self:
        super()._describe(errors)
        scale = self.parameters_["scale"]
        self.temperatures_ = np.divide(1.0, scale, out=np.full_like(scale, np.nan), where=scale > 0)
        return self
