"""Few samples of a rare class: how often a rule that chooses among calibrators does much worse than Platt scaling.

One sample in 51 is of the second class, and the score of a sample is normal with mean 1 or -1 and variance 1, by its class, so
that its true log-odds are 2·score - ln 50. The classifier says slope·score + shift. Calibrators are fitted to 200 samples and
measured on many.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from best_contestants import CANDIDATES, Pooled
from best_rules import RULES, SET, members, mixture_loss

N, N_TEST, ODDS = 200, 20_000, 50
LEAST_POSITIVE = 2  # in a draw, so that no training part is without them
WORSE = 0.05


@dataclass(frozen=True)
class Classifier:
    """What the classifier says about a score."""

    slope: float
    shift: float


CLASSIFIERS = {
    "log-odds 1.5 too high": Classifier(2.0, 1.5 - float(np.log(ODDS))),
    "trained on equal classes": Classifier(2.0, 0.0),
    "log-odds twice too large": Classifier(4.0, -2 * float(np.log(ODDS))),
    "calibrated": Classifier(2.0, -float(np.log(ODDS))),
}


def _draw(n: int, rng: np.random.Generator, model: Classifier) -> tuple[np.ndarray, np.ndarray]:
    labels = (rng.random(n) < 1 / (1 + ODDS)).astype(int)
    scores = 2 * labels - 1 + rng.standard_normal(n)
    return model.slope * scores + model.shift, labels


def load_draws(kind: str, n_draws: int, cache: Path) -> dict[str, np.ndarray]:
    """The numbers of one classifier, from a simulation if the folder ``cache`` does not have them."""
    path = cache / "imbalance" / f"{kind.replace(' ', '-')}__{n_draws}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer samples of a class than folds
            found = simulate(CLASSIFIERS[kind], n_draws)
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, **found)
        unfinished.replace(path)
    with np.load(path) as arrays:
        return dict(arrays)


def simulate(model: Classifier, n_draws: int) -> dict[str, np.ndarray]:
    """The log-ratio of the test losses of each rule and of Platt scaling, one number per draw."""
    rng, found = np.random.default_rng(0), {}
    test, test_labels = _draw(N_TEST, rng, model)
    names = members("all", CANDIDATES, N)
    one = dict(zip(names, np.eye(len(names)), strict=True))
    for _ in range(n_draws):
        scores, labels = _draw(N, rng, model)
        while labels.sum() < LEAST_POSITIVE:
            scores, labels = _draw(N, rng, model)
        pooled = Pooled(scores, labels)
        (held_out,), _ = pooled.held_out(names)
        on_test = np.stack([pooled.log_true(name, test, test_labels) for name in names], axis=1)
        weights = {f"always {name}": one[name] for name in names if name != "platt"}
        for which in ("all", SET):
            some = members(which, CANDIDATES, N)
            places = [names.index(name) for name in some]
            for name, rule in RULES.items():
                weights[f"{name}: {which}"] = rule(held_out[:, places], some) @ np.eye(len(names))[places]
        reference = mixture_loss(on_test, one["platt"])
        for name, each in weights.items():
            found.setdefault(name, []).append(np.log(mixture_loss(on_test, each) / reference))
    return {name: np.array(values) for name, values in found.items()}
