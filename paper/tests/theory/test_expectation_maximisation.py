"""Expectation maximisation finds the teacher's temperature in the training set, and where it cannot it says so."""

from math import exp, log, sqrt

import numpy as np
import pytest
import reference_theory as reference
from scipy.optimize import brentq

from nishimori.errors import InputError, NotConvergedError, NoTemperatureError
from nishimori_paper.theory import (
    Affine,
    Constant,
    Logit,
    Posterior,
    Probit,
    bayes_optimal,
    expectation_maximisation,
    gamp,
    simulate_em,
)


def data(teacher, alpha, d, seed, *, fix_norm=True):
    rng = np.random.default_rng(seed)
    weights = sqrt(teacher.rho) * rng.standard_normal(d)
    if fix_norm:
        weights *= sqrt(teacher.rho * d / (weights @ weights))
    x = rng.standard_normal((round(alpha * d), d)) / sqrt(d)
    return x, np.where(rng.random(len(x)) < teacher.probability(x @ weights / teacher.temperature), 1.0, -1.0)


def expected_slope(teacher, x, y, T, posterior):
    """Σ E[∂ log σ*(yu/T)/∂ log T] over the posterior of each sample's score u, by quadrature of σ* itself.

    The posterior of u is N(u; ω, v) σ*(yu/T), and its mean is the sample's score under the posterior mean of the weights.
    """
    v, total = posterior.v, 0.0
    offset, weight = reference.panels(np.linspace(-10 * sqrt(v), 10 * sqrt(v), 41))
    weight = weight * reference.gaussian(offset, v)
    for score in y * (x @ posterior.weights):

        def gap(omega, score=score):
            likelihood = weight * teacher.probability((omega + offset) / T)
            return omega + likelihood @ offset / likelihood.sum() - score

        omega = brentq(gap, score - 20 * sqrt(v), score + 20 * sqrt(v), xtol=1e-13)
        u = omega + offset
        step = 1e-4
        change = teacher.probability(u / (T * exp(step))) - teacher.probability(u / (T * exp(-step)))
        total += weight @ change / (2 * step) / (weight @ teacher.probability(u / T))
    return total


@pytest.mark.parametrize(
    ("teacher", "T"), [(Logit(), 1.3), (Probit(temperature=0.5, rho=2.0), 0.4), (Logit(rho=0.5), 0.6)], ids=repr
)
def test_the_slope_of_the_free_energy_is_the_expected_slope_of_the_log_likelihood(teacher, T):
    x, y = data(teacher, 3.0, 100, seed=0)
    h = 1e-3
    before, at, after = (gamp(x, y, teacher, temperature=T * exp(step), tol=1e-12) for step in (-h, 0.0, h))
    slope = -len(y) * (after.free_energy - before.free_energy) / (2 * h)
    np.testing.assert_allclose(slope, expected_slope(teacher, x, y, T, at), rtol=1e-4)
    # It is also the excess of the prior's mean square weight over the posterior's.
    second = at.weights @ at.weights + 100 * at.v
    np.testing.assert_allclose(slope, 100 - second / teacher.rho, rtol=1e-4)


@pytest.mark.parametrize("teacher", [Logit(temperature=0.5), Probit(rho=2.0), Affine()], ids=repr)
def test_the_temperature_found_has_the_least_free_energy(teacher):
    x, y = data(teacher, 4.0, 100, seed=1)
    found = expectation_maximisation(x, y, teacher)
    grid = found.temperature * np.exp(np.linspace(-1, 1, 41))
    energies = [gamp(x, y, teacher, temperature=T).free_energy for T in grid]
    assert found.posterior.free_energy <= min(energies) + 1e-9
    assert grid[np.argmin(energies)] == pytest.approx(found.temperature, rel=1e-6)
    # A parabola in log T through the three lowest energies has the curvature that the standard error statements.
    curvature = len(y) * (energies[21] - 2 * energies[20] + energies[19]) / log(grid[21] / grid[20]) ** 2
    assert found.standard_error == pytest.approx(found.temperature / sqrt(curvature), rel=0.01)


@pytest.mark.parametrize("teacher", [Logit(temperature=0.5), Probit(rho=2.0), Affine()], ids=repr)
def test_the_teachers_temperature_is_recovered_within_four_standard_errors(teacher):
    found = simulate_em(teacher, 8.0, 60, seeds=10)
    em = found["temperature_em"]
    assert em.missing == 0
    assert abs(em.deviation_from(teacher.temperature)) < 4
    assert em.standard_error < 0.1 * teacher.temperature
    assert abs(found["excess"].deviation_from(0.0)) < 4


def test_the_error_bar_is_the_spread_over_teachers_from_the_prior():
    found = simulate_em("probit", 5.0, 80, seeds=60, fix_norm=False)
    deviations = (found.values["temperature_em"] - 1.0) / found.values["standard_error"]
    assert 0.75 < np.std(deviations, ddof=1) < 1.35
    limit = [bayes_optimal("probit", 5.0, temperature=T) for T in (exp(-0.01), exp(0.01))]
    information = 80 * (sum((limit[1].q, limit[1].v)) - sum((limit[0].q, limit[0].v))) / 0.02
    assert np.median(found.values["standard_error"]) == pytest.approx(1 / sqrt(information), rel=0.1)


def test_a_wrong_likelihood_has_a_temperature_but_is_overconfident():
    right, wrong = (simulate_em("constant", 20.0, 80, assumed=each, seeds=6) for each in ("constant", "probit"))
    assert right["temperature_em"].mean == pytest.approx(1.0, abs=0.1)
    assert abs(right["excess"].deviation_from(0.0)) < 4
    assert wrong["excess"].mean > 0.03
    assert wrong["free_energy"].mean > right["free_energy"].mean
    np.testing.assert_array_less(1.3 * wrong.values["temperature_em"], wrong.values["temperature_ec"])


def test_a_posterior_with_another_likelihood_claims_the_probabilities_of_that_likelihood():
    found = Posterior("constant", 0.7, 0.3, 0.4, 0.5, "probit")
    rng = np.random.default_rng(0)
    theirs = rng.standard_normal(400_000)
    ours = 0.3 * theirs + sqrt(0.4 - 0.3**2) * rng.standard_normal(400_000)
    right = rng.random(400_000) < Constant().probability(theirs * np.sign(ours))
    claimed = reference.z_star(Probit(temperature=0.7), np.abs(ours[:20_000]), 0.5)[0]
    assert found.accuracy == pytest.approx(right.mean(), abs=0.004)
    assert found.confidence == pytest.approx(claimed.mean(), abs=0.004)
    assert abs(found.confidence - Posterior("constant", 0.7, 0.3, 0.4, 0.5).confidence) > 0.01


def test_the_temperature_of_the_teacher_that_is_passed_is_ignored():
    x, y = data(Logit(), 4.0, 60, seed=0)
    assert (
        expectation_maximisation(x, y, Logit(temperature=7.0)).temperature
        == expectation_maximisation(x, y, "logit").temperature
    )


def test_scaling_the_prior_scales_the_temperature():
    x, y = data(Logit(), 4.0, 60, seed=0)
    one, four = (expectation_maximisation(x, y, Logit(rho=rho)).temperature for rho in (1.0, 4.0))
    assert four == pytest.approx(2 * one, rel=1e-4)


def test_labels_that_contradict_each_other_have_no_temperature():
    x = np.repeat(np.random.default_rng(0).standard_normal((20, 5)) / sqrt(5), 2, axis=0)
    with pytest.raises(
        NoTemperatureError, match=r"up to T → ∞, so they look like random labels\. Check that each label"
    ) as caught:
        expectation_maximisation(x, np.resize([1, -1], 40), "logit")
    assert caught.value.end == "hot"


def test_separable_labels_may_have_no_temperature():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 60)) / sqrt(60)
    with pytest.raises(NoTemperatureError, match=r"down to T → 0, so they look like labels without noise\. Use more") as caught:
        expectation_maximisation(x, np.sign(x @ x.sum(0)), "probit")
    assert caught.value.end == "cold"


def test_a_search_that_fails_says_at_which_temperature_and_what_to_do():
    x = 100 * (np.ones((40, 30)) + 0.01 * np.random.default_rng(0).standard_normal((40, 30)))
    with pytest.raises(
        NotConvergedError, match=r"tried T = 1, where message passing failed\. .* requires samples from N\(0, I/d\)"
    ):
        expectation_maximisation(x, np.resize([1, -1], 40), "logit")


@pytest.mark.parametrize(
    ("x", "y", "teacher", "message"),
    [
        (np.ones((4, 2)), np.ones(3), "logit", r"`x` must have shape \(n_samples, d\) and `y` shape \(n_samples,\)"),
        (np.ones((4, 2)), np.zeros(4), "logit", r"`y` must contain only the labels \+1 and -1"),
        (np.ones((4, 2)), np.ones(4), "relu", "`teacher` must be one of logit, affine, constant, probit"),
    ],
    ids=["fewer labels", "zeros", "unknown teacher"],
)
def test_expectation_maximisation_refuses_what_it_cannot_use(x, y, teacher, message):
    with pytest.raises(InputError, match=message):
        expectation_maximisation(x, y, teacher)


def test_a_simulation_refuses_a_likelihood_that_does_not_exist():
    with pytest.raises(InputError, match="`teacher` must be one of"):
        simulate_em("logit", 3.0, 50, assumed="relu", seeds=1)
