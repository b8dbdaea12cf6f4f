"""Which changes of the parameters change probabilities at all, and by how much.

Some changes have no effect on any row: one bias for all classes, or the same row added to all rows of a matrix. They are found
where all classes are equally probable: there the curvature of the loss vanishes along them alone, and along every other
direction it is as large as it can be. So whether the curvature vanishes elsewhere, as it does where classes are separated
perfectly, is a comparison of two matrices, for which neither the units nor the number of the parameters matter.
"""

from dataclasses import dataclass

import numpy as np

from nishimori._support.arrays import HostArray

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
    def of(cls, curvature: HostArray) -> "Directions":
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
