"""Draw the population of networks, from paper/population_results.json to docs/images/population.png.

python bench/population_pictures.py
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
COLOURS = (*plt.get_cmap("tab10").colors, "black", "gold")


def draw(found, path):
    """Four panels: difference of the temperatures, gap by margin, T by epoch, T against the scale of the logits."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
    kinds = found["kinds"]
    ratios(axes[0, 0], kinds)
    margins(axes[0, 1], kinds)
    epochs(axes[1, 0], kinds)
    growth(axes[1, 1], kinds)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def ratios(axis, kinds):
    """Log T_TS/T_EC of each kind, with standard errors."""
    for i, each in enumerate(kinds.values()):
        row = each["values"]["log_ratio"]
        error = np.hypot(row["error_of_images"], row["sd"] / np.sqrt(each["networks"]))
        axis.errorbar(row["mean"], -i, xerr=error, fmt="o", color=colour(i), capsize=3)
    axis.axvspan(-0.05, 0.05, color="0.92")
    axis.axvline(0, color="0.5", lw=0.8)
    axis.set_yticks([-i for i in range(len(kinds))], list(kinds))
    axis.set_xlabel("log T_TS − log T_EC, with its standard error")
    axis.set_title("Difference of the two temperatures")


def margins(axis, kinds):
    """Mean gap after EC in each bin."""
    for i, (kind, each) in enumerate(kinds.items()):
        n = len(each["margins"])
        axis.plot(
            range(1, n + 1), [100 * row["gap"] for row in each["margins"]], line(kind), color=colour(i), lw=1.4, label=kind
        )
    axis.axhline(0, color="0.5", lw=0.8)
    axis.set_xlabel("bin by margin, from small to large")
    axis.set_ylabel("confidence − accuracy, %")
    axis.set_title("What EC leaves of the gap")
    axis.legend(fontsize=7, ncols=2)


def epochs(axis, kinds):
    """Log T_EC by epoch; circles where the networks interpolate."""
    for i, (kind, each) in enumerate(kinds.items()):
        x = [int(epoch) for epoch in each["epochs"]]
        y = [row["log_ec"] for row in each["epochs"].values()]
        axis.plot(x, y, line(kind), color=colour(i), lw=1.4)
        for epoch, row in each["epochs"].items():
            if row["training_accuracy"] >= 0.995:
                axis.plot(int(epoch), row["log_ec"], "o", color=colour(i))
    axis.set_xlabel("epoch")
    axis.set_ylabel("log T_EC (test images)")
    axis.set_title("Temperature in training (dots: 99.5 % of training images right)")


def growth(axis, kinds):
    """Growth of T against growth of the logits, for networks that interpolate before their last epoch."""
    low, top = 0.0, 0.1
    for i, each in enumerate(kinds.values()):
        for row in each["growth"]:
            axis.plot(row["growth of scale"], row["growth of T"], "o", color=colour(i))
            low = min(low, row["growth of scale"], row["growth of T"])
            top = max(top, row["growth of scale"], row["growth of T"])
    axis.plot([low, top], [low, top], color="0.5", lw=0.8)
    axis.set_xlabel("growth of log scale of the test logits after interpolation")
    axis.set_ylabel("growth of log T_EC")
    axis.set_title("After interpolation (line: equal changes)")


def colour(i):
    """One colour per kind."""
    return COLOURS[i % len(COLOURS)]


def line(kind):
    """CIFAR-100 is dashed."""
    return "--" if kind.startswith("c100") else "-"


def main():
    """Read the numbers and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=Path, default=ROOT / "paper" / "population_results.json")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "images" / "population.png")
    chosen = parser.parse_args()
    draw(json.loads(chosen.numbers.read_text(encoding="utf-8")), chosen.picture)


if __name__ == "__main__":
    main()
