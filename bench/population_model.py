"""Statistics of the population of networks: a random intercept for each kind, differences of kinds, and Holm's correction.

Each quantity is an array whose first element is the estimate and whose others are the same quantity for bootstrap samples of
the images, one after another, the same images for all networks of a data set.
"""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import t as student


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error and degrees of freedom.

    Attributes
    ----------
    images, networks : float
        The parts of the standard error: what other images would change, and what other kinds and seeds would.
    between, within : float or None
        Standard deviation between kinds, and between networks of one kind.
    """

    value: float
    images: float
    networks: float
    freedom: int
    between: float | None = None
    within: float | None = None

    @property
    def error(self):
        return sqrt(self.images**2 + self.networks**2)

    def below(self, bound):
        """The p-value of "it is at least ``bound``": small if the mean is clearly below."""
        return float(student.cdf((self.value - bound) / self.error, self.freedom))

    def above(self, bound):
        """The p-value of "it is at most ``bound``"."""
        return float(student.sf((self.value - bound) / self.error, self.freedom))

    def within_margin(self, margin):
        """The p-value of "it is beyond ± ``margin``": the larger one of two one-sided tests."""
        return max(self.below(margin), self.above(-margin))

    def interval(self, level=0.95):
        """The interval of Student's t."""
        half = float(student.ppf((1 + level) / 2, self.freedom)) * self.error
        return [self.value - half, self.value + half]

    def numbers(self):
        """All numbers, for a file."""
        low, high = self.interval()
        found = {"value": self.value, "error": self.error, "low": low, "high": high, "freedom": self.freedom}
        found |= {"error_of_images": self.images, "error_of_networks": self.networks}
        return found | {f"sd_{key}": value for key in ("between", "within") if (value := getattr(self, key)) is not None}


def intercept(groups):
    """Mean, its variance, and the variances between and within groups, of y = μ + group + rest, by REML."""
    sizes = np.array([len(each) for each in groups])
    means = np.array([np.mean(each) for each in groups])
    within = sum(float(np.square(np.asarray(each) - np.mean(each)).sum()) for each in groups)
    n = sizes.sum()

    def solve(ratio):  # of the variance between groups to that within
        weights = sizes / (1 + ratio * sizes)
        mean = float(weights @ means / weights.sum())
        variance = (within + float(weights @ np.square(means - mean))) / (n - 1)
        return mean, variance, weights

    def loss(log_ratio):
        ratio = np.exp(log_ratio)
        _, variance, weights = solve(ratio)
        return (n - 1) * log(variance) + np.log1p(ratio * sizes).sum() + log(weights.sum())

    inside = minimize_scalar(loss, bounds=(-12, 16), method="bounded", options={"xatol": 1e-8})
    ratio = float(np.exp(inside.x)) if inside.fun < loss(-np.inf) else 0.0
    mean, variance, weights = solve(ratio)
    return mean, variance / weights.sum(), ratio * variance, variance


def by_kind(values, kinds):
    """Arrays of networks, stacked for each kind."""
    return {
        kind: np.stack([each for each, of in zip(values, kinds, strict=True) if of == kind]) for kind in dict.fromkeys(kinds)
    }


def image_error(stacks, signs=None):
    """Standard deviation over bootstrap samples of the mean of the kinds' means, or of a weighted sum of them."""
    means = np.stack([each.mean(axis=0) for each in stacks])[:, 1:]
    weights = np.full(len(means), 1 / len(means)) if signs is None else np.asarray(signs)
    return float(np.std(weights @ means, ddof=1))


def mean_over_kinds(values, kinds):
    """The mean of the mixed model, with the errors of networks and of images."""
    stacks = list(by_kind(values, kinds).values())
    mean, variance, between, within = intercept([each[:, 0] for each in stacks])
    return Estimate(mean, image_error(stacks), sqrt(variance), len(stacks) - 1, sqrt(between), sqrt(within))


def difference(values, kinds, plus, minus):
    """Mean of the means of some kinds, minus that of others; one standard deviation within kinds, pooled over all kinds."""
    stacks = by_kind(values, kinds)
    freedom = sum(len(each) - 1 for each in stacks.values())
    within = sum(float(np.square(each[:, 0] - each[:, 0].mean()).sum()) for each in stacks.values()) / freedom
    signs = {kind: 1 / len(plus) for kind in plus} | {kind: -1 / len(minus) for kind in minus}
    chosen = [stacks[kind] for kind in signs]
    weights = np.array(list(signs.values()))
    value = float(weights @ [each[:, 0].mean() for each in chosen])
    networks = sqrt(sum(weight**2 * within / len(each) for weight, each in zip(weights, chosen, strict=True)))
    return Estimate(value, image_error(chosen, weights), networks, freedom, within=sqrt(within))


def mean_over_networks(values):
    """A plain mean over networks."""
    stack = np.stack(values)
    networks = float(np.std(stack[:, 0], ddof=1)) / sqrt(len(stack))
    return Estimate(float(stack[:, 0].mean()), image_error([stack]), networks, len(stack) - 1)


def holm(p_values):
    """Holm's corrected p-values by name."""
    found, largest = {}, 0.0
    for i, (name, p) in enumerate(sorted(p_values.items(), key=lambda each: each[1])):
        largest = max(largest, min(1.0, (len(p_values) - i) * p))
        found[name] = largest
    return {name: found[name] for name in p_values}
