"""Methods with several parameters from the shell: how they are asked for, what is printed, and what they do to rows."""

import json
import re

import numpy as np
import pytest
import reference
import shell

import nishimori

LOGITS, LABELS = reference.drawn(300, 3, seed=3)
SITES = np.array(["delta", "north", "south"])[np.arange(300) % 3]
SHIFTED = "--method small_calibrators:Shifted"


@pytest.fixture
def place(tmp_path):
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS, site=SITES)
    return tmp_path


def in_one_line(text):
    return " ".join(text.replace("│", " ").split())


def shifted(by, keep=False):
    """Probabilities after `small_calibrators.Shifted`."""
    centred = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    mapped = centred / 2 + np.array([by, 0, 0])
    if keep:
        same = mapped.argmax(axis=1) == LOGITS.argmax(axis=1)
        mapped = np.where(same[:, None], mapped, LOGITS / 2)
    return reference.softmax(mapped)


@pytest.mark.parametrize(("options", "by"), [("", 3.0), ("--param by=-1.5", -1.5), ("--param by=1e0", 1.0)])
def test_parameters_of_a_method_are_options(place, options, by):
    ended = shell.nishimori(f"fit t.npz -o c.json {SHIFTED} {options} --json", place=place)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["params"] == {"by": by, "preserve_accuracy": False}
    assert (told["temperature"], told["verdict"]) == (None, None)
    assert told["map"] == {"kind": "affine", "parameters": {"scale": 0.5, "bias": [by, 0.0, 0.0], "fallback": None}}
    assert shell.nishimori("apply c.json t.npz -o p.npy", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "p.npy"), shifted(by), rtol=1e-10)


def test_predictions_can_be_kept(place):
    assert shell.nishimori(f"fit t.npz -o c.json {SHIFTED} --preserve-accuracy", place=place).code == 0
    assert shell.nishimori("apply c.json t.npz -o p.npy", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "p.npy"), shifted(3.0, keep=True), rtol=1e-10)
    told = json.loads(shell.nishimori("eval t.npz --calibration c.json --json", place=place).out)
    assert told["after"]["error"] == told["before"]["error"]
    assert told["after"]["nll"] == pytest.approx(-np.log(shifted(3.0, keep=True)[np.arange(300), LABELS]).mean())


def test_eval_shows_how_much_the_error_changes(place):
    assert shell.nishimori(f"fit t.npz -o c.json {SHIFTED}", place=place).code == 0
    told = json.loads(shell.nishimori("eval t.npz --calibration c.json --json", place=place).out)
    changes = (shifted(3.0).argmax(axis=1) != LABELS).astype(float) - (LOGITS.argmax(axis=1) != LABELS)
    assert told["change"]["error"]["value"] == pytest.approx(changes.mean())
    assert told["change"]["error"]["se"] == pytest.approx(changes.std() / np.sqrt(300), rel=1e-3)
    assert told["after"]["temperature"] is None


@pytest.mark.parametrize(
    ("method", "line"),
    [
        (
            SHIFTED,
            "scale 0.5, bias (3, 0, 0)  (small_calibrators:Shifted, 300 samples)",
        ),
        (
            f"{SHIFTED} --preserve-accuracy --param by=-1",
            "scale 0.5, bias (−1, 0, 0), fallback 2  (small_calibrators:Shifted, 300 samples)",
        ),
        (
            "--method small_calibrators:PerGroup --groups site",
            "groups ('delta', 'north', 'south'), temperatures (1, 2, 3), common 4  (small_calibrators:PerGroup, 300 samples)",
        ),
    ],
)
def test_people_see_what_was_fitted_in_a_line(place, method, line):
    ended = shell.nishimori(f"fit t.npz -o c.json {method}", place=place)
    assert ended.code == 0, ended.err
    assert ended.out == f"{line}\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method ec --preserve-accuracy", "the method ec has no parameter 'preserve_accuracy', only top_n, smooth_labels."),
        ("--method ec --param shrink=1", "the method ec has no parameter 'shrink', only top_n, smooth_labels."),
        ("--method ts --param shrink=1", "the method ts has no parameter 'shrink', only smooth_labels."),
        (f"{SHIFTED} --param by", "must be NAME=VALUE, such as shrink=false, got 'by'."),
        (f"{SHIFTED} --param by=1 --param by=2", "by is passed twice, or set by another option."),
        (f"{SHIFTED} --param input=probabilities", "has no parameter 'input', only by, preserve_accuracy."),
        (f"{SHIFTED} --groups site", "does not use groups. Pass --method group."),
    ],
)
def test_wrong_usage_is_exit_code_2(place, options, message):
    ended = shell.nishimori(f"fit t.npz -o c.json {options}", place=place)
    assert (ended.code, ended.out) == (2, "")
    assert message in in_one_line(ended.err)
    assert not (place / "c.json").exists()


@pytest.mark.parametrize("method", ["bias", "vector", "matrix", "group", "classwise", "mixture", "dirichlet"])
def test_a_sketch_does_not_tell_several_parameters(place, method):
    assert shell.nishimori("sketch t.npz -o s.npz", place=place).code == 0
    ended = shell.nishimori(f"fit s.npz -o c.json --method {method}", place=place)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: A Sketch ")
    assert "Pass logits" in ended.err or "Pass the logits" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("value", ["false", "False"])
def test_shrinking_can_be_switched_off_and_there_are_errors_then(place, value):
    told = json.loads(shell.nishimori(f"fit t.npz -o c.json --method bias --param shrink={value} --json", place=place).out)
    alone = nishimori.BiasCorrected(shrink=False).fit(LOGITS, LABELS)
    assert told["params"]["shrink"] is False
    assert told["map"]["parameters"]["bias"] == pytest.approx(alone.biases_.tolist())
    assert told["parameters_se"]["biases"] == pytest.approx(alone.parameters_se_["biases"].tolist())
    assert told["why_no_se"] is None
    told = json.loads(shell.nishimori("fit t.npz -o d.json --method bias --json", place=place).out)
    assert told["parameters_se"] is None
    assert "Fit with --param shrink=false to have standard errors." in told["why_no_se"]


@pytest.mark.parametrize(
    ("method", "made"),
    [
        ("bias", nishimori.BiasCorrected),
        ("vector", nishimori.VectorScaling),
        ("matrix", nishimori.calibrators.MatrixScaling),
        ("classwise", nishimori.calibrators.ClasswiseTemperature),
    ],
)
def test_affine_methods_are_fitted_saved_applied_and_measured(place, method, made):
    fitted = made().fit(LOGITS, LABELS)
    ended = shell.nishimori(f"fit t.npz -o c.json --method {method}", place=place)
    assert ended.code == 0, ended.err
    assert ended.out.endswith(f"({method}, 300 samples)\n")
    assert "Affine(" not in ended.out
    assert shell.nishimori("apply c.json t.npz -o p.npy", place=place).code == 0
    centred = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    scale, bias = fitted.map_.scale, fitted.map_.bias
    mapped = (centred @ scale.T if scale.ndim == 2 else centred * scale) + bias
    np.testing.assert_allclose(np.load(place / "p.npy"), reference.softmax(mapped), rtol=1e-6)
    told = json.loads(shell.nishimori("eval t.npz --calibration c.json --json", place=place).out)
    assert told["after"]["nll"] == pytest.approx(-np.log(reference.softmax(mapped)[np.arange(300), LABELS]).mean(), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "fitted", "words"),
    [
        (
            "mixture",
            nishimori.calibrators.TemperatureMixture(),
            r"^temperature [\d.]+, weights \([\d.]+, [\d.]+, [\d.]+\)  \(mixture, ",
        ),
        (
            "dirichlet",
            nishimori.calibrators.Dirichlet(),
            r"^matrix from .* to .*, bias \(.*\)  \(dirichlet, ",
        ),
        ("dirichlet --param odir=[0.01,0.02]", nishimori.calibrators.Dirichlet(odir=(0.01, 0.02)), r"^matrix from "),
        (
            "classwise",
            nishimori.calibrators.ClasswiseTemperature(),
            r"^scale \([\d.]+, [\d.]+, [\d.]+\)  \(classwise, 300 ",
        ),
    ],
)
def test_maps_of_probabilities_are_fitted_described_applied_and_compared(place, options, fitted, words):
    ended = shell.nishimori(f"fit t.npz -o c.json --method {options}", place=place)
    assert ended.code == 0, ended.err
    assert re.search(words, ended.out)
    assert shell.nishimori("apply c.json t.npz -o p.npy", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "p.npy"), fitted.fit(LOGITS, LABELS).predict_proba(LOGITS), rtol=1e-6)


def test_masked_classes_are_refused_where_classes_are_added_up(place):
    assert shell.nishimori(f"fit t.npz -o c.json {SHIFTED}", place=place).code == 0
    masked = np.where((np.arange(300) == 7)[:, None] & (np.arange(3) != LABELS[:, None]), -np.inf, LOGITS)
    np.savez(place / "m.npz", logits=masked, labels=LABELS)
    for line in ("apply c.json m.npz -o p.npy", "eval m.npz --calibration c.json"):
        ended = shell.nishimori(line, place=place)
        assert (ended.code, ended.out) == (1, "")
        assert "must not have masked classes (-inf)" in ended.err
        assert ended.err.count("\n") == 1


def test_a_sketch_is_not_measured_after_a_map_with_several_parameters(place):
    assert shell.nishimori(f"fit t.npz -o c.json {SHIFTED}", place=place).code == 0
    assert shell.nishimori("sketch t.npz -o s.npz", place=place).code == 0
    ended = shell.nishimori("eval s.npz --calibration c.json", place=place)
    assert (ended.code, ended.out) == (1, "")
    assert "Pass logits" in ended.err


def test_a_method_is_finished_by_ec_with_the_parameters_of_both(place):
    asked = "--method vector+ec --param penalty=3 --param cv=4"
    ended = shell.nishimori(f"fit t.npz -o c.json {asked} --preserve-accuracy", place=place)
    assert ended.code == 0, ended.err
    shown = r"Then T = \d\.\d+ ± 0\.\d+, at which mean confidence equals accuracy on held-out samples  \(vector\+ec\)"
    assert re.search(shown, ended.out)
    fitted = nishimori.calibrators.Consistent(nishimori.VectorScaling(penalty=3, preserve_accuracy=True), cv=4).fit(
        LOGITS, LABELS
    )
    ended = shell.nishimori(f"fit t.npz -o d.json {asked} --json", place=place)
    told = json.loads(ended.out)
    assert told["params"] == {"cv": 4, "penalty": 3, "preserve_accuracy": False}
    assert told["ec_temperature"] == pytest.approx(
        nishimori.calibrators.Consistent(nishimori.VectorScaling(penalty=3), cv=4).fit(LOGITS, LABELS).ec_temperature_, rel=1e-9
    )
    assert shell.nishimori("apply c.json t.npz -o p.npy", place=place).code == 0
    np.testing.assert_allclose(np.load(place / "p.npy"), fitted.predict_proba(LOGITS), rtol=1e-9)


def test_groups_reach_the_method_that_is_finished(place):
    ended = shell.nishimori("fit t.npz -o c.json --method group+ec --groups site --json", place=place)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["map"]["kind"] == "group_temperatures"
    assert told["group_column"] == "site"


def test_an_unknown_method_that_would_be_finished_is_wrong_usage(place):
    ended = shell.nishimori("fit t.npz -o c.json --method vectr+ec", place=place)
    assert ended.code == 2
    assert "Did you mean 'vector+ec'?" in in_one_line(ended.err)
