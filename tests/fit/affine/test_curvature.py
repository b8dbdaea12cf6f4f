"""Cholesky factors: in their units the curvature is one, and variances are the diagonal of the inverse."""

import numpy as np
import pytest

from nishimori._fit.affine.curvature import Cholesky
from nishimori.errors import NotConvergedError

TABLE = np.random.default_rng(0).normal(size=(5, 8))
MATRIX, ADDED = TABLE @ TABLE.T, np.array([0.0, 1.0, 2.0, 3.0, 4.0])
INVERSE = np.linalg.inv(MATRIX + np.diag(ADDED))


def test_a_step_against_the_gradient_is_that_of_newton():
    factor, right = Cholesky.from_matrix(MATRIX, ADDED), np.arange(5.0)
    np.testing.assert_allclose(factor.step(factor.gradient(right)), INVERSE @ right, rtol=1e-12)


def test_variances_are_the_diagonal_of_the_inverse():
    np.testing.assert_allclose(Cholesky.from_matrix(MATRIX, ADDED).variances, np.diag(INVERSE), rtol=1e-12)


def test_the_matrix_is_left_as_it_is():
    matrix = MATRIX.copy()
    Cholesky.from_matrix(matrix, ADDED)
    np.testing.assert_array_equal(matrix, MATRIX)


def test_a_matrix_that_is_not_positive_is_refused():
    with pytest.raises(NotConvergedError, match="cannot hold the curvature"):
        Cholesky.from_matrix(-MATRIX, np.zeros(5))
