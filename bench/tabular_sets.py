"""Scores of scikit-learn's classifiers on the data sets that it bundles: what to calibrate with, and what to measure on.

    for split in tabular_sets(Path("cache"), repeats=20):
        split.name, split.validation.logits, split.validation.labels, split.test.logits, split.test.labels

Each data set is divided at random into 40 % to train on, 30 % to calibrate with and 30 % to measure on, with the classes in
the same proportions, once for each seed. Scores are logits where the classifier has them (`decision_function`), logarithms of
probabilities otherwise. With two classes, the columns are 0 and the score. "digits-odd" has the images of "digits" with two
classes, odd and even. Nothing is downloaded. Scores are kept in the folder ``cache`` and read again from there.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from calibrators_splits import Rows, Split

N_TREES = 100
FLOOR = 0.5 / N_TREES  # half a tree: below every probability that a forest of fully grown trees can tell from zero
SHARES = (0.4, 0.3, 0.3)  # training, calibration, test


@dataclass(frozen=True)
class Model:
    """A classifier and how to ask it for scores."""

    made: Callable[[int], Any]
    scores: Callable[[Any, np.ndarray], np.ndarray]


def decisions(model: Any, X: np.ndarray) -> np.ndarray:
    """Logits, or distances from the boundaries between classes."""
    found = model.decision_function(X)
    return np.stack([np.zeros_like(found), found], axis=1) if found.ndim == 1 else found


def log_probabilities(model: Any, X: np.ndarray) -> np.ndarray:
    """Their logarithms as the model computes them; a probability that is exactly zero is raised to the smallest number."""
    with np.errstate(divide="ignore"):
        found = model.predict_log_proba(X)
    return np.where(np.isneginf(found), np.log(np.finfo(float).tiny), found)


def floored(model: Any, X: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities that are at least `FLOOR`: a forest says zero where no tree has seen the class."""
    return np.log(np.maximum(model.predict_proba(X), FLOOR))


def scaled(model: Any) -> Any:
    """Behind features of mean 0 and variance 1."""
    return make_pipeline(StandardScaler(), model)


MODELS = {
    "forest": Model(lambda seed: RandomForestClassifier(N_TREES, random_state=seed), floored),
    "boosting": Model(lambda seed: HistGradientBoostingClassifier(max_iter=50, random_state=seed), decisions),
    "logistic": Model(lambda seed: scaled(LogisticRegression(max_iter=1000, random_state=seed)), decisions),
    "svc": Model(lambda seed: scaled(SVC(random_state=seed)), decisions),
    "mlp": Model(lambda seed: scaled(MLPClassifier((50,), max_iter=300, random_state=seed)), log_probabilities),
    # Without smoothing, pixels that are constant within a digit give log-probabilities of -1e9. Nothing in it is random.
    "naive bayes": Model(lambda seed: GaussianNB(var_smoothing=1e-3), log_probabilities),  # noqa: ARG005
}


def _bundled(load: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    features, labels = load(return_X_y=True)
    return features, labels


def _digits_odd() -> tuple[np.ndarray, np.ndarray]:
    features, labels = _bundled(datasets.load_digits)
    return features, labels % 2


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "iris": lambda: _bundled(datasets.load_iris),
    "wine": lambda: _bundled(datasets.load_wine),
    "digits": lambda: _bundled(datasets.load_digits),
    "breast cancer": lambda: _bundled(datasets.load_breast_cancer),
    "digits-odd": _digits_odd,
}


def tabular_sets(
    cache: Path,
    *,
    repeats: int,
    data: tuple[str, ...] = tuple(DATA),
    models: tuple[str, ...] = tuple(MODELS),
) -> Iterator[Split]:
    """One split per data set, model and seed, made when it is not in the folder ``cache``."""
    cache.mkdir(parents=True, exist_ok=True)
    for each in data:
        for model in models:
            for seed in range(repeats):
                path = cache / f"{each}__{model}__{seed}.npz".replace(" ", "-")
                if not path.exists():
                    _write(path, each, model, seed)
                with np.load(path) as arrays:
                    validation, test = (Rows(arrays[f"{part}_logits"], arrays[f"{part}_labels"]) for part in ("cal", "test"))
                yield Split(f"{each}/{model}", "tabular", seed, "all", validation, test)


def _write(path: Path, data: str, model: str, seed: int) -> None:
    features, labels = DATA[data]()
    train, rest = train_test_split(np.arange(len(labels)), train_size=SHARES[0], stratify=labels, random_state=seed)
    share = SHARES[1] / (SHARES[1] + SHARES[2])
    cal, test = train_test_split(rest, train_size=share, stratify=labels[rest], random_state=seed)
    chosen = MODELS[model]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the small network is used as it is after so many steps
        fitted = chosen.made(seed).fit(features[train], labels[train])
    arrays = {f"{name}_logits": chosen.scores(fitted, features[rows]) for name, rows in (("cal", cal), ("test", test))}
    arrays |= {f"{name}_labels": labels[rows] for name, rows in (("cal", cal), ("test", test))}
    # A file that was interrupted must not be read by the next run.
    unfinished = path.with_suffix(".part.npz")
    np.savez(unfinished, **arrays)
    unfinished.replace(path)
