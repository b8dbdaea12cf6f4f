"""The picture of the benchmark of calibrators: what each method gains over one temperature, network by network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from calibrators_tables import Numbers
from nishimori.plot._style import COLORS, HUES, MARKERS

LOOKS = {
    "ts": {"color": COLORS["ts"], "marker": MARKERS["ts"]},
    "group": {"color": HUES["purple"], "marker": "v"},
    "bias": {"color": HUES["sky"], "marker": "P"},
    "vector": {"color": HUES["indigo"], "marker": "<"},
    "matrix": {"color": HUES["green"], "marker": "D"},
}


def picture(rows: Sequence[Any], path: Path) -> None:
    """Relative change of the NLL with error bars, and the gap per predicted class, one line per data set of several classes."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    numbers = Numbers([row for row in rows if row.n_classes > 2])
    best = [method for method in LOOKS if method in numbers.methods][-1]
    order = np.argsort(-numbers.of("nll_from_ts", best) / numbers.of("nll", "ts"))
    names = [numbers.data[i] for i in order]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 1.6 + 0.27 * len(names)), sharey=True, layout="constrained")
    at = np.arange(len(names))
    shown = [method for method in LOOKS if method in numbers.methods]
    for i, method in enumerate(shown):
        shift = 0.13 * (i - (len(shown) - 1) / 2)
        look = LOOKS[method] | {"linestyle": "none", "markersize": 5, "label": method}
        if method != "ts":
            scale = 100 / numbers.of("nll", "ts")[order]
            change, error = (scale * numbers.of(f"nll_from_ts{suffix}", method)[order] for suffix in ("", "_se"))
            left.errorbar(change, at + shift, xerr=2 * error, elinewidth=1, **look)
        right.plot(100 * numbers.of("class_gap", method)[order], at + shift, **look)
    right.plot(100 * numbers.of("class_gap_chance", "ts")[order], at, "|", color="0.3", markersize=13, label="chance alone")
    left.axvline(0, color=COLORS["ts"], linewidth=1.2)
    left.set_xlabel("NLL compared with one temperature (TS), %\nbars: two paired standard errors; left of the line: better")
    right.set(xlabel="gap between confidence and accuracy,\nmean over predicted classes, points", xlim=(0, None))
    left.set_yticks(at, names, fontsize=8)
    for ax in (left, right):
        ax.grid(axis="x", alpha=0.3)
        for line in at[:-1] + 0.5:
            ax.axhline(line, color="0.9", linewidth=0.6, zorder=0)
        ax.set_ylim(-0.6, len(names) - 0.4)
    right.legend(loc="lower right", fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
