"""The Bethe free energy is the negative log evidence: exactly computed in few dimensions, sampled in many, and in the limit."""

from math import log, pi, sqrt

import numpy as np
import pytest
import reference_theory as reference
from scipy.special import gammaln

from nishimori_paper.theory import Affine, Constant, Logit, Probit, bayes_optimal, gamp

CASES = {
    "logit": (Logit(), 3.0),
    "cold and long probit": (Probit(temperature=0.5, rho=2.0), 2.0),
    "affine": (Affine(), 2.0),
    "constant": (Constant(), 3.0),
}


def data(teacher, n, d, rng, *, fix_norm):
    """Gaussian samples, and labels of a teacher whose weights are drawn from the prior, with |w*|² = ρd if asked for."""
    weights = sqrt(teacher.rho) * rng.standard_normal(d)
    if fix_norm:
        weights *= sqrt(teacher.rho * d / (weights @ weights))
    x = rng.standard_normal((n, d)) / sqrt(d)
    return x, np.where(rng.random(n) < teacher.probability(x @ weights / teacher.temperature), 1.0, -1.0)


def evidence_by_quadrature(teacher, x, y, T):
    """P(y | x, T) in one or two dimensions: the prior and the likelihood on a grid of weights."""
    node, weight = reference.panels(np.linspace(-10, 10, 41) * sqrt(teacher.rho))
    weight = weight * reference.gaussian(node, teacher.rho)
    grid, density = node[:, None], weight
    if x.shape[1] == 2:
        grid = np.stack([each.ravel() for each in np.meshgrid(node, node)], axis=1)
        density = np.outer(weight, weight).ravel()
    likelihood = np.ones(len(grid))
    for sample, label in zip(x, y, strict=True):
        likelihood *= teacher.probability(label * (grid @ sample) / T)
    return float(density @ likelihood)


def evidence_by_sampling(teacher, x, y, T, centre, rng, size=20_000, tails=8.0):
    """log P(y | x, T) by importance sampling, from a t distribution around ``centre`` with the width of the log posterior."""
    d = x.shape[1]
    signed = x * y[:, None] / T
    steep, step = np.empty(len(x)), 1e-3
    for i, score in enumerate(signed @ centre):
        before, at, after = np.log(teacher.probability(score + step * np.array([-1.0, 0.0, 1.0])))
        steep[i] = (2 * at - before - after) / step**2
    root = np.linalg.cholesky(np.linalg.inv(np.eye(d) / teacher.rho + signed.T @ (steep[:, None] * signed)))
    t = rng.standard_normal((size, d)) * np.sqrt(tails / rng.chisquare(tails, size))[:, None]
    weights = centre + t @ root.T
    proposed = gammaln((tails + d) / 2) - gammaln(tails / 2) - d / 2 * log(tails * pi) - np.log(np.diag(root)).sum()
    proposed = proposed - (tails + d) / 2 * np.log1p((t**2).sum(1) / tails)
    target = -d / 2 * log(2 * pi * teacher.rho) - (weights**2).sum(1) / (2 * teacher.rho)
    target = target + np.log(teacher.probability(weights @ signed.T)).sum(1)
    ratio = target - proposed
    return float(ratio.max() + np.log(np.exp(ratio - ratio.max()).mean()))


@pytest.mark.parametrize("teacher", [Logit(), Probit(rho=1.5)], ids=repr)
def test_the_error_of_the_free_energy_per_sample_falls_as_one_over_the_dimension(teacher):
    rng = np.random.default_rng(0)
    error = {}
    for d, repetitions in ((1, 30), (2, 12), (32, 10)):
        errors = []
        for _ in range(repetitions):
            x, y = data(teacher, 3 * d, d, rng, fix_norm=False)
            T = rng.choice([0.7, 1.0, 1.4])
            found = gamp(x, y, teacher, temperature=T)
            exact = (
                evidence_by_sampling(teacher, x, y, T, found.weights, rng)
                if d > 2
                else log(evidence_by_quadrature(teacher, x, y, T))
            )
            errors.append(-exact / len(y) - found.free_energy)
        error[d] = float(np.sqrt(np.mean(np.square(errors))))
    # The error of all samples together stays below half a nat, from d = 1 to 32.
    for d, each in error.items():
        assert 3 * d * each < 0.5, error
    assert error[32] < error[2] / 4 < error[1] / 4, error
    assert error[32] < 0.005, error


@pytest.mark.parametrize(("teacher", "alpha"), CASES.values(), ids=CASES)
def test_the_free_energy_of_the_limit_is_the_replica_formula_of_optimal_inference(teacher, alpha):
    np.testing.assert_allclose(
        bayes_optimal(teacher, alpha).free_energy, -reference.free_entropy(teacher, alpha) / alpha, rtol=1e-9
    )


@pytest.mark.parametrize(("teacher", "alpha"), CASES.values(), ids=CASES)
def test_on_data_the_free_energy_is_the_replica_formula_within_four_standard_errors(teacher, alpha):
    limit = -reference.free_entropy(teacher, alpha) / alpha
    found = []
    for seed in range(12):
        x, y = data(teacher, round(200 * alpha), 200, np.random.default_rng(seed), fix_norm=True)
        found.append(gamp(x, y, teacher).free_energy)
    error = np.std(found, ddof=1) / sqrt(len(found))
    assert abs(np.mean(found) - limit) < 4 * error
    assert error < 0.01  # random labels would cost log 2 = 0.693, and the limit is 0.02 to 0.13 below that


@pytest.mark.parametrize("factor", [0.7, 1.5])
def test_on_data_the_free_energy_at_a_wrong_temperature_is_that_of_the_limit(factor):
    limit = bayes_optimal("probit", 3.0, temperature=factor)
    found = []
    for seed in range(16):
        x, y = data(Probit(), 900, 300, np.random.default_rng(seed), fix_norm=True)
        found.append(gamp(x, y, "probit", temperature=factor).free_energy)
    assert abs(np.mean(found) - limit.free_energy) < 4 * np.std(found, ddof=1) / sqrt(len(found))
    assert limit.free_energy > bayes_optimal("probit", 3.0).free_energy
