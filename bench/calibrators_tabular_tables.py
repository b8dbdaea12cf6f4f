"""Tables of the study of scikit-learn's classifiers, from the rows that `bench/calibrators_tabular.py` has measured."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from calibrators_tables import HARM, duration, table, win_rates
from tabular_sets import SHARES

TITLES = {False: "Three and ten classes", True: "Two classes"}
INTRODUCTION = """Written by `bench/calibrators_tabular.py`, which says what is fitted and measured, and
`bench/tabular_sets.py`, which says how data are divided: 40 % to train on, 30 % to calibrate with (*n*), 30 % to measure on.
Numbers are means over random divisions: 20 for iris and wine, 10 for the others. A method that refuses the calibration rows
leaves the scores as they are; *refused* counts this. *NLL against none* is the geometric mean over data sets and classifiers
of the NLL after the method divided by that of the scores as they are, minus 1. The ECE of the predicted class (15 bins of
equal width) is corrected for the bias of small bins. *Win rate* is the share of pairs (other method, data set with
classifier) in which the mean over divisions is lower, ties counted as halves, with variants left out. Its 95 % interval is
from a bootstrap that draws whole data sets, as in CalArena: with two or three data sets it is coarse, and says only how far
these differ from each other. *Better* and *worse than TS* count pairs of data set and classifier on which the NLL differs
from that after TS by more than two standard errors. These are paired, and corrected for the rows that divisions share (Nadeau
and Bengio 2003, doi:10.1023/A:1024068626366): the variance over divisions times 1/divisions + (test rows)/(other rows). *Fit*
is the median processor time."""
BY_MODEL_NOTE = """NLL after each method against none, in percent: geometric mean over data sets. Negative: better than the
scores as they are."""
FEW_NOTE = """The same with all calibration rows and with 50 of them, over all classifiers. *Worse than TS* counts as above."""
PAIRS_NOTE = """NLL after each method minus NLL after TS, times 1,000, with its corrected paired standard error. Bold: more
than two standard errors, in either direction."""


class Divisions:
    """Values per pair of data set and classifier, for one number of calibration rows."""

    def __init__(self, rows: Iterable[Any], size: str = "all") -> None:
        self.rows = [row for row in rows if row.size == size]
        self.methods = list(dict.fromkeys(row.method for row in self.rows))
        self.pairs = list(dict.fromkeys((row.data, row.model) for row in self.rows))
        self._by_place: dict[tuple[str, str, str], list[Any]] = {}
        for row in sorted(self.rows, key=lambda row: row.seed):
            self._by_place.setdefault((row.data, row.model, row.method), []).append(row)

    def of(self, name: str, method: str, model: str | None = None) -> np.ndarray:
        """The mean over divisions of each pair, or of those with one classifier."""
        pairs = [pair for pair in self.pairs if model in (None, pair[1])]
        return np.array([np.mean(self.all(name, pair, method)) for pair in pairs])

    def all(self, name: str, pair: tuple[str, str], method: str) -> np.ndarray:
        """One number per division."""
        return np.array([getattr(row, name) for row in self._by_place[*pair, method]], dtype=float)

    def from_ts(self, pair: tuple[str, str], method: str) -> tuple[float, float]:
        """NLL minus that after TS, and its standard error."""
        return mean_and_error(self.all("nll", pair, method) - self.all("nll", pair, "ts"))

    @property
    def contestants(self) -> list[str]:
        """Methods without their variants."""
        return [method for method in self.methods if "," not in method]


def mean_and_error(differences: np.ndarray) -> tuple[float, float]:
    """The mean over divisions, and its standard error, corrected for the rows that divisions share."""
    n = len(differences)
    if n < 2 or not np.isfinite(differences).all():
        return float(differences.mean()), np.nan
    shared = SHARES[2] / (SHARES[0] + SHARES[1])
    return float(differences.mean()), float(np.sqrt(differences.var(ddof=1) * (1 / n + shared)))


def against_none(divisions: Divisions, method: str, model: str | None = None) -> float:
    """Relative change of the NLL: geometric mean over pairs, minus 1, in percent."""
    after, before = (divisions.of("nll", each, model) for each in (method, "none"))
    return 100 * float(np.expm1(np.mean(np.log(after) - np.log(before))))


def report(rows: Sequence[Any]) -> str:
    """Everything in Markdown."""
    parts = ["# Every calibrator behind scikit-learn's classifiers", INTRODUCTION]
    kinds = {two: [row for row in rows if (row.n_classes == 2) is two] for two in TITLES}
    for two, title in TITLES.items():
        if not kinds[two]:
            continue
        divisions = Divisions(kinds[two])
        parts += [f"## {title}: {data_line(kinds[two])}", summary(divisions)]
        parts += ["### By classifier", BY_MODEL_NOTE, by_model(divisions)]
        parts += ["### Few calibration rows", FEW_NOTE, few(kinds[two])]
        parts += ["### Data set by data set", PAIRS_NOTE, by_pair(divisions)]
    return "\n\n".join(parts) + "\n"


def data_line(rows: Sequence[Any]) -> str:
    """The data sets with their classes and calibration rows."""
    sizes = {row.data: f"{row.data} ({row.n_classes} classes, n = {row.n_calibration})" for row in rows if row.size == "all"}
    return ", ".join(sizes.values())


def summary(divisions: Divisions) -> str:
    """Means over pairs, one line per method."""
    head = ["method", "NLL against none", "Brier", "ECE %", "error %", "refused %", "fit"]
    head += ["win rate, NLL", "win rate, Brier", "better than TS", "worse than TS"]
    names, blocks = divisions.contestants, [data for data, _ in divisions.pairs]
    rates = [win_rates(np.array([divisions.of(name, method) for method in names]), blocks=blocks) for name in ("nll", "brier")]

    def line(method: str) -> list[str]:
        cells = [method, f"{against_none(divisions, method):+.1f} %", f"{divisions.of('brier', method).mean():.4f}"]
        cells += [f"{100 * divisions.of(name, method).mean():.2f}" for name in ("ece", "error")]
        cells += [f"{100 * (1 - divisions.of('fitted', method).mean()):.1f}"]
        cells += [duration(float(np.median([row.seconds for row in divisions.rows if row.method == method])))]
        for each in rates:
            rate, low, high = (part[names.index(method)] if method in names else np.nan for part in each)
            cells.append(f"{rate:.2f} ({low:.2f} to {high:.2f})" if method in names else "-")
        return [*cells, *counts(divisions, method)]

    return table(head, map(line, divisions.methods))


def counts(divisions: Divisions, method: str) -> list[str]:
    """On how many pairs a method is clearly better and clearly worse than TS."""
    if method == "ts":
        return ["-", "-"]
    found = np.array([divisions.from_ts(pair, method) for pair in divisions.pairs])
    known = found[:, 1] > 0
    ratio = found[known, 0] / found[known, 1]
    infinite = int(np.isinf(found[:, 0]).sum())
    n = len(divisions.pairs)
    return [f"{int((ratio < -HARM).sum())} of {n}", f"{int((ratio > HARM).sum()) + infinite} of {n}"]


def by_model(divisions: Divisions) -> str:
    """Methods against classifiers."""
    models = list(dict.fromkeys(model for _, model in divisions.pairs))
    lines = (
        [method, *(f"{against_none(divisions, method, model):+.1f}" for model in models)]
        for method in divisions.methods
        if method != "none"
    )
    return table(["method", *models], lines)


def few(rows: Sequence[Any]) -> str:
    """All calibration rows against few of them, on the data sets that have both."""
    sizes = [size for size in dict.fromkeys(row.size for row in rows) if size != "all"]
    if not sizes:
        return "No data set has more than 100 calibration rows."
    both = {row.data for row in rows if row.size in sizes}
    found = {size: Divisions([row for row in rows if row.data in both], size) for size in ("all", *sizes)}
    head = ["method"]
    for size in found:
        head += [f"NLL against none, n = {size}", "refused %", "worse than TS"]

    def line(method: str) -> list[str]:
        cells = [method]
        for each in found.values():
            refused = 100 * (1 - each.of("fitted", method).mean())
            cells += [f"{against_none(each, method):+.1f} %", f"{refused:.1f}", counts(each, method)[1]]
        return cells

    methods = [method for method in found["all"].methods if method != "none"]
    return f"Data: {', '.join(sorted(both))}.\n\n{table(head, map(line, methods))}"


def by_pair(divisions: Divisions) -> str:
    """One line per data set and classifier."""
    methods = [method for method in divisions.contestants if method != "ts"]

    def cell(pair: tuple[str, str], method: str) -> str:
        value, error = divisions.from_ts(pair, method)
        text = f"{1000 * value:+.1f} ± {1000 * error:.1f}"
        return f"**{text}**" if abs(value) > HARM * error > 0 else text

    lines = (
        [" / ".join(pair), f"{divisions.all('nll', pair, 'ts').mean():.4f}", *(cell(pair, method) for method in methods)]
        for pair in divisions.pairs
    )
    return table(["data / classifier", "NLL of TS", *methods], lines)
