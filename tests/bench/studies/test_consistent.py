"""The studies of methods that are finished by EC run at a small size, and find what they are about."""

import numpy as np
import pytest


@pytest.fixture
def study():
    import consistent

    return consistent


def test_the_trade_off_is_found_where_the_strength_of_logits_varies(study, monkeypatch):
    monkeypatch.setattr(study, "N_TEST", 4000)
    cells = study.generated("vector", "two strengths of the logits", 1000, draws=3).split("|")
    before, after = float(cells[7]), float(cells[8])
    assert after < 0.8 * before
    assert float(cells[9].split("±")[0]) > 0  # the price


def test_tables_are_written(study, run_study, monkeypatch, tmp_path):
    monkeypatch.setattr(study, "N_TEST", 500)
    monkeypatch.setattr(study, "networks", lambda method, names, n: f"| {method} | {n} |")
    run_study("consistent", "--quick", "--out", tmp_path / "found.md")
    assert "| vector | 5000 |" in (tmp_path / "found.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning")
def test_what_a_map_needs_is_one_for_the_truth_and_errors_are_measured(study, monkeypatch):
    monkeypatch.setattr(study, "N_LARGE", 4000)
    monkeypatch.setattr(study, "N_EXACT", 4000)
    population = study.Population("vector", 4)
    logits, _ = population.draw(np.random.default_rng(0), 2000)
    truth = study.nishimori.maps.Affine(population.factors, population.biases)
    centred = logits - logits.mean(axis=1, keepdims=True)
    exact = study.softmax(population.factors * centred + population.biases, axis=1)
    assert study.needed(truth, logits, exact) == pytest.approx(0, abs=1e-5)
    (line,) = study.cell("vector", "mixed", 3, 300, (5,), 3)
    assert line.count("|") == study.HEADER.splitlines()[0].count("|")
