"""Reading the data: how much is kept, how progress is reported, and how one reading serves many passes."""

import gc
import tracemalloc

import numpy as np
import pytest

import nishimori
import reference
from nishimori import _array
from nishimori._gibbs import Gibbs
from nishimori._inputs import Batch, batches
from nishimori._moments import gather, together, watched_by

LOGITS, LABELS = reference.drawn(20_000, 50)


def test_no_batch_outlives_its_turn_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        nishimori.temperatures(LOGITS, LABELS)
        nishimori.temperature_curve(LOGITS, LABELS, grid=[1.0, 2.0], strategy="quantile")
        nishimori.metrics.ece(LOGITS, LABELS, of="classwise")
        left = [each for each in gc.get_objects() if type(each) in (Batch, Gibbs)]  # others may mind being asked
    finally:
        gc.enable()
    assert left == []


def test_memory_does_not_grow_with_the_rows_but_for_the_labels(monkeypatch):
    monkeypatch.setattr(_array, "_HOST_BLOCK", 2**14)

    def peak(n):
        logits, labels = LOGITS[:n].astype(np.float32), LABELS[:n]
        tracemalloc.start()
        nishimori.temperatures(logits, labels)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    small, large = peak(5_000), peak(20_000)
    sample = 15_000 * 50 * 4 / 16  # a sixteenth of the additional logits is copied for the start
    assert large - small < 15_000 * 8 + 2 * sample


def test_one_reading_serves_all_passes():
    class Counted:
        """Batches that count their readings."""

        def __init__(self, data):
            self.data, self.n_samples, self.readings = data, data.n_samples, 0

        def __iter__(self):
            self.readings += 1
            return iter(self.data)

    data = Counted(batches(LOGITS, LABELS))
    rows, weight = gather(data, together(lambda b: int(b.labels.shape[0]), lambda b: b.total(b.weights))).items
    assert (data.readings, rows, weight) == (1, 20_000, 20_000.0)


@pytest.mark.parametrize("weights", [None, np.arange(20_000) % 2], ids=["all rows", "every second row"])
def test_progress_ends_each_pass_at_1_once(weights):
    seen = []
    with watched_by(seen.append):
        found = nishimori.temperatures(LOGITS, LABELS, sample_weight=weights)
    assert seen.count(1.0) == found.n_passes
    assert all(0 < fraction <= 1 for fraction in seen)


def test_a_good_start_and_three_passes_are_enough():
    assert nishimori.temperatures(LOGITS, LABELS).n_passes <= 5
