"""The calibration error of labels that are redrawn from the model: what an ECE must exceed to be more than chance.

Confidences stay as they are, and with them the bins; each answer is drawn right with probability c. In a bin with many wrong
answers only their weighted sum is drawn, as a normal number, so that large data sets take no longer than small ones.
"""

from dataclasses import dataclass

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.predictions import apply_map
from nishimori._sums.reliability import sort_claims
from nishimori._support.arrays import HostArray
from nishimori.maps.map import Map

# A bin whose sum has a variance of at least this many squares of its largest weight gets a normal sum. The skewness of the sum
# is then at most 1/20. With normal sums in all bins, the size for 100 samples is 6 % (bench/results/calibration_tests.md).
_NORMAL_FROM = 400.0

# This many random numbers are held at once: 8 MiB.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class RedrawnAnswers:
    """The bin, the doubt 1 − c, the weight and the correctness of each row: it grows with the rows, 25 bytes each."""

    parts: tuple[tuple[HostArray, HostArray, HostArray, HostArray], ...]

    def __add__(self, other: "RedrawnAnswers") -> "RedrawnAnswers":
        return RedrawnAnswers(self.parts + other.parts)


@dataclass(frozen=True, eq=False)
class Answer:
    """The pass that keeps the bin, the doubt, the weight and the correctness of each row after a map."""

    edges: HostArray
    map_: Map

    def __call__(self, batch: Batch) -> RedrawnAnswers:
        claims = sort_claims(Gibbs(*apply_map(self.map_, batch)), self.edges)
        return RedrawnAnswers(((claims.places[:, 0], 1 - claims.claimed[:, 0], claims.weights[:, 0], claims.true[:, 0]),))


class RedrawnECE:
    """The ECE of some answers, and that of answers drawn from the model with the same confidences."""

    def __init__(self, answers: RedrawnAnswers, n_bins: int) -> None:
        parts = zip(*answers.parts, strict=True)
        self.index, self.doubt, self.weights, self.right = (np.concatenate(each) for each in parts)
        self.n_bins = n_bins
        self.variance = self._per_bin(self.weights**2 * self.doubt * (1 - self.doubt))
        heaviest = np.zeros(n_bins)
        np.maximum.at(heaviest, self.index, self.weights)
        self.is_normal = (self.variance >= _NORMAL_FROM * heaviest**2) & (heaviest > 0)

    def _per_bin(self, values: HostArray) -> HostArray:
        return np.bincount(self.index, values, self.n_bins)

    @property
    def observed(self) -> float:
        """The ECE of the labels."""
        return float(np.abs(self._per_bin(self.weights * (~self.right - self.doubt))).sum() / self.weights.sum())

    def draw_eces(self, n_draws: int, seed: int) -> HostArray:
        """The ECE of each of some draws."""
        rng = np.random.default_rng(seed)
        rows = np.flatnonzero(~self.is_normal[self.index])
        at_once = max(1, _AT_ONCE // max(self.n_bins, len(rows)))
        parts = [self._draw(rng, rows, min(at_once, n_draws - start)) for start in range(0, n_draws, at_once)]
        return np.concatenate(parts)

    def _draw(self, rng: np.random.Generator, rows: HostArray, number: int) -> HostArray:
        draw, place = np.nonzero(rng.random((number, len(rows))) < self.doubt[rows])
        row = rows[place]
        sums = np.bincount(draw * self.n_bins + self.index[row], self.weights[row], number * self.n_bins)
        expected = np.bincount(self.index[rows], (self.weights * self.doubt)[rows], self.n_bins)
        normal = rng.normal(size=(number, self.n_bins)) * np.sqrt(self.variance * self.is_normal)
        gaps = sums.reshape(number, self.n_bins) - expected + normal
        ece: HostArray = np.abs(gaps).sum(axis=1) / self.weights.sum()
        return ece
