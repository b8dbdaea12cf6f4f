"""The real-data artefacts at quick scale: their files, their tables, and what they say about the authors' networks."""

import csv
import json
from collections import Counter

import matplotlib.image
import numpy as np
import pytest

import shell
from nishimori import data, paper
from nishimori.paper._measured import scores
from nishimori.paper._printed import printed
from nishimori.paper.artefacts._rows import AUGMENTED, COLUMNS

NAMES = ("table-real", "table-corrupted", "figure-curves", "figure-reliability", "figure-train-size")


@pytest.fixture(scope="module")
def folder(computed):
    """Where each of them was run."""
    return computed(*NAMES)


def read(path):
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def table(path):
    """The rows of a table by network and by who trained it."""
    return {(row["network"], row["weights"]): row for row in read(path)}


SHEETS = {
    "table-real": {"table-real.csv": (11, 32)},
    "table-corrupted": {"table-corrupted.csv": (11, 32)},
    "figure-curves": {"figure-curves-curves.csv": (2 * 19, 5), "figure-curves-reliability.csv": (2 * 3 * 15, 7)},
    "figure-reliability": {"figure-reliability.csv": (4 * 3 * 15, 8)},
    "figure-train-size": {"figure-train-size.csv": (9, 16)},
}
VERDICTS = {
    "table-real": {"agrees": 73, "explained": 8, "differs": 18},
    "table-corrupted": {"agrees": 71, "explained": 8, "differs": 20},
    "figure-curves": {"agrees": 2, "differs": 4},
    "figure-reliability": {"agrees": 8},
    "figure-train-size": {"agrees": 41, "differs": 4},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_leaves_pictures_tables_and_findings(folder, name):
    picture = matplotlib.image.imread(folder / f"{name}.png")
    assert min(picture.shape[:2]) > 300
    assert picture[..., :3].std() > 0.01  # something is drawn
    assert "<svg" in (folder / f"{name}.svg").read_text(encoding="utf-8")
    for sheet, (n_rows, n_columns) in SHEETS[name].items():
        rows = read(folder / sheet)
        assert (len(rows), len(rows[0])) == (n_rows, n_columns)
    kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert kept["complete"] is True
    assert kept["settings"] == {"quick": True, "seed": 0, "networks": None}
    assert Counter(each["verdict"] for each in kept["findings"]) == VERDICTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_check_finds_in_the_folder_what_the_run_found(folder, name):
    kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["findings"]
    found = paper.check(name, folder)
    assert [(each.what, each.ours, each.paper, each.verdict) for each in found] == [
        (each["what"], each["ours"], each["paper"], each["verdict"]) for each in kept
    ]


def test_a_second_run_says_that_the_results_are_there(folder):
    times = {path: path.stat().st_mtime_ns for name in NAMES for path in folder.glob(f"{name}*")}
    code, out, err = shell.nishimori("paper", "run", *NAMES, "--quick", "-o", folder)
    assert (code, out) == (0, "")
    assert [line.partition(":")[0] for line in err.splitlines()] == list(NAMES)
    assert all(line.endswith(f"; already in {folder}; --force starts over") for line in err.splitlines())
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_every_network_of_the_tables_has_its_row_with_error_bars(folder):
    for sheet, bar in (("table-real.csv", "se"), ("table-corrupted.csv", "sd")):
        rows = table(folder / sheet)
        assert sum(whose == "ours" for _, whose in rows) == 8
        assert {net for net, whose in rows if whose == "authors'"} == {
            "SVHN ResNet20",
            "CIFAR-10 ResNet20",
            "CIFAR-10 ResNet56",
        }
        for (net, _), row in rows.items():
            for column in COLUMNS:
                assert float(row[column]) > 0
                assert float(row[f"{column}_{bar}"]) > 0
            both = net.startswith("CIFAR-10 ")
            assert bool(row["temperature_ec_augmented"]) == bool(row[f"ece_ts_augmented_{bar}"]) == both


def test_the_table_holds_the_scores_in_the_papers_units(folder):
    found = data.load("cifar10/resnet20-authors")
    row = table(folder / "table-real.csv")["CIFAR-10 ResNet20", "authors'"]
    for end, part in (("", found.validation), ("_augmented", found.augmented)):
        expected = scores(part, found.test)
        assert float(row[f"temperature_ts{end}"]) == pytest.approx(expected["temperature_ts"], rel=1e-9)
        assert float(row[f"ece_ec{end}"]) == pytest.approx(100 * expected["ece_ec"], rel=1e-9)
        assert float(row[f"brier_ts{end}"]) == pytest.approx(100 * expected["brier_ts"], rel=1e-9)


def test_of_the_authors_networks_everything_in_table_1_agrees_or_is_explained(folder):
    found = [each for each in paper.check("table-real", folder) if "(authors')" in each.what]
    assert len(found) == 27
    assert {each.verdict for each in found} == {"agrees", "explained"}
    assert {each.explanation for each in found if each.verdict == "explained"} == {AUGMENTED}
    explained = {each.what.partition(": ")[2] for each in found if each.verdict == "explained"}
    assert {"temperature ts", "temperature ec", "ece ts, %", "ece ec, %"} <= explained


def test_curves_have_their_least_loss_at_ts_and_cross_accuracy_at_ec(folder):
    pieces = json.loads((folder / "figure-curves.json").read_text(encoding="utf-8"))["pieces"]
    for name, each in pieces.items():
        T, loss, confidence = (np.array([row[key] for row in each["curves"]]) for key in ("temperature", "loss", "confidence"))
        step = np.diff(T).max()
        assert abs(T[loss.argmin()] - each["clean"]["temperature_ts"]) <= step, name
        assert (np.diff(confidence) < 0).all(), name
        assert abs(np.interp(each["accuracy"], confidence[::-1], T[::-1]) - each["clean"]["temperature_ec"]) <= step, name
    dense = pieces["cifar10/densenet121"]
    assert dense["least_ece"][1] <= min(dense["clean"]["ece_ts"], dense["clean"]["ece_ec"]) + 1e-4


def test_bins_of_the_diagrams_have_equal_mass_and_give_the_ece(folder):
    groups = {}
    for row in read(folder / "figure-reliability.csv"):
        groups.setdefault((row["network"], row["weights"], row["when"]), []).append(row)
    assert len(groups) == 12
    for rows in groups.values():
        samples, gap = (np.array(each) for each in zip(*((int(r["samples"]), _gap(r)) for r in rows), strict=True))
        assert np.ptp(samples) <= 0.01 * samples.mean()
        assert samples @ np.abs(gap) / samples.sum() == pytest.approx(float(rows[0]["ece"]), abs=1e-9)


def _gap(row):
    return float(row["confidence"]) - float(row["accuracy"])


def test_the_size_of_the_training_set_is_that_of_the_fraction(folder):
    rows = read(folder / "figure-train-size.csv")
    assert [float(row["fraction"]) for row in rows] == printed()["figure-train-size"]["fraction"]
    assert [int(row["n_train"]) for row in rows] == [round(50_000 * float(row["fraction"])) for row in rows]
    for row in rows:
        assert float(row["accuracy"]) == pytest.approx(1 - float(row["error"]))
    accuracy = [float(row["accuracy"]) for row in rows]
    assert accuracy[0] == min(accuracy) < 0.75 < 0.82 < max(accuracy)
