"""``nishimori compare``: the numbers of `nishimori.compare`, from files of all kinds, in four forms."""

import json

import numpy as np
import pytest
import reference
import shell
from optional import pd

import nishimori

LOGITS, LABELS = reference.drawn(1200, 4)


def numbers(row):
    """A row of the table without its texts; NaN for what is not known."""
    return {name: np.nan if value is None else value for name, value in row.items() if not isinstance(value, str)}


@pytest.fixture
def place(tmp_path):
    for name, rows in {"val": slice(600), "test": slice(600, None)}.items():
        np.savez(tmp_path / f"{name}.npz", logits=LOGITS[rows], labels=LABELS[rows], w=np.full(600, 2.0))
        np.save(tmp_path / f"{name}.npy", LOGITS[rows])
        np.save(tmp_path / f"{name}_labels.npy", LABELS[rows])
        frame = pd.DataFrame(LOGITS[rows], columns=["a", "b", "c", "d"])
        frame.assign(labels=np.array(["a", "b", "c", "d"])[LABELS[rows]]).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    "files", ["val.npz test.npz", "val.npy val_labels.npy test.npy test_labels.npy", "val.csv test.csv --classes a,b,c,d"]
)
def test_json_has_the_numbers_of_the_library(place, files):
    ended = shell.nishimori(f"compare {files} --json", place=place)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    classes, labels = (list("abcd"), np.array(list("abcd"))[LABELS]) if ".csv" in files else (None, LABELS)
    expected = nishimori.compare(LOGITS[:600], labels[:600], LOGITS[600:], labels[600:], classes=classes).to_dict()
    assert told["verdicts"] == expected["verdicts"]
    assert told["recommendation"]["sentences"] == expected["verdicts"][:2]
    assert told["recommendation"]["simplest"]["method"] == "adaptive"
    for mine, theirs in zip(told["methods"], expected["methods"], strict=True):
        assert numbers(mine) == pytest.approx(numbers(theirs), rel=1e-6, nan_ok=True)
    assert (told["n_validation"], told["n_test"], told["is_test"]) == (600, 600, True)
    assert (told["warnings"], told["library_version"]) == ([], nishimori.__version__)


def test_people_see_a_table_per_question_and_sentences(place):
    ended = shell.nishimori("compare val.npz test.npz", place=place)
    found = nishimori.compare(LOGITS[:600], LABELS[:600], LOGITS[600:], LABELS[600:])
    assert (ended.code, ended.err) == (0, "")
    assert list(found.tables) == ["calibration", "scores", "classes", "differences"]
    for table in found.tables.values():
        assert table.text() in ended.out
    assert ended.out.splitlines()[-len(found.verdicts) :] == list(found.verdicts), "lines that are piped are whole"


@pytest.mark.parametrize(("option", "form"), [("--markdown", "to_markdown"), ("--latex", "to_latex")])
def test_other_forms_are_printed_as_they_are(place, option, form):
    ended = shell.nishimori(f"compare val.npz --methods none,ts {option}", place=place)
    found = nishimori.compare(LOGITS[:600], LABELS[:600], methods=("none", "ts"))
    assert ended.out == getattr(found, form)() + "\n"


@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_table_of_a_comparison_is_whole_on_a_terminal_of_80_columns(n_classes, tmp_path, monkeypatch):
    logits, labels = reference.drawn(3000, n_classes)
    np.savez(tmp_path / "val.npz", logits=3 * logits, labels=labels)
    with monkeypatch.context() as patch:
        patch.setattr("nishimori.cli._terminal._width", lambda: 80)
        ended = shell.nishimori("compare val.npz", place=tmp_path)
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split("  ")[0] for line in lines if not line.startswith(" ")]
    assert names.count("class temperatures") == 4, "once per table"
    piped = shell.nishimori("compare val.npz", place=tmp_path)
    assert max(len(line) for line in piped.out.splitlines() if not line.endswith(".")) <= 80, "tables in a pipe, too"
    assert len([name for name in names if name.startswith(("calibration", "scores", "classes", "minus "))]) == 4


def test_a_table_is_continued_below_itself_on_a_narrow_terminal(place, monkeypatch):
    monkeypatch.setattr("nishimori.cli._terminal._width", lambda: 40)
    ended = shell.nishimori("compare val.npz --methods none,ec", place=place)
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 40
    rows = [line.split() for line in lines if line.startswith("ec  ")]
    assert float(rows[0][1]) == pytest.approx(nishimori.temperatures(LOGITS[:600], LABELS[:600]).ec, rel=0.01)
    assert len(rows) > 4


def test_options_reach_the_library(place):
    words = "--methods none,ec --level 0.8 --n-bins 5 --strategy quantile --weights w --json"
    ended = shell.nishimori(f"compare val.npz {words}", place=place)
    told = json.loads(ended.out)
    weights = np.full(600, 2.0)
    options = {"level": 0.8, "n_bins": 5, "strategy": "quantile", "methods": ("none", "ec")}
    expected = nishimori.compare(LOGITS[:600], LABELS[:600], sample_weight=weights, **options).to_dict()
    assert numbers(told["methods"][1]) == pytest.approx(numbers(expected["methods"][1]), rel=1e-6, nan_ok=True)
    assert told["level"] == 0.8
    assert set(told["tests"]) == {"score_test", "temperature_test"}


def test_clusters_and_counts_change_the_errors_only(place):
    np.savez(place / "v.npz", logits=LOGITS[:600], labels=LABELS[:600], w=np.full(600, 4.0), document=np.arange(600) // 20)
    options = {"": {}, "--clusters document": {"clusters": np.arange(600) // 20}}
    options["--weights w --counts"] = {"sample_weight": np.full(600, 4.0), "counts": True}
    errors = {}
    for words, given in options.items():
        told = json.loads(shell.nishimori(f"compare v.npz --methods none,ec --json {words}", place=place).out)["methods"][1]
        expected = nishimori.compare(LOGITS[:600], LABELS[:600], methods=("none", "ec"), **given).to_dict()["methods"][1]
        assert numbers(told) == pytest.approx(numbers(expected), rel=1e-6, nan_ok=True)
        errors[words] = told["temperature_se"], told["nll_se"]
    assert len(set(errors.values())) == 3
    assert errors["--weights w --counts"][1] == pytest.approx(errors[""][1] / 2)


def test_a_sketch_is_compared_without_differences(place):
    assert shell.nishimori("sketch val.npz -o sums.npz", place=place).code == 0
    ended = shell.nishimori("compare sums.npz --json", place=place)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert "nll_difference" not in told["methods"][1]
    assert told["methods"][3]["temperature"] == pytest.approx(nishimori.temperatures(LOGITS[:600], LABELS[:600]).ec, rel=1e-5)


def test_an_error_names_the_file_and_the_line(place):
    table = pd.read_csv(place / "test.csv")
    table.loc[7, "b"] = np.inf
    table.to_csv(place / "bad.csv", index=False)
    ended = shell.nishimori("compare val.csv bad.csv --classes a,b,c,d", place=place)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("error: bad.csv")
    assert "line 9, column 'b'" in ended.err


def test_an_error_of_labels_names_the_file(place):
    np.savez(place / "bad.npz", logits=LOGITS[600:], labels=LABELS[600:] + 1)
    ended = shell.nishimori("compare val.npz bad.npz", place=place)
    assert ended.code == 1
    assert "error: bad.npz: The labels in 'labels' (--labels) must" in ended.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("nothing.npz", 1, "There is no file nothing.npz"),
        ("val.npz test.npz val.npz", 1, "Pass validation data, or validation and test data, one file each, got 3 files."),
        ("val.npy", 1, "two .npy files each (scores, labels), got 1 file."),
        ("val.npz --methods ec,ec", 1, "--methods must be different from each other, got ec, ec."),
        ("val.npz --level 2", 1, "--level must lie between 0 and 1, got 2.0."),
        ("val.npz --json --latex", 2, "choose one of --json, --markdown and --latex."),
    ],
)
def test_wrong_input_is_explained(place, words, code, message):
    ended = shell.nishimori(f"compare {words}", place=place)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
