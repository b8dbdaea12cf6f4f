"""Every kernel against the definition, row by row in plain NumPy."""

import math
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import host_kernels
import numpy as np
import pytest
import reference

import nishimori
from nishimori._kernels import kernel as kernel_module
from nishimori._kernels import native
from nishimori._kernels.kernel import kernel_for, kernel_named, power_sums
from nishimori._kernels.sums import PowerSums
from nishimori.errors import InputError

EVERY = pytest.mark.parametrize("name", host_kernels.EVERY)


def sums_of_a_row(row, beta, order, top_n=1):
    """The definition: sort, leave out the first N, sum what is not masked."""
    z = row.astype(np.float64)
    order_of_classes = np.argsort(-z, kind="stable")[top_n:]
    d = (z - z.max())[order_of_classes]
    d = d[d > -math.inf]
    weights = (d == 0).astype(float) if beta == math.inf else np.exp(beta * d)
    return [math.fsum(weights * d**j) for j in range(order + 1)]


def expected(logits, betas, order, top_n=1):
    return np.array([[sums_of_a_row(row, beta, order, top_n) for row in logits] for beta in betas]).transpose(0, 2, 1)


def logits_of(n, k, dtype, seed=0):
    rng = np.random.default_rng(seed)
    z = 3 * rng.normal(size=(n, k))
    z[1] += 1e4  # a constant
    z[2, : max(1, k // 2)] = -math.inf
    z[3, 1:] = -math.inf  # one class is left
    z[4] = 0.5  # all are equal
    z[5, -1] = z[5].max()  # the first of two largest
    return z.astype(dtype)


def assert_agree(found, wanted, dtype):
    # Float32 may leave a masked class a weight of 1e-38, and its sixth power of 87 / beta.
    scale = np.abs(wanted) + np.abs(wanted[:, :1]) + (1e-12 if dtype == np.float32 else 1e-30)
    assert np.max(np.abs(found - wanted) / scale) < (4e-6 if dtype == np.float32 else 1e-13)


@EVERY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 3, 10, 31, 33, 99, 100, 101, 1024, 1025, 3000])
def test_power_sums_are_those_of_the_definition(name, k, dtype):
    z = logits_of(40, k, dtype)
    betas = (0.3, 0.6, 1.1, 2.4)
    found = power_sums(kernel_named(name), z, betas, 5)
    assert_agree(found.sums, expected(z, betas, 5), dtype)
    assert found.sums.dtype == np.float64
    np.testing.assert_array_equal(found.peak, z.max(axis=1))
    np.testing.assert_array_equal(found.top, z.argmax(axis=1))  # there are ties


@EVERY
@pytest.mark.parametrize("k", [2, 10, 150])
def test_without_ties_the_largest_logit_tells_the_top_class(name, k):
    z = np.random.default_rng(0).normal(size=(50, k))
    found = power_sums(kernel_named(name), z, (1.0,), 0)
    np.testing.assert_array_equal(found.peak, z.max(axis=1))
    assert found.top is None or (found.top == z.argmax(axis=1)).all()


@EVERY
@pytest.mark.parametrize("beta", [0.0, math.inf])
def test_both_ends_count_classes_and_ties(name, beta):
    z = logits_of(30, 7, np.float64)
    assert_agree(power_sums(kernel_named(name), z, (beta, 1.0), 2).sums, expected(z, (beta, 1.0), 2), np.float64)


@EVERY
@pytest.mark.parametrize("top_n", [2, 3, 6])
def test_several_top_classes_are_left_out(name, top_n):
    z = logits_of(30, 7, np.float64)
    z[6, :4] = z[6].max() + 1  # four equal ones, some of them inside
    assert_agree(power_sums(kernel_named(name), z, (0.5,), 3, top_n).sums, expected(z, (0.5,), 3, top_n), np.float64)


@EVERY
@pytest.mark.parametrize("scale", [1e-90, 1e-12, 1e12, 1e90])
def test_any_scale_of_logits_and_temperature_keeps_the_digits(name, scale):
    z = logits_of(20, 6, np.float64)
    z[1] -= 1e4
    found = power_sums(kernel_named(name), z * scale, (0.7 / scale,), 3).sums / scale ** np.arange(4)[:, None]
    assert_agree(found, expected(z, (0.7,), 3), np.float64)


@EVERY
@pytest.mark.parametrize("layout", ["column major", "every second row", "backwards", "read-only"])
def test_any_layout_in_memory_gives_the_same(name, layout):
    z = logits_of(50, 12, np.float32)
    made = {
        "column major": lambda: np.asfortranarray(z),
        "every second row": lambda: np.repeat(z, 2, axis=0)[::2],
        "backwards": lambda: z[::-1].copy()[::-1],
        "read-only": lambda: np.frombuffer(z.tobytes(), np.float32).reshape(z.shape),
    }[layout]()
    found, usual = (power_sums(kernel_named(name), each, (0.7,), 3).sums for each in (made, z))
    np.testing.assert_allclose(found, usual, rtol=1e-14)


@pytest.mark.parametrize("name", host_kernels.HOST)
def test_very_many_small_weights_are_not_lost_beside_a_large_one(name):
    small = math.log(1e-9)
    z = np.full((3, 128_000), small, np.float32)
    z[:, 7], z[:, 70_000] = 0.0, math.log(0.5)
    found = power_sums(kernel_named(name), z, (1.0,), 1).sums[0]
    np.testing.assert_allclose(found[0], 0.5 + 127_998e-9, rtol=2e-7)


@pytest.mark.parametrize("name", host_kernels.HOST)
def test_rounding_errors_of_float32_have_no_preferred_sign(name):
    z = (4 * np.random.default_rng(0).normal(size=(20_000, 20))).astype(np.float32)
    single, double = (power_sums(kernel_named(name), each, (0.63,), 2).sums for each in (z, z.astype(np.float64)))
    confidence = [1 / (1 + sums[0, 0]) for sums in (single, double)]
    assert abs(np.mean(confidence[0] - confidence[1])) < 1e-9
    assert 1e-10 < np.std(confidence[0] - confidence[1]) < 1e-7  # it was float32


@pytest.mark.parametrize("name", host_kernels.HOST)
def test_sixteen_threads_at_once_give_the_digits_of_one(name):
    blocks = [logits_of(500, k, np.float32, seed) for seed, k in enumerate([10, 200, 40, 1500] * 4)]
    alone = [power_sums(kernel_named(name), z, (0.4, 0.8), 4).sums for z in blocks]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda z: power_sums(kernel_named(name), z, (0.4, 0.8), 4).sums, blocks * 4))
    for i, sums in enumerate(together):
        np.testing.assert_array_equal(sums, alone[i % 16])


@EVERY
@pytest.mark.parametrize(("n", "k"), [(3000, 4), (3000, 40), (1200, 300)])
def test_every_kernel_finds_the_temperatures_of_the_definition(name, n, k, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", name)
    logits, labels = reference.drawn(n, k)
    logits = (2 * logits).astype(np.float32)
    found = nishimori.temperatures(logits, labels)
    assert found.ec == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(logits, labels), rel=1e-8)
    assert nishimori.ExpectationConsistency().fit(logits, labels).fit_info_.kernel == name


@host_kernels.WITH_NATIVE
def test_the_usual_kernel_is_native():
    assert kernel_for(np.zeros((2, 2))) is native


def test_numpy_takes_over_where_there_is_no_library(monkeypatch):
    monkeypatch.setattr(native, "library", lambda: native.Library(problem="no C compiler when it was installed"))
    assert kernel_for(np.zeros((2, 2))) is kernel_named("numpy")
    assert native.description() == "NumPy only: no C compiler when it was installed"
    monkeypatch.setenv("NISHIMORI_KERNEL", "native")
    message = r"be a kernel that is installed, got 'native' \(NumPy only: no C compiler when it was installed\)\. Unset it\.$"
    with pytest.raises(InputError, match=message):
        kernel_for(np.zeros((2, 2)))


def test_a_kernel_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", "fortran")
    message = r"^`NISHIMORI_KERNEL` must be numpy, native, triton or array_api, got 'fortran'\. Correct or unset it\.$"
    with pytest.raises(InputError, match=message):
        nishimori.temperatures(*reference.drawn(50, 3))


def obvious(logits, betas, order):
    """A kernel is one function. This one shares no code with the package."""
    sums = expected(logits, betas, order)
    return PowerSums(logits.max(axis=1), logits.argmax(axis=1), sums)


def test_a_new_kernel_is_one_function(monkeypatch):
    logits, labels = reference.drawn(300, 4)
    usual = nishimori.evaluate(logits, labels)
    monkeypatch.setattr(kernel_module, "kernel_for", lambda array: SimpleNamespace(__name__="obvious", power_sums=obvious))
    fitted = nishimori.ExpectationConsistency().fit(logits, labels)
    assert fitted.temperature_ == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    assert fitted.fit_info_.kernel == "obvious"
    card = nishimori.evaluate(logits, labels)
    assert (card.nll, card.ece, card.brier) == pytest.approx((usual.nll, usual.ece, usual.brier), rel=1e-12)


@EVERY
def test_a_beta_that_is_asked_for_twice_is_answered_twice(name):
    logits = np.random.default_rng(0).normal(size=(50, 6))
    wanted = (0.5, 1.0, 0.5, 2.0, 1.0)
    drops = logits - logits.max(axis=1, keepdims=True)
    sums = power_sums(kernel_named(name), logits, wanted, 1).sums
    for found, beta in zip(sums, wanted, strict=True):
        expected = [(drops**j * np.exp(beta * drops)).sum(axis=1) - (j == 0) for j in range(2)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
