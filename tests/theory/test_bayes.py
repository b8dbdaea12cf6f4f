"""Bayesian inference is honest at the teacher's temperature, in the limit and on data."""

from math import inf, nan, sqrt

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import reference_theory as reference
from nishimori import InputError, NotConvergedError
from nishimori.theory import (
    Affine,
    Constant,
    Logit,
    Posterior,
    Probit,
    bayes_optimal,
    bayes_temperatures,
    gamp,
    optimal_penalty,
    simulate_bayes,
    state_evolution,
)

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
def test_the_overlap_solves_the_one_equation_that_is_left_at_the_right_temperature(teacher, alpha):
    found = bayes_optimal(teacher, alpha)
    np.testing.assert_allclose(found.q, reference.bayes_overlap(teacher, alpha), rtol=1e-9)
    assert found.converged
    assert found.residual < 1e-10


@each_case
def test_at_the_right_temperature_teacher_and_sample_of_the_posterior_are_alike(teacher, alpha):
    found = bayes_optimal(teacher, alpha)
    np.testing.assert_allclose(found.m, found.q, rtol=1e-9)
    np.testing.assert_allclose(found.v, teacher.rho - found.q, rtol=1e-9)
    assert abs(found.confidence - found.accuracy) < 1e-10
    assert found.temperature == teacher.temperature


@each_case
def test_error_confidence_and_loss_equal_integrals_over_the_whole_line(teacher, alpha):
    found = bayes_optimal(teacher, alpha)
    classifier = reference.Classifier(teacher, found.m, found.q)
    # At T* what is claimed is what is true.
    p = classifier.positive
    np.testing.assert_allclose(found.error, classifier.error(), rtol=1e-9)
    np.testing.assert_allclose(found.confidence, classifier.weight @ np.maximum(p, 1 - p), rtol=1e-9)
    inside = (p > 0) & (p < 1)
    entropy = -(p[inside] * np.log(p[inside]) + (1 - p[inside]) * np.log1p(-p[inside]))
    np.testing.assert_allclose(found.loss, classifier.weight[inside] @ entropy, rtol=1e-9)


@each_concave
def test_a_wrong_temperature_costs_loss_and_honesty(teacher, alpha):
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


def test_a_posterior_measures_the_overlaps_it_is_given():
    found = bayes_optimal("affine", 3.0, temperature=1.3)
    same = Posterior(Affine(), 1.3, found.m, found.q, found.v)
    for metric in ("error", "accuracy", "confidence", "loss"):
        assert getattr(same, metric) == getattr(found, metric)


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
    with pytest.raises(InputError, match=r"`temperature` must be the teacher's own, 1, got .* Constant teacher is not concave"):
        bayes_optimal("constant", 3.0, temperature=T)
    with pytest.raises(InputError, match="`teacher` must have a log-concave likelihood, got Constant"):
        bayes_temperatures("constant", 3.0)
    with pytest.raises(InputError, match="`teacher` must have a log-concave likelihood, got Constant"):
        simulate_bayes("constant", 3.0, 20)


def test_a_right_temperature_that_is_said_is_the_one_that_is_not():
    assert bayes_optimal("constant", 3.0, temperature=1.0) == bayes_optimal("constant", 3.0)


@pytest.mark.parametrize("value", [0.0, -1.0, inf, nan, "2", [1.0]])
@pytest.mark.parametrize("name", ["alpha", "temperature"])
def test_what_is_not_a_positive_finite_number_is_refused(name, value):
    given = {"alpha": 2.0, "temperature": 1.0, name: value}
    with pytest.raises(InputError, match=f"`{name}` must be a positive finite number, got"):
        bayes_optimal("logit", given["alpha"], temperature=given["temperature"])


@pytest.mark.parametrize("tol", [0.0, 0.1, nan])
def test_a_tolerance_out_of_reach_is_refused(tol):
    for call in (bayes_optimal, bayes_temperatures):
        with pytest.raises(InputError, match=r"`tol` must lie between 1e-13 and 0\.01, got"):
            call("logit", 2.0, tol=tol)


# Message passing


def data(teacher, alpha, d, seed):
    """A teacher's weights of norm ρd, Gaussian samples and their labels."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(d)
    weights *= sqrt(teacher.rho * d / (weights @ weights))
    x = rng.standard_normal((round(alpha * d), d)) / sqrt(d)
    right = rng.random(len(x)) < teacher.probability(x @ weights / teacher.temperature)
    return weights, x, np.where(right, 1, -1)


@pytest.mark.parametrize(
    ("teacher", "alpha", "factor"),
    [
        (Logit(), 3.0, 1.0),
        (Affine(), 2.0, 1.0),
        (Constant(), 3.0, 1.0),
        (Probit(temperature=0.5, rho=2.0), 2.0, 1.0),
        (Logit(), 3.0, 0.6),
        (Affine(), 2.0, 1.5),
    ],
    ids=repr,
)
def test_message_passing_has_the_overlaps_of_the_limit_within_four_standard_errors(teacher, alpha, factor):
    d, T = 300, factor * teacher.temperature
    limit = bayes_optimal(teacher, alpha, temperature=T)
    found = []
    for seed in range(100, 116):
        weights, x, y = data(teacher, alpha, d, seed)
        posterior = gamp(x, y, teacher, temperature=T)
        assert posterior.residual <= 1e-9
        m, q = weights @ posterior.weights / d, posterior.weights @ posterior.weights / d
        found.append([m, q, posterior.v, Posterior(teacher, T, m, q, posterior.v).error])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / sqrt(len(found))
    assert (np.abs(mean - [limit.m, limit.q, limit.v, limit.error]) < 4 * error).all()


@pytest.mark.parametrize("T", [0.7, 1.5])
def test_message_passing_agrees_with_a_gibbs_sampler(T):
    # Albert and Chib: a label is the sign of a Gaussian around the score, and given those Gaussians the weights are Gaussian.
    teacher, d = Probit(temperature=0.7, rho=1.5), 150
    _, x, y = data(teacher, 3.0, d, seed=1)
    found = gamp(x, y, teacher, temperature=T)
    rng = np.random.default_rng(0)
    covariance = np.linalg.inv(np.eye(d) / teacher.rho + x.T @ x / T**2)
    root = np.linalg.cholesky(covariance)
    regress = covariance @ x.T / T**2
    weights, samples = found.weights, []
    for _ in range(3000):
        score = y * (x @ weights)
        latent = score - T * ndtri(rng.random(len(y)) * ndtr(score / T))  # above zero, as the label says
        weights = regress @ (y * latent) + root @ rng.standard_normal(d)
        samples.append(weights)
    mean, spread = np.mean(samples[200:], axis=0), np.var(samples[200:], axis=0).mean()
    np.testing.assert_allclose(mean @ found.weights / (found.weights @ found.weights), 1.0, atol=0.02)
    assert np.linalg.norm(mean - found.weights) < 0.1 * np.linalg.norm(mean)
    np.testing.assert_allclose(found.v, spread, rtol=0.03)


def test_message_passing_from_a_start_nearby_ends_at_the_same_place_sooner():
    _, x, y = data(Logit(), 3.0, 200, seed=0)
    cold = gamp(x, y, "logit")
    near = gamp(x, y, "logit", temperature=1.01)
    warm = gamp(x, y, "logit", start=near)
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-7)
    np.testing.assert_allclose(warm.v, cold.v, rtol=1e-7)
    assert warm.steps <= cold.steps


def test_message_passing_turns_with_the_labels():
    _, x, y = data(Affine(), 2.0, 200, seed=0)
    np.testing.assert_allclose(gamp(x, -y, "affine").weights, -gamp(x, y, "affine").weights, atol=1e-9)
    np.testing.assert_allclose(gamp(-x, -y, "affine").weights, gamp(x, y, "affine").weights, atol=1e-9)


X = np.random.default_rng(0).standard_normal((6, 3))
Y = np.array([1, -1, 1, 1, -1, 1])


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, Y[:5]),
        (X[0], Y[:3]),
        (X, Y[:, None]),
        (X, (Y + 1) // 2),
        (X, np.where(Y > 0, 2, -2)),
        (X, np.where(Y > 0, nan, -1)),
        (np.where(X > 1, nan, X), Y),
        (np.where(X > 1, inf, X), Y),
        (X[:, :0], Y),
        (X, ["up"] * 6),
    ],
    ids=["fewer labels", "one row", "column", "0 and 1", "2 and -2", "nan label", "nan", "inf", "no columns", "words"],
)
def test_message_passing_refuses_what_are_not_samples_and_labels(x, y):
    with pytest.raises(InputError, match=r"`[xy]` must (have samples as rows|be finite|hold the labels|be numbers)"):
        gamp(x, y, "logit")


@pytest.mark.parametrize("name", ["temperature", "tol"])
def test_message_passing_refuses_what_is_not_positive(name):
    with pytest.raises(InputError, match=f"`{name}` must (be a positive finite number|lie between)"):
        gamp(X, Y, "logit", **{name: 0.0})


def test_message_passing_on_other_data_says_that_it_did_not_settle():
    x = np.ones((40, 30)) + 0.01 * np.random.default_rng(0).standard_normal((40, 30))
    with pytest.raises(NotConvergedError, match=r"needs samples from N\(0, I/d\)"):
        gamp(100 * x, np.resize([1, -1], 40), "logit", temperature=0.1)


def test_on_data_both_temperatures_are_those_of_the_teacher_within_four_standard_errors():
    found = simulate_bayes(Probit(temperature=0.6, rho=1.5), alpha=3.0, d=150, seeds=8, n_jobs=1)
    assert abs(found["temperature_ec"].deviation_from(0.6)) < 4
    assert abs(found["temperature_ts"].deviation_from(0.6)) < 4
    assert abs(found["excess"].deviation_from(0.0)) < 4
    assert found["temperature_ec"].standard_error < 0.06
    limit = bayes_optimal(Probit(temperature=0.6, rho=1.5), alpha=3.0)
    for name in ("m", "q", "error", "confidence", "loss"):
        assert abs(found[name].deviation_from(getattr(limit, name))) < 4


def test_a_posterior_that_points_the_wrong_way_is_wrong_more_often_than_not():
    away, towards = (Posterior("logit", 1.0, m, 0.3, 0.7) for m in (-0.1, 0.1))
    assert away.error == pytest.approx(1 - towards.error, abs=1e-12)
    assert Posterior("logit", 1.0, 0.0, 0.3, 0.7).error == pytest.approx(0.5, abs=1e-12)


def test_a_posterior_that_no_data_give_is_refused():
    with pytest.raises(InputError, match="`m` must be a number smaller than the root of rho"):
        Posterior("logit", 1.0, 9.0, 0.3, 0.7)
    with pytest.raises(InputError, match="`v` must be a positive finite number"):
        Posterior("logit", 1.0, 0.1, 0.3, 0.0)


def test_the_best_posterior_is_calibrated_and_a_wrong_one_is_not():
    assert bayes_optimal("probit", 3.0).ece < 1e-12
    hot = bayes_optimal("probit", 3.0, temperature=2.0)
    assert hot.ece == pytest.approx(abs(hot.excess), rel=1e-6)  # too timid at every level
    assert hot.brier > bayes_optimal("probit", 3.0).brier


def test_temperatures_that_rounding_would_decide_are_refused():
    with pytest.raises(NotConvergedError, match="lost in rounding"):
        bayes_temperatures(Logit(temperature=1000.0), 3.0)


def test_the_calibration_error_of_a_wrong_temperature_is_that_of_a_fine_grid():
    found = bayes_optimal("affine", 5.0, temperature=0.8)
    s = (np.arange(400_000) + 0.5) * 9 / 400_000
    claimed = found.teacher.averages(-sqrt(found.q) * s / 0.8, found.v / 0.8**2).value
    r = found.m / sqrt(found.q)
    wrong = found.teacher.averages(-r * s, 1 - r * r).value
    density = 2 * np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)
    assert found.ece == pytest.approx(float(np.abs(wrong - claimed) @ density) * 9 / 400_000, rel=1e-8)
