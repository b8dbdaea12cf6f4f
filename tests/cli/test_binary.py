"""Calibrators of binary scores from the shell: how they are asked for, what is printed, and what they do to rows."""

import json

import numpy as np
import pytest
import shell

import nishimori
from nishimori._support.formatting import value_with_error
from nishimori.cli._calibration import description

SCORES = 2 * np.random.default_rng(0).normal(size=400)
LABELS = (SCORES + 1 + np.random.default_rng(1).logistic(size=400) > 0).astype(int)
SEPARATED = (SCORES > 0.5).astype(int)


@pytest.fixture
def place(tmp_path):
    np.savez(tmp_path / "t.npz", logits=SCORES, labels=LABELS)
    np.savez(tmp_path / "s.npz", logits=SCORES, labels=SEPARATED)
    np.savez(tmp_path / "k.npz", logits=np.random.default_rng(0).normal(size=(30, 3)), labels=np.arange(30) % 3)
    return tmp_path


@pytest.mark.parametrize("method", ["platt", "beta", "quadratic", "intercept"])
def test_it_is_fitted_saved_applied_and_measured(place, method):
    fitted = nishimori.calibrator(method).fit(SCORES, LABELS)
    ended = shell.nishimori(f"fit t.npz -o c.json --method {method}", place=place)
    assert ended.code == 0, ended.err
    errors = fitted.parameters_se_ or {}
    shown = ", ".join(f"{name} {value_with_error(value, errors.get(name))}" for name, value in fitted.parameters_.items())
    assert ended.out == f"{shown}  ({method}, 400 samples)\n"
    assert shell.nishimori("apply c.json t.npz -o p.npy", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "p.npy"), fitted.predict_proba(SCORES), rtol=1e-9)
    told = json.loads(shell.nishimori("eval t.npz --calibration c.json --json", place=place).out)
    assert told["after"]["nll"] == pytest.approx(-np.log(fitted.predict_proba(SCORES)[np.arange(400), LABELS]).mean())


def test_parameters_have_errors_without_smoothing(place):
    ended = shell.nishimori("fit t.npz -o c.json --method beta --param variant=ab --param smooth_labels=false", place=place)
    fitted = nishimori.Beta(variant="ab", smooth_labels=False).fit(SCORES, LABELS)
    shown = ", ".join(f"{name} {value:.2f} ± {fitted.parameters_se_[name]:.2f}" for name, value in fitted.parameters_.items())
    assert ended.out == f"{shown}  (beta, 400 samples)\n"
    told = json.loads(shell.nishimori("fit t.npz -o d.json --method platt --json", place=place).out)
    assert told["parameters_se"] is None
    assert told["why_no_se"].endswith("Fit with --param smooth_labels=false to have standard errors.")


def test_a_map_without_its_method_is_described_by_its_own_parameters():
    fixed = nishimori.calibrators.FixedMap(nishimori.maps.LogOdds(1.5, 0.5, 0.25), method="mine").fit(SCORES, LABELS)
    assert description(fixed) == ["a 1.5, b 0.5, c 0.25, square 0  (mine, 400 samples)"]


REFUSED = {
    "separated": (
        "fit s.npz -o c.json --method platt --param smooth_labels=false",
        "Use more validation samples, or --param smooth_labels=true.",
    ),
    "three classes": ("fit k.npz -o c.json --method beta", "The file must have two classes for the method 'beta', got 3."),
}


@pytest.mark.parametrize(("line", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_fitted_is_refused_in_the_words_of_the_shell(place, line, message):
    ended = shell.nishimori(line, place=place)
    assert (ended.code, ended.out) == (1, "")
    assert message in ended.err
    assert not (place / "c.json").exists()
