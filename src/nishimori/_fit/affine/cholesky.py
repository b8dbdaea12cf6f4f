"""The Cholesky factor of a curvature: Newton's steps, and the posterior variance of each parameter."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs

from nishimori._support.arrays import HostArray


@dataclass(frozen=True, eq=False)
class Cholesky:
    """The lower factor L of a symmetric matrix LLᵀ."""

    lower: HostArray

    @classmethod
    def of(cls, matrix: HostArray, added: HostArray) -> "Cholesky | None":
        """The factor of a matrix to whose diagonal something is added; None if rounding hides that it is positive."""
        total = matrix.copy()
        total[np.diag_indices_from(total)] += added
        (factorise,) = get_lapack_funcs(("potrf",), (total,))
        lower, failed = factorise(total.T, lower=True, overwrite_a=True)
        return None if failed else cls(lower)

    def solve(self, right: HostArray) -> HostArray:
        """The inverse of the matrix times a vector."""
        (solve,) = get_lapack_funcs(("potrs",), (self.lower,))
        found: HostArray = solve(self.lower, right, lower=True)[0]
        return found.reshape(right.shape)

    def inverse_diagonal(self) -> HostArray:
        """The diagonal of the inverse of the matrix, in float64."""
        (invert,) = get_lapack_funcs(("trtri",), (self.lower,))
        inverse, _ = invert(self.lower, lower=True)
        squares: HostArray = np.square(inverse, out=inverse).sum(axis=0, dtype=np.float64)
        return squares
