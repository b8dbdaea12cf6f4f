"""Slow formulas of the measures of calibration, from their papers: what the library's results are compared with."""

import numpy as np
import reference


def claims(logits, labels, temperature=1.0, of="top"):
    """Claimed probabilities and whether each came true."""
    p = reference.softmax(logits, temperature)
    return (p.max(axis=1), reference.right(logits, labels)) if of == "top" else (p[:, 1], np.asarray(labels) == 1)


def smoothed_error(claimed, true, width, weights=None):
    """∫ |Σ w (claim - outcome) K(t, claim)| dt / Σ w with a Gaussian at each claim and at its mirror images, added up."""
    weights = np.ones(len(claimed)) if weights is None else weights
    t, total = np.linspace(0, 1, 10_001), 0.0
    for shift in range(-2, 3):
        for images in (2 * shift + claimed, 2 * shift - claimed):
            total += np.exp(-((t[:, None] - images) ** 2) / (2 * width**2)) @ (weights * (claimed - true))
    return np.trapezoid(np.abs(total), t) / (np.sqrt(2 * np.pi) * width * np.sum(weights))


def ks(claimed, true, weights=None):
    """The largest |Σ w (claim - outcome)| / Σ w over the claims up to a threshold, threshold by threshold."""
    weights = np.ones(len(claimed)) if weights is None else np.asarray(weights, dtype=float)
    gaps = [abs(np.sum((weights * (claimed - true))[claimed <= threshold * (1 + 1e-12)])) for threshold in claimed]
    return max(gaps) / weights.sum()


def isotonic(claimed, true, weights=None):
    """The increasing function of the claim that is closest to the outcomes: the largest lower mean of all upper means."""
    weights = np.ones(len(claimed)) if weights is None else np.asarray(weights, dtype=float)

    def mean(low, high):
        inside = (claimed >= low * (1 - 1e-12)) & (claimed <= high * (1 + 1e-12))
        return np.sum((weights * true)[inside]) / np.sum(weights[inside])

    levels = np.unique(claimed[weights > 0])
    return np.array([max(min(mean(a, b) for b in levels[levels >= p]) for a in levels[levels <= p]) for p in claimed])


def claim_score(score, probabilities, true, weights=None):
    """Mean squared error, or mean of minus the logarithm of the probability of what happened."""
    happened = np.where(true, probabilities, 1 - probabilities)
    return np.average((1 - happened) ** 2 if score == "brier" else -np.log(happened), weights=weights)
