"""What is kept of a fit: the same with scikit-learn's contract as without."""

import json

import numpy as np
import pytest
import reference

import nishimori
from nishimori._methods import table
from nishimori._methods.fitted_method import BareCalibrator
from nishimori._methods.record import Record
from nishimori.errors import FormatError

LOGITS, LABELS = reference.drawn(600, 4)

CASES = {
    "ec": {},
    "top 2": {"top_n": 2},
    "smoothed": {"smooth_labels": True},
    "ts": {},
    "adaptive": {},
}


def bare(case):
    return BareCalibrator(table.find_bare(case if case in table.BARE else "ec")(**CASES[case]))


@pytest.mark.parametrize("case", CASES)
def test_a_bare_calibrator_writes_the_file_of_the_estimator(case, tmp_path):
    estimator = nishimori.calibrator(case if case in table.BARE else "ec", **CASES[case])
    for name, calibrator in (("bare", bare(case)), ("estimator", estimator)):
        calibrator.fit(nishimori.rows(LOGITS, LABELS)).save(tmp_path / name)
    assert (tmp_path / "bare").read_text() == (tmp_path / "estimator").read_text()


@pytest.mark.parametrize("case", CASES)
def test_a_bare_calibrator_is_restored_from_its_file(case, tmp_path):
    fitted = bare(case).fit(nishimori.rows(LOGITS, LABELS))
    fitted.save(tmp_path / "c.json")
    record = Record.from_content(json.loads((tmp_path / "c.json").read_text()), tmp_path / "c.json")
    loaded = BareCalibrator.from_record(type(fitted.method), record, tmp_path / "c.json")
    assert (loaded.method, loaded.method_name, loaded.method_params()) == (
        fitted.method,
        fitted.method_name,
        fitted.method_params(),
    )
    lost = {"fit_info_", "n_passes_"}  # which files do not hold
    assert vars(fitted).keys() - vars(loaded).keys() == lost
    for name in vars(fitted).keys() - lost:
        np.testing.assert_equal(getattr(loaded, name), getattr(fitted, name), name)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "c.json").read_text()


def test_parameters_that_no_fit_can_have_had_are_refused(tmp_path):
    path = tmp_path / "c.json"
    bare("top 2").fit(nishimori.rows(LOGITS, LABELS)).save(path)
    path.write_text(path.read_text().replace('"top_n": 2', '"top_n": 4'))
    record = Record.from_content(json.loads(path.read_text()), path)
    with pytest.raises(FormatError, match=r"damaged: provenance\.params must be parameters of 'ec', got \{.*'top_n': 4\}"):
        BareCalibrator.from_record(table.find_bare("ec"), record, path)
