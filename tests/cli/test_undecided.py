"""Which options are proposed where a table does not say which columns are scores, and that they work as shown."""

import re
import shlex

import numpy as np
import pytest
import reference
import shell
from optional import pd
from unclear_tables import BINARY, LABELS, LOGITS, NAMES, PLAIN, SCORES, WORDS

import nishimori

ALL_EXCEPT = "If the scores are all columns except"
CASES = {
    "row numbers": (SCORES.assign(id=range(200), labels=LABELS), f"{ALL_EXCEPT} 'id', pass --ignore id."),
    "constant": (SCORES.assign(split=1, labels=LABELS), f"{ALL_EXCEPT} 'split', pass --ignore split."),
    "constant fraction": (SCORES.assign(split=0.5, labels=LABELS), f"{ALL_EXCEPT} 'split', pass --ignore split."),
    "text": (PLAIN.assign(note="text", labels=LABELS), f"{ALL_EXCEPT} 'note', pass --ignore note."),
    "several": (PLAIN.assign(id=range(200), note="x", labels=LABELS), f"{ALL_EXCEPT} 'id', 'note', pass --ignore id,note."),
    "dollar": (PLAIN.assign(**{"$id": range(200)}, labels=LABELS), f"{ALL_EXCEPT} '$id', pass --ignore '$id'."),
    "one": (PLAIN[["a"]].assign(labels=BINARY), "If 'a' holds the scores, pass --scores a."),
    "one of several": (
        PLAIN[["a"]].assign(id=range(200), note="x", labels=BINARY),
        "If 'a' holds the scores, pass --scores a.",
    ),
    "classes and more": (
        PLAIN.set_axis(NAMES, axis=1).assign(id=range(200), labels=WORDS),
        f"{ALL_EXCEPT} 'id', pass --ignore id.",
    ),
    "prefixed classes and more": (
        SCORES.assign(id=range(200), labels=WORDS),
        f"{ALL_EXCEPT} 'id', pass --ignore id.",
    ),
}


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("case", CASES)
def test_the_remedy_fits_the_file_and_works_as_shown(case, name, tmp_path):
    frame, remedy = CASES[case]
    frame.to_csv(tmp_path / name, index=False) if name == "t.csv" else frame.to_parquet(tmp_path / name)
    listed = ", ".join(repr(column) for column in frame.columns if column != "labels")
    ended = shell.nishimori(f"fit {name} -o c.json", place=tmp_path)
    assert ended == (1, "", f"error: {name} does not say which columns are scores: {listed}. {remedy}\n")
    options = shlex.split(re.search(r"pass (--.*)\.$", remedy)[1])
    assert shell.nishimori(f"fit {name} -o c.json", *options, place=tmp_path).code == 0
    assert shell.nishimori(f"eval {name}", *options, place=tmp_path).code == 0


GENERAL = "Name the columns of scores with --columns NAME,NAME, or all other columns with --ignore NAME,NAME.\n"
UNPROVEN = {
    "numbers": (
        PLAIN.assign(weight=PLAIN["a"] ** 2, labels=LABELS),
        "There are 3 classes: name one column of scores per class",
    ),
    "whole": (PLAIN.round().assign(labels=LABELS), "There are 3 classes: name one column of scores per class"),
    "two": (PLAIN[["a", "b"]].assign(labels=LABELS % 2), "There are 2 classes: name one column of scores per class"),
    # The first class is the reference, whose logit is 0 everywhere: the weight is no class, although the number would fit.
    "reference": (
        PLAIN[["a", "b"]].assign(zero=0.0, weight=PLAIN["c"] ** 2, labels=LABELS),
        "There are 3 classes: name one column of scores per class",
    ),
    "reference of two": (
        PLAIN[["a"]].assign(zero=0.0, labels=BINARY),
        "There are 2 classes: name one column of scores per class",
    ),
    "two sets": (
        pd.concat([SCORES, SCORES.add_prefix("old")], axis=1).assign(labels=LABELS),
        "There are 3 classes: name one column of scores per class",
    ),
    "two sets of names": (
        pd.concat([SCORES, SCORES.add_prefix("old")], axis=1).assign(labels=WORDS),
        "Name the columns of scores with --columns NAME,NAME, and their labels in the same order",
    ),
    "other words": (
        PLAIN.assign(labels=WORDS),
        "Name the columns of scores with --columns NAME,NAME, and their labels in the same order with --classes",
    ),
    "a class without a column": (
        PLAIN.set_axis(["cat", "dog", "weight"], axis=1).assign(labels=WORDS),
        "Name the columns of scores with --columns NAME,NAME, and their labels in the same order",
    ),
    "a class without samples": (
        SCORES.assign(z_ox=PLAIN["a"] - 1, labels=WORDS, id=range(200)),
        "Name the columns of scores with --columns NAME,NAME, and their labels in the same order",
    ),
    "a column that may be a class without samples": (
        PLAIN.set_axis(NAMES, axis=1).assign(ox=PLAIN["a"] - 1, labels=WORDS),
        "Name the columns of scores with --columns NAME,NAME, and their labels in the same order",
    ),
    "no numbers": (
        pd.DataFrame({"note": ["x"] * 200, "more": ["y"] * 200, "labels": WORDS}),
        "Name the columns of scores with --columns NAME,NAME, and their labels in the same order",
    ),
    "too many labels": (PLAIN.assign(labels=LABELS + 7), "There are 10 classes: name one column of scores per class"),
    "labels that are no classes": (PLAIN.assign(labels=LABELS + 0.5), GENERAL.strip()),
    "constant": (PLAIN.assign(split=0.5, labels=LABELS), "There are 3 classes: name one column of scores per class"),
    "another fraction": (
        SCORES.assign(weight=0.5 + LABELS / 7, labels=LABELS),
        "There are 3 classes: name one column of scores per class",
    ),
}


@pytest.mark.parametrize("case", UNPROVEN)
def test_no_columns_are_proposed_that_nothing_proves(case, tmp_path):
    frame, remedy = UNPROVEN[case]
    frame.to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json", place=tmp_path)
    assert ended.code == 1
    said = ended.err.partition(" does not say which columns are scores: ")[2]
    assert remedy in said
    assert not re.search(r"pass --(columns|ignore|classes|scores) ", said)


ANIMALS = ["cat", "dog", "fish", "horse"]


def animals(kind, place):
    """A table of four classes by name, with columns that are no scores, in one of the formats."""
    logits, labels = reference.drawn(300, 4, seed=5)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"id": [f"photo{k}" for k in range(300)], "site": rng.choice(["north", "south"], 300)})
    frame["doc"] = rng.integers(0, 60, 300)
    frame[ANIMALS] = logits
    frame["label"] = np.array(ANIMALS)[labels]
    shell.save_table(frame, place / f"t.{kind}")
    return logits, labels


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "feather"])
def test_columns_that_labels_name_are_the_scores(kind, tmp_path):
    logits, labels = animals(kind, tmp_path)
    ended = shell.nishimori(f"fit t.{kind} --labels label -o c.json", place=tmp_path)
    options = "--ignore id,site,doc"
    assert ended.err.endswith(f"{ALL_EXCEPT} 'id', 'site', 'doc', pass {options}.\n")
    assert shell.nishimori(f"fit t.{kind} --labels label {options} --method ec -o c.json", place=tmp_path).code == 0
    found = nishimori.load(tmp_path / "c.json").temperature_
    assert found == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-6)


def test_the_label_to_ignore_is_no_class(tmp_path):
    frame = PLAIN.assign(id=range(200), labels=np.where(np.arange(200) % 9, LABELS, 255))
    frame.to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json --ignore-index 255", place=tmp_path)
    assert ended.err.endswith(f"{ALL_EXCEPT} 'id', pass --ignore id.\n")
    assert shell.nishimori("fit t.csv -o c.json --ignore-index 255 --ignore id", place=tmp_path).code == 0


def test_apply_proposes_nothing_where_the_number_of_classes_is_not_known(tmp_path):
    PLAIN.assign(id=range(200)).to_csv(tmp_path / "t.csv", index=False)
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    ended = shell.nishimori("apply c.json t.csv -o p.csv", place=tmp_path)
    assert ended.err.endswith(GENERAL)
    assert shell.nishimori("apply c.json t.csv -o p.csv --columns a,b,c", place=tmp_path).code == 0


@pytest.mark.parametrize(
    ("frame", "options", "remedy"),
    [
        (SCORES.assign(y=LABELS, target=LABELS), "", "Name yours with --labels."),  # two columns could be meant
        (SCORES.assign(target=LABELS), "--groups target", "Name yours with --labels."),  # it is something else
        (SCORES.assign(target=LABELS), "", "If its labels are 'target', pass --labels target."),
    ],
)
def test_labels_are_proposed_only_if_one_column_has_such_a_name(frame, options, remedy, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert shell.nishimori(f"eval t.csv {options}", place=tmp_path).err.endswith(f" {remedy}\n")


def test_input_probabilities_is_proposed_where_an_array_has_that_name(tmp_path):
    np.savez(tmp_path / "t.npz", probabilities=np.full((200, 3), 1 / 3), labels=LABELS)
    remedy = "Name yours with --scores, or pass --input probabilities."
    assert shell.nishimori("eval t.npz", place=tmp_path).err.endswith(f" {remedy}\n")


def test_a_column_of_lists_is_proposed_by_name(tmp_path):
    pd.DataFrame({"id": range(200), "z": list(LOGITS), "labels": LABELS}).to_parquet(tmp_path / "t.parquet")
    ended = shell.nishimori("fit t.parquet -o c.json", place=tmp_path)
    assert ended.err.endswith("'id', 'z'. If 'z' holds the scores, pass --scores z.\n")
    assert shell.nishimori("fit t.parquet -o c.json --scores z", place=tmp_path).code == 0


def test_what_was_ignored_stays_ignored(tmp_path):
    PLAIN.assign(half=PLAIN["a"] / 2, id=range(200), labels=LABELS).to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json --ignore half", place=tmp_path)
    assert ended.err.endswith(f"{ALL_EXCEPT} 'id', pass --ignore half,id.\n")
    assert shell.nishimori("fit t.csv -o c.json --ignore half,id", place=tmp_path).code == 0


def test_rows_of_weight_zero_do_not_count(tmp_path):
    frame = PLAIN.assign(id=range(200), labels=LABELS, w=1)
    frame.loc[3, ["labels", "w"]] = [-100, 0]
    frame.to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json --weights w", place=tmp_path)
    assert ended.err.endswith(f"{ALL_EXCEPT} 'id', pass --ignore id.\n")
    assert shell.nishimori("fit t.csv -o c.json --weights w --ignore id", place=tmp_path).code == 0


@pytest.mark.parametrize("column", ["a,b", "a? b, c"])
def test_a_name_that_cannot_be_typed_is_not_proposed(column, tmp_path):
    PLAIN.assign(**{column: range(200)}, labels=LABELS).to_csv(tmp_path / "t.csv", index=False)
    assert "--ignore" not in shell.nishimori("fit t.csv -o c.json", place=tmp_path).err
    assert shell.nishimori("fit t.csv -o c.json --columns a,b,c", place=tmp_path).code == 0


def test_many_columns_without_a_pattern_get_a_general_remedy(tmp_path):
    names = [f"{chr(97 + k)}{k}" for k in range(13)]
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 13)), columns=names)
    rows.assign(labels=np.arange(20) % 3).to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json", place=tmp_path)
    assert ended.err.endswith(
        "and 1 more. There are 3 classes: name one column of scores per class, in their order, with --columns NAME,NAME.\n"
    )


def test_one_column_is_not_proposed_for_three_classes(tmp_path):
    PLAIN[["a"]].assign(id=range(200), labels=LABELS).to_csv(tmp_path / "t.csv", index=False)
    assert "--scores" not in shell.nishimori("fit t.csv -o c.json", place=tmp_path).err


def test_labels_that_are_lists_are_refused_before_columns_are_in_doubt(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": 1.5, "b": 2.5, "labels": [1]}\n{"a": 0.5, "b": 2, "labels": [0]}\n')
    ended = shell.nishimori("fit t.jsonl -o c.json", place=tmp_path)
    assert ended.err == "error: t.jsonl has lists in column 'labels', but a label is one value. Pass another --labels.\n"


def test_a_damaged_table_gets_a_general_remedy(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,labels\n1.5,2.5,0\n1.5,2.5\n")
    ended = shell.nishimori("fit t.csv -o c.json", place=tmp_path)
    assert "does not say which columns are scores: 'a', 'b'. Name the columns of scores with --columns" in ended.err
    assert "line 3: 2 fields" in shell.nishimori("fit t.csv -o c.json --columns a,b", place=tmp_path).err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("command", ["fit t -o c.json", "eval t"])
def test_a_table_of_labels_alone_is_refused(tmp_path, command, ending):
    table = pd.DataFrame({"labels": [0, 1, 2]})
    table.to_csv(tmp_path / "t.csv", index=False) if ending == "csv" else table.to_parquet(tmp_path / "t.parquet")
    ended = shell.nishimori(command.replace(" t", f" t.{ending}", 1), place=tmp_path)
    assert (ended.code, ended.err) == (1, f"error: t.{ending} has no column of scores, only 'labels'.\n")


def test_names_with_commas_are_not_proposed_as_several_names(tmp_path):
    frame = pd.DataFrame(LOGITS, columns=["z,2", "z,1", "z,0"]).assign(labels=LABELS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json", place=tmp_path)
    assert ended.code == 1
    assert ended.err.endswith("Pass --columns with new names: a comma separates names, so rename the columns.\n")
