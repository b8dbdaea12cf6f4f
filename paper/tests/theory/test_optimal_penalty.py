"""The optimal penalty is a minimum of the error or the loss, to many digits although the minimum is flat."""

from functools import cache
from itertools import pairwise
from math import exp, inf, log, nan

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory import Affine, Constant, Logit, Probit, optimal_penalty, state_evolution

CASES = {
    "logit": (Logit(), 2.0),
    "affine": (Affine(), 5.0),
    "affine, many samples": (Affine(), 20.0),
    "constant": (Constant(), 3.0),
    "probit, few samples": (Probit(), 0.5),
    "cold and long logit": (Logit(temperature=0.5, rho=2.0), 4.0),
    "warm and short affine": (Affine(temperature=2.0, rho=0.5), 10.0),
}

each_case = pytest.mark.parametrize(("teacher", "alpha"), CASES.values(), ids=CASES)
each_aim = pytest.mark.parametrize("aim", ["error", "loss"])


optimum = cache(optimal_penalty)  # several tests look at the same one


@cache
def solved(name, alpha, penalty):
    """Error and loss, of which each test looks at one."""
    result = state_evolution(name, alpha, penalty)
    return {"error": result.error, "loss": result.loss()}


def measured(teacher, alpha, aim):
    """The error or the loss as a function of log λ."""

    def value(log_penalty):
        result = state_evolution(teacher, alpha, exp(log_penalty), tol=1e-12)
        return result.error if aim == "error" else result.loss()

    return value


@each_aim
@each_case
def test_a_penalty_next_to_the_optimal_one_is_worse(teacher, alpha, aim):
    value = measured(teacher, alpha, aim)
    best = log(optimum(teacher, alpha, minimise=aim))
    assert value(best) < min(value(best + log(1.05)), value(best - log(1.05)))


@each_aim
@each_case
def test_the_derivative_vanishes_at_the_optimal_penalty(teacher, alpha, aim):
    value = measured(teacher, alpha, aim)
    best = log(optimum(teacher, alpha, minimise=aim))
    h = 0.01
    far, near = (value(best + step) - value(best - step) for step in (2 * h, h))
    curvature = (value(best + 0.1) + value(best - 0.1) - 2 * value(best)) / 0.1**2
    assert curvature > 0
    # Newton's estimate of the remaining distance in log λ.
    assert abs((8 * near - far) / (12 * h) / curvature) < 1e-6


@each_aim
@pytest.mark.parametrize("case", ["logit", "affine", "constant"])
def test_a_general_minimiser_ends_at_the_same_penalty(case, aim):
    teacher, alpha = CASES[case]
    found = log(optimum(teacher, alpha, minimise=aim))
    search = minimize_scalar(
        measured(teacher, alpha, aim), bounds=(log(1e-3), log(10)), method="bounded", options={"xatol": 1e-6}
    )
    assert abs(found - search.x) < 1e-4


@each_aim
@pytest.mark.parametrize("name", ["logit", "affine", "constant", "probit"])
def test_no_penalty_of_a_wide_grid_is_better(name, aim):
    for alpha in (0.5, 2.0, 5.0, 20.0, 50.0):
        best = solved(name, alpha, optimal_penalty(name, alpha, minimise=aim))[aim]
        for penalty in np.geomspace(1e-4, 100, 13).tolist():
            assert solved(name, alpha, penalty)[aim] >= best


def test_the_error_is_least_where_the_alignment_is_greatest():
    penalty = optimal_penalty("constant", 3.0)
    aligned = [state_evolution("constant", 3.0, penalty * factor).correlation for factor in (0.9, 1.0, 1.1)]
    assert aligned[1] == max(aligned)


def test_the_penalty_of_the_logit_teacher_tends_to_its_prior_with_many_samples():
    # With T* = ρ = 1 and λ = 1 the risk is a negative log posterior; with many samples its mode and mean agree.
    off = [abs(optimal_penalty("logit", alpha) - 1) for alpha in (2.0, 20.0, 200.0)]
    assert all(after < before for before, after in pairwise(off))
    assert off[-1] < 0.02


@each_aim
def test_only_the_ratio_of_norm_and_temperature_matters(aim):
    here, there = (optimal_penalty(teacher, 3.0, minimise=aim) for teacher in (Affine(), Affine(temperature=3.0, rho=9.0)))
    np.testing.assert_allclose(there, here, rtol=1e-8)


@each_aim
def test_the_tolerance_hardly_moves_the_optimum(aim):
    loose, tight = (optimal_penalty("affine", 5.0, minimise=aim, tol=tol) for tol in (1e-6, 1e-13))
    np.testing.assert_allclose(loose, tight, rtol=1e-5)


@pytest.mark.parametrize("aim", ["ece", "Error", "", None, ["loss"]])
def test_what_cannot_be_minimised_is_refused(aim):
    with pytest.raises(InputError, match='`minimise` must be "error" or "loss", got'):
        optimal_penalty("logit", 2.0, minimise=aim)


@pytest.mark.parametrize("alpha", [0.0, -1.0, inf, nan, "2", None])
def test_an_alpha_that_is_not_a_positive_finite_number_is_refused(alpha):
    with pytest.raises(InputError, match="`alpha` must be a positive finite number, got"):
        optimal_penalty("logit", alpha)


@pytest.mark.parametrize("tol", [0.0, 1e-14, 0.1, 1.0, nan])
def test_a_tolerance_out_of_reach_is_refused(tol):
    with pytest.raises(InputError, match=r"`tol` must lie between 1e-13 and 0\.01, got"):
        optimal_penalty("logit", 2.0, tol=tol)


def test_an_unknown_teacher_is_refused():
    with pytest.raises(InputError, match="`teacher` must be one of logit, affine, constant, probit"):
        optimal_penalty("sigmoid", 2.0)


@pytest.mark.parametrize("minimise", ["error", "loss"])
def test_a_minimum_lost_in_rounding_errors_is_refused(minimise):
    with pytest.raises(
        NotConvergedError, match=r"has no minimum above rounding errors at penalties from .* Choose a larger `alpha`"
    ):
        optimal_penalty(Constant(temperature=6.0), 0.3, minimise=minimise)
