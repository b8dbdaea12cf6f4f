"""How biased each measure of calibration is at small n: where the truth is zero, and where the model is overconfident.

    python bench/accuracy/measures.py --draws 20 --sizes 100 1000      # a first look, in seconds
    python bench/accuracy/measures.py --out bench/results/measures.md --picture docs/images/measures-bias.png    # ten minutes

Rows are drawn with replacement, from the logits of a bundled network and from Gaussian logits, and every label is drawn from
softmax(z / T). Measured at T the model is calibrated, and the truth is zero. Measured at another temperature it is
overconfident, and the truth is the same measure on a million rows. The tables give, times 100, the mean over draws: of the
measure itself where the truth is zero, and of its difference from the truth elsewhere, each with the standard deviation of
one draw.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from nishimori import data, metrics, temperatures
from nishimori.plot._style import HUES

NETWORK = "cifar10/resnet20"
SIZES = (100, 300, 1000, 3000, 10_000)
FOLDS = 5
HOW = "`python bench/accuracy/measures.py`; `bench/accuracy/measures.py` says what is drawn."


def calibration(logits: np.ndarray, labels: np.ndarray, *, temperature: float, **options: object) -> float:
    """The calibration part of a score."""
    return metrics.decomposition(logits, labels, temperature=temperature, **options).calibration


MEASURES: dict[str, Callable[..., float]] = {
    "ECE, 15 uniform bins": metrics.ece,
    "ECE, 15 quantile bins": partial(metrics.ece, strategy="quantile"),
    "smooth ECE": metrics.smooth_ece,
    "KS": metrics.ks,
    "Brier, isotonic": partial(calibration, score="brier"),
    f"Brier, isotonic, cv={FOLDS}": partial(calibration, score="brier", cv=FOLDS),
    "NLL, isotonic": partial(calibration, score="nll"),
    f"NLL, isotonic, cv={FOLDS}": partial(calibration, score="nll", cv=FOLDS),
    "NLL, temperature": partial(calibration, score="nll", of="all"),
}


@dataclass(frozen=True)
class Model:
    """Logits to draw from, the temperature at which they are calibrated, and one at which they are overconfident."""

    name: str
    logits: np.ndarray
    calibrated: float
    overconfident: float

    def drawn(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Rows with replacement, and labels from softmax(z / T) by the largest of Gumbel-distributed scores."""
        logits = self.logits[rng.integers(len(self.logits), size=n)]
        return logits, np.argmax(logits / self.calibrated + rng.gumbel(size=logits.shape), axis=1)


def models() -> list[Model]:
    """A network that is nearly always sure, and logits whose confidences are spread over the whole range."""
    network = data.load(NETWORK)
    found = temperatures(network.validation.logits, network.validation.labels)
    assert found.ts is not None
    logits = np.concatenate([network.validation.logits, network.test.logits]).astype(float)
    gaussian = 2 * np.random.default_rng(0).normal(size=(20_000, 10))
    return [
        Model(f"Logits of {NETWORK}, T = {found.ts:.2f}", logits, found.ts, 1.0),
        Model("Gaussian logits of 10 classes, T = 1.5", gaussian, 1.5, 1.0),
    ]


@dataclass(frozen=True)
class Study:
    """Measured values of one model: (size, draw, measure), at the right temperature and at the other one; and the truth."""

    name: str
    zero: np.ndarray
    away: np.ndarray
    truth: np.ndarray


def study(model: Model, sizes: list[int], n_draws: int, n_truth: int) -> Study:
    """Draw and measure; one seed per draw."""

    def measured(n: int, seed: int, temperature: float) -> list[float]:
        logits, labels = model.drawn(n, np.random.default_rng([seed, n]))
        return [measure(logits, labels, temperature=temperature) for measure in MEASURES.values()]

    # The calibration of isotonic regression on the same data and on other folds has the same limit.
    truth = np.array(measured(n_truth, n_draws, model.overconfident))
    zero, away = (
        np.array([[measured(n, seed, temperature) for seed in range(n_draws)] for n in sizes])
        for temperature in (model.calibrated, model.overconfident)
    )
    return Study(model.name, zero, away, truth)


def tables(found: Study, sizes: list[int]) -> str:
    """Both tables of one model in Markdown."""
    heads = " | ".join(f"n = {n:,}" for n in sizes)

    def table(first: str, values: np.ndarray, shift: np.ndarray) -> list[str]:
        lines = [f"| {first} | {heads} |", "|---" * (len(sizes) + 1) + "|"]
        for i, name in enumerate(MEASURES):
            mean, spread = values[:, :, i].mean(axis=1) - shift[i], values[:, :, i].std(axis=1, ddof=1)
            known = f" (truth {100 * shift[i]:.2f})" if shift[i] else ""
            cells = " | ".join(f"{100 * m:.2f} ± {100 * s:.2f}" for m, s in zip(mean, spread, strict=True))
            lines.append(f"| {name}{known} | {cells} |")
        return lines

    zero = table("truth is zero: mean", found.zero, np.zeros(len(MEASURES)))
    away = table("overconfident: mean minus truth", found.away, found.truth)
    return "\n".join([f"## {found.name}", "", *zero, "", *away, ""])


COLUMNS = {
    "calibration errors": ["ECE, 15 uniform bins", "ECE, 15 quantile bins", "smooth ECE", "KS"],
    "calibration part of the NLL": ["NLL, isotonic", f"NLL, isotonic, cv={FOLDS}", "NLL, temperature"],
}
STYLES = [(HUES["purple"], "o"), (HUES["sky"], "s"), (HUES["green"], "D"), (HUES["indigo"], "^")]


def draw(found: Study, sizes: list[int], path: Path) -> None:
    """Mean and spread against n: above where the truth is zero, below what is added to a truth that is not."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - only for the picture

    figure, rows = plt.subplots(2, 2, figsize=(9, 6.4), sharex=True, layout="constrained")
    names = list(MEASURES)
    for row, (values, shift) in zip(rows, [(found.zero, 0 * found.truth), (found.away, found.truth)], strict=True):
        for ax, (title, chosen) in zip(row, COLUMNS.items(), strict=True):
            for i, (name, (color, marker)) in enumerate(zip(chosen, STYLES, strict=False)):
                where = names.index(name)
                mean, spread = values[:, :, where].mean(axis=1) - shift[where], values[:, :, where].std(axis=1, ddof=1)
                # Neighbouring curves are shifted a little, so that their bars can be told apart.
                at = np.array(sizes) * 1.07 ** (i - (len(chosen) - 1) / 2)
                ax.errorbar(at, 100 * mean, 100 * spread, label=name, color=color, marker=marker, ms=5, lw=1.2, capsize=2)
            ax.axhline(0, color="0.4", lw=1, ls="--", zorder=0)
            ax.set_xscale("log")
            if ax in rows[0]:
                ax.set_title(title)
                ax.legend(frameon=False, fontsize=9)
    rows[0, 0].set_ylabel("calibrated: mean, times 100")
    rows[1, 0].set_ylabel("overconfident: bias, times 100")
    figure.supxlabel("bars: one standard deviation of one draw", fontsize=9, color="0.35")
    for ax in rows[1]:
        ax.set_xlabel("number of samples n")
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.minorticks_off()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--truth", type=int, default=1_000_000, help="rows of which the truth is computed")
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--picture", type=Path, help="draw them into this file")
    chosen = parser.parse_args()
    studies = []
    text = f"All numbers are times 100: mean ± standard deviation of one draw, over {chosen.draws} draws. {HOW}\n"
    for model in models():
        studies.append(study(model, chosen.sizes, chosen.draws, chosen.truth))
        text += "\n" + tables(studies[-1], chosen.sizes)
        print(tables(studies[-1], chosen.sizes), flush=True)
        if chosen.out:
            chosen.out.write_text(text, encoding="utf-8")
    if chosen.picture:
        draw(studies[0], chosen.sizes, chosen.picture)


if __name__ == "__main__":
    main()
