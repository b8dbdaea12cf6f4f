"""Accuracy against confidence, bin by bin: of what was measured before, or of a data set before and after calibration."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
from scipy.special import expit, logit

from nishimori._evaluation.scorecard import Scorecard, evaluate
from nishimori._rows.options import ERROR_BARS_ONLY, RowOptions, takes_rows
from nishimori._rows.rows import is_rows
from nishimori._sums.reliability import Reliability, Strategy
from nishimori._support.arrays import HostArray
from nishimori._support.intervals import normal_quantile, wilson_limits
from nishimori._support.numbers import between, one_of
from nishimori.errors import InputError
from nishimori.plot._style import HUES, MARKERS, axes_for, by_name, looks, note_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scale = Literal["linear", "logit"]
Style = Literal["points", "classic"]


class Drawing(TypedDict, total=False):
    """How a diagram is drawn: parameters of `reliability_diagram`, which other functions pass on to it."""

    ax: "Axes | None"
    color: Any
    marker: str | None
    histogram: bool
    min_count: float
    scale: Scale


# Half of the largest marker is less than this share of axes that are 45 mm high, so markers at 0 and 1 fit inside.
_MARGIN = 0.04
# A bin that reaches over the border of a logit axis is hardly visible, and must not look like a peak.
_LEAST_LOGIT_WIDTH = 0.5
_STRIP = "confidence histogram"


def reliability_diagram(
    curve: Reliability | Scorecard | Mapping[str, Reliability | Scorecard],
    *,
    ax: "Axes | None" = None,
    label: str | None = None,
    color: Any = None,
    marker: str | None = None,
    histogram: bool = True,
    min_count: float = 10,
    scale: Scale = "linear",
    style: Style = "points",
) -> "Axes":
    """Accuracy against confidence, with the histogram of the confidence above it.

    Points below the diagonal are overconfident. The area of a point grows with its share of the samples, and its bar is the
    95 % Wilson score interval of its accuracy: a bin whose bar meets the diagonal may well be calibrated.

    Parameters
    ----------
    curve : Reliability, Scorecard or dict
        From `nishimori.metrics.reliability`, of the top or the positive class; or from `nishimori.evaluate`; or several of
        them by name. "before", "after", "EC" and "TS" (also "after EC") look the same in all pictures of nishimori.
    ax : matplotlib axes, optional
        Where to draw; new axes by default. The histogram is drawn in a strip above them.
    label : str, optional
        Name in the legend, next to the ECE.
    color, marker : optional
        Any matplotlib colour and marker; by default those of the name, else the next ones that the axes do not have yet.
    histogram : bool
        Whether to draw the histogram.
    min_count : float
        Bins with fewer samples are drawn hollow and are not joined to the others: their accuracy says little. With sample
        weights, the effective number counts (`Reliability.count`), here and in the bars.
    scale : {"linear", "logit"}
        "logit" spreads out what is close to 0 and 1, where the bins of equal weight of a confident network crowd. What is
        closer to 0 or 1 than one in four times the number of samples is drawn at the border.
    style : {"points", "classic"}
        "classic" draws one curve as bars of accuracy, with the gap to the mean confidence of each bin hatched, as C. Guo et al.
        (2017) do; on a linear scale.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.
    """
    between("min_count", min_count, 0, np.inf)
    if isinstance(curve, Mapping):
        for argument, value in (("label", label), ("color", color), ("marker", marker)):
            if value is not None:
                raise InputError(argument, "be left out where `curve` is a dict", got=repr(value))
    curves = {name: _as_reliability(own) for name, own in by_name(curve, "curve", label).items()}
    _check_style(style, scale, len(curves))
    ax = axes_for("reliability_diagram", (4.2, 5.0), ax)
    border = _set_scale(ax, scale, list(curves.values()))
    for name, (own_color, own_marker) in looks(ax, list(curves)).items():
        look = (own_color if color is None else color, own_marker if marker is None else marker)
        if style == "classic":
            _draw_bars(curves[name], ax, name, look[0])
        else:
            _draw_points(curves[name], ax, name, look, min_count, border)
        if histogram:
            _histogram(curves[name], ax, look[0], border)
    ax.plot(border, border, color="0.3", linestyle=(0, (4, 4)), linewidth=0.7, zorder=0)
    ax.legend(loc="best", frameon=False, fontsize="small")
    return ax


@takes_rows(refuses={"counts": ERROR_BARS_ONLY, "clusters": ERROR_BARS_ONLY})
def calibration(
    logits: Any,
    labels: Any = None,
    calibrator: Any = None,
    *,
    temperature: float | None = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    ax: "Axes | None" = None,
    histogram: bool = True,
    min_count: float = 10,
    **options: Unpack[RowOptions],
) -> "Axes":
    """Reliability diagram of a data set before and after calibration, with both calibration errors in the legend.

    To compare several calibrators, pass their scorecards to `reliability_diagram`: ``{"EC": evaluate(..., calibrator=ec)}``.

    Parameters
    ----------
    logits, labels, n_bins, strategy
        As for `evaluate`. Use data that the calibrator was not fitted to.
    calibrator : calibrator, optional
        A fitted calibrator.
    temperature : float, optional
        What to divide the logits by, instead of a calibrator. If neither is given, only the curve before is drawn.
    ax, histogram, min_count
        As for `reliability_diagram`.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``groups``, ``input``, ``classes``, ``floor``,
        ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import nishimori
    >>> from nishimori import plot
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> ec = nishimori.ExpectationConsistency().fit(network.validation.logits, network.validation.labels)
    >>> ax = plot.calibration(network.test.logits, network.test.labels, ec)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['before: ECE 6.99 %', 'after EC: ECE 1.04 %']
    >>> plt.close()
    """
    measured = partial(evaluate, logits, labels, n_bins=n_bins, strategy=strategy)
    if calibrator is None and temperature is None:
        drawn: Any = measured(**options)
    else:
        after = measured(temperature=temperature, calibrator=calibrator, **options)
        before = options.copy()
        if calibrator is not None and not is_rows(logits):  # the same scores, read in the same way
            before |= {"input": calibrator.input_, "classes": calibrator.classes, "floor": None}
        method = getattr(calibrator, "method_name", None)
        drawn = {"before": measured(**before), f"after {method.upper()}" if method in MARKERS else "after": after}
    return reliability_diagram(drawn, ax=ax, histogram=histogram, min_count=min_count)


def _check_style(style: Any, scale: Any, number: int) -> None:
    if one_of("style", style, Style) == "classic" and (scale != "linear" or number > 1):
        got = f"scale {scale!r}" if scale != "linear" else f"{number} curves, whose bars would cover each other"
        raise InputError("style", "be 'points' for several curves and for other scales", got=got, remedy="Draw one at a time.")


def _set_scale(ax: "Axes", scale: Any, curves: Sequence[Reliability]) -> tuple[float, float]:
    """Scale and limit both axes; the values between which everything is drawn."""
    border = (0.0, 1.0) if one_of("scale", scale, Scale) == "linear" else _logit_border(ax, curves)
    limits = (-_MARGIN, 1 + _MARGIN)
    if scale == "logit":
        low, high = logit(border)
        limits = tuple(expit(low + share * (high - low)) for share in limits)
    ax.set(xlabel="confidence", ylabel="accuracy", xscale=scale, yscale=scale, xlim=limits, ylim=limits)
    if scale == "logit":
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda p, _: f"{p:.10g}")  # 0.99 instead of 1 - 10⁻²
            axis.set_minor_formatter("")
    return border


def _logit_border(ax: "Axes", curves: Sequence[Reliability]) -> tuple[float, float]:
    """The limits of a logit axis: around all points and bars, but not closer to 0 or 1 than the samples can tell."""
    least = 0.25 / max(float(curve.count.sum()) for curve in curves)
    lowest = min(float(min(curve.confidence.min(), wilson_interval(curve.accuracy, curve.count)[0].min())) for curve in curves)
    low, high = max(0.8 * lowest, least), 1 - least
    if ax.get_xscale() == "logit":  # other curves are there already
        low, high = min(low, ax.get_xlim()[0]), max(high, ax.get_xlim()[1])
    return low, high


def _as_reliability(curve: Any) -> Reliability:
    if isinstance(curve, Scorecard):
        curve = curve.reliability
    if not isinstance(curve, Reliability):
        remedy = "Pass `nishimori.metrics.reliability(logits, labels)`, or call `nishimori.plot.calibration(logits, labels)`."
        raise InputError("curve", "be a Reliability, a Scorecard or a dict of them", type(curve).__name__, remedy)
    if curve.group.any():
        raise InputError("curve", "hold one claim per sample", "classwise claims", "Use `of='top'` or `of='positive'`.")
    return curve


def _draw_points(
    curve: Reliability, ax: "Axes", name: str | None, look: tuple[Any, str], min_count: float, border: tuple[float, float]
) -> None:
    color, marker = look
    # Effective counts carry rounding errors: ten samples of equal weight must count as ten.
    enough = curve.count >= min_count * (1 - 1e-9)
    low, high = wilson_interval(curve.accuracy, curve.count)
    # The area of a marker grows with the bin's share of the samples, so that ten samples do not look like a thousand.
    area = 12 + 38 * curve.weight / curve.weight.sum()
    at, share, low, high = (np.clip(values, *border) for values in (curve.confidence, curve.accuracy, low, high))
    ax.plot(at[enough], share[enough], color=color, linewidth=1, alpha=0.5, label="_joined")
    for rows, alpha in ((enough, 1.0), (~enough, 0.6)):
        x, y = at[rows], share[rows]
        ax.vlines(x, low[rows], high[rows], color=color, linewidth=1.2, alpha=0.7 * alpha)
        markers = ax.scatter(x, y, s=area[rows], color=color, marker=marker, alpha=alpha, zorder=3)
        if rows is not enough:
            markers.set_facecolor(ax.get_facecolor())
    error = f"ECE {100 * curve.error():.2f} %"
    ax.plot([], [], marker, color=color, label=error if name is None else f"{name}: {error}")
    notes = [f"{_kind_of_bins(curve)}; bars: 95 % intervals"]
    if not enough.all():
        equal = np.allclose(curve.count, np.rint(curve.count))
        notes.append(f"hollow: bins with fewer than {min_count:g} {'samples' if equal else 'effective samples'}")
    note_below(ax, notes)


def _draw_bars(curve: Reliability, ax: "Axes", name: str | None, color: Any) -> None:
    """The classic diagram: a bar of accuracy per bin, and the gap between it and the mean confidence of the bin."""
    width = curve.upper - curve.lower
    low, high = wilson_interval(curve.accuracy, curve.count)
    bars: Any = {"width": width, "align": "edge", "linewidth": 0.8}
    title = "accuracy" if name is None else f"{name}: accuracy"
    ax.bar(curve.lower, curve.accuracy, color=color, alpha=0.75, edgecolor="white", label=title, **bars)
    # A gap is hatched, so that it is seen without colours too.
    gap: Any = {"color": "none", "edgecolor": HUES["vermilion"], "hatch": "////"}
    label = f"gap to confidence: ECE {100 * curve.error():.2f} %"
    ax.bar(curve.lower, curve.gap, bottom=curve.accuracy, label=label, **gap, **bars)
    ax.vlines((curve.lower + curve.upper) / 2, low, high, color="0.2", linewidth=1)
    note_below(ax, [f"{_kind_of_bins(curve)}; lines: 95 % intervals"])


def wilson_interval(p: HostArray, n: HostArray) -> tuple[HostArray, HostArray]:
    """Wilson's 95 % score interval of shares ``p`` of ``n`` samples."""
    return wilson_limits(p, n, normal_quantile(0.95))


def _kind_of_bins(curve: Reliability) -> str:
    if curve.strategy == "uniform":
        return f"{curve.n_bins} bins of equal width"
    empty = 0 if curve.n_bins is None else curve.n_bins - len(curve.weight)
    if curve.strategy == "quantile":
        # Equal confidences share a bin, so that other bins may be empty and weights differ.
        return f"{curve.n_bins} quantile bins, {empty} empty" if empty else f"{curve.n_bins} bins of equal weight"
    return f"{len(curve.weight)} bins"


def _histogram(curve: Reliability, ax: "Axes", color: Any, border: tuple[float, float]) -> None:
    """Density of the confidence, in a strip above the axes that all curves on them share."""
    strip: Any = next((child for child in ax.child_axes if child.get_label() == _STRIP), None)
    if strip is None:
        strip = ax.inset_axes((0, 1.03, 1, 0.18), sharex=ax, label=_STRIP)
        strip.tick_params(labelbottom=False, left=False, labelleft=False)
        strip.spines[["top", "left", "right"]].set_visible(False)
        strip.set_ylabel("density", fontsize="small")
    # On a logit axis it is the density of the logit, up to the border. Quantile bins have no width where confidences are equal;
    # a small width keeps their density finite.
    lower, upper = (np.clip(edges, *border) for edges in (curve.lower, curve.upper))
    if ax.get_xscale() == "logit":
        width = np.maximum(logit(upper) - logit(lower), _LEAST_LOGIT_WIDTH)
    else:
        width = np.maximum(upper - lower, 1e-3)
    density = curve.weight / curve.weight.sum() / width
    heights, edges = _steps(curve, density)
    steps = (heights, np.clip(edges, *border))
    strip.stairs(*steps, color=color, fill=True, alpha=0.25)
    strip.stairs(*steps, color=color, linewidth=1.2)
    strip.set_ylim(0, max(strip.get_ylim()[1], 1.1 * float(density.max())))


def _steps(curve: Reliability, density: HostArray) -> tuple[HostArray, HostArray]:
    """Heights and edges from 0 to 1; the height of an empty bin is zero."""
    edges = np.unique(np.concatenate([[0.0], curve.lower, curve.upper, [1.0]]))
    heights = np.zeros(len(edges) - 1)
    heights[np.minimum(np.searchsorted(edges, curve.lower), len(heights) - 1)] = density
    return heights, edges
