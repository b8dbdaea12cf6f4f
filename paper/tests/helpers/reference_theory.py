"""A slow second implementation of the theory: integrals over the whole line and both labels, with a prox solved at each node.

It uses only a teacher's `probability`, `breaks`, `temperature` and `rho` from the library.
"""

from math import sqrt

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, root
from scipy.special import expit, logit

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def gaussian(x, variance):
    return np.exp(-x * x / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def panels(edges):
    """Twenty Gauss-Legendre nodes and weights in each interval between sorted, distinct edges."""
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * NODES).ravel(), (half[:, None] * WEIGHTS).ravel()


def around(centres, finest, reach):
    """Edges from -reach to reach; intervals have length ``finest`` next to each centre and grow with the distance from it."""
    distances = np.concatenate([[0.0], finest * 1.5 ** np.arange(np.ceil(np.log(4 * reach / finest) / np.log(1.5)))])
    edges = [np.linspace(-reach, reach, 41)]
    for centre in centres:
        edges += [centre - distances, centre + distances]
    return np.unique(np.clip(np.concatenate(edges), -reach, reach))


# The teacher


def moments_by_quad(teacher, mean, variance):
    """E σ*(mean + √variance ξ) and its two derivatives in mean, by adaptive quadrature of σ* itself."""
    width = sqrt(variance)
    cuts = [x for x in ((each - mean) / width for each in teacher.breaks) if abs(x) < 10]

    def moment(polynomial):
        def integrand(xi):
            return float(teacher.probability(np.float64(mean + width * xi))) * polynomial(xi) * gaussian(xi, 1.0)

        return quad(integrand, -10, 10, points=[0.0, *cuts], limit=500, epsabs=1e-13, epsrel=1e-12)[0]

    return moment(lambda _: 1.0), moment(lambda xi: xi) / width, moment(lambda xi: xi * xi - 1) / variance


def both_labels(teacher, mu, V):
    """P(y) if the teacher's score is drawn from N(mu, V), and its derivative in mu, for y = ±1 and an array of mu."""
    mu = np.atleast_1d(mu)
    T = teacher.temperature
    # The product of a Gaussian and σ* can have its maximum far from the Gaussian's mean, where σ* begins to grow.
    far = sqrt(V) * (10 + sqrt(V) / T)
    low, high = min(mu.min() - far, -12 * T), max(mu.max() + far, 12 * T)
    cuts = T * np.concatenate([teacher.breaks, -np.array(teacher.breaks)])  # where σ*(z) and σ*(-z) have kinks
    edges = np.linspace(low, high, int(np.ceil((high - low) / min(sqrt(V), T))) + 1)
    z, weight = panels(np.unique(np.concatenate([edges, cuts[(cuts > low) & (cuts < high)]])))
    weights = weight[:, None] * np.stack([teacher.probability(z / T), teacher.probability(-z / T)], axis=1)
    value, slope = np.empty((len(mu), 2)), np.empty((len(mu), 2))
    order = np.argsort(mu)
    for block in np.array_split(order, 1 + len(mu) // 100):
        # Further away the Gaussian is zero to the last digit.
        near = slice(*np.searchsorted(z, [mu[block[0]] - far, mu[block[-1]] + far]))
        apart = z[near] - mu[block, None]
        density = gaussian(apart, V)
        value[block] = density @ weights[near]
        slope[block] = (density * apart) @ weights[near] / V
    return {1: (value[:, 0], slope[:, 0]), -1: (value[:, 1], slope[:, 1])}


def z_star(teacher, mu, V):
    """P(y = +1) if the teacher's score is drawn from N(mu, V), and its derivative in mu, for an array of mu."""
    return both_labels(teacher, mu, V)[1]


# Logistic regression


def prox(y, omega, v):
    """The z that minimises (z - ω)²/2v + log(1 + exp(-yz)), by bisection between ω and ω + yv."""
    low, high = np.minimum(omega, omega + y * v), np.maximum(omega, omega + y * v)
    for _ in range(120):
        middle = (low + high) / 2
        if np.all((middle == low) | (middle == high)):  # no number lies between them
            break
        above = middle - omega - v * y * expit(-y * middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2


def hats(teacher, alpha, m, q, v):
    """m̂, q̂ and v̂, from f = y σ(-y prox) and its derivative in ω."""
    V = teacher.rho - m * m / q
    smooth = sqrt(V) * q / m  # the distance in ω over which Z* changes
    edges = around((-v, 0.0, v), 0.25 * min(1.0, sqrt(q)), 10 * sqrt(q))
    edges = np.unique(np.concatenate([edges, np.arange(-10 * sqrt(q), 10 * sqrt(q), smooth)]))
    omega, weight = panels(edges)
    weight = weight * gaussian(omega, q)
    m_hat = q_hat = v_hat = 0.0
    for y, (value, slope) in both_labels(teacher, m / q * omega, V).items():
        z = prox(y, omega, v)
        f = y * expit(-y * z)
        stiffness = expit(z) * expit(-z)
        m_hat += alpha * weight @ (slope * f)
        q_hat += alpha * weight @ (value * f**2)
        v_hat += alpha * weight @ (value * stiffness / (1 + v * stiffness))
    return m_hat, q_hat, v_hat


def overlaps(teacher, alpha, penalty, start):
    """m, q and v that solve the equations of logistic regression, from a starting point nearby."""

    def gaps(logs):
        m, q, v = np.exp(logs)
        m_hat, q_hat, v_hat = hats(teacher, alpha, m, q, v)
        stiff = penalty + v_hat
        return np.log([teacher.rho * m_hat / stiff / m, (q_hat + teacher.rho * m_hat**2) / stiff**2 / q, 1 / stiff / v])

    found = root(gaps, np.log(start), tol=1e-13)
    assert np.abs(gaps(found.x)).max() < 1e-11
    return np.exp(found.x)


# Bayesian inference at the right temperature


def bayes_overlap(teacher, alpha):
    """q of the posterior mean at T*, the root of a single equation."""
    rho = teacher.rho

    def gap(q):
        reach, smooth = 10 * sqrt(q), min(sqrt(q), sqrt(rho - q))
        omega, weight = panels(np.linspace(-reach, reach, 1 + int(np.ceil(2 * reach / smooth))))
        weight = weight * gaussian(omega, q)
        q_hat = 0.0
        for value, slope in both_labels(teacher, omega, rho - q).values():
            likely = value > 1e-280
            q_hat += alpha * weight[likely] @ (slope[likely] ** 2 / value[likely])
        return rho**2 * q_hat / (1 + rho * q_hat) - q

    return brentq(gap, 1e-3 * rho, 0.99 * rho, xtol=1e-14 * rho)


def free_entropy(teacher, alpha):
    """Replica-symmetric limit of log P(labels | samples)/d at T*, for a prior N(0, ρ) on each weight.

    It is the stationary value in (q, q̂) of the prior's part, (q̂(ρ − q) − log(1 + ρq̂))/2, plus α times the mean log likelihood
    of a label whose score has mean ω ~ N(0, q) and variance ρ − q.
    """
    rho = teacher.rho
    q = bayes_overlap(teacher, alpha)
    q_hat = q / (rho * (rho - q))
    omega, weight = panels(np.linspace(-10 * sqrt(q), 10 * sqrt(q), 401))
    weight = weight * gaussian(omega, q)
    labels = 0.0
    for value, _ in both_labels(teacher, omega, rho - q).values():
        likely = value > 1e-280
        labels += weight[likely] @ (value[likely] * np.log(value[likely]))
    return (q_hat * (rho - q) - np.log1p(rho * q_hat)) / 2 + alpha * labels


# Metrics of σ(ω/T), for a score ω ~ N(0, q) whose overlap with the teacher is m


class Classifier:
    """Every metric by its definition."""

    def __init__(self, teacher, m, q):
        self.teacher, self.m, self.q = teacher, m, q
        self.V = teacher.rho - m * m / q
        self.deviation = sqrt(q)
        self.edges = around((0.0,), 0.002 * sqrt(q), 10 * sqrt(q))
        self.omega, self.weight = self.nodes(self.edges)
        self.positive = self.conditional(self.omega)

    def nodes(self, edges):
        omega, weight = panels(edges)
        return omega, weight * gaussian(omega, self.q)

    def conditional(self, omega):
        """P(y = +1 | ω)."""
        return z_star(self.teacher, self.m / self.q * np.asarray(omega, dtype=float), self.V)[0]

    def mean(self, if_positive, if_negative):
        """Mean over samples of a function of the score and the label, given by its values for both labels."""
        return self.weight @ (self.positive * if_positive + (1 - self.positive) * if_negative)

    def error(self):
        return self.mean(self.omega < 0, self.omega > 0)

    def confidence(self, T):
        return self.weight @ np.maximum(expit(self.omega / T), expit(-self.omega / T))

    def loss(self, T):
        return self.mean(np.logaddexp(0, -self.omega / T), np.logaddexp(0, self.omega / T))

    def brier(self, T):
        p = expit(self.omega / T)
        return self.mean(2 * (1 - p) ** 2, 2 * p**2)

    def ece(self, T):
        """E|P(y = +1 | ω) - σ(ω/T)|, split where the difference changes sign."""
        gap = self.positive - expit(self.omega / T)
        # For large scores both are 0 or 1 to the last digit, and the sign of the difference is a rounding error.
        turns = np.flatnonzero((gap[1:] * gap[:-1] < 0) & (np.abs(gap[1:] - gap[:-1]) > 1e-13))
        pairs = [(self.omega[i], self.omega[i + 1]) for i in turns]
        cuts = [brentq(lambda x: self.conditional(x)[0] - expit(x / T), *pair, xtol=1e-14) for pair in pairs]
        omega, weight = self.nodes(np.unique(np.concatenate([self.edges, cuts])))
        return weight @ np.abs(self.conditional(omega) - expit(omega / T))

    def temperature_ec(self):
        return self._temperature(lambda T: self.confidence(T) - (1 - self.error()))

    def temperature_ts(self):
        """Where the derivative of the loss in 1/T, E[ω(σ(ω/T) - y)], vanishes."""
        return self._temperature(lambda T: self.weight @ (self.omega * (expit(self.omega / T) - self.positive)))

    def _temperature(self, gap):
        return brentq(gap, self.deviation / 500, self.deviation * 500, xtol=1e-13 * self.deviation)

    def conditional_mean(self, level, T):
        return self.conditional(T * logit(level))

    def marginal(self, level, T):
        """Density of the classifier's probability σ(ω/T)."""
        return gaussian(T * logit(level), self.q) * T / (level * (1 - level))
