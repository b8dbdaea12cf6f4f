"""Cholesky factors: solutions and the diagonal of the inverse are those of the whole inverse."""

import numpy as np
import pytest

from nishimori._fit.affine.curvature import Cholesky

TABLE = np.random.default_rng(0).normal(size=(5, 8))
MATRIX, ADDED = TABLE @ TABLE.T, np.array([0.0, 1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_solutions_and_the_diagonal_are_those_of_the_inverse(dtype, digits):
    factor, inverse = Cholesky.from_matrix(MATRIX.astype(dtype), ADDED), np.linalg.inv(MATRIX + np.diag(ADDED))
    right = np.arange(5.0)
    np.testing.assert_allclose(factor.solve(right), inverse @ right, rtol=digits)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(inverse), rtol=digits)


def test_the_matrix_is_left_as_it_is():
    matrix = MATRIX.copy()
    Cholesky.from_matrix(matrix, ADDED)
    np.testing.assert_array_equal(matrix, MATRIX)


def test_a_matrix_that_is_not_positive_has_no_factor():
    assert Cholesky.from_matrix(-MATRIX, np.zeros(5)) is None
