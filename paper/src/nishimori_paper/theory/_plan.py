"""The number of validation samples that a temperature needs.

A temperature solves mean g_i(log τ) = 0, with g = |s|^k (σ(τ|s|) − [right]), where k is 0 for expectation consistency and 1 for
temperature scaling. So for a large number n of samples, the standard error of log T is √(Var g / n) divided by the mean slope
of g.
"""

from dataclasses import dataclass
from math import ceil, sqrt

from scipy.special import expit, ndtri

from nishimori._support.numbers import between
from nishimori_paper.theory._linear_score import LinearScore
from nishimori_paper.theory._state_evolution import state_evolution
from nishimori_paper.theory._teachers import Teacher


@dataclass(frozen=True)
class Plan:
    """Number of validation samples for a given relative error of T, for both methods.

    Attributes
    ----------
    n_ec, n_ts : int
        Number of samples for expectation consistency, and for temperature scaling.
    deviation_ec, deviation_ts : float
        Standard deviation of T/T∞ − 1 times the square root of the number of samples.
    relative_error, probability : float
        The requested accuracy.
    """

    n_ec: int
    n_ts: int
    deviation_ec: float
    deviation_ts: float
    relative_error: float
    probability: float


def plan(
    teacher: Teacher | str,
    alpha: float,
    penalty: float,
    *,
    relative_error: float = 0.05,
    probability: float = 0.95,
) -> Plan:
    """Number of validation samples that bring T within ``relative_error`` of its limit, with the given probability.

    The classifier is logistic regression on αd samples of the teacher, with d → ∞. T is taken to be normally distributed, which
    holds for many validation samples.

    Parameters
    ----------
    teacher, alpha, penalty
        As for `state_evolution`.
    relative_error : float
        Largest accepted |T/T∞ − 1|, at most 0.5.
    probability : float
        Probability that the error is not larger.

    Examples
    --------
    >>> from nishimori_paper.theory import plan
    >>> needed = plan("logit", alpha=5.0, penalty=0.1, relative_error=0.1)
    >>> needed.n_ec > 100
    True
    """
    relative_error = between("relative_error", relative_error, 1e-6, 0.5)
    probability = between("probability", probability, 1e-6, 1 - 1e-6)
    result = state_evolution(teacher, alpha, penalty)
    ec, ts = deviation(result, 0), deviation(result, 1)
    quantile = float(ndtri((1 + probability) / 2))
    n_ec, n_ts = (ceil((quantile * spread / relative_error) ** 2) for spread in (ec, ts))
    return Plan(n_ec, n_ts, ec, ts, relative_error, probability)


def deviation(score: LinearScore, power: int) -> float:
    """Standard deviation of log T times √n, if T solves the condition with weights |s|^power."""
    s, weight, wrong = score.line
    T = score.temperature_ts if power else score.temperature_ec
    u = sqrt(score.q) / T * s
    down, up = expit(-u), expit(u)
    # g is −σ(−u) where the answer is right and σ(u) where it is wrong.
    variance = float(weight @ (s ** (2 * power) * ((1 - wrong) * down**2 + wrong * up**2)))
    return sqrt(variance) / float(weight @ (s**power * u * down * up))
