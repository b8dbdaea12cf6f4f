"""What the shell refuses, beyond what the library refuses."""

import numpy as np
import pytest

import nishimori
import shell


def test_eval_refuses_classes_in_another_order_than_the_columns(tmp_path):
    place = tmp_path
    rows = "\n".join(f"{a},{b},{c},{label}" for (a, b, c), label in zip([[2, 0, 1], [0, 3, 1], [1, 0, 2]], "abb", strict=True))
    (place / "t.csv").write_text(f"a,b,c,labels\n{rows}\n")
    assert shell.nishimori("eval t.csv --classes a,b,c", place=place).code == 0
    ended = shell.nishimori("eval t.csv --classes c,b,a", place=place)
    assert (ended.code, "--classes must be in the order of the columns" in ended.err) == (1, True)


def test_apply_counts_rows_from_the_start_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("nishimori.cli._calibration._ROWS", 10)
    scores = np.random.default_rng(0).normal(size=(30, 3))
    scores[24, 1] = np.nan
    np.savez(tmp_path / "test.npz", logits=scores)
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    ended = shell.nishimori("apply c.json test.npz -o p.npz", place=tmp_path)
    assert ended.err.startswith("error: `scores` must not contain NaN or +inf, got nan in row 24, column 1.")
    assert not (tmp_path / "p.npz").exists()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((), "`scores` must have shape"),
        ((5,), "but the file has one score per row, which stands for 2. Pass scores of the same"),
    ],
)
def test_scores_of_another_shape_than_the_calibration_are_refused(shape, message, tmp_path):
    np.savez(tmp_path / "test.npz", logits=np.zeros(shape), labels=np.zeros(5, dtype=int))
    nishimori.from_temperature(2.0, classes=["a", "b", "c"]).save(tmp_path / "c.json")
    for words in ("apply c.json test.npz -o p.npz", "eval test.npz --calibration c.json"):
        ended = shell.nishimori(words, place=tmp_path)
        assert (ended.code, message in ended.err) == (1, True), ended.err
    if shape == ():
        assert "`scores` must have shape" in shell.nishimori("fit test.npz -o d.json", place=tmp_path).err


def test_hints_name_options_that_the_command_has(tmp_path):
    np.savez(tmp_path / "test.npz", probabilities=np.full((5, 3), 2.0), labels=np.zeros(5, dtype=int))
    nishimori.from_temperature(2.0, input="probabilities").save(tmp_path / "c.json")
    assert "--input" not in shell.nishimori("apply c.json test.npz -o p.npz", place=tmp_path).err
    assert "pass --input logits." in shell.nishimori("eval test.npz --input probabilities", place=tmp_path).err


def test_a_file_of_probabilities_is_not_for_a_calibration_of_logits(tmp_path):
    np.savez(tmp_path / "p.npz", probabilities=np.full((5, 2), 0.5), labels=np.zeros(5, dtype=int))
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    for words in ("apply c.json p.npz -o o.npz", "eval p.npz --calibration c.json"):
        error = shell.nishimori(words, place=tmp_path).err
        assert "The calibration was fitted to logits: pass a file of logits, or fit again with --input probabilities." in error


def test_fixed_is_no_method_to_fit(tmp_path):
    np.savez(tmp_path / "val.npz", logits=np.eye(3), labels=np.zeros(3, dtype=int))
    assert shell.nishimori("fit val.npz -o c.json --method fixed", place=tmp_path).code == 2


def test_a_module_that_fails_is_one_message(tmp_path):
    (tmp_path / "failing.py").write_text("raise RuntimeError('broken inside')")
    np.savez(tmp_path / "val.npz", logits=np.eye(3), labels=np.zeros(3, dtype=int))
    ended = shell.nishimori("fit val.npz -o c.json --method failing:Name", place=tmp_path)
    assert (ended.code, "Traceback" in ended.err) == (2, False)
    assert "brokeninside" in "".join(character for character in ended.err if character.isalpha())  # whatever the box does to it
