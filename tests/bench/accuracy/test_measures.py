"""The study of the measures' bias runs at a small size, and its tables are those of the values that it measured."""

import numpy as np
import pytest


@pytest.fixture
def measures():
    import measures

    return measures


def test_the_study_writes_a_row_per_measure_and_a_picture(measures, run_study, tmp_path):
    text, picture = tmp_path / "measures.md", tmp_path / "measures.png"
    options = ["--draws", "2", "--sizes", "60", "120", "--truth", "500", "--out", str(text), "--picture", str(picture)]
    run_study("measures", *options)
    lines = text.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("## ") for line in lines) == 2
    for name in measures.MEASURES:
        assert sum(line.startswith((f"| {name} |", f"| {name} (truth ")) for line in lines) == 4
    assert picture.stat().st_size > 10_000


def test_a_table_has_the_mean_the_spread_and_the_distance_from_the_truth(measures):
    n = len(measures.MEASURES)
    zero, away = np.full((1, 2, n), 0.02), np.full((1, 2, n), 0.05)
    zero[0, :, 0], away[0, :, 0] = [0.01, 0.03], [0.07, 0.09]
    lines = measures.tables(measures.Study("model", zero, away, np.full(n, 0.04)), [100]).splitlines()
    first = next(iter(measures.MEASURES))
    assert f"| {first} | 2.00 ± 1.41 |" in lines
    assert f"| {first} (truth 4.00) | 4.00 ± 1.41 |" in lines


def test_labels_are_drawn_from_the_calibrated_distribution(measures):
    logits = np.log([[0.7, 0.2, 0.1]]) * 2
    _, labels = measures.Model("one row", logits, 2.0, 1.0).drawn(20_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(labels) / 20_000, [0.7, 0.2, 0.1], atol=4 * np.sqrt(0.21 / 20_000))
