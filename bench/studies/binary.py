"""Calibrators of binary scores on real scores: test loss by method and number of validation samples.

    python bench/studies/binary.py --draws 5                                    # a first look, in seconds
    python bench/studies/binary.py --out bench/results/binary.md                # a few minutes
    python bench/studies/binary.py --coverage                                   # intervals of Platt scaling; a minute
    python bench/studies/binary.py --peers                                      # beside packages that are installed

The models are scikit-learn's on two of its data sets (breast cancer, and whether a digit is one of 5 to 9), and bundled
networks asked about two of their classes, whose logits differ by the score. Of each, n validation samples are drawn at random
without repetition, and the rest is the test set. In the lines "rare", four of five samples of the second class are left out of
both. "Plain" methods have `smooth_labels=False`. If the scores of a draw separate the classes, they have no solution: such
draws are counted and are not part of the means, of no method.
"""

import argparse
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.calibration import _SigmoidCalibration
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
HOW = "`python bench/studies/binary.py`; `bench/studies/binary.py` says what is drawn."
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


# How often intervals of 95 % of the parameters of Platt scaling hold the truth, with and without smoothed labels.
#
# Scores are normal with standard deviation 2, and labels have the log-odds slope·s + intercept. Standard errors are the
# sandwich of what each fit solves, computed here, because `Platt` has none for smoothed labels. Draws whose scores separate the
# classes are left out.

TRUTHS = ((1.0, -0.5), (2.0, 1.0), (0.5, -2.0))
DRAWS = 400


def errors(s: np.ndarray, y: np.ndarray, fitted: nishimori.Platt) -> np.ndarray:
    """The standard errors of slope and intercept."""
    p = fitted.predict_proba(s)[:, 1]
    targets = y.astype(float)
    if fitted.smooth_labels:
        targets = np.where(y, (y.sum() + 1) / (y.sum() + 2), 1 / ((~y).sum() + 2))
    x = np.column_stack([s, np.ones(len(s))])
    gaps = x * (p - targets)[:, None]
    inverse = np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)
    return np.sqrt(np.diag(inverse @ gaps.T @ gaps @ inverse))


def measure_coverage() -> None:
    """Print one line per truth and size."""
    rng = np.random.default_rng(1)
    print(f"| slope | intercept | n | smoothed: slope | intercept | plain: slope | intercept |\n{'|---' * 7}|")
    for truth in TRUTHS:
        for n in SIZES:
            held: dict[bool, list[np.ndarray]] = {True: [], False: []}
            for _ in range(DRAWS):
                s = 2 * rng.normal(size=n)
                y = truth[0] * s + truth[1] + rng.logistic(size=n) > 0
                try:
                    fits = [nishimori.Platt(smooth_labels=smooth).fit(s, y) for smooth in held]
                except NishimoriError:
                    continue
                for fitted in fits:
                    off = np.abs(np.array(list(fitted.parameters_.values())) - truth)
                    held[fitted.smooth_labels].append(off < 1.96 * errors(s, y, fitted))
            cells = [f"{share:.1%}" for smooth in held for share in np.mean(held[smooth], axis=0)]
            print(f"| {truth[0]:g} | {truth[1]:g} | {n:,} | {' | '.join(cells)} |", flush=True)


# Our calibrators of binary scores beside those of scikit-learn, probmetrics and netcal, fitted to the same scores.
#
# Each line compares two calibrators that minimise the same loss over the same maps: the largest difference of a calibrated
# probability of the samples that they were fitted to, and by how much the peer's mean loss on these samples lies above ours. A
# loss above ours means that the peer's search has stopped before the minimum.

# Peers read probabilities, which must not round to 0 or 1 in float32.
LARGEST = 12.0
SIZE = 1000

Peer = Callable[[np.ndarray, np.ndarray], np.ndarray]


def by_regression(features: Callable[[np.ndarray], list[np.ndarray]]) -> Peer:
    """A logistic regression without a penalty, as exact as scikit-learn has it."""

    def fitted(s: np.ndarray, y: np.ndarray) -> np.ndarray:
        model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000)
        x = np.column_stack(features(s))
        return model.fit(x, y).predict_proba(x)[:, 1]

    return fitted


def sigmoid(s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The sigmoid of `CalibratedClassifierCV`."""
    return _SigmoidCalibration().fit(s, y).predict(s)


def of_probmetrics(kind: str) -> Peer:
    """A calibrator of probmetrics, which takes probabilities of both classes."""

    def fitted(s: np.ndarray, y: np.ndarray) -> np.ndarray:
        from probmetrics.calibrators.logistic import BinaryLogisticCalibrator  # noqa: PLC0415 - only where it is installed

        p = _probabilities(s)
        return BinaryLogisticCalibrator(type=kind).fit(p, y).predict_proba(p)[:, 1]

    return fitted


def of_netcal(name: str) -> Peer:
    """A calibrator of netcal, which takes the probability of the second class."""

    def fitted(s: np.ndarray, y: np.ndarray) -> np.ndarray:
        import netcal.scaling  # noqa: PLC0415 - only where it is installed

        p = _probabilities(s)[:, 1]
        return np.asarray(getattr(netcal.scaling, name)().fit(p, y).transform(p), dtype=float).ravel()

    return fitted


def _probabilities(s: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-s))
    return np.column_stack([1 - p, p])


def halves(s: np.ndarray) -> list[np.ndarray]:
    """Ln p and -ln(1 - p)."""
    return [-np.logaddexp(0, -s), np.logaddexp(0, s)]


PAIRS: dict[str, tuple[nishimori.Calibrator, str, Peer]] = {
    "sigmoid of scikit-learn": (nishimori.Platt(), "sklearn", sigmoid),
    "logistic regression on s": (nishimori.Platt(smooth_labels=False), "sklearn", by_regression(lambda s: [s])),
    "logistic regression on s, s²": (
        nishimori.calibrators.Quadratic(smooth_labels=False),
        "sklearn",
        by_regression(lambda s: [s, s**2]),
    ),
    "logistic regression on ln p, -ln(1 - p)": (nishimori.Beta(smooth_labels=False), "sklearn", by_regression(halves)),
    "probmetrics, affine": (nishimori.Platt(smooth_labels=False), "probmetrics", of_probmetrics("affine")),
    "probmetrics, quadratic": (
        nishimori.calibrators.Quadratic(smooth_labels=False),
        "probmetrics",
        of_probmetrics("quadratic"),
    ),
    "probmetrics, beta": (nishimori.Beta(smooth_labels=False), "probmetrics", of_probmetrics("beta")),
    "netcal, LogisticCalibration": (nishimori.Platt(smooth_labels=False), "netcal", of_netcal("LogisticCalibration")),
    "netcal, BetaCalibration": (nishimori.Beta(smooth_labels=False), "netcal", of_netcal("BetaCalibration")),
}


def chosen() -> Iterator[Scores]:
    """The first thousand scores of some models."""
    for of in (*_of_scikit_learn(), *_of_networks()):
        kept = slice(0, SIZE)
        yield Scores(of.name, np.clip(of.scores[kept], -LARGEST, LARGEST), of.labels[kept].astype(int))


def loss(p: np.ndarray, y: np.ndarray) -> float:
    """The mean cross-entropy."""
    return float(-np.log(np.maximum(np.where(y == 1, p, 1 - p), 1e-300)).mean())


def compare_peers() -> None:
    """Print one line per pair and model."""
    models = list(chosen())
    print(f"| peer | model | largest difference of p | loss above ours |\n{'|---' * 4}|")
    for name, (ours, package, peer) in PAIRS.items():
        if importlib.util.find_spec(package) is None:
            print(f"| {name} | {package} is not installed | | |")
            continue
        for of in models:
            mine = ours.fit(of.scores, of.labels).predict_proba(of.scores)[:, 1]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = peer(of.scores, of.labels)
            at_zero = "b" in ours.parameters_ and 0 in (ours.parameters_["a"], ours.parameters_["b"])
            note = " (ours has a coefficient at zero)" if at_zero else ""
            excess = loss(theirs, of.labels) - loss(mine, of.labels)
            print(f"| {name} | {of.name}{note} | {np.abs(mine - theirs).max():.1e} | {excess:+.1e} |", flush=True)


def main() -> None:
    """Measure, and write a report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=40, help="how many validation sets of each model and size")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, help="where to write the report; by default it is printed")
    parser.add_argument("--coverage", action="store_true", help="print how often intervals hold the truth instead")
    parser.add_argument("--peers", action="store_true", help="print how far other packages are from ours instead")
    options = parser.parse_args()
    if options.coverage or options.peers:
        (measure_coverage if options.coverage else compare_peers)()
        return
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
