"""Fits of many random validation sets at once, from numbers that are computed once per row: what `adaptive.py` runs on.

The gap of a validation set at a temperature is a mean over its rows. `Pool` keeps confidence and expected logit of each row on
a grid of temperatures, so that the gaps of hundreds of random validation sets are one matrix product. Labels may change from
draw to draw, because they only enter as one number per row.
"""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

N_BINS = 15
# log β of the grid, wide enough for validation sets of 50 samples. Between its points gaps are interpolated by cubics.
GRID = np.linspace(-3.2, 3.2, 129)
# log T at which the scores of test samples are measured. Between them scores are interpolated linearly.
SCORED = np.linspace(-3.0, 3.0, 241)


@dataclass(frozen=True)
class Fits:
    """log T_EC and log T_TS of many validation sets, and their covariance; NaN where one does not exist.

    Attributes
    ----------
    logs : array of shape (n_sets, 2)
        EC first.
    covariance : array of shape (n_sets, 2, 2)
        The sandwich estimate of each validation set.
    """

    logs: np.ndarray
    covariance: np.ndarray

    @property
    def exist(self):
        """Which validation sets have both temperatures."""
        return np.isfinite(self.logs).all(axis=1)

    @property
    def delta(self):
        """How far log T_EC is above log T_TS."""
        return self.logs[:, 0] - self.logs[:, 1]

    @property
    def variance(self):
        """The estimated variance of `delta`."""
        C = self.covariance
        return C[:, 0, 0] + C[:, 1, 1] - 2 * C[:, 0, 1]

    def __add__(self, other):
        return Fits(np.concatenate([self.logs, other.logs]), np.concatenate([self.covariance, other.covariance]))


class Pool:
    """Rows from which validation sets are drawn."""

    def __init__(self, logits):
        z = np.asarray(logits, dtype=np.float64)
        self.top = z.argmax(axis=1)
        self.distances = z - z.max(axis=1, keepdims=True)
        self.confidence = np.empty((len(z), len(GRID)))
        self.energy = np.empty((len(z), len(GRID)))
        for j, beta in enumerate(np.exp(GRID)):
            weights = np.exp(beta * self.distances)
            total = weights.sum(axis=1)
            self.confidence[:, j] = 1 / total
            self.energy[:, j] = (weights * self.distances).sum(axis=1) / total

    def fits(self, chosen, labels):
        """Fit one validation set per row of ``chosen``, row numbers, with ``labels`` of the same shape."""
        right = self.top[chosen] == labels
        at_label = self.distances[chosen, labels]
        counts = np.zeros((len(chosen), len(self.top)))
        for i, each in enumerate(chosen):
            counts[i] = np.bincount(each, minlength=len(self.top))
        n = chosen.shape[1]
        found = [
            self._root(counts @ table / n - observed.mean(axis=1)[:, None], table, chosen, observed)
            for table, observed in ((self.confidence, right), (self.energy, at_label))
        ]
        gaps = [gap / slope[:, None] for _, gap, slope in found]
        covariance = np.array([[(a * b).sum(axis=1) for a in gaps] for b in gaps]).transpose(2, 0, 1) / n**2
        return Fits(-np.stack([x for x, _, _ in found], axis=1), covariance)

    def population(self, right):
        """Log T_EC of all rows together, whose answers are right with the probability ``right``."""
        curve = CubicSpline(GRID, self.confidence.mean(axis=0) - right.mean())
        return -float(next(x for x in curve.roots(extrapolate=False)))

    @staticmethod
    def _root(curves, table, chosen, observed):
        """Where each curve crosses zero; the gap of each row there, and the slope of the curve; NaN where it does not."""
        exists = (curves[:, 0] < 0) & (curves[:, -1] > 0)
        cell = np.where(exists, (curves > 0).argmax(axis=1) - 1, 0)
        at = CubicSpline(GRID, curves, axis=1).c[:, cell, np.arange(len(curves))]
        step = GRID[1] - GRID[0]
        low, high = np.zeros(len(curves)), np.full(len(curves), step)
        for _ in range(40):
            middle = (low + high) / 2
            above = ((at[0] * middle + at[1]) * middle + at[2]) * middle + at[3] > 0
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        share = (low / step)[:, None]
        expected = (1 - share) * table[chosen, cell[:, None]] + share * table[chosen, cell[:, None] + 1]
        slope = (3 * at[0] * low + 2 * at[1]) * low + at[2]
        x = np.where(exists, GRID[cell] + low, np.nan)
        return x, expected - observed, np.where(exists, slope, np.nan)


@dataclass(frozen=True)
class Scores:
    """ECE in percent (15 bins of equal mass) and NLL of a test set, on the grid of temperatures."""

    ece: np.ndarray
    nll: np.ndarray

    @classmethod
    def of(cls, logits, labels):
        """Measure a test set; ``labels`` holds several draws of them, one per row, over which the scores are averaged."""
        z = np.asarray(logits, dtype=np.float64)
        z = z - z.max(axis=1, keepdims=True)
        right = z.argmax(axis=1) == labels
        at_labels = np.mean([z[np.arange(len(z)), each].mean() for each in labels])
        sizes = [len(each) for each in np.array_split(z[:, 0], N_BINS)]
        starts = np.cumsum([0, *sizes[:-1]])
        ece, nll = [], []
        for T in np.exp(SCORED):
            total = np.exp(z / T).sum(axis=1)
            order = np.argsort(1 / total)
            gaps = np.add.reduceat((1 / total - right)[:, order], starts, axis=1)
            ece.append(100 * np.abs(gaps).sum(axis=1).mean() / len(z))
            nll.append(np.log(total).mean() - at_labels / T)
        return cls(np.array(ece), np.array(nll))

    def at(self, logs):
        """ECE and NLL at each log T."""
        return np.interp(logs, SCORED, self.ece), np.interp(logs, SCORED, self.nll)


def drawn_labels(labels, n_classes, rng, *, noise):
    """The labels, where those of the first tenth of the classes are uniform over all classes with probability ``noise``.

    Table 2 of the paper has a ``noise`` of 1.
    """
    chosen = (labels < n_classes // 10) & (rng.random(labels.shape) < noise)
    return np.where(chosen, rng.integers(n_classes, size=labels.shape), labels)
