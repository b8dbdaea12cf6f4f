"""Random rows of every kind for what the native kernel makes of probabilities, compared with formulas in extended precision.

Run as a script with the path of another library, such as one that checks its own memory, it uses that one instead.
"""

import sys
from pathlib import Path

import numpy as np
from native_cases import layout, logits_of

from nishimori._kernels import native

# Absolute: half a unit of the last place of numbers up to 1, and what a few roundings add.
TOLERANCE = {np.float32: 1e-7, np.float64: 1e-15}


def softmax(z, beta):
    """Probabilities in extended precision; ``beta`` is a number, or one per row."""
    z = z.astype(np.longdouble)
    drops = (z - z.max(axis=1, keepdims=True)) * np.reshape(np.asarray(beta, np.longdouble), (-1, 1))
    weights = np.exp(drops)
    return weights / weights.sum(axis=1, keepdims=True)


def shape(rng):
    """Numbers of rows and classes around those at which the kernel does something else."""
    n = rng.choice([0, 1, 2, 3, 47, 48, 49, 100, 239, 241, rng.integers(300)])
    return int(n), int(rng.integers(1, 71) if rng.random() < 0.7 else rng.integers(71, 600))


def check_random_softmax(seed):
    """Probabilities of one block, with masks and ties."""
    rng = np.random.default_rng(seed)
    n, k = shape(rng)
    dtype = (np.float32, np.float64)[rng.integers(2)]
    z, beta = logits_of(rng, n, k, dtype), float(10.0 ** rng.uniform(-2, 1))
    given = layout(z, rng)
    before = given.copy()
    found, is_unusual = native.softmax(given, beta)
    where = seed, n, k, dtype, beta
    assert found.dtype == dtype, where
    assert found.shape == (n, k), where
    assert is_unusual == bool(np.isinf(z).any()), where
    assert np.abs(found - softmax(z, beta)).max(initial=0) <= TOLERANCE[dtype], where
    assert not found[np.isinf(z)].any(), where
    # Each probability has a relative error of a few roundings, most of which all of a row share.
    assert np.abs(found.sum(axis=1, dtype=np.longdouble) - 1).max(initial=0) <= 4 * np.finfo(dtype).eps, where
    assert np.array_equal(given, before), where
    if n:
        z[rng.integers(n), rng.integers(k)] = rng.choice([np.nan, np.inf])
        assert native.softmax(z, beta)[1], where


def weighted_rows(rng, n, k, dtype):
    """Rows without masks, labels and weights; what a row of weight zero holds does not matter."""
    z = logits_of(rng, n, k, dtype)
    z[np.isinf(z)] = 0.0
    weights, labels = rng.random(n) * (rng.random(n) < 0.8), rng.integers(k, size=n)
    given, said = z.copy(), labels.copy()
    unseen = (weights == 0) & (rng.random(n) < 0.5)
    given[unseen], said[unseen] = rng.choice([np.nan, np.inf, -np.inf, 1e30]), rng.choice([-1, k, -(2**62)])
    return z, labels, weights, layout(given, rng), said


def spoiled(rng, z, labels, weights):
    """The same with one bad logit or label in a row that counts, or None if none counts."""
    (kept,) = np.nonzero(weights)
    if not len(kept):
        return None
    bad, wrong, row, k = z.copy(), labels.copy(), rng.choice(kept), z.shape[1]
    if rng.random() < 0.7:
        bad[row, rng.integers(k)] = rng.choice([np.nan, np.inf, -np.inf])
    else:
        wrong[row] = rng.choice([-1, k, 2**40, -(2**63)])
    return bad, wrong


def close(found, expected, size, where, rtol=1e-12):
    """Whether sums agree to all digits that terms of this size leave."""
    room = rtol * max(float(size), 1e-300)
    np.testing.assert_allclose(found, expected.astype(float), rtol=rtol, atol=room, err_msg=str(where))


def check_random_scores(seed):
    """Scores and bins of one block, from probabilities in extended precision."""
    rng = np.random.default_rng(seed)
    n, k = shape(rng)
    dtype = (np.float32, np.float64)[rng.integers(2)]
    z, labels, weights, given, said = weighted_rows(rng, n, k, dtype)
    spread = float(np.abs(z).max(initial=1))
    beta, counts = float(10.0 ** rng.uniform(-2, 1) / max(spread / 30, 1)), bool(rng.integers(2))
    n_bins = int(rng.choice([1, 2, 15, 100, 700]))
    inner = np.arange(1, n_bins) / n_bins if rng.random() < 0.5 else np.sort(rng.random(n_bins - 1) ** 0.1)
    sums, bins, is_unusual = native.score_sums(given, said, weights, beta, inner, counts=counts)
    where = seed, n, k, dtype, beta, n_bins
    assert not is_unusual, where
    p, rows, top = softmax(z, beta), np.arange(n), np.argmax(z, axis=1)
    right, confidence = (labels == top).astype(np.longdouble), p[rows, top]
    drops = z.astype(np.longdouble) - z.max(axis=1, keepdims=True).astype(np.longdouble)
    nll = np.log(np.exp(beta * drops).sum(axis=1)) - beta * drops[rows, labels]
    scores = np.stack([1 - right, confidence, nll, ((p - np.eye(k)[labels]) ** 2).sum(axis=1)])
    units = weights if counts else weights**2
    total = units.sum()
    mean = scores @ units / total if total > 0 else np.zeros(4)
    size = 1 + np.abs(nll).max(initial=0)
    close(sums[:2], np.array([weights.sum(), total]), n, where)
    close(sums[2:6], scores @ weights, size * n, where)
    close(sums[6:10], mean, size, where)
    close(sums[10:], ((scores - mean[:, None]) ** 2) @ units, size**2 * n, where)
    # A confidence on an edge may be moved over it by rounding, so edges that are close to one are left out.
    if not (np.abs(inner[:, None] - confidence[None, :]) < 1e-14).any():
        place, gap = np.searchsorted(inner, confidence.astype(float)), confidence - right
        rows_of_bins = weights, weights * confidence, weights * right, weights**2
        rows_of_bins += (units * gap**2, units * gap, units * confidence * (1 - confidence))
        expected = np.stack([np.bincount(place, each.astype(float), n_bins) for each in rows_of_bins], axis=1)
        close(bins, expected, n, where)
    bad = spoiled(rng, z, labels, weights)
    assert bad is None or native.score_sums(*bad, weights, beta, inner, counts=counts)[2], where


def check_random_groups(seed):
    """Sums per group of one block, of which each has a β of its own."""
    rng = np.random.default_rng(seed)
    n, k = shape(rng)
    dtype = (np.float32, np.float64)[rng.integers(2)]
    z, labels, weights, given, said = weighted_rows(rng, n, k, dtype)
    counts, method, by_top = bool(rng.integers(2)), ("ec", "ts")[rng.integers(2)], bool(rng.integers(2))
    number = k if by_top else int(rng.integers(1, 9))
    betas = 10.0 ** rng.uniform(-2, 1, number) / max(float(np.abs(z).max(initial=1)) / 30, 1)
    top, rows = np.argmax(z, axis=1), np.arange(n)
    codes = top if by_top else rng.integers(number, size=n)
    sums, is_unusual = native.group_sums(given, said, weights, None if by_top else codes, betas, method, counts=counts)
    where = seed, n, k, dtype, method, by_top
    assert not is_unusual, where
    p = softmax(z, betas[codes])
    x = (z.astype(np.longdouble) - z.max(axis=1, keepdims=True)) * betas[codes][:, None]
    mean, confidence = (p * x).sum(axis=1), p[rows, top]
    if method == "ec":
        gap, slope, variance = confidence - (labels == top), -confidence * mean, confidence * (1 - confidence)
    else:
        gap, slope = mean - x[rows, labels], (p * x**2).sum(axis=1) - mean**2
        variance = slope
    units = weights if counts else weights**2
    columns = weights > 0, weights, weights * gap, weights * slope, units * variance, units * gap**2
    expected = np.stack([np.bincount(codes, each.astype(float), number) for each in columns], axis=1)
    close(sums, expected, n * (1 + np.abs(x).max(initial=0)) ** 2, where)
    bad = spoiled(rng, z, labels, weights)
    assert bad is None or native.group_sums(*bad, weights, codes, betas, method, counts=counts)[1], where
    if n and weights.all():
        codes[rng.integers(n)] = rng.choice([-1, number, 2**40])
        assert native.group_sums(z, labels, weights, codes, betas, method, counts=counts)[1], where


def check(n_blocks, first=0):
    """Many of each."""
    for seed in range(first, first + n_blocks):
        check_random_softmax(seed)
        check_random_scores(seed)
        check_random_groups(seed)


if __name__ == "__main__":
    native._LIBRARY = Path(sys.argv[1])
    check(int(sys.argv[2]))
    sys.stdout.write(f"{native.description()} {native.library().source}\n")
