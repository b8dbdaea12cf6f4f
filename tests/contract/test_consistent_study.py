"""The studies of methods that are finished by EC run at a small size, and find what they are about."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def module(name, monkeypatch):
    spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, found)
    spec.loader.exec_module(found)
    return found


def test_the_trade_off_is_found_where_the_strength_of_logits_varies(monkeypatch):
    study = module("consistent", monkeypatch)
    monkeypatch.setattr(study, "N_TEST", 4000)
    cells = study.generated("vector", "two strengths of the logits", 1000, draws=3).split("|")
    before, after = float(cells[7]), float(cells[8])
    assert after < 0.8 * before
    assert float(cells[9].split("±")[0]) > 0  # the price


def test_tables_are_written(monkeypatch, tmp_path):
    study = module("consistent", monkeypatch)
    monkeypatch.setattr(study, "N_TEST", 500)
    monkeypatch.setattr(study, "networks", lambda method, names, n: f"| {method} | {n} |")
    monkeypatch.setattr(sys, "argv", ["consistent", "--quick", "--out", str(tmp_path / "found.md")])
    study.main()
    assert "| vector | 5000 |" in (tmp_path / "found.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::nishimori.errors.FewErrorsWarning")
def test_what_a_map_needs_is_one_for_the_truth_and_errors_are_measured(monkeypatch):
    study = module("consistent_errors", monkeypatch)
    monkeypatch.setattr(study, "N_LARGE", 4000)
    monkeypatch.setattr(study, "N_TEST", 4000)
    population = study.Population("vector", 4)
    logits, _ = population.draw(np.random.default_rng(0), 2000)
    truth = study.nishimori.maps.Affine(population.factors, population.biases)
    centred = logits - logits.mean(axis=1, keepdims=True)
    exact = study.softmax(population.factors * centred + population.biases, axis=1)
    assert study.needed(truth, logits, exact) == pytest.approx(0, abs=1e-5)
    (line,) = study.cell("vector", "mixed", 3, 300, (5,), 3)
    assert line.count("|") == study.HEADER.splitlines()[0].count("|")
