"""Dirichlet calibration: an affine map of log-probabilities, held close to one temperature by penalties."""

from collections.abc import Sequence

import numpy as np

from nishimori._calibrators.scaling import AffineScaling, Penalty
from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.sums import AffinePoint
from nishimori._rows.labels import Classes
from nishimori._rows.scores import Floor, Input
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.affine import LogAffine
from nishimori.maps.map import Map


class Dirichlet(AffineScaling):
    """Multiply log-probabilities by a matrix and add a bias per class; departures from one temperature are penalised.

    u_i = Σ_j matrix_ij·log p_j + bias_i, where p is the softmax of the logits (Kull et al. 2019). It differs from
    `MatrixScaling` by the logarithm of the partition function, log Σ_j exp(z_j), which the sum of each row of the matrix
    multiplies: one more direction per class. The map has the least cross-entropy plus penalties λ/2·Σθ² of the departures θ
    from one temperature, as for `MatrixScaling`, or the penalties of Kull et al. Predictions may change.

    Parameters
    ----------
    penalty : "auto", float, three floats, or None
        The strengths λ of the penalties of diagonal, off-diagonal entries and biases, as for `MatrixScaling`. None and 0 mean
        no penalty; then there are standard errors.
    odir : pair of floats, optional
        The strengths (λ, μ) of off-diagonal and intercept regularisation, in place of ``penalty``, in the convention of the
        package dirichletcal: mean cross-entropy + λ·Σ_{i≠j} matrix_ij² + μ·Σ_i bias_i². The diagonal is free. The published
        form divides λ by K(K − 1) and μ by K, for K classes.
    preserve_accuracy : bool
        Whether samples whose predicted class would change are calibrated by temperature scaling instead.
    input, classes, floor
        As for `ExpectationConsistency`. Where the model gives probabilities, pass ``input="probabilities"``.

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
    map_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_
        As for `ExpectationConsistency`.

    See Also
    --------
    MatrixScaling : the same with centred logits in place of log-probabilities.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> fitted = nishimori.Dirichlet().fit(network.validation.logits, network.validation.labels)
    >>> found = nishimori.evaluate(network.test.logits, network.test.labels, calibrator=fitted)
    >>> print(f"error {found.error:.1%}, NLL {found.nll:.3f}")
    error 12.4%, NLL 0.370
    """

    is_matrix = True
    of_log = True

    def __init__(
        self,
        *,
        penalty: Penalty = "auto",
        odir: Sequence[float] | None = None,
        preserve_accuracy: bool = False,
        input: Input | None = None,
        classes: Classes = None,
        floor: Floor = "auto",
    ) -> None:
        super().__init__(penalty=penalty, preserve_accuracy=preserve_accuracy, input=input, classes=classes, floor=floor)
        self.odir = odir

    def _strengths(self, parameters: Parameters, temperature: float, weight: float) -> HostArray | None:
        if self.odir is None:
            return super()._strengths(parameters, temperature, weight)
        if not isinstance(self.penalty, str) or self.penalty != "auto":
            raise InputError("penalty", "be left out where `odir` is given", got=repr(self.penalty))
        off_diagonal, bias = _pair(self.odir)
        # The mean over samples becomes a sum, λθ² becomes λ/2·θ², and factors are in units of one over the temperature.
        return 2 * weight * np.array([0.0, off_diagonal / temperature**2, bias])

    def _map(self, point: AffinePoint, fallback: float | None) -> Map:
        return LogAffine(point.scale / point.temperature, point.bias, fallback)

    def _map_parameters(self) -> dict[str, HostArray]:
        assert isinstance(self.map_, LogAffine)
        return {"matrix": self.map_.matrix, "bias": self.map_.bias}


def _pair(odir: object) -> tuple[float, float]:
    """The two strengths that a user passed."""
    try:
        given = np.asarray(odir)
    except ValueError:  # lists of different lengths
        given = np.array("")
    strengths = given.astype(float) if given.dtype.kind in "iuf" else np.array(np.nan)
    if strengths.shape != (2,) or not (np.isfinite(strengths).all() and (strengths >= 0).all()):
        raise InputError("odir", "be two numbers that are not negative, (λ, μ)", got=repr(odir))
    return float(strengths[0]), float(strengths[1])
