"""Our calibrators of binary scores beside those of scikit-learn, probmetrics and netcal, fitted to the same scores.

    python bench/binary_peers.py    # in an environment with scikit-learn, probmetrics and netcal; without one, it is skipped

Each line compares two calibrators that minimise the same loss over the same maps: the largest difference of a calibrated
probability of the samples that they were fitted to, and by how much the peer's mean loss on these samples lies above ours. A
loss above ours means that the peer's search has stopped before the minimum.
"""

import importlib.util
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

import nishimori
from binary import Scores, _of_networks, _of_scikit_learn

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


def main() -> None:
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


if __name__ == "__main__":
    main()
