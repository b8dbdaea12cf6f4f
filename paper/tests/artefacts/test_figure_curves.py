"""The paper's own curves, as its source prints them, and what they say about its network."""

import json
import statistics

import numpy as np
import pytest
import reference

import nishimori_paper as paper
from nishimori import data
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._figure_curves import error_at_zero, paper_curves

CURVES = {key: np.array([row[key] for row in paper_curves()]) for key in ("temperature", "loss", "confidence", "ece")}
FIGURE = printed()["figure-curves"]


def test_the_papers_curves_are_the_ones_that_its_markers_lie_on():
    T = CURVES["temperature"]
    np.testing.assert_allclose(T, np.linspace(0.1, 2.5, 30), atol=1e-13)
    assert (np.diff(CURVES["confidence"]) < 0).all()
    # The markers: T_TS at the least loss, T_EC where the confidence is the accuracy, both on the curve of the ECE.
    step = T[1] - T[0]
    assert abs(T[CURVES["loss"].argmin()] - FIGURE["temperature_ts"]) < step
    assert np.interp(FIGURE["temperature_ec"], T, CURVES["confidence"]) == pytest.approx(FIGURE["accuracy"], abs=1e-4)
    for method in ("ts", "ec"):
        assert np.interp(FIGURE[f"temperature_{method}"], T, CURVES["ece"]) == pytest.approx(FIGURE[f"ece_{method}"], abs=1e-4)
    assert (CURVES["ece"].min(), T[CURVES["ece"].argmin()]) == (FIGURE["least_ece"], FIGURE["least_ece_temperature"])


def test_the_ece_at_zero_temperature_is_the_error_of_the_network(computed):
    pieces = json.loads((computed("figure-curves") / "figure-curves.json").read_text(encoding="utf-8"))["pieces"]
    for name, content in pieces.items():
        test = data.load(name).test
        expected = 1 - reference.right(test.logits, test.labels).mean()
        assert error_at_zero(content["curves"]) == pytest.approx(expected, abs=1e-3), name  # steps of 0.2 in T


def test_a_parabola_is_continued_to_its_value_at_zero():
    curve = [{"temperature": T, "ece": 0.2 - 0.3 * T + 0.1 * T**2} for T in (0.1, 0.2, 0.3, 0.4, 0.5)]
    far = [{"temperature": 2.0, "ece": 0.5}]  # not on the parabola, and not among the first five
    assert error_at_zero([*curve, *far]) == pytest.approx(0.2, abs=1e-12)


def test_the_papers_network_is_neither_that_of_table_1_nor_measured_on_new_images(computed):
    *_, error, excess, count = paper.check("figure-curves", computed("figure-curves"))
    # By hand from the first two points: 0.110487 + 0.1 (0.110487 - 0.107044) / 0.082759 = 0.1146.
    assert error.ours == pytest.approx(11.46, abs=0.05)
    assert (error.paper, error.verdict) == (12.5, "differs")
    assert excess.ours == pytest.approx(93.43 - 88.54, abs=0.05)
    assert (excess.paper, excess.verdict) == (0.0, "differs")
    assert (count.ours, count.verdict) == ("4671.5", "differs")  # 0.9343 of 5,000


def test_our_network_is_compared_within_the_spread_of_its_trainings(computed):
    pieces = json.loads((computed("figure-curves") / "figure-curves.json").read_text(encoding="utf-8"))["pieces"]
    ours = pieces["cifar10/densenet121"]["augmented"]["temperature_ec"]
    # The three further trainings, as spreads.toml has them.
    spread = statistics.stdev([ours, 1.99787, 1.98937, 1.96396])
    found = {each.what: each for each in paper.check("figure-curves", computed("figure-curves"))}
    assert found["T EC, augmented validation"].tolerance == pytest.approx(2 * 2**0.5 * spread, rel=1e-3)
