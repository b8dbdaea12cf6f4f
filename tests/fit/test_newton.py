"""Several equations at once: compared with SciPy, from far away and in any units."""

from itertools import pairwise

import numpy as np
import pytest
import reference
from scipy.optimize import minimize, root

from nishimori._fit.newton import LIMIT, Equations, solve
from nishimori.errors import NotConvergedError

NOISE = 1e-13


def rosenbrock(x):
    """Two equations whose solution (1, 1) lies at the end of a curved valley."""
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([[-20 * x[0], 10.0], [-1.0, 0.0]])


def swirl(x):
    """Three equations whose derivatives are not symmetric."""
    a, b, c = x
    gaps = np.array([a + 0.5 * np.sin(b) - 1, b + 0.3 * c**3 + 0.2 * a, np.exp(0.5 * c) - 2 + 0.1 * a * b])
    jacobian = np.array(
        [
            [1, 0.5 * np.cos(b), 0],
            [0.2, 1, 0.9 * c**2],
            [0.1 * b, 0.1 * a, 0.5 * np.exp(0.5 * c)],
        ]
    )
    return gaps, jacobian


def evaluated(function, x, units=None, of_gaps=None):
    """The equations of a function at x, in other units of the unknowns and of the gaps."""
    units = np.ones(len(x)) if units is None else units
    of_gaps = np.ones(len(x)) if of_gaps is None else of_gaps
    gaps, jacobian = function(x / units)
    return Equations(gaps * of_gaps, jacobian * of_gaps[:, None] / units, units, NOISE * of_gaps)


@pytest.mark.parametrize(
    ("function", "start"), [(rosenbrock, [-1.2, 1.0]), (rosenbrock, [30.0, -500.0]), (swirl, [3.0, 2.0, 4.0])]
)
def test_the_solution_is_that_of_scipy(function, start):
    found = solve(lambda x: evaluated(function, x), np.array(start))
    expected = root(lambda x: function(x)[0], found.x + 0.01, tol=1e-14).x
    np.testing.assert_allclose(found.x, expected, rtol=1e-9)
    assert found.residual <= 1e-9
    assert found.residual == np.abs(function(found.x)[0]).max()


def test_neither_the_units_of_the_unknowns_nor_those_of_the_gaps_matter():
    plain = solve(lambda x: evaluated(swirl, x), np.array([3.0, 2.0, 4.0]))
    units, of_gaps = np.array([1e6, 1e-7, 3.0]), np.array([1e-9, 1e5, 1e12])
    scaled = solve(lambda x: evaluated(swirl, x, units, of_gaps), units * [3.0, 2.0, 4.0])
    np.testing.assert_allclose(scaled.x / units, plain.x, rtol=1e-9)
    assert scaled.n_passes == plain.n_passes


def test_the_last_steps_double_the_digits():
    distances = []

    def watched(x):
        distances.append(np.abs(x - 1).max())
        return evaluated(rosenbrock, x)

    solve(watched, np.array([1.3, 0.8]))
    distances = [each for each in distances if 1e-14 < each < 0.1]
    assert all(after <= 20 * before**2 for before, after in pairwise(distances))


def cross_entropy(theta, logits, labels):
    u = theta[0] * logits + np.append(theta[1:], 0.0)
    u = u - u.max(axis=1, keepdims=True)
    return np.mean(np.log(np.exp(u).sum(axis=1)) - u[np.arange(len(u)), labels])


def cross_entropy_equations(theta, logits, labels):
    """The gradient of the cross-entropy and its derivative, for one scale and a bias of all classes but the last."""
    n, k = logits.shape
    u = theta[0] * logits + np.append(theta[1:], 0.0)
    p = reference.softmax(u)
    features = np.concatenate([logits[:, :, None], np.broadcast_to(np.eye(k)[:, :-1], (n, k, k - 1))], axis=2)
    mean = np.einsum("nk,nkm->nm", p, features)
    gaps = (mean - features[np.arange(n), labels]).mean(axis=0)
    jacobian = np.einsum("nk,nka,nkb->ab", p, features, features) / n - mean.T @ mean / n
    return Equations(gaps, jacobian, 1 / np.sqrt(np.maximum(np.diag(jacobian), 1e-300)), np.full(k, 1e-15))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
def test_from_far_away_it_finds_the_least_cross_entropy(scale):
    logits, labels = reference.drawn(800, 4)
    labels = np.where(np.arange(800) % 5 == 0, 1, labels)
    start = np.array([scale, 4.0, -4.0, 4.0])
    found = solve(lambda x: cross_entropy_equations(x, logits, labels), start)
    least = minimize(
        cross_entropy, [0.5, 0, 0, 0], args=(logits, labels), method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-10}
    )
    np.testing.assert_allclose(found.x, least.x, atol=1e-5)
    assert cross_entropy(found.x, logits, labels) <= least.fun + 1e-12
    assert found.n_passes < 40


def test_it_says_where_there_is_no_solution():
    def above_zero(x):  # each step is one to the left
        return Equations(np.array([np.exp(x[0]), x[1]]), np.diag([np.exp(x[0]), 1.0]), np.ones(2), np.zeros(2))

    with pytest.raises(NotConvergedError, match=rf"did not converge in {LIMIT} passes: .* have no finite solution"):
        solve(above_zero, np.array([0.0, 1.0]))


@pytest.mark.parametrize(
    "jacobian", [[[1.0, 1.0], [1.0, 1 + 4e-15]], [[1.0, 1.0], [2.0, 2.0]], [[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
)
def test_it_says_where_two_unknowns_have_the_same_effect(jacobian):
    function = lambda x: (np.array(jacobian) @ x - 1, np.array(jacobian))  # noqa: E731
    with pytest.raises(NotConvergedError, match="The parameters are not determined"):
        solve(lambda x: evaluated(function, x), np.zeros(2))


def test_a_step_out_of_the_range_of_numbers_is_shortened():
    def logarithm(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(x), np.diag(1 / x)

    found = solve(lambda x: evaluated(logarithm, x), np.array([4.0, 3.0]))  # the first steps are to negative numbers
    np.testing.assert_allclose(found.x, 1, rtol=1e-9)


def test_a_search_that_needs_few_digits_ends_earlier():
    rough = solve(lambda x: evaluated(swirl, x), np.array([3.0, 2.0, 4.0]), enough=0.1)
    exact = solve(lambda x: evaluated(swirl, x), np.array([3.0, 2.0, 4.0]))
    assert rough.n_passes < exact.n_passes
    assert 1e-6 < np.abs(rough.x - exact.x).max() < 0.3
