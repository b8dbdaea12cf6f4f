"""How often intervals of metrics contain the truth: the bundled networks as populations from which rows are drawn.

    python bench/accuracy/metric_coverage.py                       # writes bench/results/metric_coverage.md; about an hour on
    one core python bench/accuracy/metric_coverage.py --repetitions 100 --pairs 20 --sizes 200 1000 -o coverage.md
    python bench/accuracy/metric_coverage.py --picture docs/images/ece-interval.png --repetitions 100    # that alone, seconds

A population is the test set of a network: at T = 1 (large miscalibration), after EC (small), and after EC with labels that are
drawn from the probabilities of the model each time (ECE = 0). Each repetition draws n rows with replacement and calls
`nishimori.evaluate`. The truth is the metric of the population; that of the ECE has the edges of the bins of the sample. For
paired differences, repetitions call `nishimori.compare`. Tables are written after each cell.
"""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import erf, pi, sqrt
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import nishimori
from nishimori import data
from nishimori._sums.binned_gaps import BinnedGaps
from nishimori.plot._style import HUES

NETWORKS = ("cifar10/resnet20",)
CALIBRATIONS = ("T = 1", "after EC", "labels redrawn")
STRATEGIES = ("uniform", "quantile")
METRICS = ("error", "confidence", "brier", "nll")
N_BINS = 15


@dataclass(frozen=True)
class Population:
    """Logits at T = 1 and what follows from them; labels are drawn anew if ``redraws``."""

    logits: np.ndarray
    labels: np.ndarray
    redraws: bool

    @property
    def p(self) -> np.ndarray:
        e = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def draw(self, n: int, rng: np.random.Generator, cumulated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which rows, and their labels."""
        rows = rng.integers(len(self.labels), size=n)
        if not self.redraws:
            return rows, self.labels[rows]
        return rows, (cumulated[rows] < rng.random((n, 1))).sum(axis=1).clip(max=self.logits.shape[1] - 1)

    def truth(self) -> dict[str, float]:
        """The metrics of infinitely many rows, except the ECE."""
        p = self.p
        if self.redraws:
            entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1)
            errors, scores, losses = 1 - p.max(axis=1), 1 - (p**2).sum(axis=1), entropy
        else:
            true = p[np.arange(len(p)), self.labels]
            errors = (p.argmax(axis=1) != self.labels).astype(float)
            scores, losses = (p**2).sum(axis=1) - 2 * true + 1, -np.log(true)
        means = (errors, p.max(axis=1), scores, losses)
        return {name: float(each.mean()) for name, each in zip(METRICS, means, strict=True)}


def population(network: data.Network, calibration: str) -> Population:
    """The test set of a network, its logits divided by T."""
    found = nishimori.temperatures(network.validation.logits, network.validation.labels)
    T = 1.0 if calibration == "T = 1" else found.ec
    return Population(network.test.logits.astype(float) / T, network.test.labels, calibration == "labels redrawn")


def alternatives(gaps: BinnedGaps, misses: np.ndarray, bins: np.ndarray) -> dict[str, float]:
    """The ECE without its bias by other formulas, each clipped at 0.

    "resampled gaps" subtracts the mean of resampled gaps (Kumar et al. 2019), "squares" the variance of each squared gap
    (Bröcker 2012), "calibrated bias" the bias of a calibrated model.
    """
    d, s, n = np.abs(gaps.gaps), gaps.errors, len(misses)
    ratio = np.divide(d, s, out=np.full_like(d, 40.0), where=s > 0)
    folded = 2 * s * np.exp(-(ratio**2) / 2) / sqrt(2 * pi) + d * np.array([erf(x / sqrt(2)) for x in ratio])
    sums, counts = np.bincount(bins, misses, N_BINS), np.bincount(bins, minlength=N_BINS)
    without = np.bincount(bins, np.abs(sums[bins] - misses), N_BINS)
    jackknife = n * d.sum() - ((n - counts) @ np.abs(sums) + without.sum()) / n
    found = {
        "plug-in": d.sum(),
        "corrected": gaps.corrected,
        "resampled gaps": 2 * d.sum() - folded.sum(),
        "squares": np.sqrt(np.maximum(d**2 - s**2, 0)).sum(),
        "calibrated bias": d.sum() - sqrt(2 / pi) * s.sum(),
        "jackknife": jackknife,
    }
    return {name: max(float(value), 0.0) for name, value in found.items()}


def cell(people: Population, n: int, strategy: str, repetitions: int, seed: int) -> dict[str, float]:
    """One cell of the tables: shares of intervals that contain the truth, and what they look like."""
    rng, p = np.random.default_rng(seed), people.p
    cumulated, claimed = p.cumsum(axis=1), p.max(axis=1)
    right = (p.argmax(axis=1) == people.labels).astype(float)
    truth, rows_of = people.truth(), []
    for _ in range(repetitions):
        rows, labels = people.draw(n, rng, cumulated)
        card = nishimori.evaluate(people.logits[rows], labels, n_bins=N_BINS, strategy=strategy)
        edges = np.arange(1, N_BINS) / N_BINS if strategy == "uniform" else card.reliability.upper[:-1]
        places = np.searchsorted(edges * (1 + 1e-12), claimed)
        true = 0.0 if people.redraws else np.abs(np.bincount(places, claimed - right, N_BINS)).sum() / len(claimed)
        low, high = card.interval("ece")
        misses = claimed[rows] - (p[rows].argmax(axis=1) == labels)
        found = {f"bias of {name}": v - true for name, v in alternatives(card["ece"].gaps, misses, places[rows]).items()}
        found |= {"ece": true, "ece low": true < low, "ece high": true > high, "width": high - low, "zero": low == 0}
        found |= {"spread": card.ece, "se": card.ece_se}
        for name in METRICS:
            limits = card.interval(name)
            found[name] = limits.low <= truth[name] <= limits.high
        rows_of.append(found)
    result = {name: float(np.mean([each[name] for each in rows_of])) for name in rows_of[0]}
    return result | {"spread": float(np.std([each["spread"] - each["ece"] for each in rows_of]))}


def pair_cell(network: data.Network, T: tuple[float, float], n: int, strategy: str, repetitions: int) -> dict[str, float]:
    """One cell of the table of differences of ECEs."""
    logits, labels = network.test.logits.astype(float), network.test.labels
    both = [Population(logits / each, labels, False).p for each in T]
    right, rng, rows_of = both[0].argmax(axis=1) == labels, np.random.default_rng(n), []
    nll = [-np.log(p[np.arange(len(p)), labels]).mean() for p in both]
    for _ in range(repetitions):
        rows = rng.integers(len(labels), size=n)
        compared = nishimori.compare(logits[rows], labels[rows], methods=T, n_bins=N_BINS, strategy=strategy).methods
        found = compared[1].differences
        errors = []
        for p, card in zip(both, [each.scorecard for each in compared], strict=True):
            edges = np.arange(1, N_BINS) / N_BINS if strategy == "uniform" else card.reliability.upper[:-1]
            places = np.searchsorted(edges * (1 + 1e-12), p.max(axis=1))
            errors.append(np.abs(np.bincount(places, p.max(axis=1) - right, N_BINS)).sum() / len(p))
        true, (low, high), limits = errors[1] - errors[0], found["ece"].interval(), found["nll"].interval()
        covered = {"ece": low <= true <= high, "nll": limits.low <= nll[1] - nll[0] <= limits.high}
        rows_of.append(covered | {"true": true, "width": high - low, "se": found["ece"].se, "error": found["ece"].value - true})
    result = {name: float(np.mean([each[name] for each in rows_of])) for name in rows_of[0]}
    return result | {"spread": float(np.std([each["error"] for each in rows_of]))}


def percent(value: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{100 * value:.{digits}f}"


TABLES: dict[str, tuple[str, list[str], Callable[[dict[str, float]], Iterable[str]]]] = {
    "ece": (
        "Intervals of the ECE at the level of 95 %: shares that contain the truth, lie above it or below it, in percent",
        ["true ECE", "covered", "too high", "too low", "lower limit 0", "mean width", "mean se / spread"],
        lambda c: (
            percent(c["ece"], 2),
            percent(1 - c["ece low"] - c["ece high"]),
            percent(c["ece low"]),
            percent(c["ece high"]),
            percent(c["zero"], 0),
            percent(c["width"], 2),
            f"{c['se'] / c['spread']:.2f}",
        ),
    ),
    "bias": (
        "Mean error of the ECE as measured and of corrections, in points of percent",
        ["plug-in", "corrected", "resampled gaps", "squares", "calibrated bias", "jackknife"],
        lambda c: (f"{100 * value:+.2f}" for name, value in c.items() if name.startswith("bias of")),
    ),
    "others": (
        "Intervals of the other metrics at the level of 95 %: share that contain the truth, in percent",
        ["error", "confidence", "Brier", "NLL"],
        lambda c: (percent(c[name]) for name in METRICS),
    ),
}


def report(path: Path, cells: dict[tuple[str, ...], dict[str, float]], pairs: dict[tuple[str, ...], dict[str, float]]) -> None:
    """All tables so far."""
    lines = [
        "# Coverage of intervals of metrics",
        "",
        f"Made by `bench/accuracy/metric_coverage.py`, which says how. {N_BINS} bins.",
        "",
    ]
    keys = ["network", "population", "bins", "n"]
    for title, names, row in TABLES.values():
        lines += [f"## {title}", "", *table([*keys, *names], [(*key, *row(c)) for key, c in cells.items()]), ""]
    names = ["true difference", "covered", "mean width", "spread of the difference", "mean se / spread", "NLL covered"]
    rows = [
        (
            *key,
            f"{100 * c['true']:+.2f}",
            percent(c["ece"]),
            percent(c["width"], 2),
            percent(c["spread"], 2),
            f"{c['se'] / c['spread']:.2f}",
            percent(c["nll"]),
        )
        for key, c in pairs.items()
    ]
    title = "Paired differences of the ECE: share of 95 % intervals that contain the truth, in percent"
    keys = ["network", "second minus first", "bins", "n"]
    path.write_text("\n".join([*lines, f"## {title}", "", *table([*keys, *names], rows), ""]))


def table(names: list[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Markdown."""
    return [f"| {' | '.join(each)} |" for each in (names, ["---"] * len(names), *rows)]


def main() -> None:
    """Run all cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000, help="per cell; 0 leaves these tables empty")
    parser.add_argument("--pairs", type=int, default=200, help="repetitions per cell of paired differences")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 5000, 20000])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--populations", nargs="+", choices=CALIBRATIONS, default=list(CALIBRATIONS))
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parents[1] / "results" / "metric_coverage.md")
    parser.add_argument("--picture", type=Path, help="draw the ECE and its interval, and nothing else")
    options = parser.parse_args()
    if options.picture:
        picture(options.picture, options.repetitions)
        return
    cells: dict[tuple[str, ...], dict[str, float]] = {}
    pairs: dict[tuple[str, ...], dict[str, float]] = {}
    for name in options.networks:
        network = data.load(name)
        for calibration in options.populations if options.repetitions else ():
            people = population(network, calibration)
            for strategy in STRATEGIES:
                for n in options.sizes:
                    cells[name, calibration, strategy, str(n)] = cell(people, n, strategy, options.repetitions, seed=n)
                    report(options.output, cells, pairs)
        found = nishimori.temperatures(network.validation.logits, network.validation.labels)
        chosen = {"EC - (T = 1)": (1.0, found.ec), "EC - TS": (found.ts, found.ec), "1.1 EC - EC": (found.ec, 1.1 * found.ec)}
        for what, both in chosen.items() if options.pairs else ():
            for strategy in STRATEGIES:
                for n in options.sizes:
                    pairs[name, what, strategy, str(n)] = pair_cell(network, both, n, strategy, options.pairs)
                    report(options.output, cells, pairs)


# The ECE as measured, without its bias, and its interval against the number of samples: docs/images/ece-interval.png.
#
# Rows are drawn from the test set of a bundled network: on the left after EC, with labels that are drawn from its
# probabilities, so that the true ECE is 0; on the right at T = 1. Lines are means over repetitions.

PICTURE_SIZES = (100, 200, 500, 1000, 2000, 5000, 10000)
PANELS = {"labels redrawn": "calibrated: labels drawn from the model", "T = 1": "overconfident: the network as it is"}
INK, PALE = HUES["blue"], HUES["sky"]


def curves(calibration: str, repetitions: int) -> np.ndarray:
    """Mean ECE, corrected ECE and limits, (sizes, 4)."""
    people, rng = population(data.load("cifar10/resnet20"), calibration), np.random.default_rng(0)
    cumulated, found = people.p.cumsum(axis=1), []
    for n in PICTURE_SIZES:
        rows = []
        for _ in range(repetitions):
            chosen, labels = people.draw(n, rng, cumulated)
            card = nishimori.evaluate(people.logits[chosen], labels, n_bins=N_BINS)
            rows.append((card.ece, card.ece_corrected, *card.interval("ece")))
        found.append(np.mean(rows, axis=0))
    return np.array(found)


def picture(path: Path, repetitions: int) -> None:
    """Draw both panels."""
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    truths = {"labels redrawn": 0.0, "T = 1": nishimori.evaluate(*_test()).ece}
    for ax, (calibration, title) in zip(axes, PANELS.items(), strict=True):
        measured, corrected, low, high = 100 * curves(calibration, repetitions).T
        ax.fill_between(PICTURE_SIZES, low, high, color=PALE, alpha=0.6, linewidth=0, label="95 % interval")
        ax.plot(PICTURE_SIZES, measured, "s--", color=HUES["vermilion"], label="ECE as measured")
        ax.plot(PICTURE_SIZES, corrected, "o-", color=INK, label="ECE corrected")
        ax.axhline(100 * truths[calibration], color="0.2", linewidth=1, label="true ECE")
        ax.set(xscale="log", title=title, xlabel="number of samples")
        ax.set_xticks([100, 1000, 10000], ["100", "1,000", "10,000"])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="ECE in percent, 15 bins", ylim=(-0.4, None))
    axes[1].legend(frameon=False, loc="upper right")
    figure.savefig(path, dpi=130)


def _test() -> tuple[np.ndarray, np.ndarray]:
    test = data.load("cifar10/resnet20").test
    return test.logits, test.labels


if __name__ == "__main__":
    main()
