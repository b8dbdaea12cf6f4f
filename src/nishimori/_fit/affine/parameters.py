"""The parameters of an affine map as a flat array: one temperature and penalised departures from it.

Departures of a block are taken for draws from a normal distribution of mean 0 and precision λ, the strength of the penalty
λ/2·Σθ². The marginal likelihood of the data is highest where λ = γ/Σθ², with γ = number of departures − λ·(sum of their
posterior variances), the number of departures that the data determine (D. MacKay, Neural Computation 4, 415, 1992). Few data
often have their maximum at λ = ∞ or at a λ that is far too small. Therefore λ has a prior, worth `PSEUDO` departures, around
a usual value: λ = (γ + ν)/(Σθ² + ν/usual).

The usual value is relative to what the data say, the curvature of the loss by a departure, averaged over a block and taken at
one temperature: λ = curvature·(I₀/I)³. I is the mean curvature by a bias, Σp(1 − p) per class: about the number of uncertain
rows that each class has. At I₀ = `INFORMATION` the prior and the data count alike. With fewer data it would cost more to trust
a departure that is not there than to miss one. With many data λ is at least `LEAST`: departures of networks are seldom much
larger than 1/√λ. Off-diagonal departures are penalised ten times as much as others, because there are many of them. All
constants were chosen on networks of ten and a hundred classes; bench/studies/affine.py shows what they do.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nishimori._fit.affine.sums import AffinePoint, LossSums
from nishimori._support.arrays import HostArray

DIAGONAL = "diagonal"
OFF_DIAGONAL = "off_diagonal"
BIAS = "bias"

PSEUDO = 4.0
"""The weight of a strength's prior, as a number of departures."""

INFORMATION = 10.0
"""The mean curvature by a bias at which penalties usually equal the information in the data."""

LEAST = {DIAGONAL: 30.0, OFF_DIAGONAL: 100.0, BIAS: 2.0}
"""Usual strengths for large data sets: for departures of 0.18, 0.1 and 0.7."""

OFF_DIAGONAL_FACTOR = 10.0
"""The usual extra factor for penalties on off-diagonal departures, relative to their curvature."""

# Beyond this a departure is zero to all digits that matter, below it is free.
_LEAST, _MOST = 1e-6, 1e12


@dataclass(frozen=True)
class Parameters:
    """The order of the parameters: β first, then the departures of the scale, row by row, then the biases.

    scale = β·1 + departures, in units in which β = 1 is the temperature that fits best alone. β is free; departures may be
    penalised, a strength per block.

    Attributes
    ----------
    n_classes : int
        K.
    is_matrix : bool
        Whether the departures of the scale are a matrix (K², of which K are diagonal) or a diagonal only (K).
    has_bias : bool
        Whether there are biases; without them all are zero.
    of_log : bool
        Whether the scale multiplies logarithms of probabilities in place of centred logits.
    has_scale : bool
        Whether the scale departs from β; without departures there is one factor for all classes.
    """

    n_classes: int
    is_matrix: bool
    has_bias: bool = True
    of_log: bool = False
    has_scale: bool = True

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks of departures that share a penalty."""
        scale = [DIAGONAL, OFF_DIAGONAL][: 1 + self.is_matrix] if self.has_scale else []
        return (*scale, *([BIAS] if self.has_bias else []))

    @property
    def n_scale(self) -> int:
        """How many departures the scale has."""
        return self.n_classes ** (2 if self.is_matrix else 1) if self.has_scale else 0

    @property
    def size(self) -> int:
        """How many numbers there are, β included."""
        return 1 + self.n_scale + self.n_classes * self.has_bias

    @cached_property
    def members(self) -> tuple[HostArray, ...]:
        """The places of each block in the array."""
        scale = 1 + np.arange(self.n_scale)
        biases = [1 + self.n_scale + np.arange(self.n_classes)] if self.has_bias else []
        if not self.has_scale:
            return tuple(biases)
        if not self.is_matrix:
            return scale, *biases
        is_diagonal = np.eye(self.n_classes, dtype=bool).ravel()
        return scale[is_diagonal], scale[~is_diagonal], *biases

    def start(self) -> HostArray:
        """One temperature."""
        theta = np.zeros(self.size)
        theta[0] = 1.0
        return theta

    def precisions(self, strengths: HostArray) -> HostArray:
        """The penalty strength of each parameter; zero for β."""
        precisions = np.zeros(self.size)
        for places, strength in zip(self.members, strengths, strict=True):
            precisions[places] = strength
        return precisions

    def point(self, theta: HostArray, temperature: float) -> AffinePoint:
        """The affine map of these parameters."""
        n = self.n_classes
        departures = theta[1 : 1 + self.n_scale] if self.has_scale else np.zeros(n)
        bias = theta[1 + self.n_scale :] if self.has_bias else np.zeros(n)
        scale = theta[0] * np.eye(n) + departures.reshape(n, n) if self.is_matrix else theta[0] + departures
        return AffinePoint(temperature, scale, bias, self.of_log)

    def gradient(self, sums: LossSums) -> HostArray:
        """The derivative of the loss by each parameter."""
        by_beta = np.trace(sums.by_scale) if self.is_matrix else sums.by_scale.sum()
        by_scale: HostArray = sums.by_scale.ravel()[: self.n_scale]
        return np.concatenate([[by_beta], by_scale, sums.by_bias])[: self.size]

    def hessian(self, departures: HostArray) -> HostArray:
        """The second derivatives by each parameter, from the ones by all factors and biases: β moves the whole diagonal."""
        diagonal = np.arange(self.n_classes) * (self.n_classes + 1 if self.is_matrix else 1)
        together = departures[diagonal].sum(axis=0)
        first = len(departures) - self.n_classes if not self.has_scale else 0
        kept = slice(first, first + self.size - 1)
        hessian: HostArray = np.empty((self.size, self.size))
        hessian[0, 0] = together[diagonal].sum()
        hessian[0, 1:] = hessian[1:, 0] = together[kept]
        hessian[1:, 1:] = departures[kept, kept]
        return hessian

    def effects(self, direction: HostArray, equal: HostArray) -> HostArray:
        """How much the logits of each class change along a direction, squared and summed over rows up to a common factor.

        ``equal`` are the second derivatives by all factors and biases where all classes are equally probable.
        """
        n, change = self.n_classes, self.point(direction, 1.0)
        factors = np.reshape(change.scale, (n, -1))
        width = factors.shape[1]
        by_class = np.concatenate([factors, change.bias[:, None]], axis=1)
        places = np.column_stack([np.arange(n * width).reshape(n, width), n * width + np.arange(n)])
        return np.array([axis @ equal[np.ix_(own, own)] @ axis for axis, own in zip(by_class, places, strict=True)])


def usual_strengths(parameters: Parameters, seconds: HostArray) -> HostArray:
    """The centre of the prior of each strength, from the second derivatives by all factors and biases at one temperature."""
    names = parameters.blocks
    curvatures = np.array([seconds[places - 1].mean() for places in parameters.members])
    factors = np.array([OFF_DIAGONAL_FACTOR if name == OFF_DIAGONAL else 1.0 for name in names])
    information = max(float(seconds[-parameters.n_classes :].mean()), _LEAST)
    usual = factors * curvatures * (INFORMATION / information) ** 3
    return np.clip(np.maximum(usual, [LEAST[name] for name in names]), _LEAST, _MOST)


def fitting_strengths(
    parameters: Parameters, theta: HostArray, variances: HostArray, strengths: HostArray, usual: HostArray
) -> tuple[HostArray, HostArray]:
    """The strengths that maximise marginal likelihood times prior, and how many departures per block the data determine.

    The departures ``theta`` at the strengths so far, and their posterior variances, are taken to stay as they are.
    """
    squares = np.array([np.sum(theta[places] ** 2) for places in parameters.members])
    uncertain = np.array([np.sum(variances[places]) for places in parameters.members])
    numbers = np.array([len(places) for places in parameters.members])
    determined = np.clip(numbers - strengths * uncertain, 0, numbers)
    return np.clip((determined + PSEUDO) / (squares + PSEUDO / usual), _LEAST, _MOST), determined
