"""Scores of networks and their error bars: the authors' networks against the paper, all against the formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import reference
from nishimori import data
from nishimori.data import Labelled
from nishimori.paper._measured import measured, scores
from nishimori.paper._printed import printed

COLUMNS = printed()["table-real"]["columns"]
AUTHORS = ("cifar10/resnet20-authors", "cifar10/resnet56-authors")


# The authors' own networks.


@pytest.mark.parametrize(
    ("name", "error", "ece", "brier"), [(AUTHORS[0], 0.1349, 0.0535, 0.1998), (AUTHORS[1], 0.1319, 0.0598, 0.2022)]
)
def test_the_authors_networks_give_the_papers_uncalibrated_numbers(name, error, ece, brier):
    test = data.load(name).test
    confidence = reference.softmax(test.logits).max(axis=1)
    right = reference.right(test.logits, test.labels)
    assert round(1 - right.mean(), 4) == error
    assert round(equal_mass_ece(confidence, right), 4) == ece
    assert round(reference.brier(test.logits, test.labels), 4) == brier
    row = scores(data.load(name).validation, test)
    assert [round(row[key], 4) for key in ("error", "ece", "brier")] == [error, ece, brier]
    # The paper prints one digit less, rounded or truncated.
    line = dict(zip(COLUMNS, printed()["table-real"]["rows"][name.removesuffix("-authors")], strict=True))
    for key, value in (("error", error), ("ece", ece), ("brier", brier)):
        assert abs(100 * value - line[key]) < 0.1


@pytest.mark.parametrize("name", AUTHORS)
def test_augmented_validation_images_give_the_papers_temperatures_and_clean_ones_calibrate_better(name):
    found = data.load(name)
    augmented, clean = (scores(part, found.test) for part in (found.augmented, found.validation))
    line = dict(zip(COLUMNS, printed()["table-real"]["rows"][name.removesuffix("-authors")], strict=True))
    for method in ("ts", "ec"):
        assert 1.30 < augmented[f"temperature_{method}"] < 1.46
        assert 1.50 < clean[f"temperature_{method}"] < 1.67
        assert augmented[f"temperature_{method}"] == pytest.approx(line[f"temperature_{method}"], abs=0.06)
        assert 0.019 < augmented[f"ece_{method}"] < 0.025
        assert 0.005 < clean[f"ece_{method}"] < 0.012


# Scores.


def equal_mass_ece(confidence, right, n_bins=15):
    """The ECE from chunks of the sorted samples."""
    chunks = np.array_split(np.argsort(confidence, kind="stable"), n_bins)
    return sum(abs((confidence - right)[chunk].sum()) for chunk in chunks) / len(right)


def least_loss(part):
    """The temperature at which SciPy finds the smallest cross-entropy; a minimum is accurate to half the digits."""
    return minimize_scalar(
        lambda T: reference.nll(part.logits, part.labels, T), bounds=(0.3, 6), method="bounded", options={"xatol": 1e-9}
    ).x


@pytest.mark.parametrize("name", ["cifar10/resnet20-authors", "cifar100/vgg19"])
def test_scores_are_those_of_the_formulas(name):
    found = data.load(name)
    row = scores(found.validation, found.test)
    ts = least_loss(found.validation)
    ec = reference.ec_temperature(found.validation.logits, found.validation.labels, low=0.3, high=6)
    assert row["temperature_ts"] == pytest.approx(ts, rel=1e-5)
    assert row["temperature_ec"] == pytest.approx(ec, rel=1e-8)
    right = reference.right(found.test.logits, found.test.labels)
    assert row["error"] == pytest.approx(1 - right.mean(), abs=1e-12)
    for end, T in (("", 1.0), ("_ts", row["temperature_ts"]), ("_ec", row["temperature_ec"])):
        confidence = reference.softmax(found.test.logits, T).max(axis=1)
        assert row[f"ece{end}"] == pytest.approx(equal_mass_ece(confidence, right), abs=1e-9)
        assert row[f"brier{end}"] == pytest.approx(reference.brier(found.test.logits, found.test.labels, T), rel=1e-9)


def test_a_weight_counts_copies_of_a_row():
    found, rng = data.load("cifar10/resnet20"), np.random.default_rng(0)
    parts = [Labelled(part.logits[:2000], part.labels[:2000]) for part in (found.validation, found.test)]
    counts = [rng.integers(0, 4, 2000) for _ in parts]
    copies = [
        Labelled(np.repeat(part.logits, n, axis=0), np.repeat(part.labels, n)) for part, n in zip(parts, counts, strict=True)
    ]
    weighted = scores(*parts, validation_weight=counts[0], test_weight=counts[1])
    assert weighted == pytest.approx(scores(*copies), rel=1e-8, abs=1e-9)
    assert weighted != pytest.approx(scores(*parts), rel=1e-3)


def test_the_bootstraps_error_bar_of_the_error_is_the_binomial_one():
    found = data.load("cifar10/resnet20-fraction-0.5")
    rows = measured(found, resamples=50, seed=0)
    error = rows["clean"]["error"]
    expected = np.sqrt(error * (1 - error) / len(found.test.labels))
    assert rows["clean error bars"]["error"] == pytest.approx(expected, rel=0.35)
    # A temperature varies by hundredths.
    assert 0.003 < rows["clean error bars"]["temperature_ec"] < 0.1


def test_error_bars_follow_from_the_seed_and_numbers_do_not():
    found = data.load("cifar10/resnet20")
    one, again, other = (measured(found, resamples=2, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert set(one) == {"clean", "augmented", "clean error bars", "augmented error bars"}
    for kind in ("clean", "augmented"):
        assert one[kind] == other[kind]
        assert one[f"{kind} error bars"] != other[f"{kind} error bars"]
