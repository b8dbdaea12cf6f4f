import math

import numpy as np
import pytest

from nishimori._fit.roots import LIMIT, TOLERANCE, Point, drive, increasing_root
from nishimori.errors import InputError, NotConvergedError


def solve(function, start):
    """Answer the search's questions until it returns, and list them."""
    search = increasing_root(start)
    x = next(search)
    asked = [x]
    while True:
        try:
            x = search.send(function(x))
        except StopIteration as end:
            return end.value, asked
        asked.append(x)


def point(value, slope, curvature=0.0, noise=0.0):
    return Point(value=value, slope=slope, curvature=curvature, noise=noise)


def steep(x):
    t = math.tanh(1e6 * (x - 1.5))
    return point(t, 1e6 * (1 - t**2), -2e12 * t * (1 - t**2))


def logistic(x, height):
    """What the gap looks like in log β: flat, a rise of width one, flat."""
    p = 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))
    return point(p - height, p * (1 - p), p * (1 - p) * (1 - 2 * p))


def two_rises(x):
    """1 + 1/2 = 0.7 + 0.8, so the root is in the middle of the second rise, at 30."""
    one, other = logistic(x + 30, 0.7), logistic(x - 30, 0.8)
    return point(one.value + other.value, one.slope + other.slope, one.curvature + other.curvature)


CASES = {
    "linear": (lambda x: point(3 * x - 6, 3.0), 2.0),
    "nearly flat": (lambda x: point(1e-9 * (x - 2), 1e-9), 2.0),
    "steep": (steep, 1.5),
    "cubic": (lambda x: point(x**3 + x - 10, 3 * x**2 + 1, 6 * x), 2.0),
    "square root": (lambda x: point(math.sqrt(x + 1e4) - 100, 0.5 * (x + 1e4) ** -0.5, -0.25 * (x + 1e4) ** -1.5), 0.0),
    "logistic": (lambda x: logistic(x, 0.9), math.log(9)),
    "logistic, low on its tail": (lambda x: logistic(x, 1e-6), -math.log(1e6 - 1)),
    "two rises far apart": (two_rises, 30.0),
}


@pytest.mark.parametrize("start", [-5.0, 0.0, 1.9, 40.0])
@pytest.mark.parametrize("name", CASES)
def test_the_root_is_found_to_ten_digits(name, start):
    function, expected = CASES[name]
    root, _ = solve(function, start)
    assert root.x == pytest.approx(expected, abs=2 * TOLERANCE)


@pytest.mark.parametrize("start", [-1e6, -700.0, 700.0, 1e6])
def test_a_far_start_costs_a_logarithm_of_the_distance(start):
    root, asked = solve(lambda x: logistic(x, 0.9), start)
    assert root.x == pytest.approx(math.log(9), abs=2 * TOLERANCE)
    # Doubling strides pass the root after log2 of the distance; halving back takes as many at most; then Newton.
    assert len(asked) <= 2 * math.log2(abs(start)) + 15


@pytest.mark.parametrize("start", [-5.0, 0.0, 40.0])
@pytest.mark.parametrize("curvature", [-1e9, -1.0, 0.0, 1.0, 1e9, math.nan])
def test_a_wrong_curvature_costs_steps_but_not_the_root(curvature, start):
    def misled(x):
        truth = logistic(x, 0.9)
        return point(truth.value, truth.slope, curvature)

    root, _ = solve(misled, start)
    assert root.x == pytest.approx(math.log(9), abs=2 * TOLERANCE)


def test_curvature_saves_steps():
    def straight(x):
        return point(logistic(x, 0.9).value, logistic(x, 0.9).slope)

    _, with_curvature = solve(lambda x: logistic(x, 0.9), 1.0)
    _, without = solve(straight, 1.0)
    assert len(with_curvature) < len(without)


def test_a_linear_function_takes_one_step():
    root, asked = solve(lambda x: point(x - 1, 1.0), 0.5)
    assert asked == [0.5, 1.0]
    assert (root.x, root.residual, root.passes) == (1.0, 0.0, 2)


def test_a_start_at_the_root_takes_one_evaluation():
    root, asked = solve(CASES["cubic"][0], 2.0)
    assert asked == [2.0]
    assert (root.x, root.residual, root.passes) == (2.0, 0.0, 1)


@pytest.mark.parametrize("name", CASES)
def test_the_fit_info_says_what_was_done(name):
    function, _ = CASES[name]
    root, asked = solve(function, 7.0)
    assert root.passes == len(asked)
    assert root.x == asked[-1]
    assert root.residual == function(root.x).value


@pytest.mark.parametrize("start", [-3.0, 0.0, 5.0])
@pytest.mark.parametrize("amplitude", [1e-14, 1e-9, 1e-5])
def test_the_search_stops_in_the_noise_and_says_where(amplitude, start):
    def noisy(x):
        truth = logistic(x, 0.9)
        return point(truth.value + amplitude * math.sin(1e9 * x), truth.slope, truth.curvature, amplitude)

    root, asked = solve(noisy, start)
    assert len(asked) < 30
    slope = 0.9 * 0.1
    assert root.x == pytest.approx(math.log(9), abs=2 * TOLERANCE + 3 * amplitude / slope)


@pytest.mark.parametrize("start", [-3.0, 0.0, 5.0])
def test_noise_that_nobody_declared_does_not_stop_the_search_from_ending(start):
    def noisy(x):
        truth = logistic(x, 0.9)
        return point(truth.value + 1e-9 * math.copysign(1.0, math.sin(1e12 * x)), truth.slope, truth.curvature)

    root, _ = solve(noisy, start)
    assert root.x == pytest.approx(math.log(9), abs=1e-7)


def jump_at(place):
    return lambda x: point(1.0 if x >= place else -1.0, 0.0)


@pytest.mark.parametrize("place", [-0.3, 0.1, 2 / 3, 1.0, 41.7])
def test_a_jump_is_pinned_between_neighbouring_numbers(place):
    root, asked = solve(jump_at(place), 0.0)
    assert root.x in (np.nextafter(place, -np.inf), place)
    assert root.passes == len(asked)


@pytest.mark.parametrize("place", [-0.3, 0.1])
def test_the_residual_at_a_jump_is_the_value_at_the_root_returned(place):
    root, _ = solve(jump_at(place), 0.0)
    assert root.residual == jump_at(place)(root.x).value


@pytest.mark.parametrize("value", [-1.0, 2.5])
def test_a_function_without_a_root_is_not_converged(value):
    message = (
        rf"^The search did not converge in {LIMIT} passes: residual {value:.3g} at T = .*\. Check the scale of the logits\.$"
    )
    with pytest.raises(NotConvergedError, match=message):
        solve(lambda x: point(value, 0.0), 0.0)


def test_searches_driven_together_find_what_each_finds_alone():
    evaluations = []

    def evaluate(wanted, _found):
        evaluations.append(set(wanted))
        return {name: CASES[name][0](x) for name, x in wanted.items()}

    found = drive({name: increasing_root(7.0) for name in CASES}, evaluate)
    for name, (function, _) in CASES.items():
        alone, asked = solve(function, 7.0)
        assert found[name] == alone
        assert sum(name in each for each in evaluations) == len(asked)


def test_a_search_that_fails_leaves_the_others_alone():
    refused = InputError("not this one")

    def evaluate(wanted, _found):
        points = {"flat": point(1.0, 0.0), "linear": CASES["linear"][0](wanted.get("linear", 0.0)), "refused": refused}
        return {name: points[name] for name in wanted}

    found = drive({name: increasing_root(0.0) for name in ("flat", "linear", "refused")}, evaluate)
    assert isinstance(found["flat"], NotConvergedError)
    assert found["refused"] is refused
    assert found["linear"].x == 2.0
