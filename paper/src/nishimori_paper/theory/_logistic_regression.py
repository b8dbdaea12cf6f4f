"""Penalised logistic regression on data, solved to its exact minimum by Newton's method."""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from nishimori._support.numbers import positive
from nishimori.errors import NotConvergedError
from nishimori_paper.theory._quadrature import Array
from nishimori_paper.theory._training_set import samples_and_labels

# Newton's method starts at zero: each step halves the gradient where the data are separable, and squares it near the minimum.
_STEPS = 200

# Relative distance to the exact minimum before the last step, which removes almost all of it.
_CERTAIN = 1e-8


def logistic_regression(x: Any, y: Any, penalty: float) -> Array:
    """The exact minimiser of Σ log(1 + exp(−y w·x)) + λ/2 |w|² for labels +1 and -1.

    Newton's method stops after a step shorter than 1e-8 of the weights. Near the minimum, the length of a step is the distance
    to the minimum before that step.

    Parameters
    ----------
    x : array of shape (n_samples, d)
        Samples.
    y : array of shape (n_samples,)
        Labels +1 and -1.
    penalty : float
        λ of the penalty λ/2 |w|².

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori_paper.theory import logistic_regression
    >>> logistic_regression([[1.0, 0.0], [0.0, 2.0]], [1, -1], penalty=0.5).round(3)
    array([ 0.675, -0.741])
    """
    x, y = samples_and_labels(x, y)
    penalty = positive("penalty", penalty)
    signed = x * y[:, None]
    weights = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        margins = signed @ weights
        pull = expit(-margins)
        gradient = penalty * weights - signed.T @ pull
        scaled = signed * np.sqrt(pull * (1 - pull))[:, None]
        hessian = scaled.T @ scaled
        hessian[np.diag_indices_from(hessian)] += penalty
        try:
            step = -cho_solve(cho_factor(hessian, overwrite_a=True, check_finite=False), gradient, check_finite=False)
        except LinAlgError:
            break  # the penalty is smaller than the rounding error of the Hessian
        moved = weights + _damping(signed @ step, margins, weights, step, penalty, float(gradient @ step)) * step
        if np.linalg.norm(step) <= _CERTAIN * np.linalg.norm(moved):
            return np.asarray(moved)
        weights = moved
    raise NotConvergedError(
        f"Logistic regression did not reach its minimum at penalty = {penalty:g}: the norm of its gradient is still "
        f"{np.linalg.norm(gradient):.1e}. Choose a larger `penalty`."
    )


def _damping(moves: Array, margins: Array, weights: Array, step: Array, penalty: float, slope: float) -> float:
    """The largest of 1, 1/2, 1/4, ... at which the risk decreases sufficiently (Armijo's rule)."""

    def risk(size: float) -> float:
        moved = weights + size * step
        return float(np.logaddexp(0, -(margins + size * moves)).sum()) + penalty / 2 * float(moved @ moved)

    size, before = 1.0, risk(0.0)
    # Near the minimum the risk changes by less than its rounding error; the full step must be accepted there.
    while risk(size) > before + 1e-4 * size * slope + 1e-12 * before and size > 1e-9:
        size /= 2
    return size
