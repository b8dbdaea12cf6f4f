"""Finite dimensions: draw a teacher and samples, train, and compare with the limit."""

from dataclasses import replace
from math import exp, log, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from nishimori._maps import Temperature
from nishimori._numbers import positive, whole
from nishimori._scorecard import scorecards
from nishimori._sources import source
from nishimori._temperatures import temperatures_of
from nishimori.errors import InputError, NotConvergedError, NoTemperatureError
from nishimori.theory._bayes import Posterior, check_log_concave, chosen_temperatures
from nishimori.theory._checks import labelled
from nishimori.theory._experiments import Experiments, repeat
from nishimori.theory._gamp import Gamp, gamp
from nishimori.theory._linear_score import Overlaps
from nishimori.theory._quadrature import Array
from nishimori.theory._teachers import Teacher, as_teacher

# Newton's method, from zero: each step halves the gradient where the data are separable, and squares it near the end.
_STEPS = 200

# Relative distance to the exact minimum before the last step, which all but removes it.
_CERTAIN = 1e-8


class Sample(NamedTuple):
    """Training data, and the teacher that labelled them with the norm it happens to have."""

    x: Array
    y: Array
    weights: Array
    teacher: Teacher


def simulate(
    teacher: Teacher | str,
    alpha: float,
    penalty: float,
    d: int,
    *,
    seeds: int = 10,
    n_val: int = 10_000,
    n_test: int = 10_000,
    fix_norm: bool = True,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Experiments:
    """Logistic regression in d dimensions, trained to the end on αd samples of a teacher, for many seeds.

    Parameters
    ----------
    teacher : Teacher or {"logit", "affine", "constant", "probit"}
        Who labels the samples; a name stands for T* = ρ = 1.
    alpha : float
        Samples per dimension; αd is rounded.
    penalty : float
        λ of the penalty λ/2 |w|².
    d : int
        Dimension, at least 2.
    seeds : int
        How often everything is drawn anew.
    n_val, n_test : int
        Samples on which temperatures are fitted, and on which the metrics named ``test_`` are measured. Only their scores are
        drawn: (w*·x, ŵ·x) is a Gaussian pair exactly.
    fix_norm : bool
        Scale each teacher to |w*|² = ρd, as it is in the limit. Otherwise it is ρd up to a factor 1 ± √(2/d).
    seed : int
        What everything is drawn from: the same seed gives the same numbers on however many cores.
    n_jobs : int, optional
        Seeds at a time; all cores by default.
    progress : bool
        Show a bar, if standard error is a terminal.

    Returns
    -------
    Experiments
        Means with standard errors of

        - ``m``, ``q``: the overlaps;
        - ``error``, ``loss``, ``confidence``, ``ece``, ``brier``, ``temperature_ts``, ``temperature_ec``, and the last two
          metrics after either temperature, ``ece_ts`` to ``brier_ec``: of infinitely many new samples, from the overlaps;
        - ``val_temperature_ts``, ``val_temperature_ec``: from the validation sample;
        - ``test_error``, ``test_loss``, ``test_brier``, and ``test_ece``, ``test_ece_ts``, ``test_ece_ec`` (15 bins of equal
          width; uncalibrated, and after the validation sample's temperatures): from the test sample.

        A seed that has no temperature, because its validation sample is all right or no better than chance, has NaN there
        and is counted as missing.

    Examples
    --------
    >>> from nishimori.theory import simulate, state_evolution
    >>> found = simulate("logit", alpha=3.0, penalty=0.5, d=100, seeds=8)
    >>> limit = state_evolution("logit", alpha=3.0, penalty=0.5)
    >>> abs(found["q"].deviation_from(limit.q)) < 4
    True
    """
    teacher = as_teacher(teacher)
    alpha, penalty, d = positive("alpha", alpha), positive("penalty", penalty), whole("d", d, 2)
    n_val, n_test = whole("n_val", n_val, 1), whole("n_test", n_test, 1)
    _check_samples(alpha, d)

    def experiment(rng: np.random.Generator) -> dict[str, float]:
        sample = draw(teacher, alpha, d, fix_norm, rng)
        weights = logistic_regression(sample.x, sample.y, penalty)
        overlaps = Overlaps(sample.teacher, float(sample.weights @ weights) / d, float(weights @ weights) / d)
        return _population(overlaps) | _samples(overlaps, n_val, n_test, rng)

    settings = {"teacher": teacher, "alpha": alpha, "penalty": penalty, "d": d, "n_val": n_val, "n_test": n_test}
    settings |= {"fix_norm": fix_norm, "seeds": seeds, "seed": seed}
    return repeat(experiment, settings, seeds=seeds, seed=seed, n_jobs=n_jobs, progress=progress)


def simulate_bayes(
    teacher: Teacher | str,
    alpha: float,
    d: int,
    *,
    seeds: int = 10,
    fix_norm: bool = True,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Experiments:
    """Bayesian inference in d dimensions by approximate message passing, and the temperatures it would choose.

    Parameters are those of `simulate`. The means are of ``m``, ``q``, ``v``, ``error``, ``confidence``, ``excess`` (confidence
    − accuracy) and ``loss`` at the teacher's T*, and of ``temperature_ts`` and ``temperature_ec``: the T in the likelihood at
    which the loss for new samples is least, and at which mean confidence is accuracy. The likelihood must be log-concave.

    Examples
    --------
    >>> from nishimori.theory import simulate_bayes
    >>> found = simulate_bayes("probit", alpha=3.0, d=200, seeds=8)
    >>> abs(found["temperature_ec"].deviation_from(1.0)) < 4
    True
    """
    teacher = as_teacher(teacher)
    alpha, d = positive("alpha", alpha), whole("d", d, 2)
    _check_samples(alpha, d)
    check_log_concave(teacher)

    def experiment(rng: np.random.Generator) -> dict[str, float]:
        sample = draw(teacher, alpha, d, fix_norm, rng)
        return _bayes(sample, teacher)

    settings = {"teacher": teacher, "alpha": alpha, "d": d, "fix_norm": fix_norm, "seeds": seeds, "seed": seed}
    return repeat(experiment, settings, seeds=seeds, seed=seed, n_jobs=n_jobs, progress=progress)


def draw(teacher: Teacher, alpha: float, d: int, fix_norm: bool, rng: np.random.Generator) -> Sample:
    """A teacher's weights, and αd samples that it labels with +1 and -1."""
    weights = rng.standard_normal(d) * sqrt(teacher.rho)
    if fix_norm:
        weights *= sqrt(d * teacher.rho / (weights @ weights))
    x = rng.standard_normal((round(alpha * d), d)) / sqrt(d)
    y = _labels(teacher, x @ weights, rng)
    return Sample(x, y, weights, teacher if fix_norm else replace(teacher, rho=float(weights @ weights) / d))


def logistic_regression(x: Any, y: Any, penalty: float) -> Array:
    """The exact minimiser of Σ log(1 + exp(−y w·x)) + λ/2 |w|² for labels +1 and -1.

    Newton's method, until its step, the gradient seen through the Hessian, is below 1e-8 of the weights. Near the minimum that
    step is the distance to it, and it is taken.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori.theory import logistic_regression
    >>> logistic_regression([[1.0, 0.0], [0.0, 2.0]], [1, -1], penalty=0.5).round(3)
    array([ 0.675, -0.741])
    """
    x, y = labelled(x, y)
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
            break  # the penalty is lost beside the data
        moved = weights + _damping(signed @ step, margins, weights, step, penalty, float(gradient @ step)) * step
        if np.linalg.norm(step) <= _CERTAIN * np.linalg.norm(moved):
            return np.asarray(moved)
        weights = moved
    raise NotConvergedError(
        f"Logistic regression did not reach its minimum in {_STEPS} steps at penalty = {penalty:g}: its gradient is still "
        f"{np.linalg.norm(gradient):.1e}. Choose a larger penalty."
    )


def _damping(moves: Array, margins: Array, weights: Array, step: Array, penalty: float, slope: float) -> float:
    """The largest of 1, 1/2, 1/4, ... at which the risk falls as it should."""

    def risk(size: float) -> float:
        moved = weights + size * step
        return float(np.logaddexp(0, -(margins + size * moves)).sum()) + penalty / 2 * float(moved @ moved)

    size, here = 1.0, risk(0.0)
    # At the end the risk no longer changes in its last digit, and the full step is right.
    while risk(size) > here + 1e-4 * size * slope + 1e-12 * here and size > 1e-9:
        size /= 2
    return size


def _population(overlaps: Overlaps) -> dict[str, float]:
    values = {
        "m": overlaps.m,
        "q": overlaps.q,
        "error": overlaps.error,
        "loss": overlaps.loss(),
        "confidence": overlaps.confidence(),
        "ece": overlaps.ece(),
        "brier": overlaps.brier(),
    }
    for name in ("ts", "ec"):
        try:
            T = getattr(overlaps, f"temperature_{name}")
        except (NoTemperatureError, NotConvergedError):  # it has learnt nothing, or all but nothing
            T = None
        values[f"temperature_{name}"] = nan if T is None else T
        values[f"ece_{name}"] = nan if T is None else overlaps.ece(T)
        values[f"brier_{name}"] = nan if T is None else overlaps.brier(T)
    return values


def _samples(overlaps: Overlaps, n_val: int, n_test: int, rng: np.random.Generator) -> dict[str, float]:
    """Temperatures of a validation sample, and what they do to a test sample; NaN where there is none."""
    found = temperatures_of(source(*_new_scores(overlaps, n_val, rng)), warn=False)  # seeds without one are counted instead
    test = source(*_new_scores(overlaps, n_test, rng))
    # A temperature that does not exist is measured as 1 and then dropped, so that all share one reading.
    chosen = [1.0, *(1.0 if T is None else T for T in (found.ts, found.ec))]
    before, after_ts, after_ec = scorecards(test, [Temperature(T) for T in chosen])
    return {
        "val_temperature_ts": nan if found.ts is None else found.ts,
        "val_temperature_ec": nan if found.ec is None else found.ec,
        "test_error": before.error,
        "test_loss": before.nll,
        "test_brier": before.brier,
        "test_ece": before.ece,
        "test_ece_ts": nan if found.ts is None else after_ts.ece,
        "test_ece_ec": nan if found.ec is None else after_ec.ece,
    }


def _new_scores(overlaps: Overlaps, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Scores ŵ·x of new samples, and their labels 0 and 1: a Gaussian pair has the same distribution as the samples'."""
    teacher, m, q = overlaps.teacher, overlaps.m, overlaps.q
    theirs = sqrt(teacher.rho) * rng.standard_normal(n)
    ours = m / teacher.rho * theirs + sqrt(q - m * m / teacher.rho) * rng.standard_normal(n)
    return ours, (_labels(teacher, theirs, rng) > 0).astype(np.int64)


def _labels(teacher: Teacher, scores: Array, rng: np.random.Generator) -> Array:
    return np.where(rng.random(len(scores)) < teacher.probability(scores / teacher.temperature), 1.0, -1.0)


def _check_samples(alpha: float, d: int) -> None:
    if round(alpha * d) < 1:
        raise InputError(f"`alpha` times `d` must be at least one sample, got {alpha} times {d}.")


def _bayes(sample: Sample, assumed: Teacher) -> dict[str, float]:
    """One seed of `simulate_bayes`; a temperature beyond a factor of three of T* counts as none."""
    d = len(sample.weights)
    last: Gamp | None = None

    def at(log_ratio: float) -> Posterior:
        nonlocal last
        T = assumed.temperature * exp(log_ratio)
        last = gamp(sample.x, sample.y, assumed, temperature=T, start=last)
        m, q = (float(weights @ last.weights) / d for weights in (sample.weights, last.weights))
        return Posterior(sample.teacher, T, m, q, last.v)

    best = at(0.0)
    values = {name: getattr(best, name) for name in ("m", "q", "v", "error", "confidence", "loss", "excess")}
    found = chosen_temperatures(at, -log(3.0), log(3.0))
    for name, T in zip(("temperature_ts", "temperature_ec"), found, strict=True):
        values[name] = nan if T is None else T
    return values
