"""`demo` on bundled and stored networks."""

import json

import numpy as np
import pytest
import reference

from nishimori import AdaptiveConsistency, BiasCorrected, data


def test_the_demo_calibrates_a_bundled_network_and_draws_it(run, tmp_path):
    code, out, err = run("demo --json")
    assert code == 0
    network = data.load("cifar10/resnet20")
    table = json.loads(out)
    assert list(table) == ["before", "after adaptive", "after EC", "after TS", "after bias"]
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
    chosen = BiasCorrected().fit(*validation).map_
    centred = network.test.logits - network.test.logits.mean(axis=1, keepdims=True)
    mapped = chosen.scale * centred.astype(np.float64) + chosen.bias
    wrong = (mapped.argmax(axis=1) != network.test.labels).mean()
    assert (table["after bias"]["temperature"], table["after bias"]["error"]) == (None, pytest.approx(wrong))
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
    assert out.startswith("300 test images; T from 400 others")
    assert err.startswith("mine: its file says no more\n")


def test_a_bias_is_left_out_where_classes_are_masked(run):
    parts = []
    for logits, labels in (reference.drawn(400, 4, seed=1), reference.drawn(300, 4, seed=2)):
        logits[labels != 3, 3] = -np.inf
        parts.append(data.Labelled(logits, labels))
    data.save(data.Network("mine", *parts), "mine.npz")
    code, out, _ = run("demo --network mine.npz --json")
    assert code == 0
    assert list(json.loads(out)) == ["before", "after adaptive", "after EC", "after TS"]


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
