"""Size and power of `nishimori.calibration_test`, and of the variances that were not chosen.

    python bench/accuracy/calibration_tests.py                  # writes bench/results/calibration_tests.md
    python bench/accuracy/calibration_tests.py --repeats 50 --power-repeats 50 --sizes 100 --power-sizes 300 --out quick.md

Each repetition draws n rows, with replacement, from the test logits z of a bundled network, and labels from softmax(z/T), where
T is that of temperature scaling. The tests are then told T (size), a wrong T (power), or a T that was fitted to the same rows.
A cell is the share of repetitions, in percent, in which the p-value is at most 0.05. Rows are written as they are done.
"""

import argparse
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import softmax
from scipy.stats import norm

import nishimori
from nishimori import calibration_test, data, temperatures
from nishimori._evaluation.calibration_test import RedrawnECE, keep_answers
from nishimori._rows.entry import open_rows
from nishimori._sums.reliability import uniform_edges
from nishimori.maps.temperature import Temperature

SIZES = (100, 300, 1000, 5000)
POWER_SIZES = (300, 1000, 5000)
NETWORKS = ("cifar10/resnet20", "svhn/resnet20", "cifar100/vgg19")
FACTORS = (1.05, 1.1, 1.2, 1 / 1.1)
N_DRAWS = 99

TESTS = ("confidence", "energy", "spiegelhalter", "ece, uniform", "ece, quantile")
OTHERS = ("confidence, sample variance", "energy, sample variance", "ece, normal bins")


class Population:
    """The test logits of a network, whose labels are drawn at its temperature."""

    def __init__(self, name: str) -> None:
        test = data.load(name).test
        found = temperatures(test.logits, test.labels)
        assert found.ts is not None
        self.logits, self.temperature = test.logits.astype(float), found.ts
        p = softmax(self.logits / found.ts, axis=1)
        self.cumulated, self.accuracy = p.cumsum(axis=1), float(p.max(axis=1).mean())

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Some rows and labels."""
        rows = rng.integers(len(self.logits), size=n)
        labels = (rng.random((n, 1)) > self.cumulated[rows]).sum(axis=1)
        return self.logits[rows], np.minimum(labels, self.logits.shape[1] - 1)


def p_values(logits: np.ndarray, labels: np.ndarray, temperature: float, seed: int) -> list[float]:
    """Of the tests that people call."""
    redraw = {"statistic": "ece", "n_draws": N_DRAWS, "seed": seed}
    asked = [
        *({"statistic": each} for each in ("confidence", "energy", "spiegelhalter")),
        redraw,
        redraw | {"strategy": "quantile"},
    ]
    return [calibration_test(logits, labels, temperature=temperature, **each).p_value for each in asked]


def other_p_values(logits: np.ndarray, labels: np.ndarray, temperature: float, seed: int) -> list[float]:
    """With the variance of the gaps in the sample, and with normal sums in all bins."""
    p, rows, top = softmax(logits / temperature, axis=1), np.arange(len(labels)), logits.argmax(axis=1)
    found = []
    for gap in (p[rows, top] - (top == labels), (p * logits).sum(axis=1) - logits[rows, labels]):
        found.append(2 * float(norm.sf(abs(gap.sum()) / np.sqrt((gap**2).sum()))))
    answers = RedrawnECE(
        open_rows(logits, labels).gather(partial(keep_answers, uniform_edges(15), Temperature(temperature))), 15
    )
    answers.is_normal = answers.variance > 0
    return [*found, (1 + int((answers.draw_eces(N_DRAWS, seed) >= answers.observed).sum())) / (1 + N_DRAWS)]


def shares(population: Population, n: int, repeats: int, scale: float | str) -> list[float]:
    """How often each test rejects, in percent; ``scale`` is what T is multiplied by, or the method that fits it."""
    rng = np.random.default_rng([n, repeats])
    rejected = []
    for seed in range(repeats):
        logits, labels = population.draw(rng, n)
        if isinstance(scale, str):
            fitted = temperatures(logits, labels)
            T = fitted.ec if scale == "ec" else fitted.ts
            assert T is not None
        else:
            T = scale * population.temperature
        found = p_values(logits, labels, T, seed)
        if scale == 1.0:
            found += other_p_values(logits, labels, T, seed)
        rejected.append(np.array(found) <= 0.05)
    return (100 * np.mean(rejected, axis=0)).tolist()


def table(first: str, columns: tuple[str, ...], rows: list[str]) -> list[str]:
    """A table of Markdown."""
    return [f"| {first} | {' | '.join(columns)} |", "|---" * (first.count("|") + 1 + len(columns)) + "|", *rows, ""]


def report(rows: dict[str, list[str]], repeats: int, power_repeats: int) -> str:
    """The file of results."""
    return "\n".join(
        [
            "Share of repetitions, in percent, in which a test of calibration has p ≤ 0.05. Written by "
            f"`python bench/accuracy/calibration_tests.py` with nishimori {nishimori.__version__}. Accuracy is that of "
            f"labels drawn "
            f"from the model. *ece* has 15 bins and {N_DRAWS} draws.",
            "",
            f"## Size: labels are drawn at the T that is tested. {repeats:,} repetitions, standard error "
            f"{100 * np.sqrt(0.05 * 0.95 / repeats):.1f}",
            "",
            "The last three columns were not chosen: the variance of the gaps in the sample, and normal sums in all bins.",
            "",
            *table("network | accuracy | n", (*TESTS, *OTHERS), rows["size"]),
            f"## Power: T is off by a factor. {power_repeats:,} repetitions",
            "",
            *table("network | n | T / true T", TESTS, rows["power"]),
            f"## T is fitted to the same samples. {power_repeats:,} repetitions",
            "",
            *table("network | n | fitted by", TESTS, rows["fitted"]),
        ]
    )


def main() -> None:
    """Measure all cells and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2000, help="repetitions for sizes")
    parser.add_argument("--power-repeats", type=int, default=200, help="repetitions for power")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--power-sizes", type=int, nargs="+", default=POWER_SIZES)
    parser.add_argument("--tables", nargs="+", default=("size", "power", "fitted"), help="which of the tables to fill")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "calibration_tests.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore", nishimori.errors.FewErrorsWarning)
    rows: dict[str, list[str]] = {"size": [], "power": [], "fitted": []}
    scales: list[tuple[str, float | str]] = [("size", 1.0), *(("power", each) for each in FACTORS)]
    scales += [("fitted", "ec"), ("fitted", "ts")]
    for kind, scale in scales:
        if kind not in options.tables:
            continue
        repeats, sizes = (options.repeats, options.sizes) if kind == "size" else (options.power_repeats, options.power_sizes)
        for name in options.networks:
            population = Population(name)
            for n in sizes:
                cells = " | ".join(f"{share:.1f}" for share in shares(population, n, repeats, scale))
                told = f"{scale:.3f}" if isinstance(scale, float) else scale.upper()
                first = f"{name} | {population.accuracy:.3f} | {n:,}" if kind == "size" else f"{name} | {n:,} | {told}"
                rows[kind].append(f"| {first} | {cells} |")
                options.out.write_text(report(rows, options.repeats, options.power_repeats), encoding="utf-8")
                print(rows[kind][-1], flush=True)


if __name__ == "__main__":
    main()
