"""`nishimori show` says what each kind of file is, and commands say it of files in wrong places."""

import json

import numpy as np
import pytest
import reference
import shell

import nishimori
from nishimori.cli._files import kind_of


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One file of each kind that nishimori writes."""
    place = tmp_path_factory.mktemp("files")
    logits, labels = reference.drawn(300, 3)
    np.savez(place / "scores.npz", logits=logits, labels=labels)
    for method in ("ec", "bias", "group", "isotonic"):
        assert shell.nishimori(f"fit scores.npz --method {method} -o {method}.json", place=place).code == 0
    assert shell.nishimori("sketch scores.npz -o sketch.npz", place=place).code == 0
    for ending in ("json", "md", "html"):
        assert shell.nishimori(f"report scores.npz -o report.{ending}", place=place).code == 0
    assert shell.nishimori("gate scores.npz --bound ece=0.9 -o gate.json", place=place).code == 0
    for name, words in {"eval": "eval scores.npz", "compare": "compare scores.npz", "methods": "methods"}.items():
        (place / f"{name}.json").write_text(shell.nishimori(f"{words} --json", place=place).out)
    (place / "fit.json").write_text(shell.nishimori("fit scores.npz -o again.json --json", place=place).out)
    targets = np.column_stack([labels == 0, labels == 1])
    nishimori.multilabel.MultilabelCalibrator().fit(logits[:, :2], targets).save(place / "multilabel.json")
    (place / "other.json").write_text("[1]")
    return place


KINDS = {
    "ec.json": "calibration",
    "bias.json": "calibration",
    "group.json": "calibration",
    "isotonic.json": "calibration",
    "multilabel.json": "multilabel calibration",
    "sketch.npz": "sketch",
    "report.json": "report",
    "gate.json": "result of gate",
    "eval.json": "result of eval",
    "compare.json": "result of compare",
    "fit.json": "result of fit",
    "methods.json": "result of methods",
    "scores.npz": "file of scores",
    "other.json": "JSON that nishimori did not write",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_every_kind_of_file_is_shown(files, name, kind):
    told = shell.nishimori(f"show {name} --json", place=files)
    assert (told.code, told.err) == (0, "")
    content = json.loads(told.out)
    assert content["kind"] == kind
    text = shell.nishimori(f"show {name}", place=files)
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith("file ")
    if "library_version" in content:
        assert content["library_version"] == nishimori.__version__


def test_a_calibration_has_its_method_temperature_and_samples(files):
    fitted = nishimori.load(files / "ec.json")
    told = json.loads(shell.nishimori("show ec.json --json", place=files).out)
    assert (told["method"], told["temperature"], told["n_samples"], told["n_classes"]) == ("ec", fitted.temperature_, 300, 3)
    text = shell.nishimori("show ec.json", place=files).out
    error = f"{told['temperature_se']:.2g}"
    assert f"± {error}" in text


@pytest.mark.parametrize("method", ["best", "best+ec"])
def test_a_choice_is_shown_in_lines_without_its_table_and_without_empty_parameters(files, method):
    (files / "chosen.json").unlink(missing_ok=True)
    fitted = shell.nishimori(f"fit scores.npz --method {method} -o chosen.json", place=files)
    assert fitted.code == 0
    assert "out-of-fold NLL" in fitted.out
    lines = shell.nishimori("show chosen.json", place=files).out.splitlines()
    (does,) = (line for line in lines if line.startswith("what it does"))
    assert "Chosen: " in does
    assert ("Then T = " in does) == (method == "best+ec")
    assert "out-of-fold" not in does
    assert not any(" ," in line or line.endswith(" ") for line in lines)


def test_a_sketch_has_both_temperatures(files):
    with np.load(files / "scores.npz") as content:
        found = nishimori.temperatures(content["logits"], content["labels"])
    told = json.loads(shell.nishimori("show sketch.npz --json", place=files).out)
    assert (told["temperature_ec"], told["temperature_ts"]) == pytest.approx((found.ec, found.ts), rel=1e-3)
    assert told["n_samples"] == 300


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit ec.json -o x.json", "ec.json is a calibration, not a file of scores. Pass it with --calibration"),
        ("eval report.json", "report.json is a report, not a file of scores."),
        ("gate gate.json --bound ece=0.1", "gate.json is the result of gate, not a file of scores."),
        ("compare scores.npz ec.json", "ec.json is a calibration, not a file of scores."),
        ("report ec.json", "ec.json is a calibration, not a file of scores."),
        ("sketch ec.json -o x.npz", "ec.json is a calibration, not a file of scores."),
        ("apply ec.json bias.json -o x.npz", "bias.json is a calibration, not a file of scores."),
        ("apply report.json scores.npz -o x.npz", "report.json is a report, not a calibration."),
        ("eval scores.npz --calibration sketch.npz", "sketch.npz is a sketch, not a calibration."),
        ("merge ec.json -o x.npz", "ec.json is a calibration, not a sketch."),
        (
            "diff gate.json eval.json",
            "gate.json is the result of gate, not a report, a sketch, a calibration, or the result of eval or fit.",
        ),
        ("diff scores.npz eval.json", "scores.npz is a file of scores, not a report, a sketch, "),
    ],
)
def test_a_file_in_the_wrong_place_is_called_by_its_kind(files, words, message):
    ended = shell.nishimori(words, place=files)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {message}")


def test_what_nishimori_does_not_know_is_refused(files):
    (files / "notes.txt").write_text("notes")
    assert kind_of(files / "notes.txt") is None
    ended = shell.nishimori("show notes.txt", place=files)
    assert (ended.code, ended.err) == (1, "error: notes.txt is not a file that nishimori reads.\n")
    assert shell.nishimori("show none.json", place=files).code == 1


def test_reports_that_are_compared_share_no_samples(files):
    same = shell.nishimori("diff report.json report.json", place=files)
    assert same.code == 1
    assert "must be about independent samples, got two reports about the same file" in same.err
    results = json.loads((files / "report.json").read_text())

    def about(**hashes):
        told = [{"role": role, "name": "x", "bytes": 1, "sha256": each} for role, each in hashes.items()]
        measured = "test" if "test" in hashes else "validation"
        return results | {
            "provenance": results["provenance"] | {"files": told},
            "data": results["data"] | {"measured_on": measured, "data_digest": None},
        }

    others = ["accuracy", "gap", "ece", "nll", "gap_after", "ece_after", "nll_after"]
    same_fit = nishimori.diff(about(validation="a", test="b"), about(validation="a", test="c"))
    assert [each.name for each in same_fit.changes] == others
    found = nishimori.diff(about(validation="a", test="b"), about(validation="d", test="e"))
    assert [each.name for each in found.changes] == ["temperature", *others]
    (row,) = (each for each in results["methods"] if each["method"] == "adaptive")
    assert (found["temperature"].new, found["temperature"].new_se) == (row["temperature"], row["temperature_se"])
    assert found["nll_after"].old == row["nll"]
    with np.load(files / "scores.npz") as content:
        card = nishimori.evaluate(content["logits"], content["labels"])
    assert (found["gap"].old, found["gap"].old_se) == pytest.approx((card.gap, card.gap_se))
    low, high = card.interval("ece")
    # Both sides are the same, so that the lower error of one and the upper one of the other count.
    assert found["ece"].se == pytest.approx(np.hypot(card.ece_corrected - low, high - card.ece_corrected) / 1.959964)


def test_diff_prints_a_table_and_ends_with_code_3_if_asked(files):
    again = shell.nishimori("diff sketch.npz sketch.npz --fail-on-difference", place=files)
    assert again.code == 0
    assert "not significant" in again.out
    logits, labels = reference.drawn(300, 3, seed=5)
    np.savez(files / "changed.npz", logits=6 * logits, labels=labels)
    assert shell.nishimori("sketch changed.npz -o changed_sketch.npz", place=files).code == 0
    words = "diff sketch.npz changed_sketch.npz"
    assert shell.nishimori(words, place=files).code == 0
    ended = shell.nishimori(f"{words} --fail-on-difference --json", place=files)
    assert ended.code == 3
    told = json.loads(ended.out)
    assert "gap" in told["different"]
    assert told["old_file"] == "sketch.npz"
    assert "| gap |" in shell.nishimori(f"{words} --markdown", place=files).out


@pytest.mark.parametrize("text", ["", '{"format": "nish', "[" * 100_000], ids=["empty", "cut", "deep"])
def test_json_that_cannot_be_read_is_an_error_that_says_why(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    ended = shell.nishimori("show a.json", place=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: a.json cannot be read: ")
