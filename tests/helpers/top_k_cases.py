"""Top-k log-probabilities of drawn data, and how the classes that are not listed may share their mass."""

import numpy as np
from scipy.special import log_softmax

import nishimori


def drawn(seed, n=400, n_classes=30, scale=3.0, temperature=1.5):
    """Log-probabilities of all classes, and labels drawn at a temperature."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, n_classes))
    labels = (logits / temperature + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return log_softmax(logits, axis=1), labels


def listed(log_p, k, labels=None, **more):
    """The k largest of each row; with labels, their log-probabilities too."""
    indices = np.argsort(-log_p, axis=1, kind="stable")[:, :k]
    if labels is not None:
        more["label_log_probabilities"] = log_p[np.arange(len(log_p)), labels]
    return nishimori.TopK(indices, np.take_along_axis(log_p, indices, axis=1), log_p.shape[1], **more)


def even(log_p, k):
    """All log-probabilities, where those beyond the k largest of each row are replaced by their mean."""
    order = np.argsort(-log_p, axis=1, kind="stable")
    p = np.exp(log_p)
    for row, classes in zip(p, order[:, k:], strict=True):
        row[classes] = row[classes].mean()
    return np.log(p)


def concentrated(log_p, k):
    """The same, where they are replaced by as many copies of the k-th as fit, one remainder, and zeros."""
    order = np.argsort(-log_p, axis=1, kind="stable")
    p = np.take_along_axis(np.exp(log_p), order, axis=1)
    left = p[:, k:].sum(axis=1)
    for column in range(k, p.shape[1]):
        p[:, column] = np.minimum(left, p[:, k - 1])
        left = left - p[:, column]
    found = np.empty_like(p)
    with np.errstate(divide="ignore"):
        np.put_along_axis(found, order, np.log(p), axis=1)
    return found
