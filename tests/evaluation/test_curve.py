"""Scores on a grid of temperatures: those of each temperature alone, and progress while they are summed."""

import numpy as np
import pytest
import reference
from watched import Watched

from nishimori._evaluation.curve import cards_around
from nishimori._rows.entry import open_rows


@pytest.mark.parametrize("n_classes", [40, 600])
def test_cards_around_chosen_temperatures_are_those_of_each_temperature_for_few_and_for_many_classes(n_classes):
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(60, n_classes))).astype(np.float32)
    labels = rng.integers(n_classes, size=60)
    for card in cards_around(open_rows(logits, labels), [1.5], n_bins=10):
        assert card.nll == pytest.approx(reference.nll(logits, labels, card.temperature), rel=1e-10)
        claimed, true = reference.softmax(logits, card.temperature).max(axis=1), logits.argmax(axis=1) == labels
        assert card.ece == pytest.approx(reference.ece(claimed, true, np.linspace(0, 1, 11)), rel=1e-10)


def test_progress_is_told_several_times_while_many_temperatures_are_measured(monkeypatch):
    monkeypatch.setattr("nishimori._rows.array_rows._UNCHECKED_NUMBERS", 60_000)
    logits, labels = reference.drawn(1000, 5)
    told = []
    data = Watched(open_rows(logits, labels), lambda _, done, total: told.append((done, total)))
    n_places = len(cards_around(data, [1.5], n_bins=10))
    assert told[-1] == (1000, 1000)
    assert len(told) >= 1000 * 5 * n_places / 60_000
