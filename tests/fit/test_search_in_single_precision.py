"""Float32 is used where its errors average out, and given up where they do not."""

import numpy as np
import pytest
import reference
from host_kernels import HOST

from nishimori import temperatures
from nishimori._fit.search import CompareRows, RowErrors
from nishimori._rows.batch import Batch
from nishimori._sums.observables import Confidence, Energy

PROMISED = 1e-8


@pytest.fixture(params=HOST)
def _kernel(request, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", request.param)


def faint(seed, n=2000, k=64):
    """Answers hardly better than chance: the temperature is uncertain, and so are its last digits."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)).astype(np.float32)
    labels = (logits / 1.5 + rng.gumbel(size=(n, k))).argmax(axis=1)
    noisy = rng.random(n) < 0.3
    labels[noisy] = rng.integers(k, size=noisy.sum())
    return logits, labels


def rounded(seed, n=4000, k=33):
    """Logits that are multiples of a half: their weights are the same few numbers, with the same errors, again and again."""
    rng = np.random.default_rng(seed)
    logits = np.round(2 * rng.normal(size=(n, k)) * 2).astype(np.float32) / 2
    return logits, (logits / 2 + rng.gumbel(size=(n, k))).argmax(axis=1)


def tiled(seed, n=9000, k=40):
    """The same twenty rows."""
    rng = np.random.default_rng(seed)
    logits = (3 * rng.normal(size=(20, k))).astype(np.float32)[np.arange(n) % 20]
    return logits, (logits / 2 + rng.gumbel(size=(n, k))).argmax(axis=1)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("seed", [12, 21, 28])
@pytest.mark.parametrize("drawn", [faint, rounded, tiled])
def test_errors_of_float32_that_do_not_average_out_are_kept_out(drawn, seed):
    logits, labels = drawn(seed)
    found, exact = temperatures(logits, labels), logits.astype(np.float64)
    for T, gap in ((found.ec, reference.ec_gap), (found.ts, reference.ts_gap)):
        assert gap(exact, labels, T * (1 - PROMISED)) > 0 > gap(exact, labels, T * (1 + PROMISED))


def test_row_means_are_the_confidence_and_the_mean_drop():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 7)), rng.integers(7, size=50)
    means = CompareRows(((Confidence(), 0.5), (Energy(), 2.0))).means(Batch(logits, labels, np.ones(50)), exact=True)
    np.testing.assert_allclose(means[0], reference.softmax(logits, 2.0).max(axis=1), rtol=1e-13)
    drops = logits - logits.max(axis=1, keepdims=True)
    np.testing.assert_allclose(means[1], (reference.softmax(logits, 0.5) * drops).sum(axis=1), rtol=1e-12)


def test_the_distance_of_row_means_allows_for_chance_in_a_part_of_the_rows():
    weights, errors = np.array([1.0, 2.0, 1.0, 4.0]), np.array([3e-9, -1e-9, 2e-9, 1e-9])
    one, two = np.zeros((1, 4)), errors[None]
    mean = (3 - 2 + 2 + 4) * 1e-9 / 8
    spread = 1e-9 * np.sqrt(3**2 + 2**2 + 2**2 + 4**2) / 8
    assert RowErrors.between(one, two, weights).distance(0, is_part=False) == pytest.approx(mean)
    assert RowErrors.between(two, one, weights).distance(0, is_part=True) == pytest.approx(mean + 2 * spread)
    halves = [RowErrors.between(one[:, some], two[:, some], weights[some]) for some in (slice(2), slice(2, 4))]
    assert (halves[0] + halves[1]).distance(0, is_part=True) == pytest.approx(mean + 2 * spread)
