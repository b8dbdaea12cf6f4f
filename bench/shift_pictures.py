"""The picture of shift and noise, from the numbers in paper/shift_results.json."""

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

from nishimori.plot._style import COLORS, MARKERS
from shift_conditions import NOISES

METHODS = {"none": ("no calibration", "before"), "ec": ("EC", "ec"), "ts": ("TS", "ts")}
SOURCES = {
    "clean": "T from clean images",
    "matching": "T from the same corruption",
    "mixed": "T from other corruptions",
    "corrupted": "test clean, T from corrupted",
}


def draw(found, path):
    """Upper row: noise in the validation labels. Lower row: corrupted images. All with the same axis of ECE in each row."""
    with mpl.rc_context({"font.size": 10.5, "axes.titlesize": 10.5}):
        figure, axes = plt.subplots(2, 4, figsize=(10.5, 6.2), sharey="row", layout="constrained")
        for axis, (noise, title) in zip(axes[0], NOISES.items(), strict=True):
            rows = found["curves"]["by_rate"][noise]
            lines(axis, [100 * float(rate) for rate in rows], rows.values())
            axis.set(title=title, xticks=[0, 10, 20, 30, 40])
        for axis, (source, title) in zip(axes[1], SOURCES.items(), strict=True):
            rows = found["curves"]["by_severity"][source]
            lines(axis, [int(severity) for severity in rows], rows.values())
            axis.set(title=title, xticks=[0, 1, 3, 5])
        for axis in axes.flat:
            axis.set_ylim(bottom=0)
            axis.grid(axis="y", color="0.9", lw=0.8)
            axis.set_axisbelow(True)
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
        for row, text in zip(axes, ("wrong validation labels, %", "severity of the corruption"), strict=True):
            row[0].set_ylabel("ECE on test images, %")
            for axis in row:
                axis.set_xlabel(text)
        axes[0, 0].legend(frameon=False, loc="upper left")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def lines(axis, x, rows):
    """One line per method, with standard errors."""
    rows = list(rows)
    for method, (label, style) in METHODS.items():
        axis.errorbar(
            x,
            [row[method]["mean"] for row in rows],
            [row[method]["se"] for row in rows],
            color=COLORS[style],
            marker=MARKERS[style],
            ms=4.5,
            lw=1.5,
            capsize=2,
            label=label,
        )
