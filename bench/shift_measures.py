"""Scores of a network's temperatures, fitted to half of its images and measured on the other half, under shift and label noise.

Label noise changes labels only. So a temperature is found from the mean confidence and the mean logit at all temperatures
(`Pool`), and the confidences of a test set at many temperatures are shared by all noisy versions of its labels.
"""

from dataclasses import dataclass

import numpy as np

from adaptive_draws import Pool
from nishimori._fit.adaptive import kept_share
from shift_conditions import CLEAN, CONDITIONS, NOISES, VARIANTS, kind_of, noisy, transitions

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
