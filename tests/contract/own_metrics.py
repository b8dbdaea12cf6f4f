"""Metrics of one's own, in a module outside the package, with public names only: one for each way to write one."""

from dataclasses import dataclass

import numpy as np

import nishimori


@dataclass(frozen=True)
class ClassBrier(nishimori.Metric):
    """The Brier score of one class against all others."""

    name = "class_brier"
    title = "Brier of a class"
    bounds = (0.0, 1.0)

    column: int = 0

    def of_rows(self, predictions):
        return (predictions.probabilities[:, self.column] - (predictions.labels == self.column)) ** 2


@dataclass(frozen=True)
class Products:
    """Sums of weights, and of confidence, correctness and their products."""

    totals: np.ndarray

    def __add__(self, other):
        return Products(self.totals + other.totals)


class Covariance(nishimori.Metric):
    """How confidence and correctness vary together."""

    name = "covariance"
    direction = "higher"
    bounds = (-0.25, 0.25)

    def sums(self, predictions):
        c, y, w = predictions.confidence, predictions.correct, predictions.weights
        return Products(np.array([w.sum(), w @ c, w @ y, w @ (c * y), w @ w, *(w**2 @ each for each in (c, y, c * y))]))

    def of_sums(self, sums):
        w, c, y, cy, *_ = sums.totals
        return cy / w - c * y / w**2, None


class Auroc(nishimori.Metric):
    """How well confidence tells right answers from wrong ones: the share of pairs in the right order."""

    name = "auroc"
    title = "AUROC"
    direction = "higher"
    bounds = (0.0, 1.0)
    in_percent = True
    needs = "top"

    def of_outcomes(self, confidence, correct, weights):
        levels, place = np.unique(confidence, return_inverse=True)
        right = np.bincount(place, weights * correct, len(levels))
        wrong = np.bincount(place, weights * ~correct, len(levels))
        below = np.cumsum(wrong) - wrong
        return float((right * (below + wrong / 2)).sum() / (right.sum() * wrong.sum()))
