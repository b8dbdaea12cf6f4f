"""Units of a search: in them the curvature is one, and variances are the diagonal of the inverse."""

import numpy as np
import pytest

from nishimori._fit.affine.curvature import Units
from nishimori.errors import NotConvergedError

TABLE = np.random.default_rng(0).normal(size=(5, 8))
MATRIX, ADDED = TABLE @ TABLE.T, np.array([0.0, 1.0, 2.0, 3.0, 4.0])
INVERSE = np.linalg.inv(MATRIX + np.diag(ADDED))


def test_a_step_against_the_gradient_is_that_of_newton():
    factor, right = Units.of_matrix(MATRIX, ADDED), np.arange(5.0)
    np.testing.assert_allclose(factor.step(factor.gradient(right)), INVERSE @ right, rtol=1e-12)


def test_variances_are_the_diagonal_of_the_inverse():
    np.testing.assert_allclose(Units.of_matrix(MATRIX, ADDED).variances, np.diag(INVERSE), rtol=1e-12)


def test_the_matrix_is_left_as_it_is():
    matrix = MATRIX.copy()
    Units.of_matrix(matrix, ADDED)
    np.testing.assert_array_equal(matrix, MATRIX)


def test_a_matrix_that_is_not_positive_is_refused():
    with pytest.raises(NotConvergedError, match="cannot hold the curvature"):
        Units.of_matrix(-MATRIX, np.zeros(5))


def test_a_diagonal_has_the_variances_and_steps_of_a_diagonal_matrix():
    seconds = np.array([4.0, 0.5, 9.0])
    units, added = Units.of_diagonal(seconds, np.array([0.0, 1.5, 7.0])), np.arange(3.0)
    matrix = np.diag([4.0, 2.0, 16.0])
    np.testing.assert_allclose(units.variances, np.diag(np.linalg.inv(matrix)))
    np.testing.assert_allclose(units.step(units.gradient(added)), np.linalg.solve(matrix, added))


def test_a_parameter_without_effect_gets_no_endless_step():
    assert np.isfinite(Units.of_diagonal(np.array([1.0, 0.0]), np.zeros(2)).step(np.ones(2))).all()
