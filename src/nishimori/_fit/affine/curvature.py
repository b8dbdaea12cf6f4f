"""The curvature of the loss of affine maps: its factor, the directions along which it vanishes, and a stand-in for large ones.

`Cholesky` gives Newton's steps and posterior variances where the curvature can be held.

`Directions` tell which changes of the parameters change probabilities at all, and by how much. Some have no effect on any row:
one bias for all classes, or the same row added to all rows of a matrix. They are found where all classes are equally probable:
there the curvature vanishes along them alone, and along every other direction it is as large as it can be. So whether the
curvature vanishes elsewhere, as it does where classes are separated perfectly, is a comparison of two matrices, for which
neither the units nor the number of the parameters matter.

`Kronecker` is for large matrices. One for K classes has K² + K parameters, too many for their curvature to be held where K is
large. The product of two matrices with K rows stands in for it. It is approximate for the factors off the diagonal; the
curvature by the diagonal and the biases is exact, because it takes only 2K rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import get_lapack_funcs

from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.sums import FactorSums
from nishimori._support.arrays import HostArray


@dataclass(frozen=True, eq=False)
class Cholesky:
    """The lower factor L of a symmetric matrix LLᵀ."""

    lower: HostArray

    @classmethod
    def from_matrix(cls, matrix: HostArray, added: HostArray) -> "Cholesky | None":
        """The factor of a matrix to whose diagonal something is added; None if rounding hides that it is positive."""
        total = matrix.copy()
        total[np.diag_indices_from(total)] += added
        (factorise,) = get_lapack_funcs(("potrf",), (total,))
        lower, failed = factorise(total.T, lower=True, overwrite_a=True)
        return None if failed else cls(lower)

    def solve(self, right: HostArray) -> HostArray:
        """The inverse of the matrix times a vector."""
        (solve,) = get_lapack_funcs(("potrs",), (self.lower,))
        solution: HostArray = solve(self.lower, right, lower=True)[0]
        return solution.reshape(right.shape)

    def inverse_diagonal(self) -> HostArray:
        """The diagonal of the inverse of the matrix, in float64."""
        (invert,) = get_lapack_funcs(("trtri",), (self.lower,))
        inverse, _ = invert(self.lower, lower=True)
        squares: HostArray = np.square(inverse, out=inverse).sum(axis=0, dtype=np.float64)
        return squares


# Curvature along a direction without effect is rounding: m parameters of the size 1 leave about m units in the last place. So
# is the input of a parameter that is smaller than others by this factor.
_NO_EFFECT = 1e-12


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions of m parameters.

    Attributes
    ----------
    basis : array of shape (m, r)
        Those with an effect: along each of them the curvature at equal probabilities is 1, and each pair has none in common.
    without_effect : array of shape (m, m - r)
        The others, in units in which the curvature of each parameter at equal probabilities is 1.
    """

    basis: HostArray
    without_effect: HostArray

    @classmethod
    def from_curvature(cls, curvature: HostArray) -> "Directions":
        """The directions from the curvature where all classes are equally probable, with that of penalties."""
        sizes = np.sqrt(np.diag(curvature))
        units = 1 / np.where(sizes > _NO_EFFECT * sizes.max(), sizes, sizes.max())
        values, axes = np.linalg.eigh(curvature * units * units[:, None])
        kept = values > _NO_EFFECT * values[-1]
        axes = axes * units[:, None]
        return cls(axes[:, kept] / np.sqrt(values[kept]), axes[:, ~kept])

    def compare(self, curvature: HostArray) -> tuple[HostArray, HostArray]:
        """How large a curvature is, relative to that at equal probabilities, in increasing order, and along which axes."""
        values, axes = np.linalg.eigh(self.basis.T @ curvature @ self.basis)
        return values, self.basis @ axes

    def shortest(self, change: HostArray) -> HostArray:
        """The shortest of all changes that have the same effect, column by column."""
        gauge = np.linalg.qr(self.without_effect)[0]
        kept: HostArray = change - gauge @ (gauge.T @ change)
        return kept

    def inverse(self, curvature: HostArray) -> HostArray:
        """The inverse of a curvature that vanishes along no direction with an effect; along the others it is zero."""
        values, axes = self.compare(curvature)
        axes = self.shortest(axes)
        return (axes / values) @ axes.T


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
        curvature = Kronecker(self.parameters, self.sums, strengths)
        vars(curvature).update(_units=self._units, _class_axes=self._class_axes, _input_axes=self._input_axes)
        return curvature

    @cached_property
    def _class_axes(self) -> tuple[HostArray, HostArray]:
        """Eigenvalues and eigenvectors of the factor of the classes."""
        sizes, axes = np.linalg.eigh(self.sums.classes)
        return np.maximum(sizes, 0), axes

    @cached_property
    def _input_axes(self) -> tuple[HostArray, HostArray]:
        """Eigenvalues and eigenvectors of the factor of the inputs."""
        sizes, axes = np.linalg.eigh(self.sums.inputs / max(self.sums.information, _TINY) * self._units[:, None] * self._units)
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
        return tuple(table.astype(np.float32) for table in tables)

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
        variances = np.zeros(self.parameters.size)
        variances[1 : 1 + n * n] = ((class_axes**2 @ self._roots**2) @ (input_axes**2).T)[:, :n].ravel()
        simple = Parameters(n, is_matrix=False)
        hessian, precisions = simple.hessian(self.sums.diagonal), simple.precisions(self.strengths[[0, 2]])
        factor = Cholesky.from_matrix(hessian, precisions)
        if factor is None:  # penalties are too small to be seen beside the curvature
            exact = np.diag(np.linalg.pinv(hessian + np.diag(precisions), hermitian=True))
        else:
            exact = factor.inverse_diagonal()
        for places, simple_places in zip((self.parameters.members[0], self.parameters.members[2]), simple.members, strict=True):
            variances[places] = exact[simple_places]
        return variances

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
