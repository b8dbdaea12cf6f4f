"""Confidences that a model states in nine levels, all too high, and whether each answer was right."""

import numpy as np

LEVELS = np.array([0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0])
SHARES = np.array([0.05, 0.05, 0.05, 0.1, 0.15, 0.15, 0.2, 0.15, 0.1])
RIGHT = np.array([0.3, 0.35, 0.45, 0.5, 0.6, 0.62, 0.75, 0.8, 0.85])


def stated(n, seed=0):
    """``n`` confidences and outcomes."""
    rng = np.random.default_rng(seed)
    level = rng.choice(len(LEVELS), n, p=SHARES)
    return LEVELS[level], (rng.random(n) < RIGHT[level]).astype(int)
