"""What the shell refuses, beyond what the library refuses."""

import json
import os
import resource
import warnings

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori.cli


def test_eval_refuses_classes_in_another_order_than_the_columns(tmp_path):
    place = tmp_path
    rows = "\n".join(f"{a},{b},{c},{label}" for (a, b, c), label in zip([[2, 0, 1], [0, 3, 1], [1, 0, 2]], "abb", strict=True))
    (place / "t.csv").write_text(f"a,b,c,labels\n{rows}\n")
    assert shell.nishimori("eval t.csv --classes a,b,c", place=place).code == 0
    ended = shell.nishimori("eval t.csv --classes c,b,a", place=place)
    assert (ended.code, "--classes must be in the order of the columns" in ended.err) == (1, True)


def test_apply_counts_rows_from_the_start_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("nishimori.cli._apply._NUMBERS", 30)
    scores = np.random.default_rng(0).normal(size=(30, 3))
    scores[24, 1] = np.nan
    np.savez(tmp_path / "test.npz", logits=scores)
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    ended = shell.nishimori("apply c.json test.npz -o p.npz", place=tmp_path)
    assert ended.err.startswith("error: The scores must not contain NaN or +inf, got nan in row 24, column 1 (counted from 0).")
    assert not (tmp_path / "p.npz").exists()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((), "'logits' in test.npz must have one row per sample, got an array of shape ()."),
        ((0, 3), "'logits' in test.npz is empty: its shape is (0, 3)."),
        ((5,), "but the file has one score per row, which stands for 2 classes. Pass scores of the same"),
    ],
)
def test_scores_of_another_shape_than_the_calibration_are_refused(shape, message, tmp_path):
    np.savez(tmp_path / "test.npz", logits=np.zeros(shape), labels=np.zeros(5, dtype=int))
    nishimori.from_temperature(2.0, classes=["a", "b", "c"]).save(tmp_path / "c.json")
    for words in ("apply c.json test.npz -o p.npz", "eval test.npz --calibration c.json"):
        ended = shell.nishimori(words, place=tmp_path)
        assert (ended.code, message in ended.err) == (1, True), ended.err
    if 0 in shape or shape == ():
        assert message in shell.nishimori("fit test.npz -o d.json", place=tmp_path).err


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
        assert "The calibration was fitted to logits: pass a file of logits, or fit again to probabilities." in error


def test_fixed_is_no_method_to_fit(tmp_path):
    np.savez(tmp_path / "val.npz", logits=np.eye(3), labels=np.zeros(3, dtype=int))
    assert shell.nishimori("fit val.npz -o c.json --method fixed", place=tmp_path).code == 2


def test_a_module_that_fails_is_one_message(tmp_path):
    (tmp_path / "failing.py").write_text("raise RuntimeError('broken inside')")
    np.savez(tmp_path / "val.npz", logits=np.eye(3), labels=np.zeros(3, dtype=int))
    ended = shell.nishimori("fit val.npz -o c.json --method failing:Name", place=tmp_path)
    assert (ended.code, "Traceback" in ended.err) == (2, False)
    assert "brokeninside" in "".join(character for character in ended.err if character.isalpha())  # whatever the box does to it


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("fit val.npz --output=", "--output"),
        ("apply c.json test.npz --output=", "--output"),
        ("eval test.npz --calibration=", "--calibration"),
        ("demo --output=", "--output"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(words, option, tmp_path):
    assert shell.nishimori(words, place=tmp_path) == (1, "", f"error: `{option}` must be a path, got ''.\n")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_path_after_a_blank_is_refused_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["nishimori", "demo", "-o", ""])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit):
        nishimori.cli.main()
    assert capsys.readouterr().err == "error: `-o` must be a path, got ''.\n"


ENDINGS = {
    ".npz": "numpy",
    ".npy": "numpy",
    ".csv": "numpy",
    ".parquet": "pyarrow",
    ".pt": "torch",
    ".safetensors": "safetensors",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_one_line_that_names_the_output(ending, tmp_path):
    pytest.importorskip(ENDINGS[ending])
    np.savez(tmp_path / "test.npz", logits=np.random.default_rng(0).normal(size=(20_000, 3)))
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # no file can be larger
    try:
        ended = shell.nishimori(f"apply c.json test.npz -o p{ending}", place=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ended == (1, "", f"error: File too large: p{ending}.\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c.json", "test.npz"]


def test_an_output_in_capital_letters_leaves_nothing_else_behind(tmp_path):
    np.savez(tmp_path / "test.npz", logits=np.eye(3))
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    assert shell.nishimori("apply c.json test.npz -o out.NPZ", place=tmp_path).code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c.json", "out.NPZ", "test.npz"]


def test_pipes_and_devices_are_refused_in_every_place(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    np.savez(tmp_path / "test.npz", logits=np.eye(3))
    for words in (
        "eval pipe.npz",
        "fit pipe.npz -o d.json",
        "apply pipe.npz test.npz -o p.npz",
        "eval test.npz --calibration /dev/zero",
    ):
        ended = shell.nishimori(words, place=tmp_path)
        assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1), ended.err


@pytest.fixture
def table(tmp_path):
    """A folder with a table t.csv of the columns a, b, c and the labels x, y, z, and calibrations c.json and x.json."""
    logits, labels = reference.drawn(60, 3)
    frame = pd.DataFrame(logits, columns=list("abc")).assign(labels=labels, target=np.array(list("xyz"))[labels])
    frame.to_csv(tmp_path / "t.csv", index=False)
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    nishimori.from_temperature(2.0, classes=["x", "y", "q"]).save(tmp_path / "x.json")
    return tmp_path


@pytest.mark.parametrize("words", ["fit t.csv -o d.json --force --method ts", "eval t.csv"])
def test_the_columns_that_were_taken_are_said(table, words):
    ended = shell.nishimori(f"{words} --ignore target", place=table)
    assert ended.code == 0
    assert ended.err.splitlines()[0] == "Scores are the 3 columns 'a', 'b', 'c'"
    rows = np.random.default_rng(0).normal(size=(20, 13))
    frame = pd.DataFrame(rows, columns=[f"z{k}" for k in range(13)]).assign(labels=np.arange(20) % 13)
    frame.to_csv(table / "t.csv", index=False)
    names = ", ".join(repr(f"z{k}") for k in range(12))
    assert shell.nishimori(words, place=table).err.splitlines()[0] == f"Scores are the 13 columns {names} and 1 more"


def test_probabilities_under_a_calibration_of_logits_mean_to_fit_again(tmp_path):
    logits, labels = reference.drawn(100, 3)
    np.savez(tmp_path / "p.npz", logits=reference.softmax(logits), labels=labels)
    nishimori.from_temperature(2.0).save(tmp_path / "c.json")
    ended = shell.nishimori("eval p.npz --calibration c.json --json", place=tmp_path)
    text = (
        "Each row of `scores` sums to 1, as probabilities do. If these are probabilities, fit again with --input "
        "probabilities; they are used as logits."
    )
    assert (ended.code, ended.err, json.loads(ended.out)["warnings"]) == (0, f"warning: {text}\n", [text])
    assert "Pass --input probabilities if these are" in shell.nishimori("eval p.npz", place=tmp_path).err


def test_a_label_that_is_not_a_class_of_the_calibration_is_named(table):
    ended = shell.nishimori("eval t.csv --calibration x.json --columns a,b,c --labels target", place=table)
    others = pd.read_csv(table / "t.csv")["target"].eq("z")
    line = 2 + others.argmax()
    assert (ended.code, ended.out, ended.err.splitlines()[-1]) == (
        1,
        "",
        "error: t.csv: The labels in 'target' (--labels) must be among the classes of the calibration, 'x', 'y', 'q', got 'z' "
        f"in {others.sum()} samples, the first in line {line}. Name the right column with --labels, drop these samples, or fit "
        "again.",
    )


@pytest.mark.parametrize("ending", [".npz", ".npy", ".pt", ".safetensors", ".parquet"])
def test_an_array_of_one_column_is_a_binary_score(tmp_path, ending):
    scores, labels = np.random.default_rng(0).normal(size=(200, 1)), np.arange(200) % 2
    labels = np.where(np.random.default_rng(1).uniform(size=200) < 0.8, scores[:, 0] > 0, labels).astype(np.int64)
    files = f"t{ending}" if ending != ".npy" else "t.npy y.npy"
    if ending == ".npz":
        np.savez(tmp_path / "t.npz", logits=scores, labels=labels)
    elif ending == ".npy":
        np.save(tmp_path / "t.npy", scores)
        np.save(tmp_path / "y.npy", labels)
    elif ending == ".pt":
        torch = pytest.importorskip("torch")
        torch.save({"logits": torch.tensor(scores), "labels": torch.tensor(labels)}, tmp_path / "t.pt")
    elif ending == ".safetensors":
        pytest.importorskip("safetensors.numpy").save_file({"logits": scores, "labels": labels}, tmp_path / "t.safetensors")
    else:
        pd.DataFrame({"logits": list(scores), "labels": labels}).to_parquet(tmp_path / "t.parquet")
    ended = shell.nishimori(f"fit {files} -o c.json --method ec", place=tmp_path)
    assert ended.code == 0, ended.err
    fitted = nishimori.load(tmp_path / "c.json")
    known = nishimori.ExpectationConsistency().fit(scores[:, 0], labels)
    assert fitted.temperature_ == pytest.approx(known.temperature_, rel=2e-9)
    assert shell.nishimori(f"eval {files} --calibration c.json", place=tmp_path).code == 0
    assert shell.nishimori(f"apply c.json t{ending} -o p.npy", place=tmp_path).code == 0
    np.testing.assert_allclose(np.load(tmp_path / "p.npy")[:, 1], 1 / (1 + np.exp(-scores[:, 0] / fitted.temperature_)))


def test_numbered_columns_in_another_order_are_answered_with_the_option_to_type(tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 11))
    names = sorted(f"z_{k}" for k in range(11))
    pd.DataFrame(rows, columns=names).assign(labels=np.arange(40) % 11).to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("eval t.csv", place=tmp_path)
    option = "--columns " + ",".join(f"z_{k}" for k in range(11))
    assert ended.err.endswith(f" Pass {option}.\n")
    assert shell.nishimori(f"eval t.csv {option}", place=tmp_path).code == 0


@pytest.mark.parametrize(
    "words", ["apply t.csv c.json -o p.csv", "apply t.csv t.csv -o p.csv", "eval t.csv --calibration t.csv"]
)
def test_a_table_in_the_place_of_a_calibration_is_called_by_its_kind(table, words):
    assert shell.nishimori(words, place=table) == (1, "", "error: t.csv is a file of scores, not a calibration.\n")


def test_a_calibration_in_the_place_of_scores_is_answered_with_the_option_to_type(table):
    code, out, err = shell.nishimori("eval c.json --calibration t.csv", place=table)
    assert (code, out) == (1, "")
    assert err.startswith("error: c.json is a calibration, not a file of scores. Pass it with --calibration, ")


@pytest.mark.parametrize("words", ["fit t.csv -o", "apply c.json t.csv -o", "eval t.csv --ignore target --plot"])
def test_a_folder_is_not_a_file_to_write(table, words):
    (table / "folder.png").mkdir()
    ended = shell.nishimori(f"{words} folder.png", place=table)
    assert ended.code == 1
    assert ended.err.startswith("error: folder.png is a folder. Choose the name of a file, such as folder.png/")


def test_a_delimiter_that_the_header_does_not_have_is_answered_with_the_one_it_has(table):
    ended = shell.nishimori("eval t.csv --delimiter tab", place=table)
    assert (ended.code, ended.err.endswith(r"the delimiter is '\t'. Pass --delimiter ','." + "\n")) == (1, True)


@pytest.mark.parametrize("name", ["label", "Label", "y", "Y_true", "target", "truth", "CLASS"])
def test_a_likely_column_of_labels_is_proposed(tmp_path, name):
    logits, labels = reference.drawn(60, 3)
    pd.DataFrame(logits, columns=["z_a", "z_b", "z_c"]).assign(**{name: labels}).to_csv(tmp_path / "t.csv", index=False)
    np.savez(tmp_path / "t.npz", **{"logits": logits, name: labels})
    for file in ("t.csv", "t.npz"):
        assert shell.nishimori(f"eval {file}", place=tmp_path).err.endswith(
            f" If its labels are {name!r}, pass --labels {name}.\n"
        )
        assert shell.nishimori(f"eval {file} --labels {name}", place=tmp_path).code == 0


def test_errors_about_labels_name_their_column_and_option(table):
    ended = shell.nishimori("fit t.csv -o d.json --labels target --columns a,b,c", place=table)
    first = pd.read_csv(table / "t.csv")["target"][0]
    assert ended.err.splitlines()[-1].startswith(
        f"error: t.csv: The labels in 'target' (--labels) must be integers from 0 to 2, got '{first}' in line 2."
    )


def test_names_with_blanks_are_quoted_where_they_are_to_be_typed(tmp_path):
    (tmp_path / "t.csv").write_text("a b,c,labels\n1.5,2,c\n2.5,1,a b\n")
    ended = shell.exactly("eval", "t.csv", "--classes", "c,a b", place=tmp_path)
    assert ended.err.endswith("Pass --classes 'a b,c'.\n")


def test_the_help_of_fit_says_the_default_name_of_labels(tmp_path):
    text = " ".join(shell.nishimori("fit --help", place=tmp_path).out.split())
    assert "labels by default" in text
    assert "as calibrated" not in text


@pytest.fixture
def logits_file(tmp_path):
    logits, labels = reference.drawn(300, 4)
    np.savez(tmp_path / "v.npz", logits=logits, labels=labels)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    ["fit v.npz --method entropie -o c.json", "compare v.npz --methods none,entropie", "report v.npz --methods entropie"],
)
def test_an_unknown_method_is_wrong_usage_and_how_to_import_one_is_said(command, logits_file):
    ended = shell.nishimori(command, place=logits_file)
    said = " ".join(ended.err.replace("│", " ").split())
    assert ended.code == 2
    assert "got 'entropie'" in said
    assert "before the command: nishimori --import MODULE." in said


def test_an_import_after_the_command_is_told_where_it_stands(logits_file):
    ended = shell.nishimori("fit v.npz --import json -o c.json", place=logits_file)
    said = " ".join(ended.err.replace("│", " ").split())
    assert ended.code == 2
    assert "--import stands before the command: nishimori --import MODULE fit" in said
    assert "Did you mean" not in said
    assert "Possible options" not in said
    assert shell.nishimori("--import json fit v.npz -o c.json", place=logits_file).code == 0


def test_text_that_a_method_of_ones_own_returns_has_no_remedy_that_cannot_be_followed():
    from nishimori._support.numbers import numeric

    with pytest.raises(nishimori.errors.InputError, match=r"^`Own\.start` must hold numbers, got text\.$"):
        numeric(np.array(["zero"]), "Own.start")
    with pytest.raises(nishimori.errors.InputError, match=r"`X\.astype\(float\)`\.$"):
        numeric(np.array(["zero"]), "X")
