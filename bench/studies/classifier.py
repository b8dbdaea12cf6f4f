"""One classifier or one per fold, and which floor of probabilities: what `CalibratedClassifier` does by default, and why.

    python bench/studies/classifier.py
    python bench/studies/classifier.py --splits 1 --data iris --models tree --out small.md

On each data set that comes with scikit-learn, half of the samples (at most 300) are for training and calibration by
cross-validation, and another half for the test. The tables have means over random splits of the test loss, and of mean
confidence minus accuracy, which calibration should bring to zero. Where a fold has no temperature, its scores are kept as they
are. They are written to ``bench/results/classifier.md``, in a few minutes in one thread.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from nishimori import CalibratedClassifier

DATA = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
MODELS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=10)),
    "linear SVM": make_pipeline(StandardScaler(), LinearSVC(random_state=0)),
    "naive Bayes": GaussianNB(var_smoothing=1e-3),
    "forest": RandomForestClassifier(20, random_state=0),
    "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(10)),
    "tree": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
}
WITH_PROBABILITIES = ("naive Bayes", "forest", "neighbours", "tree")
FLOORS = {"chosen": "auto", "0.05": 0.05, "0.01": 0.01, "1e-6": 1e-6, "2e-16": 2.0**-52, "none": None}


def variants(name, model):
    """What is compared, by name."""
    made = {
        "pooled": CalibratedClassifier(model, "adaptive"),
        "ensemble": CalibratedClassifier(model, "adaptive", ensemble=True),
        "scikit-learn, pooled": CalibratedClassifierCV(model, method="temperature", ensemble=False),
        "scikit-learn, ensemble": CalibratedClassifierCV(model, method="temperature", ensemble=True),
    }
    if name in WITH_PROBABILITIES:
        floors = {each: value for each, value in FLOORS.items() if each != "chosen"}
        made |= {f"floor {each}": CalibratedClassifier(model, "adaptive", floor=f) for each, f in floors.items()}
    return made


def measured(data, model, n_splits):
    """Mean loss, gap and accuracy of each variant."""
    X, y = DATA[data](return_X_y=True)
    splits = StratifiedShuffleSplit(n_splits, train_size=min(0.5, 300 / len(y)), test_size=0.5, random_state=0)
    found = {}
    for train, test in splits.split(X, y):
        for name, each in variants(model, MODELS[model]).items():
            p = each.fit(X[train], y[train]).predict_proba(X[test])
            accuracy = np.mean(each.classes_[p.argmax(axis=1)] == y[test])
            found.setdefault(name, []).append((log_loss(y[test], p), p.max(axis=1).mean() - accuracy, accuracy))
    return {name: np.mean(rows, axis=0) for name, rows in found.items()}


def table(headers, rows):
    """The lines of a table in Markdown."""
    return [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def report(results, n_splits):
    """The page of results."""
    ways = ("pooled", "ensemble", "scikit-learn, pooled", "scikit-learn, ensemble")
    rows = [
        (data, model, *(f"{found[way][0]:.3f} ({100 * found[way][1]:+.1f})" for way in ways))
        for (data, model), found in results.items()
    ]
    gaps = [f"{100 * np.mean([abs(found[way][1]) for found in results.values()]):.1f}" for way in ways]
    losses = [f"{np.mean([found[way][0] for found in results.values()]):.3f}" for way in ways]
    rows.append(("mean", "all", *(f"{loss} ({gap})" for loss, gap in zip(losses, gaps, strict=True))))
    of_floor = {name: "pooled" if name == "chosen" else f"floor {name}" for name in FLOORS}
    floors = [
        (data, model, *(f"{found[of_floor[name]][0]:.3f}" for name in FLOORS))
        for (data, model), found in results.items()
        if model in WITH_PROBABILITIES
    ]
    return "\n".join(
        [
            "# One classifier or one per fold, and which floor",
            "",
            f"Written by `python bench/studies/classifier.py`: means over {n_splits} random splits, five folds.",
            "",
            "Test loss, and in brackets mean confidence minus accuracy in points (last row: the mean of its absolute value).",
            'nishimori with `calibrator="adaptive"`, scikit-learn with `method="temperature"`; pooled is `ensemble=False`:',
            "",
            *table(("data", "classifier", *ways), rows),
            "",
            'Test loss with `ensemble=False`, by the floor of probabilities; "chosen" is `floor="auto"`:',
            "",
            *table(("data", "classifier", *FLOORS), floors),
            "",
        ]
    )


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "classifier.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # small folds have few errors, and some have none
    results = {}
    for data in options.data:
        for model in options.models:
            results[data, model] = measured(data, model, options.splits)
            print(data, model, {name: row.round(3).tolist() for name, row in results[data, model].items()}, flush=True)
    options.out.write_text(report(results, options.splits), encoding="utf-8")


if __name__ == "__main__":
    main()
