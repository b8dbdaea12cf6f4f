"""The theory artefacts against what the paper prints and what its errata say."""

import csv
import json

import numpy as np
import pytest

from nishimori import paper


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("paper")
    for name in paper.names():
        paper.run(name, target, quick=True)
    return target


def findings(name, folder):
    return paper.check(name, folder)


@pytest.mark.parametrize("name", paper.names())
def test_each_artefact_draws_and_tabulates(folder, name):
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / f"{name}.svg").read_text()
    assert list(folder.glob(f"{name}*.csv"))
    assert json.loads((folder / f"{name}.json").read_text())["complete"]


def test_every_printed_temperature_difference_is_reproduced_or_explained(folder):
    found = findings("figure-temperatures", folder)
    assert len(found) == 120
    assert {each.verdict for each in found} == {"agrees", "explained"}
    # After 100 plain iterations, as in the paper, every printed point comes out, near separability too.
    assert max(abs(each.in_their_way - each.paper) for each in found) < 2e-5


def test_only_points_near_separability_need_the_explanation(folder):
    explained = [each.what for each in findings("figure-temperatures", folder) if each.verdict == "explained"]
    assert explained == ["affine, α = 2.949", "affine, α = 3.436", "affine, α = 3.923", "constant, α = 2.462"]


def test_the_density_captions_temperatures_and_half_line_eces_come_out(folder):
    ts, ec, *eces = findings("figure-density", folder)
    assert (ts.verdict, ec.verdict) == ("agrees", "agrees")
    assert [each.verdict for each in eces] == ["explained"] * 3
    np.testing.assert_allclose([each.ours for each in eces], [4.36, 2.40, 2.02], atol=0.005)


def test_the_density_and_its_atoms_have_mass_one(folder):
    done = json.loads((folder / "figure-density.json").read_text())["pieces"]["density"]["after EC"]
    size = len(done["levels"])
    mass = np.sum(done["density"]) / size**2 + sum(np.sum(values) for values in done["atoms"].values()) / size
    assert mass == pytest.approx(1, abs=0.03)  # cells of 1/30


def test_ec_leads_ts_in_every_panel(folder):
    assert [each.verdict for each in findings("figure-ece", folder)] == ["agrees"] * 9


def test_bayesian_estimation_finds_the_teachers_temperature(folder):
    assert {each.verdict for each in findings("bayes", folder)} == {"agrees"}


def test_the_claims_that_do_not_hold_are_found(folder):
    failed = [each.what for each in findings("claims", folder) if each.verdict == "differs"]
    for sentence in ("different metrics", "simulations", "falls to zero", "integral over z > 0", "every level"):
        assert any(sentence in each for each in failed), sentence
    held = [each.what for each in findings("claims", folder) if each.verdict == "agrees"]
    for sentence in ("lower ECE in all settings", "choose T*", "around", "T_TS", "T_EC"):
        assert any(sentence in each for each in held), sentence


def test_simulations_lie_on_the_curve(folder):
    with (folder / "figure-temperatures-theory.csv").open() as stream:
        curve = {(row["teacher"], float(row["alpha"])): float(row["difference"]) for row in csv.DictReader(stream)}
    with (folder / "figure-temperatures-simulation.csv").open() as stream:
        for row in csv.DictReader(stream):
            limit = curve[row["teacher"], float(row["alpha"])]
            # Three seeds at d = 60: a wrong theory would be off by its own size.
            assert float(row["difference"]) == pytest.approx(limit, rel=1.0)
