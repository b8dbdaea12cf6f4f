"""Temperatures per group in plain NumPy, in all the variants that were tried: what `GroupConsistency` is chosen from.

It shares no code with the library, so that the two can be compared.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import chi2


@dataclass(frozen=True)
class Variant:
    """How temperatures per group are found.

    ``spread``: "pm" (Paule and Mandel), "reml", or the lower limit of a confidence interval, "90 %", "95 %" or "99 %".
    ``variance`` of the gaps of a group: "model", or "larger" (the larger one of that of the model and of the measured
    squares). ``solve``: "own" (the equation of each group), or "step" (the linear step alone). ``recentred``: whether the
    pooled condition holds again.
    """

    spread: str
    variance: str = "larger"
    solve: str = "own"
    recentred: bool = True


VARIANTS = {
    "ec": {
        "lower limit (GroupConsistency)": Variant("95 %"),
        "lower limit of 90 %": Variant("90 %"),
        "lower limit of 99 %": Variant("99 %"),
        "lower limit, not re-centred": Variant("95 %", recentred=False),
        "lower limit, model variance": Variant("95 %", variance="model"),
        "lower limit, linear step": Variant("95 %", solve="step"),
        "Paule-Mandel": Variant("pm"),
        "Paule-Mandel, model variance": Variant("pm", variance="model"),
        "Paule-Mandel, linear step": Variant("pm", solve="step"),
        "REML": Variant("reml"),
        "REML, model variance": Variant("reml", variance="model"),
    },
    "ts": {
        "Paule-Mandel (GroupConsistency)": Variant("pm"),
        "Paule-Mandel, not re-centred": Variant("pm", recentred=False),
        "Paule-Mandel, model variance": Variant("pm", variance="model"),
        "Paule-Mandel, linear step": Variant("pm", solve="step"),
        "REML": Variant("reml"),
        "lower limit": Variant("95 %"),
    },
}


@dataclass(frozen=True)
class Rows:
    """Logits relative to the largest of their row, whether the prediction is right, and the drop of the true class."""

    drops: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    number: int
    method: str

    @classmethod
    def of(cls, logits, labels, method, groups=None):
        """Groups are the predicted classes by default."""
        z = np.asarray(logits, dtype=np.float64)
        groups = z.argmax(axis=1) if groups is None else groups
        number = z.shape[1] if groups is None else max(int(groups.max()) + 1, z.shape[1])
        return cls(z - z.max(axis=1, keepdims=True), np.asarray(labels), groups, number, method)

    def sums(self, log_betas):
        """Gap, slope in log β, model variance and squares of each group, where each row has its own log β."""
        beta = np.exp(log_betas)
        weights = np.exp(self.drops * beta[:, None])
        p = weights / weights.sum(axis=1, keepdims=True)
        mean = (p * self.drops).sum(axis=1)
        at = np.arange(len(p))
        if self.method == "ec":
            top = self.drops.argmax(axis=1)
            c = p[at, top]
            gap, slope, variance = c - (top == self.labels), -c * mean * beta, c * (1 - c)
        else:
            slope = variance = ((p * self.drops**2).sum(axis=1) - mean**2) * beta**2
            gap = beta * (mean - self.drops[at, self.labels])
        return np.stack([np.bincount(self.groups, each, self.number) for each in (gap, slope, variance, gap**2)])

    def common(self):
        """The log β at which the gap of all rows is zero."""
        return brentq(lambda x: self.sums(np.full(len(self.labels), x))[0].sum(), -6, 6, xtol=1e-13)


def fitted(rows, variant):
    """The log T of each group, and the standard deviation between groups that was used."""
    start = rows.common()
    gap, slope, model, squares = rows.sums(np.full(len(rows.labels), start))
    known = (np.bincount(rows.groups, minlength=rows.number) > 1) & (slope > 0)
    variance = model if variant.variance == "model" else np.maximum(model, squares)
    t, v = gap[known] / slope[known], variance[known] / slope[known] ** 2
    spread = SPREADS[variant.spread](t, v)
    distance = np.zeros(rows.number)
    if spread > 0:
        distance[known] = t * spread / (v + spread)
        if variant.solve == "own":
            distance = solved(rows, start, known, np.where(known, slope / np.where(known, variance, 1), 0), spread)
        if variant.recentred:
            distance = recentred(rows, start, known, distance)
    return distance - start, np.sqrt(spread)


def solved(rows, start, known, scale, spread):
    """Bisection of scale · gap(θ) = θ / spread in all groups at once."""
    low, high = np.full(rows.number, -12.0), np.full(rows.number, 12.0)
    for _ in range(45):
        middle = (low + high) / 2
        gap = rows.sums(start - middle[rows.groups])[0]
        unit = np.exp(middle) if rows.method == "ts" else 1.0
        above = scale * unit * gap - middle / spread > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(known, (low + high) / 2, 0.0)


def recentred(rows, start, known, distance):
    """The same plus a number such that the gap of all rows is zero."""
    move = known.astype(float)
    shift = brentq(lambda s: rows.sums(start - (distance + s * move)[rows.groups])[0].sum(), -3, 3, xtol=1e-12)
    return distance + shift * move


def _variance_at(t, v, target):
    def excess(spread):
        w = 1 / (v + spread)
        return (w * (t - (w * t).sum() / w.sum()) ** 2).sum() - target

    if len(t) < 2 or excess(0.0) <= 0:
        return 0.0
    high = 1e-3
    while excess(high) > 0:
        high *= 4
    return brentq(excess, 0.0, high, xtol=1e-14)


def paule_mandel(t, v):
    """The variance between groups at which Q is one less than their number."""
    return _variance_at(t, v, len(t) - 1)


def lower_limit(t, v, level):
    """The variance between groups at which Q is its upper quantile: the lower limit of an interval of this level."""
    return _variance_at(t, v, chi2.ppf((1 + level) / 2, len(t) - 1))


def reml(t, v):
    """The variance between groups of the largest restricted likelihood."""

    def loss(log_spread):
        w = 1 / (v + np.exp(log_spread))
        return 0.5 * (-np.log(w).sum() + np.log(w.sum()) + (w * (t - (w * t).sum() / w.sum()) ** 2).sum())

    grid = np.linspace(-14, 4, 91)
    best = int(np.argmin([loss(x) for x in grid]))
    if best == 0 or loss(-40) <= loss(grid[best]):
        return 0.0
    bounds = grid[best - 1], grid[min(best + 1, 90)]
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


SPREADS = {"pm": paule_mandel, "reml": reml} | {
    f"{100 * level:.0f} %": partial(lower_limit, level=level) for level in (0.9, 0.95, 0.99)
}
