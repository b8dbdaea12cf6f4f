"""Numbers as people read them, against decimal arithmetic."""

import re
from decimal import ROUND_HALF_EVEN, Decimal
from math import inf, nan

import numpy as np
import pytest

from nishimori._support.formatting import (
    count,
    format_p_value,
    interval_text,
    number_text,
    percent,
    percent_with_error,
    points_with_error,
    signed,
    two_decimals,
    value_with_error,
)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.6127, 0.0401, "1.613 ± 0.040"),
        (1.6127, 0.00996, "1.613 ± 0.010"),
        (1.6127, 0.0996, "1.61 ± 0.10"),
        (0.0996, 0.0095, "0.0996 ± 0.0095"),
        (0.0996, 0.0996, "0.10 ± 0.10"),
        (123.4, 12.0, "123 ± 12"),
        (123456.0, 1200.0, "123500 ± 1200"),
        (-0.000044, 0.000057, "(−4.4 ± 5.7)e-5"),
        (1.5e9, 1e7, "(1.500 ± 0.010)e9"),
        (-0.0001, 0.1, "0.00 ± 0.10"),
        (1.6127, None, "1.6127"),
        (1.0, 0.0, "1"),
        (1.0, inf, "1"),
        (1.0, nan, "1"),
        (1.5, 1e-14, "1.5"),
        (inf, 0.1, "infinite"),
        (nan, 0.1, "unknown"),
    ],
)
def test_digits_follow_the_error(value, error, text):
    assert value_with_error(value, error) == text


def test_value_and_error_are_rounded_at_the_second_digit_of_the_error():
    rng = np.random.default_rng(0)
    for _ in range(300):
        error = float(10 ** rng.uniform(-9, 5))
        value = float(rng.normal() * error * 10 ** rng.uniform(-1, 5))
        exact = Decimal(repr(error))
        rounded = round(exact, 1 - exact.adjusted())
        place = Decimal(1).scaleb(rounded.adjusted() - 1)  # 0.0996 is 0.10
        text = value_with_error(value, error)
        mantissas, _, exponent = text.strip("(").partition(")e")
        shown = [Decimal(each.replace("−", "-")).scaleb(int(exponent or 0)) for each in mantissas.split(" ± ")]
        expected = [Decimal(repr(each)).quantize(place, ROUND_HALF_EVEN) for each in (value, error)]
        assert shown == expected, (value, error, text)
        assert len(text) <= 26


@pytest.mark.parametrize(
    ("share", "error", "text"),
    [
        (0.1629, 0.0037, "16.29 ± 0.37 %"),
        (1.0, None, "100 %"),
        (0.0, 0.0, "0 %"),
        (0.5, None, "50.00 %"),
        (4.2e-100, None, "< 0.01 %"),
        (4.2e-100, 1e-101, "< 0.01 %"),
        (0.999999, None, "> 99.99 %"),
        (0.9999999, 1e-9, "> 99.99 %"),
        (nan, None, "unknown"),
    ],
)
def test_shares_are_in_percent_and_neither_0_nor_100_unless_they_are(share, error, text):
    assert percent_with_error(share, error) == text


def test_a_share_with_one_decimal_has_its_own_bounds():
    assert (percent(0.0004, 1), percent(0.9996, 1), percent(0.123, 1)) == ("< 0.1 %", "> 99.9 %", "12.3 %")


@pytest.mark.parametrize(
    ("gap", "error", "text"),
    [
        (0.0687, 0.0032, "+6.87 ± 0.32"),
        (-0.0201, 0.0058, "−2.01 ± 0.58"),
        (0.0, 0.0, "0"),
        (1.0, 1e-8, "+100"),
        (-1.0, 0.0, "−100"),
        (-0.0001, 0.01, "0.0 ± 1.0"),
        (0.1, None, "+10.00"),
    ],
)
def test_gaps_are_in_points_with_a_sign(gap, error, text):
    assert points_with_error(gap, error) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1e-98, "p < 0.001"),
        (0.00099, "p < 0.001"),
        (0.001, "p = 0.001"),
        (0.0432, "p = 0.043"),
        (0.999, "p > 0.99"),
        (1.0, "p = 1"),
    ],
)
def test_tiny_p_values_are_bounds(p, text):
    assert format_p_value(p) == text


def test_numbers_without_an_error_have_few_digits():
    numbers = {0.53771: "0.5377", 1.23e-9: "1.23e-9", 0: "0", -3.25: "−3.25", 12345678: "1.235e7", 99.9999: "100"}
    assert {value: number_text(value) for value in numbers} == numbers
    assert (count(10000), count(2.5)) == ("10,000", "2.5")
    assert (two_decimals(-0.001), two_decimals(-3.456)) == ("0.00", "−3.46")


def test_ends_of_an_interval_have_the_digits_of_the_error():
    assert interval_text(1.53612, 1.69321, 0.0401) == "1.536 to 1.693"
    assert interval_text(0.1, inf, 0.01) == "0.100 to infinite"
    assert not re.search("e", interval_text(0.0, 3.2e-5, 1e-5))


@pytest.mark.parametrize(
    ("value", "text"),
    [(-28.4, "−28"), (-3.04, "−3.0"), (12.6, "+13"), (0.123, "+0.12"), (-0.021, "−0.02"), (0.0, "0"), (-0.001, "0")],
)
def test_a_change_has_a_sign_and_few_digits(value, text):
    assert signed(value) == text


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (0.031, 0.049, "+0.031 ± 0.049"),
        (-0.27, 0.64, "−0.27 ± 0.64"),
        (-4.4e-5, 5.7e-5, "(−4.4 ± 5.7)e-5"),
        (-0.0001, 0.1, "0.00 ± 0.10"),
        (0.0282732, None, "+0.0282732"),
        (-0.0282732, None, "−0.0282732"),
        (0.0, 0.0, "0"),
    ],
)
def test_a_change_has_one_sign(change, error, text):
    assert value_with_error(change, error, signed=True) == text


def test_zero_has_no_sign_and_what_is_not_finite_has_words():
    assert percent(-1e-7) == "0.00 %"
    assert percent(-0.0) == "0 %"
    assert interval_text(-1e-9, -0.0, 0.01) == "0.000 to 0.000"
    assert count(-0.0) == "0"
    assert points_with_error(nan, 0.1) == "unknown"
    assert points_with_error(-inf, None) == "−infinite"
