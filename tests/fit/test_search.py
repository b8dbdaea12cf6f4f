"""Temperatures of hard cases, against the definition in fifty digits: right to 1e-8, or refused."""

import numpy as np
import pytest
import reference
from optional import mpmath

from nishimori import ExpectationConsistency, Observable, TemperatureScaling, from_temperature, temperatures
from nishimori.calibrators import Matched
from nishimori.errors import InputError, NotConvergedError, NoTemperatureError

PROMISED = 1e-8


def exact_gap(method, logits, labels, weights, temperature, top_n=1):
    """Mean confidence minus accuracy, or mean expected minus true logit, in fifty digits."""
    with mpmath.workdps(50):
        total = mpmath.mpf(0)
        for row, label, weight in zip(logits.tolist(), labels.tolist(), weights.tolist(), strict=True):
            powers = [mpmath.exp((mpmath.mpf(z) - max(row)) / temperature) for z in row]
            partition = mpmath.fsum(powers)
            order = sorted(range(len(row)), key=lambda k: (-row[k], k))[:top_n]
            if method == "ec":
                gap = mpmath.fsum(powers[k] for k in order) / partition - (label in order)
            else:
                gap = mpmath.fsum(p * mpmath.mpf(z) for p, z in zip(powers, row, strict=True)) / partition - row[label]
            total += mpmath.mpf(weight) * gap
        return total


def is_right(method, logits, labels, weights, temperature, top_n=1):
    """Whether the gap, which falls with T, changes its sign within the promised distance."""
    with mpmath.workdps(50):
        low, high = (mpmath.mpf(temperature) * (1 + sign * PROMISED) for sign in (-1, 1))
    below, above = (exact_gap(method, logits, labels, weights, T, top_n) for T in (low, high))
    return below > 0 > above


def fitted(method, logits, labels, weights):
    calibrator = ExpectationConsistency() if method == "ec" else TemperatureScaling()
    return calibrator.fit(logits, labels, weights).temperature_


both = pytest.mark.parametrize("method", ["ec", "ts"])


@both
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("decades", [0, 9, 15])
def test_weights_over_many_decades_and_any_scale_of_the_logits_keep_eight_digits(method, scale, decades):
    logits, labels = reference.drawn(300, 5)
    weights = 10.0 ** (decades * np.random.default_rng(1).uniform(-1, 0, size=300))
    temperature = fitted(method, scale * logits, labels, weights)
    assert is_right(method, scale * logits, labels, weights, temperature)


@both
@pytest.mark.parametrize("heavy", [1e6, 1e9, 1e12, 1e15])
def test_heavy_right_answers_whose_doubt_is_below_rounding_keep_eight_digits(method, heavy):
    # The heavy rows are so sure that 1 - confidence is 1e-10 to 1e-25; weight times doubt is what decides.
    rng = np.random.default_rng(0)
    logits, labels = reference.drawn(200, 4)
    sure = np.zeros((50, 4))
    sure[:, 0] = np.log(heavy) * rng.uniform(1.0, 1.6, size=50)
    every, true = np.concatenate([logits, sure]), np.concatenate([labels, np.zeros(50, dtype=int)])
    weights = np.concatenate([np.ones(200), np.full(50, heavy)])
    assert is_right(method, every, true, weights, fitted(method, every, true, weights))


@pytest.mark.parametrize("heavy", [1e6, 1e12])
def test_top_n_keeps_eight_digits_too(heavy):
    logits, labels = reference.drawn(200, 5)
    sure = np.zeros((50, 5))
    sure[:, :2] = np.log(heavy) * np.random.default_rng(0).uniform(1.0, 1.6, size=(50, 2))
    every, true = np.concatenate([logits, sure]), np.concatenate([labels, np.zeros(50, dtype=int)])
    weights = np.concatenate([np.ones(200), np.full(50, heavy)])
    temperature = ExpectationConsistency(top_n=2).fit(every, true, weights).temperature_
    assert is_right("ec", every, true, weights, temperature, top_n=2)


@pytest.mark.parametrize("apart", [1e3, 1e6, 1e9, 1e12, 1e15])
@pytest.mark.parametrize("seed", range(4))
def test_between_two_scales_of_logits_the_temperature_is_right_or_refused(apart, seed):
    # Rows of both scales: in between, the mean confidence hardly depends on T.
    rng = np.random.default_rng(seed)
    logits, labels = reference.drawn(60, 3, seed=seed)
    logits[::2] *= apart
    labels[::2] = np.where(rng.random(30) < 0.9, logits[::2].argmax(axis=1), labels[::2])
    weights = np.ones(60)
    try:
        temperature = fitted("ec", logits, labels, weights)
    except NotConvergedError:
        return  # its message is pinned below
    assert is_right("ec", logits, labels, weights, temperature)


def test_a_plateau_is_refused_with_its_place():
    # Two rows are decided at T = 1e-6 and two at T = 1e6; in between, confidence is 3/4 to all digits, as is accuracy.
    logits = np.array([[1e9, 0.0], [1e9, 0.0], [1e-9, 0.0], [1e-9, 0.0]])
    with pytest.raises(
        NotConvergedError, match=r"^No temperature can be determined: around T = .* rounding errors change T by a relat"
    ):
        ExpectationConsistency().fit(logits, [0, 0, 0, 1])


def test_an_accuracy_a_hair_above_chance_is_right_or_refused():
    # Accuracy exceeds chance by 1e-12, so T is about 1e12 and confidence agrees with chance to twelve digits.
    logits = np.array([[1.0, 0.0], [1.0, 0.0]])
    weights = np.array([1 + 1e-12, 1 - 1e-12])
    with pytest.raises(NotConvergedError, match="rounding errors change T"):
        ExpectationConsistency().fit(logits, [0, 1], weights)


def test_logits_that_differ_by_less_than_can_be_squared_are_refused():
    logits, labels = reference.drawn(50, 3)
    with pytest.raises(InputError, match=r"^`logits` of the same row must differ by more than 1e-100, got differences around"):
        temperatures(1e-160 * logits, labels)
    assert temperatures(1e-90 * logits, labels).ec == pytest.approx(1e-90 * temperatures(logits, labels).ec, rel=1e-8)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.longdouble])
def test_scores_that_float64_would_round_are_refused(dtype):
    exact = np.array([[2**60 + 300, 2**60], [2**60, 2**60 + 100], [2**60, 2**60 + 1]], dtype=dtype)
    message = r"^`X` of type \w+ must lie between -2\*\*53 and 2\*\*53, where float64 is exact, got 1\.15\S+ in row 0, column 0"
    with pytest.raises(InputError, match=message + r"\. Subtract the largest score of each row first\.$"):
        ExpectationConsistency().fit(exact, [0, 1, 0])
    with pytest.raises(InputError, match=message):
        from_temperature(1.0).predict_proba(exact)
    small = (exact - 2**60).astype(dtype)
    np.testing.assert_allclose(from_temperature(100.0).predict_proba(small)[0], reference.softmax([[3.0, 0.0]])[0], rtol=1e-12)


def test_a_whole_number_too_large_for_any_float_is_refused():
    with pytest.raises(InputError, match=r"^`X` must hold numbers, but one could not be read: int too large"):
        ExpectationConsistency().fit([[10**400, 0], [0, 1]], [0, 1])


@pytest.mark.parametrize("temperature", [1e-300, 1e-46, 1e-38, 1e-31, 1e31, 1e39, 1e300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_extreme_temperatures_give_the_limits_of_the_softmax_in_every_precision(dtype, temperature):
    logits = np.array([[3.0, 1.0, 0.5], [2.0, 2.0, -np.inf]], dtype=dtype)
    expected = [[1, 0, 0], [0.5, 0.5, 0]] if temperature < 1 else [[1 / 3] * 3, [0.5, 0.5, 0]]
    np.testing.assert_allclose(
        from_temperature(temperature).predict_proba(logits), expected, rtol=1e-3 if dtype is np.float16 else 1e-6
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_map_divides_by_the_temperature_itself_and_not_by_a_rounded_one(dtype):
    logits = np.array([[1000.0, 0.0]], dtype=dtype)
    divided = from_temperature(1.2345678).map_.apply(logits)
    assert divided.dtype == dtype
    assert divided[0, 0] == pytest.approx(1000 / 1.2345678, rel=float(np.finfo(dtype).eps))


@pytest.mark.parametrize("temperature", [1e-39, 1e-300])
def test_a_binary_score_at_an_extreme_temperature_is_infinite_and_not_nan(temperature):
    fixed = from_temperature(temperature, input="probabilities")
    assert fixed.transform(np.array([0.3, 0.7], dtype=np.float32)).tolist() == [-np.inf, np.inf]


def test_integers_of_jax_keep_their_digits():
    jax = pytest.importorskip("jax")
    scores = jax.numpy.array([[16777216, 16777217]])
    assert from_temperature(1.0).predict(scores).tolist() == [1]
    np.testing.assert_allclose(from_temperature(1.0).predict_proba(scores), reference.softmax([[0.0, 1.0]]), rtol=1e-6)


class Shifted(Observable):
    """The logit and a constant that takes all digits."""

    def values(self, logits):
        return logits + 1e13


def test_an_observable_whose_digits_are_lost_is_not_said_to_have_no_temperature():
    logits, labels = reference.drawn(100, 3)
    with pytest.raises(NotConvergedError, match=r"rounding errors"):
        Matched(Shifted()).fit(logits, labels)


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("seed", [25, 117, 128, 190, 208, 210, 295, 297, 328, 474])
def test_answers_that_are_all_right_have_no_temperature_at_any_scale(seed, scale):
    """At a low T, confidence and accuracy differ by less than any number of float64: a search must not end there."""
    rng = np.random.default_rng(seed)
    logits = scale * 3 * rng.normal(size=(int(rng.integers(2, 9)), int(rng.choice([2, 5, 33, 130]))))
    for method in (ExpectationConsistency, TemperatureScaling):
        with pytest.raises(NoTemperatureError):
            method().fit(logits, logits.argmax(axis=1))
