"""Loss, confidence and calibration error against the temperature."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nishimori._evaluation.curve import TemperatureCurve
from nishimori.errors import InputError
from nishimori.plot._style import COLORS, MARKERS, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def temperature_curve(curve: TemperatureCurve, *, ax: "Axes | None" = None) -> "Axes":
    """Mean confidence, accuracy and calibration error against T, and the validation loss above them.

    Both temperatures are marked: temperature scaling is at the minimum of the loss, expectation consistency where confidence
    equals accuracy.

    Parameters
    ----------
    curve : TemperatureCurve
        From `nishimori.temperature_curve`.
    ax : matplotlib axes, optional
        Where to draw; new axes by default. Their upper part becomes axes for the loss, which has a scale of its own.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.
    """
    if not isinstance(curve, TemperatureCurve):
        raise InputError("curve", "be a TemperatureCurve", type(curve).__name__, "Pass `nishimori.temperature_curve(...)`.")
    ax = axes_for("temperature_curve", (5.6, 5.2), ax)
    above = _axes_above(ax)
    T = curve.temperature
    ax.plot(T, curve.confidence, color=COLORS["confidence"], label="mean confidence")
    ax.axhline(curve.accuracy, color=COLORS["accuracy"], linestyle=":", linewidth=1.2, label=f"accuracy {curve.accuracy:.3f}")
    ax.plot(T, curve.ece, color=COLORS["ece"], linestyle="-.", label="ECE")
    above.plot(T, curve.loss, color=COLORS["loss"], linestyle="--", label="loss")
    ts, ec = curve.chosen.ts, curve.chosen.ec
    if ts is not None:
        _mark((ax, above), above, ts, float(np.interp(ts, T, curve.loss)), "ts")
    if ec is not None:
        _mark((ax, above), ax, ec, curve.accuracy, "ec")
    ax.set(xlabel="temperature T", ylabel="confidence, accuracy, ECE", xscale="log", ylim=(0, 1.05))
    # The loss diverges as T → 0; its minimum must stay visible.
    above.set(ylabel="loss, nats", ylim=(0, 3 * float(curve.loss.min())))
    _plain_ticks(ax, float(T.min()), float(T.max()))
    ax.legend(frameon=False, fontsize="small", loc="center left")
    above.legend(frameon=False, fontsize="small", loc="lower left")
    return ax


def _axes_above(ax: "Axes") -> Any:
    """Axes for the loss, in the upper part of the place of ``ax``; above it if that is not part of a grid."""
    figure: Any = ax.figure
    place = ax.get_subplotspec()
    if place is None:
        above = ax.inset_axes((0, 1.05, 1, 0.4), sharex=ax, label="loss")
    else:  # which layouts of matplotlib know, other than axes that stand out of their place
        halves: Any = place.subgridspec(2, 1, height_ratios=(2, 5), hspace=0.06)
        ax.set_subplotspec(halves[1])
        above = figure.add_subplot(halves[0], sharex=ax, label="loss")
    above.tick_params(labelbottom=False)
    return above


def _mark(through: Sequence["Axes"], over: "Axes", T: float, y: float, method: str) -> None:
    """A chosen temperature: a line through some axes, and a marker on the curve that chose it, on the axes ``over``."""
    color = COLORS[method]
    for ax in through:
        ax.axvline(T, color=color, linewidth=0.8, alpha=0.6)
    over.plot([T], [y], MARKERS[method], color=color, label=f"{method.upper()}: T = {T:.3f}", zorder=4)


def _plain_ticks(ax: "Axes", low: float, high: float) -> None:
    """Label a logarithmic axis 0.5, 1, 2, 5, 10, ... rather than with powers of ten."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = (decades[:, None] * [1, 2, 5]).ravel()
    ax.set_xticks(ticks[(ticks >= low) & (ticks <= high)])
    ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter("{x:g}")
