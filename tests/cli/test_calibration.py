"""The command as a person types it: what it prints where, what it writes, and how it ends."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import nishimori
import reference
import shell
from nishimori import data, metrics, paper

VAL, TEST = reference.drawn(400, 4, seed=1), reference.drawn(300, 4, seed=2)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run ``nishimori`` in a new folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for name, (logits, labels) in {"val": VAL, "test": TEST}.items():
        np.savez(f"{name}.npz", logits=logits, labels=labels, w=np.arange(len(labels)) % 3)

    return shell.nishimori


def test_fit_writes_what_load_reads_and_says_the_temperature(run):
    code, out, err = run("fit val.npz -o c.json")
    assert (code, err) == (0, "Wrote c.json\n")
    loaded = nishimori.load("c.json")
    assert loaded.temperature_ == pytest.approx(reference.ec_temperature(*VAL), rel=1e-8)
    assert out == f"T = {loaded.temperature_:.6g}  (ec, 400 samples: the model is overconfident)\n"


def test_fit_has_both_methods_top_n_and_weights(run):
    assert run("fit val.npz -o ts.json --method ts")[0] == 0
    assert run("fit val.npz -o top2.json --top-n 2")[0] == 0
    assert run("fit val.npz -o weighted.json --weights w")[0] == 0
    assert nishimori.load("ts.json").temperature_ == pytest.approx(reference.ts_temperature(*VAL), rel=1e-8)
    assert nishimori.load("top2.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL, top_n=2), rel=1e-8)
    weights = np.arange(400) % 3
    assert nishimori.load("weighted.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL, weights), rel=1e-8)


def test_fit_prints_one_json_object_for_machines(run):
    code, out, _ = run("fit val.npz -o c.json --json")
    result = json.loads(out)
    assert code == 0
    assert result["temperature"] == nishimori.load("c.json").temperature_
    assert result["n_samples"] == 400
    assert abs(result["residual"]) < 1e-9


def test_fit_takes_probabilities_only_when_told(run):
    np.savez("p.npz", probabilities=reference.softmax(VAL[0]), labels=VAL[1])
    assert run("fit p.npz -o p.json --input probabilities")[0] == 0
    assert nishimori.load("p.json").input == "probabilities"
    assert nishimori.load("p.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL), rel=1e-8)
    code, _, err = run("fit p.npz -o q.json")
    assert code == 1
    assert err == (
        "error: p.npz has no array 'logits', only 'probabilities', 'labels'. "
        "Name yours with --scores, or pass --input probabilities.\n"
    )
    code, _, err = run("fit p.npz -o q.json --scores probabilities")
    assert code == 0
    assert err.startswith("Each row of logits sums to 1. If they are probabilities, pass --input probabilities\n")


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
    assert result["after"]["ece"] == metrics.ece(*TEST, strategy="quantile", temperature=T)
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
    assert f"{100 * metrics.error(*TEST):.2f} %" in out
    assert "after" not in out


def test_tables_keep_the_names_of_their_columns(run):
    columns = ["ant", "bee", "cat", "dog"]
    frame = pd.DataFrame(VAL[0], columns=columns)
    frame.assign(labels=np.array(columns)[VAL[1]]).to_csv("val.csv", index=False)
    frame[columns[::-1]].to_csv("permuted.csv", index=False)
    frame.to_csv("fine.csv", index=False)
    assert run("fit val.csv -o c.json --classes ant,bee,cat,dog")[0] == 0
    assert nishimori.load("c.json").temperature_ == pytest.approx(reference.ec_temperature(*VAL), rel=1e-8)
    assert run("apply c.json fine.csv -o p.csv")[0] == 0
    assert pd.read_csv("p.csv").columns.tolist() == columns
    code, _, err = run("apply c.json permuted.csv -o q.csv")
    assert code == 1
    assert err == (
        "error: The calibration was fitted to the columns ant, bee, cat, dog, but the file has dog, cat, bee, ant. "
        "Name the right ones in the right order with --columns.\n"
    )
    assert run("apply c.json permuted.csv -o q.csv --columns ant,bee,cat,dog")[0] == 0
    code, out, _ = run("eval val.csv --calibration c.json --json")
    assert json.loads(out)["before"]["error"] == pytest.approx(metrics.error(*VAL))
    code, _, err = run("fit val.csv -o d.json")
    assert code == 1
    assert "pass the label of each column in order: --classes." in err
    code, _, err = run("fit val.csv -o d.json --classes dog,cat,bee,ant")
    assert code == 1
    assert "--classes must be in the order of the columns" in err


def test_row_numbers_are_not_taken_for_scores(run):
    frame = pd.DataFrame(VAL[0], columns=list("abcd")).assign(labels=VAL[1])
    frame.to_csv("numbered.csv")
    code, _, err = run("fit numbered.csv -o c.json")
    assert code == 1
    assert "has a column '', which looks like row numbers. Name the columns of scores with --columns" in err
    code, _, err = run("fit numbered.csv -o c.json --columns a,b,c,d")
    assert code == 0
    assert err.startswith("Scores are the 4 columns a to d\n")
    frame.assign(id=np.arange(400)).to_csv("wide.csv", index=False)
    code, _, err = run("apply c.json wide.csv -o p.csv")
    assert code == 1
    assert "The calibration was fitted to the columns a, b, c, d, but the file has a, b, c, d, id" in err


def test_whole_number_classes_match_numbers_in_files(run):
    np.savez("shifted.npz", logits=VAL[0], labels=VAL[1] + 1)
    assert run("fit shifted.npz -o c.json --classes 1,2,3,4")[0] == 0
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
    assert f"must be among --classes, got '{bad}' in row 3" in err


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
        ("fit . -o c.json", ". is a folder. Name a file in it."),
        ("fit val.npz -o .", ". is not a regular file. Choose another name."),
        ("fit val.npz -o /dev/null --force", "/dev/null is not a regular file. Choose another name."),
        ("fit val.npz -o c.npz", "c.npz would hold a calibration, which is JSON. Choose a name that ends in .json."),
        (
            "apply test.npz c.json -o p.npz",
            "test.npz is not a calibration. Pass the calibration first, then the file: apply c.json test.npz.",
        ),
        ("demo -o val.npz", "val.npz is a file, and the demo needs a folder. Choose another name."),
        ("fit val.npz test.npz -o c.json", "Pass one file, or two .npy files: scores first, labels second."),
        ("eval test.npz --n-bins 0", "--n-bins must be a whole number of at least 1, got 0."),
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
    assert run("--version") == (0, f"{nishimori.__version__}\n", "")
    code, out, _ = run("--help")
    assert code == 0
    assert all(command in out for command in ("fit", "apply", "eval", "demo"))


def test_the_demo_calibrates_a_bundled_network_and_draws_it(run, tmp_path):
    code, out, err = run("demo --json")
    assert code == 0
    network = data.load("cifar10/resnet20")
    table = json.loads(out)
    assert list(table) == ["before", "after EC", "after TS"]
    validation = (network.validation.logits, network.validation.labels)
    assert table["after EC"]["temperature"] == pytest.approx(reference.ec_temperature(*validation, low=0.1, high=10), rel=1e-8)
    assert table["after TS"]["temperature"] == pytest.approx(reference.ts_temperature(*validation, low=0.1, high=10), rel=1e-8)
    assert table["before"]["error"] == pytest.approx(network.provenance["test_error"])
    assert table["before"]["confidence"] > 1 - table["before"]["error"] + 0.02
    assert table["after EC"]["ece"] < table["before"]["ece"] / 2
    what, *rest = err.splitlines()
    assert what.startswith("cifar10/resnet20: 269,722 parameters; trained by nishimori; 45,000 training images; data: CIFAR-10")
    assert len(rest) == 2
    assert (tmp_path / "nishimori-demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
    for name, part in (("val", network.validation), ("test", network.test)):
        with np.load(f"nishimori-demo/{name}.npz") as file:
            np.testing.assert_array_equal(file["logits"], part.logits)
            np.testing.assert_array_equal(file["labels"], part.labels)


def test_the_demo_takes_any_bundled_network_and_says_how_much_it_saw(run):
    code, out, err = run("demo --network svhn/resnet20-authors -o svhn")
    assert code == 0
    assert out.startswith("26,032 test images; T from 7,325 others")
    assert err.startswith("svhn/resnet20-authors: 269,722 parameters; trained by the paper's authors, published in")


def test_the_demo_takes_a_stored_network_that_says_nothing_of_itself(run):
    parts = [data.Labelled(*each) for each in (VAL, TEST)]
    data.save(data.Network("mine", *parts), "mine.npz")
    code, out, err = run("demo --network mine.npz")
    assert code == 0
    assert out.startswith("300 test images; T from 400 others")
    assert err.startswith("mine: its file says no more\n")


def test_the_demo_keeps_existing_files_unless_told_to(run, tmp_path):
    folder = tmp_path / "nishimori-demo"
    folder.mkdir()
    for name in ("val.npz", "test.npz", "demo.png"):
        (folder / name).write_text("mine")
        code, out, err = run("demo")
        assert (code, out) == (1, "")
        assert err == f"error: nishimori-demo/{name} exists. Pass --force to replace it.\n"
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, "mine")]
        (folder / name).unlink()
    assert run("demo")[0] == 0
    assert run("demo")[0] == 1
    assert run("demo --network cifar10/resnet56 --force")[0] == 0


def test_a_network_that_is_not_bundled_is_one_line_with_those_that_are(run, tmp_path):
    code, out, err = run("demo --network resnet20")
    assert (code, out) == (1, "")
    listed = ", ".join(data.names())
    assert err == f"error: There is no bundled network 'resnet20'; there are {listed}. A file's name ends in .npz.\n"
    assert not (tmp_path / "nishimori-demo").exists()


def test_theory_prints_the_papers_temperatures(run):
    code, out, err = run("theory affine --alpha 20 --penalty 1e-4")
    assert (code, err) == (0, "")
    assert "1.3543" in out
    assert "1.2420" in out
    assert "4.36 %" in out


def test_theory_finds_the_best_penalty_and_prints_json(run):
    code, out, _ = run("theory logit --alpha 5 --penalty error --json")
    found = json.loads(out)
    assert code == 0
    assert found["penalty"] == pytest.approx(1.10187, rel=1e-4)
    assert found["after_EC"]["confidence"] == pytest.approx(1 - found["after_EC"]["error"], abs=1e-9)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "theory cubic --alpha 2 --penalty 1",
            "error: `teacher` must be one of logit, affine, constant, probit, got 'cubic'.\n",
        ),
        ("theory logit --alpha -1 --penalty 1", "error: `alpha` must be a positive finite number, got -1.0.\n"),
        ("theory logit --alpha 1 --penalty 0", "error: `penalty` must be a positive finite number, got 0.0.\n"),
        ("theory logit --alpha 1 --penalty much", "error: `--penalty` must be a number, error or loss, got 'much'.\n"),
        ("theory logit --alpha 1 --penalty 1 --rho 0", "error: `rho` must be a positive finite number, got 0.0.\n"),
        (
            "paper run figure-9",
            f"error: There is no artefact 'figure-9' of the paper; there are {', '.join(paper.names())}.\n",
        ),
    ],
)
def test_wrong_theory_is_one_line(run, line, message):
    assert run(line) == (1, "", message)


def test_paper_lists_runs_and_checks(run, tmp_path):
    code, out, _ = run("paper list --json")
    names = [row["name"] for row in json.loads(out)["artefacts"]]
    assert code == 0
    assert "figure-density" in names
    code, out, err = run("paper run figure-density --quick -o results")
    assert (code, out) == (0, "")
    assert err == "figure-density: 2 agree, 3 explained; wrote 6 files to results\n"
    assert {path.suffix for path in (tmp_path / "results").iterdir()} == {".png", ".svg", ".csv", ".json"}
    assert run("paper run figure-density --quick -o results") == (
        0,
        "",
        "figure-density: 2 agree, 3 explained; already in results; --force starts over\n",
    )
    code, out, err = run("paper check figure-density -o results")
    assert code == 0
    assert "explained" in out
    assert "half the line gives the paper's number" in err
    code, _, err = run("paper run figure-density -o results")
    assert code == 1
    assert "holds another run" in err


def test_paper_says_what_it_has_not_got(run, tmp_path):
    code, out, err = run("paper check bayes -o nowhere")
    assert (code, out) == (1, "")
    assert "There is no nowhere/bayes.json. Run bayes with this -o first" in err


def test_check_ends_with_three_where_the_paper_is_contradicted(run):
    code, out, _ = run("paper check claims --quick --json")
    assert code == 3
    assert {row["verdict"] for row in json.loads(out)["claims"]} == {"agrees", "explained", "differs"}
