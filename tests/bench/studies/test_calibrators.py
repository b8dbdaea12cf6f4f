"""The benchmark of calibrators runs at a small size, and its tables are those of the values that it measured."""

import importlib
import sys

import numpy as np
import pytest
import reference
from scipy.stats import binomtest

import nishimori


@pytest.fixture
def bench():
    """Modules of bench/ by name."""
    pytest.importorskip("matplotlib")
    return importlib.import_module


def for_two_classes(methods):
    return {label for label, (name, _) in methods.items() if nishimori.calibrator(name).traits.n_classes == "two"}


def cells(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]


def test_the_quick_study_writes_a_line_per_method_and_finds_what_one_temperature_leaves(bench, monkeypatch, tmp_path, capsys):
    study = bench("calibrators")
    monkeypatch.delenv("NISHIMORI_DATA", raising=False)
    monkeypatch.setattr(study, "interpreter", lambda given: given)
    chosen = ["none", "ts", "ec", "adaptive", "group", "bias", "vector", "matrix", "platt", "bias, keeps", "matrix, keeps"]
    folders = ["--out", str(tmp_path), "--images", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["calibrators.py", "--quick", *folders, "--methods", *chosen])
    study.main()
    rows = study.read_rows(study.Row, tmp_path / "calibrators.csv")
    assert set(nishimori.methods()) <= set(study.METHODS)
    ten, two = ([row.method for row in rows if row.size == "all" and row.n_classes == k] for k in (10, 2))
    assert two == chosen
    assert ten == [label for label in chosen if label not in for_two_classes(study.METHODS)]
    found = {row.method: row for row in rows if row.data == "cifar10/resnet20" and row.size == "all"}
    assert found["group"].class_gap < 0.5 * found["ec"].class_gap
    assert found["matrix"].nll < found["bias"].nll < found["ts"].nll
    assert found["bias"].nll_from_ec == pytest.approx(found["bias"].nll - found["ec"].nll, abs=1e-8)
    assert found["bias"].nll_from_ts == pytest.approx(found["bias"].nll - found["ts"].nll, abs=1e-8)
    assert all(row.error == found["none"].error for name, row in found.items() if "keeps" in name)
    assert "--peers PYTHON" in capsys.readouterr().out
    table = cells(tmp_path / "calibrators.md")
    assert sum(row[0] == "matrix" for row in table) == 6  # means, wins and sizes, with ten classes and with two
    assert (tmp_path / "calibrators.png").stat().st_size > 10_000
    assert not (tmp_path / "calibrators_peers.csv").exists()


def test_tables_can_be_written_again_from_the_numbers_of_the_last_run(bench, tmp_path):
    rows = bench("calibrators_data")
    row = bench("calibrator_peers").PeerRow("a", "VS", "vector", False, 1 / 3, *(8 * [0.5]))
    with rows.Table(type(row), tmp_path / "rows.csv") as table:
        table.write(row)
    (found,) = rows.read_rows(type(row), tmp_path / "rows.csv")
    assert found.their_train == pytest.approx(1 / 3, rel=1e-8)
    assert (found.data, found.same_loss, found.our_seconds) == ("a", False, 0.5)
    assert rows.read_rows(type(row), tmp_path / "missing.csv") == []


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


def test_two_classes_have_the_sums_of_the_probabilities_of_animals_and_of_machines(bench):
    splits = bench("calibrators_data")
    ten, two = (each for each in splits.splits(None, sizes=(), seeds=1, quick=True))
    p, q = reference.softmax(ten.test.logits), reference.softmax(two.test.logits)
    np.testing.assert_allclose(q[:, 1], p[:, [2, 3, 4, 5, 6, 7]].sum(axis=1), atol=1e-12)
    assert (two.validation.labels == ((ten.validation.labels > 1) & (ten.validation.labels < 8))).all()


def test_a_win_rate_counts_ties_as_halves(bench):
    values = np.array([[1.0, 1.0, 3.0], [2.0, 1.0, 2.0], [3.0, 4.0, 1.0]])
    rates, low, high = bench("calibrators_tables").win_rates(values)
    np.testing.assert_allclose(rates, [(1 + 0.75 + 0) / 3, (0.5 + 0.75 + 0.5) / 3, (0 + 0 + 1) / 3])
    assert (low < rates).all()
    assert (rates < high).all()


def test_a_method_that_could_not_be_fitted_loses_to_all(bench):
    rates, _, _ = bench("calibrators_tables").win_rates(np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]]))
    np.testing.assert_allclose(rates, [1 / 2, (1 / 2 + 1) / 2, (0 + 1 / 2) / 2])


def test_intervals_of_win_rates_draw_whole_blocks(bench):
    values = np.array([[1.0, 1.0, 1.0, 2.0], [2.0, 2.0, 2.0, 1.0]])  # the first wins everywhere in block a, nowhere in b
    _, low, high = bench("calibrators_tables").win_rates(values, blocks=["a", "a", "a", "b"])
    assert (low[0], high[0]) == (0, 1)  # one block is drawn twice in every other draw
    _, low, high = bench("calibrators_tables").win_rates(values, blocks=["a", "a", "a", "a"])
    assert (low[0], high[0]) == (0.75, 0.75)


def test_the_tabular_study_writes_a_line_per_method_that_suits_the_data(bench, monkeypatch, tmp_path):
    study, sets = bench("calibrators_tabular"), bench("calibrators_data")
    chosen = {"iris": ("naive bayes",), "breast cancer": ("logistic", "naive bayes")}

    def few(cache, *, repeats, data):
        return sets.tabular_sets(cache, repeats=repeats, data=data, models=chosen[data[0]])

    monkeypatch.setattr(study, "tabular_sets", few)
    arguments = ["--quick", "--cache", str(tmp_path / "cache"), "--out", str(tmp_path), "--images", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["calibrators_tabular.py", *arguments])
    study.main()
    rows = study.read_rows(study.Row, tmp_path / "calibrators_tabular.csv")
    binary = for_two_classes(bench("calibrators").METHODS)
    for data, names in {"iris": set(study.CONTESTANTS) - binary, "breast cancer": set(study.CONTESTANTS)}.items():
        assert {row.method for row in rows if row.data == data} == names
    assert {row.size for row in rows if row.data == "breast cancer"} == {"all", "50"}
    assert {row.size for row in rows if row.data == "iris"} == {"all"}
    (split, *_) = few(tmp_path / "cache", repeats=1, data=("breast cancer",))
    found = next(row for row in rows if (row.data, row.model, row.method) == ("breast cancer", "logistic", "none"))
    log = np.log(reference.softmax(split.test.logits))
    assert found.nll == pytest.approx(-log[range(len(log)), split.test.labels].mean(), rel=1e-8)
    (tmp_path / "calibrators_tabular.md").unlink()
    monkeypatch.setattr(sys, "argv", ["calibrators_tabular.py", *arguments, "--methods", "ec"])
    study.main()
    assert len(study.read_rows(study.Row, tmp_path / "calibrators_tabular.csv")) == len(rows)
    assert "| naive bayes |" in (tmp_path / "calibrators_tabular.md").read_text(encoding="utf-8")
    assert (tmp_path / "calibrators-tabular.png").stat().st_size > 10_000


def test_a_method_that_refuses_the_rows_leaves_the_scores_as_they_are(bench):
    study, splits = bench("calibrators_tabular"), bench("calibrators_data")
    logits, labels = reference.drawn(60, 3)
    right = splits.Rows(logits, logits.argmax(axis=1))
    split = splits.Split("made/here", "tabular", 0, "all", right, splits.Rows(logits, labels))
    none, ec = study.measured(split, ["none", "ec"])
    assert (none.fitted, ec.fitted) == (True, False)
    assert ec.nll == none.nll


def test_the_parts_of_a_data_set_share_no_row_and_scores_are_those_of_the_classifier(bench, tmp_path):
    from sklearn.datasets import load_iris
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    sets = bench("calibrators_data")
    (split,) = sets.tabular_sets(tmp_path, repeats=1, data=("iris",), models=("naive bayes",))
    (again,) = sets.tabular_sets(tmp_path, repeats=1, data=("iris",), models=("naive bayes",))
    assert (again.test.logits == split.test.logits).all()
    x, y = load_iris(return_X_y=True)
    train, rest, train_y, rest_y = train_test_split(x, y, train_size=60, stratify=y, random_state=0)
    cal, test, cal_y, test_y = train_test_split(rest, rest_y, train_size=45, stratify=rest_y, random_state=0)
    model = GaussianNB(var_smoothing=1e-3).fit(train, train_y)
    np.testing.assert_allclose(split.validation.logits, model.predict_log_proba(cal))
    np.testing.assert_allclose(split.test.logits, model.predict_log_proba(test))
    assert (split.validation.labels == cal_y).all()
    assert (split.test.labels == test_y).all()


def test_the_error_of_a_mean_over_divisions_counts_the_rows_that_they_share(bench):
    differences = np.array([1.0, 2.0, 4.0, 9.0])
    mean, error = bench("calibrators_tabular").mean_and_error(differences)
    assert mean == 4
    variance = sum((each - 4) ** 2 for each in differences) / 3
    assert error == pytest.approx(np.sqrt(variance * (1 / 4 + 30 / 70)))


def test_the_interval_of_a_share_is_that_of_wilson(bench):
    expected = binomtest(17, 19).proportion_ci(method="wilson")
    assert bench("calibrators_tables").wilson(17, 19) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_a_file_is_divided_into_halves_that_share_no_row_and_differ_by_seed(bench, tmp_path):
    splits = bench("calibrators_data")
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
    splits = bench("calibrators_data")
    for shift, name in enumerate(splits.PAIR):
        np.savez(tmp_path / f"{name}.npz", logits=np.full((6, 2), float(shift)), labels=np.zeros(6, int))
    (found,) = (each for each in splits.splits(tmp_path, sizes=(), seeds=3, quick=True) if each.origin == "file")
    assert found.name == splits.CAL_ARENA
    assert (found.validation.logits == 0).all()
    assert (found.test.logits == 1).all()


def test_ours_minus_theirs_is_paired(bench, monkeypatch):
    peers, splits = bench("calibrator_peers"), bench("calibrators_data")
    logits, labels = reference.drawn(300, 3)
    logits = logits + np.array([1.5, 0, 0])
    rows = splits.Rows(logits, labels)
    found = {"validation": np.full(logits.shape, 1 / 3), "test": np.full(logits.shape, 1 / 3), "seconds": np.array(2.0)}
    theirs = {f"probmetrics|SVS|{name}": value for name, value in found.items()}
    monkeypatch.setattr(peers, "fitted_by", lambda python, split, which: theirs)
    (found,) = peers.agreement("python", splits.Split("drawn", "file", 0, "all", rows, rows))
    assert found.their_train == pytest.approx(np.log(3))
    assert found.their_seconds == 2
    assert found.difference == pytest.approx(found.our_test - np.log(3))
    log = np.log(nishimori.VectorScaling().fit(logits, labels).predict_proba(logits))
    assert found.difference_se == pytest.approx(np.std(log[range(300), labels]) / np.sqrt(300), rel=1e-6)
    assert found.largest == pytest.approx(np.abs(np.exp(log) - 1 / 3).max(), rel=1e-6)
    assert f"{found.our_test:.6f}" in peers.section([found])


def test_agreement_is_the_largest_difference_of_a_probability_and_a_missing_package_says_so(bench, monkeypatch):
    peers = bench("calibrator_peers")
    split = peers.generated(4)
    ours = nishimori.TemperatureScaling().fit(split.validation.logits, split.validation.labels)
    theirs = {part: reference.softmax(getattr(split, part).logits / 3) for part in ("validation", "test")}
    found = {f"scikit-learn|temperature|{part}": p for part, p in theirs.items()}
    found["netcal|*|error"] = np.array("not installed (No module named 'netcal')")
    monkeypatch.setattr(peers, "fitted_by", lambda python, split: found)
    first, *others = peers.agreements("python", split)
    gaps = np.abs(reference.softmax(split.test.logits / ours.temperature_) - theirs["test"])
    assert first.largest == pytest.approx(gaps.max(), rel=1e-9)
    assert first.median == pytest.approx(np.median(gaps.max(axis=1)), rel=1e-9)
    log = np.log(theirs["validation"]) - np.log(reference.softmax(split.validation.logits / ours.temperature_))
    assert first.their_excess == pytest.approx(-log[range(len(log)), split.validation.labels].mean(), rel=1e-9)
    assert {each.pair.package for each in others} == {"netcal"}
    text = peers.report([first, *others], "Versions: none.")
    assert f"{gaps.max():.0e}" in text
    assert "not installed (No module named 'netcal')" in text


def test_scikit_learn_agrees_with_ours_where_both_minimise_the_same_loss(bench):
    fits, peers = bench("calibrator_peer_fits"), bench("calibrator_peers")
    for n_classes in (2, 4):
        split = peers.generated(n_classes)
        theirs = fits.sklearn_fits()["temperature"](split.validation.logits, split.validation.labels)(split.test.logits)
        ours = nishimori.TemperatureScaling().fit(split.validation.logits, split.validation.labels)
        np.testing.assert_allclose(ours.predict_proba(split.test.logits), theirs, atol=1e-7)
