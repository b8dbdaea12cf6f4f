"""Logits and labels of a multilabel model whose temperatures are known."""

import numpy as np

TEMPERATURES = np.array([1.0, 2.0, 4.0])


def drawn(n=600, temperatures=TEMPERATURES, shift=0.0, seed=0):
    """Logits of independent labels, and labels drawn from the sigmoid of the logits over T."""
    rng = np.random.default_rng(seed)
    logits = 4 * rng.normal(size=(n, len(temperatures))) + shift
    return logits, (logits / temperatures + rng.logistic(size=logits.shape) > 0).astype(int)


X, Y = drawn()


def stacked(logits, labels):
    """Binary rows, label by label within each sample."""
    flat = np.asarray(logits, dtype=float).reshape(-1)
    return np.stack([np.zeros_like(flat), flat], axis=1), np.asarray(labels).reshape(-1)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))
