"""What a sketch holds is the same whether a kernel adds up over rows or NumPy does."""

import numpy as np
import pytest
import reference
from host_kernels import WITH_NATIVE

from nishimori import Sketch
from nishimori._kernels import native
from nishimori._sketch import survey

pytestmark = WITH_NATIVE
N = 900
LOGITS, LABELS = reference.drawn(N, 4)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, N)
CLUSTERS = np.random.default_rng(2).integers(0, 60, N)


def by(kernel, monkeypatch, *rows, observables=("ec", "ts"), **options):
    """The sums that one kernel leads to."""
    monkeypatch.setenv("NISHIMORI_KERNEL", kernel)
    return Sketch(observables, **options).update(*rows).state


def assert_equal_sums(one, other):
    sizes = np.abs(one["moments"]).max()
    for name, sums in one.items():
        np.testing.assert_allclose(sums, other[name], rtol=1e-11, atol=1e-12 * sizes, err_msg=name)


@pytest.mark.parametrize("observables", [("ec", "ts"), ("ts", "ec"), ("ec",), ("ts",)])
def test_all_kernels_give_the_same_sums_for_any_observables(observables, monkeypatch):
    for weights in (None, WEIGHTS * (CLUSTERS % 3)):
        numpy, native = (
            by(each, monkeypatch, LOGITS, LABELS, weights, observables=observables) for each in ("numpy", "native")
        )
        assert_equal_sums(numpy, native)


@pytest.mark.parametrize("options", [{"nodes_per_octave": 7}, {"temperatures": (1.0, 2.0)}, {"temperatures": (1e-3, 1e3)}])
def test_all_kernels_give_the_same_sums_on_any_grid(options, monkeypatch):
    numpy, native = (by(each, monkeypatch, LOGITS, LABELS, WEIGHTS, **options) for each in ("numpy", "native"))
    assert_equal_sums(numpy, native)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.dtype(">f4"), np.float64])
def test_all_kernels_give_the_same_sums_in_any_precision(dtype, monkeypatch):
    numpy, native = (by(each, monkeypatch, LOGITS.astype(dtype), LABELS, WEIGHTS) for each in ("numpy", "native"))
    assert_equal_sums(numpy, native)


def test_masked_classes_are_noticed_whichever_kernel_reads_them(monkeypatch):
    masked = np.where((np.arange(4) != LABELS[:, None]) & (CLUSTERS[:, None] == 7), -np.inf, LOGITS)
    numpy, native = (by(each, monkeypatch, masked, LABELS, WEIGHTS) for each in ("numpy", "native"))
    assert_equal_sums(numpy, native)
    assert native["counts"][3] == np.isinf(masked).sum() > 0


def test_the_native_kernel_leaves_no_number_per_row_and_node_to_numpy(monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", "native")
    monkeypatch.delattr(survey.NodeRows, "from_power_sums")
    assert Sketch().update(LOGITS, LABELS, WEIGHTS).n_samples == N
    with pytest.raises(AttributeError):
        Sketch().update(LOGITS, LABELS, WEIGHTS, CLUSTERS)


def test_the_number_of_threads_does_not_change_a_digit(monkeypatch):
    monkeypatch.setattr(native, "_BLOCK", 200)
    expected = by("native", monkeypatch, LOGITS, LABELS, WEIGHTS)
    monkeypatch.setenv("NISHIMORI_THREADS", "3")
    for name, sums in by("native", monkeypatch, LOGITS, LABELS, WEIGHTS).items():
        np.testing.assert_array_equal(sums, expected[name])
