"""The error of the most confident answers against the share that is answered."""

from typing import TYPE_CHECKING

from nishimori._evaluation.threshold import Threshold
from nishimori.errors import InputError
from nishimori.plot._style import COLORS, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def risk_coverage(threshold: Threshold, *, ax: "Axes | None" = None) -> "Axes":
    """Share of wrong answers against the share that is answered, at each tested threshold, with the certified one marked.

    Parameters
    ----------
    threshold : Threshold
        From `nishimori.threshold`.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.
    """
    if not isinstance(threshold, Threshold):
        raise InputError("threshold", "be a Threshold", type(threshold).__name__, "Pass `nishimori.threshold(...)`.")
    ax = axes_for("risk_coverage", (5.6, 4.0), ax)
    _, coverage, risk = threshold.curve.T
    ax.plot(coverage, risk, color=COLORS["confidence"], label="these samples")
    ax.axhline(
        threshold.max_risk, color=COLORS["accuracy"], linestyle=":", linewidth=1.2, label=f"at most {threshold.max_risk:g}"
    )
    if threshold.confidence is not None and threshold.risk is not None:
        label = f"certified: confidence ≥ {threshold.confidence:.4g}"
        ax.plot([threshold.coverage], [threshold.risk], "o", color=COLORS["ec"], label=label, zorder=4)
    ax.set(xlabel="share answered", ylabel="share of wrong answers", xlim=(0, 1.02))
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax
