"""The rule of ``floor="auto"`` as a plain loop over floors and folds, and votes such as forests and neighbours give."""

import numpy as np
import reference

GRID = [2.0**-52, 1e-10, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2]


def tried(n_classes):
    """All floors below 0.9/K, and 0.9/K itself."""
    return [each for each in GRID if each * n_classes < 0.9] + [0.9 / n_classes]


def folds(clusters):
    """Clusters in the order in which they appear, shuffled and dealt out to five folds."""
    numbers = {}
    for each in clusters:
        numbers.setdefault(each, len(numbers))
    n_folds = min(5, len(numbers))
    shuffled = np.random.default_rng(0).permutation(len(numbers))
    return np.array([shuffled[numbers[each]] % n_folds for each in clusters])


def losses(p, labels, weights=None, clusters=None):
    """The summed loss of held-out folds at each floor, in units of the mean weight."""
    weights = np.ones(len(p)) if weights is None else np.asarray(weights, dtype=float)
    fold_of = folds(range(len(p)) if clusters is None else list(clusters))
    found = {}
    for floor in tried(p.shape[1]):
        logits, total = np.log(np.where(p < floor, floor, p)), 0.0
        for fold in np.unique(fold_of):
            rest, held = fold_of != fold, fold_of == fold
            try:
                T = reference.ts_temperature(logits[rest], labels[rest], weights[rest])
            except ValueError:  # the gap does not change its sign: there is no temperature
                T = 1.0
            total += reference.nll(logits[held], labels[held], T, weights[held]) * weights[held].sum()
        found[floor] = total / weights.mean()
    return found


def best_floor(p, labels, weights=None, clusters=None):
    """The largest floor within 0.5 of the lowest loss, but not the largest of all."""
    found = losses(p, labels, weights, clusters)
    floors, lowest = list(found), min(found.values())
    place = max(i for i, floor in enumerate(floors) if found[floor] <= lowest + 0.5)
    return floors[min(place, len(floors) - 2)]


def votes(n, k, n_votes, seed, scale=2.0):
    """Shares of few votes, with exact zeros, and labels that are drawn from what the votes are drawn from."""
    rng = np.random.default_rng(seed)
    true = reference.softmax(scale * rng.normal(size=(n, k)))
    labels = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return rng.multinomial(n_votes, true) / n_votes, labels
