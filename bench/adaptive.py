"""The study behind the method "adaptive": how well EC, TS and mixtures of both do with few validation samples.

    python bench/adaptive.py                    # all networks and teachers, some 15 minutes on one core
    python bench/adaptive.py --quick            # a few of them, in seconds; the numbers mean little
    python bench/adaptive.py --tables-only      # tables and pictures again, from the numbers of the last run

Random validation sets are drawn with repetition from the validation images of each bundled network, so that these images are
the population, and a set of n images varies as n new images would. Each is fitted by EC and TS; every form of shrinkage is
applied to the same fits, and its test ECE (15 bins of equal mass, 5,000 test images), NLL and distance to the population's
T_EC are averaged. Labels are clean, have Table 2's noise, or half of that noise (on which nothing was chosen), in both sets or
in the validation set alone. The teachers of `nishimori_paper.theory` are a second kind of data: binary, with ECE and T_EC known
without sampling error.

Writes numbers to adaptive.json and tables to adaptive.md in the folder of results, and pictures to the folder of images.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtri

from adaptive_draws import SCORED, Pool, Scores, drawn_labels
from adaptive_pictures import pictures
from adaptive_tables import report
from nishimori import data
from nishimori._fit.adaptive import Adapted, kept_share
from nishimori_paper import theory

ROOT = Path(__file__).parent.parent
SIZES = (50, 100, 200, 400, 1000, 2000, 5000)
# How much of Table 2's noise is in the validation labels, and how much in the test labels.
LABELS = {"clean": (0.0, 0.0), "noisy": (1.0, 1.0), "half": (0.5, 0.5)}
CLEAN_TEST = {"noisy, clean test": (1.0, 0.0), "half, clean test": (0.5, 0.0)}
EVERY = LABELS | CLEAN_TEST
N_TEST, TEST_DRAWS = 5000, 20

# log T = log T_TS + share·δ; each share is a function of t² = δ²/Var(δ) and has its own values of c.
FORMS = {
    "1 - c/t², not below 0": (lambda t2, c: np.maximum(0, 1 - c / np.maximum(t2, 1e-300)), (0.5, 1, 2, 3)),
    "t²/(t² + c)": (lambda t2, c: t2 / (t2 + c), (0.5, 1, 2, 3)),
    "t⁴/(t⁴ + c²)": (lambda t2, c: t2**2 / (t2**2 + c**2), (1, 1.5, 2, 2.5, 3)),
    "all if t > c, else nothing": (lambda t2, c: 1.0 * (t2 > c**2), (0.5, 1, 1.5, 2)),
}
TEACHERS = [
    *(theory.Logit(temperature=T) for T in (0.2, 1.0)),
    *(theory.Probit(temperature=T) for T in (0.3, 1.0)),
    *(theory.Affine(temperature=T) for T in (0.5, 1.0)),
    *(theory.Constant(temperature=T) for T in (0.25, 0.5, 1.0)),
]
# Training samples per dimension of the teachers' students.
ALPHAS = (3.0, 10.0)
# Networks whose intervals are checked.
COVERED = ("cifar10/resnet20", "cifar100/vgg19", "svhn/resnet20")


def shares(fits):
    """The share of δ that each method keeps, by its name."""
    t2 = fits.delta**2 / fits.variance
    found = {"ec": np.ones(len(t2)), "ts": np.zeros(len(t2)), "adaptive": kept_share(fits.delta, fits.variance)}
    return found | {f"{form} | {c:g}": rule(t2, c) for form, (rule, values) in FORMS.items() for c in values}


def measured(fits, scores, target):
    """Mean scores of each method over those validation sets that have both temperatures."""
    exist = fits.exist
    logs, delta = fits.logs[exist, 1], fits.delta[exist]
    C, variance = fits.covariance[exist], fits.variance[exist]
    result = {
        "without": int((~exist).sum()),
        "t": float(np.median(np.abs(delta) / np.sqrt(variance))),
        # Cov(log T_TS, δ)/Var(δ), zero if TS is efficient.
        "follow": float(np.median((C[:, 0, 1] - C[:, 1, 1]) / variance)),
    }
    for name, share in shares(fits).items():
        found = logs + share[exist] * delta
        ece, nll = scores.at(found)
        result[name] = [float(each.mean()) for each in (ece, nll, np.abs(found - target))]
    result["none"] = [*(float(each) for each in scores.at(0.0)), abs(target)]
    return result


class NetworkSubject:
    """A network: validation sets are drawn from its validation images."""

    def __init__(self, network, seed):
        self.name, self.rng = network.name, np.random.default_rng([seed, *network.name.encode()])
        self.labels, self.n_classes = network.validation.labels, network.validation.logits.shape[1]
        self.pool = Pool(network.validation.logits)
        chosen = self.rng.permutation(len(network.test.labels))[:N_TEST]
        self.test = network.test.logits[chosen], network.test.labels[chosen]

    def scores(self, labels):
        """Those of the test images; with noise, their mean over draws of it."""
        _, noise = EVERY[labels]
        repeated = np.tile(self.test[1], (TEST_DRAWS if noise else 1, 1))
        return Scores.of(self.test[0], drawn_labels(repeated, self.n_classes, self.rng, noise=noise))

    def target(self, labels):
        """Log T_EC of all validation images, with the probability that their noisy labels are right."""
        noise = EVERY[labels][0] * (self.labels < self.n_classes // 10)
        return self.pool.population((1 - noise) * (self.pool.top == self.labels) + noise / self.n_classes)

    def fits(self, labels, n, n_sets):
        """Fits of random validation sets."""
        chosen = self.rng.integers(len(self.labels), size=(n_sets, n))
        return self.pool.fits(chosen, drawn_labels(self.labels[chosen], self.n_classes, self.rng, noise=EVERY[labels][0]))


class TeacherSubject:
    """Logistic regression in high dimension: scores are Gaussian, and labels have a known probability given the score."""

    SCORES = 10_000

    def __init__(self, teacher, alpha, seed):
        found = theory.state_evolution(teacher, alpha, 0.01)
        self.found, self.rng = found, np.random.default_rng([seed, int(alpha)])
        self.name = f"{type(teacher).__name__.lower()}, T* = {teacher.temperature:g}, α = {alpha:g}"
        scores = np.sqrt(found.q) * ndtri((np.arange(self.SCORES) + 0.5) / self.SCORES)
        self.positive = np.asarray(found.conditional_mean(expit(np.clip(scores, -36, 36))))
        self.pool = Pool(np.stack([np.zeros(self.SCORES), scores], axis=1))

    def scores(self, _):
        """Exact: ECE without bins."""
        return Scores(100 * self.found.ece(np.exp(SCORED)), self.found.loss(np.exp(SCORED)))

    def target(self, _):
        """Log T_EC of infinitely many samples."""
        return float(np.log(self.found.temperature_ec))

    def fits(self, _, n, n_sets):
        """Fits of random validation sets."""
        chosen = self.rng.integers(self.SCORES, size=(n_sets, n))
        return self.pool.fits(chosen, (self.rng.random(chosen.shape) < self.positive[chosen]).astype(int))


def study(subject, labels, sizes, draws):
    """One entry per size."""
    scores, target = subject.scores(labels), subject.target(labels)
    return {str(n): measured(many(subject, labels, n, draws), scores, target) for n in sizes}


def many(subject, labels, n, draws):
    """Fits of so many validation sets, a few at a time to save memory."""
    step = max(1, min(draws, 200_000 // n))
    parts = [subject.fits(labels, n, min(step, draws - start)) for start in range(0, draws, step)]
    return sum(parts[1:], start=parts[0])


def coverage(subject, labels, n, draws):
    """How often 95 % intervals of "adaptive" contain the T_EC of the population, and how often ±1.96 standard errors do."""
    fits, target = many(subject, labels, n, draws), subject.target(labels)
    inside, within, near = [], [], []
    for logs, C in zip(fits.logs[fits.exist], fits.covariance[fits.exist], strict=True):
        found = Adapted(*logs.tolist(), C[0, 0], C[1, 1], C[0, 1])
        # The same as asking whether the interval contains the target, without searching for its ends.
        inside.append(0.025 <= found.draws.below(target) <= 0.975)
        within.append(abs(found.log_temperature - target) <= 1.96 * found.temperature_se / found.temperature)
        near.append(abs(found.log_ec - target) <= 1.96 * np.sqrt(C[0, 0]))
    exist = fits.exist
    t = float(np.median(fits.delta[exist] / np.sqrt(fits.variance[exist])))
    means = [float(np.mean(each)) for each in (inside, within, near)]
    return {"subject": subject.name, "labels": labels, "n": n, "t": t, "sets": len(inside), "coverage": means}


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="validation sets per network, kind of labels and size")
    parser.add_argument("--cover", type=int, default=2000, help="validation sets per interval coverage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two networks, one teacher, 20 validation sets")
    parser.add_argument("--tables-only", action="store_true", help="from the numbers of the last run")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results", help="folder of numbers and tables")
    parser.add_argument("--images", type=Path, default=ROOT / "docs/images", help="folder of pictures")
    options = parser.parse_args()
    numbers = options.out / "adaptive.json"
    found = json.loads(numbers.read_text(encoding="utf-8")) if options.tables_only else run(options, numbers)
    (options.out / "adaptive.md").write_text(report(found), encoding="utf-8")
    pictures(found, options.images)


def run(options, path):
    """All numbers, written as they come."""
    names, teachers, sizes, draws, cover = data.names(), TEACHERS, SIZES, options.draws, options.cover
    if options.quick:
        names, teachers, sizes, draws, cover = ("cifar10/resnet20", "cifar10/resnet56"), TEACHERS[-1:], (50, 400), 20, 20
    found = {"draws": draws, "cover": cover, "sizes": sizes, "networks": {}, "teachers": {}, "coverage": []}

    def note(what):
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(what, flush=True)

    for name in names:
        subject = NetworkSubject(data.load(name), options.seed)
        found["networks"][name] = {labels: study(subject, labels, sizes, draws) for labels in LABELS}
        if name in COVERED:
            cells = [(labels, n) for labels in ("clean", "half", "noisy") for n in sizes if n in (200, 400, 2000)]
            found["coverage"] += [coverage(subject, labels, n, cover) for labels, n in cells]
        found["networks"][name] |= {labels: study(subject, labels, sizes, draws) for labels in CLEAN_TEST}
        note(name)
    for teacher in teachers:
        for alpha in ALPHAS:
            subject = TeacherSubject(teacher, alpha, options.seed)
            found["teachers"][subject.name] = study(subject, "clean", sizes, draws)
            if alpha == ALPHAS[-1]:
                found["coverage"] += [coverage(subject, "clean", n, cover) for n in sizes if n in (200, 400, 2000)]
            note(subject.name)
    return found


if __name__ == "__main__":
    main()
