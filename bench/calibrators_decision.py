"""The picture "Which calibrator?": three questions, and what each answer gained on the bundled networks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from calibrators_pictures import LOOKS
from calibrators_tables import Numbers
from nishimori.plot._style import HUES

QUESTIONS = {
    (5.0, 5.35): "May the predicted class\nof a sample change?",
    (2.45, 3.55): "Must single classes or groups (sites,\nlanguages, sensors) be right, too?",
    (7.55, 3.55): "Should the change be a few numbers\nthat you can read and explain?",
}
ANSWERS = {
    "adaptive": (1.2, "one temperature"),
    "group": (3.7, "one temperature per\npredicted class or group"),
    "bias": (6.3, "one temperature and\none bias per class"),
    "matrix": (8.8, "a matrix and a bias,\nshrunk to one temperature"),
}
ARROWS = [
    ((5.0, 5.35), (2.45, 3.55), "no"),
    ((5.0, 5.35), (7.55, 3.55), "yes"),
    ((2.45, 3.55), (1.2, 1.2), "no"),
    ((2.45, 3.55), (3.7, 1.2), "yes"),
    ((7.55, 3.55), (6.3, 1.2), "yes"),
    ((7.55, 3.55), (8.8, 1.2), "no"),
]
BOX = {"ha": "center", "va": "center", "linespacing": 1.35}


def decision(rows: Sequence[Any], path: Path) -> None:
    """Questions above, methods below, each with its mean gain over TS."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    figure, ax = pyplot.subplots(figsize=(11, 6.6), layout="constrained")
    ax.set(xlim=(0, 10), ylim=(-0.3, 5.9))
    ax.axis("off")
    for start, end, answer in ARROWS:
        half = 0.42 if end[1] > 2 else 0.72
        begin, tip = (start[0] + 0.35 * (end[0] - start[0]), start[1] - 0.42), (end[0], end[1] + half)
        ax.annotate("", tip, begin, arrowprops={"arrowstyle": "-|>", "color": "0.35", "linewidth": 1.4, "mutation_scale": 16})
        middle = ((begin[0] + tip[0]) / 2, (begin[1] + tip[1]) / 2)
        ax.text(
            *middle, answer, ha="center", va="center", fontsize=13, color="0.2", bbox={"facecolor": "white", "lw": 0, "pad": 2}
        )
    for (x, y), text in QUESTIONS.items():
        style = {"boxstyle": "round,pad=0.6", "facecolor": "0.95", "edgecolor": "0.6"}
        ax.text(x, y, text, fontsize=13, bbox=style, **BOX)
    numbers = Numbers(rows, origin="bundled")
    for method, (x, what) in ANSWERS.items():
        color = LOOKS[method]["color"] if method in LOOKS else HUES["black"]
        ax.add_patch(
            matplotlib.patches.FancyBboxPatch(
                (x - 1.08, 0.1), 2.16, 1.75, boxstyle="round,pad=0.05", facecolor="white", edgecolor=color, linewidth=2.2
            )
        )
        ax.text(x, 1.62, method, fontsize=15, fontweight="bold", color=color, **BOX)
        ax.text(x, 1.13, what, fontsize=10.5, **BOX)
        ax.text(x, 0.46, gains(numbers, method), fontsize=10, color="0.25", **BOX)
    note = f"numbers: means over {len(numbers.data)} bundled networks, compared with temperature scaling (TS)"
    ax.text(5.0, -0.2, note, ha="center", fontsize=9.5, color="0.4")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def gains(numbers: Numbers, method: str) -> str:
    """Relative change of the NLL, the class gap, and the change of the error."""
    if method not in numbers.methods:
        return ""
    change = 100 * np.mean(numbers.of("nll_from_ts", method) / numbers.of("nll", "ts"))
    before, after = (100 * numbers.of("class_gap", each).mean() for each in ("ts", method))
    error = 100 * (numbers.of("error", method) - numbers.of("error", "ts")).mean()
    lines = [
        f"NLL {signed(change, 1)} %",
        f"gap per class {before:.1f} to {after:.1f} points",
        f"error {signed(error, 1)} points",
    ]
    return "\n".join(lines)


def signed(value: float, digits: int) -> str:
    """With a minus sign that is as wide as a plus sign; zero without a sign."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return f"{0:.{digits}f}" if float(text[1:]) == 0 else text
