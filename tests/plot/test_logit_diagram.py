"""Reliability diagrams on logit axes, where bins of equal weight near 1 can be told apart."""

import numpy as np
import pytest
import reference
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from scipy.special import logit

from nishimori import metrics, plot
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(500, 4)
CURVE = metrics.reliability(LOGITS, LABELS, strategy="quantile", temperature=0.3)  # most confidences are close to 1
CLOSEST = 0.25 / 500


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_points_closer_to_1_than_samples_can_tell_are_at_the_border(ax):
    plot.reliability_diagram(CURVE, ax=ax, scale="logit")
    assert (ax.get_xscale(), ax.get_yscale()) == ("logit", "logit")
    assert ax.get_xlim() == ax.get_ylim()
    assert ax.get_xlim()[1] > 1 - CLOSEST
    solid = next(each for each in ax.collections if isinstance(each, PathCollection)).get_offsets()
    expected = np.minimum(np.column_stack([CURVE.confidence, CURVE.accuracy]), 1 - CLOSEST)
    np.testing.assert_allclose(solid, expected)
    assert (expected < np.column_stack([CURVE.confidence, CURVE.accuracy])).any()


def test_every_bar_and_the_diagonal_are_inside(ax):
    plot.reliability_diagram(
        {"before": CURVE, "EC": metrics.reliability(LOGITS, LABELS, temperature=2.0)}, ax=ax, scale="logit"
    )
    low, high = ax.get_ylim()
    segments = [part for each in ax.collections if isinstance(each, LineCollection) for part in each.get_segments()]
    assert all(low <= y <= high for part in segments for y in part[:, 1])
    assert all(np.isfinite(line.get_xydata()).all() for line in ax.get_lines())


def test_the_histogram_of_a_logit_axis_is_the_density_of_the_logit(ax):
    curve = metrics.reliability(LOGITS, LABELS, n_bins=5, temperature=2.0)
    plot.reliability_diagram(curve, ax=ax, scale="logit")
    heights, edges, _ = ax.child_axes[0].patches[0].get_data()
    inner = slice(1, -1)  # the first and the last bin reach over the border
    expected = curve.weight / 500 / (logit(curve.upper) - logit(np.maximum(curve.lower, 1e-9)))
    np.testing.assert_allclose(heights[np.searchsorted(edges, curve.lower[inner])], expected[inner])
    assert len(curve.weight) == 4


def test_a_second_curve_never_narrows_the_axes(ax):
    plot.reliability_diagram(CURVE, ax=ax, scale="logit")
    before = ax.get_xlim()
    few = metrics.reliability(LOGITS[:40], LABELS[:40])
    plot.reliability_diagram(few, ax=ax, scale="logit")
    assert ax.get_xlim()[0] <= before[0]
    assert ax.get_xlim()[1] >= before[1]


def test_ticks_are_plain_numbers(ax):
    plot.reliability_diagram(CURVE, ax=ax, scale="logit")
    ax.figure.canvas.draw()
    assert {"0.5", "0.9", "0.99"} <= {text.get_text() for text in ax.get_xticklabels()}


def test_other_scales_are_refused(ax):
    with pytest.raises(InputError, match=r"^`scale` must be 'linear' or 'logit', got 'log'\.$"):
        plot.reliability_diagram(CURVE, ax=ax, scale="log")
