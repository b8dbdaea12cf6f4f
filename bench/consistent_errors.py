"""How far the temperature of a method that is finished by EC is off, and whether its standard error says so.

    python bench/consistent_errors.py                      # some 10 minutes on one core
    python bench/consistent_errors.py --draws 4 --quick    # seconds; the numbers mean little

Logits are normal, and labels are drawn from a distribution that vector scaling can describe ("vector") or cannot ("mixed": the
same, with logits that are larger for one half of the samples than for the other). For each of many data sets of n samples,
`Consistent` gives T, from maps of parts of the samples. The probability of each class is known, so that a large set of other
samples gives, almost without noise, the T that the map of all n samples needs, by how much more the maps of all folds but one
need, and T of infinitely many samples. (The first two are measured on the same 4,000 samples, so that their difference is
precise; compared with T of infinitely many samples, which 40,000 samples give, they are uncertain by about 0.01 in log T.)

Errors: the standard deviation of log T over data sets, the root mean square of its standard errors (by the folds:
the jackknife or, after "bias", which matches the confidence itself, the spread of what holding out changes; and the error of EC
with maps taken as given), and how often intervals of 90 and 95 % hold T of infinitely many samples, with
quantiles of the normal distribution and of Student's t.
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
from nishimori._calibrators.collected_samples import collect_samples
from nishimori._calibrators.consistent import CrossFit
from nishimori._calibrators.folds import deal_folds, in_row_order, out_of_fold
from nishimori.errors import NishimoriError

RESULTS = Path(__file__).parent / "results" / "consistent_errors.md"
N_LARGE, N_TEST, N_PAIRED = 100_000, 40_000, 4000

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
    "matrix": nishimori.MatrixScaling,
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


def labels_of(rng, probabilities):
    """One label per row."""
    return (probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1))).sum(axis=1).clip(max=probabilities.shape[1] - 1)


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
    test = population.draw(np.random.default_rng(1), N_TEST)
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


def main() -> None:
    """Print one line per cell and number of folds, and write all of them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=90, help="data sets per cell, a third where fits take long")
    parser.add_argument("--quick", action="store_true", help="the first cells only")
    parser.add_argument("--only", help="cells of this method only; nothing is written")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    lines = [HEADER]
    print(HEADER, flush=True)
    chosen = [each for each in CELLS if given.only in (None, each[0])]
    for each in chosen[:2] if given.quick else chosen:
        for line in cell(*each, given.draws if each[0] != "matrix" and each[3] < 8000 else max(2, given.draws // 3)):
            print(line, flush=True)
            lines.append(line)
    if given.only is None:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
