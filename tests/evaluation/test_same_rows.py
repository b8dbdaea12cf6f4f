"""Measuring on the rows of the fit is a warning, and the first thing that is said."""

import json
import warnings

import numpy as np
import pytest

import nishimori
from nishimori.errors import InputWarning

pytestmark = pytest.mark.filterwarnings("error")

FITTED = "was fitted to the rows that are measured here"
EQUAL = "The test data are the same rows as the validation data"


def drawn(seed, n=1500, k=4):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, k))
    return logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)


VALIDATION, TEST = drawn(0), drawn(1)


@pytest.mark.parametrize("method", ["adaptive", "ec", "ts", "vector", "isotonic", "best"])
def test_evaluate_warns_on_the_rows_of_the_fit_and_not_on_others(method, tmp_path):
    fitted = nishimori.calibrator(method).fit(*VALIDATION)
    nishimori.evaluate(*TEST, calibrator=fitted)
    fitted.save(tmp_path / "calibration.json")
    for each in (fitted, nishimori.load(tmp_path / "calibration.json")):
        with pytest.warns(InputWarning, match=FITTED):
            nishimori.evaluate(*VALIDATION, calibrator=each)


def test_a_file_that_is_read_piece_by_piece_is_recognised(tmp_path):
    np.savez(tmp_path / "validation.npz", logits=VALIDATION[0], labels=VALIDATION[1])
    fitted = nishimori.TemperatureScaling().fit(nishimori.rows(tmp_path / "validation.npz"))
    with pytest.warns(InputWarning, match=FITTED):
        nishimori.evaluate(*VALIDATION, calibrator=fitted)
    with pytest.warns(InputWarning, match=FITTED):
        nishimori.evaluate(tmp_path / "validation.npz", calibrator=nishimori.TemperatureScaling().fit(*VALIDATION))


def test_a_calibration_that_learned_nothing_may_be_measured_anywhere():
    nishimori.evaluate(*VALIDATION, calibrator=nishimori.calibrator("none").fit(*VALIDATION))


def test_a_file_without_a_digest_is_not_checked(tmp_path):
    path = tmp_path / "calibration.json"
    nishimori.TemperatureScaling().fit(*VALIDATION).save(path)
    content = json.loads(path.read_text())
    del content["provenance"]["data_digest"]
    path.write_text(json.dumps(content))
    nishimori.evaluate(*VALIDATION, calibrator=nishimori.load(path))


def test_the_warning_comes_before_all_others(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3, 0.3), 500)
    labels = (np.log(p) + rng.gumbel(size=p.shape)).argmax(axis=1)
    p[np.arange(3), labels[:3]] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    np.savez(tmp_path / "p.npz", probabilities=p, labels=labels)
    fitted = nishimori.calibrator("ec", input="probabilities", floor=None).fit(p, labels)
    for data in ((p, labels), (tmp_path / "p.npz",)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            nishimori.evaluate(*data, calibrator=fitted)
        assert len(told) > 1
        assert FITTED in str(told[0].message)


@pytest.mark.parametrize("as_files", [(), (0,), (1,), (0, 1)])
def test_compare_warns_if_test_data_are_the_validation_data(as_files, tmp_path):
    np.savez(tmp_path / "rows.npz", logits=VALIDATION[0], labels=VALIDATION[1])
    sides = [(tmp_path / "rows.npz", None) if side in as_files else VALIDATION for side in (0, 1)]
    with pytest.warns(InputWarning, match=EQUAL):
        found = nishimori.compare(*sides[0], *sides[1], methods=("none", "ec"))
    assert EQUAL in found.verdicts[0]
    assert found.flatters
    nishimori.compare(*VALIDATION, *TEST, methods=("none", "ec"))


def test_compare_warns_if_a_calibrator_was_fitted_to_what_it_is_measured_on():
    fitted = nishimori.TemperatureScaling().fit(*VALIDATION)
    with pytest.warns(InputWarning, match=f"ts {FITTED}"):
        found = nishimori.compare(*VALIDATION, methods=(1.0, fitted))
    assert FITTED in found.verdicts[0]
    assert not any(FITTED in each for each in nishimori.compare(*TEST, methods=(1.0, fitted)).verdicts)


def test_a_report_says_first_that_test_data_are_the_validation_data():
    with pytest.warns(InputWarning, match=EQUAL):
        report = nishimori.Report(*VALIDATION, *VALIDATION)
    found = report.to_dict()
    assert found["verdict"]["caveats"].startswith(EQUAL)
    assert found["warnings"][0].startswith(EQUAL)
    assert EQUAL in report.to_html()
    other = nishimori.Report(*VALIDATION, *TEST).to_dict()
    assert other["warnings"] == []
    assert EQUAL not in other["verdict"]["caveats"]


def test_a_gate_warns_on_the_rows_of_the_fit():
    fitted = nishimori.TemperatureScaling().fit(*VALIDATION)
    with pytest.warns(InputWarning, match=FITTED):
        nishimori.gate(*VALIDATION, calibrator=fitted, bounds={"gap": 0.1})
    nishimori.gate(*TEST, calibrator=fitted, bounds={"gap": 0.1})


def test_diff_warns_if_both_sides_are_about_the_same_rows():
    same = "about the same rows"
    first, again, other = (nishimori.evaluate(*each) for each in (VALIDATION, VALIDATION, TEST))
    with pytest.warns(InputWarning, match=same):
        found = nishimori.diff(first, again)
    assert same in found.to_dict()["warnings"][0]
    assert same in str(found).splitlines()[0]
    assert same in found.to_markdown().splitlines()[0]
    assert nishimori.diff(first, other).to_dict()["warnings"] == []
