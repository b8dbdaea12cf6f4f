"""`--ignore-index`: rows with that label do not count, in every command that reads labels."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd
from token_cases import CLASSES, COUNTED, FLAT, IGNORED, LABELS, LOGITS, TRUE

import nishimori

T = reference.ec_temperature(FLAT, TRUE)
ROWS = np.where(COUNTED.reshape(-1, 1), LOGITS.reshape(-1, CLASSES), 0.0)


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "t.npz", logits=LOGITS.reshape(-1, CLASSES), labels=LABELS.ravel(), ones=np.ones(LABELS.size))
    table = pd.DataFrame(ROWS, columns=[f"z_{k}" for k in range(CLASSES)])
    table.assign(labels=LABELS.ravel()).to_csv(tmp_path / "t.csv", index=False)
    words = [each if each == IGNORED else f"word{each}" for each in LABELS.ravel().tolist()]
    table.assign(labels=words).to_csv(tmp_path / "w.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("given", ["t.npz", "t.npz --weights ones", "t.csv", "w.csv --classes word0,word1,word2,word3,word4"])
def test_a_fit_is_that_of_the_other_rows(files, given):
    ended = shell.nishimori(f"fit {given} --ignore-index -100 --method ec -o c.json --force", place=files)
    assert ended.code == 0, ended.err
    fitted = nishimori.load(files / "c.json")
    assert fitted.temperature_ == pytest.approx(T, rel=1e-8)
    assert fitted.n_samples_ == COUNTED.sum()


def test_commands_that_read_labels_count_the_other_rows(files):
    loss = reference.nll(FLAT, TRUE)
    found = json.loads(shell.nishimori("eval t.npz --ignore-index -100 --json", place=files).out)
    assert found["before"]["nll"] == pytest.approx(loss, rel=1e-10)
    compared = json.loads(shell.nishimori("compare t.npz --ignore-index -100 --methods none,ec --json", place=files).out)
    assert compared["methods"][1]["temperature"] == pytest.approx(T, rel=1e-6)
    gate = json.loads(shell.nishimori("gate t.npz --ignore-index -100 --bound nll=9 --json", place=files).out)
    assert gate["n_samples"] == COUNTED.sum()
    assert shell.nishimori("sketch t.npz --ignore-index -100 -o s.npz", place=files).out.startswith(f"{COUNTED.sum()} samples")
    assert shell.nishimori("report t.npz --ignore-index -100 -o r.json", place=files).code == 0
    report = json.loads((files / "r.json").read_text())
    assert report["methods"][0]["nll"] == pytest.approx(loss, rel=1e-10)
    assert report["code"].count("ignore_index=-100") == 1


def test_the_option_is_named_where_it_would_help_and_refused_where_it_cannot(files):
    wanted = "got -100 in row 0 (counted from 0). To leave out all samples with this label, pass --ignore-index -100."
    assert wanted in shell.nishimori("eval t.npz", place=files).err.replace("\n", " ")
    np.savez(files / "n.npz", logits=ROWS, labels=np.full(len(ROWS), IGNORED))
    ended = shell.nishimori("eval n.npz --ignore-index -100", place=files)
    said = "n.npz: The labels in 'labels' (--labels) must hold at least one label that is not --ignore-index, got only -100."
    assert (ended.code, ended.err) == (1, f"error: {said}\n")
    shell.nishimori("sketch t.npz --ignore-index -100 -o s.npz", place=files)
    ended = shell.nishimori("eval s.npz --ignore-index -100", place=files)
    assert ended.code != 0
    assert "sketch" in ended.err


def test_labels_of_minus_one_and_one_are_two_classes(tmp_path):
    logits, labels = reference.drawn(60, 2)
    np.savez(tmp_path / "t.npz", logits=logits, labels=2 * labels - 1)
    refused = shell.nishimori("eval t.npz --json", place=tmp_path)
    assert "For the labels -1 and 1 pass --classes -1,1." in refused.err.replace("\n", " ")
    found = json.loads(shell.nishimori("eval t.npz --classes -1,1 --json", place=tmp_path).out)
    assert found["before"]["nll"] == pytest.approx(reference.nll(logits, labels), rel=1e-10)


def test_each_position_of_arrays_with_more_dimensions_is_a_row(files):
    np.savez(files / "d.npz", logits=LOGITS, labels=LABELS)
    ended = shell.nishimori("fit d.npz --ignore-index -100 -o c.json --method ts", place=files)
    assert ended.code == 0
    counted = LABELS.reshape(-1) != -100
    expected = reference.ts_temperature(LOGITS.reshape(-1, LOGITS.shape[-1])[counted], LABELS.reshape(-1)[counted])
    assert nishimori.load(files / "c.json").temperature_ == pytest.approx(expected, rel=1e-6)


def test_probabilities_are_written_for_one_row_per_sample_only(files):
    np.savez(files / "d.npz", logits=LOGITS, labels=LABELS)
    nishimori.from_temperature(2.0).save(files / "c.json")
    ended = shell.nishimori("apply c.json d.npz -o p.npz", place=files)
    assert ended.code == 1
    assert ended.err == (
        "error: 'logits' in d.npz must have one row per sample, got an array of shape (40, 15, 5). Reshape it, or load "
        "it in Python and pass the array, of any shape before the classes.\n"
    )
