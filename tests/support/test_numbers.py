from math import inf, nan

import numpy as np
import pytest

from nishimori._support.numbers import between, is_whole, positive, temperature, whole
from nishimori.errors import InputError


@pytest.mark.parametrize(("value", "answer"), [(3, True), (np.int8(3), True), (True, False), (3.0, False), ("3", False)])
def test_whole_numbers_are_integers_and_nothing_else(value, answer):
    assert is_whole(value) is answer


def test_a_whole_number_must_be_in_its_range():
    assert whole("n", np.int64(5), 1, 5) == 5
    with pytest.raises(InputError, match=r"^`n` must be a whole number of at least 2, got 1\.$"):
        whole("n", 1, 2)
    with pytest.raises(InputError, match=r"^`n` must be a whole number from 1 to 4, got 5\.$"):
        whole("n", 5, 1, 4)


@pytest.mark.parametrize("value", [0, -1.0, nan, inf, True, "1", None, 10**400, np.array([1.0, 2.0])])
def test_what_is_no_positive_number_is_refused(value):
    with pytest.raises(InputError, match=r"^`x` must be a positive finite number, got "):
        positive("x", value)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.array(2.0)])
def test_numbers_of_every_kind_become_floats(value):
    assert type(positive("x", value)) is type(temperature(value)) is float
    assert positive("x", value) == temperature(value) == 2.0


def test_between_includes_its_ends():
    assert between("x", 1, 1, 2) == 1.0
    assert between("x", 2, 1, 2) == 2.0
    for value in (0.99, 2.01, nan, "1"):
        with pytest.raises(InputError, match=r"^`x` must lie between 1 and 2, got "):
            between("x", value, 1, 2)


@pytest.mark.parametrize("value", [0, -1.0, nan, inf, True, "1", None, 10**400, 1e-320, [1.0]])
def test_what_is_no_temperature_is_refused(value):
    with pytest.raises(InputError, match=r"^`T` must be a finite positive number, got "):
        temperature(value, "T")
