"""State evolution equals a second, slower formulation of the same equations, and raises if it does not converge."""

from dataclasses import replace
from itertools import pairwise
from math import inf, nan, pi, sqrt

import numpy as np
import pytest
import reference_theory as reference
from scipy.integrate import quad
from scipy.optimize import brentq

from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory import (
    Affine,
    Constant,
    Logit,
    Probit,
    plain_iterations,
    state_evolution,
    sweep,
)
from nishimori_paper.theory._fixed_point import Problem, solve
from nishimori_paper.theory._state_evolution import regression

NAMES = ["logit", "affine", "constant", "probit"]
each_name = pytest.mark.parametrize("name", NAMES)


def numbers(result):
    return np.array([result.m, result.q, result.v])


CASES = {
    "affine, separable": (Affine(), 2.0, 1e-4),
    "logit, separable": (Logit(), 1.5, 1e-4),
    "constant, hardly separable": (Constant(), 2.4, 1e-4),
    "affine, hardly inseparable": (Affine(), 3.7, 1e-4),
    "logit, strong penalty": (Logit(), 3.0, 10.0),
    "affine": (Affine(), 10.0, 0.1),
    "constant": (Constant(), 20.0, 0.01),
    "probit, few samples": (Probit(), 0.5, 1.0),
    "cold and long logit": (Logit(temperature=0.4, rho=2.5), 2.0, 0.1),
    "warm and short affine": (Affine(temperature=2.0, rho=0.5), 5.0, 0.01),
    "cold and long constant": (Constant(temperature=0.5, rho=2.0), 10.0, 1.0),
}


@pytest.mark.parametrize(("teacher", "alpha", "penalty"), CASES.values(), ids=CASES)
def test_overlaps_solve_the_equations_written_with_a_prox_and_both_labels(teacher, alpha, penalty):
    found = numbers(state_evolution(teacher, alpha, penalty))
    expected = reference.overlaps(teacher, alpha, penalty, start=found * [0.97, 1.04, 0.96])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("m", "q", "v"), [(0.5, 0.7, 1.3), (2.0, 9.0, 30.0)])
def test_the_reference_equals_adaptive_quadrature_with_a_prox_found_by_brentq(m, q, v):
    teacher, alpha = Logit(), 2.0

    def moved(omega):
        return brentq(lambda z: z - omega - v / (1 + np.exp(z)), omega, omega + v, xtol=1e-14)

    def integrand(omega):
        value, _, _ = reference.moments_by_quad(teacher, m / q * omega, 1 - m * m / q)
        # By symmetry both labels contribute the same, hence the factor 2.
        return 2 * alpha * reference.gaussian(omega, q) * value / (1 + np.exp(moved(omega))) ** 2

    expected, _ = quad(integrand, -8 * sqrt(q), 8 * sqrt(q), epsabs=1e-9, epsrel=1e-9, limit=200)
    _, q_hat, _ = reference.hats(teacher, alpha, m, q, v)
    np.testing.assert_allclose(q_hat, expected, rtol=1e-8)


@each_name
@pytest.mark.parametrize(("alpha", "penalty"), [(0.5, 1e-4), (2.4, 1e-4), (3.5, 1e-3), (20.0, 1e-4), (50.0, 10.0)])
def test_a_finer_quadrature_changes_nothing(name, alpha, penalty):
    result = state_evolution(name, alpha, penalty)
    finer = state_evolution(name, alpha, penalty, tol=1e-13)
    np.testing.assert_allclose(numbers(finer), numbers(result), rtol=1e-10)
    eta = result.correlation**2
    x = np.log([eta / (1 - eta), result.q, result.v])
    problem = Problem(regression(result.teacher), alpha, penalty)
    for step in (0.025, 0.0125):
        assert np.abs(problem.residual(x, step)).max() < 1e-10


@each_name
def test_the_whole_grid_converges_to_rounding(name):
    for alpha in (0.5, 1.0, 2.0, 2.278, 2.447, 3.0, 3.637, 6.0, 20.0, 50.0):
        for penalty in (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0):
            result = state_evolution(name, alpha, penalty)
            assert result.converged
            assert result.residual < 1e-10
            assert 0 < result.correlation < 1


@each_name
def test_more_samples_never_align_the_classifier_less_at_a_strong_penalty(name):
    correlations = [result.correlation for result in sweep(name, np.geomspace(0.5, 50, 12), penalty=1.0)]
    assert all(before < after for before, after in pairwise(correlations))


@pytest.mark.parametrize("kind", [Logit, Affine, Constant, Probit])
def test_labels_depend_on_the_ratio_of_norm_and_temperature_alone(kind):
    here, there = state_evolution(kind(), 3.0, 0.1), state_evolution(kind(temperature=3.0, rho=9.0), 3.0, 0.1)
    np.testing.assert_allclose(numbers(there), numbers(here) * [3, 1, 1], rtol=1e-9)
    for metric in ("correlation", "error", "temperature_ts", "temperature_ec"):
        np.testing.assert_allclose(getattr(there, metric), getattr(here, metric), rtol=1e-9)


def test_a_strong_penalty_leaves_one_gradient_step_from_zero():
    # Then ŵ = Σ y x/2λ, so m = α E[y w*·x]/2λ. For the probit teacher this is α √(2/π) / 2λ√2.
    alpha, penalty = 2.0, 1e6
    result = state_evolution("probit", alpha, penalty)
    np.testing.assert_allclose(result.m * penalty, alpha / (2 * sqrt(pi)), rtol=1e-5)
    np.testing.assert_allclose(result.q * penalty**2, alpha / 4 + (alpha / (2 * sqrt(pi))) ** 2, rtol=1e-5)
    np.testing.assert_allclose(result.v * penalty, 1.0, rtol=1e-5)


@each_name
def test_a_warm_start_gives_what_a_cold_one_gives(name):
    path = [(5.0, 0.1), (4.0, 0.1), (2.0, 0.01), (2.0, 1e-4), (30.0, 1e-3), (0.7, 2.0)]
    warm = state_evolution(name, *path[0])
    for alpha, penalty in path[1:]:
        warm = state_evolution(name, alpha, penalty, start=warm)
        np.testing.assert_allclose(numbers(warm), numbers(state_evolution(name, alpha, penalty)), rtol=1e-9)


def test_a_warm_start_from_another_teacher_is_only_a_start():
    start = state_evolution(Affine(temperature=0.5, rho=4.0), 3.0, 0.1)
    found = state_evolution("logit", 3.0, 0.1, start=start)
    np.testing.assert_allclose(numbers(found), numbers(state_evolution("logit", 3.0, 0.1)), rtol=1e-9)


def test_a_sweep_is_state_evolution_at_each_alpha_in_the_order_given():
    alphas = [6.0, 2.0, 3.637, 50.0, 0.5]
    found = sweep("affine", iter(alphas), 1e-4)
    assert [result.alpha for result in found] == alphas
    for result in found:
        np.testing.assert_allclose(numbers(result), numbers(state_evolution("affine", result.alpha, 1e-4)), rtol=1e-9)
    assert sweep("affine", [], 1e-4) == ()


@each_name
def test_many_plain_iterations_end_at_the_solution_where_it_is_easy(name):
    teacher = replace(state_evolution(name, 3.0, 1.0).teacher, temperature=0.8, rho=1.5)
    found = plain_iterations(teacher, 3.0, 1.0, 200)
    np.testing.assert_allclose(found, numbers(state_evolution(teacher, 3.0, 1.0)), rtol=1e-9)


def test_a_hundred_plain_iterations_are_off_by_more_than_a_per_cent_near_separability():
    exact = state_evolution("affine", 3.436, 1e-4)
    _, q, _ = plain_iterations("affine", 3.436, 1e-4, 100)
    assert abs(q / exact.q - 1) > 0.01


@pytest.mark.parametrize("value", [0, 0.0, -1.0, inf, nan, "2", None, [1.0], np.array([1.0, 2.0]), 1j], ids=repr)
@pytest.mark.parametrize("name", ["alpha", "penalty"])
@pytest.mark.parametrize("call", [state_evolution, lambda *given: plain_iterations(*given, 3)], ids=["newton", "plain"])
def test_what_is_not_a_positive_finite_number_is_refused(call, name, value):
    given = {"alpha": 2.0, "penalty": 0.1, name: value}
    with pytest.raises(InputError, match=f"`{name}` must be a positive finite number, got"):
        call("logit", given["alpha"], given["penalty"])


def test_whole_numbers_and_numpy_numbers_are_numbers():
    expected = numbers(state_evolution("logit", 2.0, 1.0))
    for alpha, penalty in [(2, 1), (np.float32(2), np.int64(1))]:
        np.testing.assert_allclose(numbers(state_evolution("logit", alpha, penalty)), expected, rtol=1e-12)


@pytest.mark.parametrize("tol", [0.0, -1e-9, 1e-14, 0.1, inf, nan, "tight", None])
def test_a_tolerance_out_of_reach_is_refused(tol):
    with pytest.raises(InputError, match=r"`tol` must lie between 1e-13 and 0\.01, got"):
        state_evolution("logit", 2.0, 0.1, tol=tol)


@pytest.mark.parametrize("n", [-1, 2.5, "3"])
def test_a_number_of_plain_iterations_must_be_a_whole_number(n):
    with pytest.raises(InputError, match="`n` must be a whole number of at least 0, got"):
        plain_iterations("logit", 2.0, 0.1, n)


def test_a_start_or_alphas_of_the_wrong_kind_are_refused():
    with pytest.raises(InputError, match=r"`start` must be a result of `state_evolution`, got 3\."):
        state_evolution("logit", 2.0, 0.1, start=3)
    with pytest.raises(InputError, match=r"`alphas` must be an iterable of numbers, got 3\.0\."):
        sweep("logit", 3.0, 0.1)


def test_too_few_newton_steps_raise(monkeypatch):
    monkeypatch.setattr("nishimori_paper.theory._fixed_point._LIMIT", 1)
    with pytest.raises(NotConvergedError, match=r"did not converge in 1 steps at alpha = 2 and penalty = 20: the residual is"):
        state_evolution("affine", 2.0, 1e-4)


def test_a_quadrature_too_coarse_for_the_tolerance_raises(monkeypatch):
    monkeypatch.setattr("nishimori_paper.theory._fixed_point._FINEST", 0.05)
    with pytest.raises(
        NotConvergedError, match=r"the finest quadrature still changed the solution by .* Choose a larger `tol`"
    ):
        state_evolution("constant", 2.4, 1e-4, tol=1e-13)


def test_equations_without_a_finite_residual_raise():
    nothing = Problem(lambda *_: (0.0, 0.0, 0.0), 2.0, 0.1)
    with pytest.raises(
        NotConvergedError, match=r"left the range of float64 at alpha = 2 and penalty = 0\.1\. Choose less extreme"
    ):
        solve(nothing, np.zeros(3), 1e-10)


@pytest.mark.parametrize(("alpha", "penalty"), [(1e12, 1e-3), (1e29, 1e-29), (1e29, 1e29)])
def test_a_classifier_too_close_to_the_teacher_is_refused(alpha, penalty):
    with pytest.raises(NotConvergedError, match="more than 300000 points, because the classifier is almost identical"):
        state_evolution("logit", alpha, penalty)


def test_a_result_says_what_it_solves():
    result = state_evolution("affine", 2.0, 0.1)
    assert (result.teacher, result.alpha, result.penalty, result.converged) == (Affine(), 2.0, 0.1, True)
    assert result.steps > 0
    np.testing.assert_allclose(result.correlation, result.m / sqrt(result.q))
