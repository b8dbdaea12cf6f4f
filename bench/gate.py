"""How often each check of a gate is wrong, and how often it notices a model that is off.

Logits of a population are normal numbers; a data set is drawn from its rows, with labels drawn from softmax(z/T) at a true T of
the setting. The model claims softmax(z). Metrics of infinitely many samples follow from the population without any draw of
labels. Three questions, for each check and number of samples:

- the model is calibrated and the bound is 0 (ECE and gaps) or the true value (error, Brier score, NLL): "fail" is wrong, and
  must be at most 1 - level;
- the model is off, and the bound is the true value: "fail" and "pass" are both wrong, and must each be at most 1 - level;
- the model is off by twice the bound: "fail" is right.

    python bench/gate.py
    python bench/gate.py --draws 20 --sizes 200 --out small.md

The table is written to ``bench/results/gate.md``. It takes about five minutes in one thread.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nishimori

CHECKS = ("ece", "gap", "error", "brier", "nll", "group_gap")
LEVEL = 0.95


@dataclass(frozen=True)
class Setting:
    """A model and the temperature at which its labels are drawn."""

    name: str
    n_classes: int
    scale: float
    true_temperature: float


SETTINGS = (
    Setting("calibrated, 2 classes", 2, 2.0, 1.0),
    Setting("calibrated, 10 classes", 10, 3.0, 1.0),
    Setting("calibrated, 10 classes, 4 % errors", 10, 25.0, 1.0),
    Setting("overconfident, 2 classes", 2, 2.0, 1.4),
    Setting("overconfident, 10 classes", 10, 3.0, 1.4),
    Setting("overconfident, 10 classes, 7 % errors", 10, 25.0, 1.6),
)


@dataclass(frozen=True)
class Population:
    """Rows to draw from, what is true of them, and what the model claims."""

    logits: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, setting: Setting, size: int, rng: np.random.Generator) -> "Population":
        logits = setting.scale * rng.normal(size=(size, setting.n_classes))
        return cls(logits, softmax(logits / setting.true_temperature))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A data set of n samples."""
        rows = rng.integers(len(self.logits), size=n)
        cumulated = self.truth[rows].cumsum(axis=1)
        return self.logits[rows], (rng.random((n, 1)) > cumulated[:, :-1]).sum(axis=1)

    def metrics(self, n_bins: int = 15) -> dict[str, float]:
        """Those of infinitely many samples."""
        claimed = softmax(self.logits)
        top, rows = claimed.argmax(axis=1), np.arange(len(claimed))
        misses = claimed[rows, top] - self.truth[rows, top]
        bins = np.ceil(claimed[rows, top] * n_bins).astype(int)
        in_bins, sizes = np.bincount(bins, misses), np.bincount(top)
        return {
            "ece": float(np.abs(in_bins).sum() / len(rows)),
            "gap": abs(float(misses.mean())),
            "error": 1 - float(self.truth[rows, top].mean()),
            "brier": float(((claimed**2).sum(axis=1) - 2 * (claimed * self.truth).sum(axis=1) + 1).mean()),
            "nll": -float((self.truth * np.log(np.maximum(claimed, 1e-300))).sum(axis=1).mean()),
            "group_gap": float(np.abs(np.bincount(top, misses) / np.maximum(sizes, 1)).max()),
        }


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def shares(population: Population, n: int, bounds: dict[str, float], draws: int, rng: np.random.Generator) -> dict:
    """How often each check fails and passes."""
    counts = {name: {"fail": 0, "pass": 0, "inconclusive": 0} for name in bounds}
    for _ in range(draws):
        logits, labels = population.draw(n, rng)
        found = nishimori.gate(logits, labels, level=LEVEL, min_samples=1, bounds=bounds)
        for check in found.checks:
            counts[check.name][check.verdict] += 1
    return {name: {verdict: count / draws for verdict, count in each.items()} for name, each in counts.items()}


def cell(share: dict[str, float], *, is_off: bool) -> str:
    """The share of checks that fail and, where the model is off, that pass, in percent."""
    passed = f" / {100 * share['pass']:.1f}" if is_off else ""
    return f"{100 * share['fail']:.1f}{passed}"


def study(sizes: list[int], draws: int, population_size: int, seed: int) -> list[str]:
    """The lines of the table."""
    lines = ["| setting | bound | n | " + " | ".join(CHECKS) + " |", "|---|---|---|" + "---|" * len(CHECKS)]
    for number, setting in enumerate(SETTINGS):
        rng = np.random.default_rng([seed, number])
        population = Population.of(setting, population_size, rng)
        true = population.metrics()
        is_off = setting.true_temperature != 1
        if not is_off:
            true |= dict.fromkeys(("ece", "gap", "group_gap"), 0.0)  # which the population has up to rounding
        bounds = {"true value": true}
        if is_off:
            bounds["half the true value"] = {name: value / 2 for name, value in true.items()}
        for what, chosen in bounds.items():
            for n in sizes:
                found = shares(population, n, chosen, draws, rng)
                cells = [cell(found[name], is_off=is_off) for name in CHECKS]
                lines.append(f"| {setting.name} | {what} | {n} | " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 200, 1000, 5000])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--population", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    default = Path(__file__).parent / "results" / "gate.md"
    parser.add_argument("--out", type=Path, default=default, help="the Markdown file to write")
    options = parser.parse_args()
    lines = study(options.sizes, options.draws, options.population, options.seed)
    text = HEADER.format(draws=options.draws, level=100 * LEVEL, wrong=100 * (1 - LEVEL)) + "\n".join(lines) + "\n"
    options.out.write_text(text, encoding="utf-8")


HEADER = """# How often the checks of a gate are wrong

Written by `python bench/gate.py`: {draws} data sets per row, level {level:g} %, 15 bins of equal width, groups are the
predicted classes. Each cell is the share in percent in which the check ends with "fail"; where the model is off, the share in
which it ends with "pass" follows after the slash.

With the true value as bound, all of these are mistakes, and each should be at most {wrong:g} %. With half of it as bound, the
model is off by twice the bound: "fail" is right, and "pass" is a mistake. The true value of the ECE and of gaps of a
calibrated model is 0.

"""

if __name__ == "__main__":
    main()
