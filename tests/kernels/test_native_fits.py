"""The compiled loops of a fit give the sums of the formulas, and notice what has to be checked."""

import warnings

import numpy as np
import pytest
from host_kernels import WITH_NATIVE

import nishimori
from nishimori import temperatures
from nishimori._fit import search
from nishimori._kernels import native
from nishimori._kernels.kernel import kernel_named
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.rows import Rows
from nishimori._rows.scores import scores
from nishimori.errors import InputError

pytestmark = WITH_NATIVE
DTYPES = [np.float32, np.float64]


def drawn(n, k, dtype=np.float32, seed=0):
    """Logits, and labels that their softmax at T = 1.5 explains."""
    rng = np.random.default_rng(seed)
    z = (3 * rng.normal(size=(n, k))).astype(dtype)
    return z, (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.fixture(autouse=True, params=native.library().variants)
def _native_kernel(request, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", "native")
    monkeypatch.setenv("NISHIMORI_NATIVE_VARIANT", request.param)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [3, 10, 100, 1000])
@pytest.mark.parametrize("value", [0.0, 1e30, np.nan, np.inf, -np.inf, 2e100, -2e100, 0.99e100])
def test_logits_that_have_to_be_checked_are_noticed(value, n_classes, dtype):
    if dtype is np.float32 and 1e38 < abs(value) < np.inf:
        pytest.skip("float32 has no such number")
    z, labels = drawn(300, n_classes, dtype)
    z[299, n_classes - 1] = value
    usual = bool(np.isfinite(value)) and abs(value) <= 1e100
    assert (len(native.block_sums(z, labels, np.ones(300), 0.5, 0.6)) == 46) == usual


@pytest.mark.parametrize("n_classes", [10, 40])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_bad_logit_is_named_although_nothing_is_checked_before(value, n_classes):
    z, labels = drawn(20_000, n_classes, np.float64)
    z[12_345, 7] = value
    with pytest.raises(InputError, match="in row 12345, column 7"):
        temperatures(z, labels)


@pytest.mark.parametrize("n_classes", [10, 40])
def test_masks_and_rows_without_weight_change_nothing(n_classes):
    z, labels = drawn(20_000, n_classes)
    expected = temperatures(z, labels)
    masked = np.concatenate([z, np.full((len(z), 1), -np.inf, np.float32)], axis=1)
    found = temperatures(masked, labels)
    assert (found.ec, found.ts) == pytest.approx((expected.ec, expected.ts), rel=1e-8)
    bad, weights = np.concatenate([z, z[:100] * np.nan]), np.repeat([1.0, 0.0], [len(z), 100])
    found = temperatures(bad, np.concatenate([labels, labels[:100]]), sample_weight=weights)
    assert (found.ec, found.ts) == pytest.approx((expected.ec, expected.ts), rel=1e-8)
    calibrator = nishimori.ExpectationConsistency().fit(masked, labels)
    assert calibrator.fit_info_.n_masked == len(z)


@pytest.mark.parametrize("n_classes", [10, 40])
def test_a_fit_asks_for_all_rows_at_once_and_counts_them(n_classes, monkeypatch):
    z, labels = drawn(30_000, n_classes)
    blocks = []
    iterate = ArrayRows.__iter__
    monkeypatch.setattr(ArrayRows, "__iter__", lambda self: blocks.append(self.n_rows) or iterate(self))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = search.match(open_rows(z, labels), *nishimori._sums.observables.BUILT_IN.values())
    assert not blocks
    assert found.census.n_rows == 30_000
    assert found.census.n_right == (z.argmax(axis=1) == labels).sum()
    assert found.census.chance == pytest.approx(30_000 / n_classes)
    assert found.census.kernels == {"native"}


def test_all_rows_at_once_are_several_calls_if_they_are_very_many(monkeypatch):
    z, labels = drawn(30_000, 10)
    expected = temperatures(z, labels)
    monkeypatch.setattr("nishimori._rows.array_rows._UNCHECKED_NUMBERS", 70_010)
    found = temperatures(z, labels)
    assert (found.ec, found.ts) == pytest.approx((expected.ec, expected.ts), rel=1e-12)
    assert found.n_passes == expected.n_passes
    z[29_999, 3] = np.nan
    with pytest.raises(InputError, match="in row 29999, column 3"):
        temperatures(z, labels)


def test_only_plain_tables_of_logits_are_read_unchecked():
    takes = kernel_named("native").takes_unchecked
    z = np.zeros((4, 6), np.float32)
    assert takes(z)
    assert takes(z[::2])
    assert not takes(z[:, ::2])
    assert not takes(z[:, 0])
    assert not takes(z.astype(np.float16))
    assert not takes(np.asfortranarray(z))


class Blocks(Rows):
    """A source as users write it: batches that do not name a kernel."""

    n_rows, n_classes = 5000, 40

    def __init__(self):
        self.logits, self.labels = drawn(5000, 40)

    def __iter__(self):
        for start in range(0, 5000, 1000):
            rows = slice(start, start + 1000)
            yield Batch(self.logits[rows], self.labels[rows], np.ones(1000))

    def sample(self, size):
        return ArrayRows(scores(self.logits[:size]), self.labels[:size], np.ones(size))


def test_rows_of_batches_that_name_no_kernel_have_the_same_temperatures():
    data = Blocks()
    found, expected = temperatures(data), temperatures(data.logits, data.labels)
    assert (found.ec, found.ts) == pytest.approx((expected.ec, expected.ts), rel=1e-8)
