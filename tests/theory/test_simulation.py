"""Finite dimensions agree with the limit, the regression is exact, one seed gives one answer, and plans hold."""

import warnings
from dataclasses import replace
from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import nishimori
from nishimori import InputError, NotConvergedError
from nishimori.theory import (
    Affine,
    Constant,
    Experiments,
    Logit,
    Probit,
    logistic_regression,
    plan,
    simulate,
    simulate_bayes,
    state_evolution,
)
from nishimori.theory._simulation import draw


def sample(d, alpha, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((round(alpha * d), d)) / sqrt(d)
    return x, np.where(rng.random(len(x)) < expit(x @ rng.standard_normal(d)), 1.0, -1.0)


# Regression


@pytest.mark.parametrize(("alpha", "penalty"), [(3.0, 1.0), (5.0, 0.01), (1.0, 1e-3), (0.5, 10.0)])
def test_regression_equals_that_of_scikit_learn(alpha, penalty):
    x, y = sample(60, alpha)
    peer = LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-12, solver="newton-cholesky", max_iter=1000)
    np.testing.assert_allclose(logistic_regression(x, y, penalty), peer.fit(x, y).coef_[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("alpha", "penalty"), [(1.0, 1e-4), (1.0, 1e-8), (2.3, 1e-4), (20.0, 1e-4), (3.0, 100.0), (0.02, 1.0)])
def test_the_gradient_vanishes_at_the_weights_also_where_the_samples_are_separable(alpha, penalty):
    x, y = sample(60, alpha)
    weights = logistic_regression(x, y, penalty)
    pull = expit(-y * (x @ weights))
    gradient = penalty * weights - x.T @ (y * pull)
    assert np.linalg.norm(gradient) <= 1e-8 * penalty * np.linalg.norm(weights)


@pytest.mark.parametrize("penalty", [0.0, -1.0, inf, nan, "1"])
def test_regression_refuses_a_penalty_that_is_not_a_positive_finite_number(penalty):
    with pytest.raises(InputError, match="`penalty` must be a positive finite number, got"):
        logistic_regression(*sample(10, 2.0), penalty)


@pytest.mark.parametrize("labels", ["0 and 1", "too few", "column"])
def test_regression_refuses_what_are_not_labels(labels):
    x, y = sample(10, 2.0)
    wrong = {"0 and 1": (y + 1) / 2, "too few": y[:-1], "column": y[:, None]}[labels]
    with pytest.raises(InputError, match="`y`"):
        logistic_regression(x, wrong, 1.0)


def test_a_minimum_out_of_reach_is_raised_not_returned(monkeypatch):
    monkeypatch.setattr("nishimori.theory._simulation._STEPS", 2)
    with pytest.raises(NotConvergedError, match=r"its gradient is still .* Choose a larger penalty"):
        logistic_regression(*sample(20, 5.0), 1e-3)


@pytest.mark.parametrize("alpha", [1.0, 20.0])
def test_the_smallest_penalties_are_solved_too(alpha):
    x, y = sample(40, alpha)
    weights = logistic_regression(x, y, 1e-9)
    gradient = 1e-9 * weights - (x * y[:, None]).T @ (1 / (1 + np.exp(y * (x @ weights))))
    assert np.abs(gradient).max() < 1e-10


# Against the limit


@pytest.mark.parametrize(
    ("teacher", "alpha", "penalty"),
    [
        (Logit(), 3.0, 0.5),
        (Affine(), 2.0, 1e-2),
        (Constant(), 5.0, 0.1),
        (Logit(temperature=0.5, rho=2.0), 3.0, 0.1),
        (Affine(temperature=1.5, rho=0.5), 1.0, 1.0),
    ],
    ids=repr,
)
def test_simulations_agree_with_state_evolution_within_four_standard_errors(teacher, alpha, penalty):
    found = simulate(teacher, alpha, penalty, d=400, seeds=10, n_jobs=1)
    limit = state_evolution(teacher, alpha, penalty)
    expected = {
        **{name: getattr(limit, name) for name in ("m", "q", "error", "temperature_ts", "temperature_ec")},
        **{name: getattr(limit, name)() for name in ("loss", "confidence", "ece", "brier")},
        "brier_ts": limit.brier(limit.temperature_ts),
        "brier_ec": limit.brier(limit.temperature_ec),
        "val_temperature_ts": limit.temperature_ts,
        "val_temperature_ec": limit.temperature_ec,
        "test_error": limit.error,
        "test_loss": limit.loss(),
        "test_brier": limit.brier(),
    }
    deviations = {name: found[name].deviation_from(value) for name, value in expected.items()}
    assert max(map(abs, deviations.values())) < 4, deviations
    # Fifteen bins see what they can of the error, and noise on top.
    assert abs(found["test_ece"].mean - limit.ece()) < 0.02
    np.testing.assert_allclose(found["ece_ec"].mean, limit.ece(limit.temperature_ec), rtol=0.2)


def test_a_teacher_has_the_norm_it_should_or_the_one_it_happens_to_have():
    teacher, d = Logit(rho=2.0), 200
    rngs = [np.random.default_rng(seed) for seed in range(300)]
    norms = [draw(teacher, 0.02, d, fix_norm=True, rng=rng).weights for rng in rngs]
    np.testing.assert_allclose([each @ each / d for each in norms], 2.0, rtol=1e-12)
    drawn = [draw(teacher, 0.02, d, fix_norm=False, rng=rng) for rng in rngs]
    ratios = np.array([each.weights @ each.weights / d for each in drawn]) / 2
    np.testing.assert_allclose([each.teacher.rho for each in drawn], 2 * ratios, rtol=1e-12)
    np.testing.assert_allclose(ratios.std(), sqrt(2 / d), rtol=0.15)
    assert abs(ratios.mean() - 1) < 4 * sqrt(2 / d / 300)


def test_a_norm_left_to_chance_spreads_the_overlap_with_the_teacher():
    spreads = [
        simulate(Probit(temperature=0.1), 20.0, 1.0, 20, seeds=30, n_val=50, n_test=50, fix_norm=fix, n_jobs=1)
        .values["m"]
        .std()
        for fix in (True, False)
    ]
    assert spreads[1] > 2 * spreads[0]


# One seed, one answer


def test_one_seed_gives_the_same_numbers_on_any_number_of_threads():
    first, again, threads = (
        simulate("affine", 2.0, 0.1, 30, seeds=5, n_val=200, n_test=200, seed=3, n_jobs=n) for n in (1, 1, 3)
    )
    for name, values in first.values.items():
        np.testing.assert_array_equal(again.values[name], values)
        np.testing.assert_array_equal(threads.values[name], values)


def test_other_seeds_give_other_numbers():
    one, other = (simulate("affine", 2.0, 0.1, 30, seeds=5, seed=seed, n_val=200, n_test=200, n_jobs=1) for seed in (3, 4))
    every = np.concatenate([one.values["q"], other.values["q"]])
    assert len(np.unique(every)) == 10


def test_bayesian_simulations_are_reproducible_too():
    one, other = (simulate_bayes("probit", 2.0, 40, seeds=3, seed=1, n_jobs=n) for n in (1, 3))
    for name, values in one.values.items():
        np.testing.assert_array_equal(other.values[name], values)


def test_no_bar_is_drawn_where_there_is_no_terminal(capfd):
    simulate("logit", 2.0, 1.0, 10, seeds=2, n_jobs=1)
    assert capfd.readouterr() == ("", "")


# What there is none of


@pytest.fixture(scope="module")
def scarce():
    return simulate("logit", 2.0, 0.1, 20, seeds=12, n_val=3, n_test=100, n_jobs=1)


def test_seeds_without_a_temperature_are_counted_and_shown(scarce):
    lost = scarce["val_temperature_ec"]
    assert 0 < lost.missing < 12
    assert lost.n + lost.missing == 12
    assert lost.missing == np.isnan(scarce.values["val_temperature_ec"]).sum() == scarce.missing["val_temperature_ec"]
    assert scarce.missing["test_ece_ec"] == lost.missing
    assert "error" not in scarce.missing
    assert f"({lost.missing} of 12 seeds have none)" in str(scarce)
    there = scarce.values["val_temperature_ec"][~np.isnan(scarce.values["val_temperature_ec"])]
    np.testing.assert_allclose(lost.mean, there.mean())
    np.testing.assert_allclose(lost.standard_error, there.std(ddof=1) / sqrt(len(there)))


def test_a_small_validation_sample_is_counted_not_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate("logit", 2.0, 0.1, 20, seeds=4, n_val=30, n_test=10, n_jobs=1)


def test_one_seed_has_a_mean_and_no_standard_error():
    found = simulate("logit", 2.0, 1.0, 10, seeds=1, n_val=1, n_test=1, n_jobs=1)
    assert found["q"].n == 1
    assert isnan(found["q"].standard_error)
    assert isnan(found["val_temperature_ec"].mean)  # one sample is all right or all wrong
    assert found["val_temperature_ec"].missing == 1


def test_a_seed_that_learnt_nothing_has_no_temperature_and_ends_nothing():
    found = simulate("logit", 0.1, 1.0, 10, seeds=40, n_val=100, n_test=10, n_jobs=1)
    below = found.values["m"] <= 0
    assert below.any()
    np.testing.assert_array_equal(np.isnan(found.values["temperature_ec"]), below)
    np.testing.assert_array_equal(np.isnan(found.values["ece_ts"]), below)


def test_results_say_what_was_asked_for_and_what_there_is(scarce):
    assert str(scarce).startswith("teacher = Logit(temperature=1.0, rho=1.0), alpha = 2.0, penalty = 0.1, d = 20")
    with pytest.raises(KeyError, match=r"There is no 'ECE'; there are m, q, error"):
        scarce["ECE"]
    few = replace(scarce, values={"m": np.array([1.0, 3.0, nan])})
    assert isinstance(few, Experiments)
    assert few["m"] == (2.0, 1.0, 2, 1)
    assert few["m"].deviation_from(-1.0) == 3.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"d": 1}, "`d` must be a whole number of at least 2, got 1"),
        ({"d": True}, "`d` must be a whole number of at least 2, got True"),
        ({"d": 20.0}, r"`d` must be a whole number of at least 2, got 20\.0"),
        ({"d": "20"}, "`d` must be a whole number of at least 2, got '20'"),
        ({"seeds": 0}, "`seeds` must be a whole number of at least 1, got 0"),
        ({"seeds": 2.0}, r"`seeds` must be a whole number of at least 1, got 2\.0"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, got -1"),
        ({"n_jobs": 0}, "`n_jobs` must be a whole number of at least 1, got 0"),
        ({"alpha": 0.01}, r"`alpha` times `d` must be at least one sample, got 0\.01 times 20"),
        ({"alpha": -1.0}, "`alpha` must be a positive finite number"),
        ({"teacher": "sigmoid"}, "`teacher` must be one of"),
    ],
    ids=repr,
)
def test_experiments_that_cannot_be_made_are_refused(given, message):
    given = {"teacher": "logit", "alpha": 2.0, "d": 20, "n_jobs": 1} | given
    for call in (lambda **each: simulate(penalty=0.1, **each), simulate_bayes):
        with pytest.raises(InputError, match=message):
            call(**given)


@pytest.mark.parametrize("name", ["n_val", "n_test", "penalty"])
def test_samples_and_penalties_of_nothing_are_refused(name):
    with pytest.raises(InputError, match=f"`{name}` must be a"):
        simulate("logit", 2.0, d=20, **({"penalty": 0.1} | {name: 0}))


# Plans


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize(
    ("teacher", "alpha", "penalty", "relative_error"),
    [(Affine(), 10.0, 0.1, 0.1), (Constant(0.8, 2.0), 5.0, 0.5, 0.15)],
    ids=repr,
)
def test_the_planned_samples_give_the_temperature_as_often_as_asked_for(teacher, alpha, penalty, relative_error, method):
    needed = plan(teacher, alpha, penalty, relative_error=relative_error)
    limit = state_evolution(teacher, alpha, penalty)
    n, repeats = getattr(needed, f"n_{method}"), 500
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(repeats):
        theirs = sqrt(teacher.rho) * rng.standard_normal(n)
        rest = limit.q - limit.m**2 / teacher.rho
        ours = limit.m / teacher.rho * theirs + sqrt(rest) * rng.standard_normal(n)
        labels = (rng.random(n) < teacher.probability(theirs / teacher.temperature)).astype(int)
        ratios.append(getattr(nishimori.temperatures(ours, labels), method) / getattr(limit, f"temperature_{method}"))
    off = np.array(ratios) - 1
    assert abs((np.abs(off) < relative_error).mean() - 0.95) < 4 * sqrt(0.95 * 0.05 / repeats)
    # The standard deviation of so many is itself uncertain by 1/√(2·500), or 3 %.
    np.testing.assert_allclose(off.std(), getattr(needed, f"deviation_{method}") / sqrt(n), rtol=0.1)


def test_a_plan_asks_for_more_samples_where_more_is_asked_of_it():
    usual = plan("logit", 5.0, 0.1)
    assert (usual.relative_error, usual.probability) == (0.05, 0.95)
    half = plan("logit", 5.0, 0.1, relative_error=0.025)
    np.testing.assert_allclose([half.n_ec / usual.n_ec, half.n_ts / usual.n_ts], 4, rtol=1e-3)
    surer = plan("logit", 5.0, 0.1, probability=0.99)
    np.testing.assert_allclose(surer.n_ec / usual.n_ec, (2.5758293 / 1.9599640) ** 2, rtol=1e-3)
    assert surer.deviation_ec == usual.deviation_ec


@pytest.mark.parametrize("value", [0.0, -0.1, nan, inf, "0.1", 5.0])
def test_a_relative_error_that_is_not_one_is_refused(value):
    with pytest.raises(InputError, match=r"`relative_error` must lie between 1e-06 and 0\.5, got"):
        plan("logit", 5.0, 0.1, relative_error=value)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 2, nan, "0.9"])
def test_a_probability_that_is_none_is_refused(value):
    with pytest.raises(InputError, match=r"`probability` must lie between 1e-06 and 0\.999999, got"):
        plan("logit", 5.0, 0.1, probability=value)


def test_regression_on_samples_that_cancel_finds_zero():
    assert logistic_regression([[1.0], [1.0]], [1, -1], 0.5) == 0.0


def test_a_penalty_that_rounding_hides_is_refused():
    with pytest.raises(NotConvergedError, match="Choose a larger penalty"):
        logistic_regression(*sample(50, 0.5), 1e-20)


def test_seeds_that_have_learnt_nothing_are_counted_and_not_averaged():
    found = simulate_bayes("logit", 0.2, 30, seeds=20, progress=False)
    assert ((found.values["error"] > 0.3) & (found.values["error"] < 0.7)).all()
    assert found["temperature_ec"].missing + found["temperature_ec"].n == 20
