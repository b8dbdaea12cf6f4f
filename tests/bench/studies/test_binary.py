"""The studies of binary scores run at a small size, and find what they are about."""

import numpy as np
import pytest

import nishimori


@pytest.fixture
def study():
    import binary

    return binary


def test_the_study_finds_that_an_intercept_helps_where_a_class_is_rare(study, run_study, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    s = 2 * rng.normal(size=3000)
    made_up = study.Scores("made up", s, s + rng.logistic(size=3000) > 0)
    monkeypatch.setattr(study, "models", lambda: iter([made_up, made_up.rare()]))
    run_study("binary", "--draws", "4", "--sizes", "400", "--out", tmp_path / "binary.md")
    text = (tmp_path / "binary.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| made up")]
    losses = {row[0]: dict(zip(study.METHODS, map(float, row[3:-1]), strict=True)) for row in rows}
    assert losses["made up, rare"]["platt"] < losses["made up, rare"]["ts"] - 0.05
    assert abs(losses["made up"]["platt"] - losses["made up"]["ts"]) < 0.02


def test_peers_are_compared_where_they_are_installed(study, run_study, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    s = 2 * rng.normal(size=500)
    rows = study.Scores("made up", s, (s + rng.logistic(size=500) > 0).astype(int))
    monkeypatch.setattr(study, "chosen", lambda: iter([rows]))
    monkeypatch.setattr(study, "PAIRS", {name: each for name, each in study.PAIRS.items() if each[1] == "sklearn"})
    run_study("binary", "--peers")
    lines = [line for line in capsys.readouterr().out.splitlines() if "made up" in line]
    assert len(lines) == 4
    assert all(float(line.split("|")[3]) < 1e-6 for line in lines)
    fitted = nishimori.Platt().fit(rows.scores, rows.labels)
    assert np.abs(study.sigmoid(rows.scores, rows.labels) - fitted.predict_proba(rows.scores)[:, 1]).max() < 1e-6
