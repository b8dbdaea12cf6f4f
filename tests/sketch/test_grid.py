import numpy as np
import pytest
from scipy.optimize import brentq

from nishimori import Sketch, temperatures
from nishimori._sketch.grid import Grid, Polynomial
from nishimori.errors import InputError, MergeError


def test_the_default_grid_has_37_nodes_and_one_of_them_is_exactly_one():
    grid = Grid.over((1 / 22, 22))
    assert len(grid.betas) == 37
    assert grid.betas[18] == 1.0


def test_a_node_is_exactly_twice_the_one_four_before_it():
    grid = Grid(-18, 18)
    nodes = (*grid.betas, *grid.beyond)
    assert len(nodes) == 41
    assert all(later == 2 * earlier for earlier, later in zip(nodes, nodes[4:], strict=False))


def test_a_finer_grid_has_as_many_nodes_per_octave_as_were_asked_for():
    grid = Grid.over((0.25, 4.0), 8)
    assert len(grid.betas) == 33
    np.testing.assert_allclose(np.diff(np.log2(grid.betas)), 1 / 8, rtol=1e-12)
    assert all(later == 2 * earlier for earlier, later in zip(grid.betas[-8:], grid.beyond, strict=True))


@pytest.mark.parametrize("number", [3, 65, 8.0, "8", True])
def test_another_number_of_nodes_is_refused(number):
    with pytest.raises(InputError) as error:
        Sketch(nodes_per_octave=number)
    assert str(error.value) == f"`nodes_per_octave` must be a whole number from 4 to 64, got {number!r}."


def vocabulary(n_classes=60_000, n_rows=60):
    """Logits like those of a language model: a few large ones, and very many small ones whose sum matters."""
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(n_rows, n_classes))
    logits[:, :30] += rng.uniform(6, 14, size=(n_rows, 30))
    return logits, (logits / 1.3 + rng.gumbel(size=logits.shape)).argmax(axis=1)


def test_eight_nodes_per_octave_determine_the_temperature_of_a_large_vocabulary():
    logits, labels = vocabulary()
    sketch = Sketch(temperatures=(0.25, 4.0), nodes_per_octave=8).update(logits, labels)
    found = temperatures(sketch)

    def gap(log_T):
        scaled = logits / np.exp(log_T)
        weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return (1 / weights.sum(axis=1)).mean() - (logits.argmax(axis=1) == labels).mean()

    assert found.ec == pytest.approx(np.exp(brentq(gap, np.log(0.5), np.log(3), xtol=1e-14)), rel=1e-8)
    restored = Sketch.from_bytes(sketch.to_bytes())
    assert temperatures(restored).ec == found.ec
    with pytest.raises(MergeError, match="the same `nodes_per_octave`, got 8 and 4"):
        sketch.merge(Sketch(temperatures=(0.25, 4.0)))


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
