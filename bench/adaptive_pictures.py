"""Pictures of the study of the method "adaptive": test ECE against the number of samples, and what intervals cover."""

import matplotlib
import numpy as np

from adaptive_tables import CRITERION, KINDS, NAMES, Numbers, standard_error
from nishimori._fit.adaptive import kept_share
from nishimori.plot._style import COLORS, HUES, MARKERS

LOOKS = {
    "ec": {"color": COLORS["ec"], "marker": MARKERS["ec"]},
    "ts": {"color": COLORS["ts"], "marker": MARKERS["ts"]},
    "adaptive": {"color": COLORS["after"], "marker": MARKERS["after"]},
}
NOTE = {"ha": "right", "va": "bottom", "color": "0.35", "fontsize": 9}
LINE = {"markersize": 5, "linewidth": 1.3, "capsize": 2.5}


def pictures(found, folder):
    """Draw both."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    numbers = Numbers(found)
    for name, draw in {"adaptive-ece": ece, "adaptive-interval": interval}.items():
        figure = draw(numbers, pyplot)
        figure.savefig(folder / f"{name}.png", dpi=120)
        pyplot.close(figure)


def ece(numbers, pyplot):
    """Mean test ECE above, paired differences to EC and TS below, one column per kind of labels."""
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 7.4), sharex=True, layout="constrained")
    sizes = np.array(numbers.sizes, dtype=float)
    for column, (labels, title) in zip(axes.T, KINDS.items(), strict=True):
        for name, look in LOOKS.items():
            means = numbers.of(name, labels).mean(axis=0)
            column[0].plot(sizes, means, label=NAMES[name], **look, markersize=5, linewidth=1.3)
        column[0].set(title=title, ylim=(0, None), ylabel="mean test ECE, %")
        column[0].legend(loc="lower left")
        column[1].axhspan(-CRITERION, CRITERION, color="0.9", zorder=0)
        column[1].axhline(0, color="0.4", linewidth=0.9)
        for other, shift in (("ec", 0.97), ("ts", 1.03)):
            paired = numbers.of("adaptive", labels) - numbers.of(other, labels)
            bars = standard_error(paired)
            column[1].errorbar(
                shift * sizes, paired.mean(axis=0), bars, label=f"adaptive - {NAMES[other]}", **LOOKS[other], **LINE
            )
        column[1].set(ylabel="difference of the ECEs, points", xlabel="validation samples", xscale="log", ylim=(-2.5, 0.6))
        for ax in column:
            ax.grid(alpha=0.3)
            ax.set_xticks(sizes, numbers.sizes)
            ax.set_xticks([], minor=True)
    axes[1, 0].legend(loc="lower left")
    axes[1, 0].text(0.98, 0.04, "below 0: adaptive is better\ngrey: within 0.1 points", **NOTE, transform=axes[1, 0].transAxes)
    return figure


def interval(numbers, pyplot):
    """How much of δ is kept, and the coverage of intervals, both against δ in units of its standard deviation."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    t = np.linspace(0, 6, 400)
    left.plot(t, kept_share(t, 1.0), color=COLORS["after"], label="adaptive: t²/(t² + 1)")
    left.plot(t, np.maximum(0, 1 - 1 / np.maximum(t, 1e-9) ** 2), "--", color=HUES["grey"], label="1 - 1/t², not below 0")
    left.plot(t, t**4 / (t**4 + 4), ":", color=HUES["grey"], label="t⁴/(t⁴ + 2²)")
    left.set(
        xlabel="t = |log T_EC - log T_TS| / standard deviation", ylabel="share of the difference that is kept", xlim=(0, 6)
    )
    left.legend(loc="lower right")
    cells = numbers.found["coverage"]
    x = np.abs([each["t"] for each in cells])
    covered = 100 * np.array([each["coverage"] for each in cells])
    right.axhspan(93, 97, color="0.9", zorder=0)
    right.axhline(95, color="0.4", linewidth=0.9)
    right.plot(x, covered[:, 1], "x", color=HUES["purple"], label="± 1.96 standard errors")
    right.plot(x, covered[:, 0], MARKERS["after"], color=COLORS["after"], markersize=5, label="percentile interval")
    right.set(xlabel="median of t over validation sets", ylabel="coverage of the population's T_EC, %", ylim=(90, 100))
    right.legend(loc="upper right")
    for ax in (left, right):
        ax.grid(alpha=0.3)
    return figure
