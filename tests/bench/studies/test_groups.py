"""The study of temperatures per group runs at a small size, and its NumPy version is what the library computes."""

import numpy as np
import pytest
import reference

import nishimori


@pytest.fixture
def bench():
    pytest.importorskip("matplotlib")
    import groups

    return groups


def test_the_study_writes_every_table_and_both_pictures(run_study, monkeypatch, tmp_path):
    options = [
        "--sizes",
        "300",
        "--seeds",
        "1",
        "--draws",
        "1",
        "--rows",
        "24000",
        "--networks",
        "cifar10/resnet20",
        "cifar10/resnet56",
    ]
    files = ["--out", str(tmp_path / "groups.md"), "--pictures", str(tmp_path), "--log", str(tmp_path / "log.jsonl")]
    monkeypatch.delenv("NISHIMORI_DATA", raising=False)  # further networks, which take long
    run_study("groups", *options, *files)
    text = (tmp_path / "groups.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == 9
    assert text.count("| cifar10/resnet56 |") == 3
    for name in ("groups.png", "groups-ece.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) > 30


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_the_first_variant_is_what_the_library_computes(bench, method):
    logits, labels = reference.drawn(800, 5)
    logits[logits.argmax(axis=1) == 1] *= 2.5
    rows = bench.group_variants.Rows.of(logits, labels, method)
    variant = next(iter(bench.group_variants.VARIANTS[method].values()))
    logs, spread = bench.group_variants.fitted(rows, variant)
    found = nishimori.GroupConsistency(method=method).fit(logits, labels)
    assert spread == pytest.approx(found.used_spread_, rel=1e-6)
    assert spread > 0.1
    np.testing.assert_allclose(np.log(found.temperatures_), logs, atol=1e-8)


def test_the_split_of_the_ece_adds_up_to_it(bench):
    logits, labels = reference.drawn(800, 5)
    split = bench.Split.of(reference.softmax(logits), labels)
    assert split.ece == pytest.approx(nishimori.metrics.ece(logits, labels))
    assert split.apart > split.ece
