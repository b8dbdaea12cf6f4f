"""The study of affine maps runs, and its numbers are those of the plain formulas."""

import numpy as np
import pytest
import reference


@pytest.fixture
def affine():
    import affine

    return affine


def test_the_quick_study_writes_its_tables(run_study, monkeypatch, tmp_path):
    monkeypatch.delenv("NISHIMORI_DATA", raising=False)  # further networks, which take long
    run_study("affine", "--quick", "--out", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"affine.jsonl", "affine.md"}
    text = (tmp_path / "affine.md").read_text(encoding="utf-8")
    assert "| 500 | matrix | 2 |" in text
    assert "CalArena" not in text


def test_differences_from_ts_are_paired(affine):
    logits, labels = reference.drawn(600, 4)
    subject = affine.Subject("drawn", logits[:300], labels[:300], logits[300:], labels[300:])
    found = affine.measured(subject, ["TS", "matrix, likelihood alone", "matrix, cross-validated"])
    one = reference.nll(logits[300:], labels[300:], reference.ts_temperature(logits[:300], labels[:300]))
    assert found["TS"]["nll"] == pytest.approx(one)
    assert found["TS"]["difference"] == 0
    for name in ("matrix, likelihood alone", "matrix, cross-validated"):
        assert found[name]["difference"] == pytest.approx(found[name]["nll"] - one)
        assert 0 < found[name]["se"] < 0.1


def test_the_gap_per_class_is_a_mean_over_predicted_classes(affine):
    p = np.array([[0.9, 0.1, 0.0], [0.7, 0.3, 0.0], [0.2, 0.8, 0.0]])
    # Predicted class 0: mean confidence 0.8, accuracy 1/2. Predicted class 1: 0.8 and 0. Class 2 is never predicted.
    assert affine.class_gap(p, np.array([0, 2, 0])) == pytest.approx((0.3 + 0.8) / 2)
