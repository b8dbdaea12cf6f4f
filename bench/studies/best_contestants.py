"""What is measured in each split of a cell: scikit-learn's `CalibratedClassifierCV`, each of our methods, and "best" itself.

    peers = load_measures(cell, split, cache, "peers")   # six variants of CalibratedClassifierCV
    ours = load_measures(cell, split, cache, "ours")     # our methods on pooled out-of-fold scores
    ours.held_out, ours.on_test                          # what a rule chooses by, and what it gets
    load_measures(cell, split, cache, "nested").held_out  # what a rule chooses by among the six variants

All contestants have the same classifiers and the same folds. A rule that chooses among candidates needs to know only what
probability each candidate gives to the true class of each row: in training rows out of fold, where the candidate was fitted to
four fifths of the pooled scores, and in test rows. These are kept, so that any rule can be tried without fits.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold

import nishimori
from best_cells import N_FOLDS, Cell, Scores, load_nested, load_scores
from nishimori import CalibratedClassifier
from nishimori._calibrators.rescue import fit_always
from nishimori._fit.floors import choose_floor
from nishimori._rows.entry import open_rows
from nishimori.errors import NishimoriError

# As log_loss of scikit-learn, which would otherwise be infinite for the zeros of its own isotonic regression.
LEAST = float(np.finfo(float).eps)
REPEATS = 3  # random divisions of the pooled scores into folds in the first split; one in the others

PEERS = {
    f"sklearn {method}, {'ensemble' if ensemble else 'pooled'}": (method, ensemble)
    for method in ("sigmoid", "isotonic", "temperature")
    for ensemble in (True, False)
}
# In order of simplicity: parameters for K classes are 1, 1, 1, at most K, K, 2, 3, 2K - 1 or so, steps, and K².
CANDIDATES = ("adaptive", "ts", "ec", "group", "bias", "platt", "beta", "vector", "isotonic", "matrix")
OTHERS = ("none", "quadratic", "classwise", "dirichlet", "histogram")
OURS = tuple(name for name in (*CANDIDATES, *OTHERS, "best") if name in nishimori.methods())
NUMBERS = ("nll", "brier", "ece", "accuracy", "zeros", "seconds", "failed")


@dataclass(frozen=True)
class Measures:
    """Numbers of one split.

    Attributes
    ----------
    names : list of str
        The contestants.
    numbers : array of shape (n_contestants, len(NUMBERS))
        Those of the test rows; zeros are true classes of a probability below `LEAST`, seconds are those of the calibration
        without the classifiers, failed is 1 where `fit` raised an error and the scores were taken as they are.
    candidates : list of str
        The columns of what follows; the last is "none".
    held_out : array of shape (n_repeats, n_train, n_candidates)
        Logarithm of the probability of the true class, by a candidate that was fitted to other rows.
    on_test : array of shape (2, n_test, n_candidates)
        The same for test rows: by the classifier of all training rows, and by the mean over the classifiers of the folds, in
        both cases behind the calibrator of the pooled scores.
    seconds : array of shape (n_candidates,)
        What each candidate took for one division into folds.
    """

    names: list[str]
    numbers: np.ndarray
    candidates: list[str]
    held_out: np.ndarray
    on_test: np.ndarray
    seconds: np.ndarray

    def value(self, name: str, number: str) -> float:
        """One number of one contestant."""
        return float(self.numbers[self.names.index(name), NUMBERS.index(number)])


@dataclass(frozen=True)
class Pooled:
    """Scores that calibrators are fitted to: logits, or probabilities with the floor that all calibrators take."""

    scores: np.ndarray
    labels: np.ndarray
    is_probability: bool = False
    floor: float | None = None

    @classmethod
    def of(cls, scores: Scores) -> "Pooled":
        """All out-of-fold scores, with the floor that `CalibratedClassifier` chooses for floor="auto"."""
        given, labels, floor = scores.out_of_fold, scores.train_labels, None
        if scores.is_probability:
            floor = choose_floor(open_rows(given, labels, input="probabilities"))
        return cls(given, labels, scores.is_probability, floor)

    def some(self, rows: np.ndarray) -> "Pooled":
        """Some rows, with the same floor."""
        return replace(self, scores=self.scores[rows], labels=self.labels[rows])

    def log_true(self, name: str, new: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The log-probabilities of the true classes of new scores, by a calibrator that is fitted to these."""
        calibrator = nishimori.calibrator(name).set_params(input="probabilities" if self.is_probability else "logits")
        if name != "none":
            calibrator.set_params(floor=self.floor)
        log = fit_always(calibrator, self.scores, self.labels).predict_log_proba(new)
        return log[np.arange(len(labels)), labels]

    def held_out(self, names: list[str], n_repeats: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The log-probabilities of the true classes out of fold, (n_repeats, n, n_names), and the seconds of each name."""
        found, seconds = np.empty((n_repeats, len(self.labels), len(names))), np.zeros(len(names))
        for repeat in range(n_repeats):
            folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=repeat)
            for rest, fold in folds.split(self.labels, self.labels):
                for column, name in enumerate(names):
                    start = time.perf_counter()
                    found[repeat, fold, column] = self.some(rest).log_true(name, self.scores[fold], self.labels[fold])
                    seconds[column] += (time.perf_counter() - start) / n_repeats
        return found, seconds


def load_measures(cell: Cell, split: int, cache: Path, kind: str) -> Measures:
    """The numbers of one split, from fits if the folder ``cache`` does not have them."""
    path = cache / kind / cell.file / f"{split}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part.npz")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zeros, few samples of a class: their loss is in the tables
            scores = load_scores(cell, split, cache)
            if kind == "peers":
                arrays = measure_peers(scores)
            elif kind == "nested":
                arrays = measure_nested(scores, load_nested(cell, split, cache))
            else:
                arrays = measure_ours(scores, REPEATS if split == 0 else 1)
            np.savez(unfinished, **arrays)
        unfinished.replace(path)
    with np.load(path) as arrays:
        names, candidates = arrays["names"].tolist(), arrays["candidates"].tolist()
        return Measures(names, arrays["numbers"], candidates, arrays["held_out"], arrays["on_test"], arrays["seconds"])


def measure_peers(scores: Scores) -> dict[str, Any]:
    """All variants of scikit-learn."""
    found = {name: _contest(lambda n=name: peer(n, scores), scores)[0] for name in PEERS}
    empty = np.zeros((0, 0, 0), np.float32)
    return _arrays(found, [], empty, empty, np.zeros(0))


def peer(name: str, scores: Scores) -> CalibratedClassifierCV:
    """A variant of scikit-learn, which is not fitted yet."""
    method, ensemble = PEERS[name]
    return CalibratedClassifierCV(scores.estimator(), method=method, ensemble=ensemble, cv=scores.folds)


def measure_nested(scores: Scores, nested: list[Scores]) -> dict[str, Any]:
    """What each variant of scikit-learn says about the true classes of each fold when it is fitted to the other four."""
    held_out, seconds = np.empty((1, len(scores.train), len(PEERS))), np.zeros(len(PEERS))
    for part, (_, fold) in zip(nested, scores.folds, strict=True):
        for column, name in enumerate(PEERS):
            start = time.perf_counter()
            p, _ = _fit_and_predict(lambda n=name, s=part: peer(n, s), part)
            held_out[0, fold, column] = np.log(np.maximum(p[np.arange(len(p)), part.test_labels], LEAST))
            seconds[column] += time.perf_counter() - start
    return _arrays({}, list(PEERS), held_out, np.zeros((0, 0, 0)), seconds)


def measure_ours(scores: Scores, n_repeats: int) -> dict[str, Any]:
    """Each of our methods, and all that rules need about the candidates."""
    n_classes = len(np.unique(scores.train_labels))
    names = [name for name in OURS if suits(name, n_classes)]
    candidates = [*(name for name in names if name in CANDIDATES), "none"]
    start = time.perf_counter()
    pooled = Pooled.of(scores)
    to_choose = time.perf_counter() - start
    found, on_test = {}, {}
    for name in names:
        fixed = {} if name == "none" or pooled.floor is None else {"floor": pooled.floor}
        found[name], fitted = _contest(
            lambda n=name, f=fixed: CalibratedClassifier(scores.estimator(), n, cv=scores.folds, ensemble=False, **f), scores
        )
        found[name][NUMBERS.index("seconds")] += to_choose if fixed else 0.0
        if name in candidates:
            on_test[name] = _on_test(fitted, scores)
    held_out, seconds = pooled.held_out(candidates, n_repeats)
    return _arrays(found, candidates, held_out, np.stack([on_test[name] for name in candidates], axis=2), seconds)


def suits(name: str, n_classes: int) -> bool:
    """Whether a method works for so many classes."""
    traits = nishimori.calibrator(name).traits
    return traits is None or traits.n_classes == "any" or n_classes == 2


def _arrays(
    found: dict[str, list[float]], candidates: list[str], held_out: np.ndarray, on_test: np.ndarray, seconds: np.ndarray
) -> dict[str, Any]:
    return {
        "names": np.array(list(found), dtype=str),
        "numbers": np.array(list(found.values())).reshape(-1, len(NUMBERS)),
        "candidates": np.array(candidates, dtype=str),
        "held_out": held_out.astype(np.float32),
        "on_test": on_test.astype(np.float32),
        "seconds": seconds,
    }


def _contest(made: Callable[[], Any], scores: Scores) -> tuple[list[float], Any]:
    """The numbers of one contestant, and the contestant, or None if it raised an error and the scores are kept as they are."""
    start = time.perf_counter()
    p, fitted = _fit_and_predict(made, scores)
    seconds = time.perf_counter() - start
    return [*metrics_of(p, scores.test_labels), seconds, fitted is None], fitted


def _fit_and_predict(made: Callable[[], Any], scores: Scores) -> tuple[np.ndarray, Any]:
    """Probabilities of the test rows by one contestant, and the contestant, or None as for `_contest`."""
    try:
        fitted = made().fit(scores.train, scores.train_labels)
        return fitted.predict_proba(scores.test), fitted
    except (NishimoriError, ValueError, np.linalg.LinAlgError):
        return uncalibrated(scores.on_test[-1], len(scores.train), is_probability=scores.is_probability), None


def metrics_of(p: np.ndarray, labels: np.ndarray) -> list[float]:
    """The first of `NUMBERS`."""
    truth = p[np.arange(len(p)), labels]
    brier = np.mean((p**2).sum(axis=1) - 2 * truth + 1)
    right = np.mean(p.argmax(axis=1) == labels)
    total = p.sum(axis=1, keepdims=True)
    ece = nishimori.metrics.ece(p / total, labels, n_bins=15, input="probabilities")
    return [-np.mean(np.log(np.maximum(truth, LEAST))), brier, ece, right, np.sum(truth < LEAST)]


def uncalibrated(scores: np.ndarray, n: int, *, is_probability: bool) -> np.ndarray:
    """The probabilities of a classifier as they are, not below 1/2n where some are zero; the softmax of decision values."""
    if is_probability:
        p = np.maximum(scores, 0.5 / n) if (scores == 0).any() else scores
    else:
        logits = np.stack([np.zeros(len(scores)), scores], axis=1) if scores.ndim == 1 else scores
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _on_test(fitted: Any, scores: Scores) -> np.ndarray:
    """The log-probabilities of the true classes of test rows, in two ways: see `Measures`."""
    if fitted is None:
        n, is_probability = len(scores.train), scores.is_probability
        rows = [np.log(uncalibrated(each, n, is_probability=is_probability)) for each in scores.on_test]
    else:
        rows = [fitted.calibrator_.predict_log_proba(each) for each in scores.on_test]
    truth = [each[np.arange(len(each)), scores.test_labels] for each in rows]
    return np.stack([truth[-1], np.logaddexp.reduce(truth[:-1], axis=0) - np.log(N_FOLDS)])
