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
    """Coverage over n, one panel for each kind of rows."""
    kinds = {"drawn at T": "labels drawn at T", "noisy labels": "every fifth label random", "/": "resampled networks"}
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.8), sharey=True, layout="constrained")
    colours = {"EC": COLORS["ec"], "TS": COLORS["ts"], "top-5 EC": COLORS["accuracy"]}
    sizes = sorted({each.n for each in cells})
    for axis, (key, title) in zip(axes, kinds.items(), strict=True):
        axis.axhspan(93, 97, color="0.93", zorder=0)
        axis.axhline(95, color="0.6", linewidth=0.8, zorder=1)
        some = [each for each in cells if key in each.pool]
        names = list(dict.fromkeys(each.pool for each in some))
        for each in some:
            shift = (names.index(each.pool) - (len(names) - 1) / 2) * 0.2 + (list(colours).index(each.method) - 1) * 0.06
            bar = 100 * np.sqrt(0.05 * 0.95 / each.repetitions)
            marker = "osD^v"[names.index(each.pool)]
            x = sizes.index(each.n) + shift
            axis.errorbar(x, each.coverage, bar, fmt=marker, color=colours[each.method], markersize=4.5, elinewidth=0.9)
        for marker, name in zip("osD^v", names, strict=False):
            axis.plot([], [], marker, color="0.3", markersize=4.5, label=name.split(", ")[-1])
        axis.set(title=title, xlabel="validation samples n", ylim=(92, 98.8), xlim=(-0.5, len(sizes) - 0.5))
        axis.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
        axis.legend(fontsize=7.5, loc="upper center", ncols=2, columnspacing=1, handletextpad=0.2, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("95 % intervals that contain\nthe true T, %")
    handles = [plt.Line2D([], [], color=colour, marker="o", linewidth=1) for colour in colours.values()]
    figure.legend(handles, colours, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
