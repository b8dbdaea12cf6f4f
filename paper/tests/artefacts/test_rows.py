"""Verdicts on the rows of the paper's tables: what is compared, tolerances, and what counts as explained."""

import math
import statistics
import tomllib
from pathlib import Path

import pytest

import nishimori_paper as paper
from nishimori_paper.artefacts._rows import AUGMENTED, COLUMNS, compared_row

PAPER = (13.5, 1.37, 1.38, 5.3, 1.9, 1.9, 20.0, 19.43, 19.2)
SPREADS = tomllib.loads((Path(paper.__file__).parent / "spreads.toml").read_text(encoding="utf-8"))
DIGIT = {"temperature": 0.01, "error": 0.1, "ece": 0.1, "brier": 0.1}
CALIBRATED = [column for column in COLUMNS if column.endswith(("_ts", "_ec"))]
TABLES = {"table-real": "clean_labels", "table-corrupted": "noisy_labels"}


def percent(column):
    return 1 if column.startswith("temperature") else 100


def digit(column):
    return DIGIT[column.partition("_")[0]]


def content(*, bars=0.0, images=0.0, kinds=("clean", "augmented"), **changes):
    """A network with the paper's numbers, except for ``changes``, which are in the units of the table."""

    def row(kind):
        ours = dict(zip(COLUMNS, PAPER, strict=True))
        ours |= {key.removesuffix(f"_{kind}"): value for key, value in changes.items() if key.endswith(f"_{kind}")}
        return {key: value / percent(key) for key, value in ours.items()}

    def spread(width):
        return {key: width / percent(key) for key in COLUMNS}

    return {kind: row(kind) for kind in kinds} | {
        f"{kind} error bars{of}": spread(width) for kind in kinds for of, width in (("", bars), (" of images", images))
    }


def findings(name, found, table="table-real"):
    return dict(zip(COLUMNS, compared_row(name, found, table, PAPER), strict=True))


# The authors' networks.


@pytest.mark.parametrize("name", ["cifar10/resnet20-authors", "cifar10/resnet56-authors"])
@pytest.mark.parametrize("table", TABLES)
def test_the_authors_networks_vary_with_the_draw_of_the_augmentation_only(name, table):
    drawn = SPREADS["augmentations"][name][TABLES[table]]
    found = findings(name, content(bars=0.03, images=7.0), table)
    noise = 0.03 if table == "table-corrupted" else 0.0  # a table with noisy labels has one draw of the noise too
    for column in COLUMNS:
        calibrated = column in CALIBRATED
        draws = percent(column) * statistics.stdev(drawn[column]) if calibrated else 0.0
        assert found[column].tolerance == pytest.approx(digit(column) + 2 * math.hypot(draws, noise))
        assert found[column].ours == pytest.approx(dict(zip(COLUMNS, PAPER, strict=True))[column])
        expected = pytest.approx(percent(column) * statistics.fmean(drawn[column])) if calibrated else None
        assert found[column].paper_method == expected
        assert found[column].explanation == (AUGMENTED if calibrated else None)


def test_a_number_that_only_augmented_images_give_is_explained_by_them():
    found = findings("cifar10/resnet20-authors", content(temperature_ts_clean=1.52, ece_ec_clean=0.6))
    assert {key for key in COLUMNS if found[key].verdict == "explained"} == {"temperature_ts", "ece_ec"}
    assert found["temperature_ts"].ours == 1.52
    assert found["ece_ec"].what == "CIFAR-10 ResNet20 (authors'): ece ec, %"


def test_a_number_that_neither_method_gives_differs():
    drawn = statistics.fmean(SPREADS["augmentations"]["cifar10/resnet20-authors"]["clean_labels"]["temperature_ts"])
    row = [*PAPER]
    row[COLUMNS.index("temperature_ts")] = drawn + 0.2
    found = compared_row("cifar10/resnet20-authors", content(temperature_ts_clean=drawn), "table-real", row)
    assert found[COLUMNS.index("temperature_ts")].verdict == "differs"
    found = findings("cifar10/resnet20-authors", content(error_clean=13.7))
    assert found["error"].verdict == "differs"  # measured on the paper's own test images: only the digit may differ


@pytest.mark.parametrize(("table", "width"), [("table-real", 0.02), ("table-corrupted", 0.05)])
def test_rebuilt_images_are_compared_within_the_error_bars_of_images(table, width):
    found = findings("svhn/resnet20-authors", content(bars=0.02, images=0.05, kinds=("clean",)), table)
    for column in COLUMNS:
        assert found[column].tolerance == pytest.approx(digit(column) + 2 * width)
        assert found[column].explanation is None


# Our networks.


@pytest.mark.parametrize(("name", "n"), [("cifar10/resnet20", 6), ("cifar10/resnet56", 4), ("cifar10/densenet121", 4)])
@pytest.mark.parametrize("table", TABLES)
def test_a_network_trained_several_times_is_compared_by_its_mean_and_spread(name, n, table):
    further = SPREADS["trainings"][name][TABLES[table]]["augmented"]
    found = findings(name, content(bars=3.0, images=7.0), table)
    for column, first in zip(COLUMNS, PAPER, strict=True):
        every = [first, *(percent(column) * each for each in further[column])]
        assert len(every) == n
        assert found[column].ours == pytest.approx(statistics.fmean(every))
        assert found[column].tolerance == pytest.approx(digit(column) + 2 * statistics.stdev(every))
        assert found[column].paper_method is None
    title = {"cifar10/resnet20": "CIFAR-10 ResNet20", "cifar10/resnet56": "CIFAR-10 ResNet56"}.get(name, "CIFAR-10 DenseNet121")
    assert found["error"].what == f"{title} (mean of {n} of ours): error, %"
    assert found["ece_ts"].what == f"{title} (mean of {n} of ours, augmented): ece ts, %"


@pytest.mark.parametrize(("table", "width"), [("table-real", 0.02), ("table-corrupted", 0.05)])
def test_a_network_trained_once_is_compared_within_its_error_bars(table, width):
    found = findings("cifar100/vgg19", content(bars=0.02, images=0.05, temperature_ts_clean=1.9, kinds=("clean",)), table)
    for column in COLUMNS:
        assert found[column].tolerance == pytest.approx(digit(column) + 2 * width)
    assert (found["temperature_ts"].ours, found["temperature_ts"].verdict) == (1.9, "differs")
    assert found["ece_ts"].what == "CIFAR-100 VGG19 (ours): ece ts, %"
    assert found["temperature_ts"].explanation is None
