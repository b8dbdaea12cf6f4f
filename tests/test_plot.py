"""Pictures: what is drawn is what was computed, on the axes that were passed, and nothing global changes."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

import nishimori
import reference
from nishimori import metrics, plot
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(500, 4)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_the_diagram_shows_each_bin_of_the_curve(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    assert plot.reliability_diagram(curve, ax=ax, label="mine") is ax
    (dots,) = [each for each in ax.collections if isinstance(each, PathCollection)]
    np.testing.assert_allclose(dots.get_offsets(), np.column_stack([curve.confidence, curve.accuracy]))
    (text,) = ax.get_legend().get_texts()
    assert text.get_text() == f"mine: ECE {100 * metrics.ece(LOGITS, LABELS):.2f} %"


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_histogram_is_a_density_of_the_confidence(ax, strategy):
    plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, strategy=strategy), ax=ax)
    (strip,) = ax.child_axes
    heights, edges, _ = strip.patches[0].get_data()
    assert float(heights @ np.diff(edges)) == pytest.approx(1)


def test_two_curves_share_the_axes_and_the_histogram(ax):
    for T in (1.0, 2.0):
        plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, temperature=T), ax=ax)
    assert len(ax.child_axes) == 1
    assert len(ax.get_legend().get_texts()) == 2
    colors = {line.get_color() for line in ax.get_lines() if line.get_label().startswith("ECE")}
    assert len(colors) == 2


def test_the_histogram_can_be_left_out(ax):
    plot.reliability_diagram(metrics.reliability(LOGITS, LABELS), ax=ax, histogram=False)
    assert ax.child_axes == []


def test_certain_predictions_can_be_drawn(ax):
    curve = metrics.reliability([[0.0, 1.0], [1.0, 0.0]], [1, 1], input="probabilities", strategy="quantile")
    plot.reliability_diagram(curve, ax=ax)
    ax.figure.canvas.draw()


def test_the_curve_marks_both_temperatures(ax):
    curve = nishimori.temperature_curve(LOGITS, LABELS)
    assert plot.temperature_curve(curve, ax=ax) is ax
    (right,) = (other for other in ax.figure.axes if other is not ax)
    lines = {line.get_label(): line for axes in (ax, right) for line in axes.get_lines()}
    np.testing.assert_array_equal(lines["loss (right)"].get_ydata(), curve.loss)
    np.testing.assert_array_equal(lines["mean confidence"].get_ydata(), curve.confidence)
    np.testing.assert_array_equal(lines["ECE"].get_ydata(), curve.ece)
    assert lines[f"EC: T = {curve.chosen.ec:.3f}"].get_xdata() == [curve.chosen.ec]
    assert lines[f"TS: T = {curve.chosen.ts:.3f}"].get_xdata() == [curve.chosen.ts]


def test_the_curve_is_the_metrics_at_each_temperature():
    grid = [0.5, 2.0]
    curve = nishimori.temperature_curve(LOGITS, LABELS, grid=grid, strategy="quantile")
    np.testing.assert_allclose(curve.loss, [reference.nll(LOGITS, LABELS, T) for T in grid], rtol=1e-12)
    np.testing.assert_allclose(curve.confidence, [reference.softmax(LOGITS, T).max(axis=1).mean() for T in grid], rtol=1e-12)
    np.testing.assert_allclose(curve.ece, [metrics.ece(LOGITS, LABELS, strategy="quantile", temperature=T) for T in grid])


def test_a_curve_without_temperatures_is_drawn_without_marks(ax):
    curve = nishimori.temperature_curve(LOGITS, LOGITS.argmax(axis=1))
    assert (curve.chosen.ec, curve.chosen.ts) == (None, None)
    plot.temperature_curve(curve, ax=ax)
    assert not any("T = " in text.get_text() for text in ax.get_legend().get_texts())


def test_new_axes_are_made_where_none_are_passed():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = dict(mpl.rcParams)
    for made in (
        plot.reliability_diagram(metrics.reliability(LOGITS, LABELS)),
        plot.temperature_curve(nishimori.temperature_curve(LOGITS, LABELS, grid=[1.0, 2.0])),
    ):
        pyplot.close(made.figure)
    assert dict(mpl.rcParams) == before


def test_raw_arrays_are_refused_with_what_to_pass(ax):
    with pytest.raises(InputError, match=r"Pass `nishimori.metrics.reliability\(logits, labels\)`"):
        plot.reliability_diagram(LOGITS, ax=ax)
    with pytest.raises(InputError, match=r"Pass `nishimori.temperature_curve\(logits, labels\)`"):
        plot.temperature_curve(LOGITS, ax=ax)
    with pytest.raises(InputError, match="Use `of='top'` or `of='positive'`"):
        plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, of="classwise"), ax=ax)


def test_a_bad_grid_is_refused():
    with pytest.raises(InputError, match="`grid` must be a flat list of temperatures"):
        nishimori.temperature_curve(LOGITS, LABELS, grid=[[1.0]])
    with pytest.raises(InputError, match="`grid` must be a finite positive number"):
        nishimori.temperature_curve(LOGITS, LABELS, grid=[0.0])
