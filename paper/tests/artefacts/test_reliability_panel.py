"""Panels of reliability: an error bar on every bin, and no bin outside of the axes."""

import json

import numpy as np
import pytest
from matplotlib import pyplot
from scipy.stats import binomtest

import nishimori_paper as paper
from nishimori_paper.artefacts._reliability_panel import _joined


def rows_of(computed, name):
    pieces = json.loads((computed(name) / f"{name}.json").read_text(encoding="utf-8"))["pieces"]
    return [row for content in pieces.values() for row in content.get("bins", content.get("reliability"))]


@pytest.mark.parametrize("name", ["figure-reliability", "figure-curves"])
def test_every_bin_has_the_wilson_interval_of_its_accuracy(computed, name):
    for row in rows_of(computed, name):
        right = round(row["accuracy"] * row["samples"])
        expected = binomtest(right, row["samples"]).proportion_ci(0.95, method="wilson")
        assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx((expected.low, expected.high), abs=1e-9)
        assert row["accuracy_low"] < row["accuracy_high"]  # also where all answers are right


def test_bins_whose_confidence_is_almost_one_are_joined():
    columns = ("confidence", "accuracy", "samples")
    bins = [dict(zip(columns, row, strict=True)) for row in ((0.6, 0.5, 100), (1 - 1e-6, 1.0, 300), (1 - 1e-9, 0.9, 100))]
    confidence, accuracy, samples = _joined(bins)
    assert list(samples) == [100, 400]
    assert list(accuracy) == pytest.approx([0.5, 0.975])
    assert list(1 - confidence) == pytest.approx([0.4, 1e-5 / 3])  # as far to the right as the axis shows


@pytest.mark.parametrize("name", ["figure-reliability", "figure-curves"])
def test_every_bin_and_its_bar_lie_inside_the_axes(computed, name):
    stored = json.loads((computed(name) / f"{name}.json").read_text(encoding="utf-8"))
    figure = paper.artefact(name).draw(stored["pieces"], pyplot)
    panels = [ax for ax in figure.axes if ax.get_xscale() == "logit"]  # those at the left and at the bottom have the labels
    assert len(panels) == len(stored["pieces"])
    for ax, content in zip(panels, stored["pieces"].values(), strict=True):
        assert len(ax.containers) == 3  # before, TS, EC
        first = content.get("bins", content.get("reliability"))[0]
        lowest = ax.containers[0][0].get_xydata()[0]
        assert lowest == pytest.approx([first["confidence"], 100 * (first["confidence"] - first["accuracy"])])
        for container in ax.containers:
            points, _, (bars,) = container
            ends = np.concatenate([points.get_xydata(), *bars.get_segments()])
            x, y = ends.T
            left, right = ax.get_xlim()
            low, high = ax.get_ylim()
            assert (left < x.min(), x.max() < right, low < y.min(), y.max() < high) == (True,) * 4
            assert len(bars.get_segments()) == len(points.get_xdata())
    pyplot.close(figure)
