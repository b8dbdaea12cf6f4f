"""The shell says first that data are those of the fit, and --fail-on-warning ends with code 3."""

import json

import numpy as np
import pytest
import reference
import shell

pytestmark = pytest.mark.filterwarnings("error")

FITTED = "The calibration was fitted to the rows that are measured here"
EQUAL = "The test data are the same rows as the validation data"


@pytest.fixture
def place(tmp_path):
    for name, seed in (("val", 0), ("test", 1)):
        logits, labels = reference.drawn(600, 3, seed=seed)
        np.savez(tmp_path / f"{name}.npz", logits=logits, labels=labels)
    logits, labels = reference.drawn(600, 3, seed=0)
    lines = [",".join([*map(repr, row), str(label)]) for row, label in zip(logits.tolist(), labels.tolist(), strict=True)]
    (tmp_path / "val.csv").write_text("\n".join(["z_0,z_1,z_2,labels", *lines]) + "\n")
    assert shell.nishimori("fit val.npz -o c.json", place=tmp_path).code == 0
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("eval {} --calibration c.json", FITTED),
        ("gate {} --calibration c.json --bound gap=0.2", FITTED),
        ("compare val.npz {} --methods none,ec", EQUAL),
        ("report val.npz {} -o r.json --force", EQUAL),
    ],
)
def test_the_rows_of_the_fit_are_the_first_warning_and_other_rows_are_none(line, message, place):
    for file in ("val.npz", "val.csv"):
        said = shell.nishimori(f"{line.format(file)} --json --fail-on-warning", place=place)
        assert said.code == 3, said.err
        assert json.loads(said.out)["warnings"][0].startswith(message)
    other = shell.nishimori(f"{line.format('test.npz')} --json --fail-on-warning", place=place)
    assert other.code == 0, other.err
    assert json.loads(other.out)["warnings"] == []


def test_diff_says_first_that_both_files_are_about_the_same_rows(place):
    for name, file in (("a", "val.npz"), ("b", "val.csv"), ("other", "test.npz")):
        (place / f"{name}.json").write_text(shell.nishimori(f"eval {file} --json", place=place).out)
    same = shell.nishimori("diff a.json b.json --json --fail-on-warning", place=place)
    assert same.code == 3
    assert "about the same rows" in json.loads(same.out)["warnings"][0]
    assert shell.nishimori("diff a.json other.json --fail-on-warning", place=place).code == 0


def test_two_calibrations_of_the_same_rows_are_no_independent_samples(place):
    assert shell.nishimori("fit val.csv -o again.json", place=place).code == 0
    assert shell.nishimori("fit test.npz -o other.json", place=place).code == 0
    assert shell.nishimori("diff c.json again.json --fail-on-warning", place=place).code == 3
    assert shell.nishimori("diff c.json other.json --fail-on-warning", place=place).code == 0


@pytest.fixture
def sketched(place):
    """Sketches of two files, a copy and a sum of these, and a fit to the first."""
    for name in ("val", "test"):
        assert shell.nishimori(f"sketch {name}.npz -o s_{name}.npz", place=place).code == 0
    assert shell.nishimori("merge s_val.npz -o copy.npz", place=place).code == 0
    assert shell.nishimori("merge s_val.npz s_test.npz -o both.npz", place=place).code == 0
    assert shell.nishimori("fit s_val.npz -o c.json --force", place=place).code == 0
    return place


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("eval {} --calibration c.json", FITTED),
        ("gate {} --calibration c.json --bound gap=0.2", FITTED),
        ("compare s_val.npz {} --methods none,ec", EQUAL),
        ("report s_val.npz {} -o r.json --force", EQUAL),
        ("diff s_val.npz {}", "`old` and `new` are about the same rows"),
    ],
)
def test_the_same_sketch_is_the_first_warning_and_another_one_is_none(line, message, sketched):
    for file in ("s_val.npz", "copy.npz"):
        said = shell.nishimori(f"{line.format(file)} --json --fail-on-warning", place=sketched)
        assert said.code == 3, said.err
        assert json.loads(said.out)["warnings"][0].startswith(message)
    for file in ("s_test.npz", "both.npz"):
        other = json.loads(shell.nishimori(f"{line.format(file)} --json", place=sketched).out)
        assert not any(each.startswith(message) for each in other["warnings"])


def test_the_evaluation_of_a_sketch_says_which_rows_it_is_about(sketched):
    for name, file in (("a", "s_val.npz"), ("b", "copy.npz"), ("other", "s_test.npz")):
        (sketched / f"{name}.json").write_text(shell.nishimori(f"eval {file} --json", place=sketched).out)
    assert shell.nishimori("diff a.json b.json --fail-on-warning", place=sketched).code == 3
    assert shell.nishimori("diff a.json s_val.npz --fail-on-warning", place=sketched).code == 3
    assert shell.nishimori("diff a.json other.json --fail-on-warning", place=sketched).code == 0
