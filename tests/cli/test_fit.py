"""`fit` on tables: which columns count, how labels are spelled, what is refused before any work, what machines are told."""

import json
import os
import warnings

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori

LOGITS, LABELS = reference.drawn(200, 3, seed=3)
NAMES = ["cat", "dog", "fish"]
SCORES = pd.DataFrame(LOGITS, columns=[f"z_{name}" for name in NAMES])
T = reference.ec_temperature(LOGITS, LABELS)


@pytest.fixture
def fit(tmp_path):
    """The temperature that ``fit`` finds for a table, or its one line of error."""

    def run(frame, options="", name="t.csv"):
        path = tmp_path / name
        frame.to_csv(path, index=False) if name.endswith(".csv") else frame.to_parquet(path)
        code, out, err = shell.nishimori(f"fit {name} -o c.json --method ec --force {options}", place=tmp_path)
        if code == 0:
            return nishimori.load(tmp_path / "c.json").temperature_
        assert (code, out) == (1, "")
        assert err.splitlines()[-1].startswith("error: ")
        return err

    return run


def with_labels(frame, labels=LABELS):
    return frame.assign(labels=labels)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (with_labels(SCORES), ""),
        (with_labels(SCORES.set_axis(["0", "1", "2"], axis=1)), ""),
        (with_labels(SCORES.set_axis(list("abc"), axis=1)), ""),
        (with_labels(SCORES.set_axis(NAMES, axis=1), np.array(NAMES)[LABELS]), "--classes cat,dog,fish"),
        (with_labels(SCORES, np.array(NAMES)[LABELS]), "--classes cat,dog,fish"),
        (with_labels(SCORES).assign(id=range(200)), "--columns z_*"),
        (with_labels(SCORES).assign(id=range(200), split=1), "--ignore id,split"),
        (with_labels(SCORES).assign(id=range(200), split=1), "--ignore [is]*"),
        (with_labels(SCORES).assign(y=LABELS, labels=0.5), "--labels y --ignore labels"),
        (with_labels(SCORES).assign(weight=1.0), "--weights weight"),
    ],
)
def test_columns_that_leave_no_doubt_are_the_scores(fit, frame, options, name):
    assert fit(frame, options, name) == pytest.approx(T, rel=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--columns z_cat,z_cat,z_fish", "--columns must name each column once, got 'z_cat' from 'z_cat' and 'z_cat'."),
        ("--columns z_*,z_cat", "--columns must name each column once, got 'z_cat' from 'z_*' and 'z_cat'."),
        ("--columns z_cat,labels", "--columns must name columns of scores, got 'labels', which is the column of labels."),
        ("--columns *", "--columns must name columns of scores, got 'labels', which is the column of labels."),
        ("--columns q_*", "t.csv has no column that matches 'q_*', only 'z_cat', 'z_dog', 'z_fish', 'labels'."),
        (
            "--weights z_cat --columns z_*",
            "--columns must name columns of scores, got 'z_cat', which is the column of weights.",
        ),
        ("--ignore id", "t.csv has no column 'id', only 'z_cat', 'z_dog', 'z_fish', 'labels'. Name yours with --ignore."),
        ("--classes fish,dog,cat", "--classes must be in the order of the columns, got ['fish', 'dog', 'cat']"),
        ("--scores z_cat --columns z_dog", "--scores names one column, and --columns several. Pass only one of them."),
        ("--decimal ,", "--decimal must differ from the delimiter, ','. Pass --delimiter ';'."),
        ("--delimiter ab", "--delimiter must be one character, such as ';', or the word tab, got 'ab'."),
        ("--floor 0.1", "--floor must be left out for logits: it is the lowest probability. Pass --input probabilities."),
    ],
)
def test_options_that_cannot_be_meant_are_one_line(fit, options, message):
    err = fit(with_labels(SCORES), options)
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("label", ["1.7", "-0.5", "0.99999999999999999999", "1e999999999", "nan", "x"])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_only_whole_numbers_lose_their_decimals(fit, label, name):
    labels = LABELS.astype(str).astype(object)
    labels[4] = label
    err = fit(with_labels(SCORES, labels), "--classes 0,1,2", name)
    where = "line 6" if name == "t.csv" else "row 4 (counted from 0)"
    assert f"must be among --classes, got '{label}' in {where}" in err


@pytest.mark.parametrize("spelled", ["{}.0", "{}e0", " {} ", "0{}"])
def test_whole_numbers_may_be_spelled_in_many_ways(fit, spelled):
    labels = [spelled.format(label) for label in LABELS]
    assert fit(with_labels(SCORES, labels), "--classes 0,1,2") == pytest.approx(T, rel=1e-8)


def test_a_label_that_is_not_a_number_is_named(fit):
    labels = LABELS.astype(str).astype(object)
    labels[4] = "cat"
    assert "must be integers from 0 to 2, got 'cat' in line 6. For other labels" in fit(with_labels(SCORES, labels))


@pytest.mark.parametrize(("value", "message"), [(7, "got 7 in line 6."), (-1, "got -1 in line 6.")])
def test_an_error_about_a_row_names_the_line_of_the_file(fit, value, message):
    labels = LABELS.copy()
    labels[4] = value
    assert message in fit(with_labels(SCORES, labels))


def test_an_error_about_a_score_names_line_and_column(fit):
    frame = with_labels(SCORES.copy())
    frame.loc[4, "z_dog"] = np.inf
    assert "got inf in line 6, column 'z_dog'." in fit(frame)
    assert "got inf in row 4 (counted from 0), column 'z_dog'." in fit(frame, name="t.parquet")


def test_numbers_with_a_decimal_comma_are_not_read_as_more_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c,labels\n0,5,1,2,0\n")
    code, out, err = shell.nishimori("fit t.csv -o c.json", place=tmp_path)
    assert (code, out) == (1, "")
    assert err == (
        "error: t.csv, line 2: 5 fields where the header has 4; the delimiter is ','. If its decimal mark is a comma, use "
        "another delimiter: --delimiter ';' with --decimal ','.\n"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit t.npz -o x.txt", "-o must be a file that ends in .json, got x.txt."),
        ("fit t.npz -o x.NPZ", "-o must be a file that ends in .json, got x.NPZ."),
        ("fit t.npz -o t.npz --force", "-o must be a file that ends in .json, got t.npz."),
        ("fit nosuch.npz -o old.json", "There is no file nosuch.npz."),
        ("fit nosuch.npz -o no/c.json", "There is no file nosuch.npz."),
        ("fit t.npz -o old.json", "old.json exists. Pass --force to replace it."),
        ("fit t.txt -o c.json", "t.txt has an unknown ending. Use one of "),
        (
            "fit long.npz -o c.json",
            "The labels in 'labels' (--labels) must be one label per sample, shape (200,), got shape (201,).",
        ),
        ("fit z.npy y.npy -o c.json", "The labels must be one label per sample, shape (200,), got shape (199,)."),
        ("fit z.npy -o c.json", "Pass two .npy files: scores first, labels second, and no others."),
        ("fit nan.npz -o c.json", "got nan in row 7, column 2 (counted from 0)."),
    ],
)
def test_what_cannot_be_fitted_is_one_line_and_leaves_files_alone(tmp_path, line, message):
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS)
    np.savez(tmp_path / "long.npz", logits=LOGITS, labels=np.append(LABELS, 0))
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS[:-1])
    broken = LOGITS.copy()
    broken[7, 2] = np.nan
    np.savez(tmp_path / "nan.npz", logits=broken, labels=LABELS)
    for name in ("old.json", "t.txt"):
        (tmp_path / name).write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, err = shell.nishimori(line, place=tmp_path)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_machines_get_everything_that_people_see(tmp_path):
    with_labels(SCORES, np.array(NAMES)[LABELS]).to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json --method ec --json --classes cat,dog,fish", place=tmp_path)
    told = json.loads(ended.out)
    assert ended.out.count("\n") == 1
    assert abs(told.pop("residual")) < 1e-9
    assert told.pop("n_passes") >= 1
    assert told.pop("temperature") == pytest.approx(T, rel=1e-8)
    assert 0 < told.pop("temperature_se") < T
    assert told.pop("map")["parameters"]["temperature"] == pytest.approx(T, rel=1e-8)
    assert told == {
        "method": "ec",
        "params": {"smooth_labels": False, "top_n": 1},
        "verdict": "overconfident",
        "top_n": 1,
        "data_digest": json.loads((tmp_path / "c.json").read_text())["provenance"]["data_digest"],
        "n_samples": 200,
        "n_classes": 3,
        "accuracy": pytest.approx(np.mean(LOGITS.argmax(axis=1) == LABELS)),
        "n_zeros": 0,
        "n_masked": 0,
        "input": "logits",
        "floor": None,
        "classes": NAMES,
        "columns": SCORES.columns.tolist(),
        "label_column": "labels",
        "score_column": None,
        "group_column": None,
        "file": "c.json",
        "library_version": nishimori.__version__,
        "warnings": [],
    }


def test_machines_get_the_warnings_that_people_see(tmp_path):
    np.savez(tmp_path / "few.npz", logits=LOGITS[:14], labels=LABELS[:14])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        ended = shell.nishimori("fit few.npz -o c.json --json", place=tmp_path)
    told = json.loads(ended.out)["warnings"]
    assert told
    assert [line.removeprefix("warning: ") for line in ended.err.splitlines() if line.startswith("warning: ")] == told


def test_names_with_control_characters_do_not_reach_the_terminal(tmp_path):
    frame = with_labels(SCORES.set_axis(["z_\x1b[31ma", "z_b", "z_\x07"], axis=1))
    frame.to_csv(tmp_path / "t.csv", index=False)
    ended = shell.nishimori("fit t.csv -o c.json", place=tmp_path)
    assert ended.code == 0
    assert not any(character in ended.err for character in "\x1b\x07")


def test_tens_of_thousands_of_columns_are_fine(tmp_path):
    rows = np.random.default_rng(0).normal(size=(3, 32_000)).round(1)
    frame = pd.DataFrame(rows, columns=[f"z_{k}" for k in range(32_000)]).assign(labels=rows.argmax(axis=1))
    frame.loc[0, "labels"] = 5
    frame.to_csv(tmp_path / "wide.csv", index=False)
    assert shell.nishimori("eval wide.csv", place=tmp_path).code == 0


def test_scores_between_0_and_1_are_refused_with_both_options_and_nothing_is_written(tmp_path):
    logits, labels = reference.drawn(3000, 3)
    p = reference.softmax(logits)
    np.savez(tmp_path / "p.npz", logits=p, labels=labels)
    for words in ("fit p.npz -o c.json", "sketch p.npz -o c.npz", "eval p.npz", "compare p.npz"):
        ended = shell.nishimori(words, place=tmp_path)
        assert (ended.code, ended.out) == (1, "")
        assert "must be declared as logits or probabilities, got numbers from" in ended.err
        assert ended.err.endswith(
            "Pass --input probabilities if these are probabilities, or --input logits if they are scores before the softmax.\n"
        )
    assert os.listdir(tmp_path) == ["p.npz"]
    said = shell.nishimori("fit p.npz -o c.json --method ts --input logits --json", place=tmp_path)
    assert (said.code, json.loads(said.out)["warnings"], json.loads(said.out)["input"]) == (0, [], "logits")
    assert json.loads(said.out)["temperature"] == pytest.approx(reference.ts_temperature(p, labels), rel=1e-8)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("binary", [False, True])
def test_probabilities_that_are_called_logits_are_used_once_it_is_said(tmp_path, suffix, binary):
    logits, labels = reference.drawn(900, 2 if binary else 3)
    p = reference.softmax(logits)
    if suffix == ".npz":
        np.savez(tmp_path / "p.npz", logits=p[:, 1] if binary else p, labels=labels)
        np.savez(tmp_path / "both.npz", logits=logits, probabilities=p, labels=labels)
    else:
        frame = pd.DataFrame({"logits": p[:, 1] if binary else list(p), "labels": labels})
        frame.to_parquet(tmp_path / "p.parquet")
    file = f"p{suffix}"
    said = shell.nishimori(f"fit {file} -o c.json --method ts --floor none --input probabilities --json", place=tmp_path)
    assert said.code == 0, said.err
    assert json.loads(said.out)["temperature"] == pytest.approx(reference.ts_temperature(logits, labels), rel=1e-7)
    for words in (f"eval {file} --input probabilities", f"eval {file} --calibration c.json", f"apply c.json {file} -o o.npz"):
        ended = shell.nishimori(words, place=tmp_path)
        assert ended.code == 0, ended.err
    assert shell.nishimori(f"sketch {file} -o s.npz --input probabilities --floor none", place=tmp_path).code == 0
    if suffix == ".npz":  # its own name wins
        ended = shell.nishimori("fit both.npz -o b.json --method ts --floor none --input probabilities --json", place=tmp_path)
        assert json.loads(ended.out)["temperature"] == pytest.approx(reference.ts_temperature(logits, labels), rel=1e-7)


def test_logits_for_a_calibration_of_probabilities_are_answered_with_what_helps(tmp_path):
    logits, labels = reference.drawn(900, 3)
    np.savez(tmp_path / "p.npz", scores=reference.softmax(logits), labels=labels)
    np.savez(tmp_path / "z.npz", scores=logits, labels=labels)
    assert shell.nishimori("fit p.npz -o c.json --scores scores --input probabilities", place=tmp_path).code == 0
    for words in ("eval z.npz --calibration c.json", "apply c.json z.npz -o o.npz"):
        ended = shell.nishimori(words, place=tmp_path)
        assert ended.code == 1
        assert ended.err.endswith("The calibration was fitted to probabilities. If these are logits, fit again to logits.\n")


def test_a_file_whose_last_row_has_a_negative_score_holds_logits(tmp_path):
    logits, labels = reference.drawn(3000, 3)
    p = reference.softmax(logits)
    p[-1, 2] = -0.5
    np.savez(tmp_path / "p.npz", logits=p, labels=labels)
    ended = shell.nishimori("fit p.npz -o c.json --method ts", place=tmp_path)
    assert ended.code == 0, ended.err
    assert nishimori.load(tmp_path / "c.json").temperature_ == pytest.approx(reference.ts_temperature(p, labels), rel=1e-8)


def test_true_classes_of_probability_zero_are_a_warning_that_names_the_option(tmp_path):
    logits, labels = reference.drawn(2000, 3)
    p = reference.softmax(logits)
    rows = np.flatnonzero(p.argmax(axis=1) != labels)[:1]
    p[rows, labels[rows]] = 0
    np.savez(tmp_path / "p.npz", probabilities=p / p.sum(axis=1, keepdims=True), labels=labels)
    ended = shell.nishimori("fit p.npz -o c.json --method ts --input probabilities --floor none", place=tmp_path)
    assert ended.code == 0
    assert "warning: The true class has probability 0 in 1 of 2000 samples" in ended.err
    assert ended.err.splitlines()[0].endswith(
        " Pass --floor, the lowest probability that you consider possible, or --floor auto."
    )


@pytest.mark.parametrize("weights", [[[]] * 200, [[1.0, 2.0]] * 200], ids=["empty", "two"])
def test_lists_of_weights_are_refused(tmp_path, weights):
    SCORES.assign(labels=LABELS, w=weights).to_parquet(tmp_path / "t.parquet")
    ended = shell.nishimori("fit t.parquet -o c.json --weights w", place=tmp_path)
    assert (ended.code, ended.err) == (
        1,
        "error: t.parquet has lists in column 'w', but a weight is one number. Pass another --weights.\n",
    )
