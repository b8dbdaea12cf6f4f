"""What one more temperature after a map costs and gains: NLL and ECE of methods with and without "+ec".

    python bench/studies/consistent.py             # some minutes on one core
    python bench/studies/consistent.py --quick     # seconds; the numbers mean little
    python bench/studies/consistent.py --errors    # some 10 minutes; with --draws 4 --quick seconds

Bundled networks: each method is fitted to some validation images and scored on all test images. Generated data: each method is
fitted to n samples and scored on 20,000 others, for several draws. The cases are listed in `CASES`, with what is wrong with the
scores in each. Writes tables to consistent.md in the folder of results. ECE has 15 bins of equal width.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax
from scipy.stats import norm, t

import nishimori
from nishimori import ExpectationConsistency
from nishimori._calibrators.consistent import CrossFit
from nishimori._calibrators.folds import deal_folds, in_row_order, out_of_fold
from nishimori._fit.collected_samples import collect_samples
from nishimori.errors import NishimoriError

RESULTS = Path(__file__).parents[1] / "results" / "consistent.md"
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


# How far the temperature of a method that is finished by EC is off, and whether its standard error says so.
#
# Logits are normal, and labels are drawn from a distribution that vector scaling can describe ("vector") or cannot ("mixed":
# the same, with logits that are larger for one half of the samples than for the other). For each of many data sets of n
# samples, `Consistent` gives T, from maps of parts of the samples. The probability of each class is known, so that a large set
# of other samples gives, almost without noise, the T that the map of all n samples needs, by how much more the maps of all
# folds but one need, and T of infinitely many samples. (The first two are measured on the same 4,000 samples, so that their
# difference is precise; compared with T of infinitely many samples, which 40,000 samples give, they are uncertain by about 0.01
# in log T.)
#
# Errors: the standard deviation of log T over data sets, the root mean square of its standard errors (by the folds:
# the jackknife or, after "bias", which matches the confidence itself, the spread of what holding out changes; and the error of
# EC with maps taken as given), and how often intervals of 90 and 95 % hold T of infinitely many samples, with
# quantiles of the normal distribution and of Student's t.

ERRORS = Path(__file__).parents[1] / "results" / "consistent_errors.md"
N_LARGE, N_EXACT, N_PAIRED = 100_000, 40_000, 4000

# Method, truth, number of classes, number of samples, and numbers of folds; the costliest last.
CELLS = [
    *(("vector", "mixed", K, n, (5, 10)) for n in (500, 2000, 8000) for K in (3, 10)),
    *(("vector", "vector", K, 500, (5, 10)) for K in (3, 10)),
    *(("vector, no penalty", "mixed", K, n, (5, 10)) for K, n in ((3, 500), (10, 500), (10, 2000))),
    *(("vector", "mixed", 10, n, (20,)) for n in (500, 2000)),
    *(("bias", "mixed", K, 1000, (5, 40)) for K in (3, 10)),
    *(("matrix", "mixed", K, n, (10,)) for K, n in ((3, 500), (10, 500), (3, 2000), (10, 2000))),
]


METHODS = {
    "vector": nishimori.VectorScaling,
    "vector, no penalty": partial(nishimori.VectorScaling, penalty=None),
    "matrix": nishimori.calibrators.MatrixScaling,
    "bias": nishimori.BiasCorrected,
}


class Population:
    """Samples with known probabilities of the classes."""

    def __init__(self, truth, n_classes):
        self.factors = np.linspace(0.7, 0.4, n_classes)
        self.biases = np.linspace(0.6, -0.6, n_classes)
        self.strengths = (1.0,) if truth == "vector" else (1.6, 0.4)

    def draw(self, rng, n):
        """Logits and the probabilities of the classes."""
        logits = 2.5 * rng.normal(size=(n, len(self.factors)))
        affine = self.factors * logits + self.biases
        return logits, np.mean([softmax(each * affine, axis=1) for each in self.strengths], axis=0)


def needed(map_, logits, probabilities):
    """Log T at which mean confidence after a map is the mean probability of the predicted class."""
    mapped = map_.apply(logits)
    right = probabilities[np.arange(len(mapped)), mapped.argmax(axis=1)].mean()
    return brentq(lambda x: np.exp(log_softmax(mapped * np.exp(-x), axis=1).max(axis=1)).mean() - right, -2, 2, xtol=1e-6)


def cross_fit(method, logits, labels, n_folds):
    """Log T, its error by the jackknife, the error with maps as given, the map of all samples, and those of the folds."""
    samples = collect_samples(nishimori.rows(logits, labels))
    folds = deal_folds(samples.labels, n_folds)
    maps, parts = out_of_fold(
        folds,
        lambda fold: METHODS[method]().fit(samples.rows(fold.train)).map_,
        lambda map_, fold: samples.mapped(map_, fold.test),
    )
    fitted = METHODS[method]().fit(logits, labels)
    held_out = in_row_order([fold.test for fold in folds], parts)
    found = ExpectationConsistency().fit(samples.rows(logits=held_out))
    errors, T = CrossFit(samples, folds, maps, held_out, fitted.map_), found.temperature_
    error = (errors.correction_error if fitted.matches_confidence else errors.temperature_error)(T)
    return np.log(T), error / T, found.temperature_se_ / T, fitted.map_, maps


def coverage(off, errors, quantile):
    """How often a distance is within an error times the quantile."""
    return np.mean(np.abs(off) < quantile * errors)


def cell(method, truth, n_classes, n, folds, draws):
    """The rows of one cell, one per number of folds."""
    population = Population(truth, n_classes)
    rng = np.random.default_rng([n_classes, n])
    test = population.draw(np.random.default_rng(1), N_EXACT)
    large, chances = population.draw(np.random.default_rng(2), N_LARGE)
    limit = needed(METHODS[method]().fit(large, labels_of(rng, chances)).map_, *test)
    found = {n_folds: [] for n_folds in folds}
    for _ in range(draws):
        logits, chances = population.draw(rng, n)
        labels = labels_of(rng, chances)
        try:
            fits = {n_folds: cross_fit(method, logits, labels, n_folds) for n_folds in folds}
        except NishimoriError:
            continue
        some = [each[:N_PAIRED] for each in test]  # enough for the difference between maps, but not for `limit`
        right = needed(next(iter(fits.values()))[3], *some)
        for n_folds, (log_T, error, naive, _, maps) in fits.items():
            more = np.mean([needed(each, *some) for each in maps[:2]]) - right
            found[n_folds].append((log_T, error, naive, right, more))
    for n_folds, values in found.items():
        log_T, errors, naive, right, more = np.array(values).T
        off = log_T - limit
        held = [
            coverage(off, each, quantile)
            for each, family in ((naive, norm), (errors, norm), (errors, t(n_folds - 1)))
            for quantile in family.ppf((0.95, 0.975))
        ]
        shares = " | ".join(f"{share:.0%}" for share in held)
        yield (
            f"| {method} | {truth} | {n_classes} | {n:,} | {n_folds} | {100 * limit:+.1f} | {100 * right.mean():+.1f} "
            f"| {100 * more.mean():+.2f} ± {100 * more.std(ddof=1) / np.sqrt(len(off)):.2f} "
            f"| {100 * log_T.std(ddof=1):.1f} | {100 * np.sqrt((naive**2).mean()):.1f} "
            f"| {100 * np.sqrt((errors**2).mean()):.1f} | {shares} |"
        )


HEADER = (
    "| method | truth | K | n | folds | 100·log T, n → ∞ | needed by the map of all | more by those of folds | sd | naive se "
    "| se by folds "
    "| naive 90 | 95 | normal 90 | 95 | t 90 | 95 |\n" + "|---" * 17 + "|"
)


def measure_errors(options: argparse.Namespace) -> None:
    """Print one line per cell and number of folds, and write all of them to a file."""
    lines, draws = [HEADER], options.draws or 90
    print(HEADER, flush=True)
    chosen = [each for each in CELLS if options.only in (None, each[0])]
    for each in chosen[:2] if options.quick else chosen:
        for line in cell(*each, draws if each[0] != "matrix" and each[3] < 8000 else max(2, draws // 3)):
            print(line, flush=True)
            lines.append(line)
    if options.only is None:
        (options.out or ERRORS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Write the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", action="store_true", help="measure standard errors of T instead")
    parser.add_argument("--draws", type=int, help="data sets per cell: 8, for errors 90, and a third where fits take long")
    parser.add_argument("--quick", action="store_true", help="few networks, cells and draws")
    parser.add_argument("--only", help="errors of this method only; nothing is written")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.errors:
        measure_errors(given)
        return
    names = [name for name in nishimori.data.names() if not given.quick or name == "cifar10/resnet20"]
    draws, cases = (2, list(CASES)[:1]) if given.quick else (given.draws or 8, list(CASES))
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
    (given.out or RESULTS).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
