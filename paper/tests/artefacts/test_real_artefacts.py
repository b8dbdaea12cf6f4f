"""The real-data artefacts at quick scale: their files, their tables, and what they say about the authors' networks."""

import csv
import json
import math
import statistics
import tomllib
from collections import Counter
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import reference
import shell

import nishimori_paper as paper
from nishimori import data
from nishimori_paper._measured import scores
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._rows import AUGMENTED, COLUMNS

NAMES = ("table-real", "table-corrupted", "figure-curves", "figure-reliability", "figure-train-size", "figure-validation-size")


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
    "table-real": {"table-real.csv": (11, 40)},
    "table-corrupted": {"table-corrupted.csv": (11, 60)},
    "figure-curves": {
        "figure-curves-curves.csv": (2 * 19, 5),
        "figure-curves-paper.csv": (30, 4),
        "figure-curves-reliability.csv": (2 * 3 * 15, 9),
    },
    "figure-reliability": {"figure-reliability.csv": (4 * 3 * 15, 10)},
    "figure-train-size": {"figure-train-size.csv": (9, 16)},
    "figure-validation-size": {
        "figure-validation-size-sizes.csv": (2 * 3, 19),
        "figure-validation-size-crossing.csv": (2, 4),
        "figure-validation-size-variance-ratio.csv": (2, 6),
        "figure-validation-size-networks.csv": (2 * 11 * 3, 14),
    },
}
# In the tables, verdicts on networks that were trained once depend on the number of resamples.
N_FINDINGS = {"table-real": 11 * 9, "table-corrupted": 11 * 9}
VERDICTS = {
    "figure-curves": {"agrees": 1, "differs": 7},
    "figure-reliability": {"agrees": 8},
    "figure-train-size": {"agrees": 36, "differs": 9},
    "figure-validation-size": {"agrees": 7, "differs": 1},
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
    verdicts = Counter(each["verdict"] for each in kept["findings"])
    assert verdicts == VERDICTS[name] if name in VERDICTS else verdicts.total() == N_FINDINGS[name]


@pytest.mark.parametrize("name", ["table-real", "table-corrupted", "figure-train-size"])
def test_a_verdict_follows_from_the_numbers_and_the_tolerance(folder, name):
    kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["findings"]
    assert {"agrees", "differs"} <= {each["verdict"] for each in kept}
    for each in kept:
        near = [
            each[key] is not None and abs(each[key] - each["paper"]) <= each["tolerance"] for key in ("ours", "paper_method")
        ]
        assert each["verdict"] == ("agrees" if near[0] else "explained" if near[1] else "differs"), each["what"]


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
            assert float(row["ece_difference"]) == pytest.approx(float(row["ece_ts"]) - float(row["ece_ec"]))
            assert float(row[f"ece_difference_{bar}"]) > 0
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


def test_temperatures_of_the_tables_carry_the_standard_error_of_a_fit(folder):
    part = data.load("cifar10/resnet20-authors").validation
    row = table(folder / "table-real.csv")["CIFAR-10 ResNet20", "authors'"]
    T, logits, labels = float(row["temperature_ec"]), np.asarray(part.logits, dtype=float), part.labels
    gaps = [reference.softmax(logits, T * step).max(axis=1) - reference.right(logits, labels) for step in (0.999, 1, 1.001)]
    slope = (gaps[2] - gaps[0]).sum() / (0.002 * T)
    assert float(row["temperature_ec_fit_se"]) == pytest.approx(np.sqrt((gaps[1] ** 2).sum()) / abs(slope), rel=2e-3)
    for sheet in ("table-real.csv", "table-corrupted.csv"):
        for (net, _), each in table(folder / sheet).items():
            for end in ("", "_augmented") if net.startswith("CIFAR-10 ") else ("",):
                for name in (f"temperature_ts{end}", f"temperature_ec{end}"):
                    assert float(each[f"{name}_fit_se"]) > 0
                    if sheet == "table-real.csv":  # ten resamples give a rough standard deviation
                        assert 0.3 < float(each[f"{name}_se"]) / float(each[f"{name}_fit_se"]) < 3


MISPRINT = "CIFAR-10 ResNet20 (authors'): brier ts, %"


def test_of_the_authors_networks_everything_in_table_1_agrees_or_is_explained_except_one_misprint(folder):
    found = [each for each in paper.check("table-real", folder) if "(authors')" in each.what]
    assert len(found) == 27
    assert [each.what for each in found if each.verdict == "differs"] == [MISPRINT]
    assert {each.explanation for each in found if each.verdict == "explained"} == {AUGMENTED}
    explained = {each.what.partition(": ")[2] for each in found if each.verdict == "explained"}
    assert {"temperature ts", "temperature ec", "ece ts, %", "ece ec, %"} <= explained


def test_table_1_prints_a_brier_score_that_its_own_temperature_does_not_give():
    test = data.load("cifar10/resnet20-authors").test
    row = dict(zip(COLUMNS, printed()["table-real"]["rows"]["cifar10/resnet20"], strict=True))
    for method in ("ts", "ec"):
        found = 100 * reference.brier(test.logits, test.labels, row[f"temperature_{method}"])
        assert abs(found - row[f"brier_{method}"]) == pytest.approx(0.19 if method == "ts" else 0.04, abs=0.02)


@pytest.mark.parametrize(("name", "n"), [("table-real", 11 * 3), ("table-corrupted", 11 * 3), ("figure-train-size", 9 * 2)])
def test_no_tolerance_is_so_wide_that_an_ece_of_zero_would_agree(folder, name, n):
    found = [each for each in paper.check(name, folder) if "ece" in each.what]
    assert len(found) == n
    for each in found:
        assert 0 < each.tolerance < each.paper, each.what


def test_every_number_of_the_papers_two_resnets_is_within_the_spread_of_our_trainings(folder):
    found = [
        each for name in ("table-real", "table-corrupted") for each in paper.check(name, folder) if " of ours" in each.what
    ]
    resnets = [each for each in found if "ResNet" in each.what]
    assert len(resnets) == 2 * 2 * 9
    assert {each.verdict for each in resnets} == {"agrees"}
    dense = [each for each in found if "DenseNet121" in each.what]
    assert [each.verdict for each in dense].count("agrees") == 2  # its ECE after TS and EC, both with noisy labels
    assert len(dense) == 2 * 9


def test_a_size_with_several_trainings_is_compared_by_their_mean_and_the_others_by_a_wider_spread(folder):
    found = {each.what: each for each in paper.check("figure-train-size", folder)}
    trainings = tomllib.loads((Path(paper.__file__).parent / "spreads.toml").read_text(encoding="utf-8"))["trainings"]
    errors = [*trainings["cifar10/resnet20"]["clean_labels"]["clean"]["error"], 0.1629]  # the last is the bundled network's
    several, one = found["fraction 0.9, mean of trainings: accuracy"], found["fraction 0.8: accuracy"]
    assert several.ours == pytest.approx(1 - statistics.fmean(errors))
    assert several.tolerance == pytest.approx(2 * statistics.stdev(errors))
    assert one.tolerance == pytest.approx(2 * math.sqrt(2) * statistics.stdev(errors))
    bundled = data.load("cifar10/resnet20-fraction-0.8").test
    assert one.ours == pytest.approx(reference.right(bundled.logits, bundled.labels).mean())


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
