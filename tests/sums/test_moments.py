"""Reading the data: how much is kept, how progress is reported, and how one reading serves many passes."""

import numpy as np
import pytest
import reference
from host_kernels import HOST
from measured_moments import measure
from own_process import measure as measure_memory
from watched import Watched

import nishimori
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.entry import open_rows
from nishimori._sums.observables import Confidence, Energy
from nishimori._sums.passes import together

LOGITS, LABELS = reference.drawn(20_000, 50)


def test_no_batch_outlives_its_turn_without_the_garbage_collector():
    assert measure_memory("batches_left") == 0


def test_memory_does_not_grow_with_the_rows_but_for_the_labels():
    small, large = measure_memory("fit", sizes=[5_000, 20_000])
    # Of each additional row the label and the weight stay, and a copy of those in a sample: far less than its 50 logits.
    assert large - small < 15_000 * 32 < 15_000 * 50 * 4


@pytest.fixture
def readings(monkeypatch):
    """The number of rows of each reading of an array, in order."""
    seen, gather = [], ArrayRows.gather

    def counted(self, *arguments):
        seen.append(self.n_rows)
        return gather(self, *arguments)

    monkeypatch.setattr(ArrayRows, "gather", counted)
    return seen


def test_one_reading_serves_all_passes(readings):
    passes = together(lambda b: b.n_rows, lambda b: b.total(b.weights))
    assert open_rows(LOGITS, LABELS).gather(passes).items == (20_000, 20_000.0)
    assert readings == [20_000]


@pytest.mark.parametrize("kernel", HOST)
@pytest.mark.parametrize("weights", [None, np.arange(20_000) % 2], ids=["all rows", "every second row"])
def test_progress_is_told_for_each_pass_until_all_rows_are_read(weights, kernel, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", kernel)
    seen = []
    found = nishimori.temperatures(Watched(open_rows(LOGITS, LABELS, weights), lambda *told: seen.append(told)))
    n_rows = 20_000 if weights is None or kernel == "native" else 10_000  # which skips rows by itself
    assert [done for _, done, _ in seen].count(n_rows) == found.n_passes
    assert all(0 < done <= n_rows and total == 20_000 for _, done, total in seen)


@pytest.mark.parametrize("n_classes", [4, 40])
def test_many_rows_are_read_once_after_samples_of_them(n_classes, readings):
    found = nishimori.temperatures(*reference.drawn(70_000, n_classes))
    assert readings.count(70_000) == found.n_passes == 1
    assert readings[-1] == 70_000
    assert len(readings) > 2
    assert readings == sorted(readings)


def test_few_rows_are_read_twice_of_which_once_quickly(readings):
    found = nishimori.temperatures(*reference.drawn(20_000, 10))
    assert readings.count(20_000) == found.n_passes == 2


def test_an_evaluation_reads_once_and_quantiles_twice(readings):
    nishimori.evaluate(LOGITS, LABELS)
    assert readings == [20_000]
    nishimori.evaluate(LOGITS, LABELS, strategy="quantile")
    assert readings == 3 * [20_000]


def test_a_curve_of_many_temperatures_reads_once_after_the_fit(readings):
    curve = nishimori.temperature_curve(LOGITS, LABELS)
    assert readings.count(20_000) == curve.chosen.n_passes + 1


@pytest.mark.parametrize(
    "other",
    [lambda b: measure(b, Energy(), [1.0]), lambda b: measure(b, Confidence(), [2.0])],
    ids=["another observable", "another β"],
)
def test_moments_of_different_things_do_not_add(other):
    batch = next(iter(open_rows(LOGITS, LABELS)))
    with pytest.raises(nishimori.errors.MergeError, match="Moments add only if they are of the same observable at the same β"):
        measure(batch, Confidence(), [1.0]) + other(batch)


def test_a_beta_may_be_asked_for_twice():
    batch = next(iter(open_rows(LOGITS, LABELS)))
    twice, once = measure(batch, Energy(), [0.5, 2.0, 0.5]), measure(batch, Energy(), [0.5])
    for name in ("expected", "slope", "curvature"):
        assert getattr(twice, name)[0] == getattr(twice, name)[2] == pytest.approx(getattr(once, name)[0], rel=1e-12)
