import numpy as np
import pytest

from nishimori import InputError
from nishimori._sketch._grid import Grid, Polynomial, betas


def test_the_default_grid_has_37_nodes_and_one_of_them_is_exactly_one():
    grid = Grid.over((1 / 22, 22))
    assert len(grid.betas) == 37
    assert grid.betas[18] == 1.0


def test_a_node_is_exactly_twice_the_one_four_before_it():
    nodes = betas(-18, 22)
    assert all(later == 2 * earlier for earlier, later in zip(nodes, nodes[4:], strict=False))


@pytest.mark.parametrize("wanted", [(0.05, 20), (1 / 22, 22), (0.9, 1.9), (1e-6, 1e6), (1, 2), (0.3, 7)])
def test_a_grid_holds_the_range_it_was_asked_for_and_its_own_range_gives_it_again(wanted):
    grid = Grid.over(wanted)
    low, high = grid.temperatures
    assert low <= wanted[0] * (1 + 1e-12)
    assert high >= wanted[1] * (1 - 1e-12)
    assert Grid.over((low, high)) == grid
    assert grid.holds(low)
    assert grid.holds(high)
    assert not grid.holds(low / 1.001)
    assert not grid.holds(high * 1.001)


@pytest.mark.parametrize("wanted", [20, (1, 2, 3), (2, 1), (1, 1.5), (0, 1), (-1, 1), (1, np.inf), "ab", None, (1e-12, 1)])
def test_a_range_that_is_none_is_refused(wanted):
    with pytest.raises(InputError, match=r"^`temperatures` must be the lowest and the highest temperature that a fit can find"):
        Grid.over(wanted)


@pytest.mark.parametrize("place", [0.0, 0.2, 1.0, 5.5, 19.9, 36.0])
def test_the_nearest_nodes_surround_a_place_or_are_the_last_ones(place):
    near = Grid(-18, 18).nearest(place, 4)
    assert len(near) == 4
    assert 0 <= near[0] <= place <= near[-1] <= 36
    if 1 <= place < 35:
        assert near[1] <= place < near[2]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_polynomial_of_low_degree_is_found_again_from_values_and_derivatives(depth):
    places = [2, 3, 4, 5]
    wanted = np.polynomial.Polynomial(np.random.default_rng(0).normal(size=4 * depth))
    jets = np.stack(
        [wanted.deriv(k)(np.array(places, dtype=float)) if k else wanted(np.array(places)) for k in range(depth)], 1
    )
    found = Polynomial.through(places, jets)
    value, slope = found.with_slope(3.3)
    assert value == pytest.approx(wanted(3.3), rel=1e-9)
    assert slope == pytest.approx(wanted.deriv()(3.3), rel=1e-9)
    assert found(2.0) == pytest.approx(wanted(2.0), rel=1e-12)
