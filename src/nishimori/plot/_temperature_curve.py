"""Loss, confidence and calibration error against the temperature."""

from typing import TYPE_CHECKING, Any

import numpy as np

from nishimori._evaluation.curve import TemperatureCurve
from nishimori._support.optional import require
from nishimori.errors import InputError
from nishimori.plot._style import COLORS, MARKERS, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def temperature_curve(curve: TemperatureCurve, *, ax: "Axes | None" = None) -> "Axes":
    """Validation loss, mean confidence, accuracy and calibration error against T, with both temperatures marked.

    Temperature scaling is at the minimum of the loss, expectation consistency where confidence equals accuracy.

    Parameters
    ----------
    curve : TemperatureCurve
        From `nishimori.temperature_curve`.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.
    """
    if not isinstance(curve, TemperatureCurve):
        raise InputError(
            "curve",
            "be a TemperatureCurve",
            got=type(curve).__name__,
            remedy="Pass `nishimori.temperature_curve(logits, labels)`.",
        )
    ax = axes_for("temperature_curve", (5.6, 4.2), ax)
    right = ax.twinx()
    right.set_label("loss")
    T = curve.temperature
    ax.plot(T, curve.confidence, color=COLORS["confidence"], label="mean confidence")
    ax.axhline(curve.accuracy, color=COLORS["accuracy"], linestyle=":", linewidth=1.2, label=f"accuracy {curve.accuracy:.3f}")
    ax.plot(T, curve.ece, color=COLORS["ece"], linestyle="-.", label="ECE")
    right.plot(T, curve.loss, color=COLORS["loss"], linestyle="--", label="loss (right)")
    ts, ec = curve.chosen.ts, curve.chosen.ec
    if ts is not None:
        _mark(ax, right, ts, float(np.interp(ts, T, curve.loss)), "ts")
    if ec is not None:
        _mark(ax, ax, ec, curve.accuracy, "ec")
    ax.set(xlabel="temperature T", ylabel="confidence, accuracy, ECE", xscale="log", ylim=(0, 1.05))
    # The loss diverges as T → 0; its minimum must stay visible.
    right.set(ylabel="loss, nats", ylim=(0, 3 * float(curve.loss.min())))
    _plain_ticks(ax, float(T.min()), float(T.max()))
    _legend_above(ax, right)
    return ax


def _mark(ax: "Axes", over: "Axes", T: float, y: float, method: str) -> None:
    """A chosen temperature: a line through ``ax``, and a marker on the curve that chose it, on the axes ``over``."""
    color = COLORS[method]
    ax.axvline(T, color=color, linewidth=0.8, alpha=0.6)
    over.plot([T], [y], MARKERS[method], color=color, label=f"{method.upper()}: T = {T:.3f}", zorder=4)


def _legend_above(ax: "Axes", right: "Axes") -> None:
    """One legend for both axes, in as many columns as fit above them."""
    handles: Any = [handle for axes in (ax, right) for handle in axes.get_legend_handles_labels()[0]]
    lines_first = sorted(handles, key=lambda handle: handle.get_marker() != "None")
    font: Any = require("matplotlib.font_manager", extra="plot", for_="temperature_curve").FontProperties(size="small")
    # With its handle and the gap after it, a column is 12 to 14 times as wide as its font is high.
    width, column = ax.get_window_extent().width * 72 / ax.figure.dpi, 12 * font.get_size_in_points()
    columns = int(np.clip(width / column, 1, 3))
    ax.legend(handles=lines_first, ncols=columns, frameon=False, prop=font, loc="lower left", bbox_to_anchor=(0, 1))


def _plain_ticks(ax: "Axes", low: float, high: float) -> None:
    """Label a logarithmic axis 0.5, 1, 2, 5, 10, ... rather than with powers of ten."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = (decades[:, None] * [1, 2, 5]).ravel()
    ax.set_xticks(ticks[(ticks >= low) & (ticks <= high)])
    ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter("{x:g}")
