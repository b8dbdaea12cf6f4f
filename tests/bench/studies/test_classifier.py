"""The study of classifiers runs at a small size, and its tables say the same about the same fits."""

import numpy as np
import pytest


def test_the_study_of_classifiers_fills_its_tables(run_study, tmp_path):
    out = tmp_path / "classifier.md"
    words = ["--splits", "1", "--data", "iris", "--models", "neighbours", "tree"]
    module = run_study("classifier", *words, "--out", out)
    lines = [line for line in out.read_text(encoding="utf-8").splitlines() if line.startswith(("| iris", "| mean"))]
    ways, mean, floors = lines[:2], lines[2], lines[3:]
    pooled = [float(line.split("|")[3].split("(")[0]) for line in ways]
    assert all(0 < loss < 1.1 for loss in pooled)  # less than log 3, which is the loss of equal probabilities
    assert float(mean.split("|")[3].split("(")[0]) == pytest.approx(np.mean(pooled), abs=1e-3)
    for line, loss in zip(floors, pooled, strict=True):
        chosen, *fixed = (float(cell) for cell in line.split("|")[3:-1])
        assert chosen == loss
        assert len(fixed) == len(module.FLOORS) - 1
        assert 0 < chosen <= max(fixed)
