"""The lowest probability that a true class can have, chosen out of fold: the one rule behind ``floor="auto"``.

Forests and neighbours give exact zeros, and a zero at a true class is an infinite loss. Which floor replaces it is chosen by
what it does to samples that were held out: the samples are divided into five folds, temperature scaling is fitted to four of
them at each floor, and the log-loss of the fifth is summed over the folds. All methods take the floor that temperature scaling
takes, so that they can be compared, and so that a method that is slow to fit is fitted once. The losses of expectation
consistency and vector scaling have their minimum at the same floor, or at the next one, for neighbours of 3, 10 and 20 classes.
"""

from collections.abc import Sequence
from math import exp
from typing import Any, NamedTuple

import numpy as np

from nishimori._fit.roots import Root
from nishimori._fit.search import match
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, raise_to_floor
from nishimori._rows.scores import Scores
from nishimori._sums.observables import Energy
from nishimori._support.arrays import HostArray, on_host
from nishimori.errors import NishimoriError

# From what float64 can tell from 1, up to almost 1/K, beyond which predictions would change.
_FLOORS = (2.0**-52, 1e-10, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2)
_LARGEST = 0.9

_FOLDS = 5

# Floors whose summed loss exceeds the lowest by at most this are as good: half a unit of log-likelihood is one standard error.
# Where none of n zeros is at a true class, a floor of 1/(2n) costs as much.
_AS_GOOD = 0.5

# This many probabilities tell the floor, of at least this many samples: 55 fits to them take about half a second.
_NUMBERS, _LEAST_ROWS = 2**18, 2**10


MAY_BE_AUTO: dict[str, Any] = {
    "words": {
        "floor": 'Smaller probabilities are raised to this. "auto" chooses the floor of the lowest out-of-fold log-loss, as '
        "for `ExpectationConsistency`; None raises only exact zeros, to the smallest number of their dtype. Logits have none."
    },
    "defaults": {"floor": "auto"},
}
"""What the floor may be, and is by default, where something is fitted: arguments of `takes_rows`."""


class Samples(NamedTuple):
    """Probabilities (n, k) as they came, true columns, positive weights, and the number of the cluster of each sample."""

    probabilities: HostArray
    labels: HostArray
    weights: HostArray
    clusters: HostArray


@question("has no rows to choose a floor from")
def choose_floor(data: Rows, name: str = "logits") -> float | None:
    """The floor of the lowest out-of-fold log-loss after temperature scaling, for some rows.

    Of floors that are as good as the best, the largest is taken: where no true class has a very small probability, the loss
    hardly depends on the floor, and one that is too low costs much as soon as there is such a sample. The largest floor that
    is tried is never taken, because larger ones might be better: then it is the one below.
    """
    collected = _Collect(data.n_classes)
    raise_to_floor(data, _FLOORS[0], name)  # refuses what cannot be read again
    data.gather(collected)
    return best_floor(collected.samples())


def best_floor(samples: Samples) -> float:
    """The rule itself, for samples in memory."""
    floors = floors_for(samples.probabilities)
    losses = out_of_fold_losses(samples, floors)
    largest = max(place for place, loss in enumerate(losses) if loss <= min(losses) + _AS_GOOD)
    return floors[min(largest, len(floors) - 2)]


def floors_for(probabilities: HostArray) -> list[float]:
    """The floors to try, ascending, two at least. Those below all probabilities change nothing: the largest stands for all."""
    most = _LARGEST / probabilities.shape[1]
    floors = [floor for floor in _FLOORS if floor < most] + [most]
    below = sum(floor <= probabilities.min() for floor in floors)
    return floors[min(max(below - 1, 0), len(floors) - 2) :]


def out_of_fold_losses(samples: Samples, floors: Sequence[float]) -> list[float]:
    """The summed log-loss of each fold, after temperature scaling of the others, at each floor; weights are 1 on average."""
    folds, n_folds = _folds(samples.clusters)
    starts = [0.0] * n_folds  # of log β; the answer at the floor below is a good start
    weights = samples.weights / samples.weights.mean()
    losses = []
    for floor in floors:
        logits = np.log(np.maximum(samples.probabilities, floor))
        total = 0.0
        for fold in range(n_folds):
            held = folds == fold
            fitted = ~held if n_folds > 1 else held  # a single cluster is all there is
            starts[fold] = _log_beta(logits[fitted], samples.labels[fitted], weights[fitted], starts[fold])
            total += float(weights[held] @ _loss(exp(starts[fold]) * logits[held], samples.labels[held]))
        losses.append(total)
    return losses


def _folds(clusters: HostArray) -> tuple[HostArray, int]:
    """The fold of each sample, and their number: clusters in random order, the same each time, dealt out in turn."""
    number = int(clusters.max()) + 1
    n_folds = min(_FOLDS, number)
    return np.random.default_rng(0).permutation(number)[clusters] % n_folds, n_folds


def _log_beta(logits: HostArray, labels: HostArray, weights: HostArray, start: float) -> float:
    """Log β of temperature scaling; 0, which leaves probabilities as they are, where there is none."""
    rows = ArrayRows(Scores(logits, "logits"), labels, weights)
    try:
        (root,) = match(rows, Energy(), starts=[start]).roots
    except NishimoriError:
        return 0.0
    return root.x if isinstance(root, Root) else 0.0


def _loss(logits: HostArray, labels: HostArray) -> HostArray:
    """The cross-entropy of each row."""
    drops = logits - logits.max(axis=1, keepdims=True)
    losses: HostArray = np.log(np.exp(drops).sum(axis=1)) - drops[np.arange(len(drops)), labels]
    return losses


class _Collect:
    """A pass that keeps rows, up to a number of them: of more, a random part, which does not depend on how they are cut.

    It is called with the batches in their order, in this process.
    """

    def __init__(self, n_classes: int) -> None:
        self._most = max(_NUMBERS // n_classes, _LEAST_ROWS)
        self._draw = np.random.default_rng(0)
        self._share = 1.0
        self._parts: list[tuple[HostArray, ...]] = []

    def __call__(self, batch: Batch) -> int:
        assert batch.probabilities is not None, "only probabilities have a floor"
        drawn = self._draw.random(batch.n_rows)
        codes = np.full(batch.n_rows, -1) if batch.clusters is None else batch.clusters.codes
        part = (drawn, on_host(batch.probabilities), on_host(batch.labels), on_host(batch.weights), codes)
        self._parts.append(tuple(column[drawn < self._share] for column in part))
        while sum(len(kept[0]) for kept in self._parts) > self._most:
            self._share /= 2
            self._parts = [tuple(column[part[0] < self._share] for column in part) for part in self._parts]
        return 0

    def samples(self) -> Samples:
        """What was kept. Clusters are numbered as they come; without any, each row is its own."""
        _, probabilities, labels, weights, codes = (np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        if codes[0] < 0:
            return Samples(probabilities, labels, weights, np.arange(len(labels)))
        _, first, places = np.unique(codes, return_index=True, return_inverse=True)
        return Samples(probabilities, labels, weights, np.argsort(np.argsort(first))[places])
