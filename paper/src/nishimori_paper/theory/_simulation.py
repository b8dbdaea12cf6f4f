"""Experiments in finite dimensions: draw a teacher and samples, train, and measure what the theory predicts."""

from math import exp, log, nan, sqrt

import numpy as np
from scipy.optimize import brentq

from nishimori._evaluation.scorecard import scorecards
from nishimori._fit.temperatures import temperatures_of
from nishimori._rows.entry import open_rows
from nishimori._support.numbers import positive, whole
from nishimori.errors import InputError, NotConvergedError, NoTemperatureError
from nishimori.maps.temperature import Temperature
from nishimori_paper.theory._expectation_maximisation import expectation_maximisation
from nishimori_paper.theory._experiments import Experiments, repeat
from nishimori_paper.theory._gamp import Gamp, gamp
from nishimori_paper.theory._linear_score import Overlaps
from nishimori_paper.theory._logistic_regression import logistic_regression
from nishimori_paper.theory._posterior import Posterior, check_log_concave, chosen_temperatures
from nishimori_paper.theory._quadrature import Array
from nishimori_paper.theory._teachers import Teacher, as_teacher
from nishimori_paper.theory._training_set import TrainingSet, draw, draw_labels

# Error of log T, and tolerance of message passing. Both are far below the spread over seeds.
_FINE = 1e-4
_COARSE = 1e-6


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
    progress: bool | None = None,
) -> Experiments:
    """Train logistic regression in d dimensions on αd samples of a teacher, for many seeds.

    `Experiments` lists the quantities that are measured.

    Parameters
    ----------
    teacher, alpha, penalty
        As for `state_evolution`; αd is rounded.
    d : int
        Dimension, at least 2.
    seeds : int
        Number of repetitions, each with a new teacher and new samples.
    n_val, n_test : int
        Number of samples on which temperatures are fitted, and on which the metrics named ``test_`` are measured.
    fix_norm : bool
        Scale each teacher to |w*|² = ρd, as in the limit. Otherwise |w*|² is ρd up to a factor 1 ± √(2/d).
    seed : int
        Random seed. The same seed gives the same numbers for every ``n_jobs``.
    n_jobs : int, optional
        Number of seeds that run at the same time; all cores by default.
    progress : bool, optional
        None shows a bar if standard error is a terminal, True also writes lines elsewhere, False shows nothing.

    Examples
    --------
    >>> from nishimori_paper.theory import simulate, state_evolution
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
        return _regression(draw(teacher, alpha, d, fix_norm, rng), penalty, n_val, n_test, rng)

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
    progress: bool | None = None,
) -> Experiments:
    """Bayesian inference in d dimensions by approximate message passing, and the temperatures that it would choose.

    Parameters are those of `simulate`, and `Experiments` lists the quantities. The teacher's likelihood must be log-concave.

    Examples
    --------
    >>> from nishimori_paper.theory import simulate_bayes
    >>> found = simulate_bayes("probit", alpha=3.0, d=200, seeds=8)
    >>> abs(found["temperature_ec"].deviation_from(1.0)) < 4
    True
    """
    teacher = as_teacher(teacher)
    alpha, d = positive("alpha", alpha), whole("d", d, 2)
    _check_samples(alpha, d)
    check_log_concave(teacher)

    def experiment(rng: np.random.Generator) -> dict[str, float]:
        return _bayes(draw(teacher, alpha, d, fix_norm, rng), teacher)

    settings = {"teacher": teacher, "alpha": alpha, "d": d, "fix_norm": fix_norm, "seeds": seeds, "seed": seed}
    return repeat(experiment, settings, seeds=seeds, seed=seed, n_jobs=n_jobs, progress=progress)


def simulate_em(
    teacher: Teacher | str,
    alpha: float,
    d: int,
    *,
    assumed: Teacher | str | None = None,
    seeds: int = 10,
    fix_norm: bool = True,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Experiments:
    """Expectation maximisation in d dimensions: the temperature from the training set alone, and its effect on new samples.

    Parameters are those of `simulate`, and `Experiments` lists the quantities.

    Parameters
    ----------
    assumed : Teacher or str, optional
        The teacher whose σ* and ρ are assumed, by default the one that labels the samples. Another one shows what happens if
        the assumption is wrong.

    Examples
    --------
    >>> from nishimori_paper.theory import Probit, simulate_em
    >>> found = simulate_em(Probit(temperature=0.5), alpha=5.0, d=200, seeds=8)
    >>> abs(found["temperature_em"].deviation_from(0.5)) < 4
    True
    """
    teacher = as_teacher(teacher)
    likelihood = teacher if assumed is None else as_teacher(assumed)
    alpha, d = positive("alpha", alpha), whole("d", d, 2)
    _check_samples(alpha, d)

    def experiment(rng: np.random.Generator) -> dict[str, float]:
        return _em(draw(teacher, alpha, d, fix_norm, rng), likelihood)

    settings = {"teacher": teacher, "alpha": alpha, "d": d, "assumed": likelihood, "fix_norm": fix_norm}
    settings |= {"seeds": seeds, "seed": seed}
    return repeat(experiment, settings, seeds=seeds, seed=seed, n_jobs=n_jobs, progress=progress)


def _regression(data: TrainingSet, penalty: float, n_val: int, n_test: int, rng: np.random.Generator) -> dict[str, float]:
    """One seed of `simulate`."""
    d = len(data.weights)
    weights = logistic_regression(data.x, data.y, penalty)
    overlaps = Overlaps(data.teacher, float(data.weights @ weights) / d, float(weights @ weights) / d)
    return _population(overlaps) | _samples(overlaps, n_val, n_test, rng)


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
        except (NoTemperatureError, NotConvergedError):  # the classifier has learnt nothing, or almost nothing
            T = None
        values[f"temperature_{name}"] = nan if T is None else T
        values[f"ece_{name}"] = nan if T is None else overlaps.ece(T)
        values[f"brier_{name}"] = nan if T is None else overlaps.brier(T)
    return values


def _samples(overlaps: Overlaps, n_val: int, n_test: int, rng: np.random.Generator) -> dict[str, float]:
    """Temperatures of a validation sample, and their effect on a test sample; NaN if there is none."""
    # Without warnings: seeds that have no temperature are counted instead.
    validation = temperatures_of(open_rows(*_new_scores(overlaps, n_val, rng)), warn=False)
    test = open_rows(*_new_scores(overlaps, n_test, rng))
    # A temperature that does not exist is measured as 1 and then dropped, so that all share one pass.
    chosen = [1.0, *(1.0 if T is None else T for T in (validation.ts, validation.ec))]
    before, after_ts, after_ec = scorecards(test, [Temperature(T) for T in chosen])
    return {
        "val_temperature_ts": nan if validation.ts is None else validation.ts,
        "val_temperature_ec": nan if validation.ec is None else validation.ec,
        "test_error": before.error,
        "test_loss": before.nll,
        "test_brier": before.brier,
        "test_ece": before.ece,
        "test_ece_ts": nan if validation.ts is None else after_ts.ece,
        "test_ece_ec": nan if validation.ec is None else after_ec.ece,
    }


def _new_scores(overlaps: Overlaps, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Scores ŵ·x of new samples, and their labels 0 and 1.

    The samples themselves are not needed: for x ~ N(0, I/d) the scores (w*·x, ŵ·x) are exactly a Gaussian pair.
    """
    teacher, m, q = overlaps.teacher, overlaps.m, overlaps.q
    theirs = sqrt(teacher.rho) * rng.standard_normal(n)
    ours = m / teacher.rho * theirs + sqrt(q - m * m / teacher.rho) * rng.standard_normal(n)
    return ours, (draw_labels(teacher, theirs, rng) > 0).astype(np.int64)


def _check_samples(alpha: float, d: int) -> None:
    if round(alpha * d) < 1:
        samples = "`alpha` * `d`, the number of samples,"
        raise InputError(samples, "round to at least 1", got=f"{alpha} * {d}", remedy="Increase either.")


def _bayes(data: TrainingSet, assumed: Teacher) -> dict[str, float]:
    """One seed of `simulate_bayes`; temperatures are searched for between T*/3 and 3T*."""
    d = len(data.weights)
    last: Gamp | None = None

    def at(log_ratio: float) -> Posterior:
        nonlocal last
        T = assumed.temperature * exp(log_ratio)
        last = gamp(data.x, data.y, assumed, temperature=T, start=last)
        m, q = (float(weights @ last.weights) / d for weights in (data.weights, last.weights))
        return Posterior(data.teacher, T, m, q, last.v)

    best = at(0.0)
    values = {name: getattr(best, name) for name in ("m", "q", "v", "error", "confidence", "loss", "excess")}
    chosen = chosen_temperatures(at, -log(3.0), log(3.0))
    for name, T in zip(("temperature_ts", "temperature_ec"), chosen, strict=True):
        values[name] = nan if T is None else T
    return values


def _em(data: TrainingSet, assumed: Teacher) -> dict[str, float]:
    """One seed of `simulate_em`; NaN marks values that do not exist, or that message passing cannot find."""
    names = ("temperature_em", "standard_error", "free_energy", "error", "confidence", "loss", "excess", "temperature_ec")
    values = dict.fromkeys(names, nan)
    try:
        fit = expectation_maximisation(data.x, data.y, assumed)
    except (NoTemperatureError, NotConvergedError):
        return values
    values |= {"temperature_em": fit.temperature, "standard_error": fit.standard_error}
    values["free_energy"] = fit.posterior.free_energy
    last, d = fit.posterior, len(data.weights)

    def at(log_T: float) -> Posterior:
        nonlocal last
        last = gamp(data.x, data.y, assumed, temperature=exp(log_T), tol=_COARSE, start=last)
        m, q = (float(weights @ last.weights) / d for weights in (data.weights, last.weights))
        return Posterior(data.teacher, exp(log_T), m, q, last.v, assumed)

    centre = log(fit.temperature)
    best = at(centre)
    values |= {name: getattr(best, name) for name in ("error", "confidence", "loss", "excess")}
    try:
        # Within a factor of 2 of T of EM. Without a root SciPy raises a ValueError, as message passing does if it fails.
        root = brentq(lambda log_T: at(log_T).excess, centre - log(2.0), centre + log(2.0), xtol=_FINE)
    except ValueError:
        return values
    return values | {"temperature_ec": exp(root)}
