"""A plan's number of samples gives the requested accuracy of T with the requested probability."""

from math import inf, nan, sqrt

import numpy as np
import pytest

import nishimori
from nishimori import required_samples, temperatures
from nishimori.errors import InputError
from nishimori_paper.theory import (
    Affine,
    Constant,
    plan,
    state_evolution,
)


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize(
    ("teacher", "alpha", "penalty", "relative_error"),
    [(Affine(), 10.0, 0.1, 0.1), (Constant(0.8, 2.0), 5.0, 0.5, 0.15)],
    ids=repr,
)
def test_the_planned_samples_give_the_requested_accuracy_with_the_requested_probability(
    teacher, alpha, penalty, relative_error, method
):
    needed = plan(teacher, alpha, penalty, relative_error=relative_error)
    limit = state_evolution(teacher, alpha, penalty)
    n, repeats = getattr(needed, f"n_{method}"), 500
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(repeats):
        theirs = sqrt(teacher.rho) * rng.standard_normal(n)
        rest = limit.q - limit.m**2 / teacher.rho
        ours = limit.m / teacher.rho * theirs + sqrt(rest) * rng.standard_normal(n)
        labels = (rng.random(n) < teacher.probability(theirs / teacher.temperature)).astype(int)
        ratios.append(getattr(nishimori.temperatures(ours, labels), method) / getattr(limit, f"temperature_{method}"))
    off = np.array(ratios) - 1
    assert abs((np.abs(off) < relative_error).mean() - 0.95) < 4 * sqrt(0.95 * 0.05 / repeats)
    # The relative standard error of a standard deviation from 500 values is 1/√(2·500), or 3 %.
    np.testing.assert_allclose(off.std(), getattr(needed, f"deviation_{method}") / sqrt(n), rtol=0.1)


def test_a_plan_needs_more_samples_for_a_smaller_error_or_a_higher_probability():
    usual = plan("logit", 5.0, 0.1)
    assert (usual.relative_error, usual.probability) == (0.05, 0.95)
    half = plan("logit", 5.0, 0.1, relative_error=0.025)
    np.testing.assert_allclose([half.n_ec / usual.n_ec, half.n_ts / usual.n_ts], 4, rtol=1e-3)
    surer = plan("logit", 5.0, 0.1, probability=0.99)
    np.testing.assert_allclose(surer.n_ec / usual.n_ec, (2.5758293 / 1.9599640) ** 2, rtol=1e-3)
    assert surer.deviation_ec == usual.deviation_ec


@pytest.mark.parametrize("value", [0.0, -0.1, nan, inf, "0.1", 5.0])
def test_a_relative_error_out_of_range_is_refused(value):
    with pytest.raises(InputError, match=r"`relative_error` must lie between 1e-06 and 0\.5, got"):
        plan("logit", 5.0, 0.1, relative_error=value)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 2, nan, "0.9"])
def test_a_probability_out_of_range_is_refused(value):
    with pytest.raises(InputError, match=r"`probability` must lie between 1e-06 and 0\.999999, got"):
        plan("logit", 5.0, 0.1, probability=value)


def test_a_pilot_of_a_teacher_agrees_with_the_plan():
    planned = plan("logit", alpha=5.0, penalty=0.1, relative_error=0.02, probability=0.95)
    limit = state_evolution("logit", alpha=5.0, penalty=0.1)
    rng = np.random.default_rng(0)
    score, noise = rng.normal(size=(2, 200_000))
    r = limit.correlation
    field = limit.teacher.signal * (r * score + np.sqrt(1 - r * r) * noise)
    labels = (rng.random(200_000) < limit.teacher.probability(field)).astype(int)
    pilot = temperatures(np.sqrt(limit.q) * score, labels)
    assert required_samples(0.02, pilot, level=0.95).n == pytest.approx(planned.n_ec, rel=0.03)
    assert required_samples(0.02, pilot, level=0.95, method="ts").n == pytest.approx(planned.n_ts, rel=0.03)
