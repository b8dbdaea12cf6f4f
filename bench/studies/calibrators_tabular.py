"""Every calibrator behind scikit-learn's classifiers on the data sets that scikit-learn bundles.

    python bench/studies/calibrators_tabular.py --cache FOLDER                     # everything, some five minutes on one core
    python bench/studies/calibrators_tabular.py --cache FOLDER --quick             # one repetition of two data sets; in seconds
    python bench/studies/calibrators_tabular.py --cache FOLDER --methods isotonic  # these only; the numbers of the others stay
    python bench/studies/calibrators_tabular.py --cache FOLDER --tables-only       # tables and picture, from the last run

`calibrators_data.py` says how data are divided and what scores the classifiers give; they are kept in FOLDER. Each method is
fitted to the calibration rows and measured on the test rows, for many random divisions. Where there are more than 100
calibration rows, this is repeated with 50 of them. A method that refuses the rows, because all are classified correctly for
example, leaves the scores as they are, and the tables count this.

Writes calibrators_tabular.csv (one line per method and division) and calibrators_tabular.md to the folder of results, and
calibrators-tabular.png to the folder of images.
"""

import argparse
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

import nishimori
from calibrators import METHODS, ROOT, suits, timed
from calibrators_data import DATA, SHARES, Split, Table, read_rows, tabular_sets
from calibrators_tables import HARM, duration, table, win_rates
from nishimori._evaluation.scorecard import scorecards
from nishimori._rows.entry import open_rows
from nishimori.plot._style import COLORS, HUES

# Tables of the study of scikit-learn's classifiers, from the rows that `bench/studies/calibrators_tabular.py` has measured.

TITLES = {False: "Three and ten classes", True: "Two classes"}
INTRODUCTION = """Written by `bench/studies/calibrators_tabular.py`, which says what is fitted and measured, and
`bench/studies/calibrators_data.py`, which says how data are divided: 40 % to train on, 30 % to calibrate with (*n*), 30 % to
measure on. Numbers are means over random divisions: 20 for iris and wine, 10 for the others. A method that refuses the
calibration rows leaves the scores as they are; *refused* counts this. *NLL against none* is the geometric mean over data sets
and classifiers of the NLL after the method divided by that of the scores as they are, minus 1. The ECE of the predicted class
(15 bins of equal width) is corrected for the bias of small bins. *Win rate* is the share of pairs (other method, data set with
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


# The picture of the study of scikit-learn's classifiers: what each method does to the NLL of each kind of classifier.

LARGEST = 80.0  # percent at which colours end
# Better is green and worse is vermilion, as "after" and a warning in other pictures; both get darker away from white.
SCALE = LinearSegmentedColormap.from_list("change", [COLORS["after"], "white", HUES["vermilion"]])


def picture(rows: Sequence[Any], path: Path) -> None:
    """Methods against classifiers, with more than two classes on the left and with two on the right."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the choice of the backend

    kinds = [Divisions([row for row in rows if (row.n_classes == 2) is two]) for two in (False, True)]
    kinds = [kind for kind in kinds if kind.pairs]
    height = 2.2 + 0.36 * max(len(kind.contestants) for kind in kinds)
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(12, height), layout="constrained", squeeze=False)
    for ax, divisions in zip(axes[0], kinds, strict=True):
        models = list(dict.fromkeys(model for _, model in divisions.pairs))
        methods = [method for method in divisions.contestants if method != "none"]
        values = np.array([[against_none(divisions, method, model) for model in models] for method in methods])
        order = np.argsort([against_none(divisions, method) for method in methods])
        draw(ax, values[order], [methods[i] for i in order], models)
        data = ", ".join(dict.fromkeys(name for name, _ in divisions.pairs))
        is_two = divisions.rows[0].n_classes == 2
        ax.set_title(f"{'two classes' if is_two else 'three and ten classes'}: {data}", fontsize=11)
    figure.suptitle("Change of the NLL by calibration, in percent (best method on top; green is better)", fontsize=12)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def draw(ax: Any, values: np.ndarray, methods: Sequence[str], models: Sequence[str]) -> None:
    """One table of coloured numbers."""
    ax.imshow(np.clip(values, -LARGEST, LARGEST), cmap=SCALE, vmin=-LARGEST, vmax=LARGEST, aspect="auto")
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            text = signed(value, 0) if value < 1000 else "> 1000"
            ax.text(j, i, text, ha="center", va="center", color="white" if value < -0.75 * LARGEST else "black", fontsize=10)
    ax.set_xticks(range(len(models)), models, fontsize=10)
    ax.set_yticks(range(len(methods)), methods, fontsize=10)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.set_xticks(np.arange(len(models) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(methods) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=2)
    ax.tick_params(which="minor", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def signed(value: float, digits: int) -> str:
    """With a minus sign that is as wide as a plus sign; zero without a sign."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return f"{0:.{digits}f}" if float(text[1:]) == 0 else text


REPEATS = {"iris": 20, "wine": 20, "digits": 10, "breast cancer": 10, "digits-odd": 10}
FEW = 50
CONTESTANTS = tuple(name for name in METHODS if "keeps" not in name)


@dataclass(frozen=True)
class Row:
    """One method on one division of one data set behind one classifier. ``size`` is "all" or `FEW`."""

    data: str
    model: str
    size: str
    seed: int
    n_classes: int
    n_calibration: int
    n_test: int
    method: str
    fitted: bool
    seconds: float
    nll: float
    brier: float
    ece: float
    error: float


def measured(split: Split, labels: Iterable[str]) -> Iterator[Row]:
    """One row per method that works for so many classes."""
    data, model = split.name.split("/")
    n_test, n_classes = split.test.logits.shape
    fits = {label: fit_of(label, split) for label in labels if suits(METHODS[label][0], n_classes)}
    if not fits:
        return
    cards = scorecards(open_rows(split.test.logits, split.test.labels), [map_ for map_, _, _ in fits.values()])
    for (label, (_, seconds, fitted)), card in zip(fits.items(), cards, strict=True):
        yield Row(
            data=data,
            model=model,
            size=split.size,
            seed=split.seed,
            n_classes=n_classes,
            n_calibration=len(split.validation.labels),
            n_test=n_test,
            method=label,
            fitted=fitted,
            seconds=seconds,
            nll=card.nll,
            brier=card.brier,
            ece=card.ece if card.ece_corrected is None else card.ece_corrected,
            error=card.error,
        )


def fit_of(label: str, split: Split) -> tuple[Any, float, bool]:
    """The map, the seconds that its fit took, and whether it is that of the method and not what leaves scores as they are."""
    try:
        return *timed(*METHODS[label], split.validation), True
    except (nishimori.errors.NishimoriError, np.linalg.LinAlgError) as error:
        if not isinstance(error, nishimori.errors.NishimoriError):
            print(f"{split.name}, seed {split.seed}, {split.size} rows: {label} failed. {error}", flush=True)
        return *timed("none", {}, split.validation), False


def run(found: Iterable[Split], path: Path, labels: Sequence[str]) -> list[Row]:
    """The rows of these methods, written as they come, after those of other methods from the last run."""
    rows: list[Row] = [row for row in read_rows(Row, path) if row.method in CONTESTANTS and row.method not in labels]
    with Table(Row, path) as table:
        for row in rows:
            table.write(row)
        for split in found:
            start = time.perf_counter()
            sizes = [split, split.reduced(FEW)] if len(split.validation.labels) > 2 * FEW else [split]
            for each in sizes:
                for row in measured(each, labels):
                    rows.append(row)
                    table.write(row)
            if split.seed == 0:
                print(f"{split.name}: {time.perf_counter() - start:.1f} s per repetition", flush=True)
    return rows


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder of the scores of the classifiers")
    parser.add_argument("--quick", action="store_true", help="one repetition of two data sets")
    parser.add_argument("--repeats", type=int, help="repetitions of all data sets, instead of 10 to 20")
    parser.add_argument("--methods", nargs="+", choices=CONTESTANTS, default=CONTESTANTS, help="only these")
    parser.add_argument("--tables-only", action="store_true", help="from the numbers of the last run")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results", help="folder of numbers and tables")
    parser.add_argument("--images", type=Path, default=ROOT / "docs/images", help="folder of pictures")
    options = parser.parse_args()
    path = options.out / "calibrators_tabular.csv"
    chosen = dict.fromkeys(("iris", "breast cancer"), 2) if options.quick else REPEATS
    repeats = {name: options.repeats or chosen[name] for name in DATA if name in chosen}
    if options.tables_only:
        rows = read_rows(Row, path)
    else:
        found = (split for name, n in repeats.items() for split in tabular_sets(options.cache, repeats=n, data=(name,)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nishimori.errors.InputWarning)  # probabilities of zero: their loss is in the table
            rows = run(found, path, options.methods)
    rows.sort(key=lambda row: (list(DATA).index(row.data), CONTESTANTS.index(row.method)))  # the order of the tables
    (options.out / "calibrators_tabular.md").write_text(report(rows), encoding="utf-8")
    picture(rows, options.images / "calibrators-tabular.png")


if __name__ == "__main__":
    main()
