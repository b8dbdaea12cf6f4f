"""The picture of a table of the paper: one line per network, one panel per quantity, and the paired differences.

Dots are our numbers, rings our numbers with augmented validation images, crosses the paper's numbers.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from nishimori.plot._style import COLORS
from nishimori_paper._artefact import Pieces
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._rows import COLUMNS, in_percent, printed_row

_COLOURS = {"_ts": COLORS["ts"], "_ec": COLORS["ec"], "_difference": COLORS["accuracy"], "": COLORS["before"]}
_PANELS = {
    "temperature": ("temperature", ("_ts", "_ec")),
    "ece": ("ECE, %", ("", "_ts", "_ec")),
    "ece paired": ("ECE after TS - after EC, points", ("_difference",)),
    "brier_change": ("Brier score × 100, change by calibration", ("_ts", "_ec")),
}
_SHIFTS = {"": -0.22, "_ts": 0.0, "_ec": 0.22, "_difference": 0.0}


def draw_table(done: Pieces, table: str, pyplot: Any, *, bars: str = "error bars") -> Any:
    """Temperatures, ECE, its paired difference and the change of the Brier score; ``bars`` is the name of the error bars."""
    names = list(done)
    figure, axes = pyplot.subplots(1, 4, figsize=(16.5, 0.52 * len(names) + 1.9), sharey=True, layout="constrained")
    for ax, (panel, (label, suffixes)) in zip(axes, _PANELS.items(), strict=True):
        for y, name in enumerate(names):
            paper = _with_differences(dict(zip(COLUMNS, printed_row(name, table), strict=True)))
            for suffix in suffixes:
                column, look = f"{panel.partition(' ')[0]}{suffix}", {"color": _COLOURS[suffix]}
                _mark(ax, y + _SHIFTS[suffix], done[name], column, bars, look)
                ax.plot(paper[column], y + _SHIFTS[suffix], "x", markersize=6, markeredgewidth=1.5, zorder=5, **look)
        ax.set(xlabel=label)
        ax.grid(axis="x", alpha=0.3)
        for y in range(1, len(names)):
            ax.axhline(y - 0.5, color="0.9", linewidth=0.8, zorder=0)
    for ax in axes[2:]:
        ax.axvline(0, color="0.4", linewidth=0.9, zorder=0)
    axes[2].set_title("right of 0: EC is better", fontsize=9, color="0.35")
    axes[0].set_yticks(range(len(names)), [NetworkName.parse(name).label for name in names])
    axes[0].set(ylim=(len(names) - 0.4, -0.6), ylabel="network")
    _legend(figure, pyplot, rings=any("augmented" in content for content in done.values()))
    return figure


def _with_differences(row: Mapping[str, float]) -> dict[str, float]:
    """The paper's numbers, with the differences that our rows have too."""
    changes = {f"brier_change_{name}": row[f"brier_{name}"] - row["brier"] for name in ("ts", "ec")}
    return {**row, "ece_difference": row["ece_ts"] - row["ece_ec"], **changes}


def _mark(ax: Any, y: float, content: Mapping[str, Any], column: str, bars: str, look: Mapping[str, Any]) -> None:
    """Our number with its error bar, for each kind of validation images."""
    for kind, filled in (("clean", True), ("augmented", False)):
        if kind in content and (filled or column != "ece"):
            at, bar = (in_percent(content[key])[column] for key in (kind, f"{kind} {bars}"))
            # Rings lie a little lower than dots, so that both bars can be seen.
            place, face = (y, look["color"]) if filled else (y + 0.07, "white")
            ax.errorbar(at, place, xerr=bar, fmt="o", mfc=face, markersize=4, elinewidth=1.2, capsize=2, **look)


def _legend(figure: Any, pyplot: Any, *, rings: bool) -> None:
    handle = partial(pyplot.Line2D, [], [], linestyle="")
    names = {"": "uncalibrated", "_ts": "TS", "_ec": "EC", "_difference": "difference, TS - EC"}
    handles = [handle(marker="s", color=_COLOURS[suffix], label=label) for suffix, label in names.items()]
    handles.append(handle(marker="o", color="0.2", label="computed here"))
    if rings:
        handles.append(handle(marker="o", color="0.2", mfc="white", label="the same, calibrated on augmented images"))
    handles.append(handle(marker="x", color="0.2", label="paper"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
