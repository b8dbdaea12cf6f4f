"""Calibrators of binary scores on real scores: test loss by method and number of validation samples.

    python bench/binary.py --draws 5                                    # a first look, in seconds
    python bench/binary.py --out bench/results/binary.md                # a few minutes

The models are scikit-learn's on two of its data sets (breast cancer, and whether a digit is one of 5 to 9), and bundled
networks asked about two of their classes, whose logits differ by the score. Of each, n validation samples are drawn at random
without repetition, and the rest is the test set. In the lines "rare", four of five samples of the second class are left out of
both. "Plain" methods have `smooth_labels=False`. If the scores of a draw separate the classes, they have no solution: such
draws are counted and are not part of the means, of no method.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import nishimori
from nishimori import data, metrics
from nishimori.errors import NishimoriError

SIZES = (50, 200, 1000)
LEAST_TEST = 100
FLOOR = 1e-3
HOW = "`python bench/binary.py`; `bench/binary.py` says what is drawn."
MODELS = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000)),
    "support vectors": lambda: make_pipeline(StandardScaler(), LinearSVC(random_state=0)),
    "naive Bayes": GaussianNB,
    "forest": lambda: RandomForestClassifier(random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
NETWORKS = {  # two classes that are hard to tell apart
    "cifar10/resnet20": (3, 5),
    "cifar10/densenet121": (3, 5),
    "cifar10/resnet20-fraction-0.1": (4, 7),
    "svhn/resnet20": (3, 5),
}
METHODS: dict[str, Callable[[], nishimori.Calibrator]] = {
    "none": lambda: nishimori.calibrator("none"),
    "ts": nishimori.TemperatureScaling,
    "platt": nishimori.Platt,
    "platt, plain": lambda: nishimori.Platt(smooth_labels=False),
    "beta": nishimori.Beta,
    "beta, plain": lambda: nishimori.Beta(smooth_labels=False),
    "quadratic": nishimori.calibrators.Quadratic,
    "quadratic, plain": lambda: nishimori.calibrators.Quadratic(smooth_labels=False),
}


@dataclass(frozen=True)
class Scores:
    """Log-odds of a model on data that it was not trained on, and whether the second class is true."""

    name: str
    scores: np.ndarray
    labels: np.ndarray

    def rare(self) -> "Scores":
        """The same without four of five samples of the second class."""
        kept = ~self.labels | (np.cumsum(self.labels) % 5 == 0)
        return Scores(f"{self.name}, rare", self.scores[kept], self.labels[kept])


def models() -> Iterator[Scores]:
    """Every model, as it is and with a rare second class."""
    for found in (*_of_scikit_learn(), *_of_networks()):
        yield found
        yield found.rare()


def _of_scikit_learn() -> Iterator[Scores]:
    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    sets = {"cancer": (cancer[0], cancer[1] == 1, 0.3), "digits": (digits[0], digits[1] >= 5, 0.15)}
    for name, (x, y, share) in sets.items():
        train_x, rest_x, train_y, rest_y = train_test_split(x, y, train_size=share, random_state=0, stratify=y)
        for kind, make in MODELS.items():
            if (name, kind) == ("digits", "naive Bayes"):
                continue  # it is hardly better than chance, so that temperature scaling often has no solution
            yield Scores(f"{name}, {kind}", _log_odds(make().fit(train_x, train_y), rest_x), rest_y)


def _log_odds(model: object, x: np.ndarray) -> np.ndarray:
    """What a model says, probabilities as log-odds of what is left of them above a floor."""
    if hasattr(model, "decision_function"):
        return model.decision_function(x)
    p = np.clip(model.predict_proba(x)[:, 1], FLOOR, 1 - FLOOR)
    return np.log(p / (1 - p))


def _of_networks() -> Iterator[Scores]:
    for name, (first, second) in NETWORKS.items():
        network = data.load(name)
        parts = (network.validation, network.test)
        logits = np.concatenate([each.logits for each in parts]).astype(float)
        labels = np.concatenate([each.labels for each in parts])
        kept = (labels == first) | (labels == second)
        yield Scores(f"{name}, {first} or {second}", (logits[:, second] - logits[:, first])[kept], labels[kept] == second)


@dataclass(frozen=True)
class Outcome:
    """The test loss of each method in one draw; NaN where it has no solution."""

    name: str
    size: int
    losses: np.ndarray

    @property
    def is_complete(self) -> bool:
        return bool(np.isfinite(self.losses).all())


def drawn(of: Scores, size: int, seed: int) -> Outcome | None:
    """One draw; None if some class has fewer than two samples in it."""
    order = np.random.default_rng([seed, size]).permutation(len(of.labels))
    val, test = order[:size], order[size:]
    if min(of.labels[val].sum(), (~of.labels[val]).sum()) < 2:
        return None
    losses = []
    for make in METHODS.values():
        try:
            fitted = make().fit(of.scores[val], of.labels[val])
        except NishimoriError:
            losses.append(np.nan)
            continue
        losses.append(metrics.nll(fitted.transform(of.scores[test]), of.labels[test]))
    return Outcome(of.name, size, np.array(losses))


def outcomes(draws: int, sizes: tuple[int, ...]) -> list[Outcome]:
    """All draws of all models."""
    found = []
    for of in models():
        for size in sizes:
            if len(of.labels) - size >= LEAST_TEST:
                found += [each for seed in range(draws) if (each := drawn(of, size, seed)) is not None]
    return found


def of_size(found: list[Outcome], size: int) -> dict[str, list[Outcome]]:
    """The draws of one size by the name of the model."""
    return {name: [each for each in found if (each.size, each.name) == (size, name)] for name in _names(found, size)}


def _names(found: list[Outcome], size: int) -> list[str]:
    return list(dict.fromkeys(each.name for each in found if each.size == size))


def means(found: list[Outcome], sizes: tuple[int, ...]) -> Iterator[str]:
    """The mean loss of each method over models."""
    yield "## Means over models\n"
    yield f"| n | models | {' | '.join(METHODS)} | separated |"
    yield "|---" * (len(METHODS) + 3) + "|"
    for size in sizes:
        draws = of_size(found, size).values()
        separated = np.mean([not each.is_complete for these in draws for each in these])
        losses = [np.mean(known, axis=0) for these in draws if (known := _complete(these))]
        yield f"| {size:,} | {len(losses)} | {_cells(np.mean(losses, axis=0))} | {separated:.1%} |"


def differences(found: list[Outcome], sizes: tuple[int, ...]) -> Iterator[str]:
    """The mean difference of pairs of methods."""
    yield "\n## Smoothed minus plain, and methods minus Platt scaling\n"
    yield "Mean difference of the test loss over models, times 1000, and in how many models it is negative.\n"
    pairs = [(name, f"{name}, plain") for name in ("platt", "beta", "quadratic")]
    pairs += [(name, "platt") for name in ("ts", "beta", "quadratic")]
    yield f"| n | {' | '.join(f'{one} − {other}' for one, other in pairs)} |"
    yield "|---" * (len(pairs) + 1) + "|"
    names = list(METHODS)
    for size in sizes:
        losses = np.array([np.mean(known, axis=0) for these in of_size(found, size).values() if (known := _complete(these))])
        gaps = [losses[:, names.index(one)] - losses[:, names.index(other)] for one, other in pairs]
        cells = [f"{1000 * each.mean():+.2f} ({(each < 0).sum()} of {len(each)})" for each in gaps]
        yield f"| {size:,} | {' | '.join(cells)} |"


def every_model(found: list[Outcome], sizes: tuple[int, ...]) -> Iterator[str]:
    """The mean loss of each method for each model."""
    yield "\n## Every model\n"
    yield f"| model | n | draws | {' | '.join(METHODS)} | separated |"
    yield "|---" * (len(METHODS) + 4) + "|"
    for size in sizes:
        for name, these in of_size(found, size).items():
            known = _complete(these)
            cells = _cells(np.mean(known, axis=0)) if known else " | ".join("" for _ in METHODS)
            yield f"| {name} | {size:,} | {len(these)} | {cells} | {1 - len(known) / len(these):.0%} |"


def _complete(these: list[Outcome]) -> list[np.ndarray]:
    return [each.losses for each in these if each.is_complete]


def _cells(losses: np.ndarray) -> str:
    return " | ".join(f"{each:.4f}" for each in losses)


def main() -> None:
    """Measure, and write a report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=40, help="how many validation sets of each model and size")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, help="where to write the report; by default it is printed")
    options = parser.parse_args()
    sizes = tuple(options.sizes)
    found = outcomes(options.draws, sizes)
    report = [*means(found, sizes), *differences(found, sizes), *every_model(found, sizes)]
    text = "\n".join(["# Calibrators of binary scores\n", HOW, "", *report, ""])
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
