"""Labels that are names of columns, and numbered labels of classes with names."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori
from nishimori.errors import InputError

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


def test_test_data_with_columns_in_another_order_are_refused(tmp_path):
    for file, order, prefix in (("val", [0, 1, 2], ""), ("test", [1, 0, 2], ""), ("prefixed", [1, 0, 2], "z_")):
        columns = [f"{prefix}{NAMES[each]}" for each in order]
        pd.DataFrame(LOGITS[:, order], columns=columns).assign(labels=TEXTS).to_csv(tmp_path / f"{file}.csv", index=False)
    for words in ("compare val.csv test.csv", "report val.csv prefixed.csv -o r.html"):
        ended = shell.nishimori(f"{words} --methods vector", place=tmp_path)
        assert ended.code == 1
        assert "in the same order as the validation data" in ended.err
    found = [
        shell.nishimori(f"compare val.csv {file} --methods vector --columns cat,dog,fish --json", place=tmp_path).out
        for file in ("val.csv", "test.csv")
    ]
    assert json.loads(found[0])["methods"][0]["nll"] == pytest.approx(json.loads(found[1])["methods"][0]["nll"])


def test_data_frames_with_columns_in_another_order_are_refused():
    frame = pd.DataFrame(LOGITS, columns=NAMES)
    with pytest.raises(InputError, match="in the same order as the validation data"):
        nishimori.compare(frame, CODES, test_logits=frame[["dog", "cat", "fish"]], test_labels=CODES, methods=["none"])


def test_classes_in_another_order_than_columns_with_a_prefix_are_refused(tmp_path):
    save(tmp_path, [f"z_{name}" for name in NAMES], TEXTS)
    ended = shell.nishimori("eval t.csv --columns z_dog,z_cat,z_fish --classes cat,dog,fish", place=tmp_path)
    assert (ended.code, "order of the columns" in ended.err) == (1, True)


@pytest.mark.parametrize(("label", "classes"), [(1, "1,2,3"), (0, "0,1,2")], ids=["names", "numbers"])
def test_labels_that_name_one_column_and_count_another_are_refused_without_classes(tmp_path, label, classes):
    kept = (2 if label else 0) != CODES  # so that no label tells
    frame = pd.DataFrame(LOGITS[kept], columns=["z_1", "z_2", "z_3"]).assign(labels=CODES[kept] + label)
    frame.to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("eval t.csv", place=tmp_path)
    assert (ended.code, "Pass the label of each column in order as --classes." in ended.err) == (1, True), ended.err
    expected = reference.nll(LOGITS[kept], CODES[kept])
    assert nll(tmp_path, f"--classes {classes}") == pytest.approx(expected, rel=1e-6)
