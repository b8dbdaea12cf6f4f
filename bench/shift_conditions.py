"""What may be wrong in validation and test data: corrupted images, and wrong labels of four kinds."""

import numpy as np

from nishimori_paper.training import _corruptions as corruptions

CLEAN = "clean"
SEVERITIES = (1, 3, 5)
# Of the images.
CONDITIONS = (CLEAN, *(f"{kind} {severity}" for kind in corruptions.names() for severity in SEVERITIES))
# By kind of noise, what becomes of a label.
NOISES = {
    "uniform": "any other class",
    "pairs": "the next class",
    "confusion": "a class it is confused with",
    "classes": "random in some classes",
}
RATES = (0.05, 0.1, 0.2, 0.3, 0.4)
# Of the labels: a kind of noise and a rate.
VARIANTS = (("none", 0.0), *((noise, rate) for noise in NOISES for rate in RATES))


def kind_of(condition):
    """The kind of corruption, without its severity; empty for clean images."""
    return condition.rpartition(" ")[0]


def corrupted(images, condition, seed):
    """Images under one of `CONDITIONS`."""
    kind, _, severity = condition.rpartition(" ")
    return corruptions.corrupt(images, kind, int(severity), seed=seed) if kind else images


def transitions(noise, rate, confusion):
    """Probabilities of the noisy label in columns, given the true one in rows.

    Parameters
    ----------
    noise : str
        One of `NOISES`. "classes" is the noise of the paper's Appendix C: the labels of the first ``rate`` of the classes, the
        last of them perhaps in part, are uniform over all classes, the true one included. The other kinds change a share
        ``rate`` of the labels of each class.
    rate : float
        From 0 to 1.
    confusion : array of shape (n_classes, n_classes)
        How often images of a class (row) are predicted as another (column).
    """
    n = len(confusion)
    if noise == "uniform":
        wrong = (1 - np.eye(n)) / (n - 1)
    elif noise == "pairs":
        wrong = np.roll(np.eye(n), 1, axis=1)
    elif noise == "confusion":
        wrong = np.where(np.eye(n, dtype=bool), 0.0, confusion)
        # A class that is never mistaken gets any other.
        wrong = np.where(wrong.sum(axis=1, keepdims=True) > 0, wrong, 1 - np.eye(n))
        wrong = wrong / wrong.sum(axis=1, keepdims=True)
    elif noise == "classes":
        share = np.clip(n * rate - np.arange(n), 0, 1)[:, None]
        return (1 - share) * np.eye(n) + share / n
    else:
        raise ValueError(noise)
    return (1 - rate) * np.eye(n) + rate * wrong


def noisy(labels, matrix, rng):
    """Labels that are drawn from the rows of a matrix of `transitions`."""
    cumulated = np.cumsum(matrix, axis=1)[labels]
    # The last sum may be below 1 by rounding.
    return np.minimum((rng.random(labels.shape)[..., None] >= cumulated).sum(axis=-1), len(matrix) - 1)
