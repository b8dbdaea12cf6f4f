"""The ECE as measured, without its bias, and its interval against the number of samples: docs/images/ece-interval.png.

    python bench/ece_interval.py
    python bench/ece_interval.py --repetitions 5 -o picture.png

Rows are drawn from the test set of a bundled network: on the left after EC, with labels that are drawn from its probabilities,
so that the true ECE is 0; on the right at T = 1. Lines are means over repetitions.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import nishimori
from metric_coverage import N_BINS, population
from nishimori import data
from nishimori.plot._style import HUES

SIZES = (100, 200, 500, 1000, 2000, 5000, 10000)
PANELS = {"labels redrawn": "calibrated: labels drawn from the model", "T = 1": "overconfident: the network as it is"}
INK, PALE = HUES["blue"], HUES["sky"]


def curves(calibration: str, repetitions: int) -> np.ndarray:
    """Mean ECE, corrected ECE and limits, (sizes, 4)."""
    people, rng = population(data.load("cifar10/resnet20"), calibration), np.random.default_rng(0)
    cumulated, found = people.p.cumsum(axis=1), []
    for n in SIZES:
        rows = []
        for _ in range(repetitions):
            chosen, labels = people.draw(n, rng, cumulated)
            card = nishimori.evaluate(people.logits[chosen], labels, n_bins=N_BINS)
            rows.append((card.ece, card.ece_corrected, *card.interval("ece")))
        found.append(np.mean(rows, axis=0))
    return np.array(found)


def main() -> None:
    """Draw both panels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="per number of samples")
    default = Path(__file__).parents[1] / "docs" / "images" / "ece-interval.png"
    parser.add_argument("-o", "--output", type=Path, default=default)
    options = parser.parse_args()
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    truths = {"labels redrawn": 0.0, "T = 1": nishimori.evaluate(*_test()).ece}
    for ax, (calibration, title) in zip(axes, PANELS.items(), strict=True):
        measured, corrected, low, high = 100 * curves(calibration, options.repetitions).T
        ax.fill_between(SIZES, low, high, color=PALE, alpha=0.6, linewidth=0, label="95 % interval")
        ax.plot(SIZES, measured, "s--", color=HUES["vermilion"], label="ECE as measured")
        ax.plot(SIZES, corrected, "o-", color=INK, label="ECE corrected")
        ax.axhline(100 * truths[calibration], color="0.2", linewidth=1, label="true ECE")
        ax.set(xscale="log", title=title, xlabel="number of samples")
        ax.set_xticks([100, 1000, 10000], ["100", "1,000", "10,000"])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="ECE in percent, 15 bins", ylim=(-0.4, None))
    axes[1].legend(frameon=False, loc="upper right")
    figure.savefig(options.output, dpi=130)


def _test() -> tuple[np.ndarray, np.ndarray]:
    test = data.load("cifar10/resnet20").test
    return test.logits, test.labels


if __name__ == "__main__":
    main()
