"""The study of certified thresholds, briefly: its populations are what they are called, and its ways what they say."""

import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[3] / "bench" / "studies"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import thresholds

    yield thresholds
    sys.modules.pop("thresholds", None)


def test_the_cumulative_risk_touches_the_bound_twelve_times_and_exceeds_it_at_the_end(study):
    _, rates = study.touching(0.05)
    means = np.cumsum(rates) / np.arange(1, len(rates) + 1)
    assert ((rates >= 0) & (rates <= 1)).all()
    assert means[: -len(rates) // 25 - 1].max() == pytest.approx(0.05, abs=1e-9)
    touched = np.isclose(means, 0.05, atol=1e-9)
    assert (np.diff(touched.astype(int)) == 1).sum() == 12
    assert means[-1] > 0.05


def test_the_oracle_answers_all_that_it_may(study):
    assert study.oracle(study.flat(0.01), 0.05) > 0.4
    assert study.oracle((np.array([3.0, 2.0, 2.0, 1.0]), np.array([0.0, 0.0, 0.2, 1.0])), 0.05) == 0.25  # ties go together
    assert study.oracle((np.array([3.0, 2.0]), np.array([0.5, 0.0])), 0.25) == 1.0


def test_sequences_stop_where_they_say(study):
    p = np.array([0.04, 0.2, 0.009, 0.008, 0.5])
    assert study.single(p) == 1
    assert study.five(p) == 4
    assert study.five(np.full(5, 0.02)) == 0


def test_a_run_writes_its_tables(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "TRIED", {"calibrated": lambda: study.smooth(1.0)})
    monkeypatch.setattr(study, "NETWORKS", {"cifar10/resnet20": lambda: study.of_network("cifar10/resnet20")})
    out = tmp_path / "small.md"
    monkeypatch.setattr(
        sys, "argv", ["thresholds.py", "--draws", "10", "--boundary-draws", "20", "--sizes", "300", "--out", str(out)]
    )
    study.main()
    text = out.read_text()
    assert text.count("| calibrated |") == 3
    assert "| 19 networks | 5 % | 300 |" in text
    assert "touches it 12 times" in text
