"""Labels that are names of columns, and numbered labels of classes with names."""

import json

import numpy as np
import pandas as pd
import pytest
import reference
import shell

NAMES = ["cat", "dog", "fish"]
LOGITS, CODES = reference.drawn(200, 3)
TEXTS = np.array(NAMES)[CODES]


def save(place, columns, labels, **more):
    frame = pd.DataFrame(LOGITS, columns=columns).assign(labels=labels, **more)
    frame.to_csv(place / "t.csv", index=False)


def nll(place, words):
    ended = shell.nishimori(f"eval t.csv --json {words}", place=place)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["before"]["nll"]


@pytest.mark.parametrize(
    ("columns", "labels", "words"),
    [
        (NAMES, TEXTS, ""),
        ([f"z_{name}" for name in NAMES], TEXTS, ""),
        (["fish", "cat", "dog"], np.array(["fish", "cat", "dog"])[CODES], ""),
        (NAMES, CODES, "--classes cat,dog,fish"),
        (["a", "b", "c"], CODES.astype(float), "--columns a,b,c --classes cat,dog,fish"),
        (NAMES, np.where(np.arange(200) < 5, -100, CODES), "--classes cat,dog,fish --ignore-index -100"),
    ],
    ids=["columns", "prefix", "another order", "numbers", "whole floats", "ignored"],
)
def test_labels_are_found(tmp_path, columns, labels, words):
    save(tmp_path, columns, labels)
    kept = slice(5, None) if "ignore" in words else slice(None)
    assert nll(tmp_path, words) == pytest.approx(reference.nll(LOGITS[kept], CODES[kept]), rel=1e-9)


@pytest.mark.parametrize(
    ("labels", "more"),
    [
        (np.where(TEXTS == "fish", "bird", TEXTS), {}),  # a label without a column
        (np.where(TEXTS == "fish", "cat", TEXTS), {}),  # a column that is no label
        (TEXTS, {"weight": np.linspace(0.1, 0.9, 200)}),  # another column
    ],
    ids=["label", "column", "weight"],
)
def test_columns_that_labels_do_not_prove_are_refused(tmp_path, labels, more):
    save(tmp_path, NAMES, labels, **more)
    ended = shell.nishimori("eval t.csv", place=tmp_path)
    assert ended.code == 1
    assert "t.csv does not say which columns are scores" in ended.err


def test_results_name_the_classes(tmp_path):
    save(tmp_path, NAMES, TEXTS)
    shown = json.loads(shell.nishimori("eval t.csv --by prediction --json", place=tmp_path).out)
    assert {each["name"] for each in shown["before"]["by_group"]["groups"]} <= set(NAMES)
    report = json.loads(shell.nishimori("report t.csv --json", place=tmp_path).out)
    assert {each["name"] for each in report["classes"]["rows"]} <= set(NAMES)
    assert shell.nishimori("sketch t.csv -o s.npz", place=tmp_path).code == 0
    assert shell.nishimori("fit t.csv -o c.json", place=tmp_path).code == 0
    assert shell.nishimori("eval t.csv --calibration c.json", place=tmp_path).code == 0
    assert shell.nishimori("apply c.json t.csv -o p.csv", place=tmp_path).code == 0
