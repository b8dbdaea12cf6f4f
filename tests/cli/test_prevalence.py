"""`--prevalence`: the calibrated probabilities for classes of other frequencies than those of the samples that fit had."""

import json

import numpy as np
import pytest
import reference

import nishimori

LOGITS, LABELS = reference.drawn(600, 3)
NAMES = ["cat", "dog", "eel"]
NEW = np.array([0.7, 0.25, 0.05])


@pytest.fixture
def files(tmp_path, run):
    np.savez(tmp_path / "val.npz", logits=LOGITS, labels=LABELS)
    assert run("fit val.npz -o c.json --classes cat,dog,eel").code == 0


def expected():
    p = nishimori.calibrator("adaptive").fit(LOGITS, LABELS).predict_proba(LOGITS) * NEW / np.bincount(LABELS)
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.usefixtures("files")
def test_apply_writes_probabilities_for_other_frequencies(run, tmp_path):
    ended = run("apply c.json val.npz -o p.npz --prevalence cat=0.7,eel=0.05,dog=0.25 --json")
    assert json.loads(ended.out)["prevalence"] == pytest.approx(NEW.tolist())
    np.testing.assert_allclose(np.load(tmp_path / "p.npz")["probabilities"], expected(), rtol=1e-9)
    assert json.loads(run("apply c.json val.npz -o q.npz --json").out)["prevalence"] is None


@pytest.mark.usefixtures("files")
def test_eval_measures_them(run):
    found = json.loads(run("eval val.npz --calibration c.json --prevalence cat=0.7,dog=0.25,eel=0.05 --json").out)
    assert found["prevalence"] == pytest.approx(NEW.tolist())
    assert found["after"]["nll"] == pytest.approx(-np.log(expected()[np.arange(600), LABELS]).mean(), rel=1e-9)


def test_a_single_number_is_the_share_of_the_second_of_two_classes(run, tmp_path):
    logits, labels = reference.drawn(600, 2)
    np.savez(tmp_path / "two.npz", logits=logits, labels=labels)
    assert run("fit two.npz -o two.json --method platt").code == 0
    found = json.loads(run("eval two.npz --calibration two.json --prevalence 0.01 --json").out)
    assert found["prevalence"] == pytest.approx([0.99, 0.01])
    odds = nishimori.calibrator("platt").fit(logits, labels).predict_proba(logits)
    shifted = odds * [0.99, 0.01] / np.bincount(labels)
    assert found["after"]["confidence"] == pytest.approx((shifted.max(axis=1) / shifted.sum(axis=1)).mean(), rel=1e-9)


REFUSED = {
    "cat=0.7,dog=0.25,eel=0.15": "sum to 1",
    "cat=0.75,dog=0.25,eel=0": "above 0 for each class, got 0 for class eel",
    "cat=0.75,dog=0.35,eel=-0.1": "got -0.1 for class eel",
    "cat=0.75,dog=0.25": "none for class eel",
    "cat=0.75,dog=0.2,emu=0.05": "got 'emu'",
    "0.3": "one number for each of 3 classes",
    "often": "'often' is neither a number such as 0.01",
    "cat=0.5,0.5": "is neither a number such as 0.01",
    "cat=0.5,cat=0.5": "is neither a number such as 0.01",
    "cat=half,dog=0.25,eel=0.25": "is neither a number such as 0.01",
}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("typed", REFUSED)
def test_what_is_no_frequency_is_refused_and_nothing_is_written(typed, run, tmp_path):
    ended = run(f"apply c.json val.npz -o p.npz --prevalence {typed}")
    assert ended.code == (2 if "is neither a number" in REFUSED[typed] else 1)
    assert REFUSED[typed] in " ".join(ended.err.replace("│", " ").split())
    assert not (tmp_path / "p.npz").exists()


@pytest.mark.usefixtures("files")
def test_eval_needs_the_calibration_that_knows_the_old_ones(run):
    ended = run("eval val.npz --prevalence 0.3")
    assert ended.code == 1
    assert "--prevalence must be passed together with --calibration" in " ".join(ended.err.split())
