"""Rules that choose among calibrators, or mix them, by the out-of-fold log-probabilities of the true classes.

    rule = RULES["argmin"]
    weights = rule(held_out, names)        # (n, c) log-probabilities, c names from the simplest to the most flexible
    mixture_loss(on_test, weights)

A choice is a weight of one. The simplex of weights contains all rules, so that all are measured in the same way.
"""

from collections.abc import Callable, Sequence

import numpy as np

from best_contestants import LEAST

Rule = Callable[[np.ndarray, Sequence[str]], np.ndarray]

# "bias or platt" is Platt scaling for two classes, and biases for more.
ALL = ("adaptive", "ts", "ec", "group", "bias or platt", "beta", "vector", "isotonic", "matrix")
SETS: dict[str, tuple[str, ...]] = {
    "all": ALL,
    "isotonic from 1,000 rows": ALL,
    "without isotonic": ("adaptive", "ts", "ec", "group", "bias or platt", "beta", "vector", "matrix"),
    "without group": ("adaptive", "ts", "ec", "bias or platt", "beta", "vector", "isotonic", "matrix"),
    "without ts and ec": ("adaptive", "group", "bias or platt", "beta", "vector", "isotonic", "matrix"),
    "without matrix": ("adaptive", "ts", "ec", "group", "bias or platt", "beta", "vector", "isotonic"),
    "without beta": ("adaptive", "ts", "ec", "group", "bias or platt", "vector", "isotonic", "matrix"),
    "small": ("adaptive", "bias or platt", "vector", "matrix"),
    "small and beta": ("adaptive", "bias or platt", "beta", "vector", "matrix"),
    "small, beta, isotonic": ("adaptive", "bias or platt", "beta", "vector", "isotonic", "matrix"),
}
# With few rows the steps of isotonic regression end at probabilities that are too small, which cross-validation rarely sees.
FEWEST_ROWS = {"isotonic from 1,000 rows": {"isotonic": 1000}}

# What `nishimori.Best` does, chosen on the first half of the cells.
RULE, SET = "argmin", "isotonic from 1,000 rows"


def members(name: str, candidates: Sequence[str], n_rows: int) -> list[str]:
    """The candidates of a set, from the simplest, as far as they work for so many rows of these data."""
    middle = "platt" if "platt" in candidates else "bias"
    named = [middle if each == "bias or platt" else each for each in SETS[name]]
    fewest = FEWEST_ROWS.get(name, {})
    return [each for each in named if each in candidates and n_rows >= fewest.get(each, 0)]


def _chosen(place: int, n: int) -> np.ndarray:
    return np.eye(n)[place]


def argmin(held_out: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The candidate of the lowest mean loss; of equal ones the simplest."""
    return _chosen(int(held_out.mean(axis=0).argmax()), len(names))


def simplest_within(n_errors: float) -> Rule:
    """The simplest candidate whose loss is within so many paired standard errors of the lowest."""

    def rule(held_out: np.ndarray, names: Sequence[str]) -> np.ndarray:
        best = int(held_out.mean(axis=0).argmax())
        excess = held_out[:, [best]] - held_out
        within = excess.mean(axis=0) <= n_errors * excess.std(axis=0, ddof=1) / np.sqrt(len(excess))
        return _chosen(int(np.flatnonzero(within)[0]), len(names))

    return rule


def stacking(prior: float = 0.0, steps: int = 500) -> Rule:
    """Weights of the mixture of the lowest out-of-fold loss, by expectation maximisation from equal weights.

    ``prior`` is a number of rows that are added to the count of each candidate.
    """

    def rule(held_out: np.ndarray, names: Sequence[str]) -> np.ndarray:
        p = np.exp(np.maximum(held_out.astype(float), np.log(LEAST)))
        weights = np.full(len(names), 1 / len(names))
        for _ in range(steps):
            total = p @ weights
            counts = weights * (p / total[:, None]).sum(axis=0) + prior
            new = counts / counts.sum()
            if np.abs(new - weights).max() < 1e-6:
                break
            weights = new
        return new

    return rule


def likelihood_weights(held_out: np.ndarray, names: Sequence[str]) -> np.ndarray:  # noqa: ARG001
    """Weights in proportion to the out-of-fold likelihood of all rows (pseudo-BMA)."""
    total = held_out.astype(float).sum(axis=0)
    weights = np.exp(total - total.max())
    return weights / weights.sum()


def equal_weights(held_out: np.ndarray, names: Sequence[str]) -> np.ndarray:  # noqa: ARG001
    """The mean of all candidates, for comparison."""
    return np.full(len(names), 1 / len(names))


RULES: dict[str, Rule] = {
    "argmin": argmin,
    "half a standard error": simplest_within(0.5),
    "one standard error": simplest_within(1.0),
    "stacking": stacking(),
    "stacking, prior 1": stacking(prior=1.0),
    "likelihood weights": likelihood_weights,
    "equal weights": equal_weights,
}


def mixture_loss(on_test: np.ndarray, weights: np.ndarray) -> float:
    """The mean log-loss of the mixture of candidates, given log-probabilities of the true classes (n, c)."""
    used = weights > 0
    p = np.exp(on_test[:, used].astype(float)) @ weights[used]
    return float(-np.log(np.maximum(p, LEAST)).mean())
