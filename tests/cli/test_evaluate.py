"""`eval`: what a calibration already says, what it tells machines, and its picture."""

import json

import numpy as np
import pytest
import reference
import shell

import nishimori
from nishimori import metrics

LOGITS, LABELS = reference.drawn(300, 3, seed=5)
NAMES = ["x", "y", "z"]


@pytest.fixture
def place(tmp_path):
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=np.array(NAMES)[LABELS])
    np.savez(tmp_path / "p.npz", probabilities=reference.softmax(LOGITS), labels=LABELS)
    nishimori.from_temperature(2.0, classes=NAMES).save(tmp_path / "c.json")
    nishimori.from_temperature(2.0, input="probabilities").save(tmp_path / "p.json")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "eval t.npz --calibration c.json --classes z,y,x",
            "--classes must be 'x', 'y', 'z', as in the calibration, got 'z', 'y', 'x'. Leave it out.",
        ),
        (
            "eval t.npz --calibration c.json --classes x,y",
            "--classes must be 'x', 'y', 'z', as in the calibration, got 'x', 'y'.",
        ),
        (
            "eval p.npz --calibration p.json --input logits",
            "--input must be probabilities, as in the calibration, got logits. Leave it out.",
        ),
        (
            "eval p.npz --calibration p.json --floor 0.01",
            "--floor must be none, as in the calibration, got 0.01. Leave it out.",
        ),
        ("eval t.npz --classes x,y,z --floor 0.01", "--floor must be left out for logits"),
        ("eval t.npz --classes x,y,z --plot t.jpg", "--plot must be a file that ends in .png, .pdf or .svg, got t.jpg."),
        ("eval t.npz --classes x,y,z --plot no/t.png", "There is no folder no to write t.png to."),
        ("eval nowhere.npz --plot t.jpg", "There is no file nowhere.npz."),
        ("eval p.npz --calibration c.json", "The calibration was fitted to logits: pass a file of logits, or fit again"),
    ],
)
def test_what_contradicts_the_calibration_or_cannot_be_is_one_line(place, line, message):
    code, out, err = shell.nishimori(line, place=place)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_what_repeats_the_calibration_is_accepted(place):
    plain = shell.nishimori("eval t.npz --calibration c.json", place=place)
    assert plain.code == 0
    assert shell.nishimori("eval t.npz --calibration c.json --classes x,y,z --input logits", place=place) == plain


def test_machines_get_everything_that_people_see_and_the_bins(place):
    line = "eval t.npz --calibration c.json --json --n-bins 10 --strategy quantile --plot t.svg"
    ended = shell.nishimori(line, place=place)
    told = json.loads(ended.out)
    assert ended.out.count("\n") == 1
    assert {name: told[name] for name in told if name not in ("before", "after", "change")} == {
        "n_samples": 300,
        "n_bins": 10,
        "strategy": "quantile",
        "input": "logits",
        "floor": None,
        "classes": NAMES,
        "columns": None,
        "label_column": "labels",
        "group_column": None,
        "by": None,
        "calibration": "c.json",
        "plot": "t.svg",
        "prevalence": None,
        "files": ["t.npz"],
        "library_version": nishimori.__version__,
        "level": 0.95,
        "data_digest": (nishimori.rows(LOGITS, LABELS)).digest,
        "warnings": [],
    }
    for name, temperature in {"before": 1.0, "after": 2.0}.items():
        curve = metrics.reliability(LOGITS, LABELS, n_bins=10, strategy="quantile", temperature=temperature)
        card = told[name]
        assert card["temperature"] == temperature
        assert card["accuracy"] == pytest.approx(1 - card["error"])
        assert card["brier"] == metrics.brier(LOGITS, LABELS, temperature=temperature)
        for field in ("confidence", "accuracy", "weight", "count", "lower", "upper"):
            assert card["reliability"][field] == pytest.approx(getattr(curve, field).tolist(), rel=1e-12)


def test_machines_get_standard_errors_intervals_and_the_change(place):
    told = json.loads(shell.nishimori("eval t.npz --calibration c.json --json --level 0.8", place=place).out)
    rows = np.arange(300)
    for name, temperature in {"before": 1.0, "after": 2.0}.items():
        losses = -np.log(reference.softmax(LOGITS, temperature)[rows, LABELS])
        assert told[name]["nll_se"] == pytest.approx(losses.std() / np.sqrt(300))
        card = nishimori.evaluate(LOGITS, LABELS, temperature=temperature)
        for each, limits in told[name]["intervals"].items():
            assert limits == pytest.approx(card.interval(each, 0.8), rel=1e-12)
        assert set(told[name]["intervals"]) == {"error", "accuracy", "confidence", "gap", "ece", "brier", "nll"}
        assert told[name]["ece_corrected"] == card.ece_corrected
    change = told["change"]["nll"]
    assert change["value"] == pytest.approx(told["after"]["nll"] - told["before"]["nll"])
    assert change["interval"][0] < change["value"] < change["interval"][1]
    assert told["after"]["temperature_se"] is None  # of a temperature that was given
    assert json.loads(shell.nishimori("eval t.npz --classes x,y,z --json", place=place).out).get("change") is None


def test_people_see_errors_below_numbers_and_the_interval_of_the_ece(place):
    out = shell.nishimori("eval t.npz --calibration c.json --level 0.9", place=place).out
    lines = out.splitlines()
    (before,) = (i for i, line in enumerate(lines) if line.startswith("before "))
    card = nishimori.evaluate(LOGITS, LABELS)
    assert f"{100 * card.error:.1f} %" in lines[before]  # the error is larger than 1 %: one decimal
    assert f"{100 * card.error_se:.1f} %" in lines[before + 1]
    assert "±" in lines[before + 1]
    assert any("change" in line for line in lines)
    low, high = card.interval("ece", 0.9)
    assert f"90 % interval: before {100 * card.ece_corrected:.2f} % ({100 * low:.2f} to {100 * high:.2f} %)" in out
    assert max(map(len, lines[:-1])) <= 80
    ended = shell.nishimori("eval t.npz --classes x,y,z --level 95", place=place)
    assert (ended.code, ended.err) == (1, "error: --level must lie between 0 and 1, got 95.0.\n")


def test_many_bins_leave_out_the_change(place):
    told = json.loads(shell.nishimori("eval t.npz --calibration c.json --json --n-bins 2000", place=place).out)
    assert told["change"] is None
    assert told["after"]["ece_se"] > 0


def test_the_floor_of_a_calibration_is_used_and_can_be_given_without_one(place):
    p = reference.softmax(LOGITS)
    p[:20, 0] = 0
    p /= p.sum(axis=1, keepdims=True)
    np.savez(place / "zeros.npz", probabilities=p, labels=LABELS)
    assert shell.nishimori("fit zeros.npz -o f.json --input probabilities --floor 0.001", place=place).code == 0
    assert nishimori.load(place / "f.json").floor == 0.001
    used = json.loads(shell.nishimori("eval zeros.npz --calibration f.json --json", place=place).out)
    given = json.loads(shell.nishimori("eval zeros.npz --input probabilities --floor 0.001 --json", place=place).out)
    without = json.loads(shell.nishimori("eval zeros.npz --input probabilities --json", place=place).out)
    assert used["floor"] == given["floor"] == 0.001
    losses = -np.log(np.where(p == 0, 0.001, p))[np.arange(len(p)), LABELS]
    assert used["before"]["nll"] == pytest.approx(losses.mean(), rel=1e-12)  # the model as it is, but for zeros
    raised = np.maximum(p, 0.001) / np.maximum(p, 0.001).sum(axis=1, keepdims=True)
    assert given["before"]["nll"] == pytest.approx(-np.log(raised[np.arange(len(p)), LABELS]).mean(), rel=1e-12)
    assert given["before"]["nll"] < without["before"]["nll"]
    note = "NLL before calibration: no floor, but a true class of probability 0 counts as 0.001.\n"
    assert shell.nishimori("eval zeros.npz --calibration f.json", place=place).out.endswith(note)
    assert note not in shell.nishimori("eval t.npz --calibration c.json", place=place).out


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("PDF", b"%PDF"), ("svg", b"<?xml")])
def test_a_picture_is_drawn_in_the_format_of_its_ending(place, ending, start):
    line = f"eval t.npz --calibration c.json --plot t.{ending}"
    ended = shell.nishimori(line, place=place)
    assert (ended.code, ended.err) == (0, f"Wrote t.{ending}\n")
    assert (place / f"t.{ending}").read_bytes().startswith(start)
    assert shell.nishimori(line, place=place) == (1, "", f"error: t.{ending} exists. Pass --force to replace it.\n")
    assert shell.nishimori(f"{line} --force", place=place).code == 0


def test_a_picture_has_one_curve_per_row_of_the_table(place):
    shell.nishimori("eval t.npz --calibration c.json --plot t.svg", place=place)
    drawn = (place / "t.svg").read_text()
    assert ("before: ECE" in drawn, "after: ECE" in drawn) == (True, True)
    shell.nishimori("eval t.npz --classes x,y,z --plot u.svg", place=place)
    assert "after: ECE" not in (place / "u.svg").read_text()


def test_without_matplotlib_the_extra_is_named_before_any_work(place, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    code, out, err = shell.nishimori("eval t.npz --classes x,y,z --plot t.png", place=place)
    assert (code, out) == (1, "")
    assert "--plot needs matplotlib, which is not installed. Run `pip install 'nishimori[plot]'`." in err


def test_clusters_and_counts_change_standard_errors_only(tmp_path):
    logits, labels = reference.drawn(600, 4)
    weights, documents = np.full(600, 4.0), np.arange(600) // 20
    np.savez(tmp_path / "t.npz", logits=logits, labels=labels, w=weights, document=documents)
    given = {"": {}, "--clusters document": {"clusters": documents}, "--weights w --counts": {"sample_weight": weights}}
    given["--weights w --counts"]["counts"] = True
    for words, options in given.items():
        told = json.loads(shell.nishimori(f"eval t.npz --json {words}", place=tmp_path).out)["before"]
        card = nishimori.evaluate(logits, labels, **options)
        assert (told["nll"], told["nll_se"]) == pytest.approx((card.nll, card.nll_se))
        assert told["ece_se"] == pytest.approx(card.ece_se)
    ended = shell.nishimori("eval t.npz --clusters video", place=tmp_path)
    assert ended.code == 1
    assert "has no array 'video'" in ended.err
