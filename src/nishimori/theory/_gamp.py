"""Bayesian inference on data: generalised approximate message passing.

For Gaussian samples in high dimension its fixed point is the posterior mean, and one number, the variance v, is the same for
every weight.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._numbers import positive
from nishimori.errors import InputError, NotConvergedError
from nishimori.theory._bayes import pull
from nishimori.theory._checks import labelled, tolerance
from nishimori.theory._quadrature import Array
from nishimori.theory._teachers import Teacher, as_teacher

_LIMIT = 2000


@dataclass(frozen=True)
class Gamp:
    """The posterior of the weights: its mean, the variance of each component, and how far the last step moved the mean."""

    weights: Array
    v: float
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
    """Posterior mean of the weights behind labelled Gaussian samples, under the prior N(0, ρI) and the likelihood σ*(y w·x/T).

    Parameters
    ----------
    x : array of shape (n_samples, d)
        Samples from N(0, I/d).
    y : array of shape (n_samples,)
        Labels +1 and -1.
    teacher : Teacher or {"logit", "affine", "constant", "probit"}
        Whose likelihood and norm are assumed. Where log σ* is not concave, as for the constant one, convergence is checked but
        not promised.
    temperature : float, optional
        The temperature assumed in the likelihood; the teacher's by default.
    tol : float
        Largest relative change of the mean in the last step.
    start : Gamp, optional
        A solution at a nearby temperature, to save time.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori.theory import gamp
    >>> rng = np.random.default_rng(0)
    >>> w = rng.normal(size=300)
    >>> x = rng.normal(size=(900, 300)) / np.sqrt(300)
    >>> y = np.sign(x @ w + rng.normal(size=900))
    >>> found = gamp(x, y, "probit")
    >>> round(float(w @ found.weights) / 300, 1), round(float(found.weights @ found.weights) / 300, 1)
    (0.5, 0.5)
    """
    teacher = as_teacher(teacher)
    x, y = labelled(x, y)
    T = teacher.temperature if temperature is None else positive("temperature", temperature)
    tol = tolerance(tol)
    if start is not None and start.weights.shape != x.shape[1:]:
        raise InputError(f"`start` must be a solution in {x.shape[1]} dimensions, got one in {len(start.weights)}.")
    d = x.shape[1]
    signed = x * y[:, None]  # a label -1 is the label +1 of the negative sample
    weights, v = (np.zeros(d), teacher.rho) if start is None else (start.weights, start.v)
    force = np.zeros(len(y))
    damping = 1.0
    before = np.inf
    for steps in range(1, _LIMIT + 1):
        new_force, stiff, value = pull(teacher, signed @ weights - v * force, v, T)
        if (value == 0).any():
            damping, weights, v, force = damping / 2, weights / 2, (v + teacher.rho) / 2, force / 2
            continue
        force = new_force if steps == 1 else force + damping * (new_force - force)
        precision = float(stiff.sum()) / d
        new_v = 1 / (1 / teacher.rho + precision)
        new_weights = new_v * (precision * weights + signed.T @ force)
        change = float(np.linalg.norm(new_weights - weights)) / max(float(np.linalg.norm(new_weights)), 1e-300)
        weights = weights + damping * (new_weights - weights)
        v = v + damping * (new_v - v)
        if change <= tol:
            return Gamp(weights, v, change, steps)
        if change > 2 * before:
            damping = max(damping / 2, 0.05)
        before = change
    raise NotConvergedError(
        f"Message passing did not settle in {_LIMIT} steps: the last one still moved the mean by {change:.1e} of its length. "
        "It needs samples from N(0, I/d) in many dimensions, and a log-concave likelihood."
    )
