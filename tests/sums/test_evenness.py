import numpy as np
import pytest
import reference

import nishimori
from nishimori.errors import NoTemperatureError

RNG = np.random.default_rng(0)


def equal_up_to_rounding(n, k, offset=3.0, dtype=float):
    """Logits that are one number, computed in different ways."""
    unit = np.finfo(dtype).eps
    return (offset * (1 + unit * RNG.integers(-2, 3, size=(n, k)))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", ["ec", "ts", "adaptive"])
def test_logits_that_are_equal_up_to_rounding_have_no_temperature(method, dtype):
    logits = equal_up_to_rounding(500, 2, dtype=dtype)
    labels = np.where(RNG.random(500) < 0.8, logits.argmax(axis=1), 1 - logits.argmax(axis=1))
    with pytest.raises(NoTemperatureError, match="equal up to rounding") as refused:
        nishimori.calibrator(method, input="logits").fit(logits, labels)
    assert refused.value.end == "flat"


@pytest.mark.parametrize("n", [1000, 30_000])  # of more than a few thousand, some are looked at first
def test_one_row_that_differs_does_not_make_a_temperature_of_rounding(n):
    logits = equal_up_to_rounding(n, 2)
    logits[0] = 0.0, 5.0
    labels = np.where(RNG.random(n) < 0.8, logits.argmax(axis=1), 1 - logits.argmax(axis=1))
    with pytest.raises(NoTemperatureError, match="equal up to rounding"):
        nishimori.ExpectationConsistency(input="logits").fit(logits, labels)


@pytest.mark.parametrize("n", [600, 30_000])
def test_logits_that_are_small_have_a_small_temperature(n):
    logits, labels = reference.drawn(n, 3, seed=1)
    found = nishimori.ExpectationConsistency().fit(1e-14 * logits, labels)
    assert found.temperature_ == pytest.approx(1e-14 * reference.ec_temperature(logits, labels), rel=1e-6)


def test_an_offset_that_costs_digits_does_not_cost_the_temperature():
    logits, labels = reference.drawn(600, 3, seed=1)
    shifted = (1000 * logits + 1e7).astype(np.float32)
    found = nishimori.ExpectationConsistency(input="logits").fit(shifted, labels)
    assert found.temperature_ == pytest.approx(1000 * reference.ec_temperature(logits, labels), rel=1e-2)
