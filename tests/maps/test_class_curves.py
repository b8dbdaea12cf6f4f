"""The map with one curve per class: what it does to rows, in any array library, and what files may say of it."""

import numpy as np
import pytest
import reference
from optional import array_api_strict, jnp, torch

from nishimori.errors import InputError
from nishimori.maps import ClassCurves
from nishimori.maps.kinds import from_parameters

LOGITS = reference.drawn(60, 3, seed=1)[0]
KNOTS = [[0.1, 0.4, 0.9], [0.2, 0.3], [0.5]]
VALUES = [[0.05, 0.5, 0.8], [0.1, 0.7], [0.25]]
LINEAR = ClassCurves(KNOTS, VALUES, "linear")
EDGES = [[0, 0.5, 1], [0, 0.25, 0.25, 1], [0, 1]]
STEPS = [[0.2, 0.9], [0.1, 0.6, 0.4], [0.3]]
CONSTANT = ClassCurves(EDGES, STEPS, "constant")


def expected(p):
    """The probabilities of `LINEAR`, one by one."""
    rows = np.array([[np.interp(value, KNOTS[c], VALUES[c]) for c, value in enumerate(row)] for row in p])
    return rows / rows.sum(axis=1, keepdims=True)


def test_curves_are_read_at_the_probability_of_each_class():
    p = reference.softmax(LOGITS)
    np.testing.assert_allclose(LINEAR.probabilities(LOGITS), expected(p), rtol=1e-12)
    np.testing.assert_allclose(np.exp(LINEAR.log_probabilities(LOGITS)), expected(p), rtol=1e-12)
    steps = [[STEPS[0][int(a > 0.5)], STEPS[1][2 if b > 0.25 else 0], STEPS[2][0]] for a, b, _ in p]
    np.testing.assert_allclose(CONSTANT.probabilities(LOGITS), np.array(steps) / np.sum(steps, axis=1, keepdims=True))


@pytest.mark.parametrize("slip", [0.0, 1e-16, 1e-8])
def test_a_probability_on_an_edge_gets_the_value_below_it_also_if_it_was_rounded(slip):
    p = np.array([0.5 + slip, 0.25, 0.25 - slip])
    np.testing.assert_allclose(CONSTANT.probabilities(np.log(p)[None])[0], np.array([0.2, 0.1, 0.3]) / 0.6)


def test_a_constant_per_row_does_not_matter():
    np.testing.assert_allclose(LINEAR.apply(LOGITS + 300.0), LINEAR.apply(LOGITS), rtol=1e-10)


def test_two_classes_have_one_curve_and_the_first_gets_the_rest():
    map_ = ClassCurves([[0.2, 0.8]], [[0.1, 0.6]], "linear")
    z = np.log([[0.5, 0.5], [0.9, 0.1]])
    np.testing.assert_allclose(map_.probabilities(z), [[0.65, 0.35], [0.9, 0.1]], rtol=1e-12)
    assert map_.n_classes == 2


def test_knots_that_float64_can_hardly_tell_apart_give_probabilities_between_their_values():
    curve = ClassCurves(((0.0, 1e-318, 1e-310, 0.5),), ((0.1, 0.2, 0.4, 0.9),), "linear")
    logits = np.stack([np.zeros(5), np.log([4e-319, 1e-318, 5e-311, 1e-310, 1 / 3])], axis=1)
    found = curve.probabilities(logits)[:, 1]
    np.testing.assert_allclose(found, [0.14, 0.2, 0.3, 0.4, 0.65], atol=2e-3)


def test_rows_without_any_probability_are_uniform_over_the_unmasked_classes():
    zero = ClassCurves([[0.5]] * 3, [[0.0]] * 3, "linear")
    np.testing.assert_allclose(zero.probabilities(np.zeros((1, 3))), [[1 / 3] * 3])
    np.testing.assert_allclose(zero.probabilities(np.array([[0.0, -np.inf, 1.0]])), [[0.5, 0.0, 0.5]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", [torch.tensor, jnp.asarray, array_api_strict.asarray], ids=["torch", "jax", "strict"])
def test_the_result_is_of_the_library_and_dtype_of_the_logits(library, dtype):
    given = library(LOGITS.astype(dtype))
    found = LINEAR.apply(given)
    assert (type(found), found.dtype) == (type(given), given.dtype)
    np.testing.assert_allclose(np.asarray(found), LINEAR.apply(LOGITS), rtol=1e-5)


def test_parameters_describe_the_map():
    for map_ in (LINEAR, CONSTANT):
        again = from_parameters("class_curves", dict(map_.parameters))
        np.testing.assert_array_equal(again.apply(LOGITS), map_.apply(LOGITS))
        assert not again.keeps_predictions
        assert again.n_classes == 3


ONE_LIST = "`knots` and `values` must have one list per class, or one if there are two classes, got "
REFUSED = [
    ({"interpolation": "cubic"}, "`interpolation` must be 'linear' or 'constant', got 'cubic'."),
    ({"interpolation": None}, "`interpolation` must be 'linear' or 'constant', got None."),
    ({"knots": 1}, "`knots` must be a list of lists of numbers, got 1."),
    ({"values": []}, "`values` must be a list of lists of numbers, got []."),
    ({"values": [["a"]] * 3}, "`values` must hold finite numbers, got ['a']."),
    ({"values": [[[0.5]]] * 3}, "`values` must hold lists of numbers between 0 and 1, got [[0.5]]."),
    ({"values": [[0.1, 0.2, 1.5], *VALUES[1:]]}, "`values` must hold lists of numbers between 0 and 1, got [0.1, 0.2, 1.5]."),
    ({"knots": [[-0.1, 0.4, 0.9], *KNOTS[1:]]}, "`knots` must hold lists of numbers between 0 and 1, got [-0.1, 0.4, 0.9]."),
    ({"knots": KNOTS[:2]}, ONE_LIST + "2 and 3."),
    ({"knots": KNOTS[:2], "values": VALUES[:2]}, ONE_LIST + "2 and 2."),
    ({"values": [[0.5], *VALUES[1:]]}, "`values` must have 3 numbers for 3 knots, got 1."),
    ({"interpolation": "constant"}, "`values` must have 2 numbers for 3 knots, got 3."),
    ({"knots": [[0.4, 0.4, 0.9], *KNOTS[1:]]}, "`knots` must increase, got [0.4, 0.4, 0.9]."),
    (
        {"knots": [[0, 0.5]], "values": [[0.5]], "interpolation": "constant"},
        "`knots` must start with 0 and end with 1, got 0 and 0.5.",
    ),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_is_no_curve_is_refused(change, message):
    with pytest.raises(InputError) as refused:
        from_parameters("class_curves", {**LINEAR.parameters, **change})
    assert str(refused.value) == message


def test_logits_of_another_number_of_classes_are_refused():
    with pytest.raises(InputError, match="`logits` must have 3 classes, as the map has, got 2"):
        LINEAR.apply(LOGITS[:, :2])
