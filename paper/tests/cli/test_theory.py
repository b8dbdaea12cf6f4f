"""`theory` as a person types it."""

import json

import pytest


def test_theory_prints_the_papers_temperatures(run):
    code, out, err = run("theory affine --alpha 20 --penalty 1e-4")
    assert (code, err) == (0, "")
    assert "1.3543" in out
    assert "1.2420" in out
    assert "4.36 %" in out


def test_theory_finds_the_best_penalty_and_prints_json(run):
    code, out, _ = run("theory logit --alpha 5 --penalty error --json")
    found = json.loads(out)
    assert code == 0
    assert found["penalty"] == pytest.approx(1.10187, rel=1e-4)
    assert found["after_EC"]["confidence"] == pytest.approx(1 - found["after_EC"]["error"], abs=1e-9)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "theory cubic --alpha 2 --penalty 1",
            "error: `teacher` must be one of logit, affine, constant, probit, got 'cubic'.\n",
        ),
        ("theory logit --alpha -1 --penalty 1", "error: --alpha must be a positive finite number, got -1.0.\n"),
        ("theory logit --alpha 1 --penalty 0", "error: --penalty must be a positive finite number, got 0.0.\n"),
        ("theory logit --alpha 1 --penalty much", "error: `--penalty` must be a number, error or loss, got 'much'.\n"),
        ("theory logit --alpha 1 --penalty 1 --rho 0", "error: --rho must be a positive finite number, got 0.0.\n"),
    ],
)
def test_wrong_theory_is_one_line(run, line, message):
    assert run(line) == (1, "", message)
