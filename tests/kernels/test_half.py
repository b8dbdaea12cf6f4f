"""Sums over the values that occur in rows of half precision are those of the formulas, and the digits of float64."""

import numpy as np
import pytest
import reference
from host_kernels import HOST, WITH_NATIVE

from nishimori import Sketch, evaluate, temperatures
from nishimori._kernels.kernel import kernel_named, power_sums
from nishimori._kernels.native import MANY, takes_half
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.scores import scores
from nishimori._sums.moments import Measure
from nishimori._sums.observables import BUILT_IN
from nishimori._support import arrays
from nishimori.errors import InputError

N_CLASSES = MANY
DTYPES = ["bfloat16", "float16"]
BETAS = (0.0, 0.3, 1.0, 0.6, np.inf, 1.7, 2.4)


@pytest.fixture(params=HOST)
def _kernel(request, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", request.param)


def stored(values, dtype):
    """Numbers in half precision, as a source keeps them, and exactly the same numbers in float64."""
    if dtype == "float16":
        half = values.astype(np.float16)
        return half, half.astype(np.float64)
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits.view(arrays._BFLOAT16), (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def drawn(n, seed=0, n_classes=N_CLASSES):
    """A long tail with some large entries, as of a language model."""
    rng = np.random.default_rng(seed)
    values = 2 * rng.normal(size=(n, n_classes))
    columns = rng.integers(n_classes, size=(n, 20))
    np.put_along_axis(values, columns, 14 - rng.uniform(1, 4, size=(n, 1)) * np.log(np.arange(1, 21)), axis=1)
    return values


def labelled(n, dtype, seed=0):
    """Logits in half precision and in float64, and labels drawn from their softmax at T = 1.3."""
    half, exact = stored(drawn(n, seed), dtype)
    rng = np.random.default_rng(seed + 1)
    return half, exact, (exact / 1.3 + rng.gumbel(size=exact.shape)).argmax(axis=1)


def plain(z, betas, order):
    """Top classes and power sums in the most obvious way."""
    top, d = z.argmax(axis=1), z - z.max(axis=1, keepdims=True)
    live = d > -np.inf
    live[np.arange(len(z)), top] = False
    d = np.where(live, d, 0)
    weights = [np.where(live, d == 0 if beta == np.inf else np.exp(beta * d), 0) for beta in betas]
    return top, np.array([[(w * d**j).sum(axis=1) for j in range(order + 1)] for w in weights])


@WITH_NATIVE
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [0, 3, 5])
def test_sums_are_those_of_the_definition_at_every_beta(dtype, order):
    values = drawn(4)
    values[1, [7, 5000]] = 30.0  # two largest ones
    values[2] = -np.abs(values[2])
    values[2, 100:200] = np.where(np.arange(100) % 2, 0.0, -0.0)  # the largest is zero with either sign
    values[3, ::3] = -np.inf
    half, exact = stored(values, dtype)
    found = power_sums(kernel_named("native"), half, BETAS, order)
    top, sums = plain(exact, BETAS, order)
    np.testing.assert_array_equal(found.top, top)
    np.testing.assert_array_equal(found.peak, exact.max(axis=1))
    np.testing.assert_allclose(found.sums, sums, rtol=1e-12, atol=1e-12)


def test_the_values_of_all_bits_are_those_of_the_types():
    bits = np.arange(2**16, dtype=np.uint16)
    np.testing.assert_array_equal(arrays.half_values("float16"), bits.view(np.float16).astype(float))
    sign, exponent, fraction = (bits >> 15).astype(int), (bits >> 7 & 255).astype(int), (bits & 127).astype(int)
    normal = (exponent > 0) & (exponent < 255)
    expected = (1 - 2 * sign) * (1 + fraction / 128) * 2.0 ** (exponent - 127)
    found = arrays.half_values("bfloat16")
    np.testing.assert_array_equal(found[normal], expected[normal])
    np.testing.assert_array_equal(found[exponent == 0], ((1 - 2 * sign) * fraction / 128 * 2.0**-126)[exponent == 0])
    np.testing.assert_array_equal(np.isnan(found), (exponent == 255) & (fraction > 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrap", ["as stored", "torch"])
@pytest.mark.usefixtures("_kernel")
def test_temperatures_are_those_of_float64(dtype, wrap):
    half, exact, labels = labelled(40, dtype)
    given = half
    if wrap == "torch" or dtype == "bfloat16":
        torch = pytest.importorskip("torch")
        given = torch.from_numpy(half.view(np.int16)).view(getattr(torch, dtype))
    found = temperatures(given, labels)
    for T, gap in ((found.ec, reference.ec_gap), (found.ts, reference.ts_gap)):
        assert gap(exact, labels, T * (1 - 1e-8)) > 0 > gap(exact, labels, T * (1 + 1e-8))


@pytest.mark.parametrize("dtype", [*DTYPES, "float32"])
@pytest.mark.usefixtures("_kernel")
def test_rows_of_weight_zero_may_hold_anything_and_change_nothing(dtype):
    half, exact, labels = labelled(40, "bfloat16" if dtype == "float32" else dtype)
    weights = np.ones(40)
    weights[[0, 7, 8, 39]] = 0
    kept = weights > 0
    if dtype == "float32":
        half = exact.astype(np.float32)
        half[~kept] = np.nan
    else:
        half.view(np.uint16)[~kept] = 0x7FFF  # NaN in both types
    data = ArrayRows(scores(half), np.where(kept, labels, 0), weights)
    found = temperatures(data)
    assert found.n_samples == 36
    assert found.accuracy == pytest.approx((exact.argmax(axis=1) == labels)[kept].mean())
    for T, gap in ((found.ec, reference.ec_gap), (found.ts, reference.ts_gap)):
        low, high = (gap(exact[kept], labels[kept], T * (1 + step)) for step in (-1e-8, 1e-8))
        assert low > 0 > high


@WITH_NATIVE
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_rows_of_weight_zero_do_not_keep_a_fit_from_reading_all_rows_at_once(dtype, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", "native")
    half, exact, labels = labelled(40, "bfloat16")
    weights = np.ones(40)
    weights[3] = 0
    half.view(np.uint16)[3] = 0x7FFF
    if dtype == "float32":
        half = exact.astype(np.float32)
        half[3] = np.nan
    blocks = []
    iterate = ArrayRows.__iter__
    monkeypatch.setattr(ArrayRows, "__iter__", lambda self: blocks.append(self.n_rows) or iterate(self))
    data = ArrayRows(scores(half), labels, weights)
    gaps = data.gather(Measure(tuple((each, (0.8,)) for each in BUILT_IN.values())))
    assert gaps.items[0].weight == 39
    assert np.isfinite([each.gap for each in gaps.items]).all()
    assert not blocks


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("_kernel")
def test_a_bad_logit_is_named(dtype):
    half, _, labels = labelled(20, dtype)
    half.view(np.uint16)[13, 4321] = 0x7FFF
    with pytest.raises(InputError, match="in row 13, column 4321"):
        temperatures(ArrayRows(scores(half), labels, np.ones(20)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("_kernel")
def test_masked_classes_are_no_classes(dtype):
    values = drawn(40)
    values[:, -1] = -np.inf
    half, exact = stored(values, dtype)
    labels = (exact / 1.3 + np.random.default_rng(1).gumbel(size=exact.shape)).argmax(axis=1)
    found = temperatures(ArrayRows(scores(half), labels, np.ones(40)))
    for T, gap in ((found.ec, reference.ec_gap), (found.ts, reference.ts_gap)):
        low, high = (gap(exact[:, :-1], labels, T * (1 + step)) for step in (-1e-8, 1e-8))
        assert low > 0 > high


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("_kernel")
def test_sketches_and_scores_are_those_of_float64(dtype):
    half, exact, labels = labelled(40, dtype)
    data = ArrayRows(scores(half), labels, np.ones(40))
    sketch, of_exact = Sketch().update(data), Sketch().update(exact, labels)
    for found, expected in ((sketch.state, of_exact.state),):
        assert found.keys() == expected.keys()
        for name, sums in expected.items():
            np.testing.assert_allclose(found[name], sums, rtol=1e-9, atol=1e-9, err_msg=name)
    card = evaluate(data, temperature=1.3)
    p = reference.softmax(exact, 1.3)
    true = p[np.arange(40), labels]
    assert card.nll == pytest.approx(-np.log(true).mean(), rel=1e-9)
    assert card.brier == pytest.approx(((p**2).sum(axis=1) - 2 * true + 1).mean(), rel=1e-9)
    assert card.confidence == pytest.approx(p.max(axis=1).mean(), rel=1e-9)


@pytest.mark.parametrize("n_classes", [5, N_CLASSES])
def test_probabilities_in_bfloat16_are_those_numbers(n_classes):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    logits = 3 * rng.normal(size=(60, n_classes))
    labels = (logits / 1.3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    given = torch.softmax(torch.tensor(logits), dim=1).to(torch.bfloat16)
    found = temperatures(given, labels, input="probabilities", floor=None)
    exact = np.log(given.double().numpy())
    for T, gap in ((found.ec, reference.ec_gap), (found.ts, reference.ts_gap)):
        assert gap(exact, labels, T * (1 - 1e-8)) > 0 > gap(exact, labels, T * (1 + 1e-8))


def test_rows_with_few_classes_are_not_counted():
    assert takes_half(np.zeros((2, N_CLASSES), np.float16))
    assert not takes_half(np.zeros((2, N_CLASSES - 1), np.float16))
    assert not takes_half(np.zeros((2, N_CLASSES), np.float32))


@pytest.mark.parametrize(("n_classes", "n_rows"), [(10, 8192), (1000, 1048), (32_000, 32), (151_936, 27), (10**7, 1)])
def test_a_block_on_the_host_has_few_rows_only_if_they_are_huge(n_classes, n_rows):
    assert arrays.rows_per_block(np.empty(0), n_classes) == n_rows


class OnDevice:
    """As much of an array on an accelerator as its block size depends on."""

    device = "gpu:0"

    def __array_namespace__(self, api_version=None):
        return np


@pytest.mark.parametrize(("n_classes", "n_rows"), [(10, 2**24 // 10), (1000, 16_777), (32_768, 512), (151_936, 441)])
def test_a_block_on_a_device_has_enough_rows_for_all_its_processors(n_classes, n_rows):
    assert arrays.rows_per_block(OnDevice(), n_classes) == n_rows
