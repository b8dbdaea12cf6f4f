"""Metrics and temperatures of a linear classifier equal the averages and roots that define them."""

from dataclasses import FrozenInstanceError
from math import acos, exp, inf, nan, pi, sqrt

import numpy as np
import pytest
import reference_theory as reference
from scipy.special import expit

from nishimori.errors import InputError, NotConvergedError, NoTemperatureError
from nishimori_paper.theory import Affine, Constant, Logit, Overlaps, Probit, Teacher, state_evolution

CASES = {
    "logit": Overlaps(Logit(), m=0.5, q=0.7),
    "affine": Overlaps(Affine(), m=3.0, q=10.6),
    "constant": Overlaps(Constant(), m=1.2, q=2.0),
    "probit": Overlaps(Probit(), m=0.1, q=4.0),
    "aligned": Overlaps(Constant(), m=2.99, q=9.0),
    "steep": Overlaps(Affine(), m=11.6, q=291.0),
    "flat": Overlaps(Logit(), m=0.01, q=0.001),
    "cold and long": Overlaps(Affine(temperature=0.4, rho=2.5), m=1.5, q=2.0),
    "warm and short": Overlaps(Logit(temperature=3.0, rho=0.3), m=0.5, q=2.0),
}
METRICS = ["confidence", "loss", "brier", "ece"]

each_case = pytest.mark.parametrize("score", CASES.values(), ids=CASES)
each_metric = pytest.mark.parametrize("metric", METRICS)


def slowly(score):
    return reference.Classifier(score.teacher, score.m, score.q)


@each_case
def test_error_and_both_temperatures_equal_the_reference(score):
    expected = slowly(score)
    np.testing.assert_allclose(score.error, expected.error(), rtol=1e-9)
    np.testing.assert_allclose(score.accuracy, 1 - expected.error(), rtol=1e-9)
    np.testing.assert_allclose(score.temperature_ec, expected.temperature_ec(), rtol=1e-9)
    np.testing.assert_allclose(score.temperature_ts, expected.temperature_ts(), rtol=1e-9)


@each_case
def test_metrics_equal_the_reference_at_any_temperature(score):
    expected = slowly(score)
    for T in (0.3, 1.0, 5.0, score.temperature_ts, score.temperature_ec):
        for metric in METRICS:
            np.testing.assert_allclose(getattr(score, metric)(T), getattr(expected, metric)(T), rtol=1e-9, err_msg=metric)


@each_case
def test_calibration_by_level_equals_the_reference(score):
    level = np.array([0.001, 0.2, 0.5, 0.77, 0.999])
    for T in (0.5, 1.0, score.temperature_ec):
        expected = slowly(score).conditional_mean(level, T)
        np.testing.assert_allclose(score.conditional_mean(level, T), expected, rtol=1e-9)
        np.testing.assert_allclose(score.delta(level, T), level - expected, atol=1e-12)


@pytest.mark.parametrize(("temperature", "rho"), [(1.0, 1.0), (0.5, 3.0)])
def test_the_error_of_a_probit_teacher_is_an_angle(temperature, rho):
    score = Overlaps(Probit(temperature, rho), m=0.8, q=1.1)
    between = score.m / sqrt(score.q * (rho + temperature**2))
    np.testing.assert_allclose(score.error, acos(between) / pi, rtol=1e-12)


@each_metric
def test_arrays_of_temperatures_keep_their_shape_and_numbers_are_floats(metric):
    score = CASES["affine"]
    measure = getattr(score, metric)
    T = np.array([[0.5, 1.0, 2.0], [0.02, 40.0, 1.3]])
    found = measure(T)
    assert isinstance(found, np.ndarray)
    assert found.shape == T.shape
    np.testing.assert_allclose(found, [[measure(float(each)) for each in row] for row in T], rtol=1e-12)
    assert measure(T[:0]).shape == (0, 3)
    for number in (2.0, 2, np.float64(2), np.array(2.0)):
        assert type(measure(number)) is float
        assert measure(number) == measure(2.0)
    assert measure() == measure(1.0)


@pytest.mark.parametrize("method", ["conditional_mean", "delta"])
def test_arrays_of_levels_keep_their_shape_and_numbers_are_floats(method):
    measure = getattr(CASES["logit"], method)
    levels = np.array([[0.1, 0.5], [0.7, 0.9]])
    assert measure(levels).shape == (2, 2)
    assert type(measure(0.3)) is float
    np.testing.assert_allclose(measure(levels)[0, 0], measure(0.1))


def test_one_level_is_measured_at_many_temperatures():
    score, T = CASES["logit"], np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(score.conditional_mean(0.7, T), [score.conditional_mean(0.7, float(each)) for each in T])


@each_case
def test_confidence_is_accuracy_at_one_temperature_and_loss_is_least_at_the_other(score):
    ec, ts = score.temperature_ec, score.temperature_ts
    np.testing.assert_allclose(score.confidence(ec), score.accuracy, rtol=1e-10)
    assert score.loss(ts) < min(score.loss(ts * 0.99), score.loss(ts * 1.01))
    far, near = (score.loss(ts * exp(h)) - score.loss(ts * exp(-h)) for h in (2e-3, 1e-3))
    assert abs(8 * near - far) / 12e-3 < 1e-10  # the derivative in log T


@pytest.mark.parametrize("teacher", [Logit(), Affine(), Constant(), Probit()], ids=repr)
def test_after_calibration_only_the_alignment_matters(teacher):
    small, large = Overlaps(teacher, m=0.4, q=0.25), Overlaps(teacher, m=4.0, q=25.0)
    for name in ("temperature_ts", "temperature_ec"):
        before, after = getattr(small, name), getattr(large, name)
        np.testing.assert_allclose(after, 10 * before, rtol=1e-10)
        for metric in METRICS:
            np.testing.assert_allclose(getattr(large, metric)(after), getattr(small, metric)(before), rtol=1e-9)
    assert small.error == pytest.approx(large.error, rel=1e-12)


def test_expectation_consistency_leaves_less_calibration_error_than_temperature_scaling():
    for teacher in (Logit(), Affine(), Constant()):
        for r in (0.1, 0.4, 0.7, 0.9, 0.98):
            score = Overlaps(teacher, m=r, q=1.0)
            assert score.ece(score.temperature_ec) < score.ece(score.temperature_ts)


@pytest.mark.parametrize("teacher", [Logit(), Affine(), Constant(), Probit()], ids=repr)
def test_the_error_left_by_calibration_is_cubic_in_the_alignment(teacher):
    # Both curves are odd around 1/2. Calibration matches their slopes, so the first difference is of third order.
    scores = {m: Overlaps(teacher, m=m, q=1.0) for m in (2e-2, 2e-3, 5e-4)}
    left = [score.ece(score.temperature_ec) / m**3 for m, score in scores.items()]
    np.testing.assert_allclose(left, left[0], rtol=0.01)


def test_the_calibration_errors_of_the_density_figure_are_those_of_the_whole_line():
    result = state_evolution("affine", 20.0, 1e-4)
    assert (round(result.temperature_ts, 3), round(result.temperature_ec, 3)) == (1.242, 1.354)
    found = [round(100 * result.ece(T), 2) for T in (1.0, result.temperature_ts, result.temperature_ec)]
    assert found == [4.36, 2.40, 2.02]


# Densities

STEP = 0.01
# Probabilities and weights of a trapezoid rule in the log-odds, in which these densities are smooth and decay.
LEVELS = expit(STEP * np.arange(-3000, 3001))
MEASURE = STEP * LEVELS * (1 - LEVELS)


@pytest.mark.parametrize("teacher", [Logit(0.7, 1.3), Probit(2.0, 1.3)], ids=repr)
@pytest.mark.parametrize("T", [1.0, 2.5])
def test_a_density_without_atoms_integrates_to_the_density_of_the_classifier(teacher, T):
    score = Overlaps(teacher, m=0.9, q=1.5)
    level = np.array([0.01, 0.3, 0.5, 0.95])
    marginal = score.density(LEVELS[:, None], level, T).T @ MEASURE
    np.testing.assert_allclose(marginal, slowly(score).marginal(level, T), rtol=1e-8)
    mean = score.density(LEVELS[:, None], level, T).T @ (MEASURE * LEVELS)
    np.testing.assert_allclose(mean / marginal, score.conditional_mean(level, T), rtol=1e-8)
    assert score.atoms(level, T) == ()


@pytest.mark.parametrize("T", [1.0, 2.5])
def test_density_and_atoms_of_the_affine_teacher_integrate_to_the_density_of_the_classifier(T):
    score = Overlaps(Affine(0.7, 1.3), m=0.9, q=1.5)
    level = np.array([0.01, 0.3, 0.5, 0.95])
    f_star, weight = reference.panels(np.linspace(0, 1, 21))
    smooth = score.density(f_star[:, None], level, T)
    zero, one = score.atoms(level, T)
    assert (zero.f_star, one.f_star) == (0.0, 1.0)
    total = weight @ smooth + zero.density + one.density
    np.testing.assert_allclose(total, slowly(score).marginal(level, T), rtol=1e-9)
    np.testing.assert_allclose(((weight * f_star) @ smooth + one.density) / total, score.conditional_mean(level, T), rtol=1e-9)


def test_the_constant_teacher_has_only_atoms():
    score = Overlaps(Constant(), m=0.9, q=1.5)
    level = np.array([0.01, 0.3, 0.5, 0.95])
    atoms = score.atoms(level)
    assert [atom.f_star for atom in atoms] == [0.0, 0.5, 1.0]
    total = sum(atom.density for atom in atoms)
    np.testing.assert_allclose(total, slowly(score).marginal(level, 1.0), rtol=1e-9)
    mean = sum(atom.f_star * atom.density for atom in atoms) / total
    np.testing.assert_allclose(mean, score.conditional_mean(level), rtol=1e-9)
    assert all(type(atom.density) is float for atom in score.atoms(0.3))


@pytest.mark.parametrize("teacher", [Logit(), Affine(), Probit()], ids=repr)
def test_density_and_atoms_together_hold_all_samples(teacher):
    score = Overlaps(teacher, m=0.5, q=0.9)
    f_star, weight = reference.panels(np.linspace(0, 1, 21)) if isinstance(teacher, Affine) else (LEVELS, MEASURE)
    held = sum(atom.density @ MEASURE for atom in score.atoms(LEVELS))
    spread = sum(weight @ score.density(f_star[:, None], part) @ part_weight for part, part_weight in parts(LEVELS, MEASURE))
    np.testing.assert_allclose(held + spread, 1.0, rtol=1e-9)


def parts(levels, weights, every=10):
    """A tenth of the nodes, in 20 pieces to save memory; a smooth integrand does not need more."""
    chosen = slice(0, None, every)
    return zip(np.array_split(levels[chosen], 20), np.array_split(every * weights[chosen], 20), strict=True)


def test_densities_broadcast_and_numbers_are_floats():
    score = CASES["logit"]
    f_star, f_erm = np.array([0.2, 0.5, 0.6]), np.array([0.3, 0.9])
    grid = score.density(f_star[:, None], f_erm)
    assert grid.shape == (3, 2)
    assert type(score.density(0.2, 0.9)) is float
    np.testing.assert_allclose(grid[0, 1], score.density(0.2, 0.9))
    assert score.density(f_star, 0.4).shape == (3,)
    assert score.density(0.4, f_erm).shape == (2,)


# Refusals


def test_a_teacher_without_a_density_is_refused_with_a_hint_at_its_atoms():
    with pytest.raises(InputError, match=r"takes only the values 0, 0\.5, 1\. Use `atoms\(f_erm, T\)`"):
        CASES["constant"].density(0.3, 0.3)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.1, nan, [0.5, 1.0]])
def test_levels_outside_the_unit_interval_are_refused(level):
    score = CASES["affine"]
    for name, call in {
        "level": score.delta,
        "f_star": lambda x: score.density(x, 0.5),
        "f_erm": score.atoms,
    }.items():
        with pytest.raises(InputError, match=f"`{name}` must lie strictly between 0 and 1, got"):
            call(level)
    with pytest.raises(InputError, match="`level` must lie"):
        score.conditional_mean(level)
    with pytest.raises(InputError, match="`f_erm` must lie"):
        score.density(0.5, level)


@pytest.mark.parametrize("T", [0.0, -1.0, inf, nan, [1.0, 0.0]])
def test_a_temperature_that_is_not_positive_and_finite_is_refused(T):
    score = CASES["affine"]
    for measure in (
        *(getattr(score, metric) for metric in METRICS),
        lambda T: score.delta(0.3, T),
        lambda T: score.atoms(0.3, T),
    ):
        with pytest.raises(InputError, match="`T` must lie between 1e-30 and 1e30, got"):
            measure(T)


def test_what_is_not_a_number_is_refused():
    score = CASES["affine"]
    with pytest.raises(InputError, match="`T` must be a number or an array of numbers, got 'warm'"):
        score.loss("warm")
    with pytest.raises(InputError, match="`level` must be a number or an array of numbers, got 'high'"):
        score.delta("high")


@pytest.mark.parametrize(
    ("m", "q"), [(1.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (0.1, 0.0), (0.1, -1.0), (nan, 1.0), (0.1, nan), (0.1, inf), (inf, inf)]
)
def test_overlaps_that_no_weights_have_are_refused(m, q):
    with pytest.raises(
        InputError, match=r"`m` must be a number of absolute value below sqrt\(rho \* q\)|`q` must be a positive finite number"
    ):
        Overlaps(Logit(), m=m, q=q)


def test_the_norm_of_the_teacher_bounds_the_overlap():
    assert Overlaps(Logit(rho=4.0), m=1.9, q=1.0).correlation == pytest.approx(0.95)
    with pytest.raises(InputError, match=r"below sqrt\(rho \* q\) = 2, got 2\.0"):
        Overlaps(Logit(rho=4.0), m=2.0, q=1.0)


@pytest.mark.parametrize("m", [0.0, -0.3])
@pytest.mark.parametrize("name", ["temperature_ec", "temperature_ts"])
def test_a_classifier_that_learnt_nothing_has_no_temperature(m, name):
    score = Overlaps(Logit(), m=m, q=1.0)
    with pytest.raises(NoTemperatureError, match=r"is not above chance \(0\.5\), .* Train it on more samples") as caught:
        getattr(score, name)
    assert caught.value.end == "hot"


def test_a_classifier_worse_than_chance_still_has_metrics():
    score = Overlaps(Affine(), m=-0.6, q=1.3)
    expected = slowly(score)
    assert score.error > 0.5
    np.testing.assert_allclose(score.error, expected.error(), rtol=1e-9)
    for metric in METRICS:
        np.testing.assert_allclose(getattr(score, metric)(0.8), getattr(expected, metric)(0.8), rtol=1e-9)


def test_overlaps_are_immutable():
    with pytest.raises(FrozenInstanceError):
        CASES["logit"].m = 0.1


def test_a_teacher_outside_the_library_has_every_metric():
    class Cauchy(Teacher):
        def probability(self, z):
            return 0.5 + np.arctan(z) / pi

    score = Overlaps(Cauchy(), m=0.6, q=1.1)
    expected = slowly(score)
    np.testing.assert_allclose(score.error, expected.error(), rtol=1e-7)
    for metric in METRICS:
        np.testing.assert_allclose(getattr(score, metric)(), getattr(expected, metric)(1.0), rtol=1e-7)


def test_a_temperature_that_rounding_would_decide_is_refused():
    with pytest.raises(NotConvergedError, match="lost in rounding"):
        _ = state_evolution(Logit(temperature=1e8), 3.0, 1e-2).temperature_ts


def test_a_classifier_too_close_to_the_teacher_is_refused_before_memory_runs_out():
    for score in (Overlaps("logit", 1 - 1e-9, 1 - 1e-9), Overlaps(Logit(rho=3.0), m=np.nextafter(3.0, 0.0), q=3.0)):
        with pytest.raises(NotConvergedError, match="more than 300000 points, because the classifier is almost identical"):
            _ = score.error
