"""Rules that choose among calibrators, or mix them, by the out-of-fold log-probabilities of the true classes.

    rule = RULES["argmin"]
    weights = rule(held_out, names)        # (n, c) log-probabilities, c names from the simplest to the most flexible
    mixture_loss(on_test, weights)

A choice is a weight of one. The simplex of weights contains all rules, so that all are measured in the same way.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

from best_cells import Cell
from best_contestants import CANDIDATES, LEAST, NUMBERS, PEERS, Measures, Pooled, load_measures, suits
from nishimori import data

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


# Few samples of a rare class: how often a rule that chooses among calibrators does much worse than Platt scaling.
#
# One sample in 51 is of the second class, and the score of a sample is normal with mean 1 or -1 and variance 1, by its class,
# so that its true log-odds are 2·score - ln 50. The classifier says slope·score + shift. Calibrators are fitted to 200 samples
# and measured on many.

N, N_TEST, ODDS = 200, 20_000, 50
LEAST_POSITIVE = 2  # in a draw, so that no training part is without them
WORSE = 0.05


@dataclass(frozen=True)
class Classifier:
    """What the classifier says about a score."""

    slope: float
    shift: float


CLASSIFIERS = {
    "log-odds 1.5 too high": Classifier(2.0, 1.5 - float(np.log(ODDS))),
    "trained on equal classes": Classifier(2.0, 0.0),
    "log-odds twice too large": Classifier(4.0, -2 * float(np.log(ODDS))),
    "calibrated": Classifier(2.0, -float(np.log(ODDS))),
}


def _draw(n: int, rng: np.random.Generator, model: Classifier) -> tuple[np.ndarray, np.ndarray]:
    labels = (rng.random(n) < 1 / (1 + ODDS)).astype(int)
    scores = 2 * labels - 1 + rng.standard_normal(n)
    return model.slope * scores + model.shift, labels


def load_draws(kind: str, n_draws: int, cache: Path) -> dict[str, np.ndarray]:
    """The numbers of one classifier, from a simulation if the folder ``cache`` does not have them."""
    path = cache / "imbalance" / f"{kind.replace(' ', '-')}__{n_draws}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer samples of a class than folds
            found = simulate(CLASSIFIERS[kind], n_draws)
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, **found)
        unfinished.replace(path)
    with np.load(path) as arrays:
        return dict(arrays)


def simulate(model: Classifier, n_draws: int) -> dict[str, np.ndarray]:
    """The log-ratio of the test losses of each rule and of Platt scaling, one number per draw."""
    rng, found = np.random.default_rng(0), {}
    test, test_labels = _draw(N_TEST, rng, model)
    names = members("all", CANDIDATES, N)
    one = dict(zip(names, np.eye(len(names)), strict=True))
    for _ in range(n_draws):
        scores, labels = _draw(N, rng, model)
        while labels.sum() < LEAST_POSITIVE:
            scores, labels = _draw(N, rng, model)
        pooled = Pooled(scores, labels)
        (held_out,), _ = pooled.held_out(names)
        on_test = np.stack([pooled.log_true(name, test, test_labels) for name in names], axis=1)
        weights = {f"always {name}": one[name] for name in names if name != "platt"}
        for which in ("all", SET):
            some = members(which, CANDIDATES, N)
            places = [names.index(name) for name in some]
            for name, rule in RULES.items():
                weights[f"{name}: {which}"] = rule(held_out[:, places], some) @ np.eye(len(names))[places]
        reference = mixture_loss(on_test, one["platt"])
        for name, each in weights.items():
            found.setdefault(name, []).append(np.log(mixture_loss(on_test, each) / reference))
    return {name: np.array(values) for name, values in found.items()}


# The losses of all contestants and rules in all cells, and tests of non-inferiority over cells.

# How a calibrator is used: the rows of `Measures.on_test`.
WAYS = ("", ", mean over the classifiers of the folds")
# Sets of candidates with which all rules are tried.
WITH_ALL_RULES = ("all", SET)
# Two classes have the first method, more have the second.
PAIRS = {f"{two} or {more}": (two, more) for two in ("platt", "beta") for more in ("bias", "vector", "matrix")}
# The variant of scikit-learn that has the lowest loss in the folds of the training rows.
BY_FOLDS = "sklearn, chosen by folds"
ONCE, REPEATED = "argmin of 5 folds, first split", "argmin of 3×5 folds, first split"


@dataclass
class Results:
    """Numbers by contestant and cell, one row per split; and how often each candidate and each variant is chosen."""

    cells: list[Cell] = field(default_factory=list)
    numbers: dict[str, dict[Cell, np.ndarray]] = field(default_factory=dict)
    wins: dict[Cell, Counter[str]] = field(default_factory=dict)
    peer_wins: Counter[str] = field(default_factory=Counter)

    def has(self, name: str, cells: Iterable[Cell]) -> bool:
        """Whether a contestant was measured in all these cells."""
        return name in self.numbers and all(cell in self.numbers[name] for cell in cells)

    def mean(self, name: str, cell: Cell, number: str = "nll") -> float:
        """The mean over splits."""
        return float(self.numbers[name][cell][:, NUMBERS.index(number)].mean())

    def log_ratios(self, name: str, other: str, cells: Iterable[Cell], number: str = "nll") -> np.ndarray:
        """The logarithm of the ratio of the mean losses of two contestants in each cell."""
        return np.array([np.log(self.mean(name, cell, number) / self.mean(other, cell, number)) for cell in cells])

    def best_of(self, names: Iterable[str], cell: Cell, number: str = "nll") -> str:
        """The contestant of the lowest mean loss in a cell."""
        return min(names, key=lambda name: self.mean(name, cell, number))

    def strongest(self, names: Iterable[str], cells: Sequence[Cell]) -> str:
        """The contestant of the lowest mean logarithm of the loss over cells."""
        known = [name for name in names if self.has(name, cells)]
        return min(known, key=lambda name: np.mean([np.log(self.mean(name, cell)) for cell in cells]))

    def singles(self, cells: Sequence[Cell]) -> list[str]:
        """Our methods that work in all these cells, pairs of them included; not what is only there for comparison."""
        others = {*PEERS, BY_FOLDS, "none", "best"}
        return [name for name in self.numbers if name not in others and ": " not in name and self.has(name, cells)]


def collect(cells: Iterable[Cell], n_splits: int, cache: Path, *, fit: bool, nested: bool = False) -> Results:
    """Everything about these cells and their first splits; with ``fit=False`` only what the folder ``cache`` has.

    With ``nested=True`` the variants of scikit-learn are chosen by folds, too, and splits in which they were not are left out.
    """
    found, rows = Results(), {}
    needed = "nested" if nested else "ours"
    for cell in cells:
        for split in range(min(cell.n_splits, n_splits)):
            if not fit and not (cache / needed / cell.file / f"{split}.npz").exists():
                continue
            peers, ours = (load_measures(cell, split, cache, kind) for kind in ("peers", "ours"))
            for name, numbers in [*_contestants(peers, ours, cell.n_classes), *_rules(ours)]:
                rows.setdefault(name, {}).setdefault(cell, []).append(numbers)
            if nested:
                chosen = choose_peer(load_measures(cell, split, cache, "nested"))
                found.peer_wins[chosen] += 1
                rows.setdefault(BY_FOLDS, {}).setdefault(cell, []).append(peers.numbers[peers.names.index(chosen)])
            names = members(SET, ours.candidates, ours.held_out.shape[1])
            weights = RULES[RULE](_columns(ours.held_out[0], ours, names), names)
            found.wins.setdefault(cell, Counter())[names[int(weights.argmax())]] += 1
        if cell in found.wins:
            found.cells.append(cell)
    found.numbers = {name: {cell: np.array(each) for cell, each in by_cell.items()} for name, by_cell in rows.items()}
    return found


def choose_peer(nested: Measures) -> str:
    """The variant of scikit-learn that the folds of the training rows choose."""
    return nested.candidates[int(argmin(nested.held_out[0], nested.candidates).argmax())]


def _contestants(peers: Measures, ours: Measures, n_classes: int) -> list[tuple[str, np.ndarray]]:
    found = [(name, row) for each in (peers, ours) for name, row in zip(each.names, each.numbers, strict=True)]
    known = dict(found)
    return found + [(pair, known[two if n_classes == 2 else more]) for pair, (two, more) in PAIRS.items()]


def _rules(ours: Measures) -> list[tuple[str, np.ndarray]]:
    """All rules with all candidates, and the first with other sets of them and other ways."""
    found = []
    for which in SETS:
        names = members(which, ours.candidates, ours.held_out.shape[1])
        held_out = _columns(ours.held_out[0], ours, names)
        tried = RULES if which in WITH_ALL_RULES else ("argmin", "stacking")
        chosen = {rule: RULES[rule](held_out, names) for rule in tried}
        if which == "all" and len(ours.held_out) > 1:
            chosen[ONCE] = chosen["argmin"]
            chosen[REPEATED] = argmin(_columns(ours.held_out.mean(axis=0), ours, names), names)
        for rule, weights in chosen.items():
            for way, on_test in zip(WAYS, ours.on_test, strict=True):
                if way and not (which in WITH_ALL_RULES and rule in ("argmin", "stacking")):
                    continue
                found.append((f"{rule}: {which}{way}", _numbers(ours, names, weights, on_test, is_one=not way)))
    return found


def _columns(rows: np.ndarray, ours: Measures, names: Sequence[str]) -> np.ndarray:
    return rows[:, [ours.candidates.index(name) for name in names]]


def _numbers(ours: Measures, names: Sequence[str], weights: np.ndarray, on_test: np.ndarray, *, is_one: bool) -> np.ndarray:
    """The numbers of a rule; other than the loss they are known where one candidate is chosen and used as it is."""
    loss = mixture_loss(_columns(on_test, ours, names), weights)
    search = sum(ours.seconds[ours.candidates.index(name)] for name in names)
    chosen = names[int(weights.argmax())]
    found = np.full(len(NUMBERS), np.nan)
    if is_one and weights.max() == 1:
        found = ours.numbers[ours.names.index(chosen)].copy()
    found[NUMBERS.index("nll")] = loss
    found[NUMBERS.index("seconds")] = search + ours.value(chosen, "seconds")
    return found


@dataclass(frozen=True)
class NonInferiority:
    """A one-sided t-test that the mean log-ratio is below a margin; ``by_data`` is p with data sets as the units."""

    other: str
    mean: float
    error: float
    largest: float
    p: float
    by_data: float


def non_inferiority(ratios: np.ndarray, data: Sequence[str], margin: float, other: str = "") -> NonInferiority:
    """The test for one contestant; ``data`` names the data set of each cell, because cells that share it are alike."""
    kinds = sorted(set(data))
    means = np.array([np.mean([each for each, kind in zip(ratios, data, strict=True) if kind == name]) for name in kinds])
    (error, p), (_, by_data) = (_error_and_p(each, margin) for each in (ratios, means))
    return NonInferiority(other, float(ratios.mean()), error, float(ratios.max()), p, by_data)


def _error_and_p(ratios: np.ndarray, margin: float) -> tuple[float, float]:
    """The standard error of the mean, and p of the test; not numbers if there is one ratio only."""
    if len(ratios) < 2:
        return float("nan"), float("nan")
    error = float(ratios.std(ddof=1) / np.sqrt(len(ratios)))
    return error, float(stats.t.cdf((ratios.mean() - margin) / max(error, 1e-300), len(ratios) - 1))


def holm(p: Sequence[float]) -> list[float]:
    """P-values adjusted for their number by Holm's method."""
    order = np.argsort(p)
    steps = np.array(p)[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


# Candidates of "best" on the bundled networks: validation images to fit to and to choose by, test images to measure on.

QUICK = ("cifar10/resnet20",)


def load_network(name: str, cache: Path) -> Measures:
    """What rules need to know about one network, from fits if the folder ``cache`` does not have it."""
    path = cache / "networks" / f"{name.replace('/', '__')}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, **_measure(name))
        unfinished.replace(path)
    with np.load(path) as arrays:
        candidates = arrays["candidates"].tolist()
        return Measures([], np.zeros((0, 0)), candidates, arrays["held_out"], arrays["on_test"], arrays["seconds"])


def _measure(name: str) -> dict[str, np.ndarray]:
    network = data.load(name)
    pooled = Pooled(network.validation.logits.astype(float), network.validation.labels)
    test, labels = network.test.logits.astype(float), network.test.labels
    candidates = [*(each for each in CANDIDATES if suits(each, test.shape[1])), "none"]
    held_out, seconds = pooled.held_out(candidates)
    on_test = np.stack([pooled.log_true(each, test, labels) for each in candidates], axis=1)
    return {
        "candidates": np.array(candidates),
        "held_out": held_out.astype(np.float32),
        "on_test": on_test[None].astype(np.float32),
        "seconds": seconds,
    }
