"""The compiled loops of a fit give the sums of the formulas, and notice what has to be checked."""

import warnings
from math import comb, factorial

import numpy as np
import pytest
from host_kernels import WITH_NATIVE

import nishimori
from nishimori import temperatures
from nishimori._fit import search
from nishimori._fit.expansion import ExpandedRows
from nishimori._kernels import native
from nishimori._kernels.block import RowsNearBeta
from nishimori._kernels.kernel import kernel_named
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.rows import Rows
from nishimori._rows.scores import scores
from nishimori.errors import InputError

pytestmark = WITH_NATIVE
DTYPES = [np.float32, np.float64]
SHAPES = [(300, 3), (145, 10), (288, 100), (37, 700)]


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
@pytest.mark.parametrize("shape", SHAPES)
def test_an_expansion_has_the_cumulants_of_the_other_classes(shape, dtype):
    z, labels = drawn(*shape, dtype)
    beta = 0.7
    rows = native.expand(z, labels, np.ones(len(z)), beta)
    assert rows.is_usual
    for i, row in enumerate(z.astype(np.longdouble)):
        top = row.argmax()
        d = np.delete(row - row[top], top)
        weights = np.exp(beta * d)
        # ⟨dⁿ⟩ = Σ C(n-1, j-1) κ_j ⟨dⁿ⁻ʲ⟩, which the cumulants have to satisfy
        means = [(weights * d**n).sum() / weights.sum() for n in range(7)]
        cumulants = rows.cumulants[:, i]
        again = [sum(comb(n - 1, j - 1) * cumulants[j - 1] * means[n - j] for j in range(1, n + 1)) for n in range(1, 7)]
        np.testing.assert_allclose(again, np.array(means[1:], float), rtol=1e-4 if dtype is np.float32 else 1e-11)
        assert rows.rest[i] == pytest.approx(float(weights.sum()), rel=3e-6 if dtype is np.float32 else 1e-13)
        assert rows.label_drops[i] == float(row[labels[i]] - row[top])
        assert rows.right[i] == (labels[i] == top)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("beta_ec", "beta_ts"), [(0.71, 0.65), (0.8, 0.8), (0.7, 0.5)])
def test_expanded_rows_have_the_sums_of_the_ordinary_way(shape, beta_ec, beta_ts):
    z, labels = drawn(*shape, np.float64)
    weights = np.linspace(0.5, 2.0, len(z))
    rows = native.expand(z, labels, np.ones(len(z)), 0.7)
    ordinary, compiled = (ExpandedRows(0.7, rows, weights, sums) for sums in (None, native.expanded_sums))
    expected = ordinary.pair_sums(beta_ec, beta_ts)
    np.testing.assert_allclose(compiled.pair_sums(beta_ec, beta_ts), expected, rtol=1e-11, atol=1e-12)
    found = compiled.last_orders(beta_ec, beta_ts)
    np.testing.assert_allclose(found, ordinary.last_orders(beta_ec, beta_ts), rtol=1e-11, atol=1e-300)


def test_the_last_order_is_what_the_last_cumulant_changes():
    z, labels = drawn(200, 40, np.float64)
    rows = native.expand(z, labels, np.ones(len(z)), 0.7)
    compiled = ExpandedRows(0.7, rows, np.ones(200), native.expanded_sums)
    shorter = rows._replace(cumulants=np.vstack([rows.cumulants[:5], np.zeros(200)]))

    def rest_and_slope(some, step):
        terms = [step**j / factorial(j) for j in range(7)]
        log = sum(some.cumulants[j - 1] * terms[j] for j in range(1, 7))
        slope = sum(some.cumulants[j - 1] * terms[j - 1] for j in range(1, 7))
        return some.rest * np.exp(log), slope

    step = 0.02
    (rest, slope), (less, less_slope) = (rest_and_slope(some, step) for some in (rows, shorter))
    in_confidence = np.abs(1 / (1 + rest) - 1 / (1 + less)).sum()
    in_energy = np.abs(rest * slope / (1 + rest) - less * less_slope / (1 + less)).sum()
    found = compiled.last_orders(0.72, 0.72)
    assert found[0] == pytest.approx(in_confidence, rel=1e-3)
    assert found[1] == pytest.approx(in_energy, rel=0.05)  # an upper limit: both parts of the change are added


def test_rows_whose_expansion_fails_have_finite_sums():
    rows = RowsNearBeta(np.ones(3), np.full((6, 3), -1e9), np.zeros(3), np.ones(3, bool))
    assert np.isfinite(native.expanded_sums(rows, np.ones(3), 0.1, -0.1)[:2]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [3, 10, 100, 1000])
@pytest.mark.parametrize("value", [0.0, 1e30, np.nan, np.inf, -np.inf, 2e100, -2e100, 0.99e100])
def test_logits_that_have_to_be_checked_are_noticed(value, n_classes, dtype):
    if dtype is np.float32 and 1e38 < abs(value) < np.inf:
        pytest.skip("float32 has no such number")
    z, labels = drawn(300, n_classes, dtype)
    z[299, n_classes - 1] = value
    usual = bool(np.isfinite(value)) and abs(value) <= 1e100
    assert (len(native.block_sums(z, labels, np.ones(300), 0.5, 0.6)) == 44) == usual
    assert native.expand(z, labels, np.ones(300), 0.5).is_usual == usual


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
    assert calibrator.receipt_.n_masked == len(z)


@pytest.mark.parametrize("n_classes", [10, 40])
def test_a_fit_asks_for_all_rows_at_once_and_counts_them(n_classes, monkeypatch):
    z, labels = drawn(30_000, n_classes)
    blocks = []
    iterate = ArrayRows.__iter__
    monkeypatch.setattr(ArrayRows, "__iter__", lambda self: blocks.append(self.n_rows) or iterate(self))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = search.match(open_rows(z, labels), *nishimori._sums.observables.BUILT_IN.values())
    assert all(n_rows < 2000 for n_rows in blocks)  # only those of a sample are read in blocks
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


def test_rows_of_batches_that_name_no_kernel_are_expanded():
    data = Blocks()
    found, expected = temperatures(data), temperatures(data.logits, data.labels)
    assert (found.ec, found.ts) == pytest.approx((expected.ec, expected.ts), rel=1e-8)
