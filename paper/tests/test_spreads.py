"""The numbers of further trainings and draws: complete, of the paper's recipe, and consistent with the bundled logits."""

import statistics
import tomllib
from pathlib import Path

import numpy as np
import pytest
import reference

import nishimori_paper as paper
from nishimori import data
from nishimori_paper._measured import scores
from nishimori_paper._spreads import augmentation_draws, further_trainings
from nishimori_paper.artefacts._rows import COLUMNS
from nishimori_paper.training._recipes import recipe

SPREADS = tomllib.loads((Path(paper.__file__).parent / "spreads.toml").read_text(encoding="utf-8"))
TRAININGS, AUGMENTATIONS = SPREADS["trainings"], SPREADS["augmentations"]


def test_there_are_five_further_resnet20s_and_three_of_each_other_network():
    assert TRAININGS["cifar10/resnet20"]["seeds"] == [1, 2, 3, 4, 5]
    for name in ("resnet56", "densenet121", "densenet121-linear"):
        assert TRAININGS[f"cifar10/{name}"]["seeds"] == [1, 2, 3]


@pytest.mark.parametrize("name", TRAININGS)
def test_further_trainings_differ_from_the_bundled_one_in_their_seed_only(name):
    about = TRAININGS[name]
    assert 0 not in about["seeds"]
    assert {key: value for key, value in recipe(*name.split("/")).settings().items() if value is not None} == about["recipe"]
    if name in data.names():
        bundled = data.load(name).provenance
        assert bundled["seed"] == 0
        assert about["settings"] == bundled["settings"]
        assert about["versions"]["torch"] == bundled["versions"]["torch"]


@pytest.mark.parametrize("name", TRAININGS)
def test_every_training_has_every_number(name):
    about = TRAININGS[name]
    n = len(about["seeds"])
    for labels in ("clean_labels", "noisy_labels"):
        for kind in ("clean", "augmented"):
            assert set(about[labels][kind]) == set(COLUMNS)
            assert all(len(values) == n for values in about[labels][kind].values())
            for column in ("error", "ece", "brier"):  # measured before calibration
                assert about[labels][kind][column] == about[labels]["clean"][column]
    for split in ("test", "validation"):
        epochs = np.array(about[f"last_epochs_{split}_error"])
        assert epochs.shape == (n, 10)
    last = np.array(about["last_epochs_test_error"])[:, -1]
    np.testing.assert_allclose(last, about["clean_labels"]["clean"]["error"], atol=1.5e-3)  # bfloat16 against float32


@pytest.mark.parametrize("name", TRAININGS)
def test_noise_raises_the_error_by_the_share_of_random_labels(name):
    clean, noisy = (np.array(TRAININGS[name][f"{labels}_labels"]["clean"]["error"]) for labels in ("clean", "noisy"))
    # A tenth of the labels is random. A random label is wrong in nine of ten cases; some of these samples were wrong before.
    assert (noisy - clean < 0.09).all()
    assert (noisy - clean > 0.09 - 0.1 * 2.5 * clean).all()


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_there_are_at_least_16_draws_and_the_first_is_the_bundled_one(name):
    draws = augmentation_draws(name, "clean")
    assert len(draws) == len(augmentation_draws(name, "noisy")) == AUGMENTATIONS[name]["draws"] >= 16
    bundled = data.load(name)
    assert bundled.provenance["augmentation_seed"] == 0
    logits, labels = bundled.augmented.logits, bundled.augmented.labels
    T = reference.ts_temperature(logits, labels, low=0.1, high=10)
    # Bundled logits are rounded to 14 bits and were computed on another machine.
    assert draws[0]["temperature_ts"] == pytest.approx(T, rel=1e-3)
    assert draws[0]["brier_ts"] == pytest.approx(reference.brier(bundled.test.logits, bundled.test.labels, T), rel=1e-3)
    assert len({draw["temperature_ts"] for draw in draws}) == len(draws)


def test_rows_are_put_together_from_columns():
    rows, columns = further_trainings("cifar10/resnet20", "noisy", "augmented"), TRAININGS["cifar10/resnet20"]["noisy_labels"]
    assert [row["ece_ts"] for row in rows] == columns["augmented"]["ece_ts"]
    assert [row["error"] for row in rows] == columns["augmented"]["error"]
    assert further_trainings("cifar10/resnet20-authors", "clean", "clean") == []
    assert augmentation_draws("svhn/resnet20-authors", "clean") == []


# The file of all results.


def documented(heading):
    """The rows of the table under a heading of paper/RESULTS.md, as numbers of the form "mean ± standard deviation"."""
    page = (Path(__file__).parents[1] / "RESULTS.md").read_text(encoding="utf-8")
    section = page.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")]
    return {(row[0], row[1]): row[2:] for row in rows}


def shown(numbers, column, digits):
    """Mean and standard deviation in the units of the tables, with as many digits as the page has for the quantity."""
    quantity = column.partition("_")[0]
    values = [each if quantity == "temperature" else 100 * each for each in numbers]
    return f"{statistics.fmean(values):.{digits[quantity]}f} ± {statistics.stdev(values):.{digits[quantity]}f}"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("cifar10/resnet20", "ResNet20"),
        ("cifar10/resnet56", "ResNet56"),
        ("cifar10/densenet121", "DenseNet121"),
        ("cifar10/densenet121-linear", "DenseNet121 without ReLU"),
    ],
)
def test_the_page_shows_mean_and_spread_of_all_trainings(name, title):
    digits, further = {"error": 1, "temperature": 2, "ece": 1, "brier": 1}, TRAININGS[name]["clean_labels"]["augmented"]
    first = []
    if name in data.names():
        bundled = data.load(name)
        first = [scores(bundled.augmented, bundled.test)]
    found = documented("Other trainings")[title, f"ours, {len(first) + len(TRAININGS[name]['seeds'])} trainings"]
    assert found == [shown([*(row[column] for row in first), *further[column]], column, digits) for column in COLUMNS]


def test_no_training_of_densenet121_comes_near_the_paper():
    """Its Table 1 has an error of 12.5 %, which the page says is above ours at each of the last ten epochs."""
    last = [TRAININGS[f"cifar10/{name}"]["last_epochs_test_error"] for name in ("densenet121", "densenet121-linear")]
    assert [round(100 * float(np.max(each)), 1) for each in last] == [10.2, 10.7]


@pytest.mark.parametrize("labels", ["clean", "noisy"])
@pytest.mark.parametrize(
    ("name", "title"), [("cifar10/resnet20-authors", "ResNet20"), ("cifar10/resnet56-authors", "ResNet56")]
)
def test_the_page_shows_mean_and_spread_of_all_draws(name, title, labels):
    columns, digits = AUGMENTATIONS[name][f"{labels}_labels"], {"temperature": 3, "ece": 2, "brier": 2}
    found = documented("Other draws of the augmentation")[title, f"{labels} labels, 16 draws"]
    assert found == [shown(columns[column], column, digits) for column in COLUMNS if column in columns]
