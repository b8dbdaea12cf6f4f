"""The artefact on expectation maximisation at quick scale: T* is found if the likelihood is right."""

import csv
import json
from math import log

import numpy as np
import pytest

import nishimori_paper as paper
from nishimori_paper.artefacts._expectation_maximisation import RIGHT, WRONG, Setting


@pytest.fixture(scope="module")
def pieces(computed):
    path = computed("expectation-maximisation") / "expectation-maximisation.json"
    return json.loads(path.read_text(encoding="utf-8"))["pieces"]


def test_the_teachers_temperature_is_found_and_calibrates(computed):
    found = paper.check("expectation-maximisation", computed("expectation-maximisation"))
    assert [each.paper for each in found[::2]] == [0.5, 1.0, 2.0, 0.5, 1.0, 2.0, 1.0, 1.0]
    assert {each.paper for each in found[1::2]} == {0.0}
    assert {each.verdict for each in found} == {"too few seeds"}  # six of them at quick scale
    assert all(abs(each.ours / each.paper - 1) < 0.35 for each in found[::2])


def test_means_and_errors_are_those_of_the_training_sets(pieces):
    row = pieces["EM probit T* = 0.5"]
    assert row["temperature_em"] == pytest.approx(np.mean(row["values"]))
    assert row["spread"] == pytest.approx(np.std(row["values"], ddof=1))
    assert row["temperature_em_error"] == pytest.approx(row["spread"] / np.sqrt(row["seeds"]))


def test_settings_have_training_sets_of_their_own(pieces):
    ratios = [np.array(pieces[f"EM {each.name}"]["values"]) / each.temperature for each in RIGHT if each.teacher == "probit"]
    assert np.abs(np.corrcoef(ratios)[np.triu_indices(3, 1)]).max() < 0.95


def test_the_minimum_of_the_curve_is_the_temperature_found(pieces):
    for teacher in ("logit", "probit"):
        content = pieces[f"free energy {teacher}"]
        data = [row for row in content["curves"] if row["source"] == "data"]
        limit = [row for row in content["curves"] if row["source"] == "limit"]
        assert content["least"] < min(row["free_energy"] for row in data)
        nearest = min(data, key=lambda row: row["free_energy"])["T"]
        assert abs(log(nearest / content["temperature"])) <= log(4) / (len(data) - 1)
        assert min(limit, key=lambda row: row["free_energy"])["T"] == pytest.approx(1.0)


def test_the_table_has_a_row_for_each_setting(computed):
    path = computed("expectation-maximisation") / "expectation-maximisation-temperatures.csv"
    with path.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["teacher"], float(row["temperature"]), row["assumed"]) for row in rows] == [
        tuple(each) for each in RIGHT + WRONG
    ]
    assert "values" not in rows[0]


def test_a_setting_says_if_its_likelihood_is_wrong():
    assert Setting("affine", 1.0, "affine").name == "affine T* = 1"
    assert Setting("affine", 1.0, "logit").name == "affine T* = 1, logit assumed"
