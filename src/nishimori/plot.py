"""Pictures of calibration, drawn on the axes that you pass. Needs matplotlib: ``pip install 'nishimori[plot]'``.

Each function draws a result that was computed before, returns the axes, and changes no global settings.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from nishimori._curve import TemperatureCurve
from nishimori._optional import require
from nishimori._reliability import Reliability
from nishimori.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["reliability_diagram", "temperature_curve"]


def __dir__() -> list[str]:
    return sorted(__all__)


# The paper's blue and orange, which colour-blind readers and grey prints can tell apart.
_TS, _EC = "tab:blue", "tab:orange"


def reliability_diagram(
    curve: Reliability,
    *,
    ax: "Axes | None" = None,
    label: str | None = None,
    color: Any = None,
    marker: str = "o",
    histogram: bool = True,
) -> "Axes":
    """Accuracy against confidence, with the histogram of the confidence above it.

    Points below the diagonal are overconfident. The line from a point to the diagonal is its gap, and the area of a point is
    proportional to its share of the samples. To compare two curves, draw them on the same axes.

    Parameters
    ----------
    curve : Reliability
        From `nishimori.metrics.reliability`, of the top or the positive class.
    ax : matplotlib axes, optional
        Where to draw; new axes by default. The histogram is drawn in a strip above them.
    label : str, optional
        Name in the legend, next to the ECE.
    color : optional
        Any matplotlib colour; by default the next one of the colour cycle.
    marker : str
        Any matplotlib marker, to tell curves apart that nearly coincide.
    histogram : bool
        Whether to draw the histogram.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.
    """
    if not isinstance(curve, Reliability):
        raise InputError(
            f"`curve` must be a Reliability, got {type(curve).__name__}. Pass `nishimori.metrics.reliability(logits, labels)`."
        )
    if curve.group.any():
        raise InputError("`curve` must hold one claim per sample, got classwise claims. Use `of='top'` or `of='positive'`.")
    ax = _axes(ax, "reliability_diagram", (4.2, 4.8))
    if color is None:
        (line,) = ax.plot([], [])
        color = line.get_color()
        line.remove()
    name = f"{label}: ECE {100 * curve.error():.2f} %" if label else f"ECE {100 * curve.error():.2f} %"
    ax.axline((0, 0), slope=1, color="0.7", linewidth=1, zorder=0)
    ax.vlines(curve.confidence, curve.accuracy, curve.confidence, color=color, alpha=0.35, linewidth=2, clip_on=False)
    ax.plot(curve.confidence, curve.accuracy, color=color, linewidth=1, alpha=0.4)
    # The area of a dot is the bin's share of the samples, so that ten samples do not look like a thousand.
    share = curve.weight / curve.weight.sum()
    ax.scatter(curve.confidence, curve.accuracy, s=8 + 200 * share, color=color, marker=marker, clip_on=False, zorder=3)
    ax.plot([], [], marker, color=color, label=name)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    ax.legend(loc="upper left", frameon=False)
    if histogram:
        _histogram(curve, ax, color)
    return ax


def _histogram(curve: Reliability, ax: "Axes", color: Any) -> None:
    """Density of the confidence, in a strip above the axes that all curves on them share."""
    strip: Any = next((child for child in ax.child_axes if child.get_label() == "confidence histogram"), None)
    if strip is None:
        strip = ax.inset_axes((0, 1.03, 1, 0.18), sharex=ax, label="confidence histogram")
        strip.tick_params(labelbottom=False, left=False, labelleft=False)
        strip.spines[["top", "left", "right"]].set_visible(False)
        strip.set_ylabel("density", fontsize="small")
    # Quantile bins have no width where confidences are equal; a small width keeps their density finite.
    width = np.maximum(curve.upper - curve.lower, 1e-3)
    density = curve.weight / curve.weight.sum() / width
    strip.stairs(*_steps(curve, density), color=color, fill=True, alpha=0.25)
    strip.stairs(*_steps(curve, density), color=color, linewidth=1.2)
    strip.set_ylim(0, max(strip.get_ylim()[1], 1.1 * float(density.max())))


def _steps(curve: Reliability, density: "np.ndarray[Any, Any]") -> tuple[Any, Any]:
    """Heights and edges from 0 to 1; the height of an empty bin is zero."""
    edges = np.unique(np.concatenate([[0.0], curve.lower, curve.upper, [1.0]]))
    heights = np.zeros(len(edges) - 1)
    heights[np.minimum(np.searchsorted(edges, curve.lower), len(heights) - 1)] = density
    return heights, edges


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
            f"`curve` must be a TemperatureCurve, got {type(curve).__name__}. "
            "Pass `nishimori.temperature_curve(logits, labels)`."
        )
    ax = _axes(ax, "temperature_curve", (5.6, 4.2))
    right = ax.twinx()
    right.set_label("loss")
    right.plot(curve.temperature, curve.loss, color=_TS, label="loss (right)")
    ax.plot(curve.temperature, curve.confidence, color=_EC, label="mean confidence")
    ax.axhline(curve.accuracy, color="0.2", linestyle="--", linewidth=1, label=f"accuracy {curve.accuracy:.3f}")
    ax.plot(curve.temperature, curve.ece, color="tab:green", label="ECE")
    chosen = curve.chosen
    if chosen.ts is not None:
        loss = float(np.interp(chosen.ts, curve.temperature, curve.loss))
        right.plot([chosen.ts], [loss], "s", color=_TS, label=f"TS: T = {chosen.ts:.3f}")
        ax.axvline(chosen.ts, color=_TS, linewidth=0.8, alpha=0.5)
    if chosen.ec is not None:
        ax.plot([chosen.ec], [curve.accuracy], "o", color=_EC, label=f"EC: T = {chosen.ec:.3f}")
        ax.axvline(chosen.ec, color=_EC, linewidth=0.8, alpha=0.5)
    ax.set(xlabel="temperature T", xscale="log", ylim=(0, 1.05))
    # The loss diverges as T → 0; its minimum must stay visible.
    right.set_ylim(0, 3 * float(curve.loss.min()))
    right.tick_params(axis="y", colors=_TS)
    right.set_ylabel("loss", color=_TS)
    _plain_ticks(ax, float(curve.temperature.min()), float(curve.temperature.max()))
    handles = [handle for axes in (ax, right) for handle in axes.get_legend_handles_labels()[0]]
    ax.legend(handles=handles, frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return ax


def _plain_ticks(ax: "Axes", low: float, high: float) -> None:
    """Label a logarithmic axis 0.5, 1, 2, 5, 10, ... rather than with powers of ten."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = (decades[:, None] * [1, 2, 5]).ravel()
    ax.set_xticks(ticks[(ticks >= low) & (ticks <= high)])
    ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter("{x:g}")


def _axes(ax: "Axes | None", for_: str, size: tuple[float, float]) -> "Axes":
    if ax is not None:
        return ax
    figure: Any = require("matplotlib.pyplot", extra="plot", for_=for_).figure(figsize=size, layout="constrained")
    new: Axes = figure.add_subplot()
    return new
