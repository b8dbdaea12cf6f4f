"""The study behind the method "adaptive" runs, its fast fits are those of the library, and so are its scores."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference

import nishimori

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def draws(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return pytest.importorskip("adaptive_draws")


def test_fits_of_many_validation_sets_are_those_of_the_library(draws):
    logits, labels = reference.drawn(900, 6)
    chosen = np.random.default_rng(0).integers(900, size=(4, 300))
    found = draws.Pool(logits).fits(chosen, labels[chosen])
    for rows, logs, C in zip(chosen, found.logs, found.covariance, strict=True):
        fitted = nishimori.AdaptiveConsistency().fit(logits[rows], labels[rows])
        assert np.exp(logs) == pytest.approx([fitted.ec_, fitted.ts_], rel=1e-5)
        kept = fitted.estimates()
        assert C[[0, 1, 0], [0, 1, 1]] == pytest.approx(
            [kept["ec_variance"], kept["ts_variance"], kept["covariance"]], rel=0.01
        )


def test_scores_are_those_of_the_metrics(draws):
    logits, labels = reference.drawn(900, 6)
    scores = draws.Scores.of(logits, labels[None])
    for i in (100, 160):
        T = float(np.exp(draws.SCORED[i]))
        assert scores.ece[i] == pytest.approx(100 * nishimori.metrics.ece(logits, labels, strategy="quantile", temperature=T))
        assert scores.nll[i] == pytest.approx(reference.nll(logits, labels, T))


def test_the_quick_study_writes_tables_and_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    line = [sys.executable, str(BENCH / "adaptive.py"), "--quick", "--out", str(tmp_path), "--images", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | {"MPLBACKEND": "Agg"})
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "adaptive.json",
        "adaptive.md",
        "adaptive-ece.png",
        "adaptive-interval.png",
    }
    assert "| adaptive - EC |" in (tmp_path / "adaptive.md").read_text(encoding="utf-8")


def test_the_quick_study_of_new_networks_writes_tables(tmp_path):
    pytest.importorskip("torch")
    line = [sys.executable, str(BENCH / "adaptive_new_networks.py"), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "adaptive_new_networks.md").read_text(encoding="utf-8")
    assert "| teacher, 10 classes | 10 | 5000 |" in written
    assert "| t²/(t² + 1) |" in written
