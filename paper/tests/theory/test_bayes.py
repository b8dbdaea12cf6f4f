"""Bayesian inference is calibrated at the teacher's temperature, in the limit and on data."""

from math import inf, nan, sqrt

import numpy as np
import pytest
import reference_theory as reference
from scipy.special import ndtr

from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory import (
    Affine,
    Constant,
    Logit,
    Probit,
    bayes_optimal,
    bayes_temperatures,
    optimal_penalty,
    simulate_bayes,
    state_evolution,
)
from nishimori_paper.theory._bayes import _channel

CASES = {
    "logit": (Logit(), 2.0),
    "affine": (Affine(), 3.0),
    "constant": (Constant(), 3.0),
    "probit": (Probit(), 10.0),
    "cold and long logit": (Logit(temperature=0.5, rho=2.0), 4.0),
    "warm and short affine": (Affine(temperature=2.0, rho=0.5), 1.0),
    "cold constant": (Constant(temperature=0.6, rho=1.5), 6.0),
    "cold and long probit": (Probit(temperature=0.5, rho=3.0), 0.5),
}
CONCAVE = {name: case for name, case in CASES.items() if "constant" not in name}

each_case = pytest.mark.parametrize(("teacher", "alpha"), CASES.values(), ids=CASES)
each_concave = pytest.mark.parametrize(("teacher", "alpha"), CONCAVE.values(), ids=CONCAVE)


@each_case
def test_the_overlap_solves_the_single_equation_of_the_right_temperature(teacher, alpha):
    found = bayes_optimal(teacher, alpha)
    np.testing.assert_allclose(found.q, reference.bayes_overlap(teacher, alpha), rtol=1e-9)
    assert found.converged
    assert found.residual < 1e-10


@each_case
def test_the_nishimori_conditions_hold_at_the_right_temperature(teacher, alpha):
    found = bayes_optimal(teacher, alpha)
    np.testing.assert_allclose(found.m, found.q, rtol=1e-9)
    np.testing.assert_allclose(found.v, teacher.rho - found.q, rtol=1e-9)
    assert abs(found.confidence - found.accuracy) < 1e-10
    assert found.temperature == teacher.temperature


@each_case
def test_error_confidence_and_loss_equal_integrals_over_the_whole_line(teacher, alpha):
    found = bayes_optimal(teacher, alpha)
    classifier = reference.Classifier(teacher, found.m, found.q)
    # At T* the predicted probabilities are the true ones.
    p = classifier.positive
    np.testing.assert_allclose(found.error, classifier.error(), rtol=1e-9)
    np.testing.assert_allclose(found.confidence, classifier.weight @ np.maximum(p, 1 - p), rtol=1e-9)
    inside = (p > 0) & (p < 1)
    entropy = -(p[inside] * np.log(p[inside]) + (1 - p[inside]) * np.log1p(-p[inside]))
    np.testing.assert_allclose(found.loss, classifier.weight[inside] @ entropy, rtol=1e-9)


@each_concave
def test_a_wrong_temperature_costs_loss_error_and_calibration(teacher, alpha):
    best = bayes_optimal(teacher, alpha)
    hot, cold = (bayes_optimal(teacher, alpha, temperature=factor * teacher.temperature) for factor in (1.25, 0.8))
    assert best.loss < min(hot.loss, cold.loss)
    assert best.error < min(hot.error, cold.error)
    assert cold.confidence > cold.accuracy
    assert hot.confidence < hot.accuracy


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize(("teacher", "alpha"), [(Probit(), 3.0), (Probit(temperature=0.7, rho=2.0), 1.5)], ids=repr)
def test_metrics_at_a_wrong_temperature_are_those_of_the_predictive_probability(teacher, alpha, factor):
    T = factor * teacher.temperature
    found = bayes_optimal(teacher, alpha, temperature=T)
    classifier = reference.Classifier(teacher, found.m, found.q)
    claimed = ndtr(classifier.omega / sqrt(T**2 + found.v))
    np.testing.assert_allclose(found.error, classifier.error(), rtol=1e-9)
    np.testing.assert_allclose(found.confidence, classifier.weight @ np.maximum(claimed, 1 - claimed), rtol=1e-9)
    there = np.abs(classifier.omega) < 7 * sqrt(classifier.q)
    p, claimed, weight = classifier.positive[there], claimed[there], classifier.weight[there]
    loss = -weight @ (p * np.log(claimed) + (1 - p) * np.log(ndtr(-classifier.omega[there] / sqrt(T**2 + found.v))))
    np.testing.assert_allclose(found.loss, loss, rtol=1e-8)


@each_concave
def test_least_loss_and_expectation_consistency_both_find_the_temperature_of_the_teacher(teacher, alpha):
    np.testing.assert_allclose(bayes_temperatures(teacher, alpha), teacher.temperature, rtol=1e-8)


@pytest.mark.parametrize("name", ["logit", "affine", "constant", "probit"])
def test_nothing_beats_the_bayes_optimal_error_and_loss(name):
    for alpha in (0.5, 3.0, 20.0):
        best = bayes_optimal(name, alpha)
        assert best.error <= state_evolution(name, alpha, optimal_penalty(name, alpha)).error
        ridge = state_evolution(name, alpha, optimal_penalty(name, alpha, minimise="loss"))
        assert best.loss < ridge.loss(ridge.temperature_ts)


@pytest.mark.parametrize("T", [0.5, 2.0])
def test_a_wrong_temperature_is_refused_where_the_likelihood_is_not_log_concave(T):
    with pytest.raises(
        InputError,
        match=r"`temperature` must be the teacher's own, 1, got .* Constant teacher is not concave, so the equations are not",
    ):
        bayes_optimal("constant", 3.0, temperature=T)
    with pytest.raises(InputError, match="`teacher` must have a log-concave likelihood, got Constant"):
        bayes_temperatures("constant", 3.0)
    with pytest.raises(InputError, match="`teacher` must have a log-concave likelihood, got Constant"):
        simulate_bayes("constant", 3.0, 20)


def test_the_default_temperature_is_the_right_one():
    assert bayes_optimal("constant", 3.0, temperature=1.0) == bayes_optimal("constant", 3.0)


@pytest.mark.parametrize("value", [0.0, -1.0, inf, nan, "2", [1.0]])
@pytest.mark.parametrize("name", ["alpha", "temperature"])
def test_what_is_not_a_positive_finite_number_is_refused(name, value):
    given = {"alpha": 2.0, "temperature": 1.0, name: value}
    with pytest.raises(InputError, match=f"`{name}` must be a positive finite number, got"):
        bayes_optimal("logit", given["alpha"], temperature=given["temperature"])


def test_a_solution_that_is_not_unique_is_refused():
    with pytest.raises(NotConvergedError, match=r"the Constant teacher at alpha = 2 have 0 solutions .* Choose another"):
        bayes_optimal(Constant(temperature=6.0), 2.0)


def test_labels_whose_likelihood_underflows_are_refused():
    with pytest.raises(InputError, match=r"`temperature` must be nearer to the teacher's 1, got 0\.001: the likelihood of"):
        _channel(Affine(), 1e-3)(0.5, 1.0, 1e-8, 0.1)


def test_inference_too_close_to_the_teacher_is_refused():
    with pytest.raises(NotConvergedError, match="more than 300000 points, because the classifier is almost identical"):
        bayes_optimal("logit", 1e25)


@pytest.mark.parametrize("tol", [0.0, 0.1, nan])
def test_a_tolerance_out_of_reach_is_refused(tol):
    for call in (bayes_optimal, bayes_temperatures):
        with pytest.raises(InputError, match=r"`tol` must lie between 1e-13 and 0\.01, got"):
            call("logit", 2.0, tol=tol)


def test_on_data_both_temperatures_are_those_of_the_teacher_within_four_standard_errors():
    found = simulate_bayes(Probit(temperature=0.6, rho=1.5), alpha=3.0, d=150, seeds=8, n_jobs=1)
    assert abs(found["temperature_ec"].deviation_from(0.6)) < 4
    assert abs(found["temperature_ts"].deviation_from(0.6)) < 4
    assert abs(found["excess"].deviation_from(0.0)) < 4
    assert found["temperature_ec"].standard_error < 0.06
    limit = bayes_optimal(Probit(temperature=0.6, rho=1.5), alpha=3.0)
    for name in ("m", "q", "error", "confidence", "loss"):
        assert abs(found[name].deviation_from(getattr(limit, name))) < 4


def test_the_best_posterior_is_calibrated_and_a_wrong_one_is_not():
    assert bayes_optimal("probit", 3.0).ece < 1e-12
    hot = bayes_optimal("probit", 3.0, temperature=2.0)
    assert hot.ece == pytest.approx(abs(hot.excess), rel=1e-6)  # underconfident at every level
    assert hot.brier > bayes_optimal("probit", 3.0).brier


def test_temperatures_lost_in_rounding_errors_are_refused():
    with pytest.raises(NotConvergedError, match=r"lost in rounding errors, .* Lower the `temperature` of the teacher"):
        bayes_temperatures(Logit(temperature=1000.0), 3.0)


def test_the_calibration_error_of_a_wrong_temperature_is_that_of_a_fine_grid():
    found = bayes_optimal("affine", 5.0, temperature=0.8)
    s = (np.arange(400_000) + 0.5) * 9 / 400_000
    claimed = found.teacher.averages(-sqrt(found.q) * s / 0.8, found.v / 0.8**2).value
    r = found.m / sqrt(found.q)
    wrong = found.teacher.averages(-r * s, 1 - r * r).value
    density = 2 * np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)
    assert found.ece == pytest.approx(float(np.abs(wrong - claimed) @ density) * 9 / 400_000, rel=1e-8)
