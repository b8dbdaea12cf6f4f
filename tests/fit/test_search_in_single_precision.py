"""Logits of float32 whose rounding errors do not average out: the temperature has the digits of float64."""

import numpy as np
import pytest
import reference
from host_kernels import HOST

from nishimori import temperatures

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
