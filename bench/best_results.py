"""The losses of all contestants and rules in all cells, and tests of non-inferiority over cells."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

from best_cells import Cell
from best_contestants import NUMBERS, PEERS, Measures, load_measures
from best_rules import RULE, RULES, SET, SETS, argmin, members, mixture_loss

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
