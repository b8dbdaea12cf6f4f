"""The command as a person types it: what it prints where, what it writes, and how it ends."""

import json
import warnings

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori
from nishimori import metrics
from nishimori._kernels import native

VAL, TEST = reference.drawn(400, 4, seed=1), reference.drawn(300, 4, seed=2)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run ``nishimori`` in a new folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for name, (logits, labels) in {"val": VAL, "test": TEST}.items():
        np.savez(f"{name}.npz", logits=logits, labels=labels, w=np.arange(len(labels)) % 3)

    return shell.nishimori


def test_fit_writes_what_load_reads_and_says_the_temperature(run):
    code, out, err = run("fit val.npz -o c.json --method ec")
    assert (code, err) == (0, "Wrote c.json\n")
    loaded = nishimori.load("c.json")
    assert loaded.temperature_ == pytest.approx(reference.ec_temperature(*VAL), rel=1e-8)
    T, error = loaded.temperature_, loaded.temperature_se_
    assert 0.01 < error < 0.995
    digits = 3 if error < 0.0995 else 2  # two of the error
    assert out == f"T = {T:.{digits}f} ± {error:.{digits}f}  (ec, 400 samples: the model is overconfident)\n"


def test_fit_has_both_methods_top_n_and_weights(run):
    assert run("fit val.npz -o ts.json --method ts")[0] == 0
    assert run("fit val.npz -o top2.json --top-n 2")[0] == 0
    assert run("fit val.npz -o weighted.json --method ec --weights w")[0] == 0
    assert nishimori.load("ts.json").temperature_ == pytest.approx(reference.ts_temperature(*VAL), rel=1e-8)
    assert nishimori.load("top2.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL, top_n=2), rel=1e-8)
    weights = np.arange(400) % 3
    assert nishimori.load("weighted.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL, weights), rel=1e-8)


def test_fit_prints_one_json_object_for_machines(run):
    code, out, _ = run("fit val.npz -o c.json --method ec --json")
    result = json.loads(out)
    assert code == 0
    assert result["temperature"] == nishimori.load("c.json").temperature_
    assert result["n_samples"] == 400
    assert abs(result["residual"]) < 1e-9


def test_fit_takes_probabilities_only_when_told(run):
    np.savez("p.npz", probabilities=reference.softmax(VAL[0]), labels=VAL[1])
    assert run("fit p.npz -o p.json --method ec --input probabilities --floor none")[0] == 0
    assert nishimori.load("p.json").input == "probabilities"
    assert nishimori.load("p.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL), rel=1e-8)
    code, _, err = run("fit p.npz -o q.json")
    assert code == 1
    assert err == (
        "error: p.npz has no array 'logits', only 'probabilities', 'labels'. "
        "Name yours with --scores, or pass --input probabilities.\n"
    )


def test_apply_writes_calibrated_probabilities(run):
    run("fit val.npz -o c.json")
    assert run("apply c.json test.npz -o p.npz") == (0, "", "Wrote p.npz\n")
    with np.load("p.npz") as file:
        expected = reference.softmax(TEST[0], nishimori.load("c.json").temperature_)
        np.testing.assert_allclose(file["probabilities"], expected, rtol=1e-12)


def test_eval_measures_before_and_after(run):
    run("fit val.npz -o c.json")
    code, out, _ = run("eval test.npz --calibration c.json --json --strategy quantile")
    result = json.loads(out)
    T = nishimori.load("c.json").temperature_
    assert code == 0
    assert result["before"]["ece"] == metrics.ece(*TEST, strategy="quantile")
    assert result["after"]["ece"] == pytest.approx(metrics.ece(*TEST, strategy="quantile", temperature=T), rel=1e-12)
    assert result["after"]["nll"] == metrics.nll(*TEST, temperature=T)
    assert result["after"]["temperature"] == T


def test_an_infinite_loss_is_null_for_machines(run):
    logits = np.where(np.arange(4) == VAL[1][:, None], -np.inf, VAL[0])
    np.savez("masked.npz", logits=logits, labels=VAL[1])
    assert json.loads(run("eval masked.npz --json")[1])["before"]["nll"] is None


def test_eval_prints_a_table_for_people(run):
    code, out, err = run("eval test.npz")
    assert (code, err) == (0, "")
    assert "before" in out
    found = nishimori.evaluate(*TEST)["error"]
    assert 0.01 < found.se < 0.1  # between 1 and 10 %, so that numbers have one decimal
    assert f"{100 * found.value:.1f} %" in out
    assert f"{100 * found.se:.1f} %" in out
    assert "after" not in out


def test_tables_keep_the_names_of_their_columns(run):
    columns = ["ant", "bee", "cat", "dog"]
    frame = pd.DataFrame(VAL[0], columns=columns)
    frame.assign(labels=np.array(columns)[VAL[1]]).to_csv("val.csv", index=False)
    frame[columns[::-1]].to_csv("permuted.csv", index=False)
    frame.to_csv("fine.csv", index=False)
    assert run("fit val.csv -o c.json --method ec --classes ant,bee,cat,dog")[0] == 0
    assert nishimori.load("c.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL), rel=1e-8)
    assert run("apply c.json fine.csv -o p.csv")[0] == 0
    assert pd.read_csv("p.csv").columns.tolist() == columns
    assert run("apply c.json permuted.csv -o q.csv")[0] == 0
    permuted = pd.read_csv("q.csv")
    assert permuted.columns.tolist() == columns[::-1]
    pd.testing.assert_frame_equal(permuted[columns], pd.read_csv("p.csv"))
    code, _, err = run("apply c.json permuted.csv -o q.csv --force --columns dog,cat,bee,ant")
    assert code == 1
    assert err == (
        "error: --columns must be the columns that the calibration was fitted to, 'ant', 'bee', 'cat', 'dog', in that order, "
        "got 'dog', 'cat', 'bee', 'ant'. Leave --columns out.\n"
    )
    frame.rename(columns={"ant": "eel"}).to_csv("other.csv", index=False)
    code, _, err = run("apply c.json other.csv -o r.csv")
    assert code == 1
    assert err == (
        "error: The calibration was fitted to the columns 'ant', 'bee', 'cat', 'dog', but other.csv has only 'eel', 'bee', "
        "'cat', 'dog'. Rename its columns, or fit again.\n"
    )
    code, out, _ = run("eval val.csv --calibration c.json --json")
    assert json.loads(out)["before"]["error"] == pytest.approx(metrics.error(*VAL))
    for columns in ("", " --columns ant,bee,cat,dog"):  # labels are names of columns, which are therefore the scores
        code, *_ = run(f"fit val.csv -o d.json --force --method ec{columns}")
        assert code == 0
        assert nishimori.load("d.json").temperature_ == pytest.approx(nishimori.load("c.json").temperature_, rel=1e-9)
    code, _, err = run("fit val.csv -o e.json --classes dog,cat,bee,ant")
    assert code == 1
    assert "--classes must be in the order of the columns" in err


def test_row_numbers_are_not_taken_for_scores(run):
    frame = pd.DataFrame(VAL[0], columns=list("abcd")).assign(labels=VAL[1])
    frame.to_csv("numbered.csv")
    code, _, err = run("fit numbered.csv -o c.json")
    assert code == 1
    assert err == (
        "error: numbered.csv does not say which columns are scores: '', 'a', 'b', 'c', 'd'. "
        "If the scores are all columns except '', pass --ignore ''.\n"
    )
    assert run("fit numbered.csv -o i.json --ignore=")[0] == 0  # as `--ignore ''` is typed
    code, _, err = run("fit numbered.csv -o c.json --columns a,b,c,d")
    assert code == 0
    assert err.startswith("Scores are the 4 columns 'a', 'b', 'c', 'd'\n")
    frame.assign(id=np.arange(400)).to_csv("wide.csv", index=False)
    assert run("apply c.json wide.csv -o p.csv")[0] == 0
    assert pd.read_csv("p.csv")["id"].tolist() == list(range(400))


def test_whole_number_classes_match_numbers_in_files(run):
    np.savez("shifted.npz", logits=VAL[0], labels=VAL[1] + 1)
    assert run("fit shifted.npz -o c.json --method ec --classes 1,2,3,4")[0] == 0
    assert nishimori.load("c.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL), rel=1e-8)
    _code, out, _ = run("eval shifted.npz --calibration c.json --json")
    assert json.loads(out)["before"]["error"] == pytest.approx(metrics.error(*VAL))


def test_labels_in_text_files_keep_their_zeros(run):
    names = np.array(["00", "01", "02", "03"])
    pd.DataFrame(VAL[0]).assign(labels=names[VAL[1]]).to_csv("val.csv", index=False)
    assert run("fit val.csv -o c.json --classes 00,01,02,03")[0] == 0
    assert nishimori.load("c.json").classes == names.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 7.0])
def test_a_label_outside_the_classes_is_one_line(run, bad):
    labels = VAL[1].astype(float)
    labels[3] = bad
    np.savez("bad.npz", logits=VAL[0], labels=labels)
    code, _, err = run("fit bad.npz -o c.json --classes 0,1,2,3")
    assert code == 1
    assert f"must be among --classes, got '{bad}' in row 3 (counted from 0)" in err


def test_two_npy_files_work_for_fit_and_eval(run):
    np.save("z.npy", VAL[0])
    np.save("y.npy", VAL[1])
    assert run("fit z.npy y.npy -o c.json")[0] == 0
    assert run("eval z.npy y.npy --calibration c.json")[0] == 0
    assert run("apply c.json z.npy -o p.npy")[0] == 0


def test_nothing_is_overwritten_without_force(run):
    run("fit val.npz -o c.json")
    run("apply c.json test.npz -o p.npz")
    assert run("fit val.npz -o c.json") == (
        1,
        "",
        "error: c.json exists. Pass --force to replace it.\n",
    )
    assert run("apply c.json test.npz -o p.npz") == (
        1,
        "",
        "error: p.npz exists. Pass --force to replace it.\n",
    )
    assert run("fit val.npz -o c.json --force")[0] == 0
    assert run("apply c.json test.npz -o p.npz --force")[0] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit nowhere.npz -o c.json", "There is no file nowhere.npz."),
        ("fit val.npz -o nowhere/c.json", "There is no folder nowhere to write c.json to. Create it first."),
        ("apply nowhere.json test.npz -o p.npz", "There is no file nowhere.json."),
        (
            "fit . -o c.json",
            ". is a folder without tables. Name a file, or a folder of files such as .csv, .jsonl or .parquet.",
        ),
        ("fit val.npz -o .", ". is a folder. Choose the name of a file, such as calibration.json."),
        ("fit val.npz -o /dev/null --force", "/dev/null is not a regular file. Choose another name."),
        ("fit val.npz -o c.npz", "-o must be a file that ends in .json, got c.npz."),
        (
            "apply test.npz c.json -o p.npz",
            "test.npz is a file of scores, not a calibration.",
        ),
        ("demo -o val.npz", "val.npz is a file, but the demo needs a folder. Choose another name."),
        ("fit val.npz val.npz -o c.json", "val.npz is named twice, so its rows would count twice. Name each file once."),
        ("eval test.npz --n-bins 0", "--n-bins must be a whole number from 1 to 100000, got 0."),
        (
            "fit val.npz -o c.json --top-n 4",
            "--top-n must be a whole number from 1 to 3, one less than the number of classes, got 4.",
        ),
    ],
)
def test_an_error_is_one_line_and_exit_code_1(run, line, message):
    code, out, err = run(line)
    assert (code, out) == (1, "")
    assert err == f"error: {message}\n"


def test_no_temperature_is_an_error_of_one_line_and_no_file(run, tmp_path):
    np.savez("perfect.npz", logits=VAL[0], labels=VAL[0].argmax(axis=1))
    code, _, err = run("fit perfect.npz -o c.json")
    assert code == 1
    assert err.startswith("error: No temperature fits: all 400 samples are classified correctly")
    assert err.count("\n") == 1
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    "line",
    ["fit", "fit val.npz", "fit val.npz -o c.json --method xx", "frobnicate", "fit val.npz -o c.json --method ts --top-n 2"],
)
def test_wrong_usage_is_exit_code_2(run, line):
    code, _, err = run(line)
    assert code == 2
    assert "Traceback" not in err


def test_few_errors_are_a_warning_of_one_line(run):
    np.savez("few.npz", logits=VAL[0][:12], labels=VAL[1][:12])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run("fit few.npz -o c.json")
    assert code == 0
    assert err.startswith("warning: Only ")
    assert len(err.splitlines()) == 2


def test_version_and_help(run):
    assert run("--version") == (0, f"{nishimori.__version__} ({native.description()})\n", "")
    code, out, _ = run("--help")
    assert code == 0
    assert all(command in out for command in ("fit", "apply", "eval", "demo"))


def test_by_default_fit_adapts_between_ts_and_ec(run):
    code, out, err = run("fit val.npz -o c.json")
    assert (code, err) == (0, "Wrote c.json\n")
    loaded = nishimori.load("c.json")
    assert loaded.method == "adaptive"
    assert loaded.temperature_ == pytest.approx(nishimori.AdaptiveConsistency().fit(*VAL).temperature_, rel=2e-9)
    assert out.endswith("(adaptive, 400 samples: the model is overconfident)\n")
    told = json.loads(run("fit val.npz -o d.json --json")[1])
    assert [told["ec"], told["ts"]] == pytest.approx([reference.ec_temperature(*VAL), reference.ts_temperature(*VAL)], rel=1e-8)
    assert told["weight"] == loaded.weight_


def test_top_n_without_a_method_is_ec_and_with_auto_wrong_usage(run):
    assert run("fit val.npz -o c.json --top-n 2")[0] == 0
    assert nishimori.load("c.json").method == "ec"
    code, _, err = run("fit val.npz -o d.json --method adaptive --top-n 2")
    assert code == 2
    assert "the method adaptive has no parameter 'top_n'" in err


def test_none_writes_a_calibration_that_changes_nothing(run):
    assert run("fit val.npz -o c.json --method none") == (
        0,
        "T = 1  (none, 400 samples: nothing was fitted)\n",
        "Wrote c.json\n",
    )
    assert json.loads(run("fit val.npz -o d.json --method none --json")[1])["verdict"] is None
    assert run("apply c.json test.npz -o p.npz")[0] == 0
    with np.load("p.npz") as file:
        np.testing.assert_allclose(file["probabilities"], reference.softmax(TEST[0]), rtol=1e-12)
