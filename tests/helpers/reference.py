"""Slow, obvious NumPy and SciPy from the formulas: the only thing that results are compared with."""

import itertools

import numpy as np
from scipy.optimize import brentq


def softmax(logits, temperature=1.0):
    z = np.asarray(logits, dtype=np.float64)
    z = (z - z.max(axis=1, keepdims=True)) / temperature
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


def right(logits, labels, top_n=1):
    """Whether each label is among the first ``top_n`` of a stable sort by decreasing logit, and not masked."""
    z = np.asarray(logits, dtype=np.float64)
    order = np.argsort(-z, axis=1, kind="stable")[:, :top_n]
    hit = (order == np.asarray(labels)[:, None]).any(axis=1)
    return hit & (z[np.arange(len(z)), labels] > -np.inf)


def ec_gap(logits, labels, temperature, weights=None, top_n=1):
    """Mean top-N probability minus top-N accuracy."""
    p = np.sort(softmax(logits, temperature), axis=1)[:, -top_n:].sum(axis=1)
    return np.average(p - right(logits, labels, top_n), weights=weights)


def ts_gap(logits, labels, temperature, weights=None):
    """Mean expected logit minus mean logit of the true class: T**2 times the derivative of the loss in T, up to its sign."""
    z = np.asarray(logits, dtype=np.float64)
    z = z - z.max(axis=1, keepdims=True)
    p = softmax(z, temperature)
    expected = np.where(p > 0, p * np.where(np.isfinite(z), z, 0), 0).sum(axis=1)
    return np.average(expected - z[np.arange(len(z)), labels], weights=weights)


def _root(gap, low, high):
    x = brentq(lambda log_t: gap(np.exp(log_t)), np.log(low), np.log(high), xtol=1e-15, rtol=1e-14, maxiter=500)
    return float(np.exp(x))


def ec_temperature(logits, labels, weights=None, top_n=1, low=1e-6, high=1e6):
    return _root(lambda t: ec_gap(logits, labels, t, weights, top_n), low, high)


def ts_temperature(logits, labels, weights=None, low=1e-6, high=1e6):
    return _root(lambda t: ts_gap(logits, labels, t, weights), low, high)


def nll(logits, labels, temperature=1.0, weights=None):
    p = softmax(logits, temperature)
    return np.average(-np.log(p[np.arange(len(p)), labels]), weights=weights)


def brier(logits, labels, temperature=1.0, weights=None):
    p = softmax(logits, temperature)
    return np.average(((p - np.eye(p.shape[1])[labels]) ** 2).sum(axis=1), weights=weights)


def ece(claimed, true, edges, weights=None, norm="l1"):
    """Bin by bin with a loop: edges[i] < p <= edges[i+1] up to rounding, and p = 0 in the first bin."""
    edges = np.concatenate([edges[:1], np.asarray(edges)[1:-1] * (1 + 16 * np.finfo(float).eps), edges[-1:]])
    weights = np.ones(len(claimed)) if weights is None else np.asarray(weights, dtype=float)
    gaps, shares = [], []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = (claimed > low) & (claimed <= high) | ((i == 0) & (claimed == 0))
        total = weights[inside].sum()
        if total > 0:
            gaps.append(abs((weights * (claimed - true))[inside].sum() / total))
            shares.append(total / weights.sum())
    gaps, shares = np.array(gaps), np.array(shares)
    return {"l1": shares @ gaps, "l2": np.sqrt(shares @ gaps**2), "max": gaps.max()}[norm]


def error_of_mean(scores, weights=None, *, counts=False, clusters=None):
    """The standard error of a weighted mean: deviations from it, squared one by one or summed over each cluster first."""
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=float)
    mean = np.average(scores, weights=weights)
    if clusters is not None:
        total = sum((weights * (scores - mean))[clusters == each].sum() ** 2 for each in np.unique(clusters))
    else:
        total = ((weights if counts else weights**2) * (scores - mean) ** 2).sum()
    return np.sqrt(total) / weights.sum()


def scores(logits, labels, temperature=1.0):
    """The scores of each row by the name of the metric that is their mean."""
    p, rows = softmax(logits, temperature), np.arange(len(labels))
    return {
        "error": (~right(logits, labels)).astype(float),
        "accuracy": right(logits, labels).astype(float),
        "confidence": p.max(axis=1),
        "brier": ((p - np.eye(p.shape[1])[labels]) ** 2).sum(axis=1),
        "nll": -np.log(p[rows, labels]),
    }


def quantile_edges(claimed, n_bins):
    """The last value of each chunk of `numpy.array_split` of the sorted values."""
    chunks = np.array_split(np.sort(claimed), n_bins)
    return np.array([0.0, *(chunk[-1] if len(chunk) else 1.0 for chunk in chunks[:-1]), 1.0])


def weighted_quantile_edges(claimed, weights, n_bins):
    """Each inner edge is the smallest value up to which the share of whole weights is at least i/n_bins, in whole numbers."""
    order = np.argsort(claimed)
    below, total = np.cumsum(np.asarray(weights)[order]).tolist(), int(np.sum(weights))
    inner = [next(c for c, b in zip(claimed[order], below, strict=True) if b * n_bins >= i * total) for i in range(1, n_bins)]
    return np.array([0.0, *inner, 1.0])


def drawn(n, k, temperature=2.0, scale=3.0, seed=0):
    """Logits, and labels drawn from softmax(logits / temperature)."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, k))
    labels = (logits / temperature + rng.gumbel(size=(n, k))).argmax(axis=1)
    return logits, labels
