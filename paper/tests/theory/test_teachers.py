"""Closed forms of a teacher equal quadratures of its probability, and a new teacher takes three lines."""

from dataclasses import dataclass
from math import inf, nan

import numpy as np
import pytest
import reference_theory as reference
from scipy.special import expit, ndtr

from nishimori.errors import InputError
from nishimori_paper.theory import (
    Affine,
    Atom,
    Constant,
    Logit,
    Overlaps,
    Probit,
    Teacher,
    bayes_optimal,
    separability,
    state_evolution,
)

TEACHERS = {"logit": Logit(), "affine": Affine(), "constant": Constant(), "probit": Probit()}
VARIANCES = [0.003, 0.1, 0.7, 3.0, 35.9, 36.1, 60.0]  # the logit teacher changes its formula at 36

each_teacher = pytest.mark.parametrize("teacher", TEACHERS.values(), ids=TEACHERS)
each_variance = pytest.mark.parametrize("variance", VARIANCES)


@dataclass(frozen=True)
class OwnProbit(Teacher):
    def probability(self, z):
        return ndtr(z)


@dataclass(frozen=True)
class OwnAffine(Teacher):
    breaks = (-1.0, 1.0)
    atoms = (Atom(0.0, -inf, -1.0), Atom(1.0, 1.0, inf))

    def probability(self, z):
        return np.clip((1 + z) / 2, 0, 1)


@each_variance
@each_teacher
def test_averages_equal_adaptive_quadrature_of_the_probability(teacher, variance):
    means = np.array([-3.0, -1.1, -0.4, 0.0, 0.9, 2.5])
    found = np.stack(teacher.averages(means, variance), axis=1)
    expected = np.array([reference.moments_by_quad(teacher, mean, variance) for mean in means])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 / variance)


@each_variance
@each_teacher
def test_closed_forms_equal_the_quadrature_that_any_teacher_has(teacher, variance):
    means = np.linspace(-6, 6, 41)
    for own, generic in zip(teacher.averages(means, variance), Teacher.averages(teacher, means, variance), strict=True):
        np.testing.assert_allclose(own, generic, rtol=0, atol=2e-14 / min(1, variance))


@each_variance
@each_teacher
def test_slope_and_curvature_are_derivatives_of_the_value(teacher, variance):
    means = np.linspace(-4, 4, 33)
    h = 1e-4 * min(1, variance**0.5)
    above, below, here = (teacher.averages(means + shift, variance) for shift in (h, -h, 0.0))
    scale = 1 / min(1, variance)
    np.testing.assert_allclose(here.slope, (above.value - below.value) / (2 * h), rtol=1e-6, atol=1e-7 * scale)
    np.testing.assert_allclose(here.curvature, (above.slope - below.slope) / (2 * h), rtol=1e-6, atol=1e-7 * scale**1.5)


@each_variance
@each_teacher
def test_averages_have_the_symmetry_of_the_probability(teacher, variance):
    means = np.linspace(0, 9, 19)
    right, left = teacher.averages(means, variance), teacher.averages(-means, variance)
    np.testing.assert_allclose(right.value + left.value, 1.0, rtol=1e-14)
    np.testing.assert_allclose(right.slope, left.slope, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(right.curvature, -left.curvature, rtol=1e-10, atol=1e-14 / variance)


@pytest.mark.parametrize("variance", [0.003, 0.1, 0.7, 3.0, 60.0])
@pytest.mark.parametrize("name", ["logit", "affine", "probit"])
def test_averages_keep_their_relative_accuracy_far_out_where_they_are_tiny(name, variance):
    teacher = TEACHERS[name]
    # The farthest mean: 30 for the logit, 30 standard deviations below -1 for the affine, 25 for the probit teacher.
    farthest = {"logit": 30.0, "affine": 1 + 30 * variance**0.5, "probit": 25 * (1 + variance) ** 0.5}[name]
    means = -np.linspace(1, farthest, 15)
    value, slope = reference.z_star(teacher, means, variance)
    assert value[-1] < 1e-3
    found = teacher.averages(means, variance)
    np.testing.assert_allclose(found.value, value, rtol=1e-10)
    np.testing.assert_allclose(found.slope, slope, rtol=1e-10)


@pytest.mark.parametrize("teacher", [*TEACHERS.values(), OwnProbit(), OwnAffine()], ids=lambda t: type(t).__name__)
def test_averages_keep_the_shape_of_the_means(teacher):
    for shape in [(), (3,), (2, 3), (0,)]:
        assert [np.shape(each) for each in teacher.averages(np.zeros(shape), 0.5)] == [shape] * 3


@pytest.mark.parametrize("teacher", [Logit(), Affine(), Probit(), OwnProbit(), OwnAffine()], ids=lambda t: type(t).__name__)
def test_inverse_undoes_the_probability_and_derivative_is_its_slope(teacher):
    z = np.linspace(-0.97, 0.97, 21)
    np.testing.assert_allclose(teacher.inverse(teacher.probability(z)), z, rtol=1e-12, atol=1e-13)
    h = 1e-5
    slope = (teacher.probability(z + h) - teacher.probability(z - h)) / (2 * h)
    np.testing.assert_allclose(teacher.derivative(z), slope, rtol=1e-8)


@pytest.mark.parametrize("teacher", [Logit(), Probit(), OwnProbit()], ids=lambda t: type(t).__name__)
def test_inverse_reaches_probabilities_near_zero(teacher):
    p = np.array([1e-12, 1e-6, 0.01])
    np.testing.assert_allclose(teacher.probability(teacher.inverse(p)), p, rtol=1e-9)


@each_teacher
def test_the_probability_grows_from_zero_to_one_and_is_constant_on_its_atoms(teacher):
    z = np.linspace(-9, 9, 181)
    p = teacher.probability(z)
    assert (np.diff(p) >= 0).all()
    assert p[0] < 1e-3
    assert p[-1] > 1 - 1e-3
    for value, low, high in teacher.atoms:
        assert (p[(z > low) & (z < high)] == value).all()


@pytest.mark.parametrize(("own", "built_in"), [(OwnProbit, Probit), (OwnAffine, Affine)])
@pytest.mark.parametrize(
    ("alpha", "penalty", "temperature", "rho"), [(3.0, 0.1, 1.0, 1.0), (1.0, 1e-4, 1.0, 1.0), (8.0, 0.02, 0.4, 2.0)]
)
def test_a_teacher_of_three_lines_gives_what_the_built_in_one_gives(own, built_in, alpha, penalty, temperature, rho):
    found, expected = (state_evolution(kind(temperature, rho), alpha, penalty) for kind in (own, built_in))
    np.testing.assert_allclose([found.m, found.q, found.v], [expected.m, expected.q, expected.v], rtol=1e-9)
    for metric in ("error", "temperature_ts", "temperature_ec"):
        np.testing.assert_allclose(getattr(found, metric), getattr(expected, metric), rtol=1e-9)
    np.testing.assert_allclose(found.ece(), expected.ece(), rtol=1e-9)
    np.testing.assert_allclose(found.density(0.3, 0.6), expected.density(0.3, 0.6), rtol=1e-8)
    np.testing.assert_allclose(
        bayes_optimal(own(temperature, rho), alpha).q, bayes_optimal(built_in(temperature, rho), alpha).q
    )
    np.testing.assert_allclose(separability(own(temperature, rho)), separability(built_in(temperature, rho)), rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, -1.0, inf, -inf, nan, "1", None, [1.0]])
@pytest.mark.parametrize("name", ["temperature", "rho"])
def test_a_temperature_or_norm_that_is_not_a_positive_finite_number_is_refused(name, value):
    with pytest.raises(InputError, match=f"`{name}` must be a positive finite number, got"):
        Logit(**{name: value})


def test_an_asymmetric_probability_is_refused():
    class Biased(Teacher):
        def probability(self, z):
            return expit(z + 0.1)

    with pytest.raises(InputError, match=r"`probability` of Biased must be symmetric, σ\*\(-z\) = 1 - σ\*\(z\), got"):
        Biased()


class Contrary(Teacher):
    def probability(self, z):
        return expit(-z)


class Coin(Teacher):
    def probability(self, z):
        return np.full(np.shape(z), 0.5)


@pytest.mark.parametrize("kind", [Contrary, Coin])
def test_a_probability_without_a_positive_slope_is_refused(kind):
    for learn in (lambda teacher: state_evolution(teacher, 2.0, 0.1), lambda teacher: bayes_optimal(teacher, 2.0)):
        with pytest.raises(
            InputError, match=f"`probability` of {kind.__name__} must have a positive mean slope, or there is nothing to learn"
        ):
            learn(kind())


@pytest.mark.parametrize("teacher", ["sigmoid", "Logit", "", None, Logit, ["logit"]], ids=repr)
def test_an_unknown_teacher_is_refused_with_a_list_of_names(teacher):
    with pytest.raises(
        InputError, match="`teacher` must be one of logit, affine, constant, probit, or an instance of a subclass of"
    ):
        state_evolution(teacher, 2.0, 0.1)


def test_a_name_means_the_teacher_with_temperature_and_norm_one():
    for name, teacher in TEACHERS.items():
        assert state_evolution(name, 2.0, 0.1) == state_evolution(teacher, 2.0, 0.1)
        assert state_evolution(name, 2.0, 0.1).teacher == teacher


def test_equal_teachers_are_equal_and_others_are_not():
    assert Logit(temperature=2.0) == Logit(temperature=2.0)
    assert len({Logit(), Logit(), Logit(temperature=2.0), Logit(rho=2.0), Probit()}) == 4


@dataclass(frozen=True)
class Steep(Teacher):
    k: float = 1.0

    def probability(self, z):
        return expit(self.k * z)


@pytest.mark.parametrize("k", [0.2, 5.0, 50.0])
def test_a_steep_teacher_is_the_built_in_one_at_a_low_temperature(k):
    own, built_in = (state_evolution(teacher, 3.0, 0.1) for teacher in (Steep(k=k), Logit(temperature=1 / k)))
    for metric in ("m", "q", "v", "error", "temperature_ts", "temperature_ec"):
        np.testing.assert_allclose(getattr(own, metric), getattr(built_in, metric), rtol=1e-9)
    np.testing.assert_allclose(own.ece(), built_in.ece(), rtol=1e-9)


def test_a_probability_too_abrupt_for_quadrature_is_refused_with_the_remedy():
    class Kinked(Teacher):
        def probability(self, z):
            return np.interp(z, [-1.0, 1.0], [0.0, 1.0])

    for teacher in (Kinked(), Steep(k=1000.0)):
        with pytest.raises(InputError, match=r"set `breaks` to their positions\. If it is very steep, override `averages`"):
            state_evolution(teacher, 2.0, 1.0)


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        (lambda z: 0.5 + z, "must return a number from 0 to 1 for each z"),
        (lambda z: 0.5, "must return a number from 0 to 1 for each z"),
        (lambda z: 1.0 if z > 1 else 0.5, "must take an array and return one"),
    ],
)
def test_values_that_are_no_probabilities_are_refused_when_the_teacher_is_created(probability, message):
    teacher = type("Odd", (Teacher,), {"probability": lambda self, z: probability(z)})
    with pytest.raises(InputError, match=f"The `probability` of Odd {message}"):
        teacher()


@dataclass(frozen=True)
class Noisy(Teacher):
    flipped: float = 0.1

    def probability(self, z):
        return self.flipped + (1 - 2 * self.flipped) * expit(z)


def test_there_is_no_density_outside_the_range_of_the_teacher():
    found = state_evolution(Noisy(), 2.0, 1.0)
    assert found.density(0.05, 0.5) == 0
    levels = 0.1 + 0.8 * (np.arange(400) + 0.5) / 400
    statements = (np.arange(400) + 0.5) / 400
    total = found.density(levels[:, None], statements[None, :]).sum() * (0.8 / 400) / 400
    np.testing.assert_allclose(total, 1.0, rtol=2e-3)


def test_a_density_is_refused_if_atoms_are_not_declared_or_the_probability_decreases():
    class Undeclared(OwnAffine):
        atoms = ()

    class Sign(Teacher):
        breaks = (0.0,)

        def probability(self, z):
            return (1 + np.sign(z)) / 2

    class Wavy(Teacher):
        def probability(self, z):
            return expit(z + 2 * np.sin(3 * z))

    for teacher, message in ((Undeclared(), "Set `atoms`"), (Sign(), "Set `atoms`"), (Wavy(), "σ\\* that decreases somewhere")):
        with pytest.raises(InputError, match=message):
            Overlaps(teacher, 0.5, 1.0).density(0.3, 0.6)


def test_teachers_that_differ_in_their_own_parameters_give_different_results():
    best = [bayes_optimal(Noisy(flipped=flipped), 2.0).q for flipped in (0.0, 0.3)]
    assert best[0] > 2 * best[1]
