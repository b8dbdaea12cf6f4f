"""Classes of other frequencies: what `with_prevalence` gains on bundled networks, and what resampling does to probabilities.

    pip install -r requirements/integrations.txt                  # imbalanced-learn, for the second question
    python bench/studies/prevalence.py
    python bench/studies/prevalence.py --shifts 2 --splits 1 --networks cifar10/resnet20 --out small.md

**Networks.** Calibrators are fitted to the validation logits of each bundled network. Test samples of class k get the weight
new/old, so that a network is tested where classes have the new frequencies: these are drawn from a Dirichlet distribution, or
one class has a given share and all others share the rest. The oracle adds the numbers per class that have the least loss on the
test data themselves: no shift can be better. **Resampling.** On data with a rare second class, a classifier is trained with and
without resampling, inside `CalibratedClassifier` and before it; the loss is that on test data as they are. About ten minutes in
one thread.
"""

import argparse
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nishimori
from nishimori import CalibratedClassifier
from nishimori.errors import InputError

METHODS = ("ec", "bias", "vector", "best")
DIRICHLET = (0.1, 1.0, 10.0)
TWEAKED = (0.01, 0.5, 0.9)
LEAST = 1e-3  # of a share that is drawn: Bayes' rule needs shares above zero


def dirichlet(alpha: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Shares of classes that are drawn from a Dirichlet distribution, and at least one in a thousand."""

    def draw(rng: np.random.Generator, n_classes: int) -> np.ndarray:
        shares = np.maximum(rng.dirichlet(np.full(n_classes, alpha)), LEAST / n_classes)
        return shares / shares.sum()

    return draw


def tweak_one(share: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    """One class, drawn at random, has the share; the others have the rest in equal parts."""

    def draw(rng: np.random.Generator, n_classes: int) -> np.ndarray:
        shares = np.full(n_classes, (1 - share) / (n_classes - 1))
        shares[rng.integers(n_classes)] = share
        return shares

    return draw


SHIFTS = {f"Dirichlet, α = {alpha:g}": dirichlet(alpha) for alpha in DIRICHLET} | {
    f"one class {share:.0%}": tweak_one(share) for share in TWEAKED
}


@dataclass(frozen=True)
class Losses:
    """Mean losses where classes have other frequencies: as it is, shifted, and shifted as well as possible."""

    as_it_is: float
    shifted: float
    oracle: float


def by_class(probabilities: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """The mean loss of the samples of each class."""
    losses = -np.log(probabilities[np.arange(len(labels)), labels])
    return np.bincount(labels, losses, n_classes) / np.bincount(labels, minlength=n_classes)


def least_loss(log_p: np.ndarray, labels: np.ndarray, weights: np.ndarray, start: np.ndarray) -> float:
    """The least mean loss that a number per class, added to log-probabilities, can give on weighted samples."""
    of_class = np.bincount(labels, weights, log_p.shape[1])
    own = float(weights @ log_p[np.arange(len(labels)), labels])

    def loss(added: np.ndarray) -> tuple[float, np.ndarray]:
        z = log_p + added
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        total = e.sum(axis=1)
        value = weights @ (top[:, 0] + np.log(total)) - own - of_class @ added
        return value / weights.sum(), ((weights / total) @ e - of_class) / weights.sum()

    return float(minimize(loss, start, jac=True, method="L-BFGS-B").fun)


def measure_network(network: Any, n_shifts: int, seed: int) -> tuple[dict[tuple[str, str], list[Losses]], dict[str, bool]]:
    """The losses of each kind of shift and method, and whether `with_prevalence` refuses the method."""
    val, test = network.validation, network.test
    n_classes = val.logits.shape[1]
    old = np.bincount(val.labels, minlength=n_classes) / len(val.labels)
    found: dict[tuple[str, str], list[Losses]] = {}
    is_refused = {}
    for method in METHODS:
        fitted = nishimori.calibrator(method).fit(val.logits, val.labels)
        is_refused[method] = refuses(fitted, old)
        p = fitted.predict_proba(test.logits.astype(float))
        for kind, draw in SHIFTS.items():
            rng = np.random.default_rng(seed)
            for _ in range(n_shifts):
                new = draw(rng, n_classes)
                shifted = nishimori.with_prevalence(p, new, old)
                own, after = (float(by_class(each, test.labels, n_classes) @ new) for each in (p, shifted))
                weights = (new / np.bincount(test.labels, minlength=n_classes))[test.labels]
                best = least_loss(np.log(p), test.labels, weights, np.log(new / old))
                found.setdefault((kind, method), []).append(Losses(own, after, best))
    return found, is_refused


def refuses(fitted: Any, old: np.ndarray) -> bool:
    """Whether the calibrator says that its probabilities are off the frequencies of its own data."""
    try:
        fitted.with_prevalence(old)
    except InputError:
        return True
    return False


def gained(losses: Sequence[Losses]) -> float:
    """The share of what the oracle gains that the shift gains."""
    return float(sum(each.as_it_is - each.shifted for each in losses) / sum(each.as_it_is - each.oracle for each in losses))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (headers, ["---"] * len(headers), *rows)]


def networks_page(names: Sequence[str], n_shifts: int) -> list[str]:
    """The tables of bundled networks."""
    found: dict[tuple[str, str], dict[str, list[Losses]]] = {}
    refused: dict[str, list[str]] = {method: [] for method in METHODS}
    for seed, name in enumerate(names):
        losses, is_refused = measure_network(nishimori.data.load(name), n_shifts, seed)
        for key, each in losses.items():
            found.setdefault(key, {})[name] = each
        for method in METHODS:
            refused[method] += [name] * is_refused[method]
        print(
            name, {method: round(gained(losses["Dirichlet, α = 1", method]), 3) for method in METHODS}, is_refused, flush=True
        )
    rows, gains = [], []
    for kind in SHIFTS:
        cells = []
        for method in METHODS:
            all_losses = [each for losses in found[kind, method].values() for each in losses]
            means = [np.mean([getattr(each, part) for each in all_losses]) for part in ("as_it_is", "shifted", "oracle")]
            cells.append(" / ".join(f"{mean:.3f}" for mean in means))
        rows.append([kind, *cells])
        gains.append([kind, *(f"{100 * gained([e for part in found[kind, m].values() for e in part]):.0f} %" for m in METHODS)])
    return [
        "## Bundled networks",
        "",
        f"{len(names)} networks, {n_shifts} draws of new frequencies for each. Test loss (NLL): the calibrator as it is / "
        "shifted by `with_prevalence` / shifted by the numbers per class that are best on the test data (the oracle). `ec` is "
        "shifted here without the check that refuses it.",
        "",
        *table(["new frequencies", *METHODS], rows),
        "",
        "Share of the oracle's gain:",
        "",
        *table(["new frequencies", *METHODS], gains),
        "",
        "Networks of which `with_prevalence` is refused: "
        + "; ".join(f"`{method}` {len(refused[method])} of {len(names)}" for method in METHODS)
        + ".",
    ]


def _rare(X: np.ndarray, is_second: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows of the first class, and so many of the second that they have the share."""
    second = np.flatnonzero(is_second)
    n_kept = int(share / (1 - share) * (~is_second).sum())
    rows = np.concatenate([np.flatnonzero(~is_second), np.random.default_rng(seed).permutation(second)[:n_kept]])
    return X[rows], is_second[rows].astype(int)


def _generated(share: float, separation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        8000, n_informative=8, n_redundant=4, weights=[1 - share], flip_y=0.005, class_sep=separation, random_state=seed
    )


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "generated, easy": lambda: _generated(0.031, 1.2, 1),
    "generated, hard": lambda: _generated(0.031, 0.6, 2),
    "digits, 8 or not": lambda: ((d := load_digits()).data, (d.target == 8).astype(int)),
    "digits, 3 or not": lambda: ((d := load_digits()).data, (d.target == 3).astype(int)),
    "breast cancer, 8 % malignant": lambda: _rare((d := load_breast_cancer()).data, d.target == 0, 0.08, 0),
}
MODELS: dict[str, Any] = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "forest": RandomForestClassifier(100, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=60, random_state=0),
}


def with_class_weight(model: Any) -> Any:
    """The classifier with both classes of the same weight."""
    last = model.steps[-1][0] + "__" if hasattr(model, "steps") else ""
    return clone(model).set_params(**{f"{last}class_weight": "balanced"})


def measure_resampling(X: np.ndarray, y: np.ndarray, model: Any, seed: int) -> dict[str, float]:
    """Losses on half of the rows, by what was done with the other half."""
    from imblearn import over_sampling, pipeline, under_sampling  # noqa: PLC0415 - only this question needs it

    ((train, test),) = StratifiedShuffleSplit(1, test_size=0.5, random_state=seed).split(X, y)
    X_train, y_train, share = X[train], y[train], float(y[train].mean())
    fitted = {
        "nothing": clone(model).fit(X_train, y_train),
        "nothing, calibrated": CalibratedClassifier(clone(model)).fit(X_train, y_train),
        "class_weight": with_class_weight(model).fit(X_train, y_train),
        "class_weight, calibrated": CalibratedClassifier(with_class_weight(model)).fit(X_train, y_train),
    }
    p = {name: each.predict_proba(X[test]) for name, each in fitted.items()}
    for name, sampler in {
        "SMOTE": over_sampling.SMOTE(random_state=seed, k_neighbors=3),
        "copies of the rare class": over_sampling.RandomOverSampler(random_state=seed),
        "fewer of the frequent class": under_sampling.RandomUnderSampler(random_state=seed),
    }.items():
        even = sampler.fit_resample(X_train, y_train)
        before = CalibratedClassifier(clone(model)).fit(*even)
        inside = CalibratedClassifier(pipeline.make_pipeline(sampler, clone(model))).fit(X_train, y_train)
        p[name] = clone(model).fit(*even).predict_proba(X[test])
        p[f"{name}, inside, calibrated"] = inside.predict_proba(X[test])
        p[f"{name}, before, calibrated"] = before.predict_proba(X[test])
        p[f"{name}, before, calibrated, with_prevalence"] = before.with_prevalence(share).predict_proba(X[test])
    return {name: log_loss(y[test], each) for name, each in p.items()}


def resampling_page(n_splits: int) -> list[str]:
    """The table of resampling."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, load in DATA.items():
        X, y = load()
        for kind, model in MODELS.items():
            for seed in range(n_splits):
                losses = measure_resampling(X, y, model, seed)
                for way, loss in losses.items():
                    found.setdefault(way, {}).setdefault(kind, []).append(loss)
                    found[way].setdefault(name, []).append(loss)
            print(name, kind, {way: round(loss, 3) for way, loss in losses.items()}, flush=True)
    columns = [*MODELS, *DATA]
    rows = [[way, *(f"{np.mean(losses[column]):.3f}" for column in columns)] for way, losses in found.items()]
    shares = ", ".join(f"{name} {100 * load()[1].mean():.1f} %" for name, load in DATA.items())
    return [
        "## Resampling",
        "",
        f"Mean test loss (`log_loss`) over data or classifiers and {n_splits} splits. Positives: {shares}.",
        "",
        *table(["training", *columns], rows),
    ]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shifts", type=int, default=5, help="draws of new frequencies of each kind (5)")
    parser.add_argument("--splits", type=int, default=3, help="random splits of the data that are resampled (3); 0 for none")
    parser.add_argument("--networks", nargs="*", default=None, help="bundled networks (all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "prevalence.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = options.networks if options.networks is not None else list(nishimori.data.names())
    lines = ["# Classes of other frequencies", "", "Written by `python bench/studies/prevalence.py`.", ""]
    lines += networks_page(names, options.shifts)
    if options.splits:
        lines += ["", *resampling_page(options.splits)]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
