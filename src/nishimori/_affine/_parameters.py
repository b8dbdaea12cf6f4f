"""The parameters of an affine map as one flat array: one temperature, and the departures from it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nishimori._affine._sums import LossSums, Point
from nishimori._array import HostArray

DIAGONAL, OFF_DIAGONAL, BIAS = "diagonal", "off_diagonal", "bias"


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
    """

    n_classes: int
    is_matrix: bool

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks of departures that are penalised alike."""
        return (DIAGONAL, OFF_DIAGONAL, BIAS) if self.is_matrix else (DIAGONAL, BIAS)

    @property
    def n_scale(self) -> int:
        """How many departures the scale has."""
        return self.n_classes ** (2 if self.is_matrix else 1)

    @property
    def size(self) -> int:
        """How many numbers there are, β included."""
        return 1 + self.n_scale + self.n_classes

    @cached_property
    def members(self) -> tuple[HostArray, ...]:
        """The places of each block in the array."""
        scale = 1 + np.arange(self.n_scale)
        bias = 1 + self.n_scale + np.arange(self.n_classes)
        if not self.is_matrix:
            return scale, bias
        is_diagonal = np.eye(self.n_classes, dtype=bool).ravel()
        return scale[is_diagonal], scale[~is_diagonal], bias

    def start(self) -> HostArray:
        """One temperature."""
        theta = np.zeros(self.size)
        theta[0] = 1.0
        return theta

    def precisions(self, strengths: HostArray) -> HostArray:
        """The strength with which each parameter is penalised; that of β is zero."""
        found = np.zeros(self.size)
        for places, strength in zip(self.members, strengths, strict=True):
            found[places] = strength
        return found

    def point(self, theta: HostArray, temperature: float) -> Point:
        """The affine map of these parameters."""
        departures, bias = theta[1 : 1 + self.n_scale], theta[1 + self.n_scale :]
        if not self.is_matrix:
            return Point(temperature, theta[0] + departures, bias)
        return Point(temperature, theta[0] * np.eye(self.n_classes) + departures.reshape(2 * (self.n_classes,)), bias)

    def gradient(self, sums: LossSums) -> HostArray:
        """The derivative of the loss by each parameter."""
        by_beta = np.trace(sums.by_scale) if self.is_matrix else sums.by_scale.sum()
        return np.concatenate([[by_beta], sums.by_scale.ravel(), sums.by_bias])

    def hessian(self, departures: HostArray) -> HostArray:
        """The second derivatives by each parameter, from those by the departures: β moves the diagonal as a whole."""
        together = departures[self.members[0] - 1].sum(axis=0)
        corner = together[self.members[0] - 1].sum()
        return np.block([[np.array([[corner]]), together[None, :]], [together[:, None], departures]])
