"""Bayesian inference on data: generalised approximate message passing (GAMP).

For Gaussian samples in high dimension its fixed point is the posterior mean of the weights, and all weights have the same
posterior variance v. The fixed point is a stationary point of the Bethe free energy, an approximation of −log P(labels |
samples, T). docs/theory.md derives it.
"""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from nishimori._support.numbers import positive
from nishimori.errors import InputError, NotConvergedError
from nishimori_paper.theory._posterior import pull
from nishimori_paper.theory._quadrature import Array
from nishimori_paper.theory._teachers import Teacher, as_teacher
from nishimori_paper.theory._tolerance import tolerance
from nishimori_paper.theory._training_set import samples_and_labels

_LIMIT = 2000


@dataclass(frozen=True)
class Gamp:
    """The posterior of the weights.

    Attributes
    ----------
    weights : array of shape (d,)
        The posterior mean.
    v : float
        The posterior variance of each weight.
    free_energy : float
        The Bethe free energy per sample, in nats: −log P(labels | samples, T) divided by the number of samples, with an error
        of order 1/d. The lower it is, the better T explains the labels; see `expectation_maximisation`.
    residual : float
        Relative change of the mean in the last step.
    steps : int
        Number of steps.
    converged : bool
        Always True: otherwise `gamp` raises an error.
    """

    weights: Array
    v: float
    free_energy: float
    residual: float
    steps: int
    converged: bool = True


def gamp(
    x: Any,
    y: Any,
    teacher: Teacher | str,
    *,
    temperature: float | None = None,
    tol: float = 1e-9,
    start: Gamp | None = None,
) -> Gamp:
    """Posterior of the weights given labelled Gaussian samples, for the prior N(0, ρI) and the likelihood σ*(y w·x/T).

    Parameters
    ----------
    x : array of shape (n_samples, d)
        Samples from N(0, I/d).
    y : array of shape (n_samples,)
        Labels +1 and -1.
    teacher : Teacher or {"logit", "affine", "constant", "probit"}
        The teacher whose σ* and ρ are assumed. If log σ* is not concave, as for the constant teacher, the search may fail to
        converge, which raises an error.
    temperature : float, optional
        The temperature assumed in the likelihood; the teacher's by default.
    tol : float
        Largest relative change of the mean in the last step, from 1e-13 to 0.01.
    start : Gamp, optional
        A solution at a nearby temperature, to save time.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori_paper.theory import gamp
    >>> rng = np.random.default_rng(0)
    >>> w = rng.normal(size=300)
    >>> x = rng.normal(size=(900, 300)) / np.sqrt(300)
    >>> y = np.sign(x @ w + rng.normal(size=900))
    >>> found = gamp(x, y, "probit")
    >>> round(float(w @ found.weights) / 300, 1), round(float(found.weights @ found.weights) / 300, 1)
    (0.5, 0.5)
    """
    teacher = as_teacher(teacher)
    x, y = samples_and_labels(x, y)
    T = teacher.temperature if temperature is None else positive("temperature", temperature)
    tol = tolerance(tol)
    if start is not None and start.weights.shape != x.shape[1:]:
        raise InputError("start", f"be a solution in {x.shape[1]} dimensions, like `x`", got=f"one in {len(start.weights)}")
    signed = x * y[:, None]  # a sample with label -1 is equivalent to its negative with label +1
    mean, v = (np.zeros(x.shape[1]), teacher.rho) if start is None else (start.weights, start.v)
    return _iterate(signed, teacher, T, tol, mean, v)


def _iterate(signed: Array, teacher: Teacher, T: float, tol: float, weights: Array, v: float) -> Gamp:
    """Message passing from ``weights`` and ``v`` on samples that are all labelled +1, until it converges."""
    n, d = signed.shape
    force = np.zeros(n)
    damping = 1.0
    change = before = np.inf
    for steps in range(1, _LIMIT + 1):
        old_force = force
        new_force, stiff, value = pull(teacher, signed @ weights - v * force, v, T)
        precision = float(stiff.sum()) / d
        # The step was too long if it makes a label impossible or, without log-concavity, the variance negative.
        if (value == 0).any() or 1 / teacher.rho + precision <= 0:
            damping, weights, v, force = max(damping / 2, 0.05), weights / 2, (v + teacher.rho) / 2, force / 2
            continue
        force = new_force if steps == 1 else force + damping * (new_force - force)
        new_v = 1 / (1 / teacher.rho + precision)
        new_weights = new_v * (precision * weights + signed.T @ force)
        change = float(np.linalg.norm(new_weights - weights)) / max(float(np.linalg.norm(new_weights)), 1e-300)
        if change <= tol:
            energy = _bethe(value, old_force, weights, v, teacher.rho)
            return Gamp(weights + damping * (new_weights - weights), v + damping * (new_v - v), energy / n, change, steps)
        weights = weights + damping * (new_weights - weights)
        v = v + damping * (new_v - v)
        if change > 2 * before:
            damping = max(damping / 2, 0.05)
        before = change
    raise NotConvergedError(
        f"Message passing did not converge in {_LIMIT} steps: the last step changed the mean by {change:.1e} of its length. "
        "It requires samples from N(0, I/d) in many dimensions, and a log-concave likelihood."
    )


def _bethe(value: Array, force: Array, weights: Array, v: float, rho: float) -> float:
    """The Bethe free energy of all samples, from their likelihoods Z at the scores ω = w·x − v f.

    The arguments must belong to the same step: at a fixed point the free energy is stationary in all of them, so that its
    error is the square of theirs.
    """
    d = len(weights)
    divergence = 0.5 * (d * log(rho / v) + (d * v + float(weights @ weights)) / rho - d)
    return divergence - float(np.log(value).sum()) - 0.5 * v * float(force @ force)
