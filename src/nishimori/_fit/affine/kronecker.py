"""The curvature of a large matrix, taken for a Kronecker product: posterior variances, and units in which a search is short.

A matrix for K classes has K² + K parameters, too many for their curvature to be held where K is large. The product of two
matrices with K rows stands in for it. It is approximate for the factors off the diagonal; the curvature by the diagonal and the
biases is exact, because it takes only 2K rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.sums import FactorSums
from nishimori._support.arrays import HostArray


@dataclass(frozen=True, eq=False)
class Kronecker:
    """The approximate curvature of all parameters of a matrix at one point, and the strengths of their penalties."""

    parameters: Parameters
    sums: FactorSums
    strengths: HostArray

    @cached_property
    def _units(self) -> HostArray:
        """What each input is multiplied with, so that all departures are penalised as those off the diagonal."""
        _, off_diagonal, bias = self.strengths
        units = np.ones(self.parameters.n_classes + 1)
        units[-1] = np.sqrt(max(off_diagonal, _TINY) / max(bias, _TINY))
        return units

    @cached_property
    def _axes(self) -> tuple[HostArray, HostArray, HostArray, HostArray]:
        """Eigenvalues and eigenvectors of both factors."""
        classes, class_axes = np.linalg.eigh(self.sums.classes)
        inputs = self.sums.inputs / max(self.sums.told, _TINY) * self._units[:, None] * self._units
        input_sizes, input_axes = np.linalg.eigh(inputs)
        return np.maximum(classes, 0), class_axes, np.maximum(input_sizes, 0), input_axes

    @cached_property
    def _roots(self) -> HostArray:
        """One over the square roots of the eigenvalues of the curvature with its penalty."""
        classes, _, inputs, _ = self._axes
        sizes = classes[:, None] * inputs + self.strengths[1]
        roots: HostArray = 1 / np.sqrt(np.maximum(sizes, _TINY + 1e-10 * sizes.max()))
        return roots

    @property
    def variances(self) -> HostArray:
        """The posterior variance of each parameter; zero for β, which has no penalty."""
        n = self.parameters.n_classes
        _, class_axes, _, input_axes = self._axes
        found = np.zeros(self.parameters.size)
        found[1 : 1 + n * n] = ((class_axes**2 @ self._roots**2) @ (input_axes**2).T)[:, :n].ravel()
        simple = Parameters(n, is_matrix=False)
        hessian = simple.hessian(self.sums.diagonal)
        hessian[np.diag_indices_from(hessian)] += simple.precisions(self.strengths[[0, 2]])
        exact = np.diag(np.linalg.pinv(hessian, hermitian=True))
        for places, simple_places in zip((self.parameters.members[0], self.parameters.members[2]), simple.members, strict=True):
            found[places] = exact[simple_places]
        return found

    @cached_property
    def _beta_unit(self) -> float:
        """One over the square root of the curvature by β."""
        n = self.parameters.n_classes
        return float(1 / np.sqrt(max(self.sums.diagonal[:n, :n].sum(), _TINY)))

    def step(self, z: HostArray) -> HostArray:
        """The change of the parameters that ``z`` stands for: in z the curvature is about one in all directions."""
        n = self.parameters.n_classes
        _, class_axes, _, input_axes = self._axes
        table = (class_axes @ (self._roots * z[1:].reshape(n, n + 1)) @ input_axes.T) * self._units
        return np.concatenate([[self._beta_unit * z[0]], table[:, :n].ravel(), table[:, n]])

    def gradient(self, by_parameter: HostArray) -> HostArray:
        """The derivative by z, from that by each parameter."""
        n = self.parameters.n_classes
        _, class_axes, _, input_axes = self._axes
        table = np.column_stack([by_parameter[1 : 1 + n * n].reshape(n, n), by_parameter[1 + n * n :]]) * self._units
        by_z = self._roots * (class_axes.T @ table @ input_axes)
        return np.concatenate([[self._beta_unit * by_parameter[0]], by_z.ravel()])


_TINY = 1e-300
