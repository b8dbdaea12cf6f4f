"""Simulations agree with the limit, and one seed gives the same numbers on any number of cores."""

import sys
import warnings
from dataclasses import replace
from functools import partial
from io import StringIO
from math import isnan, nan, sqrt

import numpy as np
import pytest

from nishimori.errors import InputError
from nishimori_paper.theory import (
    Affine,
    Constant,
    Experiments,
    Logit,
    Probit,
    simulate,
    simulate_bayes,
    state_evolution,
)
from nishimori_paper.theory._training_set import draw

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
    # The ECE of 15 bins is biased: binning hides some of the error, and noise adds to it.
    assert abs(found["test_ece"].mean - limit.ece()) < 0.02
    np.testing.assert_allclose(found["ece_ec"].mean, limit.ece(limit.temperature_ec), rtol=0.2)


def test_the_norm_of_a_teacher_is_fixed_or_random():
    teacher, d = Logit(rho=2.0), 200
    rngs = [np.random.default_rng(seed) for seed in range(300)]
    norms = [draw(teacher, 0.02, d, fix_norm=True, rng=rng).weights for rng in rngs]
    np.testing.assert_allclose([each @ each / d for each in norms], 2.0, rtol=1e-12)
    drawn = [draw(teacher, 0.02, d, fix_norm=False, rng=rng) for rng in rngs]
    ratios = np.array([each.weights @ each.weights / d for each in drawn]) / 2
    np.testing.assert_allclose([each.teacher.rho for each in drawn], 2 * ratios, rtol=1e-12)
    np.testing.assert_allclose(ratios.std(), sqrt(2 / d), rtol=0.15)
    assert abs(ratios.mean() - 1) < 4 * sqrt(2 / d / 300)


def test_a_random_norm_increases_the_spread_of_the_overlap_with_the_teacher():
    spreads = [
        simulate(Probit(temperature=0.1), 20.0, 1.0, 20, seeds=30, n_val=50, n_test=50, fix_norm=fix, n_jobs=1)
        .values["m"]
        .std()
        for fix in (True, False)
    ]
    assert spreads[1] > 2 * spreads[0]


# Reproducibility


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


# Progress

each_simulation = pytest.mark.parametrize("run", [partial(simulate, penalty=1.0), simulate_bayes], ids=["simulate", "bayes"])


@each_simulation
@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_written_off_a_terminal(run, progress, capfd):
    run("logit", alpha=2.0, d=10, seeds=2, n_jobs=1, progress=progress)
    assert capfd.readouterr() == ("", "")


@each_simulation
def test_a_line_per_seed_is_written_off_a_terminal_on_request(run, capfd):
    run("logit", alpha=2.0, d=10, seeds=3, n_jobs=1, progress=True)
    out, err = capfd.readouterr()
    first, *rest = err.splitlines()
    assert out == ""
    assert first == "0/3 simulating"
    assert [line[:18] for line in rest] == [f"{done}/3 simulated seed" for done in (1, 2, 3)]
    assert sorted(line.split()[-1] for line in rest) == ["1", "2", "3"]  # seeds that finish together come in any order


@each_simulation
@pytest.mark.parametrize(("progress", "drawn"), [(None, True), (True, True), (False, False)])
def test_a_bar_is_drawn_on_a_terminal_unless_refused(run, progress, drawn, monkeypatch):
    class Terminal(StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Terminal())
    run("logit", alpha=2.0, d=10, seeds=2, n_jobs=1, progress=progress)
    assert ("simulated seed" in sys.stderr.getvalue()) is drawn


# Missing values


@pytest.fixture(scope="module")
def scarce():
    return simulate("logit", 2.0, 0.1, 20, seeds=12, n_val=12, n_test=100, n_jobs=1)


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
    assert isnan(found["val_temperature_ec"].mean)  # a single answer is right or wrong, so accuracy is 1 or 0
    assert found["val_temperature_ec"].missing == 1


def test_a_seed_that_learnt_nothing_has_no_temperature_and_the_others_continue():
    found = simulate("logit", 0.1, 1.0, 10, seeds=40, n_val=100, n_test=10, n_jobs=1)
    below = found.values["m"] <= 0
    assert below.any()
    np.testing.assert_array_equal(np.isnan(found.values["temperature_ec"]), below)
    np.testing.assert_array_equal(np.isnan(found.values["ece_ts"]), below)


def test_results_show_their_settings_and_list_their_quantities(scarce):
    assert str(scarce).startswith("teacher = Logit(temperature=1.0, rho=1.0), alpha = 2.0, penalty = 0.1, d = 20")
    with pytest.raises(KeyError, match=r"No quantity is called 'ECE'\. Choose from m, q, error"):
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
        (
            {"alpha": 0.01},
            r"`alpha` \* `d`, the number of samples, must round to at least 1, got 0\.01 \* 20\. Increase either",
        ),
        ({"alpha": -1.0}, "`alpha` must be a positive finite number"),
        ({"teacher": "sigmoid"}, "`teacher` must be one of"),
    ],
    ids=repr,
)
def test_impossible_experiments_are_refused(given, message):
    given = {"teacher": "logit", "alpha": 2.0, "d": 20, "n_jobs": 1} | given
    for call in (lambda **each: simulate(penalty=0.1, **each), simulate_bayes):
        with pytest.raises(InputError, match=message):
            call(**given)


@pytest.mark.parametrize("name", ["n_val", "n_test", "penalty"])
def test_sample_sizes_and_penalties_of_zero_are_refused(name):
    with pytest.raises(InputError, match=f"`{name}` must be a"):
        simulate("logit", 2.0, d=20, **({"penalty": 0.1} | {name: 0}))


def test_seeds_that_have_learnt_nothing_are_counted_and_not_averaged():
    found = simulate_bayes("logit", 0.2, 30, seeds=20, progress=False)
    assert ((found.values["error"] > 0.3) & (found.values["error"] < 0.7)).all()
    assert found["temperature_ec"].missing + found["temperature_ec"].n == 20
