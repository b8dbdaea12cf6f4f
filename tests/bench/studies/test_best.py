"""The benchmark of "best" runs at a small size, and its lookups, rules and tests are what they are said to be."""

import importlib
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import ttest_1samp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

from nishimori import CalibratedClassifier

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture
def bench():
    """Modules of bench/ by name."""
    return importlib.import_module


@pytest.fixture
def held_out():
    """Log-probabilities of true classes by a good, a slightly better and a bad candidate."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.9, 400)
    better = np.clip(p + 0.04 + rng.normal(scale=0.1, size=400), 0.05, 0.99)
    return np.log(np.stack([p, better, p / 2], axis=1))


def test_the_quick_study_writes_its_page_and_reads_the_cache_again(bench, monkeypatch, tmp_path):
    study = bench("best")
    line = ["best.py", "--quick", "--cache", str(tmp_path / "cache"), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", line)
    study.main()
    page = (tmp_path / "best.md").read_text(encoding="utf-8")
    by_folds = "## Against scikit-learn's six, chosen by the same folds"
    for title in ("## Rules on the half on which rules are chosen", "## Networks", "## Few samples of a rare class", by_folds):
        assert page.count(f"{title}\n") == 1
    assert "1 split per cell, 4 of 88 cells" in page
    assert "| wine / neighbours |" in page
    monkeypatch.setattr(sys, "argv", [*line, "--tables-only"])
    study.main()
    assert (tmp_path / "best.md").read_text(encoding="utf-8") == page


def test_the_page_about_choosing_a_method_has_the_numbers_of_the_benchmark():
    results = (BENCH / "results" / "best.md").read_text(encoding="utf-8").partition("chosen by the same folds\n")[2]
    page = (BENCH.parent / "docs" / "which_calibrator.md").read_text(encoding="utf-8").partition("## How good it is")[2]
    against_the_six = _numbers(next(line for line in results.splitlines() if "±" in line and line[0] == "|"))
    # All cells: log-loss, and after columns of halves, of data sets, of the largest change and of counts, Brier score.
    for what, (mean, error) in (("log-loss", against_the_six[4:6]), ("Brier score", against_the_six[15:17])):
        assert mean < 0
        assert f"Its {what} is {-mean:.1f} ± {error:.1f} % lower" in page


def _numbers(row):
    return [float(each) for each in re.findall(r"[+-]?\d+\.?\d*", row.replace("−", "-").partition(" | ")[2])]


@pytest.mark.parametrize(("data", "model"), [("breast cancer", "logistic"), ("iris", "neighbours")])
def test_a_lookup_gives_what_the_classifier_itself_gives(bench, tmp_path, data, model):
    cells = bench("best_cells")
    cell = cells.Cell(data, model)
    scores = cells.load_scores(cell, 3, tmp_path)
    features, _ = cells.rows_of(data)
    train, test = features[scores.train[:, 0]], features[scores.test[:, 0]]
    for ensemble in (True, False):
        pair = [
            CalibratedClassifierCV(estimator, cv=scores.folds, ensemble=ensemble).fit(x, scores.train_labels).predict_proba(new)
            for estimator, x, new in (
                (scores.estimator(), scores.train, scores.test),
                (cells.MODELS[model](3), train, test),
            )
        ]
        np.testing.assert_allclose(*pair, atol=1e-12)


def test_the_six_are_chosen_by_their_cross_validated_loss_on_the_training_rows(bench, tmp_path):
    cells, contestants, results = bench("best_cells"), bench("best_contestants"), bench("best_rules")
    cell = cells.Cell("breast cancer", "naive bayes")
    found = results.collect([cell], 1, tmp_path, fit=True, nested=True)
    scores, (features, _) = cells.load_scores(cell, 0, tmp_path), cells.rows_of(cell.data)
    held_out = contestants.load_measures(cell, 0, tmp_path, "nested").held_out[0]
    losses = {}
    for name, (method, ensemble) in contestants.PEERS.items():
        variant = CalibratedClassifierCV(cells.MODELS[cell.model](0), method=method, ensemble=ensemble, cv=5)
        p = cross_val_predict(variant, features[scores.train[:, 0]], scores.train_labels, cv=5, method="predict_proba")
        losses[name] = log_loss(scores.train_labels, p)
    assert -held_out.mean(axis=0) == pytest.approx(list(losses.values()), rel=1e-5)
    chosen = min(losses, key=losses.get)
    assert list(found.peer_wins) == [chosen]
    np.testing.assert_array_equal(found.numbers[results.BY_FOLDS][cell], found.numbers[chosen][cell])
    others = [name for name in losses if name != chosen]
    assert all(found.mean(name, cell) != found.mean(chosen, cell) for name in others)


def test_a_cell_is_on_one_half_and_both_halves_have_two_classes_and_more(bench):
    cells = bench("best_cells")
    for half in (cells.CHOOSING, set(cells.CELLS) - cells.CHOOSING):
        assert {cell.n_classes == 2 for cell in half} == {True, False}
        assert abs(len(half) - len(cells.CELLS) / 2) <= 1
    assert len(set(cells.CELLS)) == len(cells.CELLS) >= 60
    assert {cell.model for cell in cells.CELLS} == set(cells.MODELS)
    assert {cell.data for cell in cells.CELLS} == {*cells.BUNDLED, *cells.GENERATED}


def test_the_floor_that_is_chosen_once_is_that_of_each_classifier(bench, tmp_path):
    cells, contestants = bench("best_cells"), bench("best_contestants")
    scores = cells.load_scores(cells.Cell("iris", "neighbours"), 0, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zeros
        floor = contestants.Pooled.of(scores).floor
        fitted = CalibratedClassifier(scores.estimator(), "ts", cv=scores.folds, ensemble=False, floor="auto")
        fitted.fit(scores.train, scores.train_labels)
    assert floor == fitted.calibrator_.floor_ > 1e-10


def test_metrics_are_those_of_their_formulas(bench):
    p = np.array([[0.5, 0.3, 0.2], [0.0, 0.9, 0.1], [0.25, 0.0, 0.75]])
    nll, brier, _, accuracy, zeros = bench("best_contestants").metrics_of(p, np.array([0, 0, 2]))
    assert nll == pytest.approx((np.log(2) - np.log(np.finfo(float).eps) + np.log(4 / 3)) / 3)
    assert brier == pytest.approx((0.25 + 0.09 + 0.04 + 1 + 0.81 + 0.01 + 2 * 0.0625) / 3)
    assert accuracy == pytest.approx(2 / 3)
    assert zeros == 1


def test_rules_choose_the_best_and_the_simplest_that_is_as_good(bench, held_out):
    rules = bench("best_rules")
    names = ["ts", "vector", "matrix"]
    differences = held_out[:, 1] - held_out[:, 0]
    t = differences.mean() / (differences.std(ddof=1) / 20)
    assert 0 < t < 20
    assert rules.argmin(held_out, names).tolist() == [0, 1, 0]
    assert rules.simplest_within(t * 1.01)(held_out, names).tolist() == [1, 0, 0]
    assert rules.simplest_within(t * 0.99)(held_out, names).tolist() == [0, 1, 0]


def test_stacking_minimises_the_loss_of_the_mixture(bench, held_out):
    rules = bench("best_rules")
    found = rules.stacking(steps=20_000)(held_out, ["ts", "vector", "matrix"])

    def loss(logits):
        weights = np.exp(logits) / np.exp(logits).sum()
        return -np.log(np.exp(held_out) @ weights).mean()

    least = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"maxiter": 5000, "fatol": 1e-12}).fun
    assert rules.mixture_loss(held_out, found) == pytest.approx(least, abs=1e-5)
    assert rules.mixture_loss(held_out, np.array([0.0, 1.0, 0.0])) == pytest.approx(-held_out[:, 1].mean())


def test_candidates_are_those_that_work_for_the_classes(bench):
    rules, contestants = bench("best_rules"), bench("best_contestants")
    two = contestants.CANDIDATES
    more = [name for name in two if contestants.suits(name, 3)]
    assert rules.members("small", two, 100) == ["adaptive", "platt", "vector", "matrix"]
    assert rules.members("small", more, 100) == ["adaptive", "bias", "vector", "matrix"]
    with_few, with_more = (rules.members("isotonic from 1,000 rows", two, n) for n in (999, 1000))
    assert set(with_more) - set(with_few) == {"isotonic"}


def test_non_inferiority_is_a_one_sided_t_test_corrected_by_holm(bench):
    results = bench("best_rules")
    ratios = np.array([0.01, -0.03, 0.0, 0.02, -0.05, 0.01])
    found = results.non_inferiority(ratios, ["a", "a", "b", "b", "c", "c"], 0.02)
    assert found.p == pytest.approx(ttest_1samp(ratios, 0.02, alternative="less").pvalue)
    assert found.by_data == pytest.approx(ttest_1samp([-0.01, 0.01, -0.02], 0.02, alternative="less").pvalue)
    assert found.largest == 0.02
    assert results.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
