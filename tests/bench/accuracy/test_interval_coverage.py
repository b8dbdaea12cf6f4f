"""The study of how often intervals contain the true temperature, at a small size."""

import warnings

import pytest


@pytest.fixture
def table(run_study, capsys):
    """A function for the cells that the study prints, by method: coverage in percent, and the text."""
    pytest.importorskip("matplotlib")

    def printed(*words):
        options = ["--classes", "2", "--sizes", "300", "--networks", *words]
        with warnings.catch_warnings():  # the study ignores them for the rest of its process
            run_study("interval_coverage", *options)
        text = capsys.readouterr().out
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| drawn at T")]
        return {row[1]: float(row[5]) for row in rows}, text

    return printed


def test_both_ways_find_that_intervals_contain_the_truth(table, tmp_path):
    picture = tmp_path / "coverage.png"
    found, text = table("--repetitions", "300", "--only", "drawn at T, K = 2", "--picture", str(picture))
    assert found.keys() == {"EC", "TS"}
    assert all(each == pytest.approx(95, abs=4) for each in found.values())  # three standard errors
    assert "a fit by the library gave the same T up to a relative" in text
    assert picture.stat().st_size > 10_000
    direct, text = table("--repetitions", "15", "--only", "drawn at T, K = 2", "--direct")
    assert all(each > 60 for each in direct.values())
    assert "bootstrap, %" in text
