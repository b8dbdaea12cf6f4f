"""The picture of shift and noise, from the numbers in paper/shift_results.json."""

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

from nishimori.plot._style import COLORS, MARKERS
from shift_conditions import NOISES

# Label, style, and how far beside the others it is drawn, in parts of the axis.
METHODS = {"none": ("no calibration", "before", 0.0), "ec": ("EC", "ec", -0.008), "ts": ("TS", "ts", 0.008)}
SOURCES = {
    "clean": "T from clean images",
    "matching": "from the same corruption",
    "mixed": "from other corruptions",
    "corrupted": "from corrupted, test clean",
}


def draw(found, path):
    """Upper row: noise in the validation labels. Lower row: corrupted images. Each row has one axis of ECE."""
    with mpl.rc_context({"font.size": 11, "axes.titlesize": 11}):
        figure = plt.figure(figsize=(10.5, 6.8), layout="constrained")
        upper, lower = figure.subfigures(2, 1, hspace=0.02)
        by_rate, by_severity = found["curves"]["by_rate"], found["curves"]["by_severity"]
        row(
            upper,
            {NOISES[name]: rows for name, rows in by_rate.items()},
            [0, 10, 20, 30, 40],
            100,
            "noisy validation labels, %",
        )
        row(lower, {SOURCES[name]: rows for name, rows in by_severity.items()}, [0, 1, 3, 5], 1, "severity of the corruption")
        upper.suptitle("Wrong validation labels, clean test data: a wrong label is …", fontweight="bold", fontsize=12)
        lower.suptitle("Corrupted images, clean labels", fontweight="bold", fontsize=12)
        upper.axes[0].legend(frameon=False, loc="upper left")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def row(figure, panels, ticks, factor, label):
    """Panels beside each other with the same axes."""
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        lines(axis, [factor * float(each) for each in rows], list(rows.values()))
        axis.set(title=title, xticks=ticks, xlabel=label)
        axis.set_ylim(bottom=0)
        axis.grid(axis="y", color="0.9", lw=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("test ECE, %")


def lines(axis, x, rows):
    """One line per method, with standard errors."""
    for method, (label, style, beside) in METHODS.items():
        axis.errorbar(
            [each + beside * x[-1] for each in x],
            [each[method]["mean"] for each in rows],
            [each[method]["se"] for each in rows],
            color=COLORS[style],
            marker=MARKERS[style],
            ms=4.5,
            lw=1.5,
            elinewidth=1,
            capsize=2,
            label=label,
        )
