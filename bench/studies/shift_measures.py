"""Scores of a network's temperatures, fitted to half of its images and measured on the other half, under shift and label noise.

Label noise changes labels only. So a temperature is found from the mean confidence and the mean logit at all temperatures
(`Pool`), and the confidences of a test set at many temperatures are shared by all noisy versions of its labels.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from many_fits import Pool
from nishimori._fit.adaptive import kept_share
from nishimori_paper.training import _corruptions as corruptions

# What may be wrong in validation and test data: corrupted images, and wrong labels of four kinds.

CLEAN = "clean"
SEVERITIES = (1, 3, 5)
# Of the images.
CONDITIONS = (CLEAN, *(f"{kind} {severity}" for kind in corruptions.names() for severity in SEVERITIES))
# By kind of noise, what becomes of a label.
NOISES = {
    "uniform": "any other class",
    "pairs": "the next class",
    "confusion": "a class it is confused with",
    "classes": "random in some classes",
}
RATES = (0.05, 0.1, 0.2, 0.3, 0.4)
# Of the labels: a kind of noise and a rate.
VARIANTS = (("none", 0.0), *((noise, rate) for noise in NOISES for rate in RATES))


@dataclass(frozen=True)
class Network:
    """A network of the paper's authors."""

    name: str
    dataset: str
    model: str

    def weights(self, folder):
        """The file of its weights in the data folder."""
        return Path(folder) / "weights" / f"{self.dataset}_{self.model}.pt"


NETWORKS = (
    Network("CIFAR-10 ResNet20", "cifar10", "resnet20"),
    Network("CIFAR-10 ResNet56", "cifar10", "resnet56"),
    Network("SVHN ResNet20", "svhn", "resnet20"),
)


def kind_of(condition):
    """The kind of corruption, without its severity; empty for clean images."""
    return condition.rpartition(" ")[0]


def corrupted(images, condition, seed):
    """Images under one of `CONDITIONS`."""
    kind, _, severity = condition.rpartition(" ")
    return corruptions.corrupt(images, kind, int(severity), seed=seed) if kind else images


def transitions(noise, rate, confusion):
    """Probabilities of the noisy label in columns, given the true one in rows.

    Parameters
    ----------
    noise : str
        One of `NOISES`. "classes" is the noise of the paper's Appendix C: the labels of the first ``rate`` of the classes, the
        last of them perhaps in part, are uniform over all classes, the true one included. The other kinds change a share
        ``rate`` of the labels of each class.
    rate : float
        From 0 to 1.
    confusion : array of shape (n_classes, n_classes)
        How often images of a class (row) are predicted as another (column).
    """
    n = len(confusion)
    if noise == "uniform":
        wrong = (1 - np.eye(n)) / (n - 1)
    elif noise == "pairs":
        wrong = np.roll(np.eye(n), 1, axis=1)
    elif noise == "confusion":
        wrong = np.where(np.eye(n, dtype=bool), 0.0, confusion)
        # A class that is never mistaken gets any other.
        wrong = np.where(wrong.sum(axis=1, keepdims=True) > 0, wrong, 1 - np.eye(n))
        wrong = wrong / wrong.sum(axis=1, keepdims=True)
    elif noise == "classes":
        share = np.clip(n * rate - np.arange(n), 0, 1)[:, None]
        return (1 - share) * np.eye(n) + share / n
    else:
        raise ValueError(noise)
    return (1 - rate) * np.eye(n) + rate * wrong


def noisy(labels, matrix, rng):
    """Labels that are drawn from the rows of a matrix of `transitions`."""
    cumulated = np.cumsum(matrix, axis=1)[labels]
    # The last sum may be below 1 by rounding.
    return np.minimum((rng.random(labels.shape)[..., None] >= cumulated).sum(axis=-1), len(matrix) - 1)


SPLITS = 10
# Of wrong validation labels, among which is the one at which calibration stops paying; in more splits, because these are quick.
SHARES = tuple(i / 100 for i in range(21))
SHARE_SPLITS = 40
BINS = 15
METHODS = ("ec", "ts", "adaptive")
COLUMNS = (*METHODS, "none", "oracle")
MEASURES = ("gap", "ece", "nll")
SOURCES = ("clean", "matching", "mixed")  # the images that T is fitted to
PLACES = ("validation", "test", "both")  # the labels that have noise
# log T among which, and among the fitted ones, the best one is sought.
GRID = np.arange(-0.6, 3.01, 0.04)


@dataclass(frozen=True)
class Scores:
    """What is measured of one network.

    Attributes
    ----------
    shifted : array of shape (measures, conditions, splits, sources, places, variants, columns)
        Test images under each condition. Of the variants of the labels, the first is without noise.
    unshifted : array of shape (measures, conditions, splits, columns)
        Clean test images, T from validation images under each condition, labels without noise.
    logs : array of shape (conditions, splits, sources, variants, methods)
        log T, NaN where none exists; the sources as for the test images of this condition.
    errors : array of shape (conditions,)
        The share of wrong predictions, over all images.
    """

    shifted: np.ndarray
    unshifted: np.ndarray
    logs: np.ndarray
    errors: np.ndarray


def halves(n, split):
    """Numbers of the validation and of the test images."""
    order = np.random.default_rng([split, n]).permutation(n)
    return order[: n // 2], order[n // 2 :]


def confusions(labels, top, n_classes):
    """How often images of a class (row) are predicted as another (column)."""
    return np.histogram2d(labels, top, bins=n_classes, range=[[-0.5, n_classes - 0.5]] * 2)[0]


def label_draws(labels, confusion, n_splits=SPLITS, variants=VARIANTS):
    """Labels of all images, of shape (splits, variants, images); the noise is drawn anew in each split."""
    matrices = [transitions(*variant, confusion) if variant[1] else np.eye(len(confusion)) for variant in variants]
    rng = np.random.default_rng(1)
    return np.array([[noisy(labels, matrix, rng) for matrix in matrices] for _ in range(n_splits)])


def mixture(logits, kind, seed=2):
    """Logits of a mixture: each image under a random condition, clean or of another kind than ``kind``."""
    allowed = [i for i, each in enumerate(CONDITIONS) if not kind or kind_of(each) != kind]
    chosen = np.random.default_rng(seed).choice(allowed, size=logits.shape[1])
    return logits[chosen, np.arange(logits.shape[1])]


def fit(logits, validations, labels):
    """Log T of `METHODS`, of shape (splits, variants, methods); NaN where none exists."""
    n_splits, n_variants, _ = labels.shape
    chosen = np.repeat(np.stack(validations), n_variants, axis=0)
    drawn = np.concatenate([labels[i][:, each] for i, each in enumerate(validations)])
    fits = Pool(logits).fits(chosen, drawn)
    delta = fits.delta
    adaptive = fits.logs[:, 1] + kept_share(delta, fits.variance) * delta
    found = np.column_stack([fits.logs, adaptive])
    return np.where(fits.exist[:, None], found, np.nan).reshape(n_splits, n_variants, len(METHODS))


class ScoreTable:
    """Test images at many temperatures; labels come later."""

    def __init__(self, logits, logs):
        z = np.asarray(logits, dtype=np.float32)
        self.top = z.argmax(axis=1)
        self.below = z - z.max(axis=1, keepdims=True)
        self.T = np.exp(logs)
        total = np.stack([np.exp(self.below / np.float32(T)).sum(axis=1) for T in self.T])
        confidence = 1 / total
        self.confidence = confidence.mean(axis=1, dtype=np.float64)
        self.log_total = np.log(total).mean(axis=1, dtype=np.float64)
        # A confidence on the edge of a bin counts in the one below it.
        bins = np.clip(np.ceil(BINS * confidence).astype(np.int64) - 1, 0, BINS - 1)
        self.bins = bins + BINS * np.arange(len(bins))[:, None]
        self.sums = np.bincount(self.bins.ravel(), confidence.ravel(), minlength=BINS * len(bins)).reshape(-1, BINS)

    def scores(self, labels, at):
        """Measure |confidence − accuracy| and ECE in percent, and NLL, at the temperatures with the numbers ``at``."""
        right = self.top == labels
        chosen = self.bins[at]
        # Numbers of bins that start at zero, so that only the chosen temperatures are counted.
        chosen = chosen - BINS * (np.asarray(at) - np.arange(len(at)))[:, None]
        hits = np.bincount(chosen[:, right].ravel(), minlength=BINS * len(at)).reshape(-1, BINS)
        n = len(labels)
        gap = np.abs(self.confidence[at] - right.mean())
        ece = np.abs(self.sums[at] - hits).sum(axis=1) / n
        nll = self.log_total[at] - self.below[np.arange(n), labels].mean(dtype=np.float64) / self.T[at]
        return np.stack([100 * gap, 100 * ece, nll])


def table(test, labels, positions):
    """Scores of shape (measures, ..., columns) at the temperatures at ``positions``, whose last axis is that of the methods.

    The last two columns are T = 1, which is the first temperature of the test set, and the best of all that are looked at.
    """
    shape = positions.shape
    at, back = np.unique(np.concatenate([[0], np.arange(1, 1 + len(GRID)), positions.ravel()]), return_inverse=True)
    found = test.scores(labels, at)
    methods = found[:, back[1 + len(GRID) :]].reshape(len(MEASURES), *shape)
    others = np.stack([found[:, 0], found.min(axis=1)], axis=-1)
    others = np.broadcast_to(others.reshape(len(MEASURES), *(1,) * (len(shape) - 1), 2), (*methods.shape[:-1], 2))
    return np.concatenate([methods, others], axis=-1)


def measure(logits, labels, n_splits=SPLITS):
    """All scores of a network, from its logits of shape (conditions, images, classes)."""
    n = len(labels)
    top = logits.argmax(axis=2)
    draws = label_draws(labels, confusions(labels, top[0], logits.shape[2]), n_splits)
    parts = [halves(n, split) for split in range(n_splits)]
    validations = [each for each, _ in parts]
    fitted = {condition: fit(logits[i], validations, draws) for i, condition in enumerate(CONDITIONS)}
    mixed = {kind: fit(mixture(logits, kind), validations, draws) for kind in dict.fromkeys(map(kind_of, CONDITIONS))}
    shape = (len(CONDITIONS), n_splits, len(SOURCES))
    all_logs = np.empty((*shape, len(VARIANTS), len(METHODS)))
    shifted = np.empty((len(MEASURES), *shape, len(PLACES), len(VARIANTS), len(COLUMNS)))
    for i, condition in enumerate(CONDITIONS):
        all_logs[i] = np.stack([fitted[CLEAN], fitted[condition], mixed[kind_of(condition)]], axis=1)
        for split, (_, chosen) in enumerate(parts):
            shifted[:, i, split] = _of_split(logits[i, chosen], draws[split][:, chosen], all_logs[i, split])
    from_all = np.stack([fitted[condition][:, :1] for condition in CONDITIONS], axis=1)  # (splits, conditions, 1, methods)
    unshifted = np.empty((len(MEASURES), len(CONDITIONS), n_splits, len(COLUMNS)))
    for split, (_, chosen) in enumerate(parts):
        test, positions = _at(logits[0, chosen], from_all[split])
        unshifted[:, :, split] = table(test, labels[chosen], positions)[:, :, 0]
    return Scores(shifted, unshifted, all_logs, (top != labels).mean(axis=1))


def measure_shares(logits, labels, n_splits=SHARE_SPLITS):
    """Scores of clean images by share of wrong validation labels, of shape (measures, splits, noises, shares, columns)."""
    variants = [(noise, share) for noise in NOISES for share in SHARES]
    draws = label_draws(labels, confusions(labels, logits.argmax(axis=1), logits.shape[1]), n_splits, variants)
    parts = [halves(len(labels), split) for split in range(n_splits)]
    logs = fit(logits, [each for each, _ in parts], draws)
    found = []
    for split, (_, chosen) in enumerate(parts):
        test, positions = _at(logits[chosen], logs[split])
        found.append(table(test, labels[chosen], positions))
    return np.stack(found, axis=1).reshape(len(MEASURES), n_splits, len(NOISES), len(SHARES), len(COLUMNS))


def _at(logits, logs):
    """A test set at T = 1, at those of the grid and at some others, and the positions of these."""
    # Without a temperature the network stays as it is.
    others = np.nan_to_num(logs)
    every = np.concatenate([[0.0], GRID, others.ravel()])
    return ScoreTable(logits, every), (1 + len(GRID) + np.arange(others.size)).reshape(others.shape)


def _of_split(logits, labels, logs):
    """Scores of shape (measures, sources, places, variants, columns) of one condition and one split."""
    test, positions = _at(logits, logs)
    found = np.empty((len(MEASURES), len(SOURCES), len(PLACES), len(VARIANTS), len(COLUMNS)))
    found[:, :, PLACES.index("validation")] = table(test, labels[0], positions)
    for variant, noisy_labels in enumerate(labels):
        of_both = np.stack([positions[:, 0], positions[:, variant]], axis=1)
        found[:, :, 1:, variant] = table(test, noisy_labels, of_both)
    return found


# Situations in which people calibrate, and what calibration changes in each: means over networks and cells of the study.

LITTLE = (0.05, 0.1)
MUCH = (0.2, 0.3, 0.4)
CORRUPTED = tuple(each for each in CONDITIONS if each != CLEAN)


@dataclass(frozen=True)
class Situation:
    """What validation and test data look like.

    Attributes
    ----------
    validation, test : str
        In words, for a table.
    conditions : tuple of str
        Of the test images.
    source : str
        The images that T is fitted to, one of `SOURCES`, or "corrupted" for corrupted ones with clean test images.
    place : str
        Which labels have noise: one of `PLACES`, or "none".
    rates : tuple of float
        Of the noise.
    """

    validation: str
    test: str
    conditions: tuple
    source: str
    place: str = "none"
    rates: tuple = ()

    def cells(self, scores):
        """Scores of shape (measures, cells, splits, columns): a cell is a corruption with a kind and a rate of noise."""
        conditions = [CONDITIONS.index(each) for each in self.conditions]
        if self.source == "corrupted":
            return scores.unshifted[:, [CONDITIONS.index(each) for each in CORRUPTED]]
        variants = [i for i, (_, rate) in enumerate(VARIANTS) if (rate in self.rates if self.rates else i == 0)]
        place = 0 if self.place == "none" else PLACES.index(self.place)
        found = scores.shifted[:, :, :, SOURCES.index(self.source), place][:, conditions][:, :, :, variants]
        found = np.moveaxis(found, 3, 2)  # (measures, conditions, variants, splits, columns)
        return found.reshape(len(MEASURES), -1, *found.shape[3:])


def percent(rates):
    """A range of rates in words."""
    return f"{100 * rates[0]:.0f}–{100 * rates[-1]:.0f} %"


def situations():
    """By name, the situations in the order of the table."""
    found = {"nothing": Situation("clean", "clean", (CLEAN,), "clean")}
    for name, rates in (("little", LITTLE), ("much", MUCH)):
        wrong = f"{percent(rates)} wrong labels"
        found[f"validation noise, {name}"] = Situation(wrong, "clean", (CLEAN,), "clean", "validation", rates)
    for name, rates in (("little", LITTLE), ("much", MUCH)):
        wrong = f"{percent(rates)} wrong labels"
        found[f"test noise, {name}"] = Situation("clean", wrong, (CLEAN,), "clean", "test", rates)
    for name, rates in (("little", LITTLE), ("much", MUCH)):
        wrong = f"{percent(rates)} wrong labels"
        found[f"noise in both, {name}"] = Situation(wrong, "the same noise", (CLEAN,), "clean", "both", rates)
    found["test corrupted"] = Situation("clean", "corrupted images", CORRUPTED, "clean")
    found["both corrupted"] = Situation("the same corruption", "corrupted images", CORRUPTED, "matching")
    found["mixture"] = Situation("a mixture of other corruptions", "corrupted images", CORRUPTED, "mixed")
    found["validation corrupted"] = Situation("corrupted images", "clean", (CLEAN,), "corrupted")
    found["mixture, test clean"] = Situation("a mixture of corruptions", "clean", (CLEAN,), "mixed")
    for source, words in (
        ("clean", "clean images"),
        ("matching", "the same corruption"),
        ("mixed", "a mixture of other corruptions"),
    ):
        for name, rates in (("little", LITTLE), ("much", MUCH)):
            wrong = f"{words}, {percent(rates)} wrong labels"
            found[f"{source} with noise, {name}"] = Situation(wrong, "corrupted images", CORRUPTED, source, "validation", rates)
    return found


def summary(networks, situation):
    """Means over networks and cells, and how often a method is worse than no calibration.

    A cell counts as worse if the mean difference over splits exceeds its standard deviation over splits, which is about the
    standard error for one validation and one test set of this size. The standard error of a mean is that of the splits and
    that of the networks, taken together.
    """
    of_networks = [situation.cells(each) for each in networks]
    none, oracle = COLUMNS.index("none"), COLUMNS.index("oracle")
    found = {"cells": sum(each.shape[1] for each in of_networks), "none": {}, "oracle": {}}
    for column in ("none", "oracle"):
        for i, score in enumerate(MEASURES):
            found[column][score] = float(np.mean([each[i, ..., COLUMNS.index(column)].mean() for each in of_networks]))
    for j, method in enumerate(METHODS):
        row = {}
        for i, score in enumerate(MEASURES):
            changes = [each[i, ..., j] - each[i, ..., none] for each in of_networks]
            regrets = [each[i, ..., j] - each[i, ..., oracle] for each in of_networks]
            worse = np.concatenate([each.mean(axis=1) > each.std(axis=1, ddof=1) for each in changes])
            better = np.concatenate([each.mean(axis=1) < -each.std(axis=1, ddof=1) for each in changes])
            row[score] = {
                "mean": float(np.mean([each[i, ..., j].mean() for each in of_networks])),
                "change": float(np.mean([each.mean() for each in changes])),
                "se": standard_error([each.mean(axis=0) for each in changes]),
                "regret": float(np.mean([each.mean() for each in regrets])),
                "worse": float(worse.mean()),
                "better": float(better.mean()),
            }
        found[method] = row
    pairs = [each[1, ..., METHODS.index("ec")] - each[1, ..., METHODS.index("ts")] for each in of_networks]
    lower = np.concatenate([each.mean(axis=1) < -each.std(axis=1, ddof=1) for each in pairs])
    higher = np.concatenate([each.mean(axis=1) > each.std(axis=1, ddof=1) for each in pairs])
    found["ec − ts"] = {
        "change": float(np.mean([each.mean() for each in pairs])),
        "se": standard_error([each.mean(axis=0) for each in pairs]),
        "lower": float(lower.mean()),
        "higher": float(higher.mean()),
    }
    return found


def counts(networks, situation):
    """In how many cells calibration is better and worse than none, for each rate of the noise; as in `summary`."""
    found = {}
    for rate in situation.rates:
        of_networks = [replace(situation, rates=(rate,)).cells(each) for each in networks]
        cells = np.concatenate(of_networks, axis=1)  # (measures, cells, splits, columns)
        change = cells[..., : len(METHODS)] - cells[..., [COLUMNS.index("none")]]
        mean, deviation = change.mean(axis=2), change.std(axis=2, ddof=1)
        found[f"{rate:g}"] = {"cells": cells.shape[1]} | {
            method: {
                score: {"worse": int((mean > deviation)[i, :, j].sum()), "better": int((mean < -deviation)[i, :, j].sum())}
                for i, score in enumerate(MEASURES)
                if score != "gap"
            }
            for j, method in enumerate(METHODS)
        }
    return found


def standard_error(rows):
    """The standard error of a mean over networks, from one row of splits per network: of splits and networks together."""
    rows = np.array(rows)
    of_splits = rows.mean(axis=0).std(ddof=1)
    of_networks = rows.mean(axis=1).std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else 0.0
    return float(np.hypot(of_splits, of_networks))


def curves(networks):
    """Mean ECE and its standard error for the picture: by rate of each noise, and by severity for each source of T."""
    by_rate = {}
    for noise in NOISES:
        by_rate[noise] = {}
        for rate in (0.0, *RATES):
            variant = 0 if rate == 0 else VARIANTS.index((noise, rate))
            rows = [each.shifted[1, 0, :, 0, PLACES.index("validation"), variant] for each in networks]
            by_rate[noise][f"{rate:g}"] = columns(rows)
    by_severity = {}
    for source in (*SOURCES, "corrupted"):
        by_severity[source] = {}
        for severity in (0, *SEVERITIES):
            chosen = [
                i for i, each in enumerate(CONDITIONS) if each.endswith(f" {severity}") or (each == CLEAN and not severity)
            ]
            rows = [
                (each.unshifted[1] if source == "corrupted" else each.shifted[1, :, :, SOURCES.index(source), 0, 0])[
                    chosen
                ].mean(axis=0)
                for each in networks
            ]
            by_severity[source][f"{severity}"] = columns(rows)
    return {"by_rate": by_rate, "by_severity": by_severity}


def columns(rows):
    """Mean and standard error of each column; ``rows`` has an array of shape (splits, columns) for each network."""
    rows = np.array(rows)
    return {name: {"mean": float(rows[..., j].mean()), "se": standard_error(rows[..., j])} for j, name in enumerate(COLUMNS)}


def break_even(networks):
    """For each network, noise and method, the share of wrong validation labels that makes calibration as bad as none.

    ``networks`` has, by name, the scores of `measure_shares` and the share of wrong predictions. The share is where the mean
    score over splits is that of no calibration, interpolated between shares; 0 if calibration does not pay without noise, and
    the largest share if it always does. Its standard deviation is that of the shares of single splits, which is about the
    standard error for one validation and one test set of this size. A rule of thumb stands beside them: EC sets confidence to
    the noisy accuracy, so that it is off by what the noise takes from the accuracy, and without calibration confidence is off
    by the gap.
    """
    none = COLUMNS.index("none")
    found = {}
    for name, (scores, error) in networks.items():
        found[name] = {"rule": rule_of_thumb(scores[MEASURES.index("gap"), ..., none].mean() / 100, error)}
        for i, noise in enumerate(NOISES):
            changes = scores[:, :, i, :, : len(METHODS)] - scores[:, :, i][..., [none]]  # (measures, splits, shares, methods)
            found[name][noise] = {
                method: {score: break_even_share(changes[MEASURES.index(score), ..., j]) for score in ("ece", "nll")}
                for j, method in enumerate(METHODS)
            }
    return found


def break_even_share(changes):
    """Where the mean change over splits becomes positive, and the standard deviation over splits."""
    each = [crossing(SHARES, row) for row in changes]
    return {"share": crossing(SHARES, changes.mean(axis=0)), "sd": float(np.std(each, ddof=1))}


def rule_of_thumb(gap, error, n_classes=10):
    """The rate of uniform noise that takes as much from the accuracy as clean test images have of overconfidence."""
    return float(gap / (1 - error - error / (n_classes - 1)))


def crossing(rates, changes):
    """Where the changes become positive for the first time."""
    above = np.flatnonzero(np.asarray(changes) > 0)
    if not len(above):
        return float(rates[-1])
    if above[0] == 0:
        return 0.0
    low, high = above[0] - 1, above[0]
    return float(np.interp(0.0, [changes[low], changes[high]], [rates[low], rates[high]]))


def by_network(networks, names):
    """For each network: errors, temperatures, and the paper's noise in the validation labels only."""
    found = {}
    paper = VARIANTS.index(("classes", 0.1))
    for name, scores in zip(names, networks, strict=True):
        ece = scores.shifted[1, 0, :, 0, PLACES.index("validation")]
        found[name] = {
            "error": dict(zip(CONDITIONS, (100 * scores.errors).tolist(), strict=True)),
            "temperature": {
                label: dict(zip(METHODS, np.exp(np.nanmean(scores.logs[0, :, 0, variant], axis=0)).tolist(), strict=True))
                for label, variant in (("clean", 0), ("paper's noise", paper))
            },
            "ece": {
                label: {
                    column: {"mean": float(values[:, j].mean()), "sd": float(values[:, j].std(ddof=1))}
                    for j, column in enumerate(COLUMNS)
                }
                for label, values in (("clean", ece[:, 0]), ("paper's noise", ece[:, paper]))
            },
        }
    return found


def by_condition(networks):
    """For each corruption: mean ECE over networks without calibration and after EC and TS, by source of T."""
    found = {}
    for i, condition in enumerate(CONDITIONS):
        found[condition] = {"error": float(100 * np.mean([each.errors[i] for each in networks]))}
        for j, source in enumerate(SOURCES):
            found[condition][source] = columns([each.shifted[1, i, :, j, 0, 0] for each in networks])
    return found
