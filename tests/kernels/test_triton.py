"""The Triton kernels against float64 NumPy from the formulas.

They run on a CUDA device, or with ``TRITON_INTERPRET=1`` slowly on the host.
"""

import os
from importlib.util import find_spec

import numpy as np
import pytest
from node_cases import GRIDS, N_BINS, SCALE, check_sums, random_rows

torch = pytest.importorskip("torch")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("no CUDA device", allow_module_level=True)

from nishimori._kernels import triton  # noqa: E402 - after the skips

DEVICE = "cpu" if INTERPRETED else "cuda"
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
MODES = ["fast", "accurate", "double"]
TOLERANCES = {"fast": 5e-6, "accurate": 5e-6, "double": 1e-12}
# Few and many classes, with rows that begin at multiples of 16 bytes and rows that do not; more than one tile and one chunk.
N_CLASSES = [2, 10, 32, 33, 100, 1000, 1001, 5000, 70_000]
BETAS = (0.3, 1.0, 2.5)

# The interpreter takes seconds for what a device does in a millisecond.
SEEDS = range(2) if INTERPRETED else range(60)

on_a_device = pytest.mark.skipif(INTERPRETED, reason="too slow when interpreted")


def data(n, k, dtype=torch.float32, seed=0):
    """Logits and labels, half of them right. Row 0 has a masked class, row 1 one live class, row 2 two largest logits."""
    rng = np.random.default_rng([seed, n, k])
    z = 3 * rng.normal(size=(n, k))
    z[0, -1] = -np.inf
    z[1, 1:] = -np.inf
    z[2, [0, k - 1]] = 20
    logits = torch.tensor(z).to(dtype).to(DEVICE)
    labels = rng.integers(k, size=n)
    stored = logits.double().cpu().numpy()
    labels[: n // 2] = stored[: n // 2].argmax(axis=1)
    labels[0], labels[1], labels[2] = 0, 0, k - 1
    return logits, torch.tensor(labels, device=DEVICE)


def power_sums(logits, beta, order):
    """The largest logit, its first column, and sums over all other classes."""
    z = logits.double().cpu().numpy()
    rows = np.arange(len(z))
    top = z.argmax(axis=1)
    peak = z[rows, top]
    with np.errstate(invalid="ignore"):
        d = z - peak[:, None]
        weight = np.where(d == 0, 1.0, 0.0) if beta == np.inf else np.where(np.isinf(d), 0.0, np.exp(beta * d))
    weight[np.isneginf(z)] = 0
    weight[rows, top] = 0
    d[np.isneginf(d)] = 0
    return peak, top, np.array([(weight * d**j).sum(axis=1) for j in range(order + 1)])


def block_terms(logits, labels, weights, beta_ec, beta_ts):
    """The terms of the 46 sums, one column per row."""
    labels = labels.cpu().numpy()
    w = np.ones(len(labels)) if weights is None else weights.cpu().numpy()
    z = logits.double().cpu().numpy()
    peak, top, r = power_sums(logits, beta_ec, 4)
    right = top == labels
    d = z[np.arange(len(labels)), labels] - peak
    c, (m1, m2, m3, m4) = 1 / (1 + r[0]), r[1:] / (1 + r[0])
    ec = np.where(right, -r[0] * c, c)
    ec_slope = -c * m1
    ec_curvature = c * (2 * m1**2 - m2)
    ec_jerk = c * (6 * m1 * m2 - 6 * m1**3 - m3)
    ec_snap = c * (24 * m1**4 - 36 * m1**2 * m2 + 6 * m2**2 + 8 * m1 * m3 - m4)
    _, _, r = power_sums(logits, beta_ts, 5)
    m1, m2, m3, m4, m5 = r[1:] / (1 + r[0])
    ts = m1 - d
    ts_slope = m2 - m1**2
    ts_curvature = m3 - 3 * m1 * m2 + 2 * m1**3
    ts_jerk = m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4
    ts_snap = m5 - 5 * m1 * m4 - 10 * m2 * m3 + 20 * m1**2 * m3 + 30 * m1 * m2**2 - 60 * m1**3 * m2 + 24 * m1**5
    slope_products = (ec_slope * ts_slope, ec * ec_slope, ts * ts_slope, ec * ts_slope, ts * ec_slope)
    masked = np.isneginf(z).sum(axis=1)
    return np.array(
        [
            *(w * ec, w * abs(ec), w * ec_slope, w * ec_curvature, w * ec_jerk, w**2 * ec_slope**2),
            *(w * ts, w * (abs(m1) + abs(d)), w * ts_slope, w * ts_curvature, w * ts_jerk, w**2 * ts_slope**2),
            *(w * ec**2, w * ts**2, w * ec * ts, w**2 * ec**2, w**2 * ts**2, w**2 * ec * ts),
            *(w, w**2, w * right, w * d),
            *(w * ec_slope**2, w * ts_slope**2),
            *(w * each for each in slope_products),
            *(w**2 * each for each in slope_products),
            *(w * ec_snap, w * ts_snap),
            *(w * right, w * ~right, w**2 * right, w**2 * ~right, right, np.isneginf(d)),
            *(w > 0, masked, w / (z.shape[1] - masked), np.zeros(len(w))),
        ]
    )


def assert_block_sums(found, terms, tolerance):
    np.testing.assert_array_less(abs(found - terms.sum(axis=1)), tolerance * abs(terms).sum(axis=1) + 1e-30)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", N_CLASSES)
def test_power_sums_are_those_of_the_definition(k, dtype):
    logits, _ = data(5 if k > 2000 else 70, k, dtype)
    found = triton.power_sums(logits, BETAS, 6)
    assert found.sums.shape == (3, 7, len(logits))
    assert found.sums.dtype == torch.float64
    for i, beta in enumerate(BETAS):
        peak, top, sums = power_sums(logits, beta, 6)
        np.testing.assert_array_equal(found.peak.cpu(), peak)
        np.testing.assert_array_equal(found.top.cpu(), top)
        np.testing.assert_allclose(found.sums[i].cpu(), sums, rtol=5e-6)


@pytest.mark.parametrize("k", [10, 1000])
def test_at_beta_zero_every_live_class_has_weight_one_and_at_infinity_the_largest_have(k):
    logits, _ = data(40, k)
    found = triton.power_sums(logits, (0.0, np.inf), 2).sums.cpu()
    np.testing.assert_allclose(found[0], power_sums(logits, 0.0, 2)[2], rtol=1e-6)
    np.testing.assert_array_equal(found[1], power_sums(logits, np.inf, 2)[2])
    assert found[1, 0, 2] == 1  # the second of two largest logits


@pytest.mark.parametrize("k", [10, 1000])
def test_one_live_class_leaves_nothing_to_sum(k):
    logits, _ = data(40, k)
    assert (triton.power_sums(logits, BETAS, 6).sums[:, :, 1] == 0).all()


def test_many_tiny_weights_beside_a_large_one_keep_their_sum():
    k = 128_000
    logits = torch.full((2, k), float(np.log(1e-9)), device=DEVICE)
    logits[:, k // 2] = 0.0
    logits[:, k // 3] = float(np.log(0.5))
    found = triton.power_sums(logits, (1.0,), 0).sums[0].cpu()
    np.testing.assert_allclose(found, power_sums(logits, 1.0, 0)[2], rtol=1e-7)


@pytest.mark.parametrize("k", [10, 100])
def test_scaling_by_a_power_of_two_changes_no_digit(k):
    logits, _ = data(40, k)
    large = triton.power_sums(logits * 2.0**40, (2.0**-40,), 6).sums.cpu()
    units = 2.0 ** (40 * torch.arange(7, dtype=torch.float64))[None, :, None]
    np.testing.assert_array_equal(large / units, triton.power_sums(logits, (1.0,), 6).sums.cpu())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", N_CLASSES)
def test_block_sums_are_those_of_the_definition(monkeypatch, k, dtype, weighted, mode):
    monkeypatch.setattr(triton, "_MANY_WEIGHTS", 0 if mode == "fast" else np.inf)
    logits, labels = data(5 if k > 2000 else 70, k, dtype)
    weights = torch.linspace(0.1, 3, len(labels), dtype=torch.float64, device=DEVICE) if weighted else None
    found = triton.block_sums(logits, labels, weights, 0.7, 0.6, exact=mode == "double")
    assert found.shape == (46,)
    assert found.dtype == np.float64
    assert_block_sums(found, block_terms(logits, labels, weights, 0.7, 0.6), TOLERANCES[mode])


@pytest.mark.parametrize("k", [10, 1001])
def test_sums_of_float64_have_all_their_digits(k):
    logits, labels = data(70, k, torch.float64)
    assert_block_sums(triton.block_sums(logits, labels, None, 0.7, 0.6), block_terms(logits, labels, None, 0.7, 0.6), 1e-12)
    found = triton.power_sums(logits, BETAS, 6).sums.cpu()
    for i, beta in enumerate(BETAS):
        np.testing.assert_allclose(found[i], power_sums(logits, beta, 6)[2], rtol=1e-12)


@on_a_device
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(200_000, 10), (20_000, 100), (4000, 1000), (300, 40_001)])
def test_sums_of_many_rows_give_the_temperature_to_1e8(n, k, dtype):
    logits, labels = data(n, k, dtype)
    logits[torch.arange(n), torch.arange(n) % k] += 8 + 2 * torch.rand(n, device=DEVICE).to(dtype)
    beta_ec, beta_ts = 0.611, 0.577
    found = triton.block_sums(logits, labels, None, beta_ec, beta_ts)
    exact = block_terms(logits, labels, None, beta_ec, beta_ts).sum(axis=1)
    assert abs(found[0] - exact[0]) < 1e-8 * beta_ec * abs(exact[2])
    assert abs(found[6] - exact[6]) < 1e-8 * beta_ts * abs(exact[8])


@pytest.mark.parametrize("k", [10, 100])
def test_rows_of_weight_zero_may_hold_anything(k):
    logits, labels = data(40, k)
    weights = torch.ones(40, dtype=torch.float64, device=DEVICE)
    weights[[4, 5, 6]] = 0
    kept = weights > 0
    bad, bad_labels = logits.clone(), labels.clone()
    bad[4], bad[5], bad[6, 0] = float("nan"), -float("inf"), float("inf")
    bad_labels[[4, 5, 6]] = torch.tensor([-100, 2**40, 0], device=DEVICE)
    found = triton.block_sums(bad, bad_labels, weights, 0.7, 0.6)
    assert_block_sums(found, block_terms(logits[kept], labels[kept], None, 0.7, 0.6), 5e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("k", [10, 100, 1001])
def test_rows_that_a_check_would_refuse_are_counted(k, exact, dtype):
    logits, labels = data(40, k, dtype)
    assert triton.block_sums(logits, labels, None, 0.7, 0.6, exact=exact)[45] == 0
    logits[3, k - 1], logits[4, 0], logits[5] = float("nan"), float("inf"), -float("inf")
    labels[6], labels[7] = -1, k
    assert triton.block_sums(logits, labels, None, 0.7, 0.6, exact=exact)[45] == 5


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_labels_of_any_integer_type_are_read(dtype):
    logits, labels = data(40, 200)
    expected = triton.block_sums(logits, labels, None, 0.7, 0.6)
    np.testing.assert_array_equal(triton.block_sums(logits, labels.to(dtype), None, 0.7, 0.6), expected)


def test_only_rows_of_16_or_32_bit_numbers_are_taken_unchecked():
    logits = torch.zeros((6, 4))
    assert all(triton.takes_unchecked(logits.to(dtype)) for dtype in DTYPES)
    assert not any(triton.takes_unchecked(each) for each in (logits.double(), logits[0], logits.T, logits.long()))


@pytest.mark.parametrize("k", [10, 100])
def test_a_masked_label_leaves_the_sums_of_ec_finite(k):
    logits, labels = data(40, k)
    labels[0] = k - 1
    found = triton.block_sums(logits, labels, None, 0.7, 0.6)
    assert np.isfinite(found[:6]).all()
    assert found[6] == np.inf
    assert (found[21], found[41]) == (-np.inf, 1)


@pytest.mark.parametrize("k", [10, 100])
def test_a_label_is_right_only_at_the_first_of_several_largest_logits(k):
    logits = torch.zeros((3, k), device=DEVICE)
    logits[:, [3, 5]] = 1.0
    found = triton.block_sums(logits, torch.tensor([3, 5, 1], device=DEVICE), None, 1.0, 1.0)
    assert found[38] == 1


@pytest.mark.parametrize("k", [10, 1000])
def test_the_same_data_give_the_same_digits(k):
    logits, labels = data(500 if k == 10 else 100, k)
    first, second = (triton.block_sums(logits, labels, None, 0.7, 0.6) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    first, second = (triton.power_sums(logits, BETAS, 6).sums.cpu() for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("k", [10, 100])
def test_views_give_the_sums_of_their_copies(k):
    logits, labels = data(40, 2 * k)
    labels %= k
    for view in (logits[3:, 1 : k + 1], logits[3::2, :k].T.contiguous().T):
        some = labels[: len(view)]
        assert_block_sums(triton.block_sums(view, some, None, 0.7, 0.6), block_terms(view.clone(), some, None, 0.7, 0.6), 5e-6)


@pytest.mark.parametrize("k", [10, 100])
def test_no_rows_give_zeros(k):
    logits, labels = torch.empty((0, k), device=DEVICE), torch.empty(0, dtype=torch.int64, device=DEVICE)
    assert (triton.block_sums(logits, labels, None, 0.7, 0.6) == 0).all()
    assert triton.power_sums(logits, BETAS, 2).sums.shape == (3, 3, 0)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("k", [10, 100, 1001])
def test_betas_that_double_are_as_exact_as_float64(k, dtype):
    logits, _ = data(12, k, dtype)
    betas = (0.0, np.inf, *(2.0 ** (j / 4) for j in range(-4, 14)), 0.3)
    found = triton.power_sums(logits.double() if dtype == torch.float32 else logits, betas, 3)
    for i, beta in enumerate(betas):
        peak, top, sums = power_sums(logits, beta, 3)
        np.testing.assert_array_equal(found.peak.cpu(), peak)
        np.testing.assert_array_equal(found.top.cpu(), top)
        np.testing.assert_allclose(found.sums[i].cpu(), sums, rtol=1e-12, atol=1e-280)


def test_chains_of_doubling_betas_are_short_and_hold_each_beta_once():
    betas = [2.0 ** (j / 4) for j in range(-18, 23)]
    chains = triton._chains(betas)
    assert sorted(i for chain in chains for i, _ in chain) == list(range(len(betas)))
    assert all(len(chain) <= triton._LONGEST_CHAIN for chain in chains)
    assert all(chain[j][1] == 2 * chain[j - 1][1] for chain in chains for j in range(1, len(chain)))
    assert len(chains) == 4
    assert len(triton._chains([2.0**j for j in range(30)])) == 3


# Scores: from probabilities in extended precision.


def weights_for(n, *, weighted):
    return torch.linspace(0.1, 3, n, dtype=torch.float64, device=DEVICE) if weighted else None


def confidences(logits, beta):
    z = logits.double().cpu().numpy().astype(np.longdouble)
    p = np.exp(beta * (z - z.max(axis=1, keepdims=True)))
    return p / p.sum(axis=1, keepdims=True)


def score_sums(logits, labels, weights, beta, inner, *, counts):
    """The sums over all rows and per bin, from the definitions."""
    p, labels, rows = confidences(logits, beta), labels.cpu().numpy(), np.arange(len(labels))
    w = np.ones(len(labels)) if weights is None else weights.cpu().numpy()
    u = w if counts else w**2
    top = logits.double().cpu().numpy().argmax(axis=1)
    c, r = p[rows, top], (top == labels).astype(float)
    truth = np.zeros(p.shape)
    truth[rows, labels] = 1
    scores = np.array([1 - r, c, -np.log(p[rows, labels]), ((p - truth) ** 2).sum(axis=1)])
    means = scores @ u / u.sum()
    sums = [w.sum(), u.sum(), *(scores @ w), *means, *((scores - means[:, None]) ** 2 @ u)]
    places = np.searchsorted(inner, c.astype(float))
    columns = (w, w * c, w * r, w**2, u * (c - r) ** 2, u * (c - r), u * c * (1 - c))
    bins = [np.bincount(places, each.astype(float), len(inner) + 1) for each in columns]
    return np.array(sums, dtype=float), np.stack(bins, axis=1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 10, 33, 1000, 5001])
def test_sums_of_scores_are_those_of_the_definitions(monkeypatch, k, weighted, counts, mode):
    monkeypatch.setattr(triton, "_MANY_WEIGHTS", 0 if mode == "fast" else np.inf)
    logits, labels = data(6 if k > 1000 else 40, k, torch.float64 if mode == "double" else torch.bfloat16)
    weights, inner = weights_for(len(labels), weighted=weighted), np.arange(1, 15) / 15
    sums, bins, is_unusual = triton.score_sums(logits, labels, weights, 0.7, inner, counts=counts)
    expected, per_bin = score_sums(logits, labels, weights, 0.7, inner, counts=counts)
    assert not is_unusual
    rtol = 1e-12 if mode == "double" else 1e-6
    np.testing.assert_allclose(sums, expected, rtol=rtol)
    np.testing.assert_allclose(bins, per_bin, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(bins[:, [0, 2, 3]] > 0, per_bin[:, [0, 2, 3]] > 0)


@on_a_device
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize(("n", "k", "n_bins"), [(100_000, 10, 15), (20_000, 100, 128), (4000, 1000, 1), (300, 40_001, 2)])
def test_means_of_many_scores_are_right_to_1e6(n, k, n_bins, dtype):
    logits, labels = data(n, k, dtype)
    inner = np.arange(1, n_bins) / n_bins
    sums, bins, _ = triton.score_sums(logits, labels, None, 0.8, inner, counts=False)
    expected, per_bin = score_sums(logits, labels, None, 0.8, inner, counts=False)
    np.testing.assert_allclose(sums, expected, rtol=1e-6)
    np.testing.assert_array_equal(bins[:, 0], per_bin[:, 0])
    np.testing.assert_allclose(bins.sum(axis=0), per_bin.sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("k", [10, 100])
def test_a_confidence_that_is_very_near_to_an_edge_is_on_its_right_side(monkeypatch, k):
    monkeypatch.setattr(triton, "_MANY_WEIGHTS", 0)
    logits, labels = data(40, k)
    inner = np.sort(confidences(logits, 0.7).max(axis=1).astype(float)[3:30])
    for side, shift in ((0, 1 + 1e-12), (1, 1 - 1e-12)):
        bins = triton.score_sums(logits, labels, None, 0.7, inner * shift, counts=False)[1]
        expected = score_sums(logits, labels, None, 0.7, inner * shift, counts=False)[1]
        np.testing.assert_array_equal(bins[:, 0], expected[:, 0])
        assert (bins[side : 27 + side, 0] > 0).all()


@pytest.mark.parametrize("k", [10, 100])
def test_equal_rows_on_an_edge_are_in_the_bin_below_it(k):
    logits, labels = torch.zeros((40, k), device=DEVICE), torch.zeros(40, dtype=torch.int64, device=DEVICE)
    bins = triton.score_sums(logits, labels, None, 1.0, np.array([0.5 / k, 1 / k, 0.9]), counts=False)[1]
    np.testing.assert_array_equal(bins[:, 0], [0, 40, 0, 0])


@pytest.mark.parametrize("k", [10, 100])
def test_scores_of_rows_of_weight_zero_do_not_count(k):
    logits, labels = data(40, k)
    weights = torch.ones(40, dtype=torch.float64, device=DEVICE)
    weights[[4, 5, 6]] = 0
    kept, inner = weights > 0, np.arange(1, 15) / 15
    bad, bad_labels = logits.clone(), labels.clone()
    bad[4], bad[5], bad[6, 0] = float("nan"), -float("inf"), float("inf")
    bad_labels[[4, 5, 6]] = torch.tensor([-100, 2**40, 0], device=DEVICE)
    sums, bins, is_unusual = triton.score_sums(bad, bad_labels, weights, 0.7, inner, counts=False)
    expected, per_bin = score_sums(logits[kept], labels[kept], None, 0.7, inner, counts=False)
    assert not is_unusual
    np.testing.assert_allclose(sums, expected, rtol=1e-6)
    np.testing.assert_allclose(bins, per_bin, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [10, 100, 1001])
def test_rows_without_a_score_are_noticed(k, dtype):
    logits, labels = data(12, k, dtype)
    inner = np.array([0.5])
    for column, value in ((k - 1, float("nan")), (0, float("inf")), (slice(None), -float("inf"))):
        bad = logits.clone()
        bad[7, column] = value
        assert triton.score_sums(bad, labels, None, 0.7, inner, counts=False)[2]
    for label in (-1, k):
        wrong = labels.clone()
        wrong[7] = label
        assert triton.score_sums(logits, wrong, None, 0.7, inner, counts=False)[2]
    wrong = labels.clone()
    wrong[0] = k - 1  # a masked class, whose loss is infinite
    assert triton.score_sums(logits, wrong, None, 0.7, inner, counts=False)[2]


@pytest.mark.parametrize("k", [10, 1000])
def test_the_same_data_give_the_same_scores(k):
    logits, labels = data(40, k)
    first, second = (triton.score_sums(logits, labels, None, 0.7, np.arange(1, 15) / 15, counts=False) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


# Sketches: from averages in extended precision.


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_at_nodes_are_those_of_the_definitions(seed):
    rng = np.random.default_rng(seed)
    z, labels, weights = random_rows(rng)
    given = torch.tensor(z).to(DEVICE).to([torch.float64, *DTYPES][seed % 4])
    z, said = given.double().cpu().numpy(), torch.tensor(labels, device=DEVICE)
    grid = GRIDS[1 if INTERPRETED else seed % len(GRIDS)]
    heavy = None if (weights == 1).all() else torch.tensor(weights, device=DEVICE)
    found = triton.node_sums(given, said, heavy, grid.betas, grid.beyond, N_BINS, SCALE)
    # Weights below 2^-64 of that of the top class are left out.
    least = 1e-16 * weights.max(initial=1) ** 2 * len(z) * (1 + np.abs(z).max(initial=0)) ** 2
    check_sums(found, z, labels, weights, grid, (seed, z.shape), least=least)


@pytest.mark.parametrize("k", [10, 100])
def test_sums_at_nodes_leave_out_rows_of_weight_zero_and_refuse_bad_ones(k):
    logits, labels = data(40, k)
    weights = torch.ones(40, dtype=torch.float64, device=DEVICE)
    weights[:7] = 0
    grid, ones = GRIDS[1], np.ones(33)
    bad, bad_labels = logits.clone(), labels.clone()
    bad[4], bad[5], bad[6, 0] = float("nan"), -float("inf"), float("inf")
    bad_labels[[4, 5, 6]] = torch.tensor([-100, 2**40, 0], device=DEVICE)
    found = triton.node_sums(bad, bad_labels, weights, grid.betas, grid.beyond, N_BINS, SCALE)
    check_sums(found, logits[7:].double().cpu().numpy(), labels[7:].cpu().numpy(), ones, grid, (k,), least=1e-14)
    for change in ("nan", "inf", "-inf"):
        bad = logits.clone()
        bad[9, 1] = float(change)
        assert triton.node_sums(bad, labels, weights, grid.betas, grid.beyond, N_BINS, SCALE) is None
    for label in (-1, k):
        wrong = labels.clone()
        wrong[9] = label
        assert triton.node_sums(logits, wrong, weights, grid.betas, grid.beyond, N_BINS, SCALE) is None


@pytest.mark.parametrize("k", [10, 100])
def test_scores_of_several_pieces_add(monkeypatch, k):
    monkeypatch.setattr(triton, "_ROWS_OF_SCORES", 16)
    logits, labels = data(40, k)
    weights, inner = weights_for(40, weighted=True), np.arange(1, 15) / 15
    weights[16:32] = 0  # all of one piece
    sums, bins, is_unusual = triton.score_sums(logits, labels, weights, 0.7, inner, counts=False)
    expected, per_bin = score_sums(logits, labels, weights, 0.7, inner, counts=False)
    assert not is_unusual
    np.testing.assert_allclose(sums, expected, rtol=1e-6)
    np.testing.assert_allclose(bins, per_bin, rtol=1e-6, atol=1e-6)


def test_no_rows_have_no_scores_and_nothing_for_a_sketch():
    logits, labels = torch.empty((0, 10), device=DEVICE), torch.empty(0, dtype=torch.int64, device=DEVICE)
    sums, bins, is_unusual = triton.score_sums(logits, labels, None, 0.7, np.array([0.5]), counts=False)
    assert (sums == 0).all()
    assert bins.shape == (2, 7)
    assert not is_unusual
    found = triton.node_sums(logits, labels, None, GRIDS[1].betas, GRIDS[1].beyond, N_BINS, SCALE)
    assert all((each == 0).all() for each in found.arrays())


def test_rows_of_several_pieces_add(monkeypatch):
    logits, labels = data(40, 10)
    logits[:2] = 0.0  # no masks
    grid = GRIDS[1]
    whole = triton.node_sums(logits, labels, None, grid.betas, grid.beyond, N_BINS, SCALE)
    monkeypatch.setattr(triton, "_SUMS_OF_SKETCH", 4 * 16 * (len(grid.betas) + len(grid.beyond)))
    parts = triton.node_sums(logits, labels, None, grid.betas, grid.beyond, N_BINS, SCALE)
    for one, other in zip(whole.arrays(), parts.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
