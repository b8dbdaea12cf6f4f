"""What one more temperature after a map costs and gains: NLL and ECE of methods with and without "+ec".

    python bench/consistent.py             # some minutes on one core
    python bench/consistent.py --quick     # seconds; the numbers mean little

Bundled networks: each method is fitted to some validation images and scored on all test images. Generated data: each method is
fitted to n samples and scored on 20,000 others, for several draws. The cases are listed in `CASES`, with what is wrong with the
scores in each. Writes tables to consistent.md in the folder of results. ECE has 15 bins of equal width.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.special import softmax

import nishimori

RESULTS = Path(__file__).parent / "results" / "consistent.md"
N_TEST = 20_000


def labels_of(rng, probabilities):
    """One label per row."""
    return (probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1))).sum(axis=1).clip(max=probabilities.shape[1] - 1)


def described(rng, n, n_classes=10):
    """Labels that vector scaling describes exactly."""
    logits = 2.5 * rng.normal(size=(n, n_classes))
    chances = softmax(np.linspace(0.7, 0.4, n_classes) * logits + np.linspace(0.6, -0.6, n_classes), axis=1)
    return logits, labels_of(rng, chances)


def random_labels(rng, n, n_classes=10):
    """The same, with a fifth of the labels at random."""
    logits, labels = described(rng, n, n_classes)
    return logits, np.where(rng.random(n) < 0.2, rng.integers(n_classes, size=n), labels)


def two_strengths(rng, n, n_classes=10):
    """Half of the samples have logits that are four times as large as they should be, compared with the others."""
    logits = 2.5 * rng.normal(size=(n, n_classes))
    strengths = np.where(rng.random((n, 1)) < 0.5, 1.2, 0.3)
    return logits, labels_of(rng, softmax(strengths * logits, axis=1))


def class_noise(rng, n, n_classes=10):
    """Evidence of a class is noisier, the higher its number: a factor per class cannot undo noise."""
    truth = rng.integers(n_classes, size=n)
    spread = np.linspace(0.5, 3.0, n_classes)
    logits = 3.0 * np.eye(n_classes)[truth] + spread * rng.normal(size=(n, n_classes))
    return logits, truth


LANGUAGES, OCCURRING, FEATURES = 40, 8, 300
_models = np.random.default_rng(5).dirichlet(np.full(FEATURES, 0.3), LANGUAGES) * 0.97 + 0.03 / FEATURES


def language_identifier(rng, n):
    """Naive Bayes with features that repeat each other, texts of very different lengths, and 8 of 40 classes in the data."""
    truth = rng.integers(OCCURRING, size=n)
    lengths = np.maximum(1, np.exp(rng.normal(1.0, 1.0, size=n))).astype(int)
    logits = np.empty((n, LANGUAGES))
    for i, (label, length) in enumerate(zip(truth, lengths, strict=True)):
        counts = 4 * rng.multinomial(length, 0.6 * _models[label] + 0.4 * _models[rng.integers(OCCURRING)])
        logits[i] = np.log(_models) @ counts
    return logits, truth


CASES = {
    "vector scaling is true": (described, (200, 1000, 5000)),
    "a fifth of the labels at random": (random_labels, (200, 1000, 5000)),
    "two strengths of the logits": (two_strengths, (200, 1000, 5000)),
    "noisier evidence for some classes": (class_noise, (200, 1000, 5000)),
    "naive Bayes, 8 of 40 classes occur": (language_identifier, (1000, 5000)),
}


def scores_of(method, fit, test):
    """NLL, ECE in % and T of a method."""
    fitted = nishimori.calibrator(method).fit(*fit)
    card = nishimori.evaluate(*test, calibrator=fitted)
    return card.nll, 100 * card.ece, getattr(fitted, "ec_temperature_", 1.0)


def difference(values):
    """A mean with its standard error."""
    return f"{np.mean(values):+.4f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}"


def networks(method, names, n):
    """One line: means over networks."""
    found = []
    for name in names:
        network = nishimori.data.load(name)
        chosen = np.random.default_rng(0).permutation(len(network.validation.labels))[:n]
        fit = network.validation.logits[chosen], network.validation.labels[chosen]
        test = network.test.logits, network.test.labels
        found.append([scores_of(each, fit, test) for each in (method, f"{method}+ec")])
        (nll, ece, _), (nll_ec, ece_ec, T) = found[-1]
        print(f"    {name:24s} n={n} T {T:.3f} ECE {ece:.2f} -> {ece_ec:.2f} NLL {nll_ec - nll:+.4f}", flush=True)
    plain, finished = np.array(found).transpose(1, 2, 0)
    better, T = int((finished[1] < plain[1]).sum()), finished[2]
    return (
        f"| {method} | {n:,} | {T.mean():.3f} ({T.min():.2f} to {T.max():.2f}) | {plain[1].mean():.2f} "
        f"| {finished[1].mean():.2f} | {better} of {len(names)} | {difference(finished[0] - plain[0])} |"
    )


def generated(method, case, n, draws):
    """One line: means over draws."""
    draw, _ = CASES[case]
    found = []
    for seed in range(draws):
        rng = np.random.default_rng([n, seed])
        fit, test = draw(rng, n), draw(rng, N_TEST)
        found.append([scores_of(each, fit, test) for each in ("ts", "ec", method, f"{method}+ec")])
    ts, ec, plain, finished = np.array(found).transpose(1, 2, 0)
    eces = " | ".join(f"{each[1].mean():.2f}" for each in (ts, ec, plain, finished))
    return f"| {case} | {method} | {n:,} | {finished[2].mean():.3f} | {eces} | {difference(finished[0] - plain[0])} |"


def main() -> None:
    """Write the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="few networks and draws")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    names = [name for name in nishimori.data.names() if not given.quick or name == "cifar10/resnet20"]
    draws, cases = (2, list(CASES)[:1]) if given.quick else (given.draws, list(CASES))
    lines = ["Generated data: ECE in %, and how much more NLL the method has with +ec.", ""]
    lines += [f"| scores | method | n | T | ECE ts | ec | method | +ec | NLL of +ec minus method |\n{'|---' * 9}|"]
    for case in cases:
        for n in CASES[case][1][: 1 if given.quick else None]:
            lines.append(generated("vector", case, n, draws))
            print(lines[-1], flush=True)
    lines += ["", f"Bundled networks, means over {len(names)}: ECE in %.", ""]
    lines += [f"| method | n | T | ECE | ECE +ec | lower with +ec | NLL of +ec minus method |\n{'|---' * 7}|"]
    for n in (500, 5000):
        lines.append(networks("vector", names, n))
        print(lines[-1], flush=True)
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
