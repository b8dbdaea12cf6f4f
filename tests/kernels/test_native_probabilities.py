"""The native kernel gives probabilities, scores and sums per group as the formulas do."""

import numpy as np
import pytest
from host_kernels import WITH_NATIVE
from native_probability_cases import TOLERANCE, check_random_groups, check_random_scores, check_random_softmax, softmax

import nishimori
from nishimori._kernels import native
from nishimori._kernels.kernel import softmax as kernel_softmax

pytestmark = WITH_NATIVE
DTYPES = [np.float32, np.float64]
FEW_AND_MANY = [2, 10, 23, 24, 49, 200, 3000]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True, params=native.library().variants)
def variant(request, monkeypatch):
    """Every claim holds for every set of instructions that this processor has."""
    monkeypatch.setenv("NISHIMORI_NATIVE_VARIANT", request.param)
    return request.param


def rows(n, k, dtype=np.float32, seed=0):
    """Logits, labels and weights, some of which are zero."""
    rng = np.random.default_rng(seed)
    logits, labels = (3 * rng.normal(size=(n, k))).astype(dtype), rng.integers(k, size=n)
    return logits, labels, rng.random(n) * (rng.random(n) < 0.9)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_blocks_have_the_probabilities_scores_and_group_sums_of_extended_precision(first):
    for seed in range(first, first + 20):
        check_random_softmax(seed)
        check_random_scores(seed)
        check_random_groups(seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", FEW_AND_MANY)
def test_a_constant_on_a_row_does_not_change_probabilities(n_classes, dtype):
    z = np.round(rows(60, n_classes, dtype)[0])  # so that the sum with the constant is exact
    np.testing.assert_array_equal(native.softmax(z + dtype(2**12), 0.7)[0], native.softmax(z, 0.7)[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", FEW_AND_MANY)
def test_equal_logits_have_equal_probabilities(n_classes, dtype):
    found, _ = native.softmax(np.full((50, n_classes), 7.5, dtype), 1.3)
    np.testing.assert_array_equal(found, dtype(1 / n_classes))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", FEW_AND_MANY)
def test_the_largest_logits_and_betas_give_certainty(n_classes, dtype):
    z = np.zeros((5, n_classes), dtype)
    z[:, 1] = min(float(np.finfo(dtype).max), 1e100)
    for beta in (1e-10, 1.0, 1e10):
        found, is_unusual = native.softmax(z, beta)
        np.testing.assert_array_equal(found, np.eye(n_classes)[np.ones(5, int)])
        assert not is_unusual


def test_probabilities_of_no_rows_and_of_no_classes_have_their_shape():
    assert native.softmax(np.empty((0, 7)), 1.0)[0].shape == (0, 7)
    found, is_unusual = native.softmax(np.empty((3, 0)), 1.0)
    assert found.shape == (3, 0)
    assert is_unusual


@pytest.mark.parametrize("n_classes", [3, 10, 40, 300])
def test_any_number_of_threads_gives_the_same_digits(n_classes, monkeypatch):
    n = 3 * 2**19 // n_classes + 5
    z, labels, weights = rows(n, n_classes)
    codes, betas, inner = np.arange(n) % 7, np.linspace(0.3, 2, 7), np.arange(1, 15) / 15

    def found():
        probabilities = native.softmax(z, 0.7)[0]
        sums, bins, _ = native.score_sums(z, labels, weights, 0.7, inner, counts=False)
        return probabilities, sums, bins, native.group_sums(z, labels, weights, codes, betas, "ec", counts=False)[0]

    one = found()
    monkeypatch.setenv("NISHIMORI_THREADS", "3")
    for mine, theirs in zip(one, found(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kernel", ["numpy", "array_api"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", FEW_AND_MANY)
def test_predictions_are_those_of_the_other_kernels(n_classes, dtype, kernel, monkeypatch):
    z = rows(70, n_classes, dtype)[0]
    z[3, 1:] = -np.inf
    calibrator = nishimori.from_temperature(1.7)
    mine = calibrator.predict_proba(z)
    assert kernel_softmax(z, 1.0) is not None
    monkeypatch.setenv("NISHIMORI_KERNEL", kernel)
    assert kernel_softmax(z, 1.0) is None
    theirs = calibrator.predict_proba(z)
    assert mine.dtype == theirs.dtype == dtype
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("n_classes", [3, 300])
def test_a_bad_logit_is_named_with_its_row_although_nothing_is_checked_before(value, n_classes):
    z, labels, _ = rows(400, n_classes)
    z[321, 1] = value
    with pytest.raises(nishimori.errors.InputError, match=r"row 321, column 1"):
        nishimori.from_temperature(2.0).predict_proba(z)
    with pytest.raises(nishimori.errors.InputError, match=r"row 321, column 1"):
        nishimori.evaluate(z, labels)


@pytest.mark.parametrize("n_classes", [4, 60])
def test_a_row_without_a_class_is_refused(n_classes):
    z = rows(100, n_classes)[0]
    z[17] = -np.inf
    with pytest.raises(nishimori.errors.InputError, match="at least one class"):
        nishimori.from_temperature(2.0).predict_proba(z)


def test_a_map_of_unchecked_logits_carries_nan_through():
    z = rows(50, 10)[0]
    z[4, 2] = np.nan
    found = nishimori.maps.Temperature(1.5).probabilities(z)
    assert np.isnan(found[4]).all()
    assert np.abs(np.delete(found, 4, axis=0) - softmax(np.delete(z, 4, axis=0), 1 / 1.5)).max() < 1e-6


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("n_classes", [3, 10, 100])
def test_a_scorecard_is_that_of_numpy_with_errors_and_bins(n_classes, counts, strategy, monkeypatch):
    z, labels, weights = rows(900, n_classes)
    z[::3] = np.round(z[::3])  # ties
    z[weights == 0] = np.nan
    weights = np.ceil(3 * weights) if counts else weights
    arguments = {"temperature": 1.3, "sample_weight": weights, "counts": counts, "strategy": strategy}
    mine = nishimori.evaluate(z, labels, **arguments)
    monkeypatch.setenv("NISHIMORI_KERNEL", "numpy")
    theirs = nishimori.evaluate(z, labels, **arguments)
    assert mine.n_samples == theirs.n_samples
    for name, estimate in theirs.estimates.items():
        assert mine[name].value == pytest.approx(estimate.value, rel=1e-12), name
        assert mine[name].se == pytest.approx(estimate.se, rel=1e-11), name
    for name in ("confidence", "accuracy", "weight", "count"):
        np.testing.assert_allclose(getattr(mine.reliability, name), getattr(theirs.reliability, name), rtol=1e-12)
    np.testing.assert_allclose(mine.reliability.lower, theirs.reliability.lower, rtol=1e-14)  # quantiles are confidences
    assert mine.interval("ece").high == pytest.approx(theirs.interval("ece").high, rel=1e-9)


def test_scores_are_summed_in_one_call_unless_there_are_masks_clusters_or_other_metrics(monkeypatch):
    z, labels, _ = rows(500, 10)
    calls = []
    original = native.score_sums
    monkeypatch.setattr(native, "score_sums", lambda *args, **kwargs: calls.append(1) or original(*args, **kwargs))

    def n_calls(logits, **arguments):
        calls.clear()
        nishimori.evaluate(logits, labels, **arguments)
        return len(calls)

    assert n_calls(z) == n_calls(z, temperature=2.0) == n_calls(np.asfortranarray(z)) == 1
    assert n_calls(z, clusters=np.arange(500) // 5) == n_calls(z, metrics=["ks"]) == 0
    assert n_calls(z.astype(np.float16)) == n_calls(np.abs(z) / np.abs(z).sum(1, keepdims=True), input="probabilities") == 0

    class Half(type(nishimori.evaluate(z, labels)["nll"].metric)):
        name = "half_nll"

        def of_rows(self, predictions):
            return -predictions.log_likelihood / 2

    assert n_calls(z, metrics=[Half()]) == 0
    card = nishimori.evaluate(z, labels, metrics=[Half()])
    assert card.half_nll == pytest.approx(card.nll / 2)


def test_a_huge_loss_is_that_of_numpy(monkeypatch):
    z, labels, _ = rows(300, 5, np.float64)
    mine = nishimori.evaluate(1e90 * z, labels, temperature=1e-50)
    monkeypatch.setenv("NISHIMORI_KERNEL", "numpy")
    theirs = nishimori.evaluate(1e90 * z, labels, temperature=1e-50)
    assert mine.nll == pytest.approx(theirs.nll, rel=1e-12)
    assert mine.nll > 1e130
    assert mine.nll_se == pytest.approx(theirs.nll_se)


@pytest.mark.parametrize("drop", [1e-9, 0.1, 1.0, 10.0, 40.0, 300.0])
@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_a_tiny_loss_keeps_its_digits(n_classes, drop):
    z = np.zeros((3, n_classes))
    z[:, 1:] = -drop
    sums, *_ = native.score_sums(z, np.zeros(3, int), np.ones(3), 1.0, np.array([0.5]), counts=False)
    expected = 3 * np.log1p((n_classes - 1) * np.exp(np.longdouble(-drop)))
    assert sums[4] == pytest.approx(float(expected), rel=2e-15, abs=0)


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("by", ["groups", "prediction"])
def test_temperatures_of_groups_are_those_of_numpy(by, method, monkeypatch):
    rng = np.random.default_rng(3)
    n, groups = 4000, rng.integers(4, size=4000)
    z = 3 * rng.normal(size=(n, 6))
    named = groups if by == "groups" else z.argmax(axis=1)
    labels = (z / np.array([1.0, 1.6, 2.5, 4.0, 1.2, 3.0])[named][:, None] + rng.gumbel(size=z.shape)).argmax(axis=1)
    z = z.astype(np.float32)

    def fitted():
        return nishimori.GroupConsistency(by=by, method=method).fit(z, labels, groups=groups if by == "groups" else None)

    mine = fitted()
    monkeypatch.setenv("NISHIMORI_KERNEL", "numpy")
    theirs = fitted()
    np.testing.assert_allclose(mine.temperatures_, theirs.temperatures_, rtol=1e-7)
    np.testing.assert_allclose(mine.temperatures_se_, theirs.temperatures_se_, rtol=1e-6)
    assert mine.n_passes_ >= 3


@pytest.mark.parametrize("n_classes", [3, 70])
@pytest.mark.parametrize(("dtype", "drops"), [(np.float32, (80, 90, 100, 110)), (np.float64, (700, 710, 735, 800))])
def test_probabilities_that_are_subnormal_numbers_are_not_zero(n_classes, dtype, drops):
    z = np.zeros((60, n_classes), dtype)
    z[:, 1] = -np.resize(drops, 60)
    z[::2, 2] = -np.inf
    found, is_unusual = native.softmax(z, 1.0)
    assert is_unusual
    with np.errstate(under="ignore"):
        weights = np.exp(z.astype(np.longdouble))
        expected = (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)
    least = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(found, expected, rtol=3e-7 if dtype == np.float32 else 1e-13, atol=least)
    assert (found[::2, 2] == 0).all()
    assert ((found == 0) == (expected == 0)).all()


@pytest.mark.parametrize("beta", [1.0, 0.37, 2.9])
@pytest.mark.parametrize("n_classes", [2, 5, 70])
@pytest.mark.parametrize(("dtype", "lowest", "rtol"), [(np.float32, -149, 3e-7), (np.float64, -1074, 2e-13)])
def test_probabilities_have_their_digits_from_one_to_the_least_subnormal_number(dtype, lowest, rtol, n_classes, beta):
    limits = np.finfo(dtype)
    powers = np.concatenate([RNG.uniform(lowest - 3, 0, 4000), RNG.uniform(lowest - 3, np.log2(limits.tiny) + 6, 4000)])
    z = np.full((8000, n_classes), -np.inf, dtype)
    z[:, 0], z[:, -1] = 0, powers * np.log(2) / beta
    found, _ = native.softmax(z, beta)
    with np.errstate(under="ignore"):
        expected = softmax(z, beta).astype(dtype)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=limits.smallest_subnormal)
    assert (expected[:, -1] > 0).mean() > 0.9
