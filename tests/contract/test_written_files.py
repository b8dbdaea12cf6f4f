"""Files of every kind that an earlier commit of `main` wrote stay readable; see ``written/README.md``."""

import json
from pathlib import Path

import numpy as np
import pytest
import reference
from shell import nishimori as shell

import nishimori

WRITTEN = Path(__file__).parent / "written"
RESULTS = ("report.json", "eval.json", "gate.json")
CALIBRATIONS = sorted(path.stem for path in WRITTEN.glob("*.json") if path.name not in RESULTS)
SKETCHES = sorted(path.name for path in WRITTEN.glob("sketch*.npz"))


@pytest.fixture(scope="module")
def expected():
    with np.load(WRITTEN / "expected.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def rows():
    with np.load(WRITTEN / "rows.npz") as arrays:
        return arrays["logits"], arrays["labels"]


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_a_calibration_gives_the_probabilities_that_it_gave_when_it_was_written(name, expected, tmp_path):
    options = {"groups": expected[f"{name}@groups"]} if f"{name}@groups" in expected else {}
    read = nishimori.load(WRITTEN / f"{name}.json")
    np.testing.assert_allclose(read.predict_proba(expected[f"{name}@logits"], **options), expected[name], rtol=1e-9)
    again = tmp_path / "again.json"
    read.save(again)
    found = nishimori.load(again).predict_proba(expected[f"{name}@logits"], **options)
    np.testing.assert_allclose(found, expected[name], rtol=1e-9)


def test_a_file_with_an_earlier_name_of_a_method_is_read_by_that_method(tmp_path):
    assert type(nishimori.load(WRITTEN / "ensemble.json")) is nishimori.calibrators.TemperatureMixture
    finished = nishimori.calibrator("mixture+ec").fit(*reference.drawn(600, 4))
    finished.save(tmp_path / "finished.json")
    text = (tmp_path / "finished.json").read_text(encoding="utf-8")
    assert text.count('"mixture+ec"') == 1
    (tmp_path / "earlier.json").write_text(text.replace('"mixture+ec"', '"ensemble+ec"'), encoding="utf-8")
    assert nishimori.load(tmp_path / "earlier.json").method == "mixture+ec"


@pytest.mark.parametrize("name", ["sketch.npz", "sketch_clusters.npz"])
def test_a_sketch_has_the_temperature_of_its_rows(name, rows):
    found = nishimori.temperatures(nishimori.Sketch.load(WRITTEN / name))
    assert found.n_samples == len(rows[1])
    assert found.ec == pytest.approx(reference.ec_temperature(*rows), rel=1e-5)


def test_sketches_can_be_merged_with_new_ones(rows, tmp_path):
    new = nishimori.Sketch()
    new.update(rows[0][:100], rows[1][:100])
    new.save(tmp_path / "new.npz")
    ended = shell("merge", WRITTEN / "sketch.npz", "new.npz -o both.npz", place=tmp_path)
    assert ended.code == 0, ended.err
    assert nishimori.Sketch.load(tmp_path / "both.npz").n_samples == 700


@pytest.mark.parametrize("name", [*RESULTS, *SKETCHES, *(f"{each}.json" for each in CALIBRATIONS)])
def test_show_reads_every_file(name):
    ended = shell("show", WRITTEN / name)
    assert ended.code == 0, ended.err


def test_a_report_is_shown_with_a_choice_and_before_beside_after():
    report = nishimori.Report.from_dict(json.loads((WRITTEN / "report.json").read_text(encoding="utf-8")))
    told = report.to_dict()
    rows = {each["method"]: each for each in told["methods"]}
    assert told["recommendation"]["other"] == "vector"  # its best method, which changes predictions
    first, use = str(report).splitlines()[:2]
    assert first == f"{told['verdict']['headline']}."
    assert use == told["recommendation"]["sentences"][0]  # as it was written
    for text in (report.to_markdown(), report.to_html()):
        for name in ("none", told["recommended"]):
            assert f"{100 * rows[name]['ece']:.2f} %" in text


@pytest.mark.parametrize("name", ["report.json", "eval.json"])
def test_diff_compares_a_result_with_new_data(name, rows, tmp_path):
    np.savez(tmp_path / "new.npz", logits=rows[0] / 2, labels=rows[1])
    ended = shell("eval new.npz --json", place=tmp_path)
    (tmp_path / "new.json").write_text(ended.out)
    ended = shell("diff", WRITTEN / name, "new.json", place=tmp_path)
    assert ended.code in (0, 3), ended.err
    assert "ECE" in ended.out
