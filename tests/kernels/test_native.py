"""The native kernel gives the sums of the formulas."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from host_kernels import WITH_NATIVE
from native_cases import check_random_block, check_random_half, plain
from optional import mpmath

from nishimori._kernels import native
from nishimori._kernels.kernel import power_sums
from nishimori.errors import InputError

pytestmark = WITH_NATIVE
DTYPES = [np.float32, np.float64]
SHAPES = [(1, 2), (5, 3), (127, 10), (129, 31), (40, 32), (33, 100), (9, 511), (9, 512), (9, 513), (4, 5000)]
# One weight has a relative error of 1e-7 in float32, and d itself one of 6e-8, which is multiplied by β·d.
TOLERANCE = {np.float32: 3e-6, np.float64: 1e-14}
# Squaring doubles the error nine times.
NODES = tuple(0.05 * 2 ** (i / 4) for i in range(37))


@pytest.fixture(autouse=True, params=native.library().variants)
def variant(request, monkeypatch):
    """Every claim holds for every set of instructions that this processor has."""
    monkeypatch.setenv("NISHIMORI_NATIVE_VARIANT", request.param)
    return request.param


def logits(shape, dtype, seed=0, scale=3.0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def check(z, betas, order, rtol, atol=0.0):
    top, sums = plain(z, betas, order)
    found = power_sums(native, z, betas, order)
    np.testing.assert_array_equal(found.top, top)
    assert found.top.dtype == np.int64
    assert found.sums.dtype == np.float64
    np.testing.assert_allclose(found.sums, sums, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [0, 2, 3, 5])
def test_sums_are_those_of_the_definition(shape, dtype, order):
    check(logits(shape, dtype), (0.7,), order, TOLERANCE[dtype])
    check(logits(shape, dtype), (1.3, 0.2), order, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [3, 10, 40, 700])
def test_masked_classes_weigh_nothing_at_any_beta(n_classes, dtype):
    z = logits((64, n_classes), dtype)
    z[np.random.default_rng(1).random(z.shape) < 0.5] = -np.inf
    z[np.isinf(z).all(axis=1), 1] = 2.0
    check(z, (0.0, 0.4, 1.0, np.inf), 3, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [4, 40, 600])
def test_a_row_of_one_live_class_has_no_sums(n_classes, dtype):
    z = np.full((3, n_classes), -np.inf, dtype)
    z[:, n_classes - 2] = [-1e30, 0.0, 1e30]
    found = power_sums(native, z, (0.0, 1e-30, 0.5, 1.0, 1e30, np.inf), 5)
    np.testing.assert_array_equal(found.top, [n_classes - 2] * 3)
    np.testing.assert_array_equal(found.sums, 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [(1, 3), (0, 39), (5, 513, 514), (511, 512)])
def test_the_first_of_equal_maxima_is_the_top_and_the_others_weigh_one(columns, dtype):
    z = logits((6, 40 if max(columns) < 40 else 600), dtype)
    z[:, list(columns)] = 30.0
    found = power_sums(native, z, (np.inf, 2.0), 1)
    np.testing.assert_array_equal(found.top, columns[0])
    np.testing.assert_array_equal(found.sums[0], [[len(columns) - 1] * 6, [0] * 6])
    check(z, (2.0, 0.1), 5, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [10, 300])
def test_betas_that_double_are_as_exact_as_float64(n_classes, dtype):
    check(logits((70, n_classes), dtype), NODES, 3, 3e-13, atol=1e-300)
    check(logits((70, n_classes), dtype), (4.0, 1.0, 3.0, 2.0, 0.0), 6, 3e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [10, 100])
def test_strided_and_read_only_logits_give_the_same_digits(n_classes, dtype):
    z = logits((50, n_classes), dtype)
    labels = np.arange(50) % n_classes
    expected = power_sums(native, z, (0.7,), 5), native.block_sums(z, labels, np.ones(len(z)), 0.7, 0.8)
    wide = np.zeros((100, 2 * n_classes), dtype)
    wide[::2, ::2] = z
    fixed = z.copy()
    fixed.flags.writeable = False
    apart = np.repeat(z, 3, axis=0)[::3]  # each row is in one piece
    for same in (np.asfortranarray(z), wide[::2, ::2], z[::-1, ::-1][::-1, ::-1], fixed, apart, apart[::-1][::-1]):
        found = power_sums(native, same, (0.7,), 5)
        np.testing.assert_array_equal(found.top, expected[0].top)
        np.testing.assert_array_equal(found.sums, expected[0].sums)
        np.testing.assert_array_equal(native.block_sums(same, labels, np.ones(len(z)), 0.7, 0.8), expected[1])


@pytest.mark.parametrize("n_classes", [10, 300])
def test_any_layout_and_number_of_threads_give_the_same_digits(n_classes, monkeypatch):
    z = logits((2**20 // n_classes + 7, n_classes), np.float32)
    labels, weights = np.arange(len(z)) % n_classes, np.arange(len(z)) % 5.0
    expected = None
    for n_threads, given in itertools.product(("1", "2", "3", "16"), (z, np.asfortranarray(z))):
        monkeypatch.setenv("NISHIMORI_THREADS", n_threads)
        found = [*native.power_sums(given, (0.7, 1.1), 1), native.block_sums(given, labels, weights, 0.7, 0.8)]
        expected = expected or found
        for each, same in zip(found, expected, strict=True):
            np.testing.assert_array_equal(each, same)


@pytest.mark.parametrize("wanted", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(wanted, monkeypatch):
    monkeypatch.setenv("NISHIMORI_THREADS", wanted)
    message = rf"^`NISHIMORI_THREADS` must be a number of threads, such as 2, got '{wanted}'\. Correct or unset it\.$"
    with pytest.raises(InputError, match=message):
        native.power_sums(np.eye(3), (1.0,), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [10, 100])
def test_a_constant_on_a_row_does_not_matter(n_classes, dtype):
    z = np.round(logits((40, n_classes), dtype))
    shifted = z + dtype(2.0**20)  # integers stay exact
    found, expected = (power_sums(native, each, (0.7,), 5) for each in (shifted, z))
    np.testing.assert_array_equal(found.top, expected.top)
    np.testing.assert_array_equal(found.sums, expected.sums)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1e4, 1e9, 1e25])
def test_no_scale_of_the_logits_overflows(scale, dtype):
    z = (scale * logits((20, 50), np.float64)).astype(dtype)
    check(z, (0.7 / scale,), 5, TOLERANCE[dtype])


def test_tiny_weights_beside_a_large_one_keep_their_sum():
    z = np.full((2, 128_002), np.log(1e-9), np.float32)
    z[:, 77] = 0.0
    z[1, 100] = np.log(0.5)
    check(z, (1.0,), 0, 1e-7)
    check(z, (1.0,), 1, 3e-7)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_right_and_not_biased(dtype):
    # Two classes: the only sum is the weight.
    d = -np.random.default_rng(3).uniform(0, 60, 400_000).astype(dtype)
    for beta in (0.01, 1 / 3, 1.4):
        weights = power_sums(native, np.stack([np.zeros_like(d), d], axis=1), (beta,), 0).sums[0, 0]
        exact = np.exp(np.longdouble(beta) * d)
        error = ((weights - exact) / exact).astype(float)
        assert abs(error).max() < (1.2e-7 if dtype == np.float32 else 1e-15)
        assert abs(error.mean()) < (1e-9 if dtype == np.float32 else 1e-17 + 1e-16)


def test_float64_is_right_down_to_1e_300():
    z = np.array([[0.0, -3.25, -690.0, -0.125], [5.0, -600.0, -650.5, -680.0], [1e-9, 0.0, -1e-13, -400.0]])
    with mpmath.workdps(40):
        for beta in (1.0, 0.3):
            found = power_sums(native, z, (beta,), 5).sums[0]
            for i, row in enumerate(z):
                d = sorted(mpmath.mpf(float(x)) - mpmath.mpf(float(row.max())) for x in row)[:-1]
                for j in range(6):
                    exact = mpmath.fsum(x**j * mpmath.exp(mpmath.mpf(beta) * x) for x in d)
                    assert abs(found[j, i] / exact - 1) < 1e-14


def definition(z, labels, weights, beta_ec, beta_ts):
    """The sums from the formulas, in NumPy."""
    z = z.astype(float)
    rows = np.arange(len(z))
    w = weights
    top, (R_ec, R_ts) = plain(z, (beta_ec, beta_ts), 5)
    right = labels == top
    dl = z[rows, labels] - z.max(axis=1)
    Z = 1 + R_ec[0]
    c, m1, m2, m3, m4 = 1 / Z, *R_ec[1:5] / Z
    gE = np.where(right, -R_ec[0] / Z, c)
    sE = -c * m1
    cE = -c * m2 + 2 * c * m1**2
    jE = -c * m3 + 6 * c * m1 * m2 - 6 * c * m1**3
    nE = c * (24 * m1**4 - 36 * m1**2 * m2 + 6 * m2**2 + 8 * m1 * m3 - m4)
    m1, m2, m3, m4, m5 = R_ts[1:] / (1 + R_ts[0])
    gT = m1 - dl
    sT = m2 - m1**2
    cT = m3 - 3 * m1 * m2 + 2 * m1**3
    jT = m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4
    nT = m5 - 5 * m1 * m4 - 10 * m2 * m3 + 20 * m1**2 * m3 + 30 * m1 * m2**2 - 60 * m1**3 * m2 + 24 * m1**5
    ec = [gE, abs(gE), sE, cE, jE]
    ts = [gT, abs(m1) + abs(dl), sT, cT, jT]
    first = [np.sum(w * x) for x in ec] + [np.sum(w**2 * sE**2)] + [np.sum(w * x) for x in ts] + [np.sum(w**2 * sT**2)]
    others = [
        np.sum(w * nE),
        np.sum(w * nT),
        np.sum(w * right),
        np.sum(w * ~right),
        np.sum(w**2 * right),
        np.sum(w**2 * ~right),
        np.sum(right),
        np.sum(dl == -np.inf),
    ]
    second = [np.sum(v * x) for v in (w, w**2) for x in (gE**2, gT**2, gE * gT)]
    slopes = [np.sum(w * x) for x in (sE**2, sT**2)]
    slopes += [np.sum(v * x) for v in (w, w**2) for x in (sE * sT, gE * sE, gT * sT, gE * sT, gT * sE)]
    return np.array([*first, *second, np.sum(w), np.sum(w**2), np.sum(w * right), np.sum(w * dl), *slopes, *others])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 2), (200, 10), (300, 40), (150, 700)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("betas", [(0.7, 0.9), (0.5, 1.0), (0.6, 0.6)])
def test_block_sums_are_those_of_the_formulas(shape, dtype, weighted, betas):
    rng = np.random.default_rng(5)
    z = logits(shape, dtype)
    z[:, -1] = np.where(rng.random(shape[0]) < 0.3, -np.inf, z[:, -1])
    labels = rng.integers(0, shape[1] - 1, shape[0])
    labels[::2] = z[::2].argmax(axis=1)
    weights = rng.random(shape[0]) if weighted else np.ones(shape[0])
    found = native.block_sums(z, labels, weights, *betas)
    # The sums of gaps cancel, so their errors are measured against the sums of absolute values.
    expected = definition(z, labels, weights, *betas)
    scale = np.maximum(abs(expected), shape[0] * 1e-1)
    scale[34:36] *= 10  # more of the terms of a fourth derivative cancel
    assert np.all(abs(found[:42] - expected) < (1e-6 if dtype == np.float32 else 1e-13) * scale)
    assert (len(found) == 42) == (z == -np.inf).any()  # nothing is counted where something is masked


def test_sixteen_threads_give_the_digits_of_one():
    blocks = [logits((400, k), dtype, seed) for seed, k in enumerate([7, 10, 100, 1000]) for dtype in DTYPES] * 8
    labels = np.zeros(400, np.int64)

    def work(z):
        return power_sums(native, z, (0.7,), 5).sums, native.block_sums(z, labels, np.ones(400), 0.7, 0.9)

    expected = [work(z) for z in blocks]
    with ThreadPoolExecutor(16) as pool:
        for found, alone in zip(pool.map(work, blocks), expected, strict=True):
            np.testing.assert_array_equal(found[0], alone[0])
            np.testing.assert_array_equal(found[1], alone[1])


def test_a_block_without_rows_has_empty_sums():
    found = power_sums(native, np.empty((0, 5), np.float32), (0.7, 1.0), 2)
    assert found.top.shape == (0,)
    assert found.sums.shape == (2, 3, 0)
    nothing = np.empty((0, 5)), np.empty(0, int), np.empty(0)
    np.testing.assert_array_equal(native.block_sums(*nothing, 1.0, 2.0), np.zeros(46))


def test_half_precision_is_refused():
    with pytest.raises(AssertionError, match="widened"):
        power_sums(native, np.zeros((2, 3), np.float16), (1.0,), 1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_random_blocks_of_every_kind_have_the_sums_of_extended_precision(first):
    for seed in range(first, first + 10):
        check_random_block(seed)


@pytest.mark.parametrize("seed", range(6))
def test_random_rows_of_half_precision_have_the_sums_of_extended_precision(seed):
    check_random_half(seed)


def test_rows_without_classes_are_noticed():
    nothing, labels = np.empty((3, 0)), np.zeros(3, int)
    with np.errstate(all="raise"):
        assert len(native.block_sums(nothing, labels, np.ones(3), 0.5, 0.6)) == 42
