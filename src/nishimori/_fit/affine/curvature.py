"""The curvature of the loss of affine maps: units that make it one, and directions in which it vanishes.

`Units` give Newton's steps and posterior variances. A large matrix, for K classes, has K² + K parameters, too many for their
curvature to be held where K is large. Its diagonal stands in for it. A product of two matrices with K rows, as it would be if
probabilities and inputs were independent, took as many passes and gave the same loss of held-out samples to 0.0007 (networks
of 100 classes).

`Directions` tell which changes of the parameters change probabilities at all, and by how much. Some have no effect on any row:
one bias for all classes, or the same row added to all rows of a matrix. They are found where all classes are equally probable:
there the curvature vanishes along them alone, and along every other direction it is as large as it can be. So whether the
curvature vanishes elsewhere, as it does where classes are separated perfectly, is a comparison of two matrices, for which
neither the units nor the number of the parameters matter.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from nishimori._support.arrays import HostArray
from nishimori.errors import NotConvergedError, setting


@dataclass(frozen=True, eq=False)
class Units:
    """The units that make a curvature LLᵀ (with penalties) one: the inverse of L, or of its diagonal."""

    inverse: HostArray

    @classmethod
    def of_matrix(cls, matrix: HostArray, added: HostArray) -> "Units":
        """The units of a matrix after an addition to its diagonal; raises if rounding hides that it is positive."""
        lower, failed = dpotrf(matrix + np.diag(added), lower=True)
        if failed:
            raise curvature_error()
        return cls(dtrtri(lower, lower=True)[0])

    @classmethod
    def of_diagonal(cls, seconds: HostArray, added: HostArray) -> "Units":
        """The units of second derivatives after an addition; none is much smaller than the largest."""
        sizes = seconds + added
        return cls(1 / np.sqrt(np.maximum(sizes, 1e-300 + 1e-10 * sizes.max())))

    @property
    def variances(self) -> HostArray:
        """The posterior variance of each parameter: the diagonal of the inverse of the curvature."""
        squares: HostArray = np.square(self.inverse)
        return squares.sum(axis=0) if squares.ndim == 2 else squares

    def step(self, z: HostArray) -> HostArray:
        """The change of the parameters that ``z`` stands for: in z the curvature is one in all directions."""
        return z @ self.inverse if self.inverse.ndim == 2 else z * self.inverse

    def gradient(self, by_parameter: HostArray) -> HostArray:
        """The derivative by z, from the derivative by each parameter."""
        return self.inverse @ by_parameter if self.inverse.ndim == 2 else self.inverse * by_parameter


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
        """The directions, from the curvature at equal class probabilities plus the curvature of penalties."""
        sizes = np.sqrt(np.diag(curvature))
        units = 1 / np.where(sizes > _NO_EFFECT * sizes.max(), sizes, sizes.max())
        values, axes = np.linalg.eigh(curvature * units * units[:, None])
        kept = values > _NO_EFFECT * values[-1]
        axes = axes * units[:, None]
        return cls(axes[:, kept] / np.sqrt(values[kept]), axes[:, ~kept])

    def compare(self, curvature: HostArray) -> tuple[HostArray, HostArray]:
        """A curvature relative to the curvature at equal probabilities: sizes in increasing order, and their axes."""
        values, axes = np.linalg.eigh(self.basis.T @ curvature @ self.basis)
        return values, self.basis @ axes

    def shortest(self, change: HostArray) -> HostArray:
        """The shortest change with the same effect, column by column."""
        gauge = np.linalg.qr(self.without_effect)[0]
        return change - gauge @ (gauge.T @ change)

    def inverse(self, curvature: HostArray) -> HostArray:
        """The inverse of a curvature along directions with an effect, where it does not vanish; zero along the others."""
        values, axes = self.compare(curvature)
        axes = self.shortest(axes)
        return (axes / values) @ axes.T


def curvature_error() -> NotConvergedError:
    """The error if rounding hides the curvature."""
    return NotConvergedError(
        "The search did not converge: the logits differ so much, or so little, between samples that float64 cannot "
        "hold the curvature of the loss, as can happen with naive Bayes classifiers. Use a method with temperatures only, "
        f"such as 'ec' or 'group', or pass probabilities with {setting('input', 'probabilities')} and a {setting('floor')}."
    )
