"""Temperatures per group from the formulas: plain NumPy on all rows, and one root of SciPy per equation."""

import numpy as np
import reference
from scipy.optimize import brentq
from scipy.stats import chi2


def row_gaps(logits, labels, temperatures, method):
    """The gap of each row at its own temperature: confidence minus correctness, or expected minus true logit over T."""
    z = np.asarray(logits, dtype=float)
    z = z - z.max(axis=1, keepdims=True)
    T = np.broadcast_to(temperatures, len(z))
    p = reference.softmax(z, T[:, None])
    if method == "ec":
        return p[np.arange(len(z)), z.argmax(axis=1)] - reference.right(z, labels)
    finite = np.where(np.isfinite(z), z, 0.0)
    return ((p * finite).sum(axis=1) - finite[np.arange(len(z)), labels]) / T


def model_variances(logits, temperatures, method):
    """The variance of the observable of each row under the model: correctness, or the true logit over T."""
    z = np.asarray(logits, dtype=float)
    p = reference.softmax(z, np.broadcast_to(temperatures, len(z))[:, None])
    if method == "ec":
        c = p.max(axis=1)
        return c * (1 - c)
    finite = np.where(np.isfinite(z), z, 0.0)
    return ((p * finite**2).sum(axis=1) - (p * finite).sum(axis=1) ** 2) / np.broadcast_to(temperatures, len(z)) ** 2


def sums(logits, labels, groups, number, temperatures, method, weights=None, clusters=None, counts=False):
    """Gap, slope in log β (by differences), and the larger of both variances, of each group at its temperature."""
    w = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)
    T, h = np.broadcast_to(temperatures, number)[groups], 1e-5
    g = row_gaps(logits, labels, T, method)
    # The slope of temperature scaling is that in units of the β at which it is taken.
    unit = np.exp(h) if method == "ts" else 1.0
    rise = (
        row_gaps(logits, labels, T * np.exp(-h), method) / unit - row_gaps(logits, labels, T * np.exp(h), method) * unit
    ) / (2 * h)
    u = w if counts else w**2
    model = np.bincount(groups, u * model_variances(logits, T, method), number)
    measured = np.bincount(groups, u * g**2, number)
    if clusters is not None:
        measured = np.zeros(number)
        for group in range(number):
            for each in np.unique(clusters):
                measured[group] += (w * g)[(groups == group) & (clusters == each)].sum() ** 2
    return np.bincount(groups, w * g, number), np.bincount(groups, w * rise, number), np.maximum(model, measured)


def variance_at(t, v, target):
    """Where Σ(t - m)²/(v + τ²) is ``target``, with m the mean that has these weights; 0 if it is below at τ² = 0."""

    def excess(spread):
        mean = np.average(t, weights=1 / (v + spread))
        return ((t - mean) ** 2 / (v + spread)).sum() - target

    return brentq(excess, 0, 1e4, xtol=1e-15, rtol=1e-14) if excess(0) > 0 else 0.0


def fitted(logits, labels, groups, number, method, **options):
    """Common T, T of each group, and the variances between groups: that of Paule and Mandel, and the one that is used."""
    weights = options.get("weights")
    solve = reference.ec_temperature if method == "ec" else reference.ts_temperature
    common = solve(logits, labels, weights)
    gap, slope, variance = sums(logits, labels, groups, number, common, method, **options)
    t, v = gap / slope, variance / slope**2
    estimated = variance_at(t, v, number - 1)
    used = variance_at(t, v, chi2.ppf(0.975, number - 1)) if method == "ec" else estimated
    distances = np.zeros(number)
    w = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)

    def own(theta, group):
        rows = groups == group
        g = (w[rows] * row_gaps(logits[rows], labels[rows], common * np.exp(theta), method)).sum()
        return slope[group] / variance[group] * g * (np.exp(theta) if method == "ts" else 1.0) - theta / used

    def pooled(shift):
        return (w * row_gaps(logits, labels, common * np.exp(distances + shift)[groups], method)).sum()

    if used > 0:
        distances = np.array([brentq(own, -10, 10, args=(group,), xtol=1e-13) for group in range(number)])
        distances = distances + brentq(pooled, -2, 2, xtol=1e-13)
    return common, common * np.exp(distances), estimated, used
