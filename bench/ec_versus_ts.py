"""Expectation consistency against temperature scaling on held-out data: ECE, Brier score and loss, mean and standard error.

python bench/ec_versus_ts.py               the demo's network at 20 seeds
python bench/ec_versus_ts.py FOLDER        each .npz of logits and labels in FOLDER, cut in halves 20 times
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from nishimori import _demo, metrics, temperatures

REPEATS = 20


def score(val: tuple[Any, Any], test: tuple[Any, Any]) -> list[float]:
    """T_EC and T_TS, and the test metrics before, after EC and after TS."""
    found = temperatures(*val)
    row = [found.ec, found.ts]
    for temperature in (1.0, found.ec, found.ts):
        row += [metrics.ece(*test, strategy="quantile", temperature=temperature)]
    for metric in (metrics.brier, metrics.nll):
        row += [metric(*test, temperature=temperature) for temperature in (1.0, found.ec, found.ts)]
    return row


def halves(logits: Any, labels: Any, seed: int) -> list[float]:
    """Fit on a random half, score on the other."""
    order = np.random.default_rng(seed).permutation(len(labels))
    one, two = np.array_split(order, 2)
    return score((logits[one], labels[one]), (logits[two], labels[two]))


def show(name: str, rows: list[list[float]]) -> None:
    """One line: means, and the mean difference of the ECEs in standard errors."""
    table = np.array(rows)
    ec, ts, *rest = table.mean(axis=0)
    gain = table[:, 4] - table[:, 3]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    ece = " ".join(f"{100 * x:6.2f}" for x in rest[:3])
    others = " ".join(f"{x:.4f}" for x in rest[3:])
    print(
        f"{name:42} T {ec:.3f} {ts:.3f}  ECE % {ece} (TS - EC {100 * gain.mean():+.3f} ± {100 * error:.3f})",
        f" Brier, NLL {others}",
    )


def main() -> None:
    """Print a line for each data set: before, EC, TS."""
    print("T of EC and TS; ECE (15 quantile bins), Brier score and NLL each before, after EC, after TS")
    if len(sys.argv) == 1:
        demos = [_demo.run(seed) for seed in range(REPEATS)]
        pairs = [((d.validation.logits, d.validation.labels), (d.test.logits, d.test.labels)) for d in demos]
        show("digits, 128-128 network", [score(*pair) for pair in pairs])
        return
    for path in sorted(Path(sys.argv[1]).glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            logits, labels = file["logits"], file["labels"]
        show(path.stem, [halves(logits, labels, seed) for seed in range(REPEATS)])


if __name__ == "__main__":
    main()
