"""Random blocks of rows of every kind for the native kernel, each compared with sums in extended precision.

Run as a script with the path of another library, such as one that checks its own memory, it uses that one instead.
"""

import sys
from pathlib import Path

import numpy as np

from nishimori._kernels import native
from nishimori._support import arrays

# One weight has a relative error of 1e-7 in float32, and d itself one of 6e-8, which is multiplied by β·d.
TOLERANCE = {np.float32: 4e-6, np.float64: 3e-14}


def plain(z, betas, order):
    """Top classes and power sums in the most obvious way, in extended precision."""
    z = z.astype(np.longdouble)
    n = len(z)
    top = np.argmax(z, axis=1)
    d = z - z.max(axis=1, keepdims=True)
    live = d > -np.inf
    live[np.arange(n), top] = False
    d = np.where(live, d, 0)
    sums = np.zeros((len(betas), order + 1, n))
    for b, beta in enumerate(betas):
        w = np.where(live, d == 0 if beta == np.inf else np.exp(beta * d), 0)
        for j in range(order + 1):
            sums[b, j] = np.sum(w * d**j, axis=1)
    return top, sums


def layout(z, rng):
    """The same numbers elsewhere: at an odd place in memory, with strides, or in another order of bytes."""
    kind = rng.integers(6)
    if kind == 0:
        return z
    if kind == 1:
        return np.asfortranarray(z)
    if kind == 2:
        wide = np.full((2 * len(z), z.shape[1] + 3), np.nan, z.dtype)
        wide[::2, :-3] = z
        return wide[::2, :-3]
    if kind == 3:
        return z.astype(z.dtype.newbyteorder())  # as another machine would write them
    if kind == 4:
        return z[::-1, ::-1].copy()[::-1, ::-1]
    room = np.empty(z.nbytes + 1, np.uint8)
    moved = room[1:].view(z.dtype).reshape(z.shape) if z.size else z  # not aligned
    moved[...] = z
    return moved


def logits_of(rng, n, k, dtype):
    """Rows with masks, ties, constants and outliers. At least one class of each is live."""
    z = 10.0 ** rng.uniform(-2, 1.5) * rng.normal(size=(n, k))
    z += rng.choice([0, 0, 50]) * rng.normal(size=(n, 1))
    if rng.random() < 0.5 and k > 1:
        z[rng.random(z.shape) < rng.uniform(0, 0.9)] = -np.inf
        z[np.arange(n), rng.integers(k, size=n)] = rng.normal(size=n)
    if rng.random() < 0.3:
        z = np.round(z)  # ties
    return z.astype(dtype)


def check_random_block(seed):
    """One block through every function of the kernel."""
    rng = np.random.default_rng(seed)
    n, k = rng.choice([0, 1, 2, 47, 48, 49, 100, 239, 241, rng.integers(300)]), rng.integers(1, 71)
    k = k if rng.random() < 0.7 else rng.integers(71, 600)
    dtype = (np.float32, np.float64)[rng.integers(2)]
    z = logits_of(rng, int(n), int(k), dtype)
    given, order = layout(z, rng), int(rng.integers(6))
    spread = float(np.abs(z[np.isfinite(z)]).max(initial=1e-3))
    betas = tuple(10.0 ** rng.uniform(-2, 1, rng.integers(1, 4)) / max(spread, 1))
    betas = tuple(2.0**i * betas[0] for i in range(5)) if rng.random() < 0.3 else betas
    top, sums = plain(z, betas, order)
    found = native.power_sums(given, betas, order)
    np.testing.assert_array_equal(found.top, top)
    np.testing.assert_array_equal(found.peak, z[np.arange(n), top])
    # Weights of 1e-37 and less are zero in float32. A sum of few terms has one sign, but no more digits than its terms.
    floor = [1e-33 * (90 / beta) ** j for beta in betas for j in range(order + 1)]
    error = np.abs(found.sums - sums) - np.reshape(floor, (len(betas), order + 1, 1))
    assert np.all(error <= TOLERANCE[dtype] * np.abs(sums)), (seed, n, k, dtype, betas, order)
    weights = rng.random(n) * (rng.random(n) < 0.8)
    labels = rng.integers(k, size=n)
    unseen = rng.random(n) < 0.3  # what a row of weight zero holds does not matter
    if n:
        given = np.array(given)
        given[(weights == 0) & unseen] = rng.choice([np.nan, np.inf, 1e30])
        labels[(weights == 0) & unseen] = rng.choice([-1, k, -(2**62)])
    usual = bool(np.isfinite(z[weights > 0]).all())
    block = native.block_sums(given, labels, weights, betas[0], betas[-1], exact=bool(rng.integers(2)))
    assert (len(block) == 46) == usual, (seed, n, k)
    np.testing.assert_allclose(block[18:20], [weights.sum(), (weights**2).sum()], rtol=1e-12)
    kept = weights > 0
    assert block[40] == (labels == top)[kept].sum(), (seed, n, k)
    check_bad_values(rng, z, labels, weights, k)


def check_bad_values(rng, z, labels, weights, k):
    """One bad logit, or label, in a row that counts is noticed."""
    (kept,) = np.nonzero(weights)
    if not len(kept):
        return
    row = rng.choice(kept)
    bad, wrong = z.copy(), np.where(weights > 0, labels, 0)
    if rng.random() < 0.7:
        bad[row, rng.integers(k)] = rng.choice([np.nan, np.inf, -np.inf])
    else:
        wrong[row] = rng.choice([-1, k, 2**40, -(2**63)])
    assert len(native.block_sums(bad, wrong, weights, 0.5, 0.7)) == 42


def check_random_half(seed):
    """Rows in half precision as they are stored, at every β."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 5)), int(rng.integers(2**13, 2**13 + 40))
    half = (3 * rng.normal(size=(n, k))).astype(np.float16)
    half[:, rng.integers(k, size=9)] = rng.choice([-np.inf, 20.0, 0.0])
    if rng.random() < 0.5:
        half = (half.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(arrays._BFLOAT16)
    exact = arrays.half_values(arrays.dtype_name(half))[half.view(np.uint16)]
    betas = (0.7, 0.0, 1.4, np.inf, 0.33)
    found, (top, sums) = native.power_sums(half, betas, 3), plain(exact, betas, 3)
    np.testing.assert_array_equal(found.top, top)
    np.testing.assert_allclose(found.sums, sums, rtol=1e-12)
    labels = rng.integers(k, size=n)
    assert len(native.block_sums(half, labels, np.ones(n), 0.5, 0.7)) == (46 if np.isfinite(exact).all() else 42)
    labels[0] = k
    assert len(native.block_sums(half, labels, np.ones(n), 0.5, 0.7)) == 42


def check(n_blocks, n_half, first=0):
    """Many of them."""
    for seed in range(first, first + n_blocks):
        check_random_block(seed)
    for seed in range(first, first + n_half):
        check_random_half(seed)


if __name__ == "__main__":
    native._LIBRARY = Path(sys.argv[1])
    check(int(sys.argv[2]), 10)
    sys.stdout.write(f"{native.description()} {native.library().source}\n")
