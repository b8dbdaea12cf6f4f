"""The temperature of the likelihood from the training set alone: expectation maximisation.

The T that makes the labels most probable is a stationary point of the Bethe free energy of `gamp`. There, T can equally be
changed in the likelihood or, by the same factor, in the weights. So the derivative of the free energy in log T needs no
integral: it is |ŵ|²/ρ + dv/ρ − d, and it vanishes where the mean square of a weight under the posterior is that under the
prior. This is a Nishimori condition, as expectation consistency is.
"""

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

from scipy.optimize import brentq

from nishimori.errors import NotConvergedError, NoTemperatureError
from nishimori_paper.theory._gamp import Gamp, gamp
from nishimori_paper.theory._quadrature import Array
from nishimori_paper.theory._teachers import Teacher, as_teacher
from nishimori_paper.theory._training_set import samples_and_labels

# The search starts at √ρ/T = 1, where labels are neither almost certain nor almost random. It multiplies or divides T by this
# factor until the slope changes sign, but leaves a range of signals in which no finite sample could tell T from 0 or ∞.
_FACTOR = 1.5
_WEAKEST, _STRONGEST = 1e-3, 1e3

# Relative error of T, and the tolerance of message passing that allows it. Both are far below the standard error of T.
_PRECISION = 1e-5
_TOLERANCE = 1e-7

# Half the distance in log T of the two slopes whose difference is the curvature. The error bar needs two digits only.
_STEP = 1e-2


@dataclass(frozen=True)
class ExpectationMaximisation:
    """The temperature with the largest evidence.

    Attributes
    ----------
    temperature : float
        The T at which the Bethe free energy has its minimum.
    standard_error : float
        The error of T from a training set of this size, from the curvature of the free energy at its minimum.
    posterior : Gamp
        The posterior of the weights at this T, with its free energy.
    steps : int
        How many temperatures were tried.
    """

    temperature: float
    standard_error: float
    posterior: Gamp
    steps: int


def expectation_maximisation(x: Any, y: Any, teacher: Teacher | str) -> ExpectationMaximisation:
    """The temperature T of the likelihood σ*(y w·x/T) from a training set, without a validation set.

    It maximises P(labels | samples, T) in Bethe's approximation. If the labels were drawn from this likelihood, and the weights
    from the prior N(0, ρI), T is the teacher's temperature, up to ``standard_error``. If they were not, T is the one with the
    largest evidence, but the predicted probabilities need not be calibrated: compare with `bayes_temperatures`.

    Parameters
    ----------
    x : array of shape (n_samples, d)
        Samples from N(0, I/d).
    y : array of shape (n_samples,)
        Labels +1 and -1.
    teacher : Teacher or {"logit", "affine", "constant", "probit"}
        The teacher whose σ* and ρ are assumed; its ``temperature`` is ignored. The likelihood should be log-concave, which that
        of the constant teacher is not; otherwise message passing may fail to converge, which raises an error.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori_paper.theory import expectation_maximisation
    >>> rng = np.random.default_rng(0)
    >>> w = rng.normal(size=200)
    >>> x = rng.normal(size=(2000, 200)) / np.sqrt(200)
    >>> y = np.sign(x @ w + 0.7 * rng.normal(size=2000))  # T* = 0.7
    >>> found = expectation_maximisation(x, y, "probit")
    >>> print(f"{found.temperature:.2f} ± {found.standard_error:.2f}")
    0.72 ± 0.05
    """
    teacher = as_teacher(teacher)
    x, y = samples_and_labels(x, y)
    search = _Maximisation(x, y, teacher)
    log_T = float(brentq(search.slope, *search.bracket(), xtol=_PRECISION))
    curvature = (search.slope(log_T + _STEP) - search.slope(log_T - _STEP)) / (2 * _STEP)
    if not curvature > 0:
        raise NotConvergedError(
            f"The derivative of the free energy vanishes at T = {exp(log_T):.3g}, but the free energy has no minimum there. "
            "Use more samples, or a log-concave likelihood."
        )
    T = exp(log_T)
    return ExpectationMaximisation(T, T / sqrt(curvature), search.posterior(log_T), len(search.slopes))


class _Maximisation:
    """The derivative of the free energy in log T, each solution starting from the previous one."""

    def __init__(self, x: Array, y: Array, teacher: Teacher) -> None:
        self.x, self.y, self.teacher = x, y, teacher
        self.slopes: dict[float, float] = {}
        self.last: Gamp | None = None

    def posterior(self, log_T: float) -> Gamp:
        try:
            self.last = gamp(self.x, self.y, self.teacher, temperature=exp(log_T), tol=_TOLERANCE, start=self.last)
        except NotConvergedError as error:
            raise NotConvergedError(
                f"Expectation maximisation tried T = {exp(log_T):.3g}, where message passing failed. {error} If yours are, use "
                "more samples."
            ) from None
        return self.last

    def slope(self, log_T: float) -> float:
        """|ŵ|²/ρ + dv/ρ − d."""
        if log_T not in self.slopes:
            posterior, d = self.posterior(log_T), self.x.shape[1]
            self.slopes[log_T] = (float(posterior.weights @ posterior.weights) + d * posterior.v) / self.teacher.rho - d
        return self.slopes[log_T]

    def bracket(self) -> tuple[float, float]:
        """Two values of log T between which the slope changes sign from negative to positive."""
        centre = 0.5 * log(self.teacher.rho)
        step = log(_FACTOR) if self.slope(centre) < 0 else -log(_FACTOR)
        log_T = centre
        while -log(_STRONGEST) < log_T - centre < -log(_WEAKEST):
            there = log_T + step
            if (self.slope(there) < 0) != (self.slope(log_T) < 0):
                return min(log_T, there), max(log_T, there)
            log_T = there
        if step > 0:
            raise NoTemperatureError(
                "No temperature fits: the labels become more probable up to T → ∞, so they look like random labels.",
                "Check that each label belongs to its sample, or use more samples.",
                end="hot",
            )
        raise NoTemperatureError(
            "No temperature fits: the labels become more probable down to T → 0, so they look like labels without noise.",
            "Use more samples, or set T to a small number if the labels have no noise.",
            end="cold",
        )
