"""The benchmark of calibrators runs at a small size, and its tables are those of the values that it measured."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import nishimori
import reference

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    """Modules of bench/ by name."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def cells(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]


def test_the_quick_study_writes_a_line_per_method_and_finds_what_one_temperature_leaves(bench, monkeypatch, tmp_path, capsys):
    study = bench("calibrators")
    monkeypatch.delenv("NISHIMORI_DATA", raising=False)
    monkeypatch.setattr(study, "interpreter", lambda given: given)
    monkeypatch.setattr(sys, "argv", ["calibrators.py", "--quick", "--out", str(tmp_path), "--images", str(tmp_path)])
    study.main()
    rows = study.read(study.Row, tmp_path / "calibrators.csv")
    few = [name for name in study.METHODS if "keeps" not in name]
    assert [row.method for row in rows] == [*study.METHODS, *few]
    found = {row.method: row for row in rows if row.data == "cifar10/resnet20" and row.size == "all"}
    assert found["group"].class_gap < 0.5 * found["ec"].class_gap
    assert found["matrix"].nll < found["bias"].nll < found["ts"].nll
    assert found["bias"].nll_from_ec == pytest.approx(found["bias"].nll - found["ec"].nll, abs=1e-8)
    assert found["bias"].nll_from_ts == pytest.approx(found["bias"].nll - found["ts"].nll, abs=1e-8)
    assert all(row.error == found["none"].error for name, row in found.items() if "keeps" in name)
    assert "--peers PYTHON" in capsys.readouterr().out
    table = cells(tmp_path / "calibrators.md")
    assert sum(row[0] == "matrix" for row in table) == 3  # means, wins, sizes
    for name in ("calibrators.png", "which-calibrator.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert not (tmp_path / "calibrators_peers.csv").exists()


def test_tables_can_be_written_again_from_the_numbers_of_the_last_run(bench, tmp_path):
    rows = bench("calibrators_rows")
    row = bench("calibrators_peers").PeerRow("a", "VS", "vector", False, 1 / 3, *(8 * [0.5]))
    with rows.Table(type(row), tmp_path / "rows.csv") as table:
        table.write(row)
    (found,) = rows.read(type(row), tmp_path / "rows.csv")
    assert found.their_train == pytest.approx(1 / 3, rel=1e-8)
    assert (found.data, found.same_loss, found.our_seconds) == ("a", False, 0.5)
    assert rows.read(type(row), tmp_path / "missing.csv") == []


def test_the_class_gap_is_the_mean_over_predicted_classes(bench):
    logits, labels = reference.drawn(400, 5)
    logits[:, 4] -= 100  # never predicted
    p = reference.softmax(logits)
    top, gaps, chance = p.argmax(axis=1), [], []
    for k in range(4):
        confidence = p[top == k, k]
        gaps.append(abs(confidence.mean() - (labels[top == k] == k).mean()))
        error = np.sqrt(sum(c * (1 - c) for c in confidence)) / len(confidence)
        chance.append(np.mean(np.abs(np.random.default_rng(k).normal(scale=error, size=200_000))))
    found = bench("calibrators").class_gap(p, labels)
    assert found[0] == pytest.approx(np.mean(gaps), rel=1e-12)
    assert found[1] == pytest.approx(np.mean(chance), rel=0.01)


def test_the_error_of_a_difference_is_that_of_the_mean_over_rows(bench):
    first, second = np.log([[0.5, 0.5], [0.25, 0.75]]), np.log([[0.25, 0.75], [0.5, 0.5]])
    found = bench("calibrators").paired_nll(first, second, np.array([0, 0]))
    assert found == pytest.approx((0.0, np.log(2) / np.sqrt(2)))


def test_a_win_rate_counts_ties_as_halves(bench):
    values = np.array([[1.0, 1.0, 3.0], [2.0, 1.0, 2.0], [3.0, 4.0, 1.0]])
    rates, low, high = bench("calibrators_tables").win_rates(values)
    np.testing.assert_allclose(rates, [(1 + 0.75 + 0) / 3, (0.5 + 0.75 + 0.5) / 3, (0 + 0 + 1) / 3])
    assert (low < rates).all()
    assert (rates < high).all()


def test_the_interval_of_a_share_is_that_of_wilson(bench):
    expected = binomtest(17, 19).proportion_ci(method="wilson")
    assert bench("calibrators_tables").wilson(17, 19) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_a_file_is_divided_into_halves_that_share_no_row_and_differ_by_seed(bench, tmp_path):
    splits = bench("calibrators_splits")
    np.savez(tmp_path / "some__network.npz", logits=np.arange(40.0).reshape(20, 2), labels=np.zeros(20, int))
    found = [each for each in splits.splits(tmp_path, sizes=(4,), seeds=2, quick=True) if each.origin == "file"]
    assert {each.name for each in found} == {"some/network"}
    assert [(each.seed, each.size) for each in found] == [(0, "all"), (0, "4"), (1, "all")]
    first, few, second = (set(each.validation.logits[:, 0]) for each in found)
    assert first | set(found[0].test.logits[:, 0]) == set(range(0, 40, 2))
    assert first.isdisjoint(found[0].test.logits[:, 0])
    assert len(first) == 10
    assert few < first
    assert len(few) == 4
    assert first != second


def test_the_pair_of_cal_arena_stays_as_it_is(bench, tmp_path):
    splits = bench("calibrators_splits")
    for shift, name in enumerate(splits.PAIR):
        np.savez(tmp_path / f"{name}.npz", logits=np.full((6, 2), float(shift)), labels=np.zeros(6, int))
    (found,) = (each for each in splits.splits(tmp_path, sizes=(), seeds=3, quick=True) if each.origin == "file")
    assert found.name == splits.CAL_ARENA
    assert (found.validation.logits == 0).all()
    assert (found.test.logits == 1).all()


def test_ours_minus_theirs_is_paired(bench, monkeypatch):
    peers, splits = bench("calibrators_peers"), bench("calibrators_splits")
    logits, labels = reference.drawn(300, 3)
    logits = logits + np.array([1.5, 0, 0])
    rows = splits.Rows(logits, labels)
    uniform = np.full(logits.shape, -np.log(3))
    theirs = {"SVS|validation": uniform, "SVS|test": uniform, "SVS|seconds": np.array(2.0)}
    monkeypatch.setattr(peers, "fitted_by", lambda python, split: theirs)
    (found,) = peers.agreement("python", splits.Split("drawn", "file", 0, "all", rows, rows))
    assert found.their_train == pytest.approx(np.log(3))
    assert found.their_seconds == 2
    assert found.difference == pytest.approx(found.our_test - np.log(3))
    log = np.log(nishimori.VectorScaling().fit(logits, labels).predict_proba(logits))
    assert found.difference_se == pytest.approx(np.std(log[range(300), labels]) / np.sqrt(300), rel=1e-6)
    assert found.largest == pytest.approx(np.abs(np.exp(log) - 1 / 3).max(), rel=1e-6)
    assert f"{found.our_test:.6f}" in peers.section([found])
