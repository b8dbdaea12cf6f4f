"""The study of how often intervals contain the true temperature, at a small size."""

import subprocess
import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).parents[2] / "bench" / "interval_coverage.py"


def table(*words):
    """The cells that the study prints, by method: coverage in percent, and the line."""
    command = [sys.executable, STUDY, "--classes", "2", "--sizes", "300", "--networks", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| drawn at T")]
    return {row[1]: float(row[5]) for row in rows}, done.stdout


def test_both_ways_find_that_intervals_contain_the_truth(tmp_path):
    picture = tmp_path / "coverage.png"
    found, text = table("--repetitions", "300", "--only", "drawn at T, K = 2", "--picture", str(picture))
    assert found.keys() == {"EC", "TS"}
    assert all(each == pytest.approx(95, abs=4) for each in found.values())  # three standard errors
    assert "a fit by the library gave the same T up to a relative" in text
    assert picture.stat().st_size > 10_000
    direct, text = table("--repetitions", "15", "--only", "drawn at T, K = 2", "--direct")
    assert all(each > 60 for each in direct.values())
    assert "bootstrap, %" in text
