"""The studies of intervals of metrics run, and know the truth."""

import numpy as np
import pytest
import reference

from nishimori import data


def test_the_study_of_coverage_writes_its_tables(tmp_path, run_study):
    out = tmp_path / "coverage.md"
    words = ("--repetitions", 2, "--pairs", 2, "--sizes", 80, "--networks", "cifar10/resnet20", "-o", out)
    run_study("metric_coverage", *words)
    rows = [line.split(" | ") for line in out.read_text().splitlines() if line.startswith("| cifar10/resnet20")]
    assert len(rows) == 4 * 6
    test = data.load("cifar10/resnet20").test
    claimed, right = reference.softmax(test.logits).max(axis=1), reference.right(test.logits, test.labels)
    truth = 100 * reference.ece(claimed, right, np.linspace(0, 1, 16))
    (found,) = (row[4] for row in rows[:6] if row[1:3] == ["T = 1", "uniform"])
    assert float(found) == pytest.approx(truth, abs=0.005)
    assert {row[4] for row in rows[:6] if row[1] == "labels redrawn"} == {"0.00"}


def test_the_picture_of_intervals_is_drawn(tmp_path, run_study):
    run_study("metric_coverage", "--repetitions", 1, "--picture", tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000
