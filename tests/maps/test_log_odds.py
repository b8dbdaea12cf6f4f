"""The map of log-odds: what it does to logits, to how many digits, on disk, and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest
from optional import torch
from scipy.special import expit, log_expit

import nishimori
from nishimori.errors import InputError
from nishimori.maps import LogOdds
from nishimori.maps.kinds import from_parameters

MAP = LogOdds(a=1.4, b=0.6, c=-0.3, square=0.05)
S = np.array([-700.0, -30.0, -2.0, -1e-9, 0.0, 0.4, 5.0, 40.0, 700.0])


def mapped(s):
    """The definition."""
    return 0.05 * s**2 + 1.4 * log_expit(s) - 0.6 * log_expit(-s) - 0.3


def test_only_the_difference_of_the_logits_counts():
    for shift in (0.0, 8.0):
        found = MAP.apply(np.column_stack([np.full(len(S), shift), S + shift]))
        np.testing.assert_array_equal(found[:, 0], 0)
        np.testing.assert_allclose(found[:, 1], mapped(S), rtol=1e-13, atol=1e-9)
    np.testing.assert_allclose(MAP.probabilities(np.column_stack([0 * S, S]))[:, 1], expit(mapped(S)), rtol=1e-12)


def test_equal_slopes_are_a_straight_line():
    line = LogOdds(2.0, 2.0, 0.5)
    np.testing.assert_allclose(line.apply(np.column_stack([0 * S, S]))[:, 1], 2 * S + 0.5, rtol=1e-15, atol=1e-15)


def test_the_array_library_and_the_dtype_stay():
    s = torch.tensor(S[1:-1], dtype=torch.float32)
    found = MAP.apply(torch.stack([0 * s, s], dim=1))
    assert (found.dtype, type(found)) == (torch.float32, torch.Tensor)
    np.testing.assert_allclose(found[:, 1], mapped(S[1:-1]), rtol=1e-6)


@pytest.mark.parametrize("map_", [LogOdds(1.0, 1.0, 0.0, 0.05), LogOdds(1.4, 0.6, -0.3)], ids=["square", "no square"])
@pytest.mark.parametrize(("dtype", "score"), [(np.float16, 6e4), (np.float32, 1e20), (np.float64, 1e200)])
def test_huge_scores_give_certain_probabilities(map_, dtype, score):
    second = [1.0, 1.0 if map_.square else 0.0]  # the square has the same sign on both sides
    logits = np.array([[0.0, score], [0.0, -score]], dtype=dtype)
    found = map_.probabilities(logits)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found[:, 1], second)
    np.testing.assert_array_equal(np.exp(map_.log_probabilities(logits))[:, 1], second)
    np.testing.assert_array_equal(map_.probabilities(torch.tensor(logits))[:, 1], second)
    assert not np.isnan(map_.apply(logits)).any()


def test_it_says_that_predictions_may_change():
    assert (MAP.keeps_predictions, MAP.needs_groups, MAP.n_classes, MAP.format_version) == (False, False, 2, 4)


def test_a_file_describes_it():
    assert from_parameters("log_odds", dict(MAP.parameters)) == MAP


def test_it_is_used_without_a_method(tmp_path):
    fixed = nishimori.calibrators.FixedMap(MAP, method="mine").fit(S[1:-1], np.arange(7) % 2)
    fixed.save(tmp_path / "map.json")
    np.testing.assert_allclose(nishimori.load(tmp_path / "map.json").transform(S), mapped(S), rtol=1e-12, atol=1e-9)


REFUSED = {
    "three classes": (lambda: MAP.apply(np.zeros((2, 3))), "`logits` must have two classes, as the map has, got 3."),
    "masks": (
        lambda: MAP.apply(np.array([[0.0, -np.inf]])),
        "`logits` must not have masked classes (-inf), because log-odds would be infinite. Leave out the rows with a single "
        "possible class.",
    ),
    "not finite": (lambda: LogOdds(1.0, np.nan, 0.0), "`b` must hold finite numbers, got nan."),
    "a list": (lambda: LogOdds(1.0, 1.0, [0.0]), "`c` must be a number, got [0.0]."),
    "text": (lambda: LogOdds("1", 1.0, 0.0), "`a` must hold finite numbers, got '1'."),
    "another type": (lambda: LogOdds(Fraction(1, 2), 1.0, 0.0), "`a` must hold finite numbers, got Fraction(1, 2)."),
    "a file with a list": (
        lambda: from_parameters("log_odds", {"a": [1], "b": 1, "c": 1, "square": 0}),
        "`a` must be a number, got [1].",
    ),
    "a file without a part": (
        lambda: from_parameters("log_odds", {"a": 1, "b": 1, "c": 1}),
        "`parameters` must hold a, b, c, square, got {'a': 1, 'b': 1, 'c': 1}.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_such_a_map_is_refused(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message
