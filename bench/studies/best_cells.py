"""The cells of the benchmark of "best": a data set, a classifier, and random splits into training and test rows.

    for cell in CELLS:
        for split in range(cell.n_splits):
            scores = load_scores(cell, split, folder)      # fitted once, then read from the folder
            CalibratedClassifierCV(scores.estimator(), cv=scores.folds).fit(scores.train, scores.train_labels)
            nested = load_nested(cell, split, folder)      # the same for each four folds, tested on the fifth

Data sets come with scikit-learn or are made by `make_classification`, in which 1:50 means that the second class has one sample
in fifty, and noise is the share of labels that are drawn anew. Features have mean 0 and variance 1.

Cross-validation asks for few classifiers, always the same: one per fold and one of all training rows. Each is fitted once. What
is passed around as ``X`` are numbers of rows, and the estimators look their scores up, so that real meta-estimators run in full
and in no time.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from calibrators_data import DATA as BUNDLED
from calibrators_data import N_TREES, scaled

N_FOLDS = 5
MANY = 5000  # training rows from which on there are fewer splits
SPLITS = {"few rows": 20, "many rows": 5}
TRAIN_SHARE = 0.6  # of bundled data, whose other rows are for the test
N_TEST = 5000  # of data that are made here

MODELS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestClassifier(N_TREES, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=50, random_state=seed),
    "logistic": lambda seed: scaled(LogisticRegression(max_iter=1000, random_state=seed)),
    "svc": lambda seed: scaled(SVC(random_state=seed)),
    "naive bayes": lambda seed: scaled(GaussianNB(var_smoothing=1e-3)),  # noqa: ARG005 - nothing in it is random
    "neighbours": lambda seed: scaled(KNeighborsClassifier(10)),  # noqa: ARG005
    "mlp": lambda seed: scaled(MLPClassifier((50,), max_iter=100, random_state=seed)),
}


@dataclass(frozen=True)
class Generated:
    """Parameters of `make_classification`; ``shares`` are those of the classes, equal if there are none."""

    n: int
    n_classes: int
    shares: tuple[float, ...] | None = None
    noise: float = 0.01
    separation: float = 1.0

    def rows(self, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels of so many rows."""
        features, labels = make_classification(
            n_rows,
            n_features=20,
            n_informative=10,
            n_redundant=5,
            n_classes=self.n_classes,
            n_clusters_per_class=2 if self.n_classes <= 5 else 1,
            weights=None if self.shares is None else list(self.shares),
            flip_y=self.noise,
            class_sep=self.separation,
            random_state=self.n + self.n_classes,
        )
        return features, labels


FIFTIETH, TENTH = (0.98, 0.02), (10 / 11, 1 / 11)
GENERATED = {
    "1:50, 500": Generated(500, 2, FIFTIETH, noise=0.0),
    "1:50, 1,000": Generated(1000, 2, FIFTIETH),
    "1:50, 5,000": Generated(5000, 2, FIFTIETH),
    "1:10, 500": Generated(500, 2, TENTH),
    "1:10, 20,000": Generated(20_000, 2, TENTH),
    "noise, 200": Generated(200, 2, noise=0.2),
    "noise, 2,000": Generated(2000, 2, noise=0.2),
    "noise, 20,000": Generated(20_000, 2, noise=0.3, separation=0.7),
    "3 classes, 300": Generated(300, 3),
    "3 unequal classes, 5,000": Generated(5000, 3, (0.7, 0.25, 0.05), noise=0.05),
    "5 classes, 1,000, noise": Generated(1000, 5, noise=0.15),
    "5 unequal classes, 10,000": Generated(10_000, 5, (0.5, 0.3, 0.1, 0.07, 0.03)),
    "10 classes, 2,000": Generated(2000, 10, noise=0.05),
    "10 classes, 10,000, noise": Generated(10_000, 10, noise=0.2),
    "10 classes, 20,000": Generated(20_000, 10),
    "20 classes, 2,000": Generated(2000, 20),
    "20 classes, 10,000": Generated(10_000, 20, noise=0.1),
}

# Every data set and every model is there, small data with most models. What takes too long is left out.
CHOSEN = {
    "iris": ("logistic", "naive bayes", "neighbours", "forest"),
    "wine": ("logistic", "svc", "naive bayes", "neighbours"),
    "breast cancer": ("forest", "boosting", "logistic", "svc", "naive bayes", "neighbours", "mlp"),
    "digits": ("forest", "logistic", "svc", "naive bayes", "neighbours"),
    "digits-odd": ("forest", "logistic", "svc", "naive bayes", "mlp"),
    "1:50, 500": ("forest", "svc", "naive bayes", "logistic"),
    "1:50, 1,000": ("forest", "boosting", "svc", "naive bayes", "neighbours"),
    "1:50, 5,000": ("boosting", "svc", "naive bayes", "logistic"),
    "1:10, 500": ("logistic", "svc", "neighbours", "mlp"),
    "1:10, 20,000": ("boosting", "naive bayes", "logistic"),
    "noise, 200": ("forest", "logistic", "svc", "naive bayes", "neighbours"),
    "noise, 2,000": ("forest", "boosting", "mlp", "svc"),
    "noise, 20,000": ("naive bayes", "neighbours", "boosting"),
    "3 classes, 300": ("logistic", "forest", "svc", "naive bayes"),
    "3 unequal classes, 5,000": ("boosting", "naive bayes", "svc", "mlp"),
    "5 classes, 1,000, noise": ("forest", "svc", "naive bayes", "mlp", "boosting"),
    "5 unequal classes, 10,000": ("naive bayes", "logistic", "neighbours"),
    "10 classes, 2,000": ("svc", "naive bayes", "neighbours", "logistic"),
    "10 classes, 10,000, noise": ("forest", "naive bayes"),
    "10 classes, 20,000": ("naive bayes", "logistic"),
    "20 classes, 2,000": ("forest", "naive bayes", "neighbours", "svc"),
    "20 classes, 10,000": ("naive bayes", "neighbours", "logistic"),
}


@dataclass(frozen=True)
class Cell:
    """One data set and one classifier."""

    data: str
    model: str

    @property
    def name(self) -> str:
        """Both, for tables."""
        return f"{self.data} / {self.model}"

    @property
    def file(self) -> str:
        """The name of its folder."""
        return self.name.replace(" / ", "__").replace(" ", "-").replace(",", "").replace(":", "to")

    @property
    def n_train(self) -> int:
        """How many rows classifiers and calibrators are fitted to."""
        made = GENERATED.get(self.data)
        return int(TRAIN_SHARE * len(rows_of(self.data)[1])) if made is None else made.n

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        made = GENERATED.get(self.data)
        return len(np.unique(rows_of(self.data)[1])) if made is None else made.n_classes

    @property
    def n_splits(self) -> int:
        """How many random splits there are."""
        return SPLITS["many rows" if self.n_train >= MANY else "few rows"]


def _halves(cells: list[Cell]) -> tuple[list[Cell], frozenset[Cell]]:
    """The cells in random order, and those on which the rule is chosen: every other one of two classes and of more."""
    order = [cells[i] for i in np.random.default_rng(0).permutation(len(cells))]
    kinds = [[cell for cell in order if (cell.n_classes == 2) is two] for two in (True, False)]
    return order, frozenset(cell for kind in kinds for cell in kind[::2])


@lru_cache(maxsize=1)
def rows_of(data: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of all rows from which splits are drawn."""
    made = GENERATED.get(data)
    if made is None:
        return BUNDLED[data]()
    n_splits = SPLITS["many rows" if made.n >= MANY else "few rows"]
    return made.rows(made.n * min(n_splits, 10) + N_TEST)


CELLS, CHOOSING = _halves([Cell(data, model) for data, models in CHOSEN.items() for model in models])


@dataclass(frozen=True, repr=False)
class Scores:
    """What the classifiers of one split say.

    Attributes
    ----------
    is_probability : bool
        Whether scores are probabilities, and not values of a decision function.
    train, test : array of shape (n, 1)
        Numbers of the rows, the ``X`` of all estimators.
    train_labels, test_labels : array of shape (n,)
        Their labels.
    folds : list of tuple (array, array)
        Positions in ``train``: those that a classifier is fitted to, and those that it is asked about.
    out_of_fold : array
        Scores of the training rows by the classifier of the fold that did not see them.
    on_test : list of array
        Scores of the test rows by the classifier of each fold, and by that of all training rows, which is the last.
    """

    is_probability: bool
    train: np.ndarray
    test: np.ndarray
    train_labels: np.ndarray
    test_labels: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    out_of_fold: np.ndarray
    on_test: list[np.ndarray]

    def estimator(self) -> "Lookup":
        """A classifier that takes numbers of rows."""
        return (ProbabilityLookup if self.is_probability else DecisionLookup)(self)


def load_scores(cell: Cell, split: int, cache: Path) -> Scores:
    """Scores of one split, from classifiers that are fitted if the folder ``cache`` does not have them."""
    return _load(cell, split, *_parts(cell, split), cache / "scores" / cell.file / f"{split}.npz")


def load_nested(cell: Cell, split: int, cache: Path) -> list[Scores]:
    """Scores for each fold of a split: four folds are the training rows, with five folds of their own, the fifth the test rows.

    The classifier of all rows of four folds is known from the split itself, so that 25 classifiers are fitted.
    """
    outer, folder = load_scores(cell, split, cache), cache / "nested scores" / cell.file
    rows = outer.train[:, 0]
    return [
        _load(cell, split, rows[seen], rows[unseen], folder / f"{split}, {number}.npz", outer.out_of_fold[unseen])
        for number, (seen, unseen) in enumerate(outer.folds)
    ]


def _load(cell: Cell, split: int, train: np.ndarray, test: np.ndarray, path: Path, of_all: np.ndarray | None = None) -> Scores:
    """Scores from the file ``path``, which is written if it is missing; ``of_all`` as in `_fitted`."""
    _, labels = rows_of(cell.data)
    folds = list(StratifiedKFold(N_FOLDS).split(train, labels[train]))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, **_fitted(cell, split, train, test, folds, of_all))
        unfinished.replace(path)  # a file that was interrupted must not be read by the next run
    with np.load(path) as arrays:
        on_test = list(arrays["on_test"])
        out_of_fold, is_probability = arrays["out_of_fold"], bool(arrays["is_probability"])
    return Scores(is_probability, train[:, None], test[:, None], labels[train], labels[test], folds, out_of_fold, on_test)


def _parts(cell: Cell, split: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the training and the test part, with the classes in the same proportions."""
    _, labels = rows_of(cell.data)
    n_test = N_TEST if cell.data in GENERATED else len(labels) - cell.n_train
    parts = StratifiedShuffleSplit(1, train_size=cell.n_train, test_size=n_test, random_state=split)
    ((train, test),) = parts.split(labels, labels)
    return np.sort(train), test


def _fitted(
    cell: Cell,
    split: int,
    train: np.ndarray,
    test: np.ndarray,
    folds: list[tuple[np.ndarray, np.ndarray]],
    of_all: np.ndarray | None,
) -> dict[str, Any]:
    """Scores of the classifiers of all folds and of the one of all training rows, ``of_all``, fitted unless they are known."""
    features, labels = rows_of(cell.data)
    out_of_fold, on_test, is_probability = None, [], False
    everything = [] if of_all is not None else [(np.arange(len(train)), np.arange(0))]
    for seen, unseen in [*folds, *everything]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the small network is used as it is after so many steps
            model = MODELS[cell.model](split).fit(features[train[seen]], labels[train[seen]])
        is_probability = not hasattr(model, "decision_function")
        scores = model.predict_proba if is_probability else model.decision_function
        on_test.append(scores(features[test]))
        if len(unseen):
            found = scores(features[train[unseen]])
            out_of_fold = np.empty((len(train), *found.shape[1:])) if out_of_fold is None else out_of_fold
            out_of_fold[unseen] = found
    on_test += [] if of_all is None else [of_all]
    return {"out_of_fold": out_of_fold, "on_test": np.stack(on_test), "is_probability": is_probability}


class Lookup(ClassifierMixin, BaseEstimator):
    """A classifier whose scores are known for the training parts of one split."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    def __sklearn_clone__(self) -> Self:
        return type(self)(self.scores)  # the scores themselves need no copy

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Find out which of the known classifiers is asked for."""
        known = self.scores
        parts = [*(seen for seen, _ in known.folds), np.arange(len(known.train))]
        (self.number_,) = [i for i, part in enumerate(parts) if np.array_equal(known.train[part], X)]
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of the highest score; `cross_val_predict` wants the method and does not call it."""
        scores = self._look_up(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _look_up(self, X: np.ndarray) -> np.ndarray:
        """The scores of the test rows, or of training rows that this classifier did not see."""
        known = self.scores
        if np.array_equal(X, known.test):
            return known.on_test[self.number_]
        unseen = known.folds[self.number_][1]
        places = unseen[np.searchsorted(known.train[unseen, 0], X[:, 0])]
        if not np.array_equal(known.train[places], X):
            raise LookupError("scores of rows that the classifier was fitted to are not kept")
        return known.out_of_fold[places]


class DecisionLookup(Lookup):
    """A classifier with a decision function only."""

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Scores as they were kept."""
        return self._look_up(X)


class ProbabilityLookup(Lookup):
    """A classifier with probabilities only."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Scores as they were kept."""
        return self._look_up(X)
