"""The curvature of a large matrix, taken for a Kronecker product: posterior variances, and units in which a search is short.

A matrix for K classes has K² + K parameters, too many for their curvature to be held where K is large. The product of two
matrices with K rows stands in for it. It is approximate for the factors off the diagonal; the curvature by the diagonal and the
biases is exact, because it takes only 2K rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nishimori._fit.affine.cholesky import Cholesky
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

    def near(self, strengths: HostArray) -> "Kronecker":
        """The curvature at the same point with other strengths, if these differ little: the unit of the biases stays the same.

        It takes no time, because both factors stay the same. It is to search with; variances need the unit.
        """
        made = Kronecker(self.parameters, self.sums, strengths)
        vars(made).update(_units=self._units, _class_axes=self._class_axes, _input_axes=self._input_axes)
        return made

    @cached_property
    def _class_axes(self) -> tuple[HostArray, HostArray]:
        """Eigenvalues and eigenvectors of the factor of the classes."""
        sizes, axes = np.linalg.eigh(self.sums.classes)
        return np.maximum(sizes, 0), axes

    @cached_property
    def _input_axes(self) -> tuple[HostArray, HostArray]:
        """Eigenvalues and eigenvectors of the factor of the inputs."""
        sizes, axes = np.linalg.eigh(self.sums.inputs / max(self.sums.told, _TINY) * self._units[:, None] * self._units)
        return np.maximum(sizes, 0), axes

    @cached_property
    def _roots(self) -> HostArray:
        """One over the square roots of the eigenvalues of the curvature with its penalty."""
        sizes = self._class_axes[0][:, None] * self._input_axes[0] + self.strengths[1]
        roots: HostArray = 1 / np.sqrt(np.maximum(sizes, _TINY + 1e-10 * sizes.max()))
        return roots

    @cached_property
    def _single(self) -> tuple[HostArray, ...]:
        """Axes, roots and units as float32."""
        tables = (self._class_axes[1], self._input_axes[1], self._roots, self._units)
        return tuple(each.astype(np.float32) for each in tables)

    def _tables(self, vector: HostArray) -> tuple[HostArray, ...]:
        """Axes, roots and units in the precision of a vector."""
        return (
            self._single if vector.dtype == np.float32 else (self._class_axes[1], self._input_axes[1], self._roots, self._units)
        )

    @property
    def variances(self) -> HostArray:
        """The posterior variance of each parameter; zero for β, which has no penalty."""
        n = self.parameters.n_classes
        class_axes, input_axes = self._class_axes[1], self._input_axes[1]
        found = np.zeros(self.parameters.size)
        found[1 : 1 + n * n] = ((class_axes**2 @ self._roots**2) @ (input_axes**2).T)[:, :n].ravel()
        simple = Parameters(n, is_matrix=False)
        hessian, precisions = simple.hessian(self.sums.diagonal), simple.precisions(self.strengths[[0, 2]])
        factor = Cholesky.of(hessian, precisions)
        if factor is None:  # penalties are too small to be seen beside the curvature
            exact = np.diag(np.linalg.pinv(hessian + np.diag(precisions), hermitian=True))
        else:
            exact = factor.inverse_diagonal()
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
        class_axes, input_axes, roots, units = self._tables(z)
        table = (class_axes @ (roots * z[1:].reshape(n, n + 1)) @ input_axes.T) * units
        return np.concatenate([z[:1] * z.dtype.type(self._beta_unit), table[:, :n].ravel(), table[:, n]])

    def gradient(self, by_parameter: HostArray) -> HostArray:
        """The derivative by z, from that by each parameter."""
        n = self.parameters.n_classes
        class_axes, input_axes, roots, units = self._tables(by_parameter)
        table = np.column_stack([by_parameter[1 : 1 + n * n].reshape(n, n), by_parameter[1 + n * n :]]) * units
        by_z = roots * (class_axes.T @ table @ input_axes)
        return np.concatenate([by_parameter[:1] * by_parameter.dtype.type(self._beta_unit), by_z.ravel()])

    def solve(self, gradient: HostArray) -> HostArray:
        """The change of the parameters whose product with the approximate curvature is a gradient."""
        return self.step(self.gradient(gradient))


_TINY = 1e-300
