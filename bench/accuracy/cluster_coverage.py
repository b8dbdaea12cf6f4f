"""How often 95 % intervals contain the true temperature, and tests reject it, if samples belong to few clusters.

    python bench/accuracy/cluster_coverage.py                                      # writes bench/results/cluster_coverage.md, 5
    minutes python bench/accuracy/cluster_coverage.py --draws 50 --numbers 10 --out quick.md

All samples of a cluster share a random effect: their labels are drawn from softmax(z / T) with log T = log 2 + 0.3·ξ, where ξ
is a standard normal number of the cluster. The logits z are rows of a fixed pool of normal logits with five classes, drawn with
replacement. The truth is T of infinitely many clusters: that of the pool, each row with the probabilities of its labels as
weights, averaged over ξ by quadrature.
"""

import argparse
from pathlib import Path

import numpy as np

import nishimori

CLASSES, POOL = 5, 20_000
MEDIAN, EFFECT = 2.0, 0.3
NUMBERS = (10, 20, 40, 100)
REACH = 1.959963984540054  # standard errors to each side, for 95 %


def probabilities(logits: np.ndarray, log_temperatures: np.ndarray) -> np.ndarray:
    """The softmax of each row at its own temperature."""
    scaled = logits / np.exp(log_temperatures)[:, None]
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def truth(pool: np.ndarray) -> nishimori.results.Temperatures:
    """Both temperatures of infinitely many clusters."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    mean = sum(
        weight * probabilities(pool, np.full(len(pool), np.log(MEDIAN) + EFFECT * node))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True)
    )
    labels = np.tile(np.arange(CLASSES), len(pool))
    return nishimori.temperatures(np.repeat(pool, CLASSES, axis=0), labels, sample_weight=mean.ravel())


def drawn(rng: np.random.Generator, pool: np.ndarray, number: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, labels and clusters of one validation set."""
    clusters = np.repeat(np.arange(number), size)
    logits = pool[rng.integers(len(pool), size=number * size)]
    effects = np.log(MEDIAN) + EFFECT * rng.normal(size=number)
    cumulated = probabilities(logits, effects[clusters]).cumsum(axis=1)
    return logits, (rng.random((len(logits), 1)) * cumulated[:, -1:] > cumulated).sum(axis=1), clusters


def covered(pool: np.ndarray, number: int, size: int, draws: int) -> np.ndarray:
    """The shares of intervals that contain the truth, of EC and TS with clusters and without, and of tests that reject it."""
    true, rng = truth(pool), np.random.default_rng([number, size])
    inside = np.zeros((draws, 6))
    for i in range(draws):
        logits, labels, clusters = drawn(rng, pool, number, size)
        found = nishimori.temperatures(logits, labels, clusters=clusters)
        plain = nishimori.temperatures(logits, labels)
        for place, (T, se, goal) in enumerate(
            [
                (found.ec, found.ec_se, true.ec),
                (found.ts, found.ts_se, true.ts),
                (plain.ec, plain.ec_se, true.ec),
                (plain.ts, plain.ts_se, true.ts),
            ]
        ):
            inside[i, place] = abs(np.log(T / goal)) < REACH * se / T
        for place, (statistic, goal) in enumerate([("confidence", true.ec), ("energy", true.ts)], start=4):
            test = nishimori.calibration_test(logits, labels, temperature=goal, statistic=statistic, clusters=clusters)
            inside[i, place] = test.p_value < 0.05
    return inside.mean(axis=0)


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--numbers", type=int, nargs="+", default=NUMBERS)
    parser.add_argument("--size", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "cluster_coverage.md")
    options = parser.parse_args()
    pool = 3 * np.random.default_rng(0).normal(size=(POOL, CLASSES))
    lines = [
        "Share of 95 % intervals that contain the true temperature, and of `calibration_test` with p < 0.05 at that "
        f"temperature, in %, from {options.draws:,} draws per row "
        f"(standard error {100 * np.sqrt(0.95 * 0.05 / options.draws):.1f}); {options.size} samples per "
        "cluster. Written by `python bench/accuracy/cluster_coverage.py` with nishimori "
        f"{nishimori.__version__}.",
        "",
        "| clusters | EC | TS | EC without `clusters` | TS without `clusters` | confidence rejected | energy rejected |",
        "|---|---|---|---|---|---|---|",
    ]
    for number in options.numbers:
        shares = 100 * covered(pool, number, options.size, options.draws)
        lines.append(f"| {number} | " + " | ".join(f"{each:.1f}" for each in shares) + " |")
        print(lines[-1], flush=True)
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
