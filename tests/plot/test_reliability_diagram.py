"""Pictures: what is drawn is what was computed, on the axes that were passed, and nothing global changes."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
import reference
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from scipy.stats import binomtest

import nishimori
from nishimori import metrics, plot
from nishimori.errors import InputError
from nishimori.plot._style import COLORS, HUES, MARKERS

LOGITS, LABELS = reference.drawn(500, 4)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_the_diagram_shows_each_bin_of_the_curve(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    assert plot.reliability_diagram(curve, ax=ax, label="mine") is ax
    solid, hollow = (each.get_offsets() for each in ax.collections if isinstance(each, PathCollection))
    points = np.column_stack([curve.confidence, curve.accuracy])
    np.testing.assert_allclose(solid, points[curve.count >= 10])
    np.testing.assert_allclose(hollow, points[curve.count < 10])
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
    (above,) = (other for other in ax.figure.axes if other is not ax)
    lines = {line.get_label(): line for axes in (ax, above) for line in axes.get_lines()}
    np.testing.assert_array_equal(lines["loss"].get_ydata(), curve.loss)
    assert lines["loss"].axes is above  # which has a scale of its own, and covers nothing
    assert above.get_position().y0 > ax.get_position().y1
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
    texts = [text.get_text() for axes in ax.figure.axes for text in axes.get_legend().get_texts()]
    assert not any("T = " in text for text in texts)


def test_the_classic_diagram_has_a_bar_of_accuracy_and_a_gap_to_confidence_per_bin(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    plot.reliability_diagram(curve, ax=ax, style="classic", label="before")
    accuracy, gap = ax.containers
    np.testing.assert_allclose([bar.get_height() for bar in accuracy], curve.accuracy)
    np.testing.assert_allclose([bar.get_x() for bar in accuracy], curve.lower)
    # The gap ends at the mean confidence, above or below the accuracy.
    np.testing.assert_allclose([bar.get_y() + bar.get_height() for bar in gap], curve.confidence)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["before: accuracy", f"gap to confidence: ECE {100 * curve.error():.2f} %"]


def test_a_classic_diagram_of_several_curves_or_on_a_logit_scale_is_refused(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    with pytest.raises(InputError, match="2 curves, whose bars would cover each other"):
        plot.reliability_diagram({"before": curve, "after": curve}, ax=ax, style="classic")
    with pytest.raises(InputError, match="got scale 'logit'"):
        plot.reliability_diagram(curve, ax=ax, style="classic", scale="logit")
    with pytest.raises(InputError, match="`style` must be 'points' or 'classic', got 'bars'"):
        plot.reliability_diagram(curve, ax=ax, style="bars")


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
    with pytest.raises(InputError, match=r"Pass `nishimori.temperature_curve\(\.\.\.\)`"):
        plot.temperature_curve(LOGITS, ax=ax)
    with pytest.raises(InputError, match="Use `of='top'` or `of='positive'`"):
        plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, of="classwise"), ax=ax)


def test_a_bad_grid_is_refused():
    with pytest.raises(InputError, match="`grid` must be a flat list of temperatures"):
        nishimori.temperature_curve(LOGITS, LABELS, grid=[[1.0]])
    with pytest.raises(InputError, match="`grid` must be a finite positive number"):
        nishimori.temperature_curve(LOGITS, LABELS, grid=[0.0])


def marked(ax):
    """The points of a diagram: those of enough samples, and the hollow ones."""
    return [each.get_offsets() for each in ax.collections if isinstance(each, PathCollection)]


def bars(ax):
    """Confidence and both ends of each bar, in order of confidence."""
    ends = [each for each in ax.collections if isinstance(each, LineCollection)]
    rows = [(*segment[0], segment[1][1]) for each in ends for segment in each.get_segments()]
    return np.array(sorted(rows))


def names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def notes(ax):
    return ax.texts[0].get_text().splitlines()


def test_bars_are_wilson_intervals_of_the_accuracy(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    plot.reliability_diagram(curve, ax=ax)
    found = [
        binomtest(round(accuracy * count), round(count)).proportion_ci(0.95, method="wilson")
        for accuracy, count in zip(curve.accuracy, curve.count, strict=True)
    ]
    wanted = np.column_stack([curve.confidence, [each.low for each in found], [each.high for each in found]])
    np.testing.assert_allclose(bars(ax), wanted, atol=1e-12)


def test_bars_know_the_effective_number_of_samples():
    heavy = np.where(np.arange(len(LABELS)) % 10, 1.0, 30.0)
    drawn = {}
    for name, weights in {"none": None, "equal": np.full(len(LABELS), 3.0), "unequal": heavy}.items():
        axes = Figure().add_subplot()
        plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, n_bins=2, sample_weight=weights), ax=axes)
        drawn[name] = bars(axes)
    np.testing.assert_allclose(drawn["equal"], drawn["none"], rtol=1e-9)
    assert np.all(np.ptp(drawn["unequal"][:, 1:], axis=1) > 1.5 * np.ptp(drawn["none"][:, 1:], axis=1))


def test_bins_of_few_samples_are_hollow_and_not_joined(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    few = curve.count < 20
    assert 0 < few.sum() < len(few)
    plot.reliability_diagram(curve, ax=ax, min_count=20)
    points = np.column_stack([curve.confidence, curve.accuracy])
    solid, hollow = marked(ax)
    np.testing.assert_allclose(solid, points[~few])
    np.testing.assert_allclose(hollow, points[few])
    (joined,) = (line for line in ax.get_lines() if line.get_label() == "_joined")
    np.testing.assert_allclose(joined.get_xydata(), points[~few])
    assert notes(ax)[1:] == ["hollow: bins with fewer than 20 samples"]


def test_a_bin_of_exactly_min_count_samples_of_equal_weight_is_not_hollow(ax):
    logits, labels = np.tile([[0.0, -0.3]], (10, 1)), np.arange(10) % 2
    plot.reliability_diagram(metrics.reliability(logits, labels, sample_weight=np.full(10, 0.1)), ax=ax)
    assert [len(each) for each in marked(ax)] == [1, 0]
    assert len(notes(ax)) == 1


def test_weighted_bins_are_hollow_by_their_effective_number_of_samples(ax):
    weights = np.where(np.arange(len(LABELS)) % 50, 0.01, 30.0)
    plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, sample_weight=weights), ax=ax)
    assert notes(ax)[1] == "hollow: bins with fewer than 10 effective samples"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "15 bins of equal width"),
        ({"n_bins": 7}, "7 bins of equal width"),
        ({"strategy": "quantile", "n_bins": 8}, "8 bins of equal weight"),
    ],
)
def test_the_kind_of_bins_is_stated(ax, options, kind):
    plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, **options), ax=ax)
    assert notes(ax)[0] == f"{kind}; bars: 95 % intervals"


def test_quantile_bins_that_are_empty_are_stated(ax):
    logits = np.repeat([[0.0, -1.0], [0.0, -2.0]], 50, axis=0)
    plot.reliability_diagram(metrics.reliability(logits, np.zeros(100, int), n_bins=5, strategy="quantile"), ax=ax)
    assert notes(ax)[0] == "5 quantile bins, 3 empty; bars: 95 % intervals"


def test_two_calls_repeat_no_note_and_add_other_ones(ax):
    for strategy in ("uniform", "uniform", "quantile"):
        plot.reliability_diagram(metrics.reliability(LOGITS, LABELS, strategy=strategy), ax=ax, min_count=0)
    assert [note.partition(";")[0] for note in notes(ax)] == ["15 bins of equal width", "15 bins of equal weight"]


def test_nothing_spills_over_the_axes():
    """On axes for a column of 80 mm: lifting the clipping at the edges of the axes changes no pixel."""
    figure = Figure(figsize=(80 / 25.4, 80 / 25.4), layout="constrained")
    ax = figure.add_subplot()
    certain = np.repeat([[1.0, 0.0]], 100, axis=0)
    wrong = metrics.reliability(certain, np.ones(100, int), input="probabilities")
    right = metrics.reliability(certain, np.zeros(100, int), input="probabilities")
    plot.reliability_diagram({"wrong": wrong, "before": right}, ax=ax)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    figure.set_layout_engine("none")  # the places are settled; a second layout would move them by a pixel
    canvas.draw()
    clipped = np.array(canvas.buffer_rgba())
    for artist in (*ax.lines, *ax.collections):
        assert artist.get_clip_on()
        artist.set_clip_on(False)
    canvas.draw()
    np.testing.assert_array_equal(np.array(canvas.buffer_rgba()), clipped)


def test_scorecards_and_dicts_are_drawn_with_a_colour_and_a_marker_each(ax):
    cards = {name: nishimori.evaluate(LOGITS, LABELS, temperature=T) for T, name in enumerate("abcdefgh", start=1)}
    plot.reliability_diagram({**cards, "before": cards["a"].reliability}, ax=ax)
    assert names(ax) == [f"{name}: ECE {100 * card.ece:.2f} %" for name, card in {**cards, "before": cards["a"]}.items()]
    handles = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    assert len({line.get_marker() for line in handles}) == len(handles) == 9
    assert len({line.get_color() for line in handles}) == len(HUES) == 8
    assert handles[-1].get_color() == COLORS["before"]


@pytest.mark.parametrize("name", ["EC", "ec", "after EC"])
def test_a_method_looks_the_same_in_every_picture(ax, name):
    plot.reliability_diagram({"mine": metrics.reliability(LOGITS, LABELS), name: metrics.reliability(LOGITS, LABELS)}, ax=ax)
    mine, ec = (line for line in ax.get_lines() if not line.get_label().startswith("_"))
    assert (ec.get_color(), ec.get_marker()) == (COLORS["ec"], MARKERS["ec"])
    assert mine.get_color() not in {COLORS["ec"], COLORS["ts"]}
    assert mine.get_marker() != ec.get_marker()


def test_two_names_of_one_method_look_different(ax):
    plot.reliability_diagram(dict.fromkeys(["EC", "after EC"], metrics.reliability(LOGITS, LABELS)), ax=ax)
    one, other = (line for line in ax.get_lines() if not line.get_label().startswith("_"))
    assert one.get_color() != other.get_color()
    assert one.get_marker() != other.get_marker()


@pytest.mark.parametrize("marker", ["x", "s"])
def test_colours_and_markers_can_be_chosen(ax, marker):
    plot.reliability_diagram(metrics.reliability(LOGITS, LABELS), ax=ax, color=(1.0, 0.0, 0.0), marker=marker)
    (handle,) = (line for line in ax.get_lines() if not line.get_label().startswith("_"))
    assert (handle.get_color(), handle.get_marker()) == ((1.0, 0.0, 0.0), marker)


def test_a_curve_joins_another_one_whose_colour_is_an_array(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    plot.reliability_diagram(curve, ax=ax, color=np.array([1.0, 0.0, 0.0]))
    plot.reliability_diagram(curve, ax=ax)
    _, second = (line for line in ax.get_lines() if not line.get_label().startswith("_"))
    assert second.get_color() in HUES.values()


def test_options_of_one_curve_are_refused_for_several(ax):
    curve = metrics.reliability(LOGITS, LABELS)
    for option in ({"label": "a"}, {"color": "red"}, {"marker": "x"}):
        with pytest.raises(InputError, match=f"`{next(iter(option))}` must be left out where `curve` is a dict"):
            plot.reliability_diagram({"a": curve}, ax=ax, **option)
    with pytest.raises(InputError, match="at least one result, got an empty dict"):
        plot.reliability_diagram({}, ax=ax)
    with pytest.raises(InputError, match="`min_count` must lie between 0 and inf, got -1"):
        plot.reliability_diagram(curve, ax=ax, min_count=-1)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_call_draws_what_evaluate_measures_before_and_after(ax, strategy, weighted):
    options = {"strategy": strategy, "n_bins": 10, "sample_weight": 1.0 + LABELS if weighted else None}
    calibrator = nishimori.ExpectationConsistency().fit(LOGITS, LABELS)
    assert plot.calibration(LOGITS, LABELS, calibrator, ax=ax, **options) is ax
    before = nishimori.evaluate(LOGITS, LABELS, **options)
    after = nishimori.evaluate(LOGITS, LABELS, calibrator=calibrator, **options)
    assert names(ax) == [f"before: ECE {100 * before.ece:.2f} %", f"after EC: ECE {100 * after.ece:.2f} %"]
    wanted = [(card.reliability.confidence, card.reliability.accuracy) for card in (before, after)]
    found = np.concatenate(marked(ax))
    np.testing.assert_allclose(np.sort(found[:, 0]), np.sort(np.concatenate([each for each, _ in wanted])))
    np.testing.assert_allclose(np.sort(found[:, 1]), np.sort(np.concatenate([each for _, each in wanted])))


def test_one_call_takes_groups_and_names_no_other_method(ax):
    groups = np.where(np.arange(len(LABELS)) % 2, "east", "west")
    fitted = nishimori.GroupConsistency(by="groups").fit(LOGITS, LABELS, groups=groups)
    plot.calibration(LOGITS, LABELS, fitted, groups=groups, ax=ax)
    after = nishimori.evaluate(LOGITS, LABELS, calibrator=fitted, groups=groups)
    # Its parameter `method` is "ec", but EC is another calibrator.
    assert ax.get_legend().get_texts()[1].get_text() == f"after: ECE {100 * after.ece:.2f} %"


def test_one_call_takes_a_temperature_or_nothing():
    for options, wanted in (({"temperature": 2.0}, ["before", "after"]), ({}, [])):
        axes = Figure().add_subplot()
        plot.calibration(LOGITS, LABELS, ax=axes, **options)
        assert [name.partition(":")[0] for name in names(axes) if ":" in name] == wanted
    with pytest.raises(InputError, match="`temperature` must be left out: `calibrator` already"):
        plot.calibration(LOGITS, LABELS, nishimori.TemperatureScaling().fit(LOGITS, LABELS), temperature=2.0)
    with pytest.raises(InputError, match=r"Pass `temperature=2.0`"):
        plot.calibration(LOGITS, LABELS, 2.0)


def test_one_call_reads_scores_and_labels_as_the_calibrator_does(ax):
    words = np.array(list("dcba"))[LABELS]
    fitted = nishimori.TemperatureScaling(input="probabilities", classes=list("dcba"), floor=None).fit(
        reference.softmax(LOGITS), words
    )
    plot.calibration(reference.softmax(LOGITS), words, fitted, ax=ax)
    assert names(ax)[0] == f"before: ECE {100 * metrics.ece(LOGITS, LABELS):.2f} %"
    assert names(ax)[1].startswith("after TS")


def test_every_axis_of_every_picture_is_labelled(ax):
    other = Figure().add_subplot()
    plot.reliability_diagram(metrics.reliability(LOGITS, LABELS), ax=ax)
    plot.temperature_curve(nishimori.temperature_curve(LOGITS, LABELS), ax=other)
    assert [(each.get_xlabel(), each.get_ylabel()) for each in ax.figure.axes] == [("confidence", "accuracy")]
    assert [each.get_ylabel() for each in other.figure.axes] == ["confidence, accuracy, ECE", "loss, nats"]
    assert other.get_xlabel() == "temperature T"


def test_the_lines_of_the_temperature_curve_differ_in_colour_and_in_shape(ax):
    plot.temperature_curve(nishimori.temperature_curve(LOGITS, LABELS), ax=ax)
    handles = [line for axes in ax.figure.axes for line in axes.get_legend().legend_handles]
    assert len(handles) == 6
    assert len({line.get_color() for line in handles}) == 6
    assert {line.get_color() for line in handles} <= set(HUES.values())
    assert len({(line.get_linestyle(), line.get_marker()) for line in handles}) == 6


def test_the_loss_has_axes_of_its_own_beside_other_pictures_and_without_a_grid():
    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    curve = nishimori.temperature_curve(LOGITS, LABELS, grid=[1.0, 2.0])
    plot.temperature_curve(curve, ax=right)
    FigureCanvasAgg(figure).draw()
    (above,) = (each for each in figure.axes if each not in (left, right))
    boxes = [each.get_tightbbox() for each in (left, right, above)]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
    alone = Figure().add_axes((0.1, 0.1, 0.8, 0.5))
    plot.temperature_curve(curve, ax=alone)
    assert [each.get_ylabel() for each in alone.child_axes] == ["loss, nats"]
