"""The study behind the method "adaptive": how well EC, TS and mixtures of both do with few validation samples.

    python bench/studies/adaptive.py                    # all networks and teachers, some 15 minutes on one core
    python bench/studies/adaptive.py --quick            # a few of them, in seconds; the numbers mean little
    python bench/studies/adaptive.py --tables-only      # tables and pictures again, from the numbers of the last run

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

import matplotlib
import numpy as np
from scipy.special import expit, ndtri

from many_fits import SCORED, Pool, Scores, drawn_labels
from nishimori import data
from nishimori._fit.adaptive import Adapted, kept_share
from nishimori.plot._style import COLORS, HUES, MARKERS
from nishimori_paper import theory

# Tables and pictures of the study of the method "adaptive", from the numbers that `bench/studies/adaptive.py` has written.

METRICS = {"ece": 0, "nll": 1, "distance": 2}
KINDS = {"clean": "clean labels", "noisy": "Table 2's label noise", "half": "half of that noise"}
CLEAN_TEST_TITLES = {
    "noisy, clean test": "Table 2's noise in the validation labels",
    "half, clean test": "half of that noise there",
}
CRITERION, LARGE = 0.1, 400
NAMES = {"ec": "EC", "ts": "TS", "adaptive": "adaptive"}


class Numbers:
    """Means of one metric over random validation sets, as arrays with one row per network."""

    def __init__(self, found):
        self.found = found
        self.sizes = [str(n) for n in found["sizes"]]
        self.networks = list(found["networks"])
        first = found["networks"][self.networks[0]]["clean"][self.sizes[0]]
        self.methods = [name for name in first if name not in ("without", "t", "follow", "none")]
        self.forms = [name for name in self.methods if name not in NAMES]

    def of(self, method, labels, metric="ece", networks=None):
        """Array of shape (networks, sizes)."""
        return np.array(
            [
                [self.found["networks"][name][labels][n][method][METRICS[metric]] for n in self.sizes]
                for name in networks or self.networks
            ]
        )

    def of_teachers(self, method):
        """Mean ECE, of shape (teachers, sizes)."""
        return np.array([[each[n][method][0] for n in self.sizes] for each in self.found["teachers"].values()])

    def regret(self, method, labels, networks=None):
        """By how much the mean ECE exceeds that of the better one of EC and TS, for each size."""
        means = {name: self.of(name, labels, networks=networks).mean(axis=0) for name in (method, "ec", "ts")}
        return means[method] - np.minimum(means["ec"], means["ts"])

    def largest(self, method, labels):
        """The largest regret of one network, for each size."""
        better = np.minimum(self.of("ec", labels), self.of("ts", labels))
        return (self.of(method, labels) - better).max(axis=0)

    def follow(self, labels):
        """Cov(log T_TS, δ)/Var(δ), median over validation sets, of shape (networks, sizes)."""
        return np.array([[self.found["networks"][name][labels][n]["follow"] for n in self.sizes] for name in self.networks])

    def worst(self, method, networks=None):
        """The larger one of the regrets with clean and with noisy labels, for each size."""
        return np.maximum(*(self.regret(method, labels, networks) for labels in ("clean", "noisy")))

    def worst_of_teachers(self, method):
        """The largest regret of a teacher, for each size."""
        better = np.minimum(self.of_teachers("ec"), self.of_teachers("ts"))
        return (self.of_teachers(method) - better).max(axis=0)


def standard_error(values):
    """Of the mean over the first axis; zero for one value."""
    return values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.zeros(values.shape[1:])


def table(header, rows):
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def scores_table(numbers, labels, metric, digits, unit=1.0):
    """Means of EC, TS and adaptive, and paired differences with standard errors over networks."""
    rows = []
    for name, title in NAMES.items():
        values = unit * numbers.of(name, labels, metric)
        bars = standard_error(values)
        rows.append([title, *(f"{v:.{digits}f} ± {s:.{digits}f}" for v, s in zip(values.mean(axis=0), bars, strict=True))])
    for other in ("ec", "ts"):
        paired = unit * (numbers.of("adaptive", labels, metric) - numbers.of(other, labels, metric))
        cells = zip(paired.mean(axis=0), standard_error(paired), strict=True)
        rows.append([f"adaptive - {NAMES[other]}", *(f"{v:+.{digits}f} ± {s:.{digits}f}" for v, s in cells)])
    return table(["n", *numbers.sizes], rows)


def regret_table(numbers):
    """The larger regret of clean and noisy labels, for each size."""
    rows = [[title, *(f"{v:.2f}" for v in numbers.worst(name))] for name, title in NAMES.items()]
    return table(["worst regret, points", *numbers.sizes], rows)


def largest_table(numbers):
    """The largest regret of one network, for each kind of labels and each size."""
    rows = [
        [f"{title}, {KINDS[labels]}", *(f"{v:.2f}" for v in numbers.largest(name, labels))]
        for labels in KINDS
        for name, title in NAMES.items()
    ]
    return table(["largest regret, points", *numbers.sizes], rows)


def clean_test_table(numbers):
    """On clean test labels: mean ECE without calibration and of each method, its regret, and the largest of one network."""
    rows = []
    for labels, title in ({"clean": "clean labels"} | CLEAN_TEST_TITLES).items():
        for name, method in (NAMES | {"none": "no calibration"}).items():
            cells = zip(
                numbers.of(name, labels).mean(axis=0), numbers.regret(name, labels), numbers.largest(name, labels), strict=True
            )
            rows.append([f"{method}, {title}", *(f"{mean:.2f}, {signed(regret)} ({most:.2f})" for mean, regret, most in cells)])
    return table(["ECE, regret (largest regret)", *numbers.sizes], rows)


def signed(value):
    """Two digits and a sign."""
    return f"{value + 0.0:+.2f}"


def follow_table(numbers):
    """Cov(log T_TS, δ)/Var(δ): mean over networks, least and largest."""
    rows = []
    for labels, title in KINDS.items():
        found = numbers.follow(labels)
        cells = zip(found.mean(axis=0), found.min(axis=0), found.max(axis=0), strict=True)
        rows.append([title, *(f"{mean:+.2f} ({low:+.2f} to {high:+.2f})" for mean, low, high in cells)])
    return table(["labels", *numbers.sizes], rows)


def forms_table(numbers):
    """Each form and c: worst regret by size, its mean, and the same for the teachers."""
    header = ["share kept", "c", *(f"n = {n}" for n in numbers.sizes), "mean", "mean, teachers"]
    rows = []
    for name in numbers.forms:
        form, c = name.split(" | ")
        worst, other = numbers.worst(name), numbers.worst_of_teachers(name).mean()
        rows.append([form, c, *(f"{v:.2f}" for v in worst), f"{worst.mean():.3f}", f"{other:.3f}"])
    return table(header, rows)


def family(name):
    """Networks that are left out together."""
    data, _, model = name.partition("/")
    return "authors" if "authors" in model else "fractions" if "fraction" in model else data


def left_out(numbers, group):
    """Choose form and c without some networks, and use it on them: regret there, and what was chosen."""
    parts = sorted({group(name) for name in numbers.networks})
    held, chosen = {labels: [] for labels in KINDS}, []
    for part in parts:
        inside = [name for name in numbers.networks if group(name) == part]
        outside = [name for name in numbers.networks if group(name) != part]
        if not outside:
            return None
        best = min(numbers.forms, key=lambda form: numbers.worst(form, outside).mean())
        chosen.append(best)
        for labels, values in held.items():
            values.append(numbers.of(best, labels, networks=inside))
    result = {}
    for labels, values in held.items():
        better = np.minimum(*(numbers.of(name, labels).mean(axis=0) for name in ("ec", "ts")))
        result[labels] = np.concatenate(values).mean(axis=0) - better
    return result, chosen


def left_out_table(numbers):
    """Regrets on networks that form and c were not chosen on."""
    rows, told = [], []
    for title, group in {"one network": lambda name: name, "one family": family}.items():
        found = left_out(numbers, group)
        if found is None:
            continue
        regrets, chosen = found
        rows += [[title, KINDS[labels], *(f"{v:+.2f}" for v in values)] for labels, values in regrets.items()]
        counts = {name: chosen.count(name) for name in sorted(set(chosen))}
        told.append(f"{title}: " + ", ".join(f"{name.replace(' | ', ' with c = ')} ({n})" for name, n in counts.items()))
    return table(["left out", "labels", *numbers.sizes], rows), "; ".join(told)


def teachers_table(numbers):
    """Mean ECE of each teacher after EC, TS and adaptive."""
    rows = []
    for i, (name, each) in enumerate(numbers.found["teachers"].items()):
        cells = [" / ".join(f"{numbers.of_teachers(m)[i, j]:.2f}" for m in NAMES) for j in range(len(numbers.sizes))]
        missing = each[numbers.sizes[0]]["without"] / numbers.found["draws"]
        rows.append([name, *cells, f"{100 * missing:.0f} %"])
    for method, title in NAMES.items():
        worst = numbers.worst_of_teachers(method)
        rows.append([f"worst regret of {title}", *(f"{v:.2f}" for v in worst), ""])
    return table(["EC / TS / adaptive", *(f"n = {n}" for n in numbers.sizes), f"without T, n = {numbers.sizes[0]}"], rows)


def coverage_table(found):
    """Coverage of 95 % intervals."""
    rows = []
    for each in found["coverage"]:
        labels = KINDS[each["labels"]] if "/" in each["subject"] else ""
        cover = (f"{100 * share:.1f}" for share in each["coverage"])
        rows.append([each["subject"], labels, each["n"], f"{each['t']:+.1f}", each["sets"], *cover])
    header = [
        "network or teacher",
        "labels",
        "n",
        "median δ/sd",
        "sets",
        "percentile interval, %",
        "± 1.96 se, %",
        "EC alone, %",
    ]
    return table(header, rows)


def verdict(numbers):
    """Whether the criterion for the default is met."""
    large = [i for i, n in enumerate(numbers.sizes) if int(n) >= LARGE]
    small = [i for i, n in enumerate(numbers.sizes) if int(n) < LARGE]
    adaptive, ec, ts = (numbers.worst(name) for name in ("adaptive", "ec", "ts"))
    near = adaptive[large].max() <= CRITERION
    smaller = (adaptive[small] < np.minimum(ec, ts)[small]).all()
    return (
        f"From {LARGE} samples on, the mean ECE of adaptive is within {adaptive[large].max():.2f} points of the better one of "
        f"EC and TS ({CRITERION} are allowed): {'met' if near else 'not met'}. Below, its worst regret is "
        f"{'smaller' if smaller else 'not smaller'} than those of EC and TS at every size: {'met' if smaller else 'not met'}."
    )


def missing_line(numbers):
    """How many validation sets have not both temperatures."""
    parts = []
    for labels, title in KINDS.items():
        share = [
            np.mean([numbers.found["networks"][name][labels][n]["without"] for name in numbers.networks])
            / numbers.found["draws"]
            for n in numbers.sizes[:3]
        ]
        parts.append(
            f"{title}: " + ", ".join(f"{100 * v:.1f} % at n = {n}" for v, n in zip(share, numbers.sizes, strict=False))
        )
    return "; ".join(parts)


def report(found):
    """The tables as Markdown."""
    numbers = Numbers(found)
    left, told = left_out_table(numbers)
    covered = np.array([each["coverage"] for each in found["coverage"]])
    sections = [
        "# EC that adapts: the study",
        f"Written by `bench/studies/adaptive.py`. {len(numbers.networks)} networks, {len(found['teachers'])} teachers, "
        f"{found['draws']:,} validation sets per cell, {found['cover']:,} per coverage. ECE in percent: 15 bins of equal "
        "mass, 5,000 test images. Errors are standard errors of means over networks, so they include the differences between "
        "networks; compare methods by the paired differences. Most networks are tested on the same images: what other images "
        "would change in all of them alike is not in these errors. Validation sets without both temperatures are left out: "
        f"{missing_line(numbers)}.",
        *(f"## Test ECE, {title}\n\n{scores_table(numbers, labels, 'ece', 2)}" for labels, title in KINDS.items()),
        f"## Worst regret over clean labels and Table 2's noise\n\n{regret_table(numbers)}\n\n{verdict(numbers)}",
        f"## Largest regret of one network\n\n{largest_table(numbers)}",
        "## Clean test labels\n\nTest labels are clean, and validation labels are clean or not. ECE in percent, mean over "
        "networks; by how much it exceeds that of the better one of EC and TS; and the same of the network where it is largest."
        f"\n\n{clean_test_table(numbers)}",
        *(f"## Test ECE, {title}\n\n{scores_table(numbers, labels, 'ece', 2)}" for labels, title in CLEAN_TEST_TITLES.items()),
        "## How log T_TS and δ vary together\n\nCov(log T_TS, δ)/Var(δ), 0 if TS is efficient: mean over networks, and "
        f"the least and largest network, of medians over validation sets.\n\n{follow_table(numbers)}",
        *(f"## NLL, {title}\n\n{scores_table(numbers, labels, 'nll', 4)}" for labels, title in KINDS.items()),
        *(
            f"## Mean of 100·|log T − log T_EC of the population|, {title}\n\n"
            f"{scores_table(numbers, labels, 'distance', 2, 100.0)}"
            for labels, title in KINDS.items()
        ),
        "## Forms and c\n\nThe worst regret over clean and noisy labels, in points of ECE, with t² = δ²/Var(δ). The method "
        "adaptive is t²/(t² + c) with c = 1. Last: the largest regret of a teacher, mean over sizes.\n\n"
        f"{forms_table(numbers)}",
        "## Chosen without the networks that are reported\n\nRegret of the mean ECE, in points. Chosen when leaving out "
        f"{told}. Half of the noise was never used to choose.\n\n{left}",
        f"## Teachers\n\nECE in percent, exact and without bins.\n\n{teachers_table(numbers)}",
        "## Coverage of 95 % intervals for the T_EC of the population\n\nLowest and highest: percentile interval "
        f"{100 * covered[:, 0].min():.1f} to {100 * covered[:, 0].max():.1f} %, ± 1.96 standard errors "
        f"{100 * covered[:, 1].min():.1f} to {100 * covered[:, 1].max():.1f} %, EC alone {100 * covered[:, 2].min():.1f} to "
        f"{100 * covered[:, 2].max():.1f} %.\n\n{coverage_table(found)}",
    ]
    return "\n\n".join(sections) + "\n"


# Pictures of the study of the method "adaptive": test ECE against the number of samples, and what intervals cover.

LOOKS = {
    "ec": {"color": COLORS["ec"], "marker": MARKERS["ec"]},
    "ts": {"color": COLORS["ts"], "marker": MARKERS["ts"]},
    "adaptive": {"color": COLORS["after"], "marker": MARKERS["after"]},
}
NOTE = {"ha": "right", "va": "bottom", "color": "0.35", "fontsize": 9}
LINE = {"markersize": 5, "linewidth": 1.3, "capsize": 2.5}


def pictures(found, folder):
    """Draw both."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    numbers = Numbers(found)
    for name, draw in {"adaptive-ece": ece, "adaptive-interval": interval}.items():
        figure = draw(numbers, pyplot)
        figure.savefig(folder / f"{name}.png", dpi=120)
        pyplot.close(figure)


def ece(numbers, pyplot):
    """Mean test ECE above, paired differences to EC and TS below, one column per kind of labels."""
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 7.4), sharex=True, layout="constrained")
    sizes = np.array(numbers.sizes, dtype=float)
    for column, (labels, title) in zip(axes.T, KINDS.items(), strict=True):
        for name, look in LOOKS.items():
            means = numbers.of(name, labels).mean(axis=0)
            column[0].plot(sizes, means, label=NAMES[name], **look, markersize=5, linewidth=1.3)
        column[0].set(title=title, ylim=(0, None), ylabel="mean test ECE, %")
        column[0].legend(loc="lower left")
        column[1].axhspan(-CRITERION, CRITERION, color="0.9", zorder=0)
        column[1].axhline(0, color="0.4", linewidth=0.9)
        for other, shift in (("ec", 0.97), ("ts", 1.03)):
            paired = numbers.of("adaptive", labels) - numbers.of(other, labels)
            bars = standard_error(paired)
            column[1].errorbar(
                shift * sizes, paired.mean(axis=0), bars, label=f"adaptive - {NAMES[other]}", **LOOKS[other], **LINE
            )
        column[1].set(ylabel="difference of the ECEs, points", xlabel="validation samples", xscale="log", ylim=(-2.5, 0.6))
        for ax in column:
            ax.grid(alpha=0.3)
            ax.set_xticks(sizes, numbers.sizes)
            ax.set_xticks([], minor=True)
    axes[1, 0].legend(loc="lower left")
    axes[1, 0].text(0.98, 0.04, "below 0: adaptive is better\ngrey: within 0.1 points", **NOTE, transform=axes[1, 0].transAxes)
    return figure


def interval(numbers, pyplot):
    """How much of δ is kept, and the coverage of intervals, both against δ in units of its standard deviation."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    t = np.linspace(0, 6, 400)
    left.plot(t, kept_share(t, 1.0), color=COLORS["after"], label="adaptive: t²/(t² + 1)")
    left.plot(t, np.maximum(0, 1 - 1 / np.maximum(t, 1e-9) ** 2), "--", color=HUES["grey"], label="1 - 1/t², not below 0")
    left.plot(t, t**4 / (t**4 + 4), ":", color=HUES["grey"], label="t⁴/(t⁴ + 2²)")
    left.set(
        xlabel="t = |log T_EC - log T_TS| / standard deviation", ylabel="share of the difference that is kept", xlim=(0, 6)
    )
    left.legend(loc="lower right")
    cells = numbers.found["coverage"]
    x = np.abs([each["t"] for each in cells])
    covered = 100 * np.array([each["coverage"] for each in cells])
    right.axhspan(93, 97, color="0.9", zorder=0)
    right.axhline(95, color="0.4", linewidth=0.9)
    right.plot(x, covered[:, 1], "x", color=HUES["purple"], label="± 1.96 standard errors")
    right.plot(x, covered[:, 0], MARKERS["after"], color=COLORS["after"], markersize=5, label="percentile interval")
    right.set(xlabel="median of t over validation sets", ylabel="coverage of the population's T_EC, %", ylim=(90, 100))
    right.legend(loc="upper right")
    for ax in (left, right):
        ax.grid(alpha=0.3)
    return figure


ROOT = Path(__file__).parents[2]
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
