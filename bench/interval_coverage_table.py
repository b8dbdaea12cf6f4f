"""The cells of `interval_coverage.py` as a table in Markdown, and as a picture."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from nishimori.plot._style import COLORS

mpl.use("Agg")


@dataclass
class Cell:
    """How often intervals contain the truth in one cell, in percent of the draws that have a temperature."""

    pool: str
    method: str
    n: int
    accuracy: float
    truth: float
    coverage: float
    below: float  # intervals that lie below the truth
    above: float
    not_in_log: float  # T ± 1.96 standard errors in place of log T
    ratio: float  # the mean standard error over the standard deviation of log T
    without: int
    repetitions: int
    bootstrap: float | None = None
    largest_t: float = 0.0  # relative differences from the library
    largest_se: float = 0.0


def markdown(cells: list[Cell]) -> str:
    """The table, and what falls outside 93 to 97 %."""
    by_bootstrap = any(each.bootstrap is not None for each in cells)
    head = ["rows", "method", "n", "accuracy", "true T", "coverage, %", "below / above, %", "in T, %", "se / sd", "without T"]
    lines = [[*head, *(["bootstrap, %"] if by_bootstrap else [])]]
    for each in cells:
        line = [
            each.pool,
            each.method,
            str(each.n),
            f"{each.accuracy:.3f}",
            f"{each.truth:.3f}",
            f"{each.coverage:.1f}",
            f"{each.below:.1f} / {each.above:.1f}",
            f"{each.not_in_log:.1f}",
            f"{each.ratio:.3f}",
            f"{each.without} of {each.repetitions}",
        ]
        lines.append([*line, *([] if each.bootstrap is None else [f"{each.bootstrap:.1f}"])])
    table = ["| " + " | ".join(line) + " |" for line in lines]
    table.insert(1, "|" + "---|" * len(lines[0]))
    inside = sum(93 <= each.coverage <= 97 for each in cells)
    summary = (
        f"{inside} of {len(cells)} cells are between 93 and 97 %; the lowest is {min(each.coverage for each in cells):.1f} %, "
        f"the highest {max(each.coverage for each in cells):.1f} %. One standard error of a share of {cells[0].repetitions} "
        f"draws near 95 % is {100 * np.sqrt(0.05 * 0.95 / cells[0].repetitions):.1f} points."
    )
    if any(each.largest_t for each in cells):
        summary += (
            f" On three draws of each cell, a fit by the library gave the same T up to a relative "
            f"{max(each.largest_t for each in cells):.0e}, and the same standard error up to "
            f"{100 * max(each.largest_se for each in cells):.1f} %."
        )
    return summary + "\n\n" + "\n".join(table) + "\n"


def picture(cells: list[Cell], path: Path) -> None:
    """Coverage over n, a row of panels for each method and a column for each kind of rows."""
    kinds = {"drawn at T": "labels drawn at T", "noisy labels": "every fifth label random", "/": "resampled networks"}
    colours = {"EC": COLORS["ec"], "TS": COLORS["ts"], "top-5 EC": COLORS["accuracy"]}
    figure, axes = plt.subplots(len(colours), 3, figsize=(9.6, 6.6), sharex=True, sharey=True, layout="constrained")
    sizes = sorted({each.n for each in cells})
    for column, (key, title) in zip(axes.T, kinds.items(), strict=True):
        some = [each for each in cells if key in each.pool]
        names = list(dict.fromkeys(each.pool for each in some))
        for axis, (method, colour) in zip(column, colours.items(), strict=True):
            axis.axhspan(93, 97, color="0.93", zorder=0)
            axis.axhline(95, color="0.6", linewidth=0.8, zorder=1)
            for each in (cell for cell in some if cell.method == method):
                x = sizes.index(each.n) + 0.2 * (names.index(each.pool) - (len(names) - 1) / 2)
                bar = 100 * np.sqrt(0.05 * 0.95 / each.repetitions)
                axis.errorbar(x, each.coverage, bar, fmt="osD^v"[names.index(each.pool)], color=colour, markersize=5)
            axis.spines[["top", "right"]].set_visible(False)
        for marker, name in zip("osD^v", names, strict=False):
            column[0].plot([], [], marker, color="0.3", markersize=5, label=name.split(", ")[-1])
        column[0].set_title(f"{title}\n\n", fontsize=11)
        shown = {"fontsize": 8, "ncols": 2, "columnspacing": 1, "handletextpad": 0.2, "frameon": False}
        column[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1), **shown)
        column[-1].set(xlabel="validation samples n", ylim=(92, 98), xlim=(-0.5, len(sizes) - 0.5))
        column[-1].set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
    for axis, method in zip(axes[:, 0], colours, strict=True):
        axis.set_ylabel(method, color=colours[method], fontweight="bold")
    figure.supylabel("95 % intervals that contain the true T, %; bars: one standard error", fontsize=10)
    figure.savefig(path, dpi=130)
