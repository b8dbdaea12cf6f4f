"""`demo` on bundled and stored networks."""

import json
import re

import numpy as np
import pytest
import reference

import nishimori
from nishimori import AdaptiveConsistency, data


def test_the_demo_calibrates_a_bundled_network_and_draws_it(run, tmp_path):
    code, out, err = run("demo --json")
    assert code == 0
    network = data.load("cifar10/resnet20")
    table = json.loads(out)
    assert list(table) == ["before", "after adaptive", "after EC", "after TS", "after best"]
    validation = (network.validation.logits, network.validation.labels)
    assert table["after EC"]["temperature"] == pytest.approx(reference.ec_temperature(*validation, low=0.1, high=10), rel=1e-8)
    assert table["after TS"]["temperature"] == pytest.approx(reference.ts_temperature(*validation, low=0.1, high=10), rel=1e-8)
    assert table["after TS"]["temperature"] < table["after adaptive"]["temperature"] < table["after EC"]["temperature"]
    default = AdaptiveConsistency().fit(*validation)  # whose T is compared with the formula elsewhere
    assert table["after adaptive"]["temperature"] == pytest.approx(default.temperature_, rel=1e-9)
    assert table["after adaptive"]["temperature_se"] == pytest.approx(default.temperature_se_, rel=1e-9)
    assert table["before"]["error"] == pytest.approx(network.provenance["test_error"])
    assert table["before"]["confidence"] > 1 - table["before"]["error"] + 0.02
    assert table["after EC"]["ece"] < table["before"]["ece"] / 2
    best = nishimori.calibrator("best").fit(*validation)
    wrong = (best.predict(network.test.logits) != network.test.labels).mean()
    assert (table["after best"]["temperature"], table["after best"]["error"]) == (None, pytest.approx(wrong))
    assert wrong < table["before"]["error"] - 0.02
    what, *rest = err.splitlines()
    assert what.startswith("cifar10/resnet20: 269,722 parameters; trained by nishimori; 45,000 training images; data: CIFAR-10")
    assert len(rest) == 2
    assert (tmp_path / "nishimori-demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
    for name, part in (("val", network.validation), ("test", network.test)):
        with np.load(f"nishimori-demo/{name}.npz") as file:
            np.testing.assert_array_equal(file["logits"], part.logits)
            np.testing.assert_array_equal(file["labels"], part.labels)


def test_the_demo_takes_a_stored_network_that_says_nothing_of_itself(run):
    parts = [data.Labelled(*each) for each in (reference.drawn(400, 4, seed=1), reference.drawn(300, 4, seed=2))]
    data.save(data.Network("mine", *parts), "mine.npz")
    code, out, err = run("demo --network mine.npz")
    assert code == 0
    assert out.startswith("300 test images, T from 400 others\n")
    assert err.startswith("mine: its file says no more\n")


def test_people_see_what_compare_says_of_the_methods(run):
    code, out, _ = run("demo")
    assert code == 0
    network = data.load("cifar10/resnet20")
    logits, labels = network.test.logits, network.test.labels
    lines = out.splitlines()
    headers, _, *rows = (re.split("  +", line) for line in lines[1:8])
    assert headers == ["calibration", "T", "gap", "ECE, 95 % interval"]
    assert [row[0] for row in rows] == ["none", "adaptive", "ec", "ts", "best"]
    scores = {re.split("  +", line)[0]: re.split("  +", line) for line in lines[9:16]}
    for name, T, gap, _ in rows[:4]:
        p = reference.softmax(logits, float(T.split()[0]))
        expected = 100 * (p.max(axis=1) - (p.argmax(axis=1) == labels)).mean()
        assert float(gap.split()[0]) == pytest.approx(expected, abs=0.02)
        assert float(scores[name][2].split()[0]) == pytest.approx(reference.nll(logits, labels, float(T.split()[0])), abs=1e-3)
    assert [line.split(" (")[0].split(",")[0] for line in lines[-2:]] == ["Use adaptive", "If predictions may change"]


def test_where_classes_are_masked_best_takes_a_method_that_can_be_fitted(run):
    parts = []
    for logits, labels in (reference.drawn(400, 4, seed=1), reference.drawn(300, 4, seed=2)):
        logits[labels != 3, 3] = -np.inf
        parts.append(data.Labelled(logits, labels))
    data.save(data.Network("mine", *parts), "mine.npz")
    code, out, _ = run("demo --network mine.npz")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[3:8]] == ["none", "adaptive", "ec", "ts", "best"]


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
    assert run("demo --force")[0] == 0


def test_a_network_that_is_not_bundled_is_one_line_with_those_that_are(run, tmp_path):
    code, out, err = run("demo --network resnet20")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: There is no bundled network 'resnet20'; there are {', '.join(data.names())}")
    assert err.endswith(". A file's name ends in .npz.\n")
    assert err.count("\n") == 1
    assert not (tmp_path / "nishimori-demo").exists()
