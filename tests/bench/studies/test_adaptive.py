"""The study behind the method "adaptive" runs, its fast fits are those of the library, and so are its scores."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference

import nishimori

BENCH = Path(__file__).parents[3] / "bench"
STUDIES = BENCH / "studies"


@pytest.fixture
def draws():
    import many_fits

    return many_fits


def test_fits_of_many_validation_sets_are_those_of_the_library(draws):
    logits, labels = reference.drawn(900, 6)
    chosen = np.random.default_rng(0).integers(900, size=(4, 300))
    found = draws.Pool(logits).fits(chosen, labels[chosen])
    for rows, logs, C in zip(chosen, found.logs, found.covariance, strict=True):
        fitted = nishimori.AdaptiveConsistency().fit(logits[rows], labels[rows])
        assert np.exp(logs) == pytest.approx([fitted.ec_, fitted.ts_], rel=1e-5)
        kept = fitted._estimates_
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
    line = [
        sys.executable,
        str(STUDIES / "adaptive.py"),
        "--quick",
        "--out",
        str(tmp_path),
        "--images",
        str(tmp_path),
    ]
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
    line = [sys.executable, str(STUDIES / "adaptive_new_networks.py"), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "adaptive_new_networks.md").read_text(encoding="utf-8")
    assert "| teacher, 10 classes | 10 | 5000 |" in written
    assert "| t²/(t² + 1) |" in written


def test_regrets_on_clean_test_labels_are_those_against_the_better_one_of_ec_and_ts():
    import adaptive

    def cells(ec, ts, adaptive):
        return {"50": {"ec": [ec], "ts": [ts], "adaptive": [adaptive], "none": [9.0]}}

    kinds = {"clean": cells(1.0, 1.0, 1.0), "half, clean test": cells(1.0, 1.0, 1.0)}
    networks = {
        "a": kinds | {"noisy, clean test": cells(1.0, 4.0, 2.0)},  # 1 behind EC
        "b": kinds | {"noisy, clean test": cells(4.0, 3.0, 3.5)},  # 0.5 behind TS
    }
    found = adaptive.clean_test_table(adaptive.Numbers({"sizes": [50], "networks": networks}))
    rows = table_of(found, "")
    assert rows["adaptive, Table 2's noise in the validation labels"] == ["2.75, +0.25 (1.00)"]  # 2.5 and 3.5 on average
    assert rows["TS, Table 2's noise in the validation labels"] == ["3.50, +1.00 (3.00)"]
    assert rows["no calibration, clean labels"] == ["9.00, +8.00 (8.00)"]


# The page.

METHODS = ("EC", "TS", "adaptive")


def table_of(text, heading):
    """The rows of the first table after a heading or a sentence, by the first cell."""
    lines = [line.strip() for line in text.partition(heading)[2].splitlines()] if heading else text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    cells = [[cell.strip().replace("−", "-") for cell in line.strip("|").split("|")] for line in rows]
    return {row[0]: row[1:] for row in cells}


@pytest.fixture(scope="module")
def page():
    return (BENCH.parent / "docs" / "adaptive.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results():
    return (BENCH / "results" / "adaptive.md").read_text(encoding="utf-8")


def test_the_page_has_the_errors_of_the_study(page, results):
    shown, clean_test = table_of(page, "EC / TS / adaptive:"), table_of(results, "## Clean test labels")
    noisy = table_of(results, "## Test ECE, Table 2's label noise")
    sizes = shown.pop("validation samples")
    shown.pop("---")
    places = [noisy["n"].index(size) for size in sizes]
    expected = {"random labels in both sets": [[noisy[name][k].split(" ± ")[0] for name in METHODS] for k in places]}
    titles = {
        "clean labels": "clean labels",
        "random labels in the validation set only": "Table 2's noise in the validation labels",
    }
    for row, title in titles.items():
        found = [clean_test[f"{name}, {title}"] for name in METHODS]
        expected[row] = [[cells[k].split(",")[0] for cells in found] for k in places]
    assert {row: [cell.split(" / ") for cell in cells] for row, cells in shown.items()} == expected


def test_the_page_has_the_lag_behind_ts_at_100_clean_samples(page, results):
    text = " ".join(page.split())
    rows = table_of(results, "## Test ECE, clean labels")
    column = rows["n"].index("100")
    found = {name: rows[f"adaptive - {name.upper()}"][column].lstrip("+-") for name in ("ec", "ts")}
    assert "is {ts} points of ECE behind TS and {ec} ahead of EC. On the 38 networks".format(**found) in text
    stored = json.loads((BENCH.parent / "paper" / "population_results.json").read_text(encoding="utf-8"))
    shown = {}
    for name in ("ec", "ts"):
        few = [
            {key: each["values"][f"ece {key}, few"]["mean"] for key in ("adaptive", name)} for each in stored["kinds"].values()
        ]
        change = [each["adaptive"] - each[name] for each in few]
        shown[name] = f"{abs(np.mean(change)):.2f} ± {np.std(change, ddof=1) / np.sqrt(len(change)):.2f}"
        assert np.sign(np.mean(change)) == (1 if name == "ts" else -1)
    assert f"it is {shown['ts']} behind TS and {shown['ec']} ahead of EC (mean over {len(stored['kinds'])} kinds)" in text


def test_the_squared_errors_of_the_share_are_those_of_normal_errors(page):
    d = np.linspace(-12, 12, 240_001)
    weights = np.exp(-(d**2) / 2) / np.exp(-(d**2) / 2).sum()

    def risk(delta):
        t = delta + d
        return float(weights @ (t**2 / (t**2 + 1) * t - delta) ** 2)

    largest = max(map(risk, np.linspace(0, 8, 161)))
    assert f"is {risk(0):.2f} at δ₀ = 0, where TS has 0, and at most {largest:.2f} elsewhere" in " ".join(page.split())
