"""A row of the tables is cheap: each array is read a few times, however many numbers the row has."""

from collections import Counter

import numpy as np
import pytest
import reference

from nishimori import data
from nishimori._rows.array_rows import ArrayRows
from nishimori_paper import _measured


@pytest.fixture
def readings(monkeypatch):
    """How often each array was read as a whole, for each row and each resample."""
    seen, rows = Counter(), []
    gather, scores_by_kind = ArrayRows.gather, _measured.scores_by_kind

    def counted(self, *arguments):
        seen[id(self.scores.array)] += 1
        return gather(self, *arguments)

    def noted(kinds, test, **given):
        seen.clear()
        found = scores_by_kind(kinds, test, **given)
        rows.append([seen[id(part.logits)] for part in (test, *kinds.values())])
        return found

    monkeypatch.setattr(ArrayRows, "gather", counted)
    monkeypatch.setattr(_measured, "scores_by_kind", noted)
    return rows


@pytest.mark.parametrize("name", data.names())
def test_each_array_is_read_at_most_three_times_per_row_and_resample(name, readings):
    network = data.load(name)
    _measured.measured(network, resamples=2, seed=0)
    assert len(readings) == 3
    for test, *validations in readings:
        assert test == 2
        assert all(1 <= each <= 3 for each in validations)


def test_a_row_has_the_numbers_of_the_definitions():
    network = data.load("cifar10/resnet20")
    validation, test = network.validation, network.test
    row = _measured.scores(validation, test)
    T = reference.ec_temperature(validation.logits, validation.labels, low=0.1, high=10)
    assert row["temperature_ec"] == pytest.approx(T, rel=1e-8)
    p = reference.softmax(test.logits, T).max(axis=1)
    expected = reference.ece(p, reference.right(test.logits, test.labels), reference.quantile_edges(p, 15))
    assert row["ece_ec"] == pytest.approx(expected, rel=1e-6)
    assert row["brier_ec"] == pytest.approx(reference.brier(test.logits, test.labels, T), rel=1e-8)
    assert row["brier"] == pytest.approx(reference.brier(test.logits, test.labels), rel=1e-12)
    assert list(row) == [
        *("temperature_ts", "temperature_ec", "error"),
        *("ece", "brier", "ece_ts", "brier_ts", "ece_ec", "brier_ec"),
        *("ece_difference", "brier_change_ts", "brier_change_ec"),
    ]


def test_differences_of_the_same_images_have_their_own_error_bars():
    found = _measured.measured(data.load("cifar10/resnet20"), resamples=20, seed=0)
    row, bars = found["clean"], found["clean error bars"]
    assert row["ece_difference"] == row["ece_ts"] - row["ece_ec"]
    for name in ("ts", "ec"):
        assert row[f"brier_change_{name}"] == row[f"brier_{name}"] - row["brier"]
        # The same images are easy or hard before and after, so that most of the spread cancels.
        assert 0 < bars[f"brier_change_{name}"] < 0.5 * bars["brier"]
    assert 0 < bars["ece_difference"] < np.hypot(bars["ece_ts"], bars["ece_ec"])


def test_a_resample_starts_at_the_answer_of_all_rows_and_finds_its_own():
    network = data.load("cifar10/resnet20")
    weights = np.random.default_rng(0).multinomial(5000, np.full(5000, 1 / 5000))
    kinds = {"clean": network.validation}
    near = _measured.scores_by_kind(kinds, network.test)
    found = _measured.scores_by_kind(kinds, network.test, validation_weight=weights, near=near)["clean"]
    logits, labels = network.validation.logits, network.validation.labels
    assert found["temperature_ts"] == pytest.approx(
        reference.ts_temperature(logits, labels, weights, low=0.1, high=10), rel=1e-8
    )
    assert found["temperature_ts"] != near["clean"]["temperature_ts"]
