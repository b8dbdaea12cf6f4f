"""Every calibrator behind scikit-learn's classifiers on the data sets that scikit-learn bundles.

    python bench/calibrators_tabular.py --cache FOLDER                     # everything, some five minutes on one core
    python bench/calibrators_tabular.py --cache FOLDER --quick             # one repetition of two data sets; in seconds
    python bench/calibrators_tabular.py --cache FOLDER --methods isotonic  # these only; the numbers of the others stay
    python bench/calibrators_tabular.py --cache FOLDER --tables-only       # tables and picture, from the last run

`tabular_sets.py` says how data are divided and what scores the classifiers give; they are kept in FOLDER. Each method is fitted
to the calibration rows and measured on the test rows, for many random divisions. Where there are more than 100 calibration
rows, this is repeated with 50 of them. A method that refuses the rows, because all are classified correctly for example, leaves
the scores as they are, and the tables count this.

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

import numpy as np

import nishimori
from calibrators import METHODS, ROOT, suits, timed
from calibrators_rows import Table, read
from calibrators_splits import Split
from calibrators_tabular_picture import picture
from calibrators_tabular_tables import report
from nishimori._evaluation.scorecard import scorecards
from nishimori._rows.entry import open_rows
from tabular_sets import DATA, tabular_sets

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
    rows: list[Row] = [row for row in read(Row, path) if row.method in CONTESTANTS and row.method not in labels]
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
        rows = read(Row, path)
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
