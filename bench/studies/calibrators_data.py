"""The data of the benchmark of calibrators: what each method is fitted to, and what it is measured on."""

import csv
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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

from nishimori import data

CAL_ARENA = "cifar10/densenet40-calarena"
PAIR = ("nncal__cifar10_val5000__densenet40", "nncal__cifar10_test__densenet40")
QUICK = ("cifar10/resnet20",)
ANIMALS = [2, 3, 4, 5, 6, 7]  # of the classes of CIFAR-10; the others are machines


@dataclass(frozen=True)
class Rows:
    """Logits in float64 and the column of the true class of each row."""

    logits: np.ndarray
    labels: np.ndarray

    def of(self, chosen: np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.logits[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Split:
    """One data set, divided into rows to fit to and rows to measure on.

    ``size`` is "all", or the number of validation rows that were drawn at random.
    """

    name: str
    origin: str
    seed: int
    size: str
    validation: Rows
    test: Rows

    def reduced(self, size: int) -> "Split":
        """The same with fewer validation rows, drawn at random without repetition."""
        chosen = np.random.default_rng([self.seed, size]).permutation(len(self.validation.labels))[:size]
        return replace(self, size=str(size), validation=self.validation.of(chosen))


def splits(folder: Path | None, *, sizes: tuple[int, ...], seeds: int, quick: bool) -> Iterator[Split]:
    """Every data set with all its validation rows, then with fewer of them.

    Bundled networks have their own validation and test sets, drawn from once. Those of CIFAR-10 come a second time with two
    classes. A file in ``folder`` is divided into two random
    halves, once for each seed, and only the first has fewer rows, too. The pair of files that CalArena uses stays as it is.
    """
    names = QUICK if quick else data.names()
    for name in names:
        yield from _with_fewer(_bundled(name), sizes)
    for name in names:
        if name.startswith("cifar10/"):
            yield from _with_fewer(_animals(_bundled(name)), sizes)
    if folder is None:
        return
    found = {path.stem: path for path in sorted(folder.glob("*.npz"))}
    if all(name in found for name in PAIR):
        validation, test = (_read(found.pop(name)) for name in PAIR)
        yield from _with_fewer(Split(CAL_ARENA, "file", 0, "all", validation, test), sizes)
    for name, path in found.items():
        for seed in range(seeds):
            yield from _with_fewer(_halves(name.replace("__", "/"), _read(path), seed), sizes if seed == 0 else ())


def _with_fewer(split: Split, sizes: tuple[int, ...]) -> Iterator[Split]:
    yield split
    yield from (split.reduced(size) for size in sizes if size < len(split.validation.labels))


def _bundled(name: str) -> Split:
    network = data.load(name)
    validation, test = (Rows(each.logits.astype(float), each.labels) for each in (network.validation, network.test))
    return Split(name, "bundled", 0, "all", validation, test)


def _animals(split: Split) -> Split:
    """The same network with two classes, machines and animals: the sums of the probabilities of the ten."""
    is_animal = np.isin(np.arange(split.test.logits.shape[1]), ANIMALS)

    def joined(rows: Rows) -> Rows:
        columns = [np.logaddexp.reduce(rows.logits[:, chosen], axis=1) for chosen in (~is_animal, is_animal)]
        return Rows(np.stack(columns, axis=1), is_animal[rows.labels].astype(int))

    name = f"{split.name}, animals"
    return replace(split, name=name, origin="binary", validation=joined(split.validation), test=joined(split.test))


def _read(path: Path) -> Rows:
    with np.load(path) as arrays:
        return Rows(arrays["logits"].astype(float), arrays["labels"])


def _halves(name: str, rows: Rows, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(rows.labels))
    half = len(order) // 2
    return Split(name, "file", seed, "all", rows.of(order[:half]), rows.of(order[half:]))


# Measured rows as lines of a .csv file, written as they come so that an interrupted run loses nothing.

DIGITS = 9


class Table:
    """A .csv file with one column per field of ``kind``, a dataclass of numbers and texts."""

    def __init__(self, kind: type, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._file, [each.name for each in fields(kind)], lineterminator="\n")
        self._writer.writeheader()

    def write(self, row: Any) -> None:
        """Add one line."""
        cells = {name: f"{value:.{DIGITS}g}" if isinstance(value, float) else value for name, value in asdict(row).items()}
        self._writer.writerow(cells)
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def read_rows(kind: type, path: Path) -> list[Any]:
    """The rows of the last run; none if there was none."""
    if not path.exists():
        return []
    kinds = {each.name: _from_text(each.type) for each in fields(kind)}
    with path.open(encoding="utf-8", newline="") as file:
        return [kind(**{name: kinds[name](value) for name, value in line.items()}) for line in csv.DictReader(file)]


def _from_text(kind: Any) -> Any:
    return (lambda text: text == "True") if kind is bool else kind


# Scores of scikit-learn's classifiers on the data sets that it bundles: what to calibrate with, and what to measure on.
#
#     for split in tabular_sets(Path("cache"), repeats=20):
#         split.name, split.validation.logits, split.validation.labels, split.test.logits, split.test.labels
#
# Each data set is divided at random into 40 % to train on, 30 % to calibrate with and 30 % to measure on, with the classes in
# the same proportions, once for each seed. Scores are logits where the classifier has them (`decision_function`), logarithms of
# probabilities otherwise. With two classes, the columns are 0 and the score. "digits-odd" has the images of "digits" with two
# classes, odd and even. Nothing is downloaded. Scores are kept in the folder ``cache`` and read again from there.

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


def _of_sklearn(load: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    features, labels = load(return_X_y=True)
    return features, labels


def _digits_odd() -> tuple[np.ndarray, np.ndarray]:
    features, labels = _of_sklearn(datasets.load_digits)
    return features, labels % 2


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "iris": lambda: _of_sklearn(datasets.load_iris),
    "wine": lambda: _of_sklearn(datasets.load_wine),
    "digits": lambda: _of_sklearn(datasets.load_digits),
    "breast cancer": lambda: _of_sklearn(datasets.load_breast_cancer),
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
                    _write_scores(path, each, model, seed)
                with np.load(path) as arrays:
                    validation, test = (Rows(arrays[f"{part}_logits"], arrays[f"{part}_labels"]) for part in ("cal", "test"))
                yield Split(f"{each}/{model}", "tabular", seed, "all", validation, test)


def _write_scores(path: Path, data: str, model: str, seed: int) -> None:
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
