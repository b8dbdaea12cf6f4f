"""Independent labels with shared, shrunk and per-label temperatures, and with a bias per label.

    python bench/studies/multilabel.py --seeds 2 --sizes 300                     # a first look, in seconds
    python bench/studies/multilabel.py --out bench/results/multilabel.md         # a few minutes

Labels of digits ("even", "prime", ...), and labels that scikit-learn generates, are predicted by models that are too sure: one
logistic regression per label, and a network with one hidden layer. Each seed splits the samples anew into training, validation
and test samples. The tables have means over seeds, with the standard error of the mean, of scores of the test samples.
"""

import argparse
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier

from nishimori import methods
from nishimori.multilabel import MultilabelCalibrator, evaluate_multilabel

METHODS = (
    ("ec", "shared"),
    ("ec", "shrunk"),
    ("ec", "per_label"),
    ("ts", "shared"),
    ("ts", "shrunk"),
    ("ts", "per_label"),
    ("group", "per_label"),
    ("bias", "per_label"),
    ("vector", "per_label"),
    ("platt", "per_label"),
)
MOST = 800  # samples from which those for validation are taken; all others are for testing
COLUMNS = ("NLL", "mean ECE of labels", "mean abs(p - prevalence)", "mean abs(confidence - accuracy)", "labels that are off")


def digits():
    """Pixels, and five labels of the digits; one in ten is an eight."""
    images, digit = load_digits(return_X_y=True)
    named = (digit % 2 == 0, np.isin(digit, [2, 3, 5, 7]), digit > 4, np.isin(digit, [0, 6, 8, 9]), digit == 8)
    return images / 16, np.stack(named, axis=1).astype(int)


def generated():
    """Twelve labels, of which a sample has two on average; some of them are rare."""
    return make_multilabel_classification(4000, n_features=30, n_classes=12, n_labels=2, random_state=3)


def logistic(features, labels, seed):  # noqa: ARG001 - there is nothing random in it
    """A logistic regression per label, almost without a penalty."""
    return OneVsRestClassifier(LogisticRegression(C=300.0, max_iter=5000)).fit(features, labels).decision_function


def network(features, labels, seed):
    """A network that is trained until it makes no errors."""
    made = MLPClassifier((100,), max_iter=1000, random_state=seed).fit(features, labels)

    def logits(rows):
        hidden = np.maximum(rows @ made.coefs_[0] + made.intercepts_[0], 0)
        return hidden @ made.coefs_[1] + made.intercepts_[1]

    return logits


CASES = {
    "digits, logistic regressions": (digits, logistic, 200),
    "generated, network": (generated, network, 300),
}


def scores_of(card) -> tuple[float, ...]:
    """What the tables show."""
    gaps = np.mean([(abs(each.gap), abs(each.confidence_gap)) for each in card], axis=0)
    return (card.overall.nll, card.mean_ece, *gaps.tolist(), len(card.off))


@cache
def split(case: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels of the samples that the model was not trained on, in random order."""
    make, train, n_train = CASES[case]
    features, labels = make()
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen, others = order[:n_train], order[n_train:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the network need not converge
        return train(features[chosen], labels[chosen], seed)(features[others]), labels[others]


def measured(case: str, size: int, seed: int) -> dict[str, tuple[float, ...]]:
    """The scores of one split, before calibration and after each method."""
    logits, labels = split(case, seed)
    validation, test = slice(0, size), slice(MOST, None)
    found = {"before": scores_of(evaluate_multilabel(logits[test], labels[test]))}
    for method, parameters in METHODS:
        if method not in methods():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = MultilabelCalibrator(method, parameters=parameters).fit(logits[validation], labels[validation])
        card = evaluate_multilabel(logits[test], labels[test], calibrator=fitted)
        found[f"{method}, {parameters}"] = scores_of(card)
    return found


def table(case: str, size: int, seeds: int) -> str:
    """One data set and one number of validation samples, as Markdown."""
    rows = [measured(case, size, seed) for seed in range(seeds)]
    lines = [f"## {case}, {size} validation samples", "", f"| method | {' | '.join(COLUMNS)} |", "|---" * 6 + "|"]
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        means, errors = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(seeds)
        cells = [f"{mean:.4f} ± {error:.4f}" for mean, error in zip(means[:-1], errors[:-1], strict=True)]
        lines.append(f"| {name} | {' | '.join([*cells, f'{means[-1]:.1f}'])} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the tables as they are computed, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 800])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path)
    told = parser.parse_args()
    parts = [f"# Independent labels\n\nMeans over {told.seeds} splits, with standard errors, on test samples.\n"]
    for case in told.cases:
        for size in told.sizes:
            parts.append(table(case, size, told.seeds))
            print(parts[-1], flush=True)
            if told.out is not None:
                told.out.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
