"""Separability has the value of the paper, and is where the weights begin to be bounded."""

from math import log

import numpy as np
import pytest

from nishimori.errors import InputError
from nishimori_paper.theory import (
    Affine,
    Constant,
    Logit,
    Probit,
    Teacher,
    separability,
    state_evolution,
)


def test_separability_is_where_the_paper_has_it():
    for name, expected in {"logit": 2.278, "affine": 3.637, "constant": 2.447}.items():
        assert round(separability(name), 3) == expected


def test_random_labels_are_separable_below_two_samples_per_dimension():
    class Coin(Teacher):
        def probability(self, z):
            return np.full(np.shape(z), 0.5)

    np.testing.assert_allclose(separability(Coin()), 2.0, rtol=1e-12)  # Cover's theorem
    np.testing.assert_allclose(separability(Logit(temperature=1e4)), 2.0, rtol=1e-6)


def test_labels_without_noise_are_always_separable():
    class Certain(Teacher):
        breaks = (0.0,)

        def probability(self, z):
            return (np.sign(z) + 1) / 2

    assert separability(Certain()) > 1e6


def test_separability_refuses_a_teacher_with_a_negative_slope():
    class Contrary(Teacher):
        def probability(self, z):
            return 1 / (1 + np.exp(z))

    with pytest.raises(InputError, match="`probability` of Contrary must not have a negative mean slope"):
        separability(Contrary())


@pytest.mark.parametrize("teacher", [Logit(), Affine(), Constant(), Probit(), Affine(temperature=2.0, rho=0.5)], ids=repr)
def test_weights_grow_without_bound_below_separability_and_not_above(teacher):
    threshold = separability(teacher)

    def growth(alpha):
        """Exponent k in q ~ 1 / penalty^k as the penalty goes to zero."""
        strong, weak = (state_evolution(teacher, alpha, penalty).q for penalty in (1e-6, 1e-8))
        return log(weak / strong) / log(100)

    assert growth(0.9 * threshold) > 0.05
    assert growth(1.1 * threshold) < 1e-3
