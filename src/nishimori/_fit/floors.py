"""The lowest probability that a true class can have, chosen out of fold: the one rule behind ``floor="auto"``.

Forests and neighbours give exact zeros, and a zero at a true class is an infinite loss. Which floor replaces it is chosen by
what it does to samples that were held out: the samples are divided into five folds, temperature scaling is fitted to four of
them at each floor, and the log-loss of the fifth is summed over the folds. All methods take the floor that temperature scaling
takes, so that they can be compared, and so that a method that is slow to fit is fitted once. Of claims, which have no
temperature, Platt scaling is fitted in its place. The losses of expectation consistency and vector scaling have their minimum
at the same floor, or at the next one, for neighbours of 3, 10 and 20 classes.
"""

from collections.abc import Sequence
from functools import partial
from math import exp
from typing import Any

import numpy as np

from nishimori._fit.collected_samples import CollectedSamples, collect_samples
from nishimori._fit.logistic import LogisticSearch, Regression, overview
from nishimori._fit.roots import Root
from nishimori._fit.search import match
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.question import question
from nishimori._rows.rows import Rows, raise_to_floor
from nishimori._rows.scores import Scores
from nishimori._sums.observables import Energy
from nishimori._support.arrays import HostArray
from nishimori.errors import NishimoriError
from nishimori.maps.map import log_softmax

# From what float64 can tell from 1, up to almost 1/K, beyond which predictions would change.
_FLOORS = (2.0**-52, 1e-10, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2)
_LARGEST = 0.9

_FOLDS = 5

# Floors whose summed loss exceeds the lowest by at most this are as good: half a unit of log-likelihood is one standard error.
# Where none of n zeros is at a true class, a floor of 1/(2n) costs as much.
_AS_GOOD = 0.5

# A smaller logarithm is that of what exact zeros were raised to: one minus a probability is at least 1e-16 otherwise.
_ZERO = np.log(1e-30)

# This many probabilities tell the floor, of at least this many samples: 55 fits to them take about half a second.
_NUMBERS, _LEAST_ROWS = 2**18, 2**10


MAY_BE_AUTO: dict[str, Any] = {
    "words": {
        "floor": 'Smaller probabilities are raised to this. "auto" takes the largest floor whose cross-validated log-loss, '
        "summed over samples, is within 0.5 of the lowest; None raises only exact zeros, to the smallest number of their "
        "dtype. Logits have none."
    },
    "defaults": {"floor": "auto"},
}
"""The options and the default of the floor for functions that fit: arguments of `takes_rows`."""


@question("has no rows to choose a floor from")
def choose_floor(data: Rows, name: str = "logits") -> float | None:
    """The floor with the lowest out-of-fold log-loss after temperature scaling, for some rows.

    Of floors that are as good as the best, the largest is taken: where no true class has a very small probability, the loss
    hardly depends on the floor, and one that is too low costs much as soon as there is such a sample. The largest floor that
    is tried is never taken, because larger ones might be better: then it is the one below.
    """
    raise_to_floor(data, _FLOORS[0], name)  # refuses what cannot be read again
    samples = collect_samples(data, max(_NUMBERS, _LEAST_ROWS * data.n_classes), in_order=True)
    if data.is_claims:
        return _floor_of_claims(samples)
    floors = _floors_for(samples.logits)
    losses = out_of_fold_losses(samples, floors)
    return floors[min(_last_as_good(losses), len(floors) - 2)]


def _floor_of_claims(samples: CollectedSamples) -> float:
    """The floor for claims of exactly 0 or 1 among few levels, which must stay the most extreme claims.

    If there are none, it changes nothing, and is for those to come.
    """
    is_zero = samples.logits <= _ZERO
    least = float(np.exp(samples.logits[~is_zero].min()))
    floors = [floor for floor in _FLOORS if floor <= least] or [least]
    if not is_zero.any():
        return floors[-1]
    return floors[_last_as_good(out_of_fold_losses(samples, floors, of_claims=True))]


def _last_as_good(losses: Sequence[float]) -> int:
    """The index of the last loss that equals the lowest."""
    return max(place for place, loss in enumerate(losses) if loss <= min(losses) + _AS_GOOD)


def _floors_for(logits: HostArray) -> list[float]:
    """The floors to try, ascending, at least two. Floors below all probabilities have no effect: only the largest is tried."""
    most = _LARGEST / logits.shape[1]
    floors = [floor for floor in _FLOORS if floor < most] + [most]
    below = int((np.log(floors) <= logits.min()).sum())
    return floors[min(max(below - 1, 0), len(floors) - 2) :]


def out_of_fold_losses(samples: CollectedSamples, floors: Sequence[float], *, of_claims: bool = False) -> list[float]:
    """The summed log-loss of each fold, after temperature scaling of the others, at each floor; weights are 1 on average.

    Of claims, after Platt scaling.
    """
    folds, n_folds = _folds(samples)
    starts = [0.0] * n_folds  # of log β; the answer at the floor below is a good start
    weights = samples.weights / samples.weights.mean()
    losses = []
    for floor in floors:
        logits = np.maximum(samples.logits, np.log(floor))
        total = 0.0
        for fold in range(n_folds):
            held = folds == fold
            fitted = ~held if n_folds > 1 else held  # a single cluster is all there is
            others = logits[fitted], samples.labels[fitted], weights[fitted]
            if of_claims:
                slope, intercept = _platt(*others)
                logs = log_softmax(slope * logits[held] + np.array([0.0, intercept]))
            else:
                starts[fold] = _log_beta(*others, starts[fold])
                logs = log_softmax(exp(starts[fold]) * logits[held])
            total -= float(weights[held] @ logs[np.arange(len(logs)), samples.labels[held]])
        losses.append(total)
    return losses


def _folds(samples: CollectedSamples) -> tuple[HostArray, int]:
    """The fold of each sample, and the number of folds: clusters are dealt out in a fixed random order.

    Clusters are numbered as they come; without any, each sample is its own.
    """
    codes = np.arange(samples.n_samples)
    if samples.clusters is not None:
        _, first, places = np.unique(samples.clusters, return_index=True, return_inverse=True)
        codes = np.argsort(np.argsort(first))[places]
    number = int(codes.max()) + 1
    n_folds = min(_FOLDS, number)
    return np.random.default_rng(0).permutation(number)[codes] % n_folds, n_folds


def _log_beta(logits: HostArray, labels: HostArray, weights: HostArray, start: float) -> float:
    """Log β of temperature scaling; 0, which leaves probabilities unchanged, if there is none."""
    rows = ArrayRows(Scores(logits, "logits"), labels, weights)
    try:
        (root,) = match(rows, Energy(), starts=[start]).roots
    except NishimoriError:
        return 0.0
    return root.x if isinstance(root, Root) else 0.0


def _platt(logits: HostArray, labels: HostArray, weights: HostArray) -> tuple[float, float]:
    """Slope and intercept of Platt scaling; 1 and 0, which leave probabilities unchanged, if there are none."""
    rows = ArrayRows(Scores(logits, "logits"), labels, weights)
    seen = rows.gather(partial(overview, ("s",)))
    negative, positive = seen.classes.numbers(counts=False).tolist()
    smoothing = 1 / (negative + 2), 1 / (positive + 2)
    try:
        slope, intercept = (
            LogisticSearch(rows, seen)
            .least_loss(Regression.from_overview(("s",), seen, has_constant=True, smoothing=smoothing))
            .values
        )
    except NishimoriError:
        return 1.0, 0.0
    return float(slope), float(intercept)
